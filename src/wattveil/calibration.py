r"""Calculators for the exact Gaussian privacy curve, and for the source paper's formulas.

The three numbers s, epsilon and delta of a Gaussian release determine each other; the functions
compute each from the other two, rounded towards privacy. `privacy.accounting` computes the cost of
releases; this module is for planning, for comparison and for the paper: no mechanism uses it.

>>> gaussian_s(epsilon=1.0, delta=1e-6)
0.23670438066343...
>>> gaussian_delta(epsilon=1.0, s=0.2367)
9.99...e-07

See docs/proofs/accounting.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from wattveil import checks
from wattveil.privacy import accounting
from wattveil.privacy.mechanisms import modulo


@dataclass(frozen=True, kw_only=True)
class PaperCalibration:
    """The scale that the source paper computes, and the exact delta at that scale."""

    s: float
    true_delta: float
    true_delta_probabilistic: float


def gaussian_delta(*, epsilon: float, s: float) -> float:
    """Return the exact delta of the Gaussian mechanism at epsilon, rounded up.

    delta = Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s)   (Balle & Wang 2018, theorem 8)
    """
    epsilon_ball = accounting.ball(checks.epsilon("epsilon", epsilon))
    s_ball = accounting.ball(checks.positive("s", s))
    return min(accounting.upper_float(lambda: accounting.hockey_stick(epsilon_ball, s_ball)), 1.0)


def gaussian_s(*, epsilon: float, delta: float) -> float:
    """Return the largest s whose exact delta is at most ``delta``, rounded down."""
    checks.epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    return _largest_s(lambda s: gaussian_delta(epsilon=epsilon, s=s) <= delta)


def gaussian_epsilon(*, s: float, delta: float) -> float:
    """Return the smallest epsilon whose exact delta is at most ``delta``, rounded up."""
    checks.positive("s", s)
    checks.probability("delta", delta)
    return accounting.smallest_epsilon(
        lambda epsilon: gaussian_delta(epsilon=epsilon, s=s) <= delta
    )


def probabilistic_delta(*, epsilon: float, s: float) -> float:
    """Return the probability that the privacy loss, N(s^2/2, s^2), exceeds epsilon, rounded up.

    delta = Q(epsilon/s - s/2), the paper's notion (probabilistic DP); never below the exact delta.
    """
    epsilon_ball = accounting.ball(checks.epsilon("epsilon", epsilon))
    s_ball = accounting.ball(checks.positive("s", s))
    return min(
        accounting.upper_float(lambda: accounting.normal_tail(epsilon_ball / s_ball - s_ball / 2)),
        1.0,
    )


def probabilistic_s(*, epsilon: float, delta: float) -> float:
    """Return the largest s whose probabilistic delta is at most ``delta``, rounded down."""
    checks.positive("epsilon", epsilon)
    checks.probability("delta", delta)
    return _largest_s(lambda s: probabilistic_delta(epsilon=epsilon, s=s) <= delta)


def paper_calibration(*, epsilon: float, delta: float) -> PaperCalibration:
    """Return the paper's s = epsilon / sqrt(2 log(2/delta)) and its exact delta.

    The bound behind the formula is proved for small epsilon only; at the paper's own setting,
    epsilon = 30 and delta = 0.2, the true delta is 0.999999.
    """
    checks.positive("epsilon", epsilon)
    checks.probability("delta", delta)
    s = epsilon / math.sqrt(2.0 * math.log(2.0 / delta))
    return PaperCalibration(
        s=s,
        true_delta=gaussian_delta(epsilon=epsilon, s=s),
        true_delta_probabilistic=probabilistic_delta(epsilon=epsilon, s=s),
    )


def compose_s(*parts: float) -> float:
    """Return the s of several Gaussian releases together, sqrt(sum s_i^2), rounded up.

    Exact for Gaussian mechanisms, also when later ones are chosen by the answers of earlier ones
    (Dong, Roth & Su 2022, corollary 3.3).
    """
    squares = sum((Fraction(checks.non_negative("s", s)) ** 2 for s in parts), Fraction(0))
    return accounting.upper_float(lambda: accounting.ball(squares).sqrt())


def rho_units(s: float) -> int:
    """Return the zCDP cost rho = s^2 / 2 of one Gaussian release in units of 1e-18, rounded up."""
    return math.ceil(Fraction(checks.positive("s", s)) ** 2 / 2 * accounting.RHO_UNITS)


def modulo_delta_probabilistic(
    *, n_labels: int, changed: int, flip: float, epsilon: float
) -> float:
    """Return the paper's delta at epsilon, P[loss >= epsilon], rounded up."""
    losses, chances = modulo.loss_distribution(n_labels, changed, flip)
    checks.positive("epsilon", epsilon)
    return min(float(chances[losses >= epsilon].sum()) * modulo.ROUND_UP, 1.0)


def _largest_s(accepts: Callable[[float], bool]) -> float:
    """Return the largest accepted s of (0, 1e6), or 0 if the smallest float is refused."""
    smallest = math.ulp(0.0)
    if not accepts(smallest):
        return 0.0
    return accounting.largest_float(accepts, low=smallest, high=1e6)
