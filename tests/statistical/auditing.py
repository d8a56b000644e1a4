"""A black-box (epsilon, delta) audit: can an observer tell two neighbours apart beyond the claim?

The mechanism runs many times on each of two neighbours, through its public function. One half of
the outcomes is for learning: the linear score that separates the two best (Fisher's discriminant:
the likelihood ratio for Gaussian noise of any covariance, and for one label) and the threshold on
it with the largest p - e^epsilon q. The other half decides: Clopper-Pearson bounds on p and q at
`ALPHA` together give a lower bound on delta at the claimed epsilon that is wrong with probability
at most `ALPHA`, whatever the mechanism and whatever was learned.

An audit sees most at a weak claim: the code under it is the same, and at (1, 0.5) a few thousand
runs show three quarters of the noise, where at (1, 1e-5) a million do not. It is no proof of the
claim; docs/proofs is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tests.statistical.harness import ALPHA, draws
from wattveil.privacy.guarantee import Guarantee
from wattveil.privacy.sensitivity import FloatArray

_RIDGE = 1e-6
"""A direction without noise weighs a million times one with noise."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mechanism on a worst-case pair: ``run(False)`` releases from X, ``run(True)`` from X'."""

    name: str
    claim: Guarantee
    run: Callable[[bool], FloatArray]
    runs: int = 3_000
    """Of each of the two; half of them decide."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the observer could show."""

    claim: Guarantee
    likely: float
    """Lower bound on the probability of the event under one of the two."""
    unlikely: float
    """Upper bound on its probability under the other."""

    @property
    def delta(self) -> float:
        """Lower bound on delta at the claimed epsilon."""
        return max(self.likely - math.exp(self.claim.epsilon) * self.unlikely, 0.0)

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at the claimed delta."""
        above = max(self.likely - self.claim.delta, 0.0)
        return max(math.log(above / self.unlikely), 0.0) if above else 0.0

    def keeps_claim(self) -> None:
        """The observer shows no more than was claimed."""
        assert self.delta <= self.claim.delta, f"the audit refutes the claim: {self}"

    def exceeds_claim(self) -> None:
        """The observer shows that the claim is false."""
        assert self.delta > self.claim.delta, f"the audit misses the planted fault: {self}"


def audit(case: Case, *, runs: int | None = None) -> Audit:
    """Run the mechanism on both neighbours and return what an observer can show."""
    half = draws(runs or case.runs) // 2
    learn_x, decide_x, learn_y, decide_y = (
        np.array([case.run(neighbour) for _ in range(half)])
        for neighbour in (False, False, True, True)
    )
    score = _discriminant(learn_x, learn_y)
    ratio = math.exp(case.claim.epsilon)
    # Two candidates: scores of X are high, so "high" speaks for X and "low" for X'.
    high, gain_high = _threshold(learn_x @ score, learn_y @ score, ratio)
    low, gain_low = _threshold(learn_y @ -score, learn_x @ -score, ratio)
    if gain_high >= gain_low:
        hits, misses = decide_x @ score >= high, decide_y @ score >= high
    else:
        hits, misses = decide_y @ -score >= low, decide_x @ -score >= low
    # Clopper-Pearson, one-sided, half of ALPHA each.
    k, j = int(hits.sum()), int(misses.sum())
    likely = stats.beta.ppf(ALPHA / 2.0, k, half - k + 1) if k else 0.0
    unlikely = stats.beta.isf(ALPHA / 2.0, j + 1, half - j) if j < half else 1.0
    return Audit(claim=case.claim, likely=float(likely), unlikely=float(unlikely))


def _discriminant(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the direction in which the means differ most, measured by the spread within."""
    spread = np.concatenate((x, y)).std(axis=0)
    unit = np.where(spread > 0.0, spread, 1.0)
    x, y = x / unit, y / unit
    difference = x.mean(axis=0) - y.mean(axis=0)
    within = sum(np.atleast_2d(np.cov(side, rowvar=False)) for side in (x, y))
    within = within / 2.0 + _RIDGE * np.eye(difference.size)
    return np.asarray(np.linalg.solve(within, difference) / unit, dtype=np.float64)


def _threshold(likely: FloatArray, unlikely: FloatArray, ratio: float) -> tuple[float, float]:
    """Return the threshold t with the largest P[likely >= t] - ratio P[unlikely >= t]."""
    likely, unlikely = np.sort(likely), np.sort(unlikely)
    p = 1.0 - np.searchsorted(likely, likely) / likely.size
    q = 1.0 - np.searchsorted(unlikely, likely) / unlikely.size
    gains = p - ratio * q
    best = int(np.argmax(gains))
    # Half-way to the next score below: the same gain, and room for what was not seen.
    lower = np.concatenate((likely, unlikely, [likely[best] - 1.0]))
    below = lower[lower < likely[best]].max()
    return float(likely[best] + below) / 2.0, float(gains[best])
