"""Comparison of two released load curves, of one release or of two, with 95 % intervals.

Post-processing of released tables: it costs no privacy budget. Errors of the two curves are taken
to be independent, so that the error of a difference is ``sqrt(a^2 + b^2)``. The noise of two
clusters or groups is independent, because no customer is in both. What they share is small: groups
are filtered towards their common mean, and both are corrected for clipping with sizes from the same
query. ``python benchmarks/bench_comparisons.py`` measures the coverage. Two releases draw their
noise independently, also about the same customers.

The interval of a ratio is Fieller's: all r for which ``a - r b`` is within 1.96 of its standard
errors ``sqrt(s_a^2 + r^2 s_b^2)`` from 0. It is stated where the denominator is above four standard
errors; below that it is wide, and without bounds below 1.96.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError, one_of
from wattveil.numerics.groups.aggregation_rule import CellStatus
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.curves import Chart, Curve
from wattveil.web.results import ChartedResult, ResultTable

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from wattveil.bundle.release_tables import ReleaseTables

MIN_DENOMINATOR = 4.0
"""Standard errors above which a load may be a denominator."""
Compared = int | str | tuple[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(ChartedResult):
    """Two load curves a and b: a - b and a / b in each slot, and for the mean of the slots."""

    first: Curve
    second: Curve

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"slots": self._slots, "mean": self._mean}

    def plot(self, of: Literal["curves", "difference"] = "curves") -> "Figure":
        """Return a Plotly figure with 95 % bands (± 1.96 standard errors) of the privacy noise.

        Parameters
        ----------
        of
            ``curves``, both; or ``difference``, a - b. Judge by the difference: bands of two curves
            may overlap where their difference is clear.
        """
        from wattveil.web.curves import chart_figure  # noqa: PLC0415 - slow to load

        charts = {"curves": self._chart, "difference": self._difference}
        if of not in charts:
            raise InvalidParameterError("of", one_of(charts), of)
        figure = chart_figure(charts[of]())
        if of == "difference":
            from wattveil.web.charts import INK  # noqa: PLC0415 - loads Plotly

            figure.update_yaxes(zeroline=True, zerolinecolor=INK, zerolinewidth=1.5)
        return figure

    def _chart(self) -> Chart:
        pair = (self.first, self.second)
        drawn = [curve._replace(number=number) for number, curve in enumerate(pair)]
        title = f"{self.first.name} and {self.second.name}"
        return Chart(drawn, "kW per customer", title=title)

    def _difference(self) -> Chart:
        (a, s_a), (b, s_b) = _with_errors(self.first), _with_errors(self.second)
        name = f"{self.first.name} − {self.second.name}"
        curve = Curve(name, 0, self.first.along, a - b, np.hypot(s_a, s_b))
        return Chart([curve], "kW per customer", title=f"Difference: {name}")

    def _statement(self) -> str:
        return (
            f"{self.first.name} compared with {self.second.name}; 95 % intervals for privacy noise,"
            " treating the two errors as independent."
        )

    def __repr__(self) -> str:
        """Return which curves are compared, and the difference and ratio of their means."""
        return f"Comparison({self.first.name}, {self.second.name}: {self._of_means()})"

    def _notes(self) -> Sequence[str]:
        found = self._of_means()
        return [f"{found[0].upper()}{found[1:]}."]

    def _shown_columns(self) -> Sequence[str] | None:
        return ("time", "a_kw", "b_kw", *_DIFFERENCE, *_RATIO)

    def _of_means(self) -> str:
        found = _columns(*self._means())
        difference, low, high = (found[name][0] for name in _DIFFERENCE)
        text = f"difference of the means {difference:.3g} kW ({low:.3g} to {high:.3g})"
        ratio, low, high = (found[name][0] for name in _RATIO)
        if np.isnan(ratio):
            text += "; no ratio: the denominator is at most 4 standard errors"
        else:
            text += f"; ratio {ratio:.3g} ({low:.3g} to {high:.3g})"
        return text

    def _slots(self) -> ResultTable:
        columns = _columns(*_with_errors(self.first), *_with_errors(self.second))
        n_slots = self.first.load.size
        keys = {"slot": np.arange(n_slots), "time": self.first.along}
        difference = columns["difference_kw"]
        reach = simultaneous_errors(n_slots) * columns["difference_std_kw"]
        jointly = dict(zip(_SIMULTANEOUS, (difference - reach, difference + reach), strict=True))
        return ResultTable({**keys, **columns, **jointly}, ("slot",))

    def _mean(self) -> ResultTable:
        return ResultTable(_columns(*self._means()))

    def _means(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return both means over slots, and errors that are at least theirs.

        Errors of slots are correlated: that of their mean is at most the mean of the errors.
        """
        first, first_std = _with_errors(self.first)
        second, second_std = _with_errors(self.second)
        means = (np.array([values.mean()]) for values in (first, first_std, second, second_std))
        a, s_a, b, s_b = means
        return a, s_a, b, s_b


