"""The paper's Algorithm 2, for its figures alone: log-normal customers of each cluster.

Per cluster: logs y = log(x + alpha); their mean, moved as far as the noise moved the centroid; a
second moment with Wishart noise; samples of that normal law; back by exp and - alpha.

Assumed, because the paper does not say: the noise of a released centroid c~ enters the mean of the
logs as log(c~ + alpha) - log(c + alpha); Wishart noise has the epsilon of the centroids, with the
longest row of the cluster as its bound.
"""

from typing import Literal

import numpy as np

from wattveil.clustering._kernels import Indices
from wattveil.clustering.geometry import Floats
from wattveil.reproduce.customers import ALPHA_KW
from wattveil.reproduce.draws import Lots
from wattveil.reproduce.mechanism import Mechanism, symmetric_root
from wattveil.reproduce.wishart import wishart_noise

Moment = Literal["second", "centred"]


def algorithm_2(
    mechanism: Mechanism,
    *,
    centroids: Floats,
    wanted: Indices,
    epsilon: float | None,
    moment: Moment,
    lots: Lots,
) -> Floats:
    """Draw a customer of each wanted cluster.

    Parameters
    ----------
    centroids : (K, d)
        Noisy.
    wanted : (N,)
        Cluster of each customer to draw.
    epsilon : float or None
        Of the Wishart noise; None adds none.
    moment : {"second", "centred"}
        "second" is the paper to the letter, X X' / n, which is no covariance; "centred" is what it
        must have meant.
    """
    exact, drawn = mechanism.exact, np.empty((wanted.size, mechanism.rows.shape[1]))
    for k in np.unique(wanted):
        logs = np.log(mechanism.rows[exact.labels == k] + ALPHA_KW)
        offsets = logs if moment == "second" else logs - logs.mean(axis=0)
        covariance = offsets.T @ offsets / len(logs)
        if epsilon is not None:
            covariance += wishart_noise(
                n=len(logs),
                width=logs.shape[1],
                epsilon=epsilon,
                longest=float(np.linalg.norm(offsets, axis=1).max()),
                lots=lots,
            )
        moved = np.log(np.maximum(centroids[k] + ALPHA_KW, 1e-3)) - np.log(
            exact.centroids[k] + ALPHA_KW
        )
        own = np.flatnonzero(wanted == k)
        scores = lots.standard_normal((own.size, logs.shape[1]))
        drawn[own] = (
            np.exp(logs.mean(axis=0) + moved + scores @ symmetric_root(covariance)) - ALPHA_KW
        )
    return drawn
