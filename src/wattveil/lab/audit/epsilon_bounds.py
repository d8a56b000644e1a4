"""Empirical lower bounds on epsilon: paired audits and one-run audits.

Paired audit: many releases with one customer, the canary, and many without. One half of the
releases is for learning: the linear score that separates the two best (Fisher's discriminant: the
likelihood ratio for Gaussian noise of any covariance, and for one label; or one number by itself
where runs are few) and the threshold on it. The other half decides: Clopper-Pearson bounds on the
probabilities of the event hold with the stated level, whatever the mechanism and whatever was
learned. With p a lower bound on the probability on one side and q an upper bound on the other,
(epsilon, delta)-DP implies p <= e^epsilon q + delta, hence::

    epsilon >= log((p - delta) / q)        delta >= p - e^epsilon q

One-run audit, after Steinke, Nasr & Jagielski, "Privacy auditing with one (1) training run" (2023):
each of m canary customers is included by a fair coin. An observer of the release guesses the coins
of the r canaries with the most extreme scores, and is right about v of them. Under (epsilon,
delta)-DP a correct guess is hardly likelier than e^epsilon / (1 + e^epsilon); many correct guesses
refute the claim. The derivation is in docs/audit.md.

An audit has its maximum power at a weak claim: the code under it is the same, and at (1, 0.5) a few
thousand runs detect three quarters of the noise, where at (1, 1e-5) a million do not. It does not
prove the claim; docs/proofs does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Guarantee
from wattveil.web.formatting import format_count

# --- paired audit ---------------------------------------------------------------------------------


_RIDGE = 1e-6
"""A direction without noise has a million times the weight of one with noise."""
_RUNS_PER_NUMBER = 10
"""With fewer runs per observed number, the covariance is regularised strongly."""
_MIN_RUNS = 4
_MAX_EXPONENT = 700.0
"""e^700 is still a float; a claim that weak is never refuted."""


@dataclass(frozen=True, kw_only=True)
class PairedRelease:
    """A release that can be repeated: ``run(False)`` on X, ``run(True)`` on its neighbour X'."""

    name: str
    claim: Guarantee
    run: Callable[[bool], Floats]
    """Release once and return the observed numbers, always of the same length."""
    runs: int = 3_000
    """Number of releases on each side; half of them decide."""


