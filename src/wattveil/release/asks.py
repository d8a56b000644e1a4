"""The only door of the global tier to the data.

Every ask is a sum over customers of a vector of norm at most 1, on the integer grid, plus discrete
Gaussian noise, charged to one budget. What a customer adds depends on the customer's own row and
on what earlier asks released, so the asks compose exactly (docs/proofs/adaptive-transcript.md).
Customers are wherever their engine keeps them: there they are clipped, put on the grid and added up
as whole numbers, of which the sum comes here to get its noise.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVarTuple

import numpy as np

from wattveil.clustering import offsets
from wattveil.clustering.cells import Cells, Statistics
from wattveil.clustering.geometry import Floats
from wattveil.engines.rows import Rows
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms.cells import check_cells
from wattveil.privacy.mechanisms.gaussian import ONE_CUSTOMER, cell_sums, gaussian_cell_sums
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball, IntArray, Region

_UNIT_BALL = Ball(radius=1.0)

Columns = TypeVarTuple("Columns")
Added = list[tuple[IntArray] | tuple[IntArray, Floats]]
"""What customers add to each ask: the cell of each and, to a sum, its features."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How many customers are in each cell or, of so many features, what is their sum there.

    The features of a customer are clipped to length 1.
    """

    tag: str
    rho_units: int
    n_cells: int
    n_features: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is released."""
        return (self.n_cells,) if self.n_features is None else (self.n_cells, self.n_features)

    @property
    def region(self) -> Region:
        """Where lies what a customer adds."""
        return ONE_CUSTOMER if self.n_features is None else _UNIT_BALL

    def totals(self, cells: IntArray, features: Floats | None = None) -> IntArray:
        """Return what a block of customers adds, in whole steps."""
        own = check_cells(Secret(cells), self.n_cells)
        rows = np.ones((own.size, 1)) if features is None else features
        return cell_sums(rows, own, region=self.region, n_cells=self.n_cells).ravel()

    def release(self, totals: Callable[[], IntArray], budget: Budget) -> tuple[Floats, float]:
        """Charge, then call for the totals; return them with noise, and its standard deviation."""
        mechanism = "gaussian_histogram" if self.n_features is None else "gaussian_cell_sums"
        spend = Spend(tag=self.tag, mechanism=mechanism, rho_units=self.rho_units)
        table = (self.n_cells, self.n_features or 1)
        drawn = gaussian_cell_sums(totals, spend, budget, region=self.region, shape=table).publish()
        return drawn.value.reshape(self.shape), float(drawn.std[0])


def release_asks(
    rows: Rows[*Columns],
    added_by: Callable[[*Columns], Added],
    asks: Sequence[Ask],
    budget: Budget,
) -> list[tuple[Floats, float]]:
    """Release what customers add to each ask; return it with the standard deviation of its noise.

    ``added_by`` tells, of a block of customers, what they add to each ask. All customers are gone
    through once, after the first charge.
    """

    def block_totals(*columns: *Columns) -> IntArray:
        added = zip(asks, added_by(*columns), strict=True)
        return np.concatenate([ask.totals(*what) for ask, what in added])

    def totals() -> Iterator[IntArray]:  # begins when the first ask, charged, calls for its part
        ends = np.cumsum([math.prod(ask.shape) for ask in asks])
        yield from np.split(rows.add_up(block_totals, size=int(ends[-1])), ends[:-1])

    parts = totals()
    return [ask.release(parts.__next__, budget) for ask in asks]


class Asks:
    """The asks of K-means.

    Parameters
    ----------
    rows : Rows
        Basis coordinates, one row a customer; finite. Customers without data have no row.
    budget : Budget
        What every ask is charged to.
    """

    def __init__(self, rows: Rows[Floats], budget: Budget) -> None:
        self._rows = rows
        self._budget = budget

    def keep_coordinates(self, coordinates: int) -> None:
        """Ask about the first coordinates only from now on."""
        if coordinates < self._rows.width:
            self._rows = self._rows.map(lambda rows: (rows[:, :coordinates].copy(),))

    def customers(self, *, rho_units: int) -> tuple[float, float]:
        """Release the number of customers; return it with its standard deviation."""

        def everyone(rows: Floats) -> Added:
            return [(np.zeros(len(rows), dtype=np.int64),)]

        ask = Ask(tag="number of customers", rho_units=rho_units, n_cells=1)
        counted, std = release_asks(self._rows, everyone, [ask], self._budget)[0]
        return float(counted[0]), std

    def sizes(self, edges: Floats, *, coordinates: int, rho_units: int) -> tuple[Floats, float]:
        """Release a histogram of the length of the customers' first coordinates."""

        def size_of(rows: Floats) -> Added:
            return [(offsets.size_cells(rows, edges, coordinates=coordinates),)]

        ask = Ask(tag="sizes", rho_units=rho_units, n_cells=edges.size + 1)
        return release_asks(self._rows, size_of, [ask], self._budget)[0]

    def costs(self, centroids: Floats, features: Floats, *, rho_units: int) -> Floats:
        """Release the sum of the features of the customers' costs under sets of centroids."""

        def cost_of(rows: Floats) -> Added:
            found = offsets.cost_features(rows, centroids, features)
            return [(np.zeros(len(rows), dtype=np.int64), found)]

        n_features = features.shape[1]
        ask = Ask(tag="choice of merge", rho_units=rho_units, n_cells=1, n_features=n_features)
        return release_asks(self._rows, cost_of, [ask], self._budget)[0][0].ravel()

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
        n_shells = len(shells) + 1

        def added_by(rows: Floats) -> Added:
            labels, shell, offset = offsets.nearest_offsets(rows, cells, colour, np.array(shells))
            return [(labels, offset), (labels * n_shells + shell,)]

        for_counts, for_sums = rho_units
        asks = [
            Ask(tag=f"{tag}: offsets", rho_units=for_sums, n_cells=n_cells, n_features=columns),
            Ask(tag=f"{tag}: counts", rho_units=for_counts, n_cells=n_cells * n_shells),
        ]
        (sums, sums_std), (counts, counts_std) = release_asks(
            self._rows, added_by, asks, self._budget
        )
        return Statistics(
            counts=counts.reshape(n_cells, -1), counts_std=counts_std, sums=sums, sums_std=sums_std
        )
