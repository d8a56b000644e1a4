"""The queries of each product, and the group of each customer.

Every query is a `PrivateTable.release` of the kernel: a sum over customers of a vector of length at
most 1, on the integer grid, plus discrete Gaussian noise, charged to one budget before a row is
read. The contribution of a customer depends on that customer's row and on what earlier queries
released, so the queries compose exactly (docs/proofs/adaptive-transcript.md).

Post-processing accesses customers through the classes of this module only: they return noisy
numbers and nothing else, whatever their arguments.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.engines.local import Values, value_rows
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.kmeans_stages import Cells, Statistics
from wattveil.numerics.load_basis import Calendar
from wattveil.numerics.synthesis.coordinates import Coordinates
from wattveil.numerics.synthesis.day_deviations import YearCalendar, day_gains, day_width
from wattveil.numerics.synthesis.noisy_moments import margin_curves, margin_width, moment_width
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import Noisy, PrivateTable
from wattveil.privacy.private_data import Rows
from wattveil.release.rows import day_features as day_rows
from wattveil.release.rows import load_features
from wattveil.release.rows import synthesis_features as synthesis_rows


def rows_by_group(
    load_kw: Rows[Floats],
    groups: Mapping[str, Values],
    levels: Mapping[str, Sequence[Hashable]],
) -> Rows[Floats, Ints]:
    """Return the load and the place of the group of each customer, or `NO_DATA`.

    ``groups`` holds the values of each attribute of ``levels``, by the name used in errors.
    """
    known = {name: tuple(values) for name, values in levels.items()}
    try:
        work = load_features.with_places.bind(levels=tuple(known.items()))
    except TypeError as error:  # levels are public: they may be quoted
        raise InvalidParameterError("levels", "texts, numbers or dates", known) from error
    table: Any = load_kw
    for field, values in groups.items():
        table = table.beside(value_rows(values), field=field)
    found: Rows[Floats, Ints] = table.select(work)
    return found


class KMeansQueries:
    """The queries of K-means, on basis coordinates of the customers' load.

    Parameters
    ----------
    load_kw : PrivateTable
        Load in kW, one row per customer.
    basis : (r, d)
        Public orthonormal curves, the smoothest first.
    normalise, longest : bool, float
        Scale every row to unit L2 norm, or clip it to norm ``longest``.
    """

    def __init__(
        self,
        load_kw: PrivateTable[Floats],
        *,
        basis: Floats,
        normalise: bool,
        longest: float,
    ) -> None:
        work = load_features.project_rows.bind(basis=basis, normalise=normalise, longest=longest)
        self._table: PrivateTable[Floats] = load_kw.select(work)

    def keep_coordinates(self, coordinates: int) -> None:
        """Restrict later queries to the first coordinates."""
        if coordinates < self._table.width:
            work = load_features.first_coordinates.bind(columns=coordinates)
            self._table = self._table.select(work)

    def customers(self, *, rho_units: int) -> tuple[float, float]:
        """Release the number of customers; return it with its standard deviation."""
        query = Query(tag="number of customers", rho_units=rho_units, n_cells=1)
        counted, std = self._table.release(load_features.one_cell.bind(), query)[0]
        return float(counted[0]), std

    def sizes(self, edges: Floats, *, coordinates: int, rho_units: int) -> Noisy:
        """Release a histogram of the length of the customers' first coordinates."""
        work = load_features.size_cells.bind(edges=edges, coordinates=coordinates)
        query = Query(tag="sizes", rho_units=rho_units, n_cells=edges.size + 1)
        return self._table.release(work, query)[0]

    def nearest(self, centres: Floats, *, rho_units: int, tag: str) -> Noisy:
        """Release the number of customers nearest to each centre."""
        query = Query(tag=tag, rho_units=rho_units, n_cells=len(centres))
        return self._table.release(load_features.nearest_centroid.bind(centroids=centres), query)[0]

    def costs(self, centroids: Floats, features: Floats, *, rho_units: int) -> Floats:
        """Release the sum of the features of the customers' costs under sets of centroids."""
        query = Query(
            tag="merge selection", rho_units=rho_units, n_cells=1, n_features=features.shape[1]
        )
        work = load_features.cost_features.bind(centroids=centroids, features=features)
        return self._table.release(work, query)[0][0].ravel()

    def step(
        self,
        cells: Cells,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        """Release, for each cell, the counts of its shells and the sum of its clipped offsets.

        A customer belongs to the nearest cell, and contributes the offset from its centre, in units
        of radius and colour, clipped to the unit ball. ``rho_units``: for counts, and for sums.
        """
        n_cells, columns = cells.centres.shape
        n_shells = len(shells) + 1
        for_counts, for_sums = rho_units
        work = load_features.nearest_offsets.bind(
            centres=cells.centres, radii=cells.radii, colour=colour, shells=np.array(shells)
        )
        (sums, sums_std), (counts, counts_std) = self._table.release(
            work,
            Query(tag=f"{tag}: offsets", rho_units=for_sums, n_cells=n_cells, n_features=columns),
            Query(tag=f"{tag}: counts", rho_units=for_counts, n_cells=n_cells * n_shells),
        )
        return Statistics(
            counts=counts.reshape(n_cells, -1), counts_std=counts_std, sums=sums, sums_std=sums_std
        )


class GroupLoadQueries:
    """The queries for the mean load of groups.

    Parameters
    ----------
    table : PrivateTable
        Load in kW and the place of each customer's group.
    """

    def __init__(self, table: PrivateTable[Floats, Ints]) -> None:
        self._table = table

    def customers(self, *, rho_units: int) -> float:
        """Release the number of customers of all groups together."""
        query = Query(tag="number of customers", rho_units=rho_units, n_cells=1)
        return float(self._table.release(load_features.any_group_cell.bind(), query)[0][0][0])

    def sizes(self, edges: Floats, calendar: Calendar, *, n_groups: int, rho_units: int) -> Noisy:
        """Release a histogram of the sizes of the customers of each group: (groups, cells)."""
        n_cells = n_groups * (edges.size + 1)
        query = Query(tag="sizes", rho_units=rho_units, n_cells=n_cells)
        work = load_features.group_size_cells.bind(edges=edges, curves=calendar.curves)
        counts, std = self._table.release(work, query)[0]
        return counts.reshape(n_groups, -1), std

    def counts(self, *, n_groups: int, rho_units: int) -> Noisy:
        """Release the number of customers of each group."""
        query = Query(tag="customers by group", rho_units=rho_units, n_cells=n_groups)
        return self._table.release(load_features.group_cells.bind(), query)[0]

    def sums(self, radii: Floats, calendar: Calendar, *, rho_units: int) -> Noisy:
        """Release the sum of each group's coordinates, in units of its radius, clipped to 1."""
        query = Query(
            tag="sums of load",
            rho_units=rho_units,
            n_cells=radii.size,
            n_features=calendar.colour.size,
        )
        work = load_features.group_coordinates.bind(radii=radii, curves=calendar.curves)
        return self._table.release(work, query)[0]


class SynthesisQueries:
    """The queries for the model of synthetic customers, around released centroids.

    Parameters
    ----------
    load_kw : PrivateTable
        Load in kW, one row per customer.
    to : Coordinates
        Public coordinates around the centroids.
    longest : float
        Rows are clipped to this length.
    """

    def __init__(self, load_kw: PrivateTable[Floats], to: Coordinates, *, longest: float) -> None:
        comparable = load_features.comparable_rows.bind(normalise=False, longest=longest)
        nearest_of = load_features.with_nearest.bind(centroids=to.centroids)
        scores = synthesis_rows.scores.bind(rule=to.rule, centres=to.centres, weights=to.weights)
        self._to = to
        self._table: PrivateTable[Floats, Ints] = load_kw.map(comparable).select(nearest_of)
        self._scores: PrivateTable[Floats, Ints] = self._table.select(scores)

    def exports(self, *, rho_units: int) -> Noisy:
        """Release the customers of each cluster without and with export: (clusters, 2)."""
        n_clusters = len(self._to.centroids)
        tag = "customers by cluster and export"
        query = Query(tag=tag, rho_units=rho_units, n_cells=2 * n_clusters)
        work = synthesis_rows.export_cells.bind()
        counts, std = self._table.release(work, query)[0]
        return counts.reshape(n_clusters, 2), std

    def lengths(self, edges: Floats, *, rho_units: int) -> Noisy:
        """Release a histogram of the lengths of the coordinates."""
        query = Query(tag="lengths", rho_units=rho_units, n_cells=edges.size + 1)
        coordinates = self._to.n_coordinates
        work = load_features.size_cells.bind(edges=edges, coordinates=coordinates)
        return self._scores.release(work, query)[0]

    def moments(self, radius: float, *, rho_units: int) -> Noisy:
        """Release the first and second moments of the coordinates of each cluster."""
        query = Query(
            tag="moments",
            rho_units=rho_units,
            n_cells=len(self._to.centroids),
            n_features=moment_width(self._to.n_coordinates),
        )
        work = synthesis_rows.moment_features.bind(radius=radius)
        return self._scores.release(work, query)[0]

    def margins(self, means: Floats, deviations: Floats, *, rho_units: int) -> Noisy:
        """Release the cosine coefficients of the margins of the slots."""
        n_slots = means.shape[1] // self._to.n_days
        width = margin_width(n_slots)
        query = Query(tag="margins", rho_units=rho_units, n_cells=1, n_features=width)
        work = synthesis_rows.margin_features.bind(
            rule=self._to.rule,
            means=means,
            deviations=deviations,
            waves=margin_curves(n_slots, self._to.n_days),
        )
        return self._table.release(work, query)[0]


_FIGURES = ("spreads of shapes", "spreads of levels", "base loads", "peaks")


class YearQueries:
    """The queries for the days of a year, in addition to those for its typical days.

    Parameters
    ----------
    hours_kw : PrivateTable
        Load in kW of all slots of consecutive local days, one row per customer.
    calendar : YearCalendar
        The public calendar of the rows.
    """

    def __init__(self, hours_kw: PrivateTable[Floats], calendar: YearCalendar) -> None:
        self._hours, self._calendar = hours_kw, calendar
        self._parts = {"parts": calendar.parts, "n_parts": calendar.n_parts}

    def typical_days(self) -> PrivateTable[Floats]:
        """Return the typical days of the customers, under the same budget."""
        return self._hours.map(day_rows.typical_days.bind(**self._parts))

    def sizes(self, edges: Floats, *, rho_units: int) -> Noisy:
        """Release a histogram of the root-mean-square typical load of the customers."""
        query = Query(tag="sizes of customers", rho_units=rho_units, n_cells=edges.size + 1)
        typical = self.typical_days()
        lengths = edges * math.sqrt(typical.width)
        work = load_features.size_cells.bind(edges=lengths, coordinates=typical.width)
        return typical.release(work, query)[0]

    def days(
        self, edges: tuple[Floats, ...], *, rho_units: int, level_units: int, figure_units: int
    ) -> list[Noisy]:
        """Release sums of day features and of daily levels, and histograms of four figures."""
        n_slots, n_days = self._calendar.n_slots, self._calendar.n_days
        width = day_width(n_slots)
        queries = [
            Query(tag="days", rho_units=rho_units, n_cells=1, n_features=width),
            Query(tag="levels of days", rho_units=level_units, n_cells=1, n_features=n_days),
        ] + [
            Query(tag=tag, rho_units=figure_units, n_cells=own.size + 1)
            for tag, own in zip(_FIGURES, edges, strict=True)
        ]
        bases, gains = self._calendar.day_bases, day_gains(n_slots, n_days)
        work = day_rows.day_features.bind(**self._parts, bases=bases, gains=gains, edges=edges)
        return self._hours.release(work, *queries)
