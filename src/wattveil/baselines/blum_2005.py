"""Blum, Dwork, McSherry and Nissim (2005), "Practical privacy: the SuLQ framework": DP-Lloyd.

Lloyd's rounds with Laplace noise on sums and counts, the same budget for each.

Assumed: 5 rounds and a uniformly random start, as Su et al. (2016) run it; load is clipped slot by
slot to public bounds.
"""

from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.lap_lloyd import lap_lloyd
from wattveil.baselines.noise import Noise, total_epsilon
from wattveil.baselines.outcome import Outcome, PublicChoices, checked, promise
from wattveil.baselines.starts import uniform_start

_ROUNDS = 5


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return the centroids after five noisy rounds: pure epsilon, rigorous."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    noise = Noise(generator)
    centroids, _ = lap_lloyd(
        points,
        uniform_start(public.n_clusters, public.n_slots, generator),
        [epsilon / _ROUNDS] * _ROUNDS,
        noise,
    )
    return Outcome(
        centroids_kw=public.from_box(centroids),
        claimed=promise(epsilon),
        true=promise(total_epsilon(noise.asks)),
        doubts=(),
        asks=tuple(noise.asks),
    )
