"""Leave-one-out K-means against the naive loop."""

from dataclasses import replace

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.instance_query import merge_small_clusters
from wattveil.numerics.kmeans.lloyd import LloydResult, k_means, lloyd
from wattveil.numerics.leave_one_out.leave_one_out_runs import LeaveOneOut, leave_one_out


def assert_equals_loop(points: Floats, fit: LloydResult, min_cluster_size: int = 0) -> LeaveOneOut:
    """Compare every removal with Lloyd run from scratch: labels equal, centroids to 1e-10."""
    runs = leave_one_out(points, fit, min_cluster_size=min_cluster_size)
    answer = merge_small_clusters(points, fit, min_cluster_size)
    np.testing.assert_array_equal(runs.labels, answer.labels)
    rows = np.unique(answer.labels) if min_cluster_size else np.arange(fit.centroids.shape[0])
    for p in range(points.shape[0]):
        others = np.delete(points, p, axis=0)
        loop = merge_small_clusters(others, lloyd(others, fit.centroids), min_cluster_size)
        shift = answer.centroids - loop.centroids
        np.testing.assert_allclose(runs.difference(p)[rows], shift[rows], rtol=0, atol=1e-10)
        labels = answer.labels.copy()
        changed = runs.changed_removal == p
        labels[runs.changed_point[changed]] = runs.changed_label[changed]
        np.testing.assert_array_equal(np.delete(labels, p), loop.labels)
        assert not (changed & (runs.changed_point == p)).any()
        assert (answer.labels[runs.changed_point[changed]] != runs.changed_label[changed]).all()
    return runs


def test_four_points_by_hand() -> None:
    """Clusters {0, 1} and {9, 10}: leaving out 0 moves the mean 0.5 to 1, and so on."""
    points = np.array([[0.0], [1.0], [9.0], [10.0]])
    runs = leave_one_out(points, lloyd(points, [[0.0], [10.0]]))
    assert runs.own_shift.ravel().tolist() == [-0.5, 0.5, -0.5, 0.5]
    assert runs.other_removal.size == 0
    assert runs.label_set.size == 0
    assert runs.max_labels_changed == 0


def test_a_flip_by_hand() -> None:
    """Clusters {0, 4} and {7, 9}, means 2 and 8; without 0 the first mean is 4 and takes nothing,
    without 9 the second is 7; with 5.4 in the second, leaving out 0 makes it flip to the first.
    """
    points = np.array([[0.0], [4.0], [5.4], [7.0], [9.0]])
    fit = lloyd(points, [[2.0], [7.0]])
    assert fit.labels.tolist() == [0, 0, 1, 1, 1]
    runs = assert_equals_loop(points, fit)
    assert runs.changed_point[runs.changed_removal == 0].tolist() == [2]
    np.testing.assert_allclose(runs.difference(0).ravel(), [2.0 - 4.7, 21.4 / 3 - 8.0])
    assert 2 in runs.label_set


