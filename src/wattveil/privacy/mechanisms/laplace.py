"""Discrete Laplace noise on counts: pure epsilon, no delta."""

from fractions import Fraction

from wattveil import checks
from wattveil.privacy import noise, rounding
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms.cells import count_cells
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import IntArray, one_hot_sensitivity


def laplace_histogram(
    cells: Secret[IntArray], *, n_cells: int, epsilon: float, budget: Budget, tag: str
) -> Released[IntArray]:
    """Release how many customers fall into each cell, in whole customers.

    Formal guarantee
    ----------------
    The caller ensures that a customer has at most one entry in ``cells``. Then the released counts
    are epsilon-DP for the budget's neighbours: P[k] is proportional to exp(-|k - count| / b) with
    b = sensitivity / epsilon rounded up, and one customer moves the counts by an L1 distance of at
    most the sensitivity. Proof: docs/proofs/laplace-histogram.md.
    """
    checks.positive_epsilon("epsilon", epsilon)
    checks.integer("n_cells", n_cells, least=1)
    sensitivity = one_hot_sensitivity(n_cells, budget.guarantee.neighbours)
    scale = rounding.fraction_up(Fraction(sensitivity) / Fraction(epsilon))
    spend = budget.charge(Spend(tag=tag, mechanism="laplace_histogram", response_epsilon=epsilon))
    counts = count_cells(cells, n_cells) + noise.discrete_laplace(scale=scale, size=n_cells)
    counts.setflags(write=False)
    return Released(value=counts, spends=(spend,), rehearsal=noise.is_rehearsal())
