"""Lloyd's algorithm against hand work, scikit-learn and its own rules of arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from wattveil import compiled
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans import kernels
from wattveil.numerics.kmeans.lloyd import k_means, lloyd


def blobs(seed: int, n_points: int, d: int, n_clusters: int) -> NDArray[np.float64]:
    """Return clustered points."""
    generator = np.random.default_rng(seed)
    centres = 2.0 * generator.normal(size=(n_clusters, d))
    return centres[generator.integers(n_clusters, size=n_points)] + generator.normal(
        size=(n_points, d)
    )


def test_four_points_by_hand() -> None:
    """From starts 0 and 1 the points 0, 1, 9, 10 take two updates to the means 0.5 and 9.5."""
    result = lloyd([[0.0], [1.0], [9.0], [10.0]], [[0.0], [1.0]])
    assert result.centroids.ravel().tolist() == [0.5, 9.5]
    assert result.labels.tolist() == [0, 0, 1, 1]
    assert result.counts.tolist() == [2, 2]
    assert result.loss == 0.25
    assert result.rounds == 2
    assert result.converged


@pytest.mark.parametrize(
    ("seed", "d", "n_clusters"), [(0, 24, 6), (1, 1, 3), (2, 7, 2), (3, 96, 9)]
)
def test_same_partition_as_scikit_learn(seed: int, d: int, n_clusters: int) -> None:
    """From the same start the partition is scikit-learn's, the centroids to rounding."""
    points = blobs(seed, 3_000, d, n_clusters)
    start = points[:n_clusters]
    ours = lloyd(points, start)
    theirs = KMeans(n_clusters, init=start, n_init=1, tol=0.0, max_iter=1000).fit(points)
    np.testing.assert_array_equal(ours.labels, theirs.labels_)
    np.testing.assert_allclose(ours.centroids, theirs.cluster_centers_, rtol=0, atol=1e-11)
    assert ours.loss == pytest.approx(theirs.inertia_ / 3_000, rel=1e-12)


def test_ties_go_to_the_lowest_index() -> None:
    """A point as far from two centroids takes the first, whatever order they stand in."""
    points = [[-1.0], [0.0], [1.0]]
    assert lloyd(points, [[-1.0], [1.0]], max_rounds=1).labels.tolist() == [0, 0, 1]
    assert lloyd(points, [[1.0], [-1.0]], max_rounds=1).labels.tolist() == [1, 0, 0]


