"""The queries of each product: private rows and a budget, joined.

Every query is a `release_sums` of the kernel: a sum over customers of a vector of length at most 1,
on the integer grid, plus discrete Gaussian noise, charged to one budget before a row is read. What
a customer contributes depends on the customer's own row and on what earlier queries released, so
the queries compose exactly (docs/proofs/adaptive-transcript.md).

The classes here are all that post-processing gets of the customers: they return noisy numbers and
nothing else, whatever they are asked.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from wattveil.clustering.calendar import Calendar
from wattveil.clustering.cells import Cells, Statistics
from wattveil.engines.inputs import Values, value_rows
from wattveil.engines.local import LocalRows
from wattveil.errors import InvalidParameterError
from wattveil.privacy.budget import Budget
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import NoisyTotals, release_sums
from wattveil.privacy.rows import BoundRowFunction, FloatArray, IntArray, Rows
from wattveil.release.rows import day_features as day_rows
from wattveil.release.rows import group_places, nearest, projection
from wattveil.release.rows import synthesis_features as synthesis_rows
from wattveil.synthesis.calendar import YearCalendar
from wattveil.synthesis.coordinates import Coordinates
from wattveil.synthesis.days import day_width
from wattveil.synthesis.features import moment_width
from wattveil.synthesis.margins import margin_width

Noisy = tuple[FloatArray, float]
"""Released numbers and the standard deviation of the noise of each."""


def run_queries(
    rows: Rows[*tuple[Any, ...]],
    work: BoundRowFunction[Any],
    queries: Sequence[Query],
    budget: Budget,
) -> list[Noisy]:
    """Release what customers contribute to each query."""
    released: list[NoisyTotals] = [
        one.publish() for one in release_sums(rows, work, queries, budget)
    ]
    return [(one.value, one.std) for one in released]


def rows_by_group(
    load_kw: Rows[FloatArray],
    groups: Mapping[str, Values],
    levels: Mapping[str, Sequence[Hashable]],
) -> Rows[FloatArray, IntArray]:
    """Return the load of customers and the place of each one's group, or `NO_DATA`.

    ``groups`` holds the values of each attribute of ``levels``, by the name used in errors.
    """
    table: Any = load_kw
    for field, values in groups.items():
        is_local, is_given_locally = isinstance(load_kw, LocalRows), not isinstance(values, Rows)
        if is_local and not is_given_locally and not isinstance(values, LocalRows):
            raise InvalidParameterError("groups", "in memory, as load_kw is", "elsewhere")
        if not is_local and is_given_locally:
            rule = "columns of the engine that keeps load_kw"
            raise InvalidParameterError("groups", rule, type(values).__name__)
        table = table.beside(value_rows(values), field=field)
    found: Rows[FloatArray, IntArray] = table.select(group_places.with_places.bind(levels=levels))
    return found


class KMeansQueries:
    """The queries of K-means, on basis coordinates of the customers' load.

    Parameters
    ----------
    load_kw : Rows
        Load in kW, one row per customer.
    budget : Budget
        What every query is charged to.
    basis : (r, d)
        Public orthonormal curves, the smoothest first.
    normalise, longest : bool, float
        Scale every row to length 1, or clip it to this length.
    """

    def __init__(
        self,
        load_kw: Rows[FloatArray],
        budget: Budget,
        *,
        basis: FloatArray,
        normalise: bool,
        longest: float,
    ) -> None:
        work = projection.project_rows.bind(basis=basis, normalise=normalise, longest=longest)
        self._rows: Rows[FloatArray] = load_kw.select(work)
        self._budget = budget

    def keep_coordinates(self, coordinates: int) -> None:
        """Query the first coordinates only from now on."""
        if coordinates < self._rows.width:
            work = projection.first_coordinates.bind(columns=coordinates)
            self._rows = self._rows.select(work)

    def customers(self, *, rho_units: int) -> tuple[float, float]:
        """Release the number of customers; return it with its standard deviation."""
        query = Query(tag="number of customers", rho_units=rho_units, n_cells=1)
        counted, std = self._run(projection.one_cell.bind(), query)[0]
        return float(counted[0]), std

    def sizes(self, edges: FloatArray, *, coordinates: int, rho_units: int) -> Noisy:
        """Release a histogram of the length of the customers' first coordinates."""
        work = projection.size_cells.bind(edges=edges, coordinates=coordinates)
        return self._run(work, Query(tag="sizes", rho_units=rho_units, n_cells=edges.size + 1))[0]

    def costs(self, centroids: FloatArray, features: FloatArray, *, rho_units: int) -> FloatArray:
        """Release the sum of the features of the customers' costs under sets of centroids."""
        query = Query(
            tag="choice of merge", rho_units=rho_units, n_cells=1, n_features=features.shape[1]
        )
        work = nearest.cost_features.bind(centroids=centroids, features=features)
        return self._run(work, query)[0][0].ravel()

    def step(
        self,
        cells: Cells,
        *,
        colour: FloatArray,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        """Release, for each cell, the counts of its shells and the sum of its clipped offsets.

        A customer belongs to the nearest cell, and contributes the offset from its centre, in radii
        and colour, clipped to the unit ball. ``rho_units`` is for the counts and for the sums.
        """
        n_cells, columns = cells.middles.shape
        n_shells = len(shells) + 1
        for_counts, for_sums = rho_units
        work = nearest.nearest_offsets.bind(
            centres=cells.middles, radii=cells.radii, colour=colour, shells=np.array(shells)
        )
        (sums, sums_std), (counts, counts_std) = self._run(
            work,
            Query(tag=f"{tag}: offsets", rho_units=for_sums, n_cells=n_cells, n_features=columns),
            Query(tag=f"{tag}: counts", rho_units=for_counts, n_cells=n_cells * n_shells),
        )
        return Statistics(
            counts=counts.reshape(n_cells, -1), counts_std=counts_std, sums=sums, sums_std=sums_std
        )

    def _run(self, work: BoundRowFunction[Any], *queries: Query) -> list[Noisy]:
        return run_queries(self._rows, work, queries, self._budget)


class GroupLoadQueries:
    """The queries of the mean load of groups.

    Parameters
    ----------
    rows : Rows
        Load in kW and the place of each customer's group.
    budget : Budget
        What every query is charged to.
    """

    def __init__(self, rows: Rows[FloatArray, IntArray], budget: Budget) -> None:
        self._rows = rows
        self._budget = budget

    def customers(self, *, rho_units: int) -> float:
        """Release the number of customers of all groups together."""
        query = Query(tag="number of customers", rho_units=rho_units, n_cells=1)
        return float(self._run(projection.any_group_cell.bind(), query)[0][0])

    def sizes(
        self, edges: FloatArray, calendar: Calendar, *, n_groups: int, rho_units: int
    ) -> Noisy:
        """Release a histogram of the sizes of the customers of each group: (groups, cells)."""
        n_cells = n_groups * (edges.size + 1)
        query = Query(tag="sizes", rho_units=rho_units, n_cells=n_cells)
        work = projection.group_size_cells.bind(edges=edges, calendar=calendar)
        counts, std = self._run(work, query)
        return counts.reshape(n_groups, -1), std

    def counts(self, *, n_groups: int, rho_units: int) -> Noisy:
        """Release the number of customers of each group."""
        query = Query(tag="customers by group", rho_units=rho_units, n_cells=n_groups)
        return self._run(projection.group_cells.bind(), query)

    def sums(self, radii: FloatArray, calendar: Calendar, *, rho_units: int) -> Noisy:
        """Release the sum of each group's coordinates, in units of its radius, clipped to 1."""
        query = Query(
            tag="sums of load",
            rho_units=rho_units,
            n_cells=radii.size,
            n_features=calendar.colour.size,
        )
        work = projection.group_coordinates.bind(radii=radii, calendar=calendar)
        return self._run(work, query)

    def _run(self, work: BoundRowFunction[Any], query: Query) -> Noisy:
        return run_queries(self._rows, work, [query], self._budget)[0]


class SynthesisQueries:
    """The queries of the model of synthetic customers, around released centroids.

    Parameters
    ----------
    load_kw : Rows
        Load in kW, one row per customer.
    budget : Budget
        What every query is charged to.
    to : Coordinates
        Public coordinates around the centroids.
    longest : float
        Rows are clipped to this length.
    """

    def __init__(
        self, load_kw: Rows[FloatArray], budget: Budget, to: Coordinates, *, longest: float
    ) -> None:
        comparable = projection.comparable_rows.bind(normalise=False, longest=longest)
        work = nearest.with_nearest.bind(centroids=to.centroids)
        self._rows: Rows[FloatArray, IntArray] = load_kw.map(comparable).select(work)
        self._scores: Rows[FloatArray, IntArray] = self._rows.select(
            synthesis_rows.scores.bind(to=to)
        )
        self._to, self._budget = to, budget

    def exports(self, *, rho_units: int) -> Noisy:
        """Release the customers of each cluster without and with export: (clusters, 2)."""
        n_clusters = len(self._to.centroids)
        tag = "customers by cluster and export"
        query = Query(tag=tag, rho_units=rho_units, n_cells=2 * n_clusters)
        work = synthesis_rows.export_cells.bind()
        counts, std = run_queries(self._rows, work, [query], self._budget)[0]
        return counts.reshape(n_clusters, 2), std

    def lengths(self, edges: FloatArray, *, rho_units: int) -> Noisy:
        """Release a histogram of the lengths of the coordinates."""
        query = Query(tag="lengths", rho_units=rho_units, n_cells=edges.size + 1)
        work = synthesis_rows.length_cells.bind(edges=edges)
        return run_queries(self._scores, work, [query], self._budget)[0]

    def moments(self, radius: float, *, rho_units: int) -> Noisy:
        """Release the first and second moments of the coordinates of each cluster."""
        query = Query(
            tag="moments",
            rho_units=rho_units,
            n_cells=len(self._to.centroids),
            n_features=moment_width(self._to.n_coordinates),
        )
        work = synthesis_rows.moment_features.bind(radius=radius)
        return run_queries(self._scores, work, [query], self._budget)[0]

    def margins(self, means: FloatArray, deviations: FloatArray, *, rho_units: int) -> Noisy:
        """Release the cosine coefficients of the margins of the slots."""
        width = margin_width(means.shape[1] // self._to.n_days)
        query = Query(tag="margins", rho_units=rho_units, n_cells=1, n_features=width)
        work = synthesis_rows.margin_features.bind(to=self._to, means=means, deviations=deviations)
        return run_queries(self._rows, work, [query], self._budget)[0]


class YearQueries:
    """The queries of the days of a year, beside those of its typical days.

    Parameters
    ----------
    hours_kw : Rows
        Load in kW of all slots of consecutive local days, one row per customer.
    budget : Budget
        What every query is charged to.
    calendar : YearCalendar
        The public calendar of the rows.
    """

    def __init__(self, hours_kw: Rows[FloatArray], budget: Budget, calendar: YearCalendar) -> None:
        self._hours, self._budget, self._calendar = hours_kw, budget, calendar

    def sizes(self, edges: FloatArray, *, rho_units: int) -> Noisy:
        """Release a histogram of the root-mean-square typical load of the customers."""
        query = Query(tag="sizes of customers", rho_units=rho_units, n_cells=edges.size + 1)
        work = day_rows.typical_size_cells.bind(calendar=self._calendar, edges=edges)
        return run_queries(self._hours, work, [query], self._budget)[0]

    def days(self, edges: FloatArray, *, rho_units: int, spread_units: int) -> list[Noisy]:
        """Release sums of day features, and histograms of the spreads of shapes and levels."""
        width = day_width(self._calendar.n_slots)
        queries = [Query(tag="days", rho_units=rho_units, n_cells=1, n_features=width)] + [
            Query(tag=f"spreads of {what}", rho_units=spread_units, n_cells=edges.size + 1)
            for what in ("shapes", "levels")
        ]
        work = day_rows.day_features.bind(calendar=self._calendar, edges=edges)
        return run_queries(self._hours, work, queries, self._budget)
