"""Ren, Xiong, Yao, Ma and Lin (2017), "DPLK-means", IEEE DSC, as others describe it.

1. Split the customers at random into parts; DP-Lloyd on each part.
2. Merge the centroids of all parts into K by k-means: they are released, so that costs nothing.
3. DP-Lloyd on all customers from there.

Assumed: 4 parts drawn by independent lots, half the budget for each stage, 1 round each (3 lose
twice as much), a packed start. A customer is in one part, so the first stage costs what one part
costs.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.lap_lloyd import lap_lloyd
from wattveil.baselines.noise import Noise, total_epsilon
from wattveil.baselines.outcome import Outcome, PublicChoices, checked, promise
from wattveil.baselines.starts import packed_start
from wattveil.clustering.lloyd import k_means

_PARTS = 4
_ROUNDS = 1


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return the centroids after both stages: pure epsilon, rigorous."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    d, n_clusters = public.n_slots, public.n_clusters
    budgets = [epsilon / 2.0 / _ROUNDS] * _ROUNDS
    noise = Noise(generator)
    part_of = generator.integers(_PARTS, size=len(points))
    branches, found = [], []
    for part in range(_PARTS):
        branch = Noise(generator)
        start = packed_start(n_clusters, d, generator)
        found.append(lap_lloyd(points[part_of == part], start, budgets, branch)[0])
        branches.append(branch)
    noise.took_one_of(branches)
    start = k_means(np.vstack(found), n_clusters, seed=generator).centroids
    centroids, _ = lap_lloyd(points, start, budgets, noise)
    return Outcome(
        centroids_kw=public.from_box(centroids),
        claimed=promise(epsilon),
        true=promise(total_epsilon(noise.asks)),
        doubts=("parts, rounds and budgets are assumed",),
        asks=tuple(noise.asks),
    )
