"""The filter over periods: dense conditional normals, weights of candidates, predictions."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from wattveil.arrays import Floats
from wattveil.numerics.series.period_filter import (
    Change,
    Observed,
    change_covariance,
    filter_periods,
)

SEEN = np.array([True, True, False, True, True, True, False])
CHANGES = (
    Change(walk=0.1, season=0.2, slope=0.05, white=0.02),
    Change(walk=0.3, season=0.0, slope=0.01, white=0.05),
)


def noisy_block(rng: np.random.Generator, numbers: int = 3) -> Observed:
    """Numbers with correlated noise and different sizes."""
    factor = np.tril(rng.normal(0.0, 0.3, (5, 5))) + 0.5 * np.eye(5)
    return Observed(
        values=rng.normal(1.0, 0.5, (numbers, 5)),
        prior=rng.normal(1.0, 0.1, numbers),
        scale=rng.uniform(0.5, 2.0, numbers),
        level=0.4,
        noise=factor @ factor.T,
    )


def dense_posterior(block: Observed, number: int, change: Change) -> tuple[Floats, Floats, float]:
    """The textbook formula for one number and one candidate, and its log-likelihood."""
    kernel = change_covariance(change, periods=SEEN.size, periods_per_year=4) + block.level
    kernel = block.scale[number] ** 2 * kernel
    total = kernel[np.ix_(SEEN, SEEN)] + block.noise
    gain = kernel[:, SEEN] @ np.linalg.inv(total)
    away = block.values[number] - block.prior[number]
    likely = float(multivariate_normal(np.zeros(5), total).logpdf(away))
    return block.prior[number] + gain @ away, kernel - gain @ kernel[SEEN], likely


def test_one_candidate_is_a_conditional_normal() -> None:
    """Two blocks with noise of their own, a gap, and a predicted period."""
    rng = np.random.default_rng(1)
    blocks = [noisy_block(rng), noisy_block(rng, 1)]
    found = filter_periods(blocks, seen=SEEN, periods_per_year=4, changes=CHANGES[:1])
    for block, posterior in zip(blocks, found, strict=True):
        for number in range(len(block.values)):
            mean, covariance, _ = dense_posterior(block, number, CHANGES[0])
            assert posterior.mean[number] == pytest.approx(mean)
            assert posterior.covariance[number] == pytest.approx(covariance, abs=1e-12)
            assert posterior.std[number] == pytest.approx(np.sqrt(np.diagonal(covariance)))


def test_candidates_are_weighed_by_the_likelihood_of_all_numbers() -> None:
    """The mean over candidates, and a variance that includes their disagreement."""
    rng = np.random.default_rng(2)
    blocks = [noisy_block(rng), noisy_block(rng)]
    parts = [
        [dense_posterior(block, number, change) for block in blocks for number in range(3)]
        for change in CHANGES
    ]
    logs = np.array([sum(part[2] for part in one) for one in parts])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    assert 0.01 < weights[0] < 0.99  # both count
    mean = sum(w * one[4][0] for w, one in zip(weights, parts, strict=True))
    second = sum(
        w * (one[4][1] + np.outer(one[4][0], one[4][0]))
        for w, one in zip(weights, parts, strict=True)
    )
    found = filter_periods(blocks, seen=SEEN, periods_per_year=4, changes=CHANGES)[1]
    assert found.mean[1] == pytest.approx(mean)
    assert found.covariance[1] == pytest.approx(second - np.outer(mean, mean), abs=1e-12)


def test_bands_cover_numbers_of_the_model_and_not_others() -> None:
    """Coverage at 95 %; with noise of twice the stated variance it falls."""
    rng = np.random.default_rng(3)
    kernel = change_covariance(CHANGES[0], periods=7, periods_per_year=4) + 0.4
    noise = 0.05 * np.eye(5)
    truth = rng.multivariate_normal(np.zeros(7), kernel, size=2000)
    for factor, low, high in ((1.0, 0.93, 0.97), (2.0, 0.0, 0.91)):
        error = rng.normal(0.0, np.sqrt(0.05 * factor), (2000, 5))
        block = Observed(
            values=truth[:, SEEN] + error,
            prior=np.zeros(2000),
            scale=np.ones(2000),
            level=0.4,
            noise=noise,
        )
        found = filter_periods([block], seen=SEEN, periods_per_year=4, changes=CHANGES[:1])[0]
        inside = np.abs(found.mean - truth) <= 1.96 * found.std
        assert low < inside[:, SEEN].mean() < high


def test_a_season_comes_back_after_a_year() -> None:
    """Quarters of one year predict those of the next; a yearly series has no season."""
    season = Change(walk=0.0, season=1.0, slope=0.0, white=0.0)
    by_quarter = change_covariance(season, periods=9, periods_per_year=4)
    assert by_quarter[0, 4] > 0.9
    assert by_quarter[0, 2] < 0.0
    assert np.diagonal(by_quarter) == pytest.approx(np.ones(9))
    assert not change_covariance(season, periods=3, periods_per_year=1).any()
