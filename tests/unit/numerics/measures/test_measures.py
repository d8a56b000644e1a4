"""Distances and customer figures against SciPy, loops and a linear program."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

from wattveil.numerics.measures.fidelity_measures import (
    autocorrelation,
    circular_wasserstein,
    correlation_error,
    correlations,
    covariance,
    kolmogorov_smirnov,
    load_factor,
    ratio_to_noise,
    slot_distance,
    slot_distances,
    sorted_slots,
    total_variation,
    wasserstein,
)

samples = st.lists(st.integers(-5, 5).map(lambda x: x / 2.0), min_size=1, max_size=12).map(sorted)


@settings(deadline=None, max_examples=100)
@given(one=samples, other=samples)
def test_distances_are_those_of_scipy(one: list[float], other: list[float]) -> None:
    """W1 and KS of two samples of any sizes, with ties; both are symmetric."""
    x, y = np.array(one), np.array(other)
    assert wasserstein(x, y) == pytest.approx(stats.wasserstein_distance(x, y), abs=1e-12)
    points = np.concatenate([x, y])
    largest = max(abs((x <= point).mean() - (y <= point).mean()) for point in points)
    assert kolmogorov_smirnov(x, y) == pytest.approx(largest, abs=1e-12)
    assert wasserstein(y, x) == pytest.approx(wasserstein(x, y), abs=1e-12)


def test_nan_stays_nan() -> None:
    """A sample with a hole has no distance, whatever the sizes."""
    hole = np.array([0.0, 1.0, math.nan])
    for other in (np.zeros(3), np.zeros(2)):
        assert math.isnan(wasserstein(hole, other))
        assert math.isnan(kolmogorov_smirnov(other, hole))


def test_slots_one_by_one() -> None:
    """Both distances of every slot, and the distance in standard deviations made of them."""
    generator = np.random.default_rng(1)
    one, other = generator.gamma(2.0, 1.0, (30, 4)), generator.gamma(3.0, 1.0, (21, 4))
    apart, largest = slot_distances(sorted_slots(one), sorted_slots(other))
    each = [stats.wasserstein_distance(a, b) for a, b in zip(one.T, other.T, strict=True)]
    assert apart == pytest.approx(each)
    assert largest == pytest.approx(
        [stats.ks_2samp(a, b).statistic for a, b in zip(one.T, other.T, strict=True)]
    )
    assert slot_distance(one, other) == pytest.approx(np.mean(each / one.std(axis=0)))


def test_sorting_leaves_the_rows_alone() -> None:
    """Also a single row or column, whose transpose needs no copy."""
    for rows in (np.array([[3.0, 1.0, 2.0]]), np.array([[3.0], [1.0], [2.0]])):
        before = rows.copy()
        sorted_slots(rows)
        assert np.array_equal(rows, before)


def test_around_the_clock() -> None:
    """The circular distance is the cheapest transport around the circle, a linear program."""
    generator = np.random.default_rng(2)
    one, other = generator.dirichlet(np.ones(7)), generator.dirichlet(np.ones(7))
    steps = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    cost = np.minimum(steps, 7 - steps)
    leaves = np.kron(np.eye(7), np.ones(7))
    arrives = np.kron(np.ones(7), np.eye(7))
    best = linprog(
        cost.ravel(), A_eq=np.vstack([leaves, arrives]), b_eq=np.concatenate([one, other])
    )
    assert circular_wasserstein(one, other) == pytest.approx(best.fun)
    late, early = np.eye(24)[23], np.eye(24)[0]
    assert circular_wasserstein(late, early) == pytest.approx(1.0)  # over midnight, not back


def test_correlations_are_numpys() -> None:
    """Covariance, correlations, and the mean error of those."""
    generator = np.random.default_rng(3)
    one, other = generator.normal(size=(40, 5)), generator.normal(size=(30, 5))
    other[:, 1] += other[:, 0]
    assert covariance(one) == pytest.approx(np.cov(one.T, bias=True))
    assert correlations(covariance(other)) == pytest.approx(np.corrcoef(other.T))
    pairs = np.triu_indices(5, 1)
    expected = np.abs(np.corrcoef(one.T) - np.corrcoef(other.T))[pairs].mean()
    assert correlation_error(one, other) == pytest.approx(expected)


def test_customers_by_hand() -> None:
    """Correlation with a later slot, 1 for a constant; load factor, 0 without a peak."""
    load_kw = np.array([[1.0, 3.0, 2.0, 4.0], [2.0, 2.0, 2.0, 2.0], [0.0, -1.0, 0.0, -3.0]])
    found = autocorrelation(load_kw[:, :-1], load_kw[:, 1:])
    assert found[0] == pytest.approx(np.corrcoef([1.0, 3.0, 2.0], [3.0, 2.0, 4.0])[0, 1])
    assert found[1] == 1.0
    assert load_factor(load_kw) == pytest.approx([2.5 / 4.0, 1.0, 0.0])
    assert total_variation(np.array([0.5, 0.5]), np.array([0.2, 0.8])) == pytest.approx(0.3)


def test_ratios() -> None:
    """Without noise a distance is infinitely many times as large, and none is none."""
    assert ratio_to_noise(0.0, 0.0) == 0.0
    assert ratio_to_noise(1.0, 0.0) == math.inf
    assert ratio_to_noise(-1.0, 0.0) == -math.inf
    assert ratio_to_noise(1.0, 4.0) == 0.25