def test_empty_cluster_keeps_its_centroid() -> None:
    """A centroid that no point prefers stays where it started."""
    result = lloyd([[0.0], [1.0]], [[0.5], [100.0]])
    assert result.centroids.ravel().tolist() == [0.5, 100.0]
    assert result.counts.tolist() == [2, 0]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_bits_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Any number of threads gives the same bits."""
    points = blobs(4, 20_000, 5, 4)
    expected = lloyd(points, points[:4])
    monkeypatch.setattr(compiled, "THREADS", threads)
    again = lloyd(points, points[:4])
    np.testing.assert_array_equal(again.labels, expected.labels)
    assert again.centroids.tobytes() == expected.centroids.tobytes()
    assert again.loss == expected.loss


def test_centroids_do_not_depend_on_the_order_of_points() -> None:
    """Sums are exact: shuffling the points leaves every bit of the centroids as it was."""
    points = blobs(5, 5_000, 3, 3) * 1e3
    start = points[:3].copy()
    order = np.random.default_rng(0).permutation(5_000)
    assert (
        lloyd(points, start).centroids.tobytes() == lloyd(points[order], start).centroids.tobytes()
    )


def test_centroid_is_the_exact_mean_rounded() -> None:
    """Against rational arithmetic: high / n of the exact sum, where plain addition is off."""
    column = 1e5 * np.random.default_rng(6).normal(size=2_000)
    column[::2] = -column[1::2] + 1e-9  # cancels
    exact = sum((Fraction(x) for x in column.tolist()), Fraction(0))
    result = lloyd(column[:, None], [[0.0]])
    assert result.centroids[0, 0] == float(exact) / 2_000
    assert float(np.cumsum(column)[-1]) != float(exact)


def test_distances_follow_the_stated_order() -> None:
    """Block and single distances have the bits of plain left-to-right addition."""
    generator = np.random.default_rng(7)
    for d in (1, 3, 4, 25):
        points, centroids = (
            generator.normal(size=(kernels.BLOCK, d)),
            generator.normal(size=(3, d)),
        )
        columns, distances = np.zeros((d, kernels.BLOCK)), np.empty((3, kernels.BLOCK))
        kernels.block_distances(points, (0, kernels.BLOCK), centroids, columns, distances)
        for i, point in enumerate(points):
            for k, centroid in enumerate(centroids):
                total = 0.0
                for x, c in zip(point.tolist(), centroid.tolist(), strict=True):
                    total += (x - c) * (x - c)
                assert distances[k, i] == total
                assert kernels.squared_distance(points, i, centroids, k) == total


def test_best_of_several_starts() -> None:
    """More starts never lose, and find the separated clusters."""
    points = np.concatenate([blobs(8, 200, 2, 1) + shift for shift in (0.0, 40.0, 80.0)])
    result = k_means(points, 3, seed=np.random.default_rng(0), n_init=5)
    assert sorted(result.counts.tolist()) == [200, 200, 200]
    one = k_means(points, 3, seed=np.random.default_rng(0), n_init=1)
    assert result.loss <= one.loss


def test_same_generator_same_answer() -> None:
    """The generator governs the start and so the answer."""
    points = blobs(9, 500, 3, 4)
    one, two = (k_means(points, 4, seed=np.random.default_rng(3), n_init=2) for _ in range(2))
    assert one.centroids.tobytes() == two.centroids.tobytes()


def test_duplicates_only() -> None:
    """Fewer distinct points than clusters: the surplus clusters are empty."""
    result = k_means(np.full((5, 2), 3.0), 3, seed=np.random.default_rng(0))
    assert result.loss == 0.0
    assert result.counts.tolist() == [5, 0, 0]


def test_unfinished_run_is_reported() -> None:
    """A run stopped early is not converged; its centroids are the means of its labels."""
    points = blobs(10, 1_000, 3, 5)
    result = lloyd(points, points[:5], max_rounds=1)
    assert not result.converged
    np.testing.assert_allclose(
        result.centroids, [points[result.labels == k].mean(axis=0) for k in range(5)]
    )


@pytest.mark.parametrize(
    ("field", "points", "start"),
    [
        ("points", [[np.nan]], [[0.0]]),
        ("points", [[np.inf]], [[0.0]]),
        ("points", [[1e200]], [[0.0]]),
        ("points", [1.0, 2.0], [[0.0]]),
        ("points", np.zeros((0, 2)), [[0.0, 0.0]]),
        ("start", [[0.0]], [[0.0, 1.0]]),
        ("start", [[0.0]], [[np.nan]]),
    ],
)
def test_bad_input_is_named(field: str, points: object, start: object) -> None:
    """NaN, infinity, overflow and wrong shapes are refused by the name of the argument."""
    with pytest.raises(InvalidParameterError) as caught:
        lloyd(points, start)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("n_clusters", "n_init", "field"),
    [(3, 1, "n_clusters"), (0, 1, "n_clusters"), (1, 0, "n_init")],
)
def test_bad_counts_are_named(n_clusters: int, n_init: int, field: str) -> None:
    """More clusters than points, none at all, or no start: refused."""
    with pytest.raises(InvalidParameterError) as caught:
        k_means([[0.0], [1.0]], n_clusters, seed=np.random.default_rng(0), n_init=n_init)
    assert caught.value.field == field


def test_no_rounds_are_refused() -> None:
    """At least one round is needed to have labels."""
    with pytest.raises(InvalidParameterError, match="max_rounds"):
        lloyd([[0.0]], [[0.0]], max_rounds=0)
