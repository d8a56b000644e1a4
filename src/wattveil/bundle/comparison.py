"""Comparison of two released load curves: difference and ratio with 95 % intervals.

Post-processing of released tables: it costs no privacy budget. Errors of the two curves are taken
to be independent, so that the error of a difference is ``sqrt(a^2 + b^2)``. The noise of two
clusters or groups is independent, because no customer is in both. What they share is small: groups
are filtered towards their common mean, and both are corrected for clipping with sizes from the same
query. ``python benchmarks/bench_comparisons.py`` measures the coverage.

The interval of a ratio is Fieller's: all r for which ``a - r b`` is within 1.96 of its standard
errors ``sqrt(s_a^2 + r^2 s_b^2)`` from 0. It is stated where the denominator is above four standard
errors; below that it is wide, and without bounds below 1.96.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError, one_of
from wattveil.numerics.groups.aggregation_rule import CellStatus
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.curves import Curve
from wattveil.web.results import Result, ResultTable

if TYPE_CHECKING:
    from wattveil.bundle.release_tables import ReleaseTables

MIN_DENOMINATOR = 4.0
"""Standard errors above which a load may be a denominator."""
Compared = int | str | tuple[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Result):
    """Two load curves a and b: a - b and a / b in each slot, and for the mean of the slots."""

    first: Curve
    second: Curve

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"slots": self._slots, "mean": self._mean}

    def _statement(self) -> str:
        return (
            f"{self.first.name} compared with {self.second.name}; 95 % intervals of the privacy"
            " noise, with independent errors."
        )

    def __repr__(self) -> str:
        """Return which curves are compared, and the difference and ratio of their means."""
        found = _columns(*self._means())
        difference, low, high = (found[name][0] for name in _DIFFERENCE)
        text = f"difference of the means {difference:.3g} kW ({low:.3g} to {high:.3g})"
        ratio, low, high = (found[name][0] for name in _RATIO)
        if np.isnan(ratio):
            text += "; no ratio: the denominator is at most 4 standard errors"
        else:
            text += f"; ratio {ratio:.3g} ({low:.3g} to {high:.3g})"
        return f"Comparison({self.first.name}, {self.second.name}: {text})"

    def _slots(self) -> ResultTable:
        columns = _columns(*_with_errors(self.first), *_with_errors(self.second))
        keys = {"slot": np.arange(self.first.load.size), "time": self.first.along}
        return ResultTable({**keys, **columns}, ("slot",))

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


_DIFFERENCE = ("difference_kw", "difference_low_kw", "difference_high_kw")
_RATIO = ("ratio", "ratio_low", "ratio_high")


def compare(release: "ReleaseTables", first: Compared, second: Compared) -> Comparison:
    """Return the comparison of two segments, or of two groups, of a release.

    Parameters
    ----------
    release
        A release with centroids or load shapes, in kW.
    first, second
        Numbers of segments; pairs of group and number, if segments are by group; or names of
        groups, for their mean load.
    """
    by_group = isinstance(first, str) and isinstance(second, str)
    if isinstance(first, str) != isinstance(second, str):
        raise InvalidParameterError(
            "b", "of the same kind as a: two segments, or two groups", second
        )
    table = "load_shapes" if by_group else "centroids"
    known: dict[Compared, Curve] = {}
    if table in release.tables and "load_kw" in release._read(table).column_names:  # noqa: SLF001 - same package
        known = {_key(one, by_group=by_group): one for one in release._curves(table).curves}  # noqa: SLF001
        if len({one.group for one in known.values()}) == 1 and not by_group:
            known = {one.number: one for one in known.values()}
    if table not in release.tables:
        missing = "mean load by group" if by_group else "segments; compare groups by name"
        text = f"this release has no {missing}"
        raise InvalidParameterError("a", "in this release", first, text=text)
    suppressed = _suppressed(release) if by_group else {}
    for field, name in (("a", first), ("b", second)):
        if name in suppressed:
            rule = release.manifest["request"]["rule"]
            text = f"group {name!r} is suppressed by the rule {rule} (status: {suppressed[name]})"
            raise InvalidParameterError(field, "a published group", name, text=text)
        if name not in known:
            kind = "group" if by_group else "segment"
            rule = f"a {kind} with a load in kW in this release, {one_of(map(repr, known))}"
            raise InvalidParameterError(field, rule, name)
    if first == second:
        raise InvalidParameterError("b", "different from a", second, text="a and b must differ")
    return Comparison(first=known[first], second=known[second])


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
    reach = TWO_SIDED_95 * np.hypot(s_a, s_b)
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
        **dict(zip(_RATIO, (ratio, low, high), strict=True)),
    }
