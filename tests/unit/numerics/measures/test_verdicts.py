"""Intervals cover, verdicts keep their error rates: measured with planted effects and none."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from wattveil.arrays import Floats
from wattveil.numerics.measures.fidelity_measures import wasserstein
from wattveil.numerics.measures.verdicts import (
    Assessment,
    Interval,
    Verdict,
    assess,
    auc_interval,
    half_sample_error,
    median_interval,
    share_interval,
    t_interval,
)

CASES = 400
SPLITS = 20


def of_means(one: Floats, other: Floats) -> float:
    """Distance of two means."""
    return float(abs(one.mean() - other.mean()))


def of_distributions(one: Floats, other: Floats) -> float:
    """W1 of two samples."""
    return wasserstein(np.sort(one), np.sort(other))


DISTANCES = pytest.mark.parametrize("distance", [of_means, of_distributions])


def compared(  # as `lab.evaluation.fidelity_comparison` compares
    seed: int, distance: object, *, shift: float, customers: int = 200, margin: float = 1.0
) -> Assessment:
    """Compare homes of one population with those of another, as far apart as ``shift``."""
    assert callable(distance)
    draw = np.random.default_rng(seed)
    real, made = draw.normal(size=customers), draw.normal(shift, size=10 * customers)
    half, null, found = customers // 2, [], []
    for _ in range(SPLITS):
        order = draw.permutation(customers)
        one, other = real[order[:half]], real[order[half:]]
        null.append(distance(one, other))
        found.append(distance(one, draw.choice(made, half, replace=False)))
    return assess(
        float(np.median(found)),
        error=half_sample_error(np.array(found), kept=half, of=customers),
        replicates=SPLITS,
        limit=float(np.quantile(null, 0.95)),
        margin=margin,
    )


@DISTANCES
def test_a_planted_null_is_different_in_at_most_5_percent(distance: object) -> None:
    """And no difference is found where the margin is wide: the comparison has power."""
    verdicts = Counter(compared(seed, distance, shift=0.0).verdict for seed in range(CASES))
    # 5 % and three standard errors of a count of this size
    assert verdicts[Verdict.DIFFERENT] <= CASES * 0.05 + 3.0 * math.sqrt(CASES * 0.05 * 0.95)
    assert verdicts[Verdict.NO_DIFFERENCE] >= 0.9 * CASES


@DISTANCES
def test_a_planted_difference_is_found(distance: object) -> None:
    """One far above the limit always; and its distance is inside the interval."""
    found = [compared(seed, distance, shift=1.5) for seed in range(50)]
    assert {one.verdict for one in found} == {Verdict.DIFFERENT}
    assert np.mean([one.interval.low < 1.5 < one.interval.high for one in found]) > 0.8


@DISTANCES
def test_the_smallest_detectable_difference_is_found_in_80_percent(distance: object) -> None:
    """The power that is claimed: a true difference of this size is found at least so often."""
    smallest = float(
        np.median([compared(s, distance, shift=0.0).smallest_detectable for s in range(50)])
    )
    found = [compared(seed, distance, shift=smallest).verdict for seed in range(CASES)]
    share = found.count(Verdict.DIFFERENT) / CASES
    assert share >= 0.8 - 3.0 * math.sqrt(0.8 * 0.2 / CASES)


@DISTANCES
def test_few_homes_have_no_power(distance: object) -> None:
    """Nothing is planted and nothing found, but the margin could have been missed."""
    verdicts = Counter(
        compared(seed, distance, shift=0.0, customers=40, margin=0.3).verdict for seed in range(100)
    )
    assert verdicts[Verdict.NO_DIFFERENCE] == 0
    assert verdicts[Verdict.INCONCLUSIVE] >= 90


@DISTANCES
@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0])
def test_the_interval_of_a_distance_covers(distance: object, shift: float) -> None:
    """The mean distance over samples of homes, in at least 95 % of samples; it is not vacuous."""
    found = [compared(seed, distance, shift=shift) for seed in range(CASES)]
    expected = np.mean([one.effect for one in found])
    covered = np.mean([one.interval.low <= expected <= one.interval.high for one in found])
    assert covered >= 0.95 - 3.0 * math.sqrt(0.05 * 0.95 / CASES)
    width = np.median([one.interval.high - one.interval.low for one in found])
    spread = np.ptp(np.quantile([one.effect for one in found], [0.025, 0.975]))
    assert width < 4.0 * spread


@pytest.mark.parametrize(
    ("effect", "error", "limit", "margin", "verdict"),
    [
        (1.1, 0.1, 1.0, 0.5, Verdict.DIFFERENT),
        (1.0, 0.1, 1.0, 1.09, Verdict.NO_DIFFERENCE),  # 1 + 0.0842 is below the margin
        (1.0, 0.1, 1.0, 1.08, Verdict.INCONCLUSIVE),
        (0.0, 0.0, 0.0, 0.0, Verdict.INCONCLUSIVE),
        (math.inf, 0.0, 1.0, 2.0, Verdict.DIFFERENT),
    ],
)
def test_the_rule_at_its_edges(
    effect: float, error: float, limit: float, margin: float, verdict: Verdict
) -> None:
    """Above the limit; below it with power; below it without."""
    found = assess(effect, error=error, replicates=20, limit=limit, margin=margin)
    assert found.verdict is verdict
    assert found.smallest_detectable == pytest.approx(limit + stats.norm.ppf(0.8) * error)


def test_the_jackknife_gives_the_standard_error_of_a_mean() -> None:
    """From halves and from fifths: s / sqrt(n), as the textbook has it."""
    draw = np.random.default_rng(1)
    values = draw.normal(size=400)
    for kept in (200, 80):
        means = np.array([draw.permutation(values)[:kept].mean() for _ in range(4000)])
        error = half_sample_error(means, kept=kept, of=400)
        assert error == pytest.approx(values.std(ddof=1) / 20.0, rel=0.05)


def test_shares() -> None:
    """Clopper-Pearson: the rule of three at 0, by the beta quantiles elsewhere; it covers."""
    assert share_interval(0, 100) == pytest.approx((0.0, 1.0 - 0.025**0.01))
    assert share_interval(7, 20) == pytest.approx(
        (stats.beta.ppf(0.025, 7, 14), stats.beta.ppf(0.975, 8, 13))
    )
    for share in (0.02, 0.3, 0.5):
        weights = stats.binom.pmf(np.arange(31), 30, share)
        inside = [low <= share <= high for low, high in (share_interval(k, 30) for k in range(31))]
        assert weights[inside].sum() >= 0.95


@pytest.mark.untraced
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_interval_of_an_auc_covers(shift: float) -> None:
    """The true probability, P[N(shift, 2) > 0], in about 95 % of samples; as scikit-learn's AUC."""
    true = stats.norm.cdf(shift / math.sqrt(2.0))
    covered = 0
    for seed in range(CASES):
        draw = np.random.default_rng(seed)
        scores, others = draw.normal(shift, size=80), draw.normal(size=60)
        low, high = auc_interval(scores, others)
        covered += low <= true <= high
        marks = np.repeat([1, 0], [80, 60])
        auc = roc_auc_score(marks, np.concatenate((scores, others)))
        assert low < auc < high
    assert abs(covered / CASES - 0.95) < 0.04


def test_the_interval_of_an_auc_of_1_is_not_a_point() -> None:
    """Samples that do not overlap: what as many disjoint pairs prove. All ties: 1/2."""
    apart = auc_interval(np.arange(10.0, 20.0), np.arange(5.0))
    assert apart == pytest.approx((0.025 ** (1 / 5), 1.0))
    assert auc_interval(np.arange(5.0), np.arange(10.0, 20.0)).low == 0.0
    assert auc_interval(np.zeros(5), np.zeros(5)) == (0.5, 0.5)


def test_the_interval_of_a_median_covers() -> None:
    """By counting: the number of values below the median is binomial; five values are too few."""
    for n in (6, 10, 25):
        found = median_interval(np.arange(1.0, n + 1.0))
        k = int(found.low)
        assert found.high == n + 1 - k
        assert 1.0 - 2.0 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95
        assert 1.0 - 2.0 * stats.binom.cdf(k, n, 0.5) < 0.95  # the next one would not cover
    assert median_interval(np.arange(5.0)) == Interval(-math.inf, math.inf)


def test_an_estimate_that_is_not_finite_has_no_interval() -> None:
    """A power flow without solution."""
    assert t_interval(math.inf, 1.0, 20) == Interval(math.inf, math.inf)
