"""Yu, Luo, Chen and Ding (2016), outlier-eliminated k-means, Appl. Intell. 45, by its abstract.

1. Drop outliers: the largest mean distance to the 20 nearest neighbours.
2. Start at dense places: the densest customer, then the one of largest density times distance to
   those chosen.
3. DP-Lloyd with Laplace noise.

Assumed: half a percent of the customers is dropped, at least one; density is one over the mean
distance of step 1; 2 rounds of the same budget, which lose 0.68 times what 5 do; noise is added to
sums and counts (the abstract may be read as noise on the data themselves).
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors

from wattveil.baselines.lap_lloyd import lap_lloyd
from wattveil.baselines.noise import Noise
from wattveil.baselines.outcome import Floats, Outcome, PublicChoices, checked, promise

_NEIGHBOURS = 20
_DROPPED_SHARE = 0.005
_ROUNDS = 2
_DOUBTS = (
    "who is dropped as an outlier is decided on exact data",
    "the start is a set of exact customers",
    "only the rounds after it are noisy: not differentially private as a whole",
)


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return the centroids after two noisy rounds from an exact start: no guarantee."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    kept, density = without_outliers(points)
    noise = Noise(generator)
    centroids, _ = lap_lloyd(
        kept,
        dense_start(kept, density, public.n_clusters),
        [epsilon / _ROUNDS] * _ROUNDS,
        noise,
    )
    return Outcome(
        centroids_kw=public.from_box(centroids),
        claimed=promise(epsilon),
        true=None,
        doubts=_DOUBTS,
        asks=tuple(noise.asks),
    )


def without_outliers(points: Floats) -> tuple[Floats, Floats]:
    """Return the customers who stay, and the density around each."""
    neighbours = min(_NEIGHBOURS, len(points) - 1)
    if neighbours == 0:
        return points, np.ones(1)
    distances, _ = NearestNeighbors(n_neighbors=neighbours).fit(points).kneighbors()
    alone = distances.mean(axis=1)
    dropped = max(1, round(_DROPPED_SHARE * len(points)))
    stay = np.sort(np.argsort(alone, kind="stable")[:-dropped])
    return points[stay], 1.0 / np.maximum(alone[stay], 1e-9)


def dense_start(points: Floats, density: Floats, n_clusters: int) -> Floats:
    """Return customers in dense places, far from each other."""
    chosen = [int(density.argmax())]
    nearest = np.full(len(points), np.inf)
    for _ in range(1, n_clusters):
        nearest = np.minimum(nearest, np.linalg.norm(points - points[chosen[-1]], axis=1))
        chosen.append(int((density * nearest).argmax()))
    return points[chosen]
