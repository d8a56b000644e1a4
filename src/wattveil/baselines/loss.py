"""How much worse a private answer is than the exact one.

r(X, q) = 1/P sum_p |x_p - c_{l_p}|^2 is the loss of centroids c and labels l; the DP accuracy loss
is (r(X, private) - r(X, exact)) / r(X, exact). It reads the data: it stays in house.
"""

import numpy as np

from wattveil.baselines.outcome import Floats, Ints
from wattveil.clustering.lloyd import LloydResult, assign, k_means
from wattveil.errors import InvalidDataError

EXACT_SEED = 0
EXACT_STARTS = 10


def exact_answer(rows: Floats, n_clusters: int) -> LloydResult:
    """Return the exact answer: K-means, the best of ten starts, always the same."""
    return k_means(rows, n_clusters, seed=EXACT_SEED, n_init=EXACT_STARTS)


def clustering_loss(rows: Floats, centroids: Floats, labels: Ints | None = None) -> float:
    """Return r(X, q); without labels each customer takes the nearest centroid."""
    taken = assign(rows, centroids) if labels is None else labels
    return float(np.square(rows - centroids[taken]).sum(axis=1).mean())


def accuracy_loss(
    rows: Floats, centroids: Floats, labels: Ints | None = None, *, exact: float
) -> float:
    """Return (r(private) - exact) / exact, for the loss ``exact`` of the exact answer."""
    if exact <= 0.0:
        raise InvalidDataError("more different customers than clusters", [])
    return (clustering_loss(rows, centroids, labels) - exact) / exact
