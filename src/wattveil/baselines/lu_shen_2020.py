"""Lu and Shen (2020), guaranteed convergence, arXiv 2002.01043, by its abstract. A warning.

Each round: m_k is the exact mean of the customers nearest to the published centroid c_k. Any point
of the ball around m_k with radius |m_k - c_k| lowers the loss, so a point of that ball is published
by the exponential mechanism, those near m_k more likely.

Assumed: 20 rounds of the same budget (10 lose twice as much); the density is
exp(-epsilon_t |z - m_k| / (2 s_k)), with the sensitivity s_k = 2 sqrt(d) / n_k of a mean of n_k
points of [-1, 1]^d; a uniformly random start.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincinv

from wattveil.baselines.outcome import Floats, Outcome, PublicChoices, checked, promise
from wattveil.baselines.starts import uniform_start
from wattveil.clustering.lloyd import assign

_ROUNDS = 20
_DOUBTS = (
    "what is published lies in a ball around the exact mean, another one for each neighbour",
    "so some outcomes have probability 0 for one of two neighbours, whatever epsilon is",
    "size of the ball and sensitivity use exact means and counts",
    "an empty cluster shows, since its centroid stays",
)


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return the last published centroids: no guarantee."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    d = public.n_slots
    centroids = uniform_start(public.n_clusters, d, generator)
    for _ in range(_ROUNDS):
        labels = assign(points, centroids)
        for cluster in np.unique(labels):
            members = points[labels == cluster]
            sensitivity = 2.0 * np.sqrt(d) / len(members)
            centroids[cluster] = point_in_ball(
                members.mean(axis=0),
                centroids[cluster],
                rate=epsilon / _ROUNDS / (2.0 * sensitivity),
                generator=generator,
            )
    return Outcome(
        centroids_kw=public.from_box(centroids),
        claimed=promise(epsilon),
        true=None,
        doubts=_DOUBTS,
    )


def point_in_ball(middle: Floats, edge: Floats, *, rate: float, generator: Generator) -> Floats:
    """Draw z with density exp(-rate |z - middle|) from the ball that ends at ``edge``.

    Its distance has density r^(d-1) exp(-rate r): a gamma law cut off at the radius.
    """
    d = middle.size
    radius = float(np.linalg.norm(edge - middle))
    cut = float(gammainc(d, rate * radius))
    share = generator.random()
    # Where the law is so flat that its cut is 0 it is uniform: (r / radius)^d is.
    uniform = radius * share ** (1.0 / d)
    distance = float(gammaincinv(d, share * cut)) / rate if cut > 0.0 else uniform
    direction = generator.standard_normal(d)
    drawn: Floats = middle + min(distance, radius) * direction / np.linalg.norm(direction)
    return drawn
