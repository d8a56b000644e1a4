"""A customer as an offset from the released centroid of its cluster, in public coordinates.

Load is heavy-tailed, so the offset is taken after a transform with the scale of the cluster::

    asinh   y = asinh(x / s_k) for x > 0,   s_k = 0.7 root-mean-square of centroid k
            y = x / s_k        for x <= 0
    log     y = log(x + alpha) / q_k,       q_k = 1.2 r_k / (r_k + alpha),  r_k as above

asinh is logarithmic for large loads. Export (negative load) is left straight: panels have a size,
and with asinh below zero too the deepest twentieth of synthetic export was a fifth too deep. log is
the source paper's; alpha must exceed the deepest export, and q_k only brings both to one size.

The coordinates are those of a public prior S0 of the covariance of y within a cluster: its
eigenvectors, each divided by its standard deviation, so that they are expected to be of size 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import ndtr

from wattveil.arrays import Floats
from wattveil.numerics.synthesis import synthesis_tuning

TransformName = Literal["asinh", "log"]

_LOG_FLOOR = 1e-3
"""Minimum x + alpha, in alphas: a load below -alpha has no logarithm."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Coordinates:
    """Public coordinates around released centroids."""

    centroids: Floats
    """(K, d), in kW."""
    transform: TransformName
    alpha_kw: float
    n_days: int = 1

    @cached_property
    def scales(self) -> Floats:
        """(K,): s_k, or with the logarithm q_k."""
        rms = np.sqrt(np.square(self.centroids).mean(axis=1))
        rms = np.maximum(rms, max(1e-3 * float(rms.max()), 1e-6))  # a centroid may be 0
        logarithmic = 1.2 * rms / (rms + self.alpha_kw)
        return np.asarray(
            synthesis_tuning.SCALE * rms if self.transform == "asinh" else logarithmic
        )

    @property
    def rule(self) -> tuple[bool, float, Floats]:
        """The transform of a customer's load, as row functions take it."""
        return self.transform == "log", self.alpha_kw, self.scales

    @cached_property
    def centres(self) -> Floats:
        """(K, d): y of the centroids."""
        scales = self.scales[:, None]
        if self.transform == "log":
            floor = _LOG_FLOOR * self.alpha_kw
            return np.log(np.maximum(self.centroids + self.alpha_kw, floor)) / scales
        y = self.centroids / scales
        return np.where(y > 0.0, np.arcsinh(np.maximum(y, 0.0)), y)

    @cached_property
    def prior(self) -> Floats:
        """(d, d): S0 = level^2 + spread^2 phi^|h - h'| times .8 between days + rough^2 I."""
        slots = self.centroids.shape[1] // self.n_days
        hours = np.arange(slots) * 24.0 / slots
        daily = synthesis_tuning.PRIOR_PERSISTENCE ** np.abs(hours[:, None] - hours[None])
        same = synthesis_tuning.PRIOR_SAME_DAY
        days = same + (1.0 - same) * np.eye(self.n_days)
        spread: Floats = np.kron(days, daily) * synthesis_tuning.PRIOR_SPREAD**2
        return (
            spread
            + synthesis_tuning.PRIOR_LEVEL**2
            + synthesis_tuning.PRIOR_ROUGH**2 * np.eye(len(spread))
        )

    @cached_property
    def _axes(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors (as rows) of S0, largest first."""
        values, vectors = np.linalg.eigh(self.prior)
        return values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1].T)

    @property
    def n_coordinates(self) -> int:
        """r: number of coordinates that are queried."""
        one = self.n_days == 1
        limit = synthesis_tuning.COORDINATES_OF_DAY if one else synthesis_tuning.COORDINATES_OF_DAYS
        return min(limit, len(self.prior))

    @cached_property
    def curves(self) -> Floats:
        """(r, d): change of y per unit of each coordinate."""
        values, vectors = self._axes
        r = self.n_coordinates
        return np.sqrt(values[:r, None]) * vectors[:r]

    @cached_property
    def rest(self) -> Floats:
        """(d, d): the part of S0 beyond the coordinates."""
        values, vectors = self._axes
        r = self.n_coordinates
        rest: Floats = (vectors[r:].T * values[r:]) @ vectors[r:]
        return rest

    @cached_property
    def colour(self) -> Floats:
        """(r,): D_j, the weight of each coordinate in the query; 1 for the first."""
        values = self._axes[0][: self.n_coordinates]
        return np.asarray((values / values[0]) ** synthesis_tuning.COLOUR)

    @property
    def typical_length(self) -> float:
        """Expected length of the coloured coordinates of a customer under the prior."""
        return float(np.sqrt(np.square(self.colour).sum()))

    @cached_property
    def weights(self) -> Floats:
        """(r, d): maps an offset in y to its coordinates z, each times its colour D_j."""
        values, vectors = self._axes
        r = self.n_coordinates
        return np.asarray(vectors[:r] * (self.colour / np.sqrt(values[:r]))[:, None])

    def mean_offsets(self, levels: Floats) -> Floats:
        """Return the coordinates of the y-means that give load of the centroids' mean in kW.

        For the logarithm E e^(q y) = e^(q m + q^2 v / 2); for asinh see `_means_of_normal`.
        ``levels`` are the clusters' v in units of the prior's.
        """
        variance = levels[:, None] * np.diag(self.prior)
        scales = self.scales[:, None]
        if self.transform == "asinh":
            means = _means_of_normal(self.centroids / scales, np.sqrt(variance))
        else:
            means = self.centres - 0.5 * scales * variance
        values, vectors = self._axes
        r = self.n_coordinates
        offsets: Floats = (means - self.centres) @ vectors[:r].T / np.sqrt(values[:r])
        return offsets

    def backward(self, y: Floats, cluster: int) -> Floats:
        """Return the load in kW of a transformed one of this cluster."""
        scale = float(self.scales[cluster])
        if self.transform == "asinh":
            return np.asarray(scale * np.where(y > 0.0, np.sinh(np.clip(y, 0.0, _FARTHEST)), y))
        return np.asarray(np.exp(np.clip(y * scale, -50.0, 50.0)) - self.alpha_kw)


_FARTHEST = 12.0
"""asinh of 80,000 cluster sizes: no sample lies beyond."""
_NEWTON_STEPS = 12


def _means_of_normal(load: Floats, std: Floats) -> Floats:
    """Return m such that a normal y of mean m gives this load on average, in scales.

    ``E x = 1/2 (e^(m + v/2) Phi(m/s + s) - e^(-m + v/2) Phi(m/s - s)) + m Phi(-m/s) - s phi(m/s)``
    with s^2 = v; its slope has + for the first -, and Phi(-m/s). It is convex: Newton's steps find
    m from above.
    """
    m = np.maximum(load, 0.0) + std
    for _ in range(_NEWTON_STEPS):
        place = m / std
        rising = 0.5 * np.exp(m + 0.5 * std**2) * ndtr(place + std)
        falling = 0.5 * np.exp(-m + 0.5 * std**2) * ndtr(place - std)
        below = ndtr(-place)
        density = np.exp(-0.5 * place**2) / math.sqrt(2.0 * math.pi)
        mean = rising - falling + m * below - std * density
        m = m - (mean - load) / (rising + falling + below)
    return m
