r"""What a release costs, computed exactly and rounded towards privacy.

With Gaussian noise of covariance S and two answers that differ by v, everything depends on one
number, ``s = sqrt(v' S^-1 v)`` (the mu of Gaussian differential privacy). The three numbers s,
epsilon and delta determine each other; here is each from the other two.

>>> gaussian_s(epsilon=1.0, delta=1e-6)
0.23670438066343...
>>> gaussian_delta(epsilon=1.0, s=0.2367)
9.99...e-07

The formulas are evaluated in ball arithmetic (Arb, through python-flint): each result is an
interval that provably holds the true value, and what is returned is the end of the interval that
errs towards more privacy. So a scale computed here never misses its delta, not by one ulp.

See docs/proofs/accounting.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq

from wattveil import checks
from wattveil.privacy import rounding

RHO_UNITS = 10**18
"""Gaussian cost is counted in whole units of 1e-18 of rho = s^2 / 2: integers add exactly."""

# The chance that a discrete Gaussian draw is longer than the bound used for eta is below e^-800 a
# draw (docs/proofs/discrete-gaussian.md); 1e-330 covers 1e17 draws.
_TAIL = fmpq(1, 10**330)

_ENOUGH_BITS = 80
_SMALLEST_FLOAT = fmpq(1, 2**1074)


@dataclass(frozen=True, kw_only=True)
class PaperCalibration:
    """The scale that the source paper computes, beside what it truly gives."""

    s: float
    true_delta: float
    true_delta_probabilistic: float


def gaussian_delta(*, epsilon: float, s: float) -> float:
    """Return the least delta for which the Gaussian mechanism is (epsilon, delta)-DP, rounded up.

    delta = Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s)   (Balle & Wang 2018, theorem 8)
    """
    epsilon_ball = _ball(checks.epsilon("epsilon", epsilon))
    s_ball = _ball(checks.positive("s", s))
    return min(_upper_float(lambda: _hockey_stick(epsilon_ball, s_ball)), 1.0)


def gaussian_s(*, epsilon: float, delta: float) -> float:
    """Return the largest s whose exact delta is at most ``delta``, rounded down."""
    checks.epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    return _largest_s(lambda s: gaussian_delta(epsilon=epsilon, s=s) <= delta)


def gaussian_epsilon(*, s: float, delta: float) -> float:
    """Return the least epsilon whose exact delta is at most ``delta``, rounded up."""
    checks.positive("s", s)
    checks.probability("delta", delta)
    return _least_epsilon(lambda epsilon: gaussian_delta(epsilon=epsilon, s=s) <= delta)


def probabilistic_delta(*, epsilon: float, s: float) -> float:
    """Return the chance that the privacy loss, N(s^2/2, s^2), exceeds epsilon, rounded up.

    delta = Q(epsilon/s - s/2), the paper's notion (probabilistic DP); never below the exact delta.
    """
    epsilon_ball = _ball(checks.epsilon("epsilon", epsilon))
    s_ball = _ball(checks.positive("s", s))
    return min(_upper_float(lambda: _normal_tail(epsilon_ball / s_ball - s_ball / 2)), 1.0)


def probabilistic_s(*, epsilon: float, delta: float) -> float:
    """Return the largest s whose probabilistic delta is at most ``delta``, rounded down."""
    checks.positive("epsilon", epsilon)
    checks.probability("delta", delta)
    return _largest_s(lambda s: probabilistic_delta(epsilon=epsilon, s=s) <= delta)


def paper_calibration(*, epsilon: float, delta: float) -> PaperCalibration:
    """Return the paper's s = epsilon / sqrt(2 log(2/delta)) and the delta it truly gives.

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
    return _upper_float(lambda: _ball(squares).sqrt())


def rho_units(s: float) -> int:
    """Return the zCDP cost rho = s^2 / 2 of one Gaussian release in units of 1e-18, rounded up."""
    return math.ceil(Fraction(checks.positive("s", s)) ** 2 / 2 * RHO_UNITS)


def noise_scale(*, squared_sensitivity: int, rho_units: int) -> float:
    """Return the least float sigma with squared_sensitivity / (2 sigma^2) <= rho: rounded up."""
    squared = checks.integer("squared_sensitivity", squared_sensitivity, least=1)
    units = checks.integer("rho_units", rho_units, least=1)
    target = Fraction(squared * RHO_UNITS, 2 * units)  # sigma^2
    return _upper_float(lambda: _ball(target).sqrt())


def discretisation_eta(*, numbers: int, sigma: float, s: float) -> float:
    """Return what drawing on the integer grid can add to the privacy loss of one release.

    For ``numbers`` draws of scale ``sigma`` (in grid steps), the discrete Gaussian and the rounded
    continuous one differ by a factor within e^eta, with D = numbers:

    eta = D / (24 sigma^2) + (sqrt(D) + 40 + s)^2 / (24 sigma^2)
    """
    reach = math.sqrt(numbers) + 40.0 + s
    scale = checks.positive("sigma", sigma)
    return (numbers + reach * reach) / (24.0 * scale * scale) * (1.0 + 1e-12)


