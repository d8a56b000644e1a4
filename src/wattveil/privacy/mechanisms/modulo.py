"""The paper's label noise: modulo K, on the labels that a removal can change (instance tier).

L is the set of customers whose label changes when some other customer is removed, Delta_l the
maximum number of labels that one removal changes. Each label in L moves with probability rho to
one of the other K - 1.
The privacy loss of a removal is (M0 - Mc) a with a = log((1 - rho)(K - 1) / rho) and (M0, Mc,
rest) multinomial(Delta_l; 1 - rho, rho/(K-1), rho(K-2)/(K-1)).

Differs from the paper: its double sum takes factorials of negative numbers, divides 0 by 0 for
K = 2 and has Delta_l^2 / 2 terms. Here the distribution of M0 - Mc comes from a recurrence with
positive terms only, one step per value, with a relative error below 1e-10 at Delta_l = 100,000.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
from flint import arb, ctx

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Budget, Spend, Tier
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.mechanisms.response import PARTS, checked_labels
from wattveil.privacy.opening import reveal
from wattveil.privacy.private_data import Released, Secret, exactly

ROUND_UP = 1.0 + 2e-10
"""Above the rounding error of the recurrence (8 ulp per step, 1e-10 at 10^5 steps)."""

_MAX_CHANGED = 100_000


def modulo_delta(*, n_labels: int, changed: int, flip: float, epsilon: float) -> float:
    """Return the exact delta at epsilon, E[(1 - exp(epsilon - loss))_+], rounded up."""
    losses, chances = loss_distribution(n_labels, changed, flip)
    checks.non_negative("epsilon", epsilon)
    excess = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return min(float(chances @ excess) * ROUND_UP, 1.0)


def modulo_flip(*, n_labels: int, changed: int, epsilon: float, delta: float) -> float:
    """Return the minimum probability rho of moving a label for (epsilon, delta), rounded up.

    0 when no label changes; never above (K - 1) / K, where the label is uniform. For delta = 0 in
    closed form: rho = (K - 1) / (e^(epsilon / Delta_l) + K - 1).
    """
    _check_shape(n_labels, changed, minimum=0)
    checks.positive_epsilon("epsilon", epsilon)
    checks.probability_or_zero("delta", delta)
    uniform = (n_labels - 1) / n_labels
    if changed == 0:
        return 0.0
    if delta == 0.0:
        # e^-x with x = epsilon / Delta_l, so that a large epsilon underflows instead of failing.
        odds = (n_labels - 1) * math.exp(-epsilon / changed)
        return min(max(odds / (1.0 + odds) * ROUND_UP, math.ulp(0.0)), uniform)

    keeps = partial(modulo_delta, n_labels=n_labels, changed=changed, epsilon=epsilon)
    return accounting.smallest_float(
        lambda flip: flip >= uniform or keeps(flip=flip) <= delta, low=1e-300, high=uniform
    )


def modulo_labels(
    labels: Secret[Ints],
    *,
    unstable: Secret[Ints],
    changed: int,
    n_labels: int,
    epsilon: float,
    delta: float,
    budget: Budget,
    tag: str,
) -> Released[Ints]:
    """Release the labels, those of the ``unstable`` customers with noise modulo K.

    Formal guarantee
    ----------------
    The caller ensures that ``unstable`` holds every position whose label changes when some other
    customer is removed, and that one removal changes at most ``changed`` labels. Then for the data
    at hand, with ``unstable`` and the other labels treated as known, the released list is
    (epsilon, delta)-indistinguishable from that of each removal. Labels outside ``unstable`` are
    released unchanged (all of them when ``changed`` is 0): this is not differential privacy, and a
    budget of the global tier is refused.
    Proof: docs/proofs/modulo-labels.md.
    """
    if budget.guarantee.tier is not Tier.INSTANCE:
        raise InvalidParameterError("tier", "instance for modulo-K labels", "global")
    flip = modulo_flip(n_labels=n_labels, changed=changed, epsilon=epsilon, delta=delta)
    spend = Spend(
        tag=tag, mechanism="modulo_labels", response_epsilon=epsilon, response_delta=delta
    )
    exactly(budget, Budget).charge(spend)
    values = checked_labels(reveal(labels), n_labels)
    positions = checked_labels(reveal(unstable), max(values.size, 1), field="unstable")
    last = values.size if changed else 0
    bad = [*np.flatnonzero(values == NO_DATA), *positions[(positions < 0) | (positions >= last)]]
    if bad:
        raise InvalidDataError("a label for all, and no unstable one when changed is 0", bad)
    uniform = Fraction(n_labels - 1, n_labels)
    in_parts = Fraction(math.ceil(Fraction(flip) * PARTS), PARTS)
    exact_flip = uniform if flip >= float(uniform) else min(in_parts, uniform)
    moved = values.copy()
    moved[positions] = _move_labels(values, n_labels=n_labels, flip=exact_flip)[positions]
    moved.setflags(write=False)
    return Released(value=moved, spends=(spend,), simulated=noise.is_simulated())


def _move_labels(values: Ints, *, n_labels: int, flip: Fraction) -> Ints:
    """With probability ``flip`` add a uniform offset in 1..K-1, modulo K."""
    moves = noise.bernoulli(probability=flip, size=values.size)
    offsets = 1 + noise.uniform_below(bound=n_labels - 1, size=values.size)
    return np.where(moves, (values + offsets) % n_labels, values)


def loss_distribution(n_labels: int, changed: int, flip: float) -> tuple[Floats, Floats]:
    """Return the privacy losses a D for D = M0 - Mc = 0..Delta_l, and P[D], both rounded up.

    D is a sum of n = Delta_l steps +1, 0, -1 of probabilities p+, p0, p-. With e_i = P[D = n - i],
    the coefficients of g^n for g(z) = p+ + p0 z + p- z^2 obey g (g^n)' = n g' g^n, so

        (i + 1) p+ e_(i+1) = (n - i) p0 e_i + (2n - i + 1) p- e_(i-1),    e_0 = p+^n.

    Every term is positive for i <= n, so nothing cancels.
    """
    _check_shape(n_labels, changed)
    uniform = (n_labels - 1) / n_labels
    if not 0.0 < flip <= uniform:
        raise InvalidParameterError("flip", f"above 0 and at most (K - 1) / K = {uniform}", flip)
    n, keep, other = changed, 1.0 - flip, flip / (n_labels - 1)
    rest = other * (n_labels - 2)

    before, (now, exponent) = 0.0, _power(keep, n)
    chances = [math.ldexp(now, exponent)]
    for i in range(n):
        after = ((n - i) * rest * now + (2 * n - i + 1) * other * before) / ((i + 1) * keep)
        before, now = now, after
        if now + before > 1e250:  # noqa: PLR2004 - room below the largest float
            before, now, exponent = before * 2.0**-800, now * 2.0**-800, exponent + 800
        chances.append(math.ldexp(now, exponent))
    # a = log((1 - rho)(K - 1) / rho), from exact fractions: near uniform it is tiny.
    odds = ((1 - Fraction(flip)) * (n_labels - 1) / Fraction(flip)).as_integer_ratio()
    loss = accounting.log_ratio(max(odds), min(odds))
    losses = np.linspace(0.0, n * loss * (1.0 + 1e-12), n + 1)
    return losses, np.array(chances[::-1])


def _power(base: float, n: int) -> tuple[float, int]:
    """Return base^n as a float times a power of two, where base^n itself would underflow."""
    with ctx.workprec(128):
        mantissa, exponent = (int(part) for part in (arb(base) ** n).mid().man_exp())
    bits = mantissa.bit_length()
    return math.ldexp(mantissa, -bits), exponent + bits


def _check_shape(n_labels: int, changed: int, *, minimum: int = 1) -> None:
    checks.integer("n_labels", n_labels, minimum=2)
    checks.integer("changed", changed, minimum=minimum, maximum=_MAX_CHANGED)
