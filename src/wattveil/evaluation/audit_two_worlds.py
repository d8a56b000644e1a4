"""A lower bound on epsilon from many releases in two worlds: with one customer, and without.

One half of the releases is for learning: the linear score that separates the two worlds best
(Fisher's discriminant: the likelihood ratio for Gaussian noise of any covariance, and for one
label; or one number by itself where runs are few) and the threshold on it. The other half
decides: Clopper-Pearson bounds on the probabilities of the event in the two worlds hold with the
stated level, whatever the mechanism and whatever was learned. With p its least probability in one
world and q its largest in the other,
(epsilon, delta)-DP says p <= e^epsilon q + delta, hence::

    epsilon >= log((p - delta) / q)        delta >= p - e^epsilon q

An audit sees most at a weak claim: the code under it is the same, and at (1, 0.5) a few thousand
runs show three quarters of the noise, where at (1, 1e-5) a million do not. It is no proof of the
claim; docs/proofs is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Guarantee

Floats = NDArray[np.float64]

_RIDGE = 1e-6
"""A direction without noise weighs a million times one with noise."""
_RUNS_A_NUMBER = 10
"""With fewer runs than that for each number observed, their covariance is not trusted far."""
_FEWEST_RUNS = 4
_LARGEST_EXPONENT = 700.0
"""e^700 is still a float; a claim that weak is never refuted anyway."""


@dataclass(frozen=True, kw_only=True)
class TwoWorlds:
    """A release in two worlds: ``run(False)`` from X, ``run(True)`` from its neighbour X'."""

    name: str
    claim: Guarantee
    run: Callable[[bool], Floats]
    """Release anew and return what an observer looks at, always of the same length."""
    runs: int = 3_000
    """Of each of the two; half of them decide."""


@dataclass(frozen=True, kw_only=True)
class TwoWorldAudit:
    """What an observer could show."""

    claim: Guarantee
    likely: float
    """Lower bound on the probability of the event in one of the two worlds."""
    unlikely: float
    """Upper bound on its probability in the other."""
    hits: int
    misses: int
    """How often the event happened in either, of ``trials`` each."""
    trials: int

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
        """Whether the claim is shown to be false."""
        return self.delta > self.claim.delta

    @property
    def evidence(self) -> str:
        """What the bound stands on, in words."""
        return f"an event in {self.hits:,} and {self.misses:,} of {self.trials:,} releases"


def audit_two_worlds(worlds: TwoWorlds, *, runs: int, level: float) -> TwoWorldAudit:
    """Release so many times in each world, and return what an observer can show."""
    first, second = (
        np.array([worlds.run(neighbour) for _ in range(runs)]) for neighbour in (False, True)
    )
    return judge_worlds(first, second, claim=worlds.claim, level=level)


def judge_worlds(first: Floats, second: Floats, *, claim: Guarantee, level: float) -> TwoWorldAudit:
    """Return what observations of the two worlds show, one row a release.

    Wrong with probability ``level`` at most, if the rows are independent.
    """
    checks.probability("level", level)
    checks.integer("runs", len(first), least=_FEWEST_RUNS)
    if first.shape != second.shape:
        raise InvalidParameterError("second", f"of shape {first.shape}", second.shape)
    half = len(first) // 2
    learn_x, decide_x = first[:half], first[half:]
    learn_y, decide_y = second[:half], second[half:]
    # What lies beyond all that was seen in learning counts as its edge: tails may be heavy.
    seen = np.concatenate((learn_x, learn_y))
    decide_x, decide_y = (
        np.clip(side, seen.min(axis=0), seen.max(axis=0)) for side in (decide_x, decide_y)
    )
    events = []
    for score in _directions(learn_x, learn_y):
        # Scores of X are high, so "high" speaks for X and "low" for X'.
        high = _Event.learned(learn_x @ score, learn_y @ score, claim, level)
        low = _Event.learned(learn_y @ -score, learn_x @ -score, claim, level)
        events += [(high, decide_x @ score, decide_y @ score)]
        events += [(low, decide_y @ -score, decide_x @ -score)]
    event, likely, unlikely = max(events, key=lambda found: found[0].worth)
    hits, misses = likely >= event.threshold, unlikely >= event.threshold
    k, j, trials = int(hits.sum()), int(misses.sum()), len(decide_x)
    return TwoWorldAudit(
        claim=claim,
        likely=float(least_probability(np.array(k), trials, level / 2.0)),
        unlikely=float(largest_probability(np.array(j), trials, level / 2.0)),
        hits=k,
        misses=j,
        trials=trials,
    )


