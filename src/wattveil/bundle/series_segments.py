"""Tables of the segments of a series: centroids as published, sizes over periods, drift, raw sums.

When clusters are found again, each has the number of the nearest one before. A customer belongs to
the nearest centroid that was published for the period.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from wattveil.arrays import Floats
from wattveil.bundle.series_request import SeriesRequest
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.kmeans_stages import Cells, Statistics
from wattveil.numerics.load_basis import row_basis
from wattveil.numerics.series.warm_clusters import (
    Counted,
    drift_lengths,
    published_curves,
    published_sizes,
)
from wattveil.privacy.guarantee import Guarantee
from wattveil.release.load_series import ReleasedSeries
from wattveil.release.segment_series import Followed, SegmentPeriod, all_segments, found_in
from wattveil.web.results import Result, ResultTable

FOUND_RAW = ("segment_cells", "segment_centres")
STEP_RAW = ("segment_counts", "segment_sums", "segment_nearest")
_BY_CELL = ("radii", "counts", "counts_variance")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SegmentsOverTime(Result):
    """Clusters of daily shapes over time. Everything in it may be published."""

    request: SeriesRequest
    released: ReleasedSeries

    @cached_property
    def _followed(self) -> tuple[Followed, ...]:
        """Clusters of each period that found them, until the next."""
        design = self.released.design.segments
        if design is None:
            raise InvalidParameterError("segments", "given at `wattveil series init`", 0)
        return all_segments(design, self.released.segments)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole series."""
        return self.released.guarantee

    @property
    def found_in(self) -> str:
        """Period in which the clusters were found last."""
        return self.request.label(self._followed[-1].since)

    @property
    def found_at(self) -> int:
        """Place of that period among the published ones."""
        return self.published.index(self.found_in)

    @property
    def periods(self) -> tuple[str, ...]:
        """All periods with sizes; one that was skipped between others is interpolated."""
        return tuple(period for period, _ in self._by_period)

    @property
    def published(self) -> tuple[str, ...]:
        """Periods with published centroids."""
        return tuple(
            self.request.label(place) for one in self._followed for place, _ in one.published
        )

    @cached_property
    def _by_period(self) -> tuple[tuple[str, str], ...]:
        """Each period, and the one that found its clusters."""
        label = self.request.label
        return tuple(
            (label(one.since + place), label(one.since))
            for one in self._followed
            for place in range(one.clusters.periods)
        )

    @cached_property
    def _curves(self) -> tuple[Floats, Floats]:
        basis = row_basis(self.released.begun().n_slots, 1)
        curves = [
            published_curves(cells, basis, is_found=place == one.since)
            for one in self._followed
            for place, cells in one.published
        ]
        centres, errors = zip(*curves, strict=True)
        return np.stack(centres, axis=1), np.stack(errors, axis=1)

    @property
    def centroids(self) -> Floats:
        """(clusters, published periods, slots): shapes of unit L2 norm, never revised."""
        return self._curves[0]

    @property
    def centroids_std(self) -> Floats:
        """(clusters, published periods, slots): standard error; of followed ones calibrated."""
        return self._curves[1]

    @cached_property
    def sizes(self) -> tuple[Floats, Floats]:
        """Customers of each cluster over periods, and standard errors; the past is revised.

        Those of clusters that were found again are not filtered with those before.
        """
        found = [published_sizes(one.clusters) for one in self._followed]
        mean, std = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        return mean, std

    @cached_property
    def drift(self) -> Floats:
        """(clusters, periods): distance of a centroid from where it was found, in radii."""
        return np.concatenate([drift_lengths(one.clusters) for one in self._followed], axis=1)

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"segments": self._centroid_table, "segment_sizes": self._size_table}

    def _centroid_table(self) -> ResultTable:
        """Return the centroids as they were published, one row per slot."""
        cluster, period, slot = (part.ravel() for part in np.indices(self.centroids.shape))
        found_in = dict(self._by_period)
        columns = {
            "cluster": cluster,
            "period": [self.published[place] for place in period],
            "slot": slot,
            "shape": self.centroids.ravel(),
            "shape_std": self.centroids_std.ravel(),
            "found_in": [found_in[self.published[place]] for place in period],
        }
        return ResultTable(columns, ("cluster", "period", "slot"))

    def _size_table(self) -> ResultTable:
        """Return sizes and drift, one row per cluster and period."""
        mean, std = self.sizes
        cluster, period = (part.ravel() for part in np.indices(mean.shape))
        columns = {
            "cluster": cluster,
            "period": [self.periods[place] for place in period],
            "customers": mean.ravel(),
            "customers_std": std.ravel(),
            "drift_radii": self.drift.ravel(),
            "found_in": [self._by_period[place][1] for place in period],
        }
        return ResultTable(columns, ("cluster", "period"))


