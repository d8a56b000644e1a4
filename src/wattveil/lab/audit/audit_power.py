"""Power of paired audits: how many releases would detect that a claim of epsilon is too small.

A lower bound below the claim proves nothing unless a violation would have been found. Here the
violation is planned: Gaussian noise whose true epsilon, at the claimed delta, exceeds the claim by
a known share. The observer sees one number per release, which has all the information of a sum with
Gaussian noise, and knows the best threshold. Real audits learn it from half of their releases.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import stats

from wattveil import calibration, checks
from wattveil.lab.audit.epsilon_bounds import max_probability, probability_lower_bound
from wattveil.privacy.guarantee import Guarantee

POWER = 0.8
"""Probability with which the violation is detected."""
_MAX_TRIALS = 10**12
_OFFSETS = np.linspace(-1.5, 1.5, 61)
"""Thresholds that are tried, relative to the one that separates best, in standard deviations."""
_PRECISION = 1.02
"""The number is found up to this factor."""


@lru_cache(maxsize=256)
def runs_to_detect(
    claim: Guarantee, *, excess: float, level: float, power: float = POWER
) -> int | None:
    """Return the number of releases on each side; None if even 10^12 do not suffice.

    With them, an audit at this level refutes the claim with a probability of at least ``power``, if
    the true epsilon is (1 + excess) times that of the claim.

    Parameters
    ----------
    claim
        The guarantee that is audited.
    excess
        Relative violation: 0.5 is an epsilon that is 50 % larger than claimed.
    level
        Probability with which a true claim may be refuted.
    """
    checks.positive("excess", excess)
    checks.probability("level", level)
    checks.probability("power", power)
    s = calibration.gaussian_s(epsilon=(1.0 + excess) * claim.epsilon, delta=claim.delta)
    # N(s, 1) against N(0, 1): p - e^eps q is largest at the threshold with likelihood ratio e^eps.
    thresholds = claim.epsilon / s + s / 2.0 + _OFFSETS
    likely, unlikely = stats.norm.sf(thresholds - s), stats.norm.sf(thresholds)
    factor = math.exp(claim.epsilon)
    share = math.sqrt(power)  # of each side, which are independent

    def detects(trials: int) -> bool:
        """Whether the bounds refute the claim at counts that are reached with this probability."""
        hits = np.asarray(stats.binom.ppf(1.0 - share, trials, likely), np.int64)
        misses = np.asarray(stats.binom.ppf(share, trials, unlikely), np.int64)
        low = probability_lower_bound(hits, trials, level / 2.0)
        high = max_probability(misses, trials, level / 2.0)
        return bool((low - factor * high > claim.delta).any())

    trials = 1
    while not detects(trials):
        trials *= 2
        if trials > _MAX_TRIALS:
            return None
    too_few = trials / 2.0
    while trials / too_few > _PRECISION:
        middle = math.sqrt(too_few * trials)
        found = detects(math.ceil(middle))
        too_few, trials = (too_few, math.ceil(middle)) if found else (middle, trials)
    return 2 * trials  # half of the releases choose the event, the others decide