@dataclass(frozen=True, kw_only=True)
class Composition:
    """A release made of Gaussian parts and of one part with a plain (epsilon, delta) price.

    ``rho_units`` is the sum over the Gaussian parts, ``response_epsilon`` and ``response_delta``
    the price of the rest (randomised labels), ``eta`` the discretisation of the Gaussian parts.

    Formal guarantee
    ----------------
    For any order of the parts, and parameters of later parts chosen by the answers of earlier ones
    within the totals above, the release is (epsilon, `delta(epsilon)`)-DP. Proof:
    docs/proofs/accounting.md.
    """

    rho_units: int = 0
    response_epsilon: float = 0.0
    response_delta: float = 0.0
    eta: float = 0.0

    def __post_init__(self) -> None:
        """Refuse amounts that are none."""
        checks.integer("rho_units", self.rho_units, least=0)
        checks.epsilon("response_epsilon", self.response_epsilon)
        checks.probability_or_zero("response_delta", self.response_delta)
        checks.non_negative("eta", self.eta)

    def delta(self, epsilon: float) -> float:
        """Return a delta at which the release is (epsilon, delta)-DP, rounded up.

        Any response_epsilon-DP part is dominated by a coin that gives privacy loss
        +response_epsilon with probability e^r / (1 + e^r) and -response_epsilon otherwise
        (Kairouz, Oh & Viswanath 2015), so with G the Gaussian curve
        delta = e^eta [p+ G(epsilon - eta - r) + p- G(epsilon - eta + r)].
        """
        checked = checks.epsilon("epsilon", epsilon)
        return min(_upper_float(lambda: self._delta_ball(checked)), 1.0)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon with `delta(epsilon)` at most ``delta``, rounded up."""
        checks.probability_or_zero("delta", delta)
        return _least_epsilon(lambda epsilon: self.delta(epsilon) <= delta)

    def _delta_ball(self, epsilon: float) -> arb:
        eta, response = _ball(self.eta), _ball(self.response_epsilon)
        s = _ball(Fraction(2 * self.rho_units, RHO_UNITS)).sqrt()
        shifted = _ball(epsilon) - eta
        more = 1 / (1 + (-response).exp())  # e^r / (1 + e^r)
        curve = more * _hockey_stick(shifted - response, s)
        curve += (1 - more) * _hockey_stick(shifted + response, s)
        tail = arb(_TAIL) if self.rho_units else arb(0)
        fail = _ball(self.response_delta)  # with this chance the response gives everything away
        return fail + (1 - fail) * (eta.exp() * curve + tail)


def _hockey_stick(epsilon: arb, s: arb) -> arb:
    """Return delta(epsilon) of N(0, 1) against N(s, 1); s = 0 is no release at all."""
    if s.is_zero():
        return (1 - epsilon.exp()).nonnegative_part()
    return _normal_tail(epsilon / s - s / 2) - epsilon.exp() * _normal_tail(epsilon / s + s / 2)


def _normal_tail(x: arb) -> arb:
    """Return Q(x) = erfc(x / sqrt 2) / 2."""
    return (x / arb(2).sqrt()).erfc() / 2


def _ball(value: float | Fraction) -> arb:
    """Return the value without rounding: every float is a fraction."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def _upper_float(evaluate: Callable[[], arb]) -> float:
    """Evaluate with enough bits for a tight ball, and return the least float above all of it."""
    bits = 128
    while True:
        with ctx.workprec(bits):
            ball = evaluate()
            # Below the smallest positive float more bits cannot change the answer.
            if ball.rel_accuracy_bits() >= _ENOUGH_BITS or ball.abs_upper() < _SMALLEST_FLOAT:
                return _round_up(ball.upper())
        bits *= 2


def _round_up(point: arb) -> float:
    """Return a float not below the (exact) point, never negative; at most one ulp above it."""
    nearest = max(float(point), 0.0)
    return nearest if arb(nearest) >= point else rounding.up(nearest)


def _largest_s(accepts: Callable[[float], bool]) -> float:
    """Search (0, 1e6); 0 when not even the smallest float will do."""
    least = math.ulp(0.0)
    return rounding.largest_float(accepts, low=least, high=1e6) if accepts(least) else 0.0


def _least_epsilon(accepts: Callable[[float], bool]) -> float:
    """Search the floats that `checks.epsilon` takes; infinity when not even the largest will do."""
    if accepts(0.0) or not accepts(checks.MOST_EPSILON):
        return 0.0 if accepts(0.0) else math.inf
    return rounding.least_float(accepts, low=0.0, high=checks.MOST_EPSILON)