def found_labels(request: SeriesRequest, released: ReleasedSeries) -> list[str]:
    """Return the names of the periods in which segments were found."""
    return [request.label(place) for place in found_in(released.segments)]


def planned_labels(request: SeriesRequest, released: ReleasedSeries) -> list[str]:
    """Return the names of the later periods in which the plan finds segments."""
    design, begun = released.design.segments, found_in(released.segments)
    if design is None:
        return []
    planned = design.planned(begun, released.released[-1] + 1)
    return [request.label(place) for place in planned[len(begun) :]]


def raw_segments(last: SegmentPeriod) -> dict[str, pa.Table]:
    """Return what a period released of the segments, as drawn; found clusters as estimated."""
    if last.first is not None:
        clusters, coordinates = (part.ravel() for part in np.indices(last.first.centres.shape))
        by_cell = {name: getattr(last.first, name) for name in _BY_CELL}
        return {
            "segment_cells": pa.table({"cluster": np.arange(len(last.first.radii)), **by_cell}),
            "segment_centres": pa.table(
                {
                    "cluster": clusters,
                    "coordinate": coordinates,
                    "centre": last.first.centres.ravel(),
                    "variance": last.first.variance.ravel(),
                }
            ),
        }
    sizes = np.zeros(0) if last.sizes is None else last.sizes.sizes
    return {
        "segment_counts": _steps([one.counts for one in last.steps], "shell", "count"),
        "segment_sums": _steps([one.sums for one in last.steps], "coordinate", "sum"),
        "segment_nearest": pa.table({"cluster": np.arange(sizes.size), "count": sizes}),
    }


def _steps(values: list[Floats], inner: str, name: str) -> pa.Table:
    """Return the numbers of all steps, (steps, clusters, inner), one per row."""
    whole = np.array(values) if values else np.zeros((0, 0, 0))
    step, cluster, place = (part.ravel() for part in np.indices(whole.shape))
    return pa.table({"step": step, "cluster": cluster, inner: place, name: whole.ravel()})


def read_segments(
    tables: Mapping[str, pa.Table], *, period: int, n_clusters: int, std: Mapping[str, float]
) -> SegmentPeriod:
    """Return the segments of a period from its raw tables; ``std`` has the noise by tag."""
    if "segment_cells" in tables:
        cells, centres = (tables[name] for name in FOUND_RAW)
        by_cell = {name: _column(cells, name) for name in _BY_CELL}
        first = Cells(
            centres=_column(centres, "centre").reshape(n_clusters, -1),
            variance=_column(centres, "variance").reshape(n_clusters, -1),
            **by_cell,
        )
        return SegmentPeriod(period=period, first=first)
    tag = f"segments, period {period + 1}"
    counts, sums, nearest = (tables[name] for name in STEP_RAW)
    n_steps = int(_column(sums, "step").max(initial=-1.0)) + 1
    by_step = [
        _column(table, name).reshape(max(n_steps, 1), n_clusters, -1)
        for table, name in ((counts, "count"), (sums, "sum"))
    ]
    steps = tuple(
        Statistics(
            counts=by_step[0][step],
            counts_std=std[f"{tag}, step {step + 1}: counts"],
            sums=by_step[1][step],
            sums_std=std[f"{tag}, step {step + 1}: offsets"],
        )
        for step in range(n_steps)
    )
    sizes = Counted(_column(nearest, "count"), std[f"{tag}, sizes"])
    return SegmentPeriod(period=period, steps=steps, sizes=sizes)


def _column(table: pa.Table, name: str) -> Floats:
    return np.array(table[name].to_numpy(), dtype=np.float64)
