"""Su, Cao, Li, Bertino and Jin (2016): EUGkM, k-means on a noisy histogram. For d <= 3 only.

The box is cut into M = (n epsilon / 10)^(2 d / (2 + d)) equal cells; each count gets Laplace noise;
weighted k-means on the middles of the cells is post-processing.

Assumed: the same number of cells along every slot, two at least and 100,000 in all at
most; negative counts are 0; n is public, since the list of customers is.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from wattveil.baselines.noise import Noise, total_epsilon
from wattveil.baselines.outcome import Outcome, PublicChoices, checked, promise
from wattveil.errors import InvalidParameterError

MOST_SLOTS = 3
_MOST_CELLS = 1e5
_STARTS = 10


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return the centroids of the noisy histogram: pure epsilon, rigorous."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    d = public.n_slots
    if d > MOST_SLOTS:
        raise InvalidParameterError("load_kw", f"of at most {MOST_SLOTS} columns for a grid", d)
    wanted = (len(points) * epsilon / 10.0) ** (2.0 * d / (2.0 + d))
    side = int(np.clip(wanted, max(2**d, public.n_clusters), _MOST_CELLS) ** (1.0 / d) + 0.5)
    exact, edges = np.histogramdd(points, bins=side, range=[(-1.0, 1.0)] * d)
    noise = Noise(generator)
    counts = noise.laplace(exact, sensitivity=1.0, epsilon=epsilon, step="cells")
    middles = [(edge[:-1] + edge[1:]) / 2.0 for edge in edges]
    cells = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, d)
    # An empty cell weighs next to nothing: K clusters are found however few cells count.
    weights = np.maximum(counts, 1e-6).ravel()
    seed = int(generator.integers(2**31))
    found = KMeans(public.n_clusters, n_init=_STARTS, random_state=seed)
    found.fit(cells, sample_weight=weights)
    return Outcome(
        centroids_kw=public.from_box(found.cluster_centers_),
        claimed=promise(epsilon),
        true=promise(total_epsilon(noise.asks)),
        doubts=(),
        asks=tuple(noise.asks),
    )
