"""Gaussian noise on sums, counts and answers, drawn on the integer grid.

One customer's contribution is clipped into a public region and rounded to whole steps of a grid;
the sum is exact in int64; discrete Gaussian noise is added to the integers. What leaves is the
noisy integers and the public numbers that scale them.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting, noise, sensitivity
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms.cells import count_cells
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import Ball, Ellipsoid, FloatArray, IntArray, Region

_ROWS_AT_ONCE = 65_536  # bounds the memory of the integer copy; the sum does not depend on it

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
    width = region.width(checks.columns("rows", rows.reveal()))
    squared = region.squared_sensitivity(budget.guarantee.neighbours)
    spend = Spend(tag=tag, mechanism="gaussian_sum", rho_units=rho_units)
    spend, sigma = _charge(budget, spend, squared_sensitivity=squared, numbers=width)

    matrix = sensitivity.refuse_non_finite(rows.reveal())
    total = np.zeros(width, dtype=np.int64)
    for start in range(0, matrix.shape[0], _ROWS_AT_ONCE):
        total += region.to_grid(matrix[start : start + _ROWS_AT_ONCE]).sum(axis=0)
    return _release(total, sigma, region, spend)


def gaussian_histogram(
    cells: Secret[IntArray], *, n_cells: int, rho_units: int, budget: Budget, tag: str
) -> Released[NoisyVector]:
    """Release how many customers fall into each cell; `NO_DATA` falls into none.

    With one cell this is the number of customers.

    Formal guarantee
    ----------------
    The caller ensures that a customer has at most one entry in ``cells``. Then as `gaussian_sum`,
    with squared sensitivity 1 (zero-out) or 2 (replace-one, two cells or more). Proof:
    docs/proofs/gaussian-sum.md.
    """
    checks.integer("n_cells", n_cells, least=1)
    region = Ball(radius=1.0)
    one = region.radius_in_steps  # a customer, in steps: a fine grid keeps the noise Gaussian
    squared = one**2 * sensitivity.one_hot_sensitivity(n_cells, budget.guarantee.neighbours)
    spend = Spend(tag=tag, mechanism="gaussian_histogram", rho_units=rho_units)
    spend, sigma = _charge(budget, spend, squared_sensitivity=squared, numbers=n_cells)
    return _release(count_cells(cells, n_cells) * one, sigma, region, spend)


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
    squared = differences.answer_sensitivity**2
    spend = Spend(tag=tag, mechanism="gaussian_answer", rho_units=rho_units)
    spend, sigma = _charge(budget, spend, squared_sensitivity=squared, numbers=width)
    exact = differences.round_answer(sensitivity.refuse_non_finite(vector)[0])
    return _release(exact, sigma, differences, spend)


def _charge(
    budget: Budget, spend: Spend, *, squared_sensitivity: int, numbers: int
) -> tuple[Spend, float]:
    """Charge one Gaussian draw and return its noise scale in steps. Looks at no data."""
    units = spend.rho_units
    sigma = accounting.noise_scale(squared_sensitivity=squared_sensitivity, rho_units=units)
    noise.check_scale(sigma)
    if sigma < _FEWEST_STEPS:
        rule = f"small enough for noise of {_FEWEST_STEPS:g} grid steps"
        raise InvalidParameterError("rho_units", rule, units)
    s = math.sqrt(2.0 * units / accounting.RHO_UNITS)
    eta = accounting.discretisation_eta(numbers=numbers, sigma=sigma, s=s)
    return budget.charge(replace(spend, eta=eta)), sigma


def _release(exact: IntArray, sigma: float, region: Region, spend: Spend) -> Released[NoisyVector]:
    """Add the noise. The sum wraps at 2^63 like any int64: still a function of the noisy sum."""
    steps = exact + noise.discrete_gaussian(scale=sigma, size=exact.size)
    steps.setflags(write=False)
    return Released(
        value=NoisyVector(steps=steps, noise_scale=sigma, region=region),
        spends=(spend,),
        rehearsal=noise.is_rehearsal(),
    )
