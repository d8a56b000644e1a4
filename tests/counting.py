"""A histogram in one call, as most tests want it: what `release.asks` makes of a count."""

import numpy as np

from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms.cells import check_cells
from wattveil.privacy.mechanisms.gaussian import (
    ONE_CUSTOMER,
    NoisyVector,
    cell_sums,
    gaussian_cell_sums,
)
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import IntArray


def gaussian_histogram(
    cells: Secret[IntArray], *, n_cells: int, rho_units: int, budget: Budget, tag: str
) -> Released[NoisyVector]:
    """Release how many customers fall into each cell; `NO_DATA` falls into none."""

    def totals() -> IntArray:
        values = check_cells(cells, n_cells)
        return cell_sums(np.ones((values.size, 1)), values, region=ONE_CUSTOMER, n_cells=n_cells)

    spend = Spend(tag=tag, mechanism="gaussian_histogram", rho_units=rho_units)
    return gaussian_cell_sums(totals, spend, budget, region=ONE_CUSTOMER, shape=(n_cells, 1))