@pytest.mark.parametrize("seed", range(4))
def test_random_points(seed: int) -> None:
    """Without structure labels flip often; every removal equals the loop."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(150, 3))
    runs = assert_equals_loop(points, k_means(points, 4, seed=generator, n_init=1))
    assert runs.max_labels_changed > 0


def test_cascades_over_several_rounds() -> None:
    """Removals whose flips cause further flips, for more than ten rounds, equal the loop."""
    generator = np.random.default_rng(33)
    points = generator.normal(size=(200, 2))
    fit = k_means(points, 5, seed=generator, n_init=1)
    runs = assert_equals_loop(points, fit)
    worst = np.bincount(runs.changed_removal).argmax()
    assert lloyd(np.delete(points, worst, axis=0), fit.centroids).rounds > 10
    assert runs.max_labels_changed > 20
    assert np.unique(runs.other_cluster).size > 2


@pytest.mark.parametrize("headroom", [1.0, 1e-9])
def test_rounds_beyond_the_lists(monkeypatch: pytest.MonkeyPatch, headroom: float) -> None:
    """When centroids move beyond the lists, the round inspects all points, with the same result.

    With almost no headroom the first round cannot rely on the lists either, so flips are forced
    through the merging path, which runs every removal to its end.
    """
    generator = np.random.default_rng(1)
    points = generator.normal(size=(100, 2))
    fit = k_means(points, 4, seed=generator, n_init=1)
    monkeypatch.setattr("wattveil.numerics.leave_one_out.leave_one_out_runs._HEADROOM", headroom)
    assert_equals_loop(points, fit, min_cluster_size=0 if headroom == 1.0 else 100)


@pytest.mark.parametrize("step", [1.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_tied_points(seed: int, step: float) -> None:
    """Points on a grid, many of them half way between centroids: ties fall as in the loop."""
    generator = np.random.default_rng(seed)
    points = step * generator.integers(0, 4, size=(60, 2)).astype(np.float64)
    assert_equals_loop(points, k_means(points, 5, seed=generator, n_init=1))


def test_clusters_of_one_and_two() -> None:
    """A lone point leaves its centroid behind; one of two leaves the place of the other."""
    points = np.array([[0.0], [0.1], [0.2], [50.0], [80.0], [84.0]])
    fit = lloyd(points, [[0.0], [50.0], [82.0]])
    assert fit.counts.tolist() == [3, 1, 2]
    runs = assert_equals_loop(points, fit)
    assert runs.own_shift[3].tolist() == [0.0]
    assert runs.own_shift[4].tolist() == [-2.0]


def test_every_point_its_own_cluster() -> None:
    """K = P: nothing can move."""
    points = np.array([[0.0], [1.0], [5.0]])
    runs = assert_equals_loop(points, lloyd(points, points))
    assert not runs.own_shift.any()


def test_duplicates_and_constant_columns() -> None:
    """Copies of two points, one coordinate constant, an empty cluster: equal to the loop."""
    points = np.array([[1.0, 7.0]] * 5 + [[2.0, 7.0]] * 4)
    assert_equals_loop(points, lloyd(points, [[1.0, 7.0], [2.0, 7.0], [90.0, 7.0]]))


def test_one_cluster() -> None:
    """K = 1: the mean without p."""
    points = np.random.default_rng(0).normal(size=(30, 4))
    runs = assert_equals_loop(points, lloyd(points, points[:1]))
    np.testing.assert_allclose(runs.own_shift, (points - points.mean(axis=0)) / 29)


@pytest.mark.parametrize("min_cluster_size", [1, 2, 3, 8, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_merging_small_clusters(seed: int, min_cluster_size: int) -> None:
    """The merging rule runs inside every removal, also where a removal makes a cluster small."""
    generator = np.random.default_rng(seed)
    points = np.exp(1.5 * generator.normal(size=(60, 2)))
    fit = k_means(points, 6, seed=generator, n_init=1)
    assert_equals_loop(points, fit, min_cluster_size)


def test_merging_by_hand() -> None:
    """{50} joins {80, 84}, not {0, 0.1, 0.2}: its centroid is nearer; rows repeat the group's."""
    points = np.array([[0.0], [0.1], [0.2], [50.0], [80.0], [84.0]])
    fit = lloyd(points, [[0.0], [50.0], [82.0]])
    merged = merge_small_clusters(points, fit, 2)
    assert merged.labels.tolist() == [0, 0, 0, 2, 2, 2]
    np.testing.assert_allclose(merged.centroids.ravel(), [0.1, 214 / 3, 214 / 3])
    assert merged.counts.tolist() == [3, 0, 3]


def test_merging_less_than_one_cluster_is_identity() -> None:
    """0 merges nothing; the bits stay."""
    points = np.random.default_rng(0).normal(size=(50, 2))
    fit = lloyd(points, points[:3])
    assert merge_small_clusters(points, fit, 0).centroids.tobytes() == fit.centroids.tobytes()


def test_a_planted_wrong_margin_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that end too early lose flips, and the comparison with the loop sees it."""
    generator = np.random.default_rng(0)
    points = generator.normal(size=(150, 3))
    fit = k_means(points, 4, seed=generator, n_init=1)
    monkeypatch.setattr("wattveil.numerics.leave_one_out.leave_one_out_runs._HEADROOM", 1e-3)
    with pytest.raises(AssertionError):
        assert_equals_loop(points, fit)


def test_large_set_against_sampled_loop() -> None:
    """20,000 points in several spans: sampled removals, flipping ones first, equal the loop."""
    generator = np.random.default_rng(2)
    points = generator.normal(size=(20_000, 4))
    fit = k_means(points, 5, seed=generator, n_init=1)
    runs = leave_one_out(points, fit)
    flipping = np.unique(runs.changed_removal)
    for p in [*flipping[:10], *generator.integers(20_000, size=10)]:
        loop = lloyd(np.delete(points, p, axis=0), fit.centroids)
        np.testing.assert_allclose(
            runs.difference(p), fit.centroids - loop.centroids, rtol=0, atol=1e-10
        )
        labels = fit.labels.copy()
        changed = runs.changed_removal == p
        labels[runs.changed_point[changed]] = runs.changed_label[changed]
        np.testing.assert_array_equal(np.delete(labels, p), loop.labels)


def test_bad_input_is_named() -> None:
    """One customer, an unfinished run, other points, other labels, a negative size: refused."""
    points = np.array([[0.0], [1.0], [9.0], [10.0]])
    fit = lloyd(points, [[0.0], [10.0]])
    with pytest.raises(InvalidParameterError, match="two rows"):
        leave_one_out([[1.0]], lloyd([[1.0]], [[1.0]]))
    with pytest.raises(InvalidParameterError, match="converged"):
        leave_one_out(points, replace(fit, converged=False))
    with pytest.raises(InvalidParameterError, match="clustered"):
        leave_one_out(points[:3], fit)
    with pytest.raises(InvalidParameterError, match="fixed point"):
        leave_one_out(points, replace(fit, labels=np.array([0, 1, 0, 1], np.int32)))
    with pytest.raises(InvalidParameterError, match="min_cluster_size"):
        leave_one_out(points, fit, min_cluster_size=-1)
