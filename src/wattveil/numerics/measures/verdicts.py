"""Intervals of measured numbers, and the verdict of a comparison: effect, interval and power.

A comparison has three outcomes. *Difference detected*: the effect is larger than chance alone
explains. *No difference detected*: it is not, and an effect of the size of the margin would have
been detected.
*Inconclusive*: it is not, but such an effect might have been missed. `assess` is the only place
that decides; the margin states which effect matters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy import stats

from wattveil.arrays import Floats

CONFIDENCE = 0.95
"""Of every interval, and one minus the false-positive rate of a verdict."""
POWER = 0.8
"""Probability with which an effect of the size of the margin must be detected."""
_Z_POWER = float(stats.norm.ppf(POWER))


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class Verdict(StrEnum):
    """Outcome of a comparison."""

    DIFFERENT = "difference detected"
    """The effect exceeds the limit: chance alone explains such an effect in 5 % of cases."""
    NO_DIFFERENCE = "no difference detected"
    """It does not, and an effect of the margin would be detected with probability 80 %."""
    INCONCLUSIVE = "inconclusive (no power)"
    """It does not, but an effect of the margin would be detected less often."""


OUTCOMES: Mapping[str, bool | None] = {
    Verdict.NO_DIFFERENCE: True,
    Verdict.DIFFERENT: False,
    Verdict.INCONCLUSIVE: None,
}
"""Whether each verdict is a pass; None if it is undecided."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """A verdict and the numbers behind it, all in the unit of the effect.

    Attributes
    ----------
    effect, interval
        Measured effect, with its confidence interval, which ends at 0.
    limit
        95th percentile of the effect between samples that do not differ.
    smallest_detectable
        Smallest true effect that is found different with probability 80 %.
    margin
        Effect that must be detectable for a verdict of no difference.
    """

    effect: float
    interval: Interval
    limit: float
    smallest_detectable: float
    margin: float
    verdict: Verdict


def assess(
    effect: float, *, error: float, replicates: int, limit: float, margin: float
) -> Assessment:
    """Return the verdict on an effect.

    The effect is estimated with a standard error s. It is different above the limit, so a true
    effect x is found with probability P[x + s Z > limit], which is 80 % at::

        smallest detectable = limit + 0.842 s

    There is no difference if this is below the margin; else the comparison has no power. A test of
    equivalence would compare ``interval.high`` with the margin, before the last two outcomes.

    Parameters
    ----------
    effect
        A distance, or the absolute value of a difference; infinite if it cannot be computed.
    error
        Standard error of the effect.
    replicates
        Number of replicates from which the standard error was estimated.
    limit
        95th percentile of the effect between samples that do not differ.
    margin
        Effect that matters.
    """
    detectable = limit + _Z_POWER * error
    if effect > limit:
        verdict = Verdict.DIFFERENT
    else:
        verdict = Verdict.NO_DIFFERENCE if detectable < margin else Verdict.INCONCLUSIVE
    found = t_interval(effect, error, replicates)
    return Assessment(
        effect=effect,
        interval=Interval(max(found.low, 0.0), found.high),
        limit=limit,
        smallest_detectable=detectable,
        margin=margin,
        verdict=verdict,
    )


def t_interval(estimate: float, error: float, replicates: int) -> Interval:
    """Return the estimate plus and minus the standard error times a quantile of Student's t."""
    if not math.isfinite(estimate):
        return Interval(estimate, estimate)
    reach = float(stats.t.ppf((1.0 + CONFIDENCE) / 2.0, replicates - 1)) * error
    return Interval(estimate - reach, estimate + reach)


def half_sample_error(replicates: Floats, *, kept: int, of: int) -> float:
    """Return the standard error of a statistic from random subsamples without replacement.

    Delete-d jackknife (Shao and Wu 1989), with r of n units kept and d = n - r deleted::

        s^2 = r / d  mean (T_k - mean T)^2

    It is consistent for quantiles too, where deleting single units is not.
    """
    return float(np.std(replicates, ddof=1)) * math.sqrt(kept / (of - kept))


def share_interval(hits: int, trials: int) -> Interval:
    """Return the exact interval of a probability (Clopper and Pearson 1934)."""
    found = stats.binomtest(hits, trials).proportion_ci(CONFIDENCE, method="exact")
    return Interval(float(found.low), float(found.high))


def auc_interval(scores: Floats, others: Floats) -> Interval:
    """Return the interval of P[score > other], ties half (DeLong, DeLong and Clarke-Pearson 1988).

    The variance is that of the placements of each score among the others, and of each other. It is
    0 for samples that do not overlap: there, disjoint pairs are counted (Clopper and Pearson).
    """
    pairs = np.sign(scores[:, None] - others[None, :]) / 2.0 + 0.5
    if pairs.min() == pairs.max() != 0.5:
        disjoint = min(scores.size, others.size)
        return share_interval(int(pairs.min()) * disjoint, disjoint)
    by_score, by_other = pairs.mean(axis=1), pairs.mean(axis=0)
    variance = by_score.var(ddof=1) / scores.size + by_other.var(ddof=1) / others.size
    reach = float(stats.norm.ppf((1.0 + CONFIDENCE) / 2.0)) * math.sqrt(variance)
    auc = float(pairs.mean())
    return Interval(max(auc - reach, 0.0), min(auc + reach, 1.0))


def median_interval(values: Floats) -> Interval:
    """Return an interval of the median between two order statistics, whatever the distribution.

    The k-th smallest of n values is below the median unless fewer than k values are: k is the
    largest with P[Bin(n, 1/2) < k] <= 2.5 %. With fewer than six values not even the whole range
    reaches 95 %, and the interval is unbounded.
    """
    ordered, n = np.sort(values), values.size
    outside = int(stats.binom.ppf((1.0 - CONFIDENCE) / 2.0, n, 0.5))
    if outside == 0:
        return Interval(-math.inf, math.inf)
    return Interval(float(ordered[outside - 1]), float(ordered[n - outside]))