@dataclass(frozen=True, kw_only=True)
class PairedAudit:
    """Result of a paired audit."""

    claim: Guarantee
    likely: float
    """Lower bound on the probability of the event on one side."""
    unlikely: float
    """Upper bound on its probability on the other side."""
    hits: int
    misses: int
    """Occurrences of the event on each side, of ``trials`` each."""
    trials: int
    max_epsilon: float = math.inf
    """Largest lower bound that this number of releases can give: the event occurs in all of them on
    one side and in none on the other. A claim above it cannot be refuted."""

    @property
    def delta(self) -> float:
        """Lower bound on delta at the claimed epsilon."""
        return max(self.likely - _factor(self.claim) * self.unlikely, 0.0)

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at the claimed delta."""
        return float(_epsilon(self.likely, self.unlikely, self.claim.delta))

    @property
    def refutes(self) -> bool:
        """Whether the claim is refuted."""
        return self.delta > self.claim.delta

    @property
    def evidence(self) -> str:
        """Counts behind the bound, as text; the event may favour either side."""
        releases = format_count(self.trials, "release")
        return (
            f"event observed in {self.hits:,} of {releases} on one side (with or without the"
            f" canary) and {self.misses:,} of {self.trials:,} on the other"
        )


def audit_pairs(paired: PairedRelease, *, runs: int, level: float) -> PairedAudit:
    """Release ``runs`` times on each side and return the lower bound."""
    first, second = (
        np.array([paired.run(neighbour) for _ in range(runs)]) for neighbour in (False, True)
    )
    return paired_bound(first, second, claim=paired.claim, level=level)


def paired_bound(first: Floats, second: Floats, *, claim: Guarantee, level: float) -> PairedAudit:
    """Return the lower bound from observations of both sides, one row per release.

    It is wrong with probability at most ``level``, if the rows are independent.
    """
    checks.probability("level", level)
    checks.integer("runs", len(first), minimum=_MIN_RUNS)
    if first.shape != second.shape:
        raise InvalidParameterError("second", f"of shape {first.shape}", second.shape)
    half = len(first) // 2
    learn_x, decide_x = first[:half], first[half:]
    learn_y, decide_y = second[:half], second[half:]
    # Values outside of the range of the learning half are clipped to it: tails may be heavy.
    seen = np.concatenate((learn_x, learn_y))
    decide_x, decide_y = (
        np.clip(side, seen.min(axis=0), seen.max(axis=0)) for side in (decide_x, decide_y)
    )
    events = []
    for score in _directions(learn_x, learn_y):
        # Scores of X are high: a high score indicates X, a low score X'.
        high = _Event.learned(learn_x @ score, learn_y @ score, claim, level)
        low = _Event.learned(learn_y @ -score, learn_x @ -score, claim, level)
        events += [(high, decide_x @ score, decide_y @ score)]
        events += [(low, decide_y @ -score, decide_x @ -score)]
    event, likely, unlikely = max(events, key=lambda found: found[0].worth)
    hits, misses = likely >= event.threshold, unlikely >= event.threshold
    k, j, trials = int(hits.sum()), int(misses.sum()), len(decide_x)
    return PairedAudit(
        claim=claim,
        likely=float(probability_lower_bound(np.array(k), trials, level / 2.0)),
        unlikely=float(max_probability(np.array(j), trials, level / 2.0)),
        hits=k,
        misses=j,
        trials=trials,
        max_epsilon=float(
            _epsilon(
                probability_lower_bound(np.array(trials), trials, level / 2.0),
                max_probability(np.array(0), trials, level / 2.0),
                claim.delta,
            )
        ),
    )


def probability_lower_bound(hits: NDArray[np.int64], trials: int, level: float) -> Floats:
    """Return the one-sided lower Clopper-Pearson bound of a probability."""
    bound = stats.beta.ppf(level, np.maximum(hits, 1), trials - hits + 1)
    return np.where(hits > 0, bound, 0.0)


def max_probability(hits: NDArray[np.int64], trials: int, level: float) -> Floats:
    """Return the one-sided upper Clopper-Pearson bound of a probability."""
    bound = stats.beta.isf(level, hits + 1, np.maximum(trials - hits, 1))
    return np.where(hits < trials, bound, 1.0)


def _epsilon(likely: Floats | float, unlikely: Floats | float, delta: float) -> Floats:
    """Return max(0, log((p - delta) / q))."""
    above = np.maximum(np.asarray(likely) - delta, 0.0)
    with np.errstate(divide="ignore"):  # no event, no bound
        bound: Floats = np.maximum(np.log(above / np.asarray(unlikely)), 0.0)
    return bound


def _factor(claim: Guarantee) -> float:
    """Return e^epsilon."""
    return math.exp(min(claim.epsilon, _MAX_EXPONENT))


@dataclass(frozen=True)
class _Event:
    """A threshold on the score, and its value in the learning half."""

    threshold: float
    worth: tuple[float, float, float]
    """The bound on epsilon, the gain, and the margin in standard deviations, in this order."""

    @classmethod
    def learned(cls, likely: Floats, unlikely: Floats, claim: Guarantee, level: float) -> "_Event":
        """Find the threshold t with the largest lower bound on epsilon.

        Where every bound is 0, the one with the largest
        P[likely >= t] - e^epsilon P[unlikely >= t].
        """
        likely, unlikely = np.sort(likely), np.sort(unlikely)
        hits = likely.size - np.searchsorted(likely, likely)
        misses = unlikely.size - np.searchsorted(unlikely, likely)
        bounds = _epsilon(
            probability_lower_bound(hits, likely.size, level / 2.0),
            max_probability(misses, unlikely.size, level / 2.0),
            claim.delta,
        )
        gains = hits / likely.size - _factor(claim) * misses / unlikely.size
        best = int(np.lexsort((gains, bounds))[-1])
        # Half-way to the next lower score: the same counts, with a margin.
        lower = np.concatenate((likely, unlikely, [likely[best] - 1.0]))
        below = lower[lower < likely[best]].max()
        std = float(np.concatenate((likely, unlikely)).std())
        margin = float(likely[best] - below) / std if std > 0.0 else 0.0
        return cls(
            threshold=float(likely[best] + below) / 2.0,
            worth=(float(bounds[best]), float(gains[best]), margin),
        )


def _directions(x: Floats, y: Floats) -> list[Floats]:
    """Return the discriminant and, with few runs, every observed number by itself."""
    alone = list(np.eye(x.shape[1])) if _few(x, y) else []
    return [discriminant(x, y), *alone]


def _few(x: Floats, y: Floats) -> bool:
    """Whether there are too few runs to estimate a covariance."""
    return bool(min(len(x), len(y)) < _RUNS_PER_NUMBER * x.shape[1])


def discriminant(x: Floats, y: Floats) -> Floats:
    """Return Fisher's discriminant: the direction of the largest relative mean difference."""
    std = np.concatenate((x, y)).std(axis=0)
    unit = np.where(std > 0.0, std, 1.0)
    x, y = x / unit, y / unit
    difference = x.mean(axis=0) - y.mean(axis=0)
    within = sum(np.atleast_2d(np.cov(side, rowvar=False)) for side in (x, y))
    ridge = difference.size / min(len(x), len(y)) if _few(x, y) else _RIDGE
    within = within / 2.0 + ridge * np.eye(difference.size)
    return np.asarray(np.linalg.solve(within, difference) / unit, dtype=np.float64)


