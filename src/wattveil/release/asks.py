"""The only door of the global tier to the data.

Every ask is a sum over customers of a vector of norm at most 1, on the integer grid, plus discrete
Gaussian noise, charged to one budget. What a customer adds depends on the customer's own row and
on what earlier asks released, so the asks compose exactly (docs/proofs/adaptive-transcript.md).
"""

import numpy as np

from wattveil.clustering import offsets
from wattveil.clustering.cells import Cells, Statistics
from wattveil.clustering.geometry import Floats
from wattveil.compiled import over_spans
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms.gaussian import (
    NoisyVector,
    cell_sums,
    gaussian_cell_sums,
    gaussian_histogram,
)
from wattveil.privacy.secret import Released, Secret
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
        everyone = Secret(np.zeros(len(self._rows.reveal()), dtype=np.int64))
        counted = self._count(everyone, 1, rho_units, "number of customers")
        return float(counted.value[0]), float(counted.std[0])

    def sizes(self, edges: Floats, *, coordinates: int, rho_units: int) -> tuple[Floats, float]:
        """Release a histogram of the length of the customers' first coordinates."""
        cells = offsets.size_cells(self._rows.reveal(), edges, coordinates=coordinates)
        counted = self._count(Secret(cells), edges.size + 1, rho_units, "sizes")
        return counted.value, float(counted.std[0])

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

        def totals_of(_: int, first: int, last: int) -> IntArray:
            labels, shell, offset = offsets.nearest_offsets(
                rows, (first, last), cells, colour, bounds
            )
            shell_of[first:last] = labels * (bounds.size + 1) + shell
            return cell_sums(offset, labels, region=_UNIT_BALL, n_cells=n_cells)

        def totals() -> IntArray:
            exact: IntArray = np.add.reduce(over_spans(len(rows), totals_of), axis=0)
            return exact

        for_counts, for_sums = rho_units
        spend = Spend(tag=f"{tag}: offsets", mechanism="gaussian_cell_sums", rho_units=for_sums)
        summed = _published(
            gaussian_cell_sums(
                totals, spend, self._budget, region=_UNIT_BALL, shape=(n_cells, columns)
            )
        )
        n_counts = n_cells * (bounds.size + 1)
        counted = self._count(Secret(shell_of), n_counts, for_counts, f"{tag}: counts")
        return Statistics(
            counts=counted.value.reshape(n_cells, -1),
            counts_std=float(counted.std[0]),
            sums=summed.value.reshape(n_cells, columns),
            sums_std=float(summed.std[0]),
        )

    def _count(self, cells: Secret[IntArray], n_cells: int, units: int, tag: str) -> NoisyVector:
        return _published(
            gaussian_histogram(
                cells, n_cells=n_cells, rho_units=units, budget=self._budget, tag=tag
            )
        )


def _published(released: Released[NoisyVector]) -> NoisyVector:
    return released.publish()
