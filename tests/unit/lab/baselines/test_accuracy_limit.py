"""Limits of accuracy: A, B and the bound, each by a second computation."""

import math
from itertools import pairwise

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.lab.baselines.accuracy_limit import (
    AccuracyLimit,
    accuracy_limits,
    loss_without_small_clusters,
)
from wattveil.lab.baselines.baseline_interface import clustering_loss, exact_answer
from wattveil.simulate import simulate_load_kw

EPSILONS = (0.3, 1.0, 10.0)


@pytest.fixture(scope="module")
def homes() -> Floats:
    """Return some simulated homes."""
    return simulate_load_kw(customers=250)


@pytest.fixture(scope="module")
def limits(homes: Floats) -> tuple[AccuracyLimit, ...]:
    """Return the limits of six clusters."""
    return accuracy_limits(homes, 6, epsilons=EPSILONS, delta=1e-6)


def test_first_order_by_hand() -> None:
    """Pairs on a line: tr S is the squared offset, 0.25, and n_k = 2 in both clusters.

    A_1 = 1 / (n r) sum_k tr S_k / (mu^2 n_k) = (0.125 + 0.125) / (4 . 0.25 mu^2).
    """
    rows = np.array([[0.0], [1.0], [100.0], [101.0]])
    (found,) = accuracy_limits(rows, 2, epsilons=[3.0], delta=1e-6)
    assert found.first_order == pytest.approx(0.25 / found.mu**2, rel=0.02)
    # Offsets of any length along one axis of many cost the same: the noise takes their shape.
    flat = np.hstack([rows, np.zeros((4, 5))])
    (again,) = accuracy_limits(flat, 2, epsilons=[3.0], delta=1e-6)
    assert again.first_order == pytest.approx(found.first_order, rel=0.02)


def test_shaped_noise_beats_a_ball(homes: Floats, limits: tuple[AccuracyLimit, ...]) -> None:
    """A_1 is below the same with white noise in d dimensions, and above one dimension of it."""
    exact = exact_answer(homes, 6)
    offsets = np.linalg.norm(homes - exact.centroids[exact.labels], axis=1)
    for found in limits:
        radii = [offsets[exact.labels == cluster].max() for cluster in range(6)]
        one = float(np.sum(np.square(radii) / exact.counts)) / (found.mu**2 * 250 * exact.loss)
        assert one < found.first_order < 24.0 * one


def test_one_draw_approaches_its_first_order(
    homes: Floats, limits: tuple[AccuracyLimit, ...]
) -> None:
    """With little noise hardly a customer changes cluster; with much, the nearest is cheaper."""
    *_, little = limits
    assert little.one_draw == pytest.approx(little.first_order, rel=0.25)
    (less,) = accuracy_limits(homes, 6, epsilons=[300.0], delta=1e-6)
    assert less.one_draw == pytest.approx(less.first_order, rel=0.1)
    assert all(found.one_draw < 1.02 * found.first_order for found in limits)
    assert all(one.one_draw > two.one_draw for one, two in pairwise(limits))


def test_bound_is_that_of_hammersley_chapman_and_robbins(
    limits: tuple[AccuracyLimit, ...],
) -> None:
    """The chi-squared divergence of rho-zCDP is e^(2 rho) - 1; a Gaussian shift reaches 2 rho."""
    for found in limits:
        rho = found.mu**2 / 2.0
        assert found.bound == pytest.approx(
            found.first_order * 2.0 * rho / (math.exp(2.0 * rho) - 1.0)
        )
    assert limits[1].bound == pytest.approx(limits[1].first_order, rel=0.03)  # epsilon 1


def test_small_clusters_are_given_up() -> None:
    """A lone customer far away is a cluster of exact K-means, and of B only if one may be."""
    generator = np.random.default_rng(0)
    crowd = np.repeat([[0.0], [10.0]], 50, axis=0) + generator.normal(0.0, 0.1, (100, 1))
    rows = np.vstack([crowd, [[1000.0]]])
    exact = exact_answer(rows, 3)
    assert exact.counts.min() == 1
    assert loss_without_small_clusters(rows, exact, 1.0) == 0.0
    best = clustering_loss(rows, np.array([[0.0], [10.0]])) / exact.loss - 1.0
    found = loss_without_small_clusters(rows, exact, 2.0)
    assert found == pytest.approx(best, rel=0.05)  # some halves a crowd with the third
    everyone = clustering_loss(rows, rows.mean(axis=0, keepdims=True)) / exact.loss - 1.0
    assert loss_without_small_clusters(rows, exact, 90.0) == pytest.approx(everyone)


def test_b_grows_with_the_noise(homes: Floats, limits: tuple[AccuracyLimit, ...]) -> None:
    """A larger minimum forbids more; the loss against B is that against exact K-means over it."""
    losses = [found.no_small_clusters for found in limits]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 0.0
    found = limits[0]
    assert found.min_customers == pytest.approx(5.0 / found.mu)
    assert found.reference == max(found.one_draw, found.no_small_clusters)
    exact = exact_answer(homes, 6).loss
    smaller = exact * (1.0 + found.no_small_clusters)
    private = 2.0 * exact
    assert found.against_b(1.0) == pytest.approx((private - smaller) / smaller)


def test_customers_who_are_alike_need_no_noise() -> None:
    """A cluster of equal rows hides every one of them: it adds nothing to A."""
    rows = np.array([[0.0, 1.0]] * 5 + [[9.0, 9.0], [9.5, 9.0]])
    (found,) = accuracy_limits(rows, 2, epsilons=[1.0], delta=1e-6)
    (of_pair,) = accuracy_limits(
        np.array([[0.0, 1.0]] * 50 + [[9.0, 9.0], [9.5, 9.0]]), 2, epsilons=[1.0], delta=1e-6
    )
    assert found.first_order == pytest.approx(of_pair.first_order, rel=0.02)
