"""Main result of the mean load in words: level, clipping, and highest and lowest hours.

Released tables have the standard error of each slot, not the correlation of slots. So errors of the
statements here are those that hold for any correlation, or for errors that slots share:

* The error of the mean over slots is at most the mean of the errors. Slots share the error of the
  level, so it is seldom much less.
* The difference of two slots is judged by the error of independent ones, ``sqrt(a^2 + b^2)``. An
  error that both share cancels in the difference, so the true one is smaller.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.products.product import Choice, Headline
from wattveil.products.ruled_load import published, rule_of, rule_sentence
from wattveil.products.segments import curves
from wattveil.products.tables import Table
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.formatting import format_number

_SMALL_KW = 0.01
_MIN_ERRORS = 2.0
"""Standard errors of a difference above which two slots are distinguishable."""
_MAX_SPELLS = 2
"""Spells of the day that are named; more cannot be told from the rest."""


def load_headline(tables: Mapping[str, Table], choice: Choice) -> Headline:
    """Return the mean load of all customers: level, clipping, highest and lowest hours."""
    if not {"load_shapes", "groups", "load_duration"} <= set(tables):
        return Headline()
    holds = ""
    if (rule := rule_of(choice.request)) is not None:
        holds, tables = rule_sentence(rule, tables["groups"]), published(tables)
    if not tables["groups"].data.num_rows:
        return Headline(f"No group of customers is published: none meets the rule {rule}.")
    drawn, groups = curves(tables["load_shapes"]), tables["groups"]
    counts = np.maximum(groups.column("customers"), 0.0)
    weights = counts / counts.sum() if counts.any() else np.full(counts.size, 1 / counts.size)
    means = np.array([curve.load for curve in drawn])
    errors = groups.column("customers_std")
    stds = tables["load_shapes"].column("std_kw").reshape(len(drawn), -1)
    mean = weights @ means
    std = joint_std(means, stds, weights, errors / max(counts.sum(), 1))
    request = choice.request
    kind = "listed" if rule is None else "published"
    names = "" if rule is None else f": {', '.join(groups.data['group'].to_pylist())}"
    whose = f" in the {kind} groups (by {request.by}{names})" if request.levels else ""
    where = f", {kind} groups" if request.levels else ""
    average = f"{_interval(mean.mean(), std.mean())} kW"
    energy = ""
    if choice.grid.cells == choice.grid.slots:
        energy = f" ({_energy(24.0 * mean.mean(), 24.0 * std.mean())} per day)"
    level, hidden, short = _clipping(groups, weights)
    number = f"{counts.sum():,.0f} ± {TWO_SIDED_95 * np.linalg.norm(errors):,.0f}"
    return Headline(
        f"The mean load per customer{whose} is {average}{energy}. Customers with a root-mean-square"
        f" load above {level} kW are clipped to it, and the mean is corrected for this. {hidden}"
        f" {extreme_hours(mean, std, drawn[0].along)}" + (f" {holds}" if holds else ""),
        (
            (average, f"mean load per customer{where}, clipped above {level} kW; {short}"),
            (number, f"estimated number of customers{where}"),
        ),
    )


def extreme_hours(mean: Floats, std: Floats, times: Sequence[str]) -> str:
    """Return when the load is highest and lowest, as far as noise permits to say.

    The released peak is stated at its own hour. Unless it differs from every other one by more than
    two standard errors of the difference, all hours are named that do not. If highest and lowest do
    not differ by as much, none is named.
    """
    high, low = int(mean.argmax()), int(mean.argmin())
    if mean[high] - mean[low] <= _MIN_ERRORS * np.hypot(std[high], std[low]):
        return "No hour is distinguishable from the others by more than the privacy noise."
    texts = []
    for name, at in (("peak", high), ("minimum", low)):
        near = np.abs(mean - mean[at]) <= _MIN_ERRORS * np.hypot(std, std[at])
        near[at] = True
        text = f"{name} of {_interval(mean[at], std[at])} kW at {times[at]}"
        if near.sum() > 1:
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


def _clipping(groups: Table, weights: Floats) -> tuple[str, str, str]:
    """Return the clipping level, or its range over groups, and its maximum bias, in two lengths."""
    levels = groups.column("clip_kw")
    low, high = (format_number(kw, 2) for kw in (levels.min(), levels.max()))
    level = high if low == high else f"{low} to {high} (by group)"
    bias_kw = float(weights @ groups.column("max_clipping_bias_kw"))
    if not bias_kw:
        covered = "the interval covers what very large customers could add"
        return level, f"{covered[0].upper()}{covered[1:]}.", covered
    most = format_number(bias_kw, 2)
    hidden = (
        "The noise could hide very large customers; in the worst case they would raise the mean by"
        f" {most} kW (see Load)."
    )
    return level, hidden, f"very large customers could add up to {most} kW"


def joint_std(means: Floats, stds: Floats, weights: Floats, weights_std: Floats) -> Floats:
    """Return the standard error of the mean over groups in each slot.

    With the weights w_g = n_g / n and the means m_g, to first order and with independent noise,

        Var(sum_g w_g m_g) = sum_g w_g^2 Var(m_g) + sum_g Var(n_g) / n^2 (m_g - m)^2.

    Groups may share errors, such as that of the clipping correction: it is for the peak only. There
    1.96 of it covered 95 to 100 % of 60 releases each of 1,409 simulated homes, by postcode and by
    class, at epsilon 0.3, 1 and 3; over all slots, 84 to 97 %.
    """
    own = np.square(weights[:, None] * stds).sum(axis=0)
    of_weights = np.square(weights_std[:, None] * (means - weights @ means)).sum(axis=0)
    found: Floats = np.sqrt(own + of_weights)
    return found


def _interval(load_kw: float, std_kw: float) -> str:
    """Return a load and its 95 % interval."""
    return f"{_rounded(load_kw)} ± {_rounded(TWO_SIDED_95 * std_kw)}"


def _energy(kwh: float, std_kwh: float) -> str:
    return f"{kwh:.1f} ± {TWO_SIDED_95 * std_kwh:.1f} kWh"


def _rounded(load_kw: float) -> str:
    """Return a load with two decimals, or two digits where these would be zeros."""
    return f"{load_kw:,.2f}" if abs(load_kw) >= _SMALL_KW else format_number(load_kw, 2)
