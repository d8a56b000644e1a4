"""Gaussian noise on sums, counts and answers, drawn on the integer grid.

One customer's contribution is clipped into a public region and rounded to whole steps of a grid;
the sum is exact in int64; discrete Gaussian noise is added to the integers. What leaves is the
noisy integers and the public numbers that scale them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattveil import checks
from wattveil.compiled import compiled
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting, noise, sensitivity
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import Box, Ellipsoid, FloatArray, IntArray, Region

_ROWS_AT_ONCE = 65_536  # bounds the memory of the integer copy; the sum does not depend on it

ONE_CUSTOMER = Box(low=(0.0,), high=(1.0,))
"""What a customer adds to a count, on a fine grid that keeps the noise Gaussian."""

_FEWEST_STEPS = 1024.0
"""Least noise scale in grid steps for which docs/proofs/discrete-gaussian.md is written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyVector:
    """A released vector: integers on a grid, and how to read them."""

    steps: IntArray
    """What was drawn: the exact integers plus noise, in whole steps of the region's grid."""
    noise_scale: float
    """Standard deviation of the noise of each integer, in steps."""
    region: Region

    @cached_property
    def value(self) -> FloatArray:
        """The vector in the coordinates of the data."""
        return self.region.from_grid(self.steps.astype(np.float64))

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of the noise in ``value``: known, not estimated."""
        factor = self.region.from_grid(self.noise_scale * np.eye(self.steps.size))
        return factor @ factor.T

    @cached_property
    def std(self) -> FloatArray:
        """The standard deviation of the noise in each entry of ``value``."""
        return np.full(self.steps.size, self.noise_scale) * self.region.step_std


def gaussian_sum(
    rows: Secret[FloatArray], *, region: Region, rho_units: int, budget: Budget, tag: str
) -> Released[NoisyVector]:
    """Release the sum over customers of their rows, each clipped into ``region``.

    Formal guarantee
    ----------------
    The caller ensures that a customer has at most one row and that ``region``, ``rho_units`` and
    the number of columns are public. Then the released integers are rho-zCDP for the budget's
    neighbours, with rho = ``rho_units`` 1e-18, and follow the exact Gaussian curve up to the
    charged eta. Noise scale: sigma = sensitivity / sqrt(2 rho), in steps. Proof:
    docs/proofs/gaussian-sum.md.
    """
    columns = checks.columns("rows", rows.reveal())

    def totals() -> IntArray:
        matrix = sensitivity.refuse_non_finite(rows.reveal())
        return cell_sums(matrix, np.zeros(len(matrix), np.int64), region=region, n_cells=1)

    spend = Spend(tag=tag, mechanism="gaussian_sum", rho_units=rho_units)
    return gaussian_cell_sums(totals, spend, budget, region=region, shape=(1, columns))


def gaussian_cell_sums(
    totals: Callable[[], IntArray],
    spend: Spend,
    budget: Budget,
    *,
    region: Region,
    shape: tuple[int, int],
) -> Released[NoisyVector]:
    """Release, for each cell, the sum of the rows of the customers in it, cell after cell.

    ``totals`` is called once, after the charge; it adds up `cell_sums` over all customers, wherever
    they are kept. ``shape`` is the number of cells and of columns of a row.

    Formal guarantee
    ----------------
    The caller ensures that ``totals`` returns the sum of `cell_sums` over blocks in which a
    customer has at most one row, and that row and cell depend on the customer's own data and on
    released values alone. Then as `gaussian_sum`: a customer moves one cell; a replaced one moves
    one cell twice or two cells once. Proof: docs/proofs/gaussian-sum.md.
    """
    neighbours = budget.guarantee.neighbours
    n_cells, columns = checks.integer("n_cells", shape[0], least=1), shape[1]
    squared = max(
        region.squared_sensitivity(neighbours),
        region.squared_sensitivity(Neighbours.ZERO_OUT)
        * sensitivity.one_hot_sensitivity(n_cells, neighbours),
    )
    numbers = n_cells * region.width(columns)
    return _draw(lambda: totals().reshape(numbers), spend, budget, region, (squared, numbers))


def cell_sums(rows: FloatArray, cells: IntArray, *, region: Region, n_cells: int) -> IntArray:
    """Return what a block of customers adds to a sum by cells, in whole steps.

    Each row is clipped into ``region`` and added to the row of its cell; one in `NO_DATA` is added
    nowhere. Blocks add up in any order and any place: the integers are exact.
    """
    totals = np.zeros((n_cells, region.width(rows.shape[1])), dtype=np.int64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        _add_rows(region.to_grid(rows[block]), cells[block], totals)
    return totals


def gaussian_answer(
    answer: Secret[FloatArray], *, differences: Ellipsoid, rho_units: int, budget: Budget, tag: str
) -> Released[NoisyVector]:
    """Release an answer that is not a sum, with noise of the colour of its differences.

    The noise is isotropic in the coordinates where ``differences`` is a ball; un-whitening it is
    post-processing, and its covariance is known.

    Formal guarantee
    ----------------
    The caller ensures that the answers on any two neighbours differ by a vector inside
    ``differences``. Then the released integers are rho-zCDP for those neighbours. When
    ``differences`` is computed from the data, this holds for the data at hand only: the instance
    tier. Proof: docs/proofs/coloured-gaussian.md.
    """
    vector = answer.reveal()[None, :]  # a vector alone: a matrix becomes three axes, refused
    width = differences.width(checks.columns("rows", vector))
    spend = Spend(tag=tag, mechanism="gaussian_answer", rho_units=rho_units)
    exact = lambda: differences.round_answer(sensitivity.refuse_non_finite(vector)[0])  # noqa: E731
    return _draw(exact, spend, budget, differences, (differences.answer_sensitivity**2, width))


def _draw(
    exact: Callable[[], IntArray],
    spend: Spend,
    budget: Budget,
    region: Region,
    squared_sensitivity_and_numbers: tuple[int, int],
) -> Released[NoisyVector]:
    """Charge one Gaussian draw; only then compute the exact integers and add the noise."""
    squared, numbers = squared_sensitivity_and_numbers
    sigma = accounting.noise_scale(squared_sensitivity=squared, rho_units=spend.rho_units)
    noise.check_scale(sigma)
    if sigma < _FEWEST_STEPS:
        rule = f"small enough for noise of {_FEWEST_STEPS:g} grid steps"
        raise InvalidParameterError("rho_units", rule, spend.rho_units)
    eta = accounting.discretisation_eta(numbers=numbers, sigma=sigma, s=math.sqrt(squared) / sigma)
    drawn = {"numbers": numbers, "squared": squared, "scale": sigma, "step": region.step}
    spend = budget.charge(replace(spend, eta=eta, drawn=drawn))
    # The sum wraps at 2^63 like any int64: still a function of the noisy sum.
    steps = exact() + noise.discrete_gaussian(scale=sigma, size=numbers)
    steps.setflags(write=False)
    released = NoisyVector(steps=steps, noise_scale=sigma, region=region)
    return Released(value=released, spends=(spend,), rehearsal=noise.is_rehearsal())


@compiled
def _add_rows(steps: IntArray, cells: IntArray, totals: IntArray) -> None:
    """Add each row to the row of its cell; cells below 0 are nobody's."""
    for i in range(steps.shape[0]):
        if cells[i] >= 0:
            for j in range(steps.shape[1]):
                totals[cells[i], j] += steps[i, j]
