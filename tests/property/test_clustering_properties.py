"""Rules of the clustering numerics that hold for any data."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wattveil.arrays import Floats
from wattveil.numerics.kmeans.instance_query import merge_small_clusters
from wattveil.numerics.kmeans.lloyd import k_means, lloyd
from wattveil.numerics.leave_one_out.ellipsoid import minimum_trace_ellipsoid
from wattveil.numerics.leave_one_out.leave_one_out_runs import leave_one_out

shapes = st.tuples(st.integers(2, 12), st.integers(1, 3))
# Few distinct values: ties, copies and constant columns are the rule.
coarse = arrays(np.float64, shapes, elements=st.sampled_from([-1.0, 0.0, 0.1, 1.0, 3.0]))
# Rounded: sums are exact while n max|x| / min|x| < 2^54, which 1e-200 beside 1 breaks.
fine = arrays(np.float64, shapes, elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 6)))


@settings(max_examples=150, deadline=None)
@given(points=st.one_of(coarse, fine), n_clusters=st.integers(1, 5), size=st.integers(0, 4))
def test_leave_one_out_equals_the_loop(points: Floats, n_clusters: int, size: int) -> None:
    """Labels are identical and centroids agree to 1e-10 for every removal."""
    n_clusters = min(n_clusters, points.shape[0])
    fit = k_means(points, n_clusters, seed=np.random.default_rng(0), n_init=1)
    runs = leave_one_out(points, fit, min_cluster_size=size)
    answer = merge_small_clusters(points, fit, size)
    rows = np.unique(answer.labels)
    for p in range(points.shape[0]):
        others = np.delete(points, p, axis=0)
        loop = merge_small_clusters(others, lloyd(others, fit.centroids), size)
        labels = answer.labels.copy()
        changed = runs.changed_removal == p
        labels[runs.changed_point[changed]] = runs.changed_label[changed]
        np.testing.assert_array_equal(np.delete(labels, p), loop.labels)
        shift = answer.centroids - loop.centroids
        np.testing.assert_allclose(runs.difference(p)[rows], shift[rows], rtol=0, atol=1e-10)


@settings(max_examples=100, deadline=None)
@given(points=fine, n_clusters=st.integers(1, 5))
def test_lloyd_ends_at_a_fixed_point(points: Floats, n_clusters: int) -> None:
    """A converged run, started from its own centroids, changes nothing."""
    start = points[: min(n_clusters, points.shape[0])]
    result = lloyd(points, start)
    again = lloyd(points, result.centroids)
    assert result.converged
    np.testing.assert_array_equal(again.labels, result.labels)
    assert again.centroids.tobytes() == result.centroids.tobytes()


@settings(max_examples=100, deadline=None)
@given(
    differences=fine.filter(lambda rows: np.abs(rows).max() > 1e-3), gamma_c=st.floats(1e-3, 1e3)
)
def test_every_difference_is_hidden(differences: Floats, gamma_c: float) -> None:
    """Every constraint holds with the returned matrix; the power is at most that of white noise."""
    ellipsoid = minimum_trace_ellipsoid(differences, gamma_c=gamma_c)
    assert np.square(differences @ ellipsoid.whitening.T).sum(axis=1).max() <= gamma_c
    assert ellipsoid.gap >= -1e-12
    white = differences.shape[1] * np.square(differences).sum(axis=1).max() / gamma_c
    assert ellipsoid.trace <= white * (1.0 + 1e-4)