def simultaneous_errors(n_slots: int) -> float:
    """Return the standard errors on either side that cover all slots together in 95 % of cases.

    Bonferroni: each slot misses with a probability of at most 5 % / slots, so that one of them does
    with at most 5 %, whatever the correlation of their errors.

    >>> round(simultaneous_errors(24), 2), round(simultaneous_errors(1), 2)
    (3.08, 1.96)
    """
    return NormalDist().inv_cdf(1.0 - 0.025 / n_slots)


_DIFFERENCE = ("difference_kw", "difference_low_kw", "difference_high_kw")
_SIMULTANEOUS = ("simultaneous_low_kw", "simultaneous_high_kw")
_RATIO = ("ratio", "ratio_low", "ratio_high")


def compare(
    release: "ReleaseTables",
    first: Compared,
    second: Compared,
    *,
    other: "ReleaseTables | None" = None,
) -> Comparison:
    """Return the comparison of two segments, or of two groups, of one release or of two.

    Parameters
    ----------
    release
        A release with centroids or load shapes, in kW.
    first, second
        Numbers of segments; pairs of group and number, if segments are by group; or names of
        groups, for their mean load.
    other
        The release of ``second``, which is then the name of a group; None for the same one. In a
        release by group, ``all`` is the mean load of its groups together.
    """
    if other is not None and other.manifest["release_id"] != release.manifest["release_id"]:
        return _of_two(release, first, other, second)
    by_group = isinstance(first, str) and isinstance(second, str)
    if isinstance(first, str) != isinstance(second, str):
        raise InvalidParameterError(
            "b", "of the same kind as a: two segments, or two groups", second
        )
    a, b = (
        _found(release, name, field=field, by_group=by_group)
        for field, name in (("a", first), ("b", second))
    )
    if first == second:
        raise InvalidParameterError("b", "different from a", second, text="a and b must differ")
    return Comparison(first=a, second=b)


def _of_two(
    release: "ReleaseTables", first: Compared, other: "ReleaseTables", second: Compared
) -> Comparison:
    """Compare groups of two releases, whose names tell them apart."""
    for field, name in (("a", first), ("b", second)):
        if not isinstance(name, str):
            rule = "the name of a group: each release finds segments of its own"
            raise InvalidParameterError(field, rule, name)
    a, b = (
        _together(one) if _is_together(one, name) else _found(one, name, field=field, by_group=True)
        for one, name, field in ((release, first, "a"), (other, second, "b"))
    )
    if a.along != b.along:
        rule = "a release with the same slots: times of day differ"
        raise InvalidParameterError("other", rule, f"{len(b.along)} slots")
    titles = [str(one.manifest["title"]) for one in (release, other)]
    if titles[0] == titles[1]:
        titles = [one._short_name for one in (release, other)]  # noqa: SLF001 - same package
    a, b = (
        one._replace(name=f"{one.name} ({title})")
        for one, title in zip((a, b), titles, strict=True)
    )
    return Comparison(first=a, second=b)


