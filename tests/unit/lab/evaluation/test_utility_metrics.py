"""U1 to U3, computed independently, and on decisions that can be worked out by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from wattveil.arrays import Floats
from wattveil.lab.evaluation import utility_metrics as utility
from wattveil.lab.evaluation.customer_samples import Sample, SampleLayout

Pair = tuple[Sample, Sample]


def ridge_error(learn: Floats, test: Floats) -> float:
    """Return the error of a ridge regression by its normal equations, intercept unpenalised."""
    x, y = learn[:, :12], learn[:, 12:]
    xc, yc = x - x.mean(axis=0), y - y.mean(axis=0)
    weights = np.linalg.solve(xc.T @ xc + np.eye(12), xc.T @ yc)
    forecast = (test[:, :12] - x.mean(axis=0)) @ weights + y.mean(axis=0)
    return float(np.abs(forecast - test[:, 12:]).mean())


def test_forecast(pair: Pair) -> None:
    """TSTR and TRTS by the normal equations."""
    real, other = (sample.load_kw for sample in pair)
    base = ridge_error(real[:30], real[30:])
    tstr = ridge_error(other[:25], real[30:]) / base - 1.0
    trts = abs(ridge_error(real[:30], other[25:]) / base - 1.0)
    assert utility.forecast_loss(*pair) == pytest.approx((tstr, trts))


def test_forecast_of_the_next_day(sampled: Callable[..., Sample]) -> None:
    """In a series each day is forecast from the one before; what repeats is forecast well."""
    generator = np.random.default_rng(0)
    layout = SampleLayout(slots_per_day=24, days=10, series=True)
    steady = np.tile(generator.gamma(2.0, 0.5, (40, 24)), 10)
    noisy = generator.gamma(2.0, 0.5, (40, 240))
    real, other = sampled(steady + 0.01 * noisy, layout), sampled(noisy, layout)
    pairs = utility._pairs(real)
    assert pairs.shape == (40 * 9, 2, 24)
    assert np.array_equal(pairs[4], [real.load_kw[0, 96:120], real.load_kw[0, 120:144]])
    tstr, _ = utility.forecast_loss(real, other)
    assert tstr > 1.0  # customers without habits teach nothing about those with


def test_kinds_of_days(sampled: Callable[..., Sample]) -> None:
    """Weekends are found by their shape; customers whose weekends are weekdays teach nothing."""
    generator = np.random.default_rng(1)
    layout = SampleLayout(slots_per_day=24, days=14, series=True, first_weekday=5)
    assert layout.day_type.tolist() == [1, 1, 0, 0, 0, 0, 0] * 2
    days = generator.gamma(4.0, 0.25, (60, 14, 24))
    days[:, layout.day_type == 1, 10] += 3.0
    real = sampled(days.reshape(60, -1), layout)
    without = sampled(generator.gamma(4.0, 0.25, (60, 14 * 24)), layout)
    assert utility.day_type_loss(real, real)[0] == 0.0
    assert utility.day_type_loss(real, without)[0] == pytest.approx(0.5, abs=0.1)
    missing = [
        metric.missing
        for metric in utility.UTILITY_METRICS
        if metric.measure is utility.day_type_loss
    ]
    assert missing[0](layout, 60) == ""
    assert missing[0](SampleLayout(slots_per_day=24), 60) == "needs several day types"


def test_decisions_by_hand(sampled: Callable[..., Sample]) -> None:
    """A load of 1 kW costs 24 × 0.20 + 4 × 0.20 a day and needs 4 kWh in the evening."""
    flat = np.ones((10, 24))
    bill, battery, used = utility._decisions(sampled(flat))
    assert bill == pytest.approx(24 * 0.20 + 4 * 0.20)
    assert battery == pytest.approx(4.0)
    sun = [max(3.0 * np.sin(np.pi * (hour - 6) / 12), 0.0) for hour in range(24)]
    assert used == pytest.approx(sum(min(1.0, kw) for kw in sun) / sum(sun))
    errors = utility.decision_error(sampled(flat), sampled(1.5 * flat))
    assert errors[:2] == pytest.approx((0.5, 0.5))


def test_clustering_loss(pair: Pair) -> None:
    """The loss of the real customers under the others' centroids, over that under their own."""
    real, other = pair
    apart = cdist(real.load_kw, other.clusters.centroids, "sqeuclidean").min(axis=1).mean()
    own = cdist(real.load_kw, real.clusters.centroids, "sqeuclidean").min(axis=1).mean()
    assert utility.clustering_loss(*pair) == pytest.approx((apart / own - 1.0,))
    assert utility.clustering_loss(real, real)[0] == pytest.approx(0.0, abs=1e-12)
