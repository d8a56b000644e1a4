"""Segments over time: clusters of daily shapes that are found and followed over the periods.

The first period, those of the plan (`numerics.series.segment_plan`), and any other for which the
data holder decides so in public, are a private K-means of the customers' shapes; each
cluster has the number of the nearest one before. In every other period refining steps and a count
of sizes are queried around predicted centroids (`numerics.series.warm_clusters`). All are queries
of `KMeansQueries`, charged to the budget of the series. Everything else is post-processing: from
the released answers the same centroids follow again, which is how a reader of the bundles obtains
them.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.kmeans_stages import Cells, Statistics
from wattveil.numerics.load_basis import row_basis
from wattveil.numerics.series.segment_plan import CLEAR, Schedule, segment_schedule
from wattveil.numerics.series.warm_clusters import (
    Counted,
    WarmClusters,
    add_period,
    numbered_as,
    predicted_cells,
    start_following,
)
from wattveil.privacy.accounting import RHO_UNITS
from wattveil.privacy.guarantee import Budget
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.queries import KMeansQueries


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentDesign:
    """Public choices of the segments of a series."""

    n_clusters: int
    customers: int
    """Public estimate of the number of customers, by which the budget is divided."""
    horizon: int
    periods_per_year: int
    rho_units: int
    """Cost over all periods."""
    midsummer: int = 0
    """First period that contains midsummer, counted from 0; 0 also if none is known."""

    def schedule(self, period: int, found_in: tuple[int, ...]) -> Schedule:
        """Return the division in a period, and the cost of all periods up to it.

        ``found_in`` has the periods in which clusters are found.
        """
        return segment_schedule(
            units=self.rho_units,
            unit=RHO_UNITS,
            customers=self.customers,
            n_clusters=self.n_clusters,
            horizon=self.horizon,
            periods_per_year=self.periods_per_year,
            midsummer=self.midsummer,
            found_in=found_in,
            period=period,
        )

    def is_due(self, period: int, found_in: tuple[int, ...]) -> bool:
        """Whether the plan finds clusters in a period, after those in which they were found.

        If the period that is planned is skipped, it is the next one.
        """
        if not found_in:
            return True
        again = self.schedule(found_in[-1], found_in).plan.again
        return again is not None and period >= found_in[-1] + again

    def planned(self, found_in: tuple[int, ...] = (), period: int = 0) -> tuple[int, ...]:
        """Return the periods in which clusters are found, if none is skipped from ``period`` on."""
        for place in range(period, self.horizon):
            if self.is_due(place, found_in):
                found_in = (*found_in, place)
        return found_in


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentPeriod:
    """What one period released of the segments: clusters that were found, or steps and sizes."""

    period: int
    first: Cells | None = None
    """Clusters that were found in this period, in basis coordinates."""
    steps: tuple[Statistics, ...] = ()
    sizes: Counted | None = None


class Followed(NamedTuple):
    """Clusters since a period that found them."""

    since: int
    """Period in which they were found."""
    clusters: WarmClusters
    published: tuple[tuple[int, Cells], ...]
    """Period and clusters as they were published in it."""


def follow_segments(design: SegmentDesign, periods: tuple[SegmentPeriod, ...]) -> Followed:
    """Return the clusters since they were found last, from what the periods released."""
    return _followed(design, periods, *_starts(periods)[-1])


def all_segments(design: SegmentDesign, periods: tuple[SegmentPeriod, ...]) -> tuple[Followed, ...]:
    """Return the clusters of all periods: since each time they were found, until the next."""
    starts = _starts(periods)
    ends = (*(place for place, _ in starts[1:]), len(periods))
    return tuple(
        _followed(design, periods[:end], *start) for start, end in zip(starts, ends, strict=True)
    )


def _starts(periods: tuple[SegmentPeriod, ...]) -> list[tuple[int, Cells]]:
    """Return the places of the periods that found clusters, and these."""
    starts = [(place, one.first) for place, one in enumerate(periods) if one.first is not None]
    if not starts:
        raise InvalidParameterError(
            "segments", "those of a series with a period that found them", "none"
        )
    return starts


def _followed(
    design: SegmentDesign, periods: tuple[SegmentPeriod, ...], start: int, first: Cells
) -> Followed:
    """Return the clusters from the period at a place on that found them; post-processing."""
    since = periods[start].period
    clusters = start_following(
        first,
        periods_per_year=design.periods_per_year,
        signal=design.schedule(since, found_in(periods)).plan.signal,
    )
    published = [(since, first)]
    for place, one in enumerate(periods[start + 1 :], start=start + 1):
        clusters, cells = _with_period(
            design, clusters, _Replayed(one), periods[:place], period=one.period
        )
        published.append((one.period, cells))
    return Followed(since, clusters, tuple(published))


def found_in(periods: tuple[SegmentPeriod, ...]) -> tuple[int, ...]:
    """Return the periods in which clusters were found."""
    return tuple(one.period for one in periods if one.first is not None)


def release_segments(
    queries: KMeansQueries,
    budget: Budget,
    design: SegmentDesign,
    past: tuple[SegmentPeriod, ...],
    *,
    n_slots: int,
    period: int,
    anew: bool,
) -> SegmentPeriod:
    """Release the segments of one period: followed from those before, or found.

    They are found if the plan or a public decision (``anew``) says so.

    Post-processing, except for what `KMeansQueries` release and charge. They are those of
    shapes, of rows of one day with ``n_slots``.
    """
    begun = found_in(past)
    if anew or design.is_due(period, begun):
        units = period_units(design, past, period, (*begun, period))
        finder = _Finder(
            n_clusters=design.n_clusters,
            normalise=True,
            public_library=_known_shapes(design, past, period, n_slots=n_slots),
        )
        first = finder.find(queries, budget, units, n_slots)
        return numbered(design, past, SegmentPeriod(period=period, first=first))
    clusters = follow_segments(design, past).clusters
    queries.keep_coordinates(clusters.colour.size)
    asked = _Recorder(queries)
    _with_period(design, clusters, asked, past, period=period)
    return SegmentPeriod(period=period, steps=tuple(asked.steps), sizes=asked.sizes)


def numbered(
    design: SegmentDesign, past: tuple[SegmentPeriod, ...], found: SegmentPeriod
) -> SegmentPeriod:
    """Return clusters that a period found in the order of those predicted for it, if any."""
    if not past or found.first is None:
        return found
    before = _predicted(design, past, found.period)
    return replace(found, first=numbered_as(found.first, before))


def _predicted(design: SegmentDesign, past: tuple[SegmentPeriod, ...], period: int) -> Cells:
    """Return the clusters that earlier periods predict for a period."""
    last = follow_segments(design, past)
    return predicted_cells(last.clusters, period - last.since)


def _known_shapes(
    design: SegmentDesign, past: tuple[SegmentPeriod, ...], period: int, *, n_slots: int
) -> Floats | None:
    """Return the shapes of the predicted clusters, the largest first, for a K-means after them.

    They are released, hence public: with little signal, K-means that also begins at them misses
    small clusters less often. With more signal it gains nothing, and there are none.
    """
    signal = design.schedule(period, (*found_in(past), period)).plan.signal
    if not past or signal >= CLEAR:
        return None
    before = _predicted(design, past, period)
    shapes = before.centres @ row_basis(n_slots, 1)[: before.centres.shape[1]]
    largest_first: Floats = shapes[np.argsort(-before.counts)]
    return largest_first


class _Finder(PrivateKMeans):
    """K-means under a part of a budget that has earlier charges."""

    def find(self, queries: KMeansQueries, budget: Budget, units: int, n_slots: int) -> Cells:
        """Return the clusters in basis coordinates."""
        basis = row_basis(n_slots, 1)
        return self._find_clusters(queries, budget, granted=units, basis=basis, n_days=1)[0]


class _Replayed:
    """What a period released, as answers to the queries that were made."""

    def __init__(self, released: SegmentPeriod) -> None:
        self._released = released

    def step(
        self,
        cells: Cells,
        /,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        """Answer a query of a step by what was released: its tag ends with its number."""
        del cells, colour, shells, rho_units
        return self._released.steps[int(tag.rpartition(" ")[2]) - 1]

    def nearest(self, centres: Floats, /, *, rho_units: int, tag: str) -> tuple[Floats, float]:
        """Answer the query of sizes by what was released."""
        del centres, rho_units, tag
        if self._released.sizes is None:
            raise InvalidParameterError(
                "segments", "those of a series that releases the sizes of each period", "none"
            )
        return self._released.sizes


class _Recorder:
    """Queries of one period, and their answers."""

    def __init__(self, queries: KMeansQueries) -> None:
        self._queries = queries
        self.steps: list[Statistics] = []
        self.sizes: Counted | None = None

    def step(
        self,
        cells: Cells,
        /,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        """Query a refining step."""
        found = self._queries.step(
            cells, colour=colour, shells=shells, rho_units=rho_units, tag=tag
        )
        self.steps.append(found)
        return found

    def nearest(self, centres: Floats, /, *, rho_units: int, tag: str) -> tuple[Floats, float]:
        """Query the sizes."""
        self.sizes = Counted(*self._queries.nearest(centres, rho_units=rho_units, tag=tag))
        return self.sizes


def _with_period(
    design: SegmentDesign,
    clusters: WarmClusters,
    asked: _Replayed | _Recorder,
    past: tuple[SegmentPeriod, ...],
    *,
    period: int,
) -> tuple[WarmClusters, Cells]:
    """Return the clusters with one more period, whose queries ``asked`` answers."""
    begun = found_in(past)
    return add_period(
        asked.step,
        asked.nearest,
        clusters,
        place=period - begun[-1],
        units=period_units(design, past, period, begun),
        steps=design.schedule(begun[-1], begun).plan.steps,
        tag=f"segments, period {period + 1}",
    )


def period_units(
    design: SegmentDesign, past: tuple[SegmentPeriod, ...], period: int, begun: tuple[int, ...]
) -> int:
    """Return what has accrued by a period and was not spent before it."""
    spent = design.schedule(past[-1].period, begun).accrued if past else 0
    return design.schedule(period, begun).accrued - spent
