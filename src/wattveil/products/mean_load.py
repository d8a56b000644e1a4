"""Mean load of all customers: a result with errors, and the main result of the report in words.

Released tables have the standard error of each slot and group, not the correlation of slots or
groups. So errors of the statements here are those that hold for any correlation, or for errors that
slots share:

* The error of the mean over slots is at most the mean of the errors. Slots share the error of the
  level, so it is seldom much less.
* The error of the mean over groups is at most the weighted mean of their errors. Groups share the
  correction for clipping, and each is filtered towards the pooled curve.
* The difference of two slots is judged by the error of independent ones, ``sqrt(a^2 + b^2)``. An
  error that both share cancels in the difference, so the true one is smaller.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.products.product import Choice, Headline
from wattveil.products.ruled_load import no_group_meets, published, rule_of, rule_sentence
from wattveil.products.tables import Table
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.curves import Chart, Curve
from wattveil.web.formatting import format_number
from wattveil.web.results import ChartedResult, ResultTable

_SMALL_KW = 0.01
_MIN_ERRORS = 2.0
"""Standard errors of a difference above which two slots are distinguishable."""
_MAX_SPELLS = 2
"""Spells of the day that are named; more cannot be told from the rest."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MeanLoad(ChartedResult):
    """Mean load per customer of all customers of a release, with standard errors of the noise.

    Of a release by group, it is the mean of the listed groups, weighted by their released numbers
    of customers; under an aggregation rule, of the published ones.
    """

    load_kw: Floats
    """Mean load in each slot."""
    std_kw: Floats
    """Its standard error; over several groups, an upper limit of it."""
    times: tuple[str, ...]
    """Start of each slot, local time."""
    groups: tuple[str, ...]
    """Names of the groups that it is about; ``all`` without groups."""
    customers: float
    """Released number of customers."""
    customers_std: float
    max_clipping_bias_kw: float
    """Upper bound (97.5 %) on the bias from clipping, beyond the intervals."""

    def __repr__(self) -> str:
        """Return the mean over all slots with its 95 % interval, and the number of customers."""
        return f"MeanLoad({self._mean_text()}; 95 % intervals)"

    def _mean_text(self) -> str:
        average = _interval(self.load_kw.mean(), self.std_kw.mean())
        number = f"{self.customers:,.0f} ± {TWO_SIDED_95 * self.customers_std:,.0f} customers"
        where = f" in {len(self.groups)} groups" if len(self.groups) > 1 else ""
        return f"{average} kW per customer; {number}{where}"

    def _notes(self) -> Sequence[str]:
        return [f"Mean over all slots: {self._mean_text()}."]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"slots": self._slots, "mean": self._mean}

    def _slots(self) -> ResultTable:
        keys = {"slot": np.arange(self.load_kw.size), "time": [*self.times]}
        return ResultTable({**keys, **_with_interval(self.load_kw, self.std_kw)}, ("slot",))

    def _mean(self) -> ResultTable:
        """Return one row, with an error that is at least that of the mean over slots."""
        load, std = (np.array([values.mean()]) for values in (self.load_kw, self.std_kw))
        more = {
            "max_clipping_bias_kw": [self.max_clipping_bias_kw],
            "customers": [self.customers],
            "customers_std": [self.customers_std],
        }
        return ResultTable({**_with_interval(load, std), **more})

    def _statement(self) -> str:
        most = format_number(self.max_clipping_bias_kw, 2)
        return (
            "95 % intervals of the privacy noise; very large customers that are clipped could add"
            f" up to {most} kW to the mean."
        )

    def _chart(self) -> Chart:
        name = "all customers" if len(self.groups) == 1 else "all groups"
        curve = Curve(name, 0, [*self.times], self.load_kw, self.std_kw)
        return Chart([curve], "kW per customer", title=f"Mean load of {name}")


