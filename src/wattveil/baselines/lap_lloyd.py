"""The step that most rivals share: Lloyd's rounds with Laplace noise on sums and counts.

Blum, Dwork, McSherry and Nissim (2005). In a round every customer adds one point to one sum and 1
to one count, so with points of [-1, 1]^d a customer changes the sums by at most d and the counts by
1, whatever the data: the noise is rigorous, and rounds add up.
"""

from collections.abc import Sequence

import numpy as np

from wattveil.baselines.noise import Noise
from wattveil.baselines.outcome import Floats, Ints
from wattveil.clustering._kernels import Labels
from wattveil.clustering.lloyd import assign


def in_unit_ball(points: Floats) -> Floats:
    """Scale points outside of the unit ball back to its surface."""
    scaled: Floats = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1.0)
    return scaled


def lap_lloyd(
    points: Floats,
    start: Floats,
    budgets: Sequence[float],
    noise: Noise,
    *,
    count_share: float | None = None,
) -> tuple[Floats, Floats]:
    """Return the centroids and noisy counts after one round for each budget.

    Parameters
    ----------
    points : (P, d)
        In [-1, 1]^d.
    start : (K, d)
        Public, or released before.
    budgets : sequence of float
        Epsilon of each round.
    noise : Noise
        Draws and records.
    count_share : float or None
        Of a round's epsilon for the counts; None makes the noise of sums and counts alike.
    """
    centroids, counts = start, np.zeros(len(start))
    for epsilon in budgets:
        # A part of the customers may be empty; its answer is noise alone.
        labels = assign(points, centroids) if len(points) else np.empty(0, np.int32)
        centroids, counts = noisy_means(
            points,
            labels,
            centroids,
            noise,
            epsilon=epsilon,
            count_share=count_share,
        )
    return centroids, counts


def noisy_means(
    points: Floats,
    labels: Labels,
    previous: Floats,
    noise: Noise,
    *,
    epsilon: float,
    count_share: float | None = None,
) -> tuple[Floats, Floats]:
    """Return the noisy mean and count of each cluster; one without customers keeps its centroid.

    With the usual share the noise is Lap((d + 1) / epsilon) on every number.
    """
    d = points.shape[1]
    share = 1.0 / (d + 1.0) if count_share is None else count_share
    exact_sums, exact_counts = sums_and_counts(points, labels, len(previous))
    sums = noise.laplace(exact_sums, sensitivity=d, epsilon=(1.0 - share) * epsilon, step="sums")
    counts = noise.laplace(exact_counts, sensitivity=1.0, epsilon=share * epsilon, step="counts")
    means = np.clip(sums / np.maximum(counts, 1.0)[:, None], -1.0, 1.0)
    return np.where(counts[:, None] > 1.0, means, previous), counts


def sums_and_counts(
    points: Floats, labels: Labels | Ints, n_clusters: int
) -> tuple[Floats, Floats]:
    """Return the exact sum and count of each cluster."""
    sums = np.zeros((n_clusters, points.shape[1]))
    np.add.at(sums, labels, points)
    return sums, np.bincount(labels, minlength=n_clusters).astype(np.float64)
