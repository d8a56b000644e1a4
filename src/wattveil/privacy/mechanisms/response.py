"""K-ary randomised response: one public label a customer, each randomised by itself."""

from fractions import Fraction

import numpy as np
from flint import arb, ctx, fmpq

from wattveil import checks
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.cells import NO_DATA, check_cells
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import IntArray

PARTS = 2**62
"""Probabilities are whole multiples of 2^-62: drawn exactly, rounded once, towards privacy."""


def keep_probability(*, n_labels: int, epsilon: float, neighbours: Neighbours) -> Fraction:
    """Return the largest chance p of keeping a label that is epsilon-DP, rounded down.

    Each other label then has chance q = (1 - p) / (K - 1), a customer without data 1 / K.

    * zero-out needs p <= e^epsilon / K and q >= e^-epsilon / K:
      p = min(e^epsilon / K, 1 - (K - 1) e^-epsilon / K)
    * replace-one needs p <= e^epsilon q: p = e^epsilon / (e^epsilon + K - 1)
    """
    n_labels = checks.integer("n_labels", n_labels, least=2)
    exact = Fraction(checks.positive_epsilon("epsilon", epsilon))
    with ctx.workprec(256):
        ratio = arb(fmpq(exact.numerator, exact.denominator)).exp()
        if neighbours is Neighbours.ZERO_OUT:
            p = (ratio / n_labels).min(1 - (n_labels - 1) / (ratio * n_labels))
        else:
            p = 1 / (1 + (n_labels - 1) / ratio)
        mantissa, exponent = p.lower().man_exp()  # p = mantissa 2^exponent, below 1
    # Rounding down must not pass 1 / K, below which other labels would be likelier than its own.
    rounded = Fraction(int(mantissa) * PARTS >> -int(exponent), PARTS)
    return max(rounded, Fraction(1, n_labels))


def randomised_response(
    labels: Secret[IntArray], *, n_labels: int, epsilon: float, budget: Budget, tag: str
) -> Released[IntArray]:
    """Release one label a customer; the list of customers is public, who is who is not.

    `NO_DATA` in ``labels`` is a customer on the list without data: the label drawn is uniform.

    Formal guarantee
    ----------------
    The caller ensures that a customer has one label, and that it depends on the customer's own
    data and on released values alone. Then the released list is epsilon-DP for the budget's
    neighbours. Proof: docs/proofs/randomised-response.md.
    """
    keep = keep_probability(
        n_labels=n_labels, epsilon=epsilon, neighbours=budget.guarantee.neighbours
    )
    spend = Spend(tag=tag, mechanism="randomised_response", response_epsilon=epsilon)
    budget.charge(spend)
    values = check_cells(labels, n_labels, field="labels")
    absent = values == NO_DATA
    # A uniform label moved by an independent offset stays uniform, so all take the same road: the
    # number and order of draws do not depend on who has data.
    values[absent] = noise.uniform_below(bound=n_labels, size=values.size)[absent]
    moved = move_labels(values, n_labels=n_labels, flip=1 - keep)
    return Released(value=moved, spends=(spend,), rehearsal=noise.is_rehearsal())


def move_labels(values: IntArray, *, n_labels: int, flip: Fraction) -> IntArray:
    """With chance ``flip`` add a uniform offset in 1..K-1, modulo K: every other label is alike."""
    moves = noise.bernoulli(probability=flip, size=values.size)
    offsets = 1 + noise.uniform_below(bound=n_labels - 1, size=values.size)
    moved = np.where(moves, (values + offsets) % n_labels, values)
    moved.setflags(write=False)
    return moved
