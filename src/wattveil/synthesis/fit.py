"""From the noisy sums of a release to a model: which sums to query, and how to read them.

Post-processing: released and public numbers only.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from wattveil.clustering._kernels import Counts, Floats
from wattveil.clustering.log_normal import fit_log_normal
from wattveil.synthesis import covariance, tuning
from wattveil.synthesis.coordinates import Coordinates
from wattveil.synthesis.covariance import ClusterMoments, NoisyMoments
from wattveil.synthesis.features import moments_std, read_moments
from wattveil.synthesis.margins import read_margins
from wattveil.synthesis.model import SyntheticModel

_RADIUS_RANGE = (0.2, 20.0)
"""Lengths of the coloured offsets that are told apart, in typical ones."""
_RADIUS_RATIO = 1.25
_SURE_OF_EXPORT, _PERHAPS_EXPORT = 3.0, 2.0
"""Standard deviations that make customers who export believed, alone or with the centroid."""
_DEEP_EXPORT = 0.3
"""Export of a centroid, in its root-mean-square load, that noise alone hardly makes."""


def radius_edges(coordinates: Coordinates) -> Floats:
    """Return the bounds of the cells in which the lengths of the offsets are counted."""
    least, most = _RADIUS_RANGE
    steps = np.arange(math.log(least), math.log(most), math.log(_RADIUS_RATIO))
    return np.asarray(coordinates.typical_length * np.exp(steps))


@dataclass(frozen=True, kw_only=True)
class Radius:
    """Where offsets are clipped, and what clipping takes from their squares."""

    clip: float
    inflation: float
    """Mean square before clipping over that after it."""


def choose_radius(counts: Floats, std: float, edges: Floats) -> Radius:
    """Return the radius that most customers lie within, by a log-normal fit to noisy counts.

    With log length N(m, s^2) and t = log clip:
    E min(l, clip)^2 = e^(2m + 2s^2) Phi((t - m) / s - 2 s) + clip^2 (1 - Phi((t - m) / s)).
    """
    median, spread, _ = fit_log_normal(counts, np.log(edges), std)

    def clipped_square(quantile: float) -> float:
        above = math.exp(2.0 * (median + quantile * spread)) * ndtr(-quantile)
        return float(
            math.exp(2.0 * median + 2.0 * spread**2) * ndtr(quantile - 2.0 * spread) + above
        )

    inside = float(ndtri(tuning.KEPT_INSIDE))
    return Radius(
        clip=math.exp(median + inside * spread),
        # The farthest percent stays clipped: the fit knows too little of it.
        inflation=clipped_square(float(ndtri(0.99))) / clipped_square(inside),
    )


def read_clusters(
    sums: Floats, std: float, counts: tuple[Floats, float], radius: Radius, to: Coordinates
) -> ClusterMoments:
    """Return the moments of each cluster from noisy sums of `moment_features`."""
    r = to.n_coordinates
    means, seconds = read_moments(sums, radius.clip, r)
    means_std, seconds_std = moments_std(std, radius.clip, r)
    colours = to.colour[:, None] * to.colour[None]
    noisy = NoisyMoments(
        counts=counts[0],
        counts_std=counts[1],
        sums=means / to.colour,
        sums_std=means_std / to.colour,
        seconds=seconds * radius.inflation / colours,
        seconds_std=seconds_std * radius.inflation / colours,
    )
    return covariance.read_clusters(noisy, to.mean_offsets(noisy.levels))


def in_slots(found: ClusterMoments, to: Coordinates) -> tuple[Floats, Floats]:
    """Return means (K, d) and covariances (K, d, d) after the transform, slot by slot."""
    means = to.middles + found.means @ to.curves
    covariances = to.curves.T @ found.covariances @ to.curves
    return means, covariances + found.levels[:, None, None] * to.rest


def make_model(
    found: ClusterMoments,
    to: Coordinates,
    *,
    margins: tuple[Floats, float],
    counts: tuple[Floats, float],
    most_kw: float,
) -> SyntheticModel:
    """Return the model.

    ``margins`` and ``counts`` are noisy sums with their standard deviation; counts are (K, 2):
    customers of each cluster without and with export.
    """
    means, covariances = in_slots(found, to)
    customers = np.maximum(counts[0].sum(axis=1), 0.0)
    n_slots = means.shape[1] // to.n_days
    coefficients = read_margins(
        margins[0], std=margins[1], customers=max(float(customers.sum()), 10.0), n_slots=n_slots
    )
    return SyntheticModel(
        transform=to.transform,
        alpha_kw=to.alpha_kw,
        n_days=to.n_days,
        centroids=to.centroids,
        means=means,
        covariances=covariances,
        margins=coefficients,
        customers=customers,
        exports=_exports(*counts, to.centroids),
        most_kw=most_kw,
    )


def _exports(counts: Floats, std: float, centroids: Floats) -> Counts:
    """Return 1 for the clusters with export: surely some customers, or most and the mean of all."""
    some = counts[:, 1] > _SURE_OF_EXPORT * std
    most = counts[:, 1] > np.maximum(counts[:, 0], _PERHAPS_EXPORT * std)
    rms = np.sqrt(np.square(centroids).mean(axis=1))
    together = centroids.min(axis=1) < -_DEEP_EXPORT * rms
    return np.asarray(some | (most & together), dtype=np.int64)