def _is_together(release: "ReleaseTables", name: Compared) -> bool:
    """Whether a name means all groups of a release together, and not one of them."""
    levels = release.manifest["request"]["levels"]
    return name == ALL_CUSTOMERS[0] and bool(levels) and name not in levels


def _together(release: "ReleaseTables") -> Curve:
    """Return the mean load of all groups of a release."""
    found = release.mean_load()
    return Curve("all groups", 0, [*found.times], found.load_kw, found.std_kw)


def _found(release: "ReleaseTables", name: Compared, *, field: str, by_group: bool) -> Curve:
    """Return the curve of a segment or a group; refuse one that is not there, or suppressed."""
    table = "load_shapes" if by_group else "centroids"
    known: dict[Compared, Curve] = {}
    if table in release.tables and "load_kw" in release._read(table).column_names:  # noqa: SLF001 - same package
        known = {_key(one, by_group=by_group): one for one in release._curves(table).curves}  # noqa: SLF001
        if len({one.group for one in known.values()}) == 1 and not by_group:
            known = {one.number: one for one in known.values()}
    if table not in release.tables:
        missing = "mean load by group" if by_group else "segments; compare groups by name"
        text = f"this release has no {missing}"
        raise InvalidParameterError(field, "in this release", name, text=text)
    suppressed = _suppressed(release) if by_group else {}
    if name in suppressed:
        rule = release.manifest["request"]["rule"]
        text = f"group {name!r} is suppressed by the rule {rule} (status: {suppressed[name]})"
        raise InvalidParameterError(field, "a published group", name, text=text)
    if name not in known:
        kind = "group" if by_group else "segment"
        rule = f"a {kind} with a load in kW in this release, {one_of(map(repr, known))}"
        raise InvalidParameterError(field, rule, name)
    return known[name]


def _suppressed(release: "ReleaseTables") -> dict[Compared, str]:
    """Return the status of each group that an aggregation rule suppresses, by name."""
    groups = release._read("groups")  # noqa: SLF001 - same package
    if "status" not in groups.column_names:
        return {}
    rows = groups.select(["group", "status"]).to_pylist()
    return {row["group"]: row["status"] for row in rows if row["status"] != CellStatus.PUBLISHED}


def _key(curve: Curve, *, by_group: bool) -> Compared:
    return curve.group if by_group else (curve.group, curve.number)


def _with_errors(curve: Curve) -> tuple[Floats, Floats]:
    if curve.std is None:
        rule = "a release of the global tier: standard errors of the instance tier are not released"
        raise InvalidParameterError("bundle", rule, "without standard errors")
    return curve.load, curve.std


def _columns(a: Floats, s_a: Floats, b: Floats, s_b: Floats) -> dict[str, Floats]:
    """Return both loads, difference and ratio, with intervals; NaN where there is no ratio."""
    std = np.hypot(s_a, s_b)
    reach = TWO_SIDED_95 * std
    clear = np.abs(b) > MIN_DENOMINATOR * s_b
    ratio, low, high = np.full((3, a.size), np.nan)
    # Fieller: (a - r b)^2 = z^2 (s_a^2 + r^2 s_b^2) is a quadratic in r.
    z2 = TWO_SIDED_95**2
    square = np.square(b[clear]) - z2 * np.square(s_b[clear])
    middle = a[clear] * b[clear]
    rest = np.square(a[clear]) - z2 * np.square(s_a[clear])
    root = np.sqrt(np.square(middle) - square * rest)
    ratio[clear] = a[clear] / b[clear]
    low[clear], high[clear] = (middle - root) / square, (middle + root) / square
    return {
        "a_kw": a,
        "b_kw": b,
        **dict(zip(_DIFFERENCE, (a - b, a - b - reach, a - b + reach), strict=True)),
        "difference_std_kw": std,
        **dict(zip(_RATIO, (ratio, low, high), strict=True)),
    }
