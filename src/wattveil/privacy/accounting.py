"""Privacy cost of a release, computed exactly and rounded towards privacy.

With Gaussian noise of covariance S and two answers that differ by v, the cost depends on one
number, ``s = sqrt(v' S^-1 v)`` (the mu of Gaussian differential privacy); rho = s^2 / 2 adds up.

>>> Composition(rho_units=28 * 10**15).delta(1.0)  # s = sqrt(2 rho) = 0.2366
9.94...e-07

The formulas are evaluated in ball arithmetic (Arb, through python-flint): each result is an
interval that provably contains the true value, and the end of the interval that overstates the
cost is returned. So a scale computed here meets its delta, to the last ulp. Numbers are rounded
to a known side: costs and scales up, budgets down. `wattveil.calibration` has the inverses of the
same curve, for planning.

See docs/proofs/accounting.md.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq

from wattveil import checks

RHO_UNITS = 10**18
"""Gaussian cost is counted in whole units of 1e-18 of rho = s^2 / 2: integers add exactly."""

# A discrete Gaussian draw is longer than the bound used for eta with probability below e^-800 per
# draw (docs/proofs/discrete-gaussian.md); 1e-330 covers 9e16 draws.
_TAIL = fmpq(1, 10**330)

_ENOUGH_BITS = 80
_SMALLEST_FLOAT = fmpq(1, 2**1074)


def log_ratio(larger: int, smaller: int) -> float:
    """Return log(larger / smaller) of two positive counts, rounded up."""
    return upper_float(lambda: ball(Fraction(larger, smaller)).log())


def noise_scale(*, squared_sensitivity: int, rho_units: int) -> float:
    """Return the smallest float sigma with squared_sensitivity / (2 sigma^2) <= rho: rounded up."""
    squared = checks.integer("squared_sensitivity", squared_sensitivity, minimum=1)
    units = checks.integer("rho_units", rho_units, minimum=1)
    target = Fraction(squared * RHO_UNITS, 2 * units)  # sigma^2
    return upper_float(lambda: ball(target).sqrt())


def discretisation_eta(*, numbers: int, sigma: float, s: float) -> float:
    """Return the maximum privacy loss added to one release by drawing on the integer grid.

    For ``numbers`` draws of scale ``sigma`` (in grid steps), the discrete Gaussian and the rounded
    continuous one differ by a factor within e^eta, with D = numbers:

    eta = D / (24 sigma^2) + (sqrt(D) + 40 + s)^2 / (24 sigma^2)
    """
    reach = math.sqrt(numbers) + 40.0 + s
    scale = checks.positive("sigma", sigma)
    return (numbers + reach * reach) / (24.0 * scale * scale) * (1.0 + 1e-12)


@dataclass(frozen=True, kw_only=True)
class Composition:
    """Privacy cost of Gaussian parts together with one part of plain (epsilon, delta) cost.

    ``rho_units`` is the sum over the Gaussian parts, ``response_epsilon`` and ``response_delta``
    the cost of the rest (randomised labels), ``eta`` the discretisation of the Gaussian parts.

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
        """Refuse negative, infinite and undefined amounts."""
        checks.integer("rho_units", self.rho_units, minimum=0)
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
        return min(upper_float(lambda: self._delta_ball(checked)), 1.0)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with `delta(epsilon)` at most ``delta``, rounded up."""
        checks.probability_or_zero("delta", delta)
        return smallest_epsilon(lambda epsilon: self.delta(epsilon) <= delta)

    def _delta_ball(self, epsilon: float) -> arb:
        eta, response = ball(self.eta), ball(self.response_epsilon)
        s = ball(Fraction(2 * self.rho_units, RHO_UNITS)).sqrt()
        shifted = ball(epsilon) - eta
        more = 1 / (1 + (-response).exp())  # e^r / (1 + e^r)
        curve = more * hockey_stick(shifted - response, s)
        curve += (1 - more) * hockey_stick(shifted + response, s)
        tail = arb(_TAIL) if self.rho_units else arb(0)
        fail = ball(self.response_delta)  # with this probability the response reveals everything
        return fail + (1 - fail) * (eta.exp() * curve + tail)


def hockey_stick(epsilon: arb, s: arb) -> arb:
    """Return delta(epsilon) of N(0, 1) against N(s, 1); s = 0 releases nothing."""
    if s.is_zero():
        return (1 - epsilon.exp()).nonnegative_part()
    return normal_tail(epsilon / s - s / 2) - epsilon.exp() * normal_tail(epsilon / s + s / 2)


def normal_tail(x: arb) -> arb:
    """Return Q(x) = erfc(x / sqrt 2) / 2."""
    return (x / arb(2).sqrt()).erfc() / 2


def ball(value: float | Fraction) -> arb:
    """Return the value without rounding: every float is a fraction."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def upper_float(evaluate: Callable[[], arb]) -> float:
    """Evaluate with enough bits for a tight ball, and return the smallest float above it."""
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
    return nearest if arb(nearest) >= point else up(nearest)


def smallest_epsilon(accepts: Callable[[float], bool]) -> float:
    """Return the smallest accepted epsilon up to `checks.MAX_EPSILON`; infinity if none is."""
    if accepts(0.0) or not accepts(checks.MAX_EPSILON):
        return 0.0 if accepts(0.0) else math.inf
    return smallest_float(accepts, low=0.0, high=checks.MAX_EPSILON)


def up(value: float) -> float:
    """Return the next float above."""
    return math.nextafter(value, math.inf)


def fraction_up(value: Fraction) -> float:
    """Return the smallest float not below ``value``."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else up(nearest)


def sum_up(*values: float) -> float:
    """Return the smallest float not below the exact sum."""
    return fraction_up(sum(map(Fraction, values), Fraction(0)))


def last_accepted(accepts: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest accepted integer of [low, high).

    ``accepts`` goes from true to false once; ``low`` is taken as accepted, ``high`` as refused.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


def largest_float(accepts: Callable[[float], bool], *, low: float, high: float) -> float:
    """Return the largest accepted float of [low, high); see `last_accepted`."""
    last = last_accepted(lambda i: accepts(_float_at(i)), _ordinal(low), _ordinal(high))
    return _float_at(last)


def smallest_float(accepts: Callable[[float], bool], *, low: float, high: float) -> float:
    """Return the smallest accepted float of (low, high]; ``accepts`` turns true once."""
    refused = last_accepted(lambda i: not accepts(_float_at(i)), _ordinal(low), _ordinal(high))
    return _float_at(refused + 1)


def _ordinal(value: float) -> int:
    """Return the index of a float >= 0 among all floats: neighbours differ by one."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _float_at(ordinal: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", ordinal))[0])
