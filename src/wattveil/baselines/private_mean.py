"""The trivial answer: one private mean profile for every cluster, bought with the whole budget.

A strong one: the sum of offsets from the mean of public shapes at the usual size, clipped at a
radius in usual sizes, in nine smooth coordinates, weighed against a prior. A mechanism that does
not beat it found no clusters.

Assumed: the prior is the best of five on 100 and 246 London homes; the number of customers is
public, since their list is.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.noise import Noise, total_delta
from wattveil.baselines.outcome import Outcome, PublicChoices, checked, promise
from wattveil.calibration import gaussian_s
from wattveil.clustering.geometry import harmonics, public_basis, shape_library

_COORDINATES = 9
_LIBRARY = 12
_SPREAD = 0.4
_RELATIVE_RADIUS = 0.6


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
    relative_radius: float = _RELATIVE_RADIUS,
) -> Outcome:
    """Return K times the same profile: (epsilon, delta), rigorous."""
    rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
    d = public.n_slots
    coordinates = min(_COORDINATES, d)
    basis = public_basis(d)[:coordinates]
    size = public.typical_kw * np.sqrt(d)
    middle = shape_library(d, _LIBRARY).mean(axis=0)
    centre = basis @ (size * middle / np.linalg.norm(middle))
    smooth = (1.0 + harmonics(coordinates)) ** -2.0
    variance = np.square(_SPREAD * size) * smooth / smooth.sum()

    radius = relative_radius * size
    offsets = rows @ basis.T - centre
    lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
    clipped = offsets * np.minimum(1.0, radius / np.maximum(lengths, 1e-12))
    noise = Noise(generator)
    mu = gaussian_s(epsilon=epsilon, delta=delta)
    total = noise.gaussian(clipped.sum(axis=0), sensitivity=radius, mu=mu, step="sum")
    weight = variance / (variance + np.square(radius / mu / len(rows)))
    profile = (centre + weight * total / len(rows)) @ basis
    return Outcome(
        centroids_kw=np.tile(profile, (public.n_clusters, 1)),
        claimed=promise(epsilon, delta),
        true=promise(epsilon, total_delta(noise.asks, epsilon=epsilon)),
        doubts=(),
        asks=tuple(noise.asks),
    )
