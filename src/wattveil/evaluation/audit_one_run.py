"""A lower bound on epsilon from one single release with many canaries.

After Steinke, Nasr & Jagielski, "Privacy auditing with one (1) training run" (2023). Each of m
canary customers is put in by the toss of a fair coin. An observer of the release guesses the coins
of the r canaries he is surest of, and is right about v of them. Under (epsilon, delta)-DP a right
guess is hardly likelier than e^epsilon / (1 + e^epsilon); many right ones refute the claim. The
derivation stands in docs/audit.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.evaluation.audit_two_worlds import Floats, discriminant
from wattveil.privacy.guarantee import Guarantee

_FEWEST_GUESSES = 16
_POINTS, _HALVINGS = 65, 40
"""Where epsilon is looked for first, and how often the interval around the last is halved."""


@dataclass(frozen=True, kw_only=True)
class OneRunAudit:
    """What one release gave away about its canaries."""

    claim: Guarantee
    canaries: int
    guesses: int
    right: int
    epsilon: float
    """Lower bound on epsilon at the claimed delta."""

    @property
    def refutes(self) -> bool:
        """Whether the claim is shown to be false."""
        return self.epsilon > self.claim.epsilon

    @property
    def evidence(self) -> str:
        """What the bound stands on, in words."""
        return f"{self.right:,} of {self.guesses:,} guesses right, {self.canaries:,} canaries"


def one_run_p_value(
    *, canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    """Return a bound on the chance of so many right guesses under (epsilon, delta)-DP.

    With q = e^epsilon / (1 + e^epsilon), for v right guesses of r about m canaries::

        p = P[Bin(r, q) >= v] + delta / (1 + e^epsilon) m / r sum_{k < r} max_j P[Bin(k, q) = j]

    Differs from the paper: its term for delta (appendix D) is no bound for few canaries;
    docs/audit.md has a mechanism that exceeds it, and the proof of this one.
    """
    checks.integer("canaries", canaries, least=1)
    checks.integer("guesses", guesses, least=0, most=canaries)
    checks.integer("right", right, least=0, most=guesses)
    checks.non_negative("epsilon", epsilon)
    checks.probability_or_zero("delta", delta)
    chance = float(special.expit(epsilon))
    at_least = float(stats.binom.sf(right - 1, guesses, chance))
    if right == 0 or delta == 0.0:
        return at_least
    left = np.arange(guesses)
    peaks = np.asarray(stats.binom.pmf(np.floor((left + 1) * chance), left, chance))  # the modes
    slack = delta * (1.0 - chance) * canaries / guesses * float(peaks.sum())
    return min(at_least + slack, 1.0)


def one_run_epsilon(
    *, canaries: int, guesses: int, right: int, delta: float, level: float
) -> float:
    """Return the largest epsilon that so many right guesses refute at this level; 0 if none.

    (epsilon, delta)-DP implies every larger epsilon, so one that is refuted refutes all below it.
    """
    checks.probability("level", level)

    def refuted(epsilon: float) -> bool:
        p_value = one_run_p_value(
            canaries=canaries, guesses=guesses, right=right, epsilon=epsilon, delta=delta
        )
        return p_value <= level

    # P[W >= v] >= q^r is above the level from here on: (1 + e^-epsilon)^-r > 1 - r e^-epsilon.
    highest = math.log(max(guesses, 1) / (1.0 - level))
    # Both terms move with epsilon, one up and one down: look everywhere, then closer.
    points = np.linspace(0.0, highest, _POINTS)
    beaten = [k for k, epsilon in enumerate(points[:-1]) if refuted(float(epsilon))]
    if not beaten:
        return 0.0
    low, high = float(points[beaten[-1]]), float(points[beaten[-1] + 1])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def audit_one_run(
    included: NDArray[np.bool_], observed: Floats, *, claim: Guarantee, level: float
) -> OneRunAudit:
    """Guess which canaries are in; return the best bound over a list of rules.

    The coins of the first half of the canaries are shown to the observer, who learns from them how
    to score what is observed of a canary; whatever those coins were, the claim holds for the second
    half, about which he guesses. Rule j says "in" of the highest and "out" of the lowest half of
    m / 2^j scores. The rules are fixed beforehand, and share the level (Bonferroni).

    Parameters
    ----------
    included : (n,)
        The coins: fair, independent of each other and of everything else in the release.
    observed : (n, f)
        What the release says of each canary.
    """
    if observed.ndim != 2 or len(observed) != included.size:  # noqa: PLR2004 - a matrix
        raise InvalidParameterError("observed", f"{included.size} rows", observed.shape)
    checks.integer("canaries", included.size, least=2 * _FEWEST_GUESSES)
    half = included.size // 2
    shown, hidden = included[:half], included[half:]
    score = discriminant(observed[:half][shown], observed[:half][~shown])
    ranked = hidden[np.argsort(-(observed[half:] @ score), kind="stable")]
    canaries = hidden.size
    rules = [canaries >> j for j in range(int(math.log2(canaries / _FEWEST_GUESSES)) + 1)]
    found = []
    for guesses in rules:
        highest = guesses // 2
        lowest = guesses - highest
        right = int(ranked[:highest].sum()) + int((~ranked[canaries - lowest :]).sum())
        bound = one_run_epsilon(
            canaries=canaries,
            guesses=guesses,
            right=right,
            delta=claim.delta,
            level=level / len(rules),
        )
        found.append((bound, guesses, right))
    epsilon, guesses, right = max(found)
    return OneRunAudit(
        claim=claim, canaries=canaries, guesses=guesses, right=right, epsilon=epsilon
    )
