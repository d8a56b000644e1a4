"""The only door of the global tier to the data.

Every ask is a sum over customers of a vector of norm at most 1, on the integer grid, plus discrete
Gaussian noise, charged to one budget. What a customer adds depends on the customer's own row and
on what earlier asks released, so the asks compose exactly (docs/proofs/adaptive-transcript.md).
"""

from collections.abc import Callable

import numpy as np

from wattveil.clustering import offsets
from wattveil.clustering.cells import Cells, Statistics
from wattveil.clustering.geometry import Floats
from wattveil.compiled import over_spans
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms.gaussian import cell_sums, gaussian_cell_sums, gaussian_histogram
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball, IntArray

_UNIT_BALL = Ball(radius=1.0)


class Asks:
    """Asks about customers that are kept in one place.

    Parameters
    ----------
    rows : Secret, (P, r)
        Basis coordinates, one row a customer; finite. Customers without data have no row.
    budget : Budget
        What every ask is charged to.
    """

    def __init__(self, rows: Secret[Floats], budget: Budget) -> None:
        self._rows = rows
        self._budget = budget

    def keep_coordinates(self, coordinates: int) -> None:
        """Ask about the first coordinates only from now on."""
        self._rows = Secret(np.ascontiguousarray(self._rows.reveal()[:, :coordinates]))

    def customers(self, *, rho_units: int) -> tuple[float, float]:
        """Release the number of customers; return it with its standard deviation."""
        everyone = np.zeros(len(self._rows.reveal()), dtype=np.int64)
        counted, std = self._count(everyone, 1, rho_units, "number of customers")
        return float(counted[0]), std

    def sizes(self, edges: Floats, *, coordinates: int, rho_units: int) -> tuple[Floats, float]:
        """Release a histogram of the length of the customers' first coordinates."""
        cells = offsets.size_cells(self._rows.reveal(), edges, coordinates=coordinates)
        return self._count(cells, edges.size + 1, rho_units, "sizes")

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

        A customer belongs to the nearest cell, and adds the offset from its middle, in radii and
        colour, clipped to the unit ball. ``rho_units`` is for the counts and for the sums.
        """
        n_cells, columns = cells.middles.shape
        bounds = np.array(shells)
        rows = self._rows.reveal()
        shell_of = np.empty(len(rows), dtype=np.int64)

        def offsets_of(first: int, last: int) -> tuple[Floats, IntArray]:
            labels, shell, offset = offsets.nearest_offsets(
                rows, (first, last), cells, colour, bounds
            )
            shell_of[first:last] = labels * (bounds.size + 1) + shell
            return offset, labels

        for_counts, for_sums = rho_units
        sums, sums_std = sum_by_cells(
            offsets_of,
            len(rows),
            (n_cells, columns),
            Spend(tag=f"{tag}: offsets", mechanism="gaussian_cell_sums", rho_units=for_sums),
            self._budget,
        )
        n_counts = n_cells * (bounds.size + 1)
        counts, counts_std = self._count(shell_of, n_counts, for_counts, f"{tag}: counts")
        return Statistics(
            counts=counts.reshape(n_cells, -1), counts_std=counts_std, sums=sums, sums_std=sums_std
        )

    def _count(
        self, cells: IntArray, n_cells: int, rho_units: int, tag: str
    ) -> tuple[Floats, float]:
        return count_cells(cells, n_cells, rho_units=rho_units, budget=self._budget, tag=tag)


def count_cells(
    cells: IntArray, n_cells: int, *, rho_units: int, budget: Budget, tag: str
) -> tuple[Floats, float]:
    """Release how many customers are in each cell; return it with its standard deviation."""
    counted = gaussian_histogram(
        Secret(cells), n_cells=n_cells, rho_units=rho_units, budget=budget, tag=tag
    ).publish()
    return counted.value, float(counted.std[0])


def sum_by_cells(
    features_of: Callable[[int, int], tuple[Floats, IntArray]],
    n_rows: int,
    shape: tuple[int, int],
    spend: Spend,
    budget: Budget,
) -> tuple[Floats, float]:
    """Release, for each cell, the sum of its customers' features, each clipped to length 1.

    ``features_of`` returns features and cells of the customers of a span of rows; it is called
    after the charge. ``shape`` is the number of cells and of features. Returns the sums in this
    shape with the standard deviation of their noise.
    """

    def span_totals(_: int, first: int, last: int) -> IntArray:
        features, cells = features_of(first, last)
        return cell_sums(features, cells, region=_UNIT_BALL, n_cells=shape[0])

    def totals() -> IntArray:
        exact: IntArray = np.add.reduce(over_spans(n_rows, span_totals), axis=0)
        return exact

    summed = gaussian_cell_sums(totals, spend, budget, region=_UNIT_BALL, shape=shape).publish()
    return summed.value.reshape(shape), float(summed.std[0])
