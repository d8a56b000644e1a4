"""Ni, Qiao, Chen, Zhang and Zhong (2021), DP-KCCM, Neurocomputing 424, by its abstract.

1. Start with m K centroids, m > 1.
2. DP-Lloyd on them, with a budget that grows from round to round.
3. Merge the closest pair into its mean by weight, again and again, until K are left: they are
   released, so that costs nothing.

Assumed: m = 2, 2 rounds (they lose 0.8 times what 5 do), epsilon_t proportional to 1.5^t, a packed
start, noisy counts as weights.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.lap_lloyd import lap_lloyd
from wattveil.baselines.noise import Noise, total_epsilon
from wattveil.baselines.outcome import Floats, Outcome, PublicChoices, checked, promise
from wattveil.baselines.starts import packed_start

_TIMES = 2
_ROUNDS = 2
_GROWTH = 1.5


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return the merged centroids: pure epsilon, since the budgets are fixed in advance."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    noise = Noise(generator)
    growing = _GROWTH ** np.arange(_ROUNDS)
    centroids, counts = lap_lloyd(
        points,
        packed_start(_TIMES * public.n_clusters, public.n_slots, generator),
        (epsilon * growing / growing.sum()).tolist(),
        noise,
    )
    merged = merge_closest(centroids, np.maximum(counts, 1.0), public.n_clusters)
    return Outcome(
        centroids_kw=public.from_box(merged),
        claimed=promise(epsilon),
        true=promise(total_epsilon(noise.asks)),
        doubts=(
            "the source's budgets are adaptive in a way that is not known here",
            "budgets that follow exact sizes or shifts would void the guarantee",
        ),
        asks=tuple(noise.asks),
    )


def merge_closest(centroids: Floats, weights: Floats, n_clusters: int) -> Floats:
    """Merge the closest two until ``n_clusters`` are left."""
    centroids, weights = centroids.copy(), weights.copy()
    while len(centroids) > n_clusters:
        apart = np.linalg.norm(centroids[:, None] - centroids, axis=2)
        np.fill_diagonal(apart, np.inf)
        i, j = sorted(np.unravel_index(apart.argmin(), apart.shape))
        centroids[i] = np.average(centroids[[i, j]], axis=0, weights=weights[[i, j]])
        weights[i] += weights[j]
        centroids, weights = np.delete(centroids, j, axis=0), np.delete(weights, j)
    return centroids