def least_probability(hits: NDArray[np.int64], trials: int, level: float) -> Floats:
    """Return the one-sided lower Clopper-Pearson bound of a probability."""
    bound = stats.beta.ppf(level, np.maximum(hits, 1), trials - hits + 1)
    return np.where(hits > 0, bound, 0.0)


def largest_probability(hits: NDArray[np.int64], trials: int, level: float) -> Floats:
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
    return math.exp(min(claim.epsilon, _LARGEST_EXPONENT))


@dataclass(frozen=True)
class _Event:
    """A threshold on the score, and what it was worth where it was learned."""

    threshold: float
    worth: tuple[float, float, float]
    """The bound on epsilon, the gain, and the margin in spreads: the first that differ decide."""

    @classmethod
    def learned(cls, likely: Floats, unlikely: Floats, claim: Guarantee, level: float) -> "_Event":
        """Find the threshold t whose counts would show the most.

        That is the largest bound on epsilon; where none shows any, the largest
        P[likely >= t] - e^epsilon P[unlikely >= t].
        """
        likely, unlikely = np.sort(likely), np.sort(unlikely)
        hits = likely.size - np.searchsorted(likely, likely)
        misses = unlikely.size - np.searchsorted(unlikely, likely)
        bounds = _epsilon(
            least_probability(hits, likely.size, level / 2.0),
            largest_probability(misses, unlikely.size, level / 2.0),
            claim.delta,
        )
        gains = hits / likely.size - _factor(claim) * misses / unlikely.size
        best = int(np.lexsort((gains, bounds))[-1])
        # Half-way to the next score below: the same counts, and room for what was not seen.
        lower = np.concatenate((likely, unlikely, [likely[best] - 1.0]))
        below = lower[lower < likely[best]].max()
        spread = float(np.concatenate((likely, unlikely)).std())
        margin = float(likely[best] - below) / spread if spread > 0.0 else 0.0
        return cls(
            threshold=float(likely[best] + below) / 2.0,
            worth=(float(bounds[best]), float(gains[best]), margin),
        )


def _directions(x: Floats, y: Floats) -> list[Floats]:
    """Return the discriminant; and where runs are few, also every number by itself."""
    alone = list(np.eye(x.shape[1])) if _few(x, y) else []
    return [discriminant(x, y), *alone]


def _few(x: Floats, y: Floats) -> bool:
    """Whether there are too few runs to trust a covariance."""
    return bool(min(len(x), len(y)) < _RUNS_A_NUMBER * x.shape[1])


def discriminant(x: Floats, y: Floats) -> Floats:
    """Return the direction in which the means differ most, measured by the spread within."""
    spread = np.concatenate((x, y)).std(axis=0)
    unit = np.where(spread > 0.0, spread, 1.0)
    x, y = x / unit, y / unit
    difference = x.mean(axis=0) - y.mean(axis=0)
    within = sum(np.atleast_2d(np.cov(side, rowvar=False)) for side in (x, y))
    ridge = difference.size / min(len(x), len(y)) if _few(x, y) else _RIDGE
    within = within / 2.0 + ridge * np.eye(difference.size)
    return np.asarray(np.linalg.solve(within, difference) / unit, dtype=np.float64)
