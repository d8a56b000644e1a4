"""Tables of a series: levels with the revised past, numbers of customers, trends, and raw sums.

Everything is computed from released numbers and public choices, so a reader of the bundles obtains
the same tables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from wattveil.arrays import Floats
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_segments import SegmentsOverTime, raw_segments, read_segments
from wattveil.numerics.series.centres import LENGTH_EDGES
from wattveil.numerics.series.smoothing import (
    FirstEstimate,
    Levels,
    Trend,
    duration_curves,
    levels,
    period_means,
    trend,
)
from wattveil.numerics.series.strategy import has_trend
from wattveil.privacy.guarantee import Guarantee, Spend
from wattveil.release.load_series import (
    LENGTHS,
    LOAD,
    MEMBERS,
    FirstRelease,
    LoadPeriod,
    ReleasedSeries,
    first_radii,
)
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.formatting import format_count
from wattveil.web.results import Result, ResultTable

EVENING = (17, 21)
"""Hours of the quantity `evening` of the trends."""
CLIPPED = (
    "Customers far above the typical load are clipped, and bands do not cover their load: publish"
    " homes and businesses as separate groups or series."
)
"""Limit of every series."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SeriesResult(Result):
    """Load by group over the periods released so far. Everything in it may be published."""

    request: SeriesRequest
    released: ReleasedSeries

    def __repr__(self) -> str:
        """Show periods, groups and the budget of the series."""
        groups = format_count(len(self.released.design.groups), "group")
        periods = f"{self.periods[0]} to {self.periods[-1]}"
        return f"SeriesResult({periods}, {groups}, epsilon {self.guarantee.epsilon:g} in total)"

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole series."""
        return self.released.guarantee

    @property
    def periods(self) -> tuple[str, ...]:
        """Names of all periods up to the last released one; skipped ones are interpolated."""
        return tuple(self.request.label(place) for place in range(self.released.mask.size))

    @property
    def skipped(self) -> frozenset[str]:
        """Names of the periods whose values are interpolated: nothing was released for them."""
        mask = self.released.mask
        return frozenset(one for one, seen in zip(self.periods, mask, strict=True) if not seen)

    @cached_property
    def _levels(self) -> Levels:
        first = self.released.begun()
        return levels(
            self.released.means(), calendar=first.calendar, clipping=first.radii.level_clipping
        )

    @property
    def load_kw(self) -> Floats:
        """(groups, periods, slots): mean load; the past is revised by later periods."""
        return self._levels[0]

    @property
    def std_kw(self) -> Floats:
        """(groups, periods, slots): standard error; without the load of clipped large customers."""
        return self._levels[1]

    @cached_property
    def duration(self) -> Levels:
        """(groups, periods, ranks): load of the whole group in descending order, and its error.

        It is that of the average day of a period, which has no extreme days.
        """
        mean, std = self.customers()
        return duration_curves(self._levels, customers=mean, customers_std=std)

    @property
    def clipping_warning(self) -> str:
        """What bands leave out, with the released number of very large customers.

        Post-processing of the histogram of period 1. Its last cell has no upper bound, and no
        public maximum of a load is declared, so that no bound on the bias follows from it.
        """
        first = self.released.begun()
        number = max(float(first.lengths[-1]), 0.0)
        return (
            f"{CLIPPED} In {self.periods[0]}, an estimated {number:.0f} ±"
            f" {TWO_SIDED_95 * first.lengths_std:.0f} customers were more than"
            f" {LENGTH_EDGES[-1]:.0f} typical loads from the mean of their group."
        )

    def customers(self, name: str = MEMBERS) -> tuple[Floats, Floats]:
        """Return numbers of customers, or of those with a property, and their standard errors."""
        found = self.released.counts(name)
        return found.mean, found.std

    @cached_property
    def segments(self) -> SegmentsOverTime:
        """Clusters of daily shapes since they were found last, if the series has any."""
        return SegmentsOverTime(request=self.request, released=self.released)

    @property
    def has_trend(self) -> bool:
        """Whether there are two years of periods."""
        design = self.released.design
        horizon = self.released.mask.size
        return has_trend(horizon=horizon, periods_per_year=design.periods_per_year)

    def trends(self) -> Mapping[str, Trend]:
        """Return the change per year of the mean load and of that of the evening, in kW.

        Below two years there is none: it may be season.
        """
        if not self.has_trend:
            return {}
        first = self.released.begun()
        customers = self.customers()[0]
        means = period_means(self.released.sums(), customers=customers)
        calendar = first.calendar
        slots = np.arange(calendar.n_slots) * 24 / calendar.n_slots
        evening = (slots >= EVENING[0]) & (slots < EVENING[1])
        quantities = {"mean": np.ones(slots.size, dtype=np.bool_), "evening": evening}
        curves = calendar.colour[:, None] * calendar.weights
        return {
            name: trend(
                means,
                released=self.released.mask,
                periods_per_year=self.released.design.periods_per_year,
                weights=curves[:, chosen].mean(axis=1),
                clipping_kw=first.radii.trend_clipping_kw(customers[:, -1]),
            )
            for name, chosen in quantities.items()
        }

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        found: dict[str, Callable[[], ResultTable]] = {
            "load": self._load,
            "load_duration": self._duration,
            "customers": self._customers,
            "trends": self._trends,
        }
        if self.released.design.n_segments:
            found |= self.segments._result_tables()  # noqa: SLF001 - same base
        return found

    def _load(self) -> ResultTable:
        return self._curves("slot", self._levels)

    def _duration(self) -> ResultTable:
        return self._curves("rank", self.duration)

    def _curves(self, along: str, found: Levels) -> ResultTable:
        groups = self.released.design.groups
        group, period, place = (part.ravel() for part in np.indices(found.mean_kw.shape))
        columns = {
            "group": [groups[number] for number in group],
            "period": [self.periods[number] for number in period],
            along: place,
            "load_kw": found.mean_kw.ravel(),
            "std_kw": found.std_kw.ravel(),
            "state": [self._state(int(number)) for number in period],
        }
        return ResultTable(columns, ("group", "period", along))

    def _state(self, period: int) -> str:
        """Return how a period was obtained: new, revised by later ones, or skipped."""
        if not self.released.mask[period]:
            return "skipped"
        return "new" if period == self.released.mask.size - 1 else "revised"

    def _customers(self) -> ResultTable:
        groups = self.released.design.groups
        parts: list[dict[str, list[Any]]] = []
        for name in self.released.design.counted:
            mean, std = self.customers(name)
            group, period = (part.ravel() for part in np.indices(mean.shape))
            parts.append(
                {
                    "counted": [name] * mean.size,
                    "group": [groups[place] for place in group],
                    "period": [self.periods[place] for place in period],
                    "customers": mean.ravel().tolist(),
                    "customers_std": std.ravel().tolist(),
                }
            )
        columns = {key: [one for part in parts for one in part[key]] for key in parts[0]}
        return ResultTable(columns, ("counted", "group", "period"))

    def _trends(self) -> ResultTable:
        groups = self.released.design.groups
        names = ("quantity", "group", "kw_per_year", "std", "smallest_visible_kw_per_year")
        rows = [
            (name, group, slope, std, visible)
            for name, found in self.trends().items()
            for group, slope, std, visible in zip(
                groups, found.slope, found.std, found.smallest_visible, strict=True
            )
        ]
        types: Sequence[Any] = (str, str, float, float, float)
        columns = {
            name: pa.array(
                [row[place] for row in rows], pa.string() if kind is str else pa.float64()
            )
            for place, (name, kind) in enumerate(zip(names, types, strict=True))
        }
        return ResultTable(pa.table(columns), ("quantity", "group"))


def raw_tables(released: ReleasedSeries) -> dict[str, pa.Table]:
    """Return what the last period released, as drawn: from these all tables follow."""
    last, first = released.periods[-1], released.begun()
    groups = [str(one) for one in released.design.groups]
    found = {
        "sums": pa.table(
            {
                "group": np.repeat(groups, last.sums.shape[1]),
                "coordinate": np.tile(np.arange(last.sums.shape[1]), len(groups)),
                "centre_kw": last.centres.ravel(),
                "sum": last.sums.ravel(),
            }
        ),
        "counts": pa.table(
            {
                "counted": np.repeat([*last.members], len(groups)),
                "group": np.tile(groups, len(last.members)),
                "sum": np.concatenate([*last.members.values()]),
            }
        ),
    }
    if last.segments is not None:
        found |= raw_segments(last.segments)
    if len(released.periods) > 1:
        return found
    estimate = first.estimate
    by_group = {name: getattr(estimate, name) for name in _BY_GROUP}
    return {
        **found,
        "first_means": pa.table(
            {
                "group": np.repeat(groups, estimate.mean.shape[1]),
                "coordinate": np.tile(np.arange(estimate.mean.shape[1]), len(groups)),
                "mean_kw": estimate.mean.ravel(),
                "variance": estimate.variance.ravel(),
            }
        ),
        "first_groups": pa.table({"group": groups, **by_group}),
        "first_lengths": pa.table(
            {"cell": np.arange(first.lengths.size), "customers": first.lengths}
        ),
    }


_BY_GROUP = ("typical_kw", "customers", "customers_std")


def read_period(
    past: ReleasedSeries,
    tables: Mapping[str, pa.Table],
    *,
    period: int,
    spends: tuple[Spend, ...],
) -> ReleasedSeries:
    """Return the series with one more period, from its raw tables and charges."""
    design = past.design
    n_groups = len(design.groups)
    sums = _column(tables["sums"], "sum").reshape(n_groups, -1)
    counted = _column(tables["counts"], "sum").reshape(-1, n_groups)
    std = {spend.tag: spend.drawn["scale"] * spend.drawn["step"] for spend in spends if spend.drawn}
    released = LoadPeriod(
        period=period,
        centres=_column(tables["sums"], "centre_kw").reshape(n_groups, -1),
        sums=sums,
        sums_std=std[LOAD],
        members=dict(zip(design.counted, counted, strict=True)),
        members_std={name: std[name] for name in design.counted},
        guarantee=design.guarantee,
        spends=spends,
        segments=(
            read_segments(tables, period=period, n_clusters=design.n_segments, std=std)
            if design.n_segments
            else None
        ),
    )
    first = past.first or _read_first(past, tables, sums.shape[1], std[LENGTHS])
    return ReleasedSeries(design=design, first=first, periods=(*past.periods, released))


def _read_first(
    past: ReleasedSeries, tables: Mapping[str, pa.Table], n_slots: int, lengths_std: float
) -> FirstRelease:
    n_groups = len(past.design.groups)
    estimate = FirstEstimate(
        mean=_column(tables["first_means"], "mean_kw").reshape(n_groups, -1),
        variance=_column(tables["first_means"], "variance").reshape(n_groups, -1),
        **{name: _column(tables["first_groups"], name) for name in _BY_GROUP},
    )
    lengths = _column(tables["first_lengths"], "customers")
    return FirstRelease(
        estimate=estimate,
        n_slots=n_slots,
        lengths=lengths,
        lengths_std=lengths_std,
        radii=first_radii(past.design, estimate, (lengths, lengths_std)),
    )


def _column(table: pa.Table, name: str) -> Floats:
    return np.array(table[name].to_numpy(), dtype=np.float64)