# --- one-run audit --------------------------------------------------------------------------------


_MIN_GUESSES = 16
_POINTS, _HALVINGS = 65, 40
"""Grid points of the first search, and bisection steps of the second."""


@dataclass(frozen=True, kw_only=True)
class OneRunAudit:
    """Result of a one-run audit."""

    claim: Guarantee
    canaries: int
    guesses: int
    right: int
    epsilon: float
    """Lower bound on epsilon at the claimed delta."""
    max_epsilon: float = math.inf
    """The same bound if every guess about all canaries were right. A claim above it cannot be
    refuted."""

    @property
    def refutes(self) -> bool:
        """Whether the claim is refuted."""
        return self.epsilon > self.claim.epsilon

    @property
    def evidence(self) -> str:
        """Counts behind the bound, as text."""
        return f"{self.right:,} of {self.guesses:,} guesses right, {self.canaries:,} canaries"


def one_run_p_value(
    *, canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    """Return an upper bound on P[at least ``right`` correct guesses] under (epsilon, delta)-DP.

    With q = e^epsilon / (1 + e^epsilon), for v right guesses of r about m canaries::

        p = P[Bin(r, q) >= v] + delta / (1 + e^epsilon) m / r sum_{k < r} max_j P[Bin(k, q) = j]

    Differs from the paper: its term for delta (appendix D) is no bound for few canaries;
    docs/audit.md has a mechanism that exceeds it, and the proof of this one.
    """
    checks.integer("canaries", canaries, minimum=1)
    checks.integer("guesses", guesses, minimum=0, maximum=canaries)
    checks.integer("right", right, minimum=0, maximum=guesses)
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
    """Return the largest epsilon that the correct guesses refute at this level; 0 if none.

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
    # One term rises and one falls with epsilon: search a grid, then bisect.
    points = np.linspace(0.0, highest, _POINTS)
    beaten = [k for k, epsilon in enumerate(points[:-1]) if refuted(float(epsilon))]
    if not beaten:
        return 0.0
    low, high = float(points[beaten[-1]]), float(points[beaten[-1] + 1])
    for _ in range(_HALVINGS):
        midpoint = (low + high) / 2.0
        low, high = (midpoint, high) if refuted(midpoint) else (low, midpoint)
    return low


def audit_one_run(
    included: NDArray[np.bool_], observed: Floats, *, claim: Guarantee, level: float
) -> OneRunAudit:
    """Guess which canaries are included; return the best bound over a list of rules.

    The coins of the first half of the canaries are known to the observer, who learns a score of the
    observed numbers from them; whatever those coins were, the claim holds for the second half,
    about which the observer guesses. Rule j guesses "included" for the highest and "excluded" for
    the lowest half of m / 2^j scores. The rules are fixed beforehand and share the level
    (Bonferroni).

    Parameters
    ----------
    included : (n,)
        Fair coins, independent of each other and of everything else in the release.
    observed : (n, f)
        Released numbers about each canary.
    """
    if observed.ndim != 2 or len(observed) != included.size:  # noqa: PLR2004 - a matrix
        raise InvalidParameterError("observed", f"{included.size} rows", observed.shape)
    checks.integer("canaries", included.size, minimum=2 * _MIN_GUESSES)
    half = included.size // 2
    shown, hidden = included[:half], included[half:]
    score = discriminant(observed[:half][shown], observed[:half][~shown])
    ranked = hidden[np.argsort(-(observed[half:] @ score), kind="stable")]
    canaries = hidden.size
    rules = [canaries >> j for j in range(int(math.log2(canaries / _MIN_GUESSES)) + 1)]
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
        claim=claim,
        canaries=canaries,
        guesses=guesses,
        right=right,
        epsilon=epsilon,
        max_epsilon=one_run_epsilon(
            canaries=canaries,
            guesses=canaries,
            right=canaries,
            delta=claim.delta,
            level=level / len(rules),
        ),
    )
