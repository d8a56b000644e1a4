"""Starting centroids that look at no customer."""

import numpy as np
from numpy.random import Generator

from wattveil.baselines.outcome import Floats

_DRAWS = 100


def uniform_start(n_clusters: int, n_slots: int, generator: Generator) -> Floats:
    """Return centroids drawn uniformly from [-1, 1]^d."""
    return generator.uniform(-1.0, 1.0, (n_clusters, n_slots))


def packed_start(n_clusters: int, n_slots: int, generator: Generator) -> Floats:
    """Return centroids of which no two are near each other: the sphere packing of Su et al. (2016).

    Each is drawn at least a from the walls of [-1, 1]^d and 2 a from the others; when 100 draws in
    a row fail, a is halved and all begin anew.
    """
    gap = 1.0
    while True:
        gap /= 2.0
        chosen: list[Floats] = []
        for _ in range(n_clusters):
            drawn = generator.uniform(gap - 1.0, 1.0 - gap, (_DRAWS, n_slots))
            if chosen:
                apart = np.linalg.norm(drawn[:, None] - np.array(chosen), axis=2).min(axis=1)
                drawn = drawn[apart >= 2.0 * gap]
            if not len(drawn):
                break
            chosen.append(drawn[0])
        if len(chosen) == n_clusters:
            return np.array(chosen)