def mean_load(tables: Mapping[str, Table]) -> MeanLoad:
    """Return the mean load of all customers from the tables of a release that has one.

    Parameters
    ----------
    tables
        At least ``groups`` and ``load_shapes``; cells that a rule suppresses are left out.
    """
    shown = published(tables)
    groups, shapes = shown["groups"], shown["load_shapes"]
    customers, errors = (groups.column(name) for name in ("customers", "customers_std"))
    means, stds = (
        shapes.column(name).reshape(customers.size, -1) for name in ("load_kw", "std_kw")
    )
    weights = _weights(customers)
    load_kw, std_kw = mean_of_groups(means, stds, customers, errors)
    return MeanLoad(
        load_kw=load_kw,
        std_kw=std_kw,
        times=tuple(shapes.data["time"].to_pylist()[: load_kw.size]),
        groups=tuple(groups.data["group"].to_pylist()),
        customers=float(np.maximum(customers, 0.0).sum()),
        customers_std=float(np.linalg.norm(errors)),
        max_clipping_bias_kw=float(weights @ groups.column("max_clipping_bias_kw")),
    )


def why_no_mean_load(request: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """Return why a release has no mean load; empty if it has one.

    Parameters
    ----------
    request
        The request in the manifest.
    """
    if not {"groups", "load_shapes"} <= set(tables):
        return "this release has no mean load: it was made without the product load"
    if not published(tables)["groups"].data.num_rows:
        return f"{no_group_meets(request['rule'])}: there is no mean load"
    return ""


def mean_of_groups(
    means: Floats, stds: Floats, customers: Floats, customers_std: Floats
) -> tuple[Floats, Floats]:
    """Return the mean over groups in each slot, and an upper limit of its standard error.

    With the weights w_g = n_g / n and the means m_g, to first order,

        Var(sum_g w_g m_g) <= (sum_g w_g std(m_g))^2 + sum_g Var(n_g) / n^2 (m_g - m)^2.

    The first term is that of fully correlated errors. Those of groups are correlated: each is
    filtered towards the pooled curve, and all are corrected for clipping by sizes of one query.
    docs/load-shapes.md has the measured coverage.
    """
    weights = _weights(customers)
    mean = weights @ means
    weights_std = customers_std / max(float(np.maximum(customers, 0.0).sum()), 1.0)
    of_weights = np.square(weights_std[:, None] * (means - mean)).sum(axis=0)
    std: Floats = np.sqrt(np.square(weights @ stds) + of_weights)
    return mean, std


def _weights(customers: Floats) -> Floats:
    """Return the shares of groups; equal ones if no group has a positive number of customers."""
    counts = np.maximum(customers, 0.0)
    return counts / counts.sum() if counts.any() else np.full(counts.size, 1 / counts.size)


def _with_interval(load: Floats, std: Floats) -> dict[str, Floats]:
    """Return a load with its standard error and both ends of its 95 % interval."""
    reach = TWO_SIDED_95 * std
    return {"load_kw": load, "std_kw": std, "low_kw": load - reach, "high_kw": load + reach}


def load_headline(tables: Mapping[str, Table], choice: Choice) -> Headline:
    """Return the mean load of all customers: level, clipping, highest and lowest hours."""
    if not {"load_shapes", "groups", "load_duration"} <= set(tables):
        return Headline()
    holds = ""
    if (rule := rule_of(choice.request)) is not None:
        holds, tables = rule_sentence(rule, tables["groups"]), published(tables)
    if not tables["groups"].data.num_rows:
        return Headline(f"No group of customers is published: none meets the rule {rule}.")
    found = mean_load(tables)
    mean, std = found.load_kw, found.std_kw
    request = choice.request
    kind = "listed" if rule is None else "published"
    own = (one.removeprefix(f"{request.by}: ") for one in found.groups)
    names = "" if rule is None else f": {', '.join(own)}"
    whose = f" in the {kind} groups (by {request.by}{names})" if request.levels else ""
    where = f", {kind} groups" if request.levels else ""
    average = f"{_interval(mean.mean(), std.mean())} kW"
    energy = ""
    if choice.grid.cells == choice.grid.slots:
        energy = f" ({_energy(24.0 * mean.mean(), 24.0 * std.mean())} per day)"
    level, hidden, short = _clipping(tables["groups"], found.max_clipping_bias_kw)
    aside = ""
    if request.levels and found.max_clipping_bias_kw:
        # The bound of small groups is many times their mean load: it needs the text of its section.
        hidden, short = "", "very large customers aside, see Load"
        aside = f"{energy.removesuffix(')')}; {short})" if energy else f" ({short})"
        energy = ""
    number = f"{found.customers:,.0f} ± {TWO_SIDED_95 * found.customers_std:,.0f}"
    clipped = (
        f"Customers with a root-mean-square load above {level} are clipped to it, and the mean is"
        " corrected for this."
    )
    sentences = (
        f"The mean load per customer{whose} is {average}{energy}{aside}.",
        extreme_hours(mean, std, found.times),
        clipped,
        hidden,
        holds,
    )
    return Headline(
        " ".join(filter(None, sentences)),
        (
            (average, f"mean load per customer{where}{f'; {short}' if short else ''}"),
            (number, f"estimated number of customers{where}"),
        ),
    )


def extreme_hours(mean: Floats, std: Floats, times: Sequence[str]) -> str:
    """Return when the load is highest and lowest, as far as noise permits to say.

    The released peak is stated at its own hour. Unless it differs from every other one by more than
    two standard errors of the difference, all hours are named that do not, or none if they are more
    than half of them. If highest and lowest do not differ by as much, none is named.
    """
    high, low = int(mean.argmax()), int(mean.argmin())
    if mean[high] - mean[low] <= _MIN_ERRORS * np.hypot(std[high], std[low]):
        return "No hour is distinguishable from the others by more than the privacy noise."
    texts = []
    for name, at in (("peak", high), ("minimum", low)):
        near = np.abs(mean - mean[at]) <= _MIN_ERRORS * np.hypot(std, std[at])
        near[at] = True
        text = f"{name} of {_interval(mean[at], std[at])} kW at {times[at]}"
        if 2 * near.sum() > near.size:  # more than 12 hours of a day
            text += f" (the hour of the true {name} is not known)"
        elif near.sum() > 1:
            text += f" (the true {name} may lie {_where(near, times)})"
        texts.append(text)
    return f"The mean load has its {' and its '.join(texts)}."


def _where(near: NDArray[np.bool_], times: Sequence[str]) -> str:
    """Return the spells of slots that are marked."""
    starts = np.flatnonzero(near & ~np.roll(near, 1))
    if not starts.size or starts.size > _MAX_SPELLS:
        return "at an hour that noise does not permit to name"
    size, spells = near.size, []
    for start in starts.tolist():
        length = int(np.argmin(np.roll(near, -start)))
        spells.append(f"from {times[start]} to {times[(start + length) % size]}")
    return f"anywhere {' or '.join(spells)}"


def _clipping(groups: Table, bias_kw: float) -> tuple[str, str, str]:
    """Return the clipping level, or its range over groups, and its maximum bias, in two lengths."""
    levels = groups.column("clip_kw")
    low, high = (format_number(kw, 2) for kw in (levels.min(), levels.max()))
    level = f"{high} kW" if low == high else f"{low} to {high} kW (by group)"
    if not bias_kw:
        return level, "The interval covers what very large customers could add.", ""
    most = format_number(bias_kw, 2)
    hidden = (
        "Very large customers hidden by the noise could, at worst, raise the true mean by up to"
        f" {most} kW (see Load)."
    )
    return level, hidden, f"very large customers could add up to {most} kW"


def _interval(load_kw: float, std_kw: float) -> str:
    """Return a load and its 95 % interval."""
    return f"{_rounded(load_kw)} ± {_rounded(TWO_SIDED_95 * std_kw)}"


def _energy(kwh: float, std_kwh: float) -> str:
    return f"{kwh:.1f} ± {TWO_SIDED_95 * std_kwh:.1f} kWh"


def _rounded(load_kw: float) -> str:
    """Return a load with two decimals, or two digits where these would be zeros."""
    return f"{load_kw:,.2f}" if abs(load_kw) >= _SMALL_KW else format_number(load_kw, 2)
