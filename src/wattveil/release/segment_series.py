"""Segments over time: clusters of daily shapes that are found once and followed over the periods.

The first period, and any other for which the data holder decides so in public, is a private K-means
of the customers' shapes. In every other period refining steps and a count of sizes are queried
around predicted centroids (`numerics.series.warm_clusters`). All are queries of `KMeansQueries`,
charged to the budget of the series. Everything else is post-processing: from the released answers
the same centroids follow again, which is how a reader of the bundles obtains them.
"""

from dataclasses import dataclass
from typing import NamedTuple

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.kmeans_stages import Cells, Statistics
from wattveil.numerics.load_basis import row_basis
from wattveil.numerics.series.warm_clusters import (
    Counted,
    Schedule,
    WarmClusters,
    add_period,
    segment_schedule,
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
            found_in=found_in,
            period=period,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentPeriod:
    """What one period released of the segments: clusters that were found, or steps and sizes."""

    period: int
    first: Cells | None = None
    """Clusters that were found in this period, in basis coordinates."""
    steps: tuple[Statistics, ...] = ()
    sizes: Counted | None = None


class Followed(NamedTuple):
    """Clusters since they were found last."""

    since: int
    """Period in which they were found."""
    clusters: WarmClusters
    published: tuple[tuple[int, Cells], ...]
    """Period and clusters as they were published in it."""


def follow_segments(design: SegmentDesign, periods: tuple[SegmentPeriod, ...]) -> Followed:
    """Return the clusters that follow from what the periods released; post-processing."""
    found = [(place, one.first) for place, one in enumerate(periods) if one.first is not None]
    if not found:
        raise InvalidParameterError(
            "segments", "those of a series with a period that found them", "none"
        )
    start, first = found[-1]
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
    """Release the segments of one period: found anew, or followed from those before.

    Post-processing, except for what `KMeansQueries` release and charge. They are those of
    shapes, of rows of one day with ``n_slots``.
    """
    if anew or not past:
        units = period_units(design, past, period, (*found_in(past), period))
        finder = _Finder(n_clusters=design.n_clusters, normalise=True)
        return SegmentPeriod(period=period, first=finder.find(queries, budget, units, n_slots))
    clusters = follow_segments(design, past).clusters
    queries.keep_coordinates(clusters.colour.size)
    asked = _Recorder(queries)
    _with_period(design, clusters, asked, past, period=period)
    return SegmentPeriod(period=period, steps=tuple(asked.steps), sizes=asked.sizes)


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
