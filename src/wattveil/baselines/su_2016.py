"""Su, Cao, Li, Bertino and Jin (2016), "Differentially private k-means clustering": DPLloyd-Impr.

DP-Lloyd with a start by sphere packing, a number of rounds that the budget can bear, and the split
between sums and counts of least error::

    w = (4 d rho^2)^(1/3)                       weight of the counts against a slot
    epsilon_m = sqrt(500 K^3 (d + w)^3) / n     the least epsilon worth a round
    T = epsilon / epsilon_m, between 2 and 7

Assumed: rho = 0.225, their figure; n is public, since the list of customers is.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.lap_lloyd import lap_lloyd
from wattveil.baselines.noise import Noise, total_epsilon
from wattveil.baselines.outcome import Outcome, PublicChoices, checked, promise
from wattveil.baselines.starts import packed_start

_RHO = 0.225
_LEAST_ROUNDS, _MOST_ROUNDS = 2, 7


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return the centroids after two to seven noisy rounds: pure epsilon, rigorous."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    d = public.n_slots
    weight = count_weight(d)
    least = np.sqrt(500.0 * public.n_clusters**3 * (d + weight) ** 3) / len(points)
    rounds = int(np.clip(epsilon / least, _LEAST_ROUNDS, _MOST_ROUNDS))
    noise = Noise(generator)
    centroids, _ = lap_lloyd(
        points,
        packed_start(public.n_clusters, d, generator),
        [epsilon / rounds] * rounds,
        noise,
        count_share=weight / (d + weight),
    )
    return Outcome(
        centroids_kw=public.from_box(centroids),
        claimed=promise(epsilon),
        true=promise(total_epsilon(noise.asks)),
        doubts=(),
        asks=tuple(noise.asks),
    )


def count_weight(n_slots: int) -> float:
    """Return w, what the counts get where a slot gets 1."""
    return float(np.cbrt(4.0 * n_slots * _RHO**2))
