"""Rough coordinates of centroids: those with little signal are pooled, dropped ones widen bands.

Post-processing of released numbers. Averages of a year are smooth; averages of some weeks have
parts in rough coordinates that one cluster alone cannot estimate, and most of which all clusters
share. In units of the length of the centroids, the public prior of coordinate j of harmonic h is::

    m_j ~ N(0, tau_j^2),   c_kj ~ N(m_j, delta_j^2),   both ~ (6 / (1 + h))^5

With y the average of all refining steps and s^2 its variance, the posterior is::

    P = 1 / tau^2 + sum_k 1 / (delta^2 + s_k^2),   m = sum_k y_k / (delta^2 + s_k^2) / P
    g = delta^2 / (delta^2 + s^2),   c = m + g (y - m),   var = g s^2 + (1 - g)^2 / P

Coordinates that a release drops add tau^2 + delta^2 to the variance of a centroid.
"""

from dataclasses import replace

import numpy as np

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.band_calibration import band_factors
from wattveil.numerics.kmeans.kmeans_stages import Cells, Steps, observed_centres
from wattveil.numerics.load_basis import harmonics

_FIRST = 9
"""The first coordinate that is pooled."""


def pool_rough(cells: Cells, steps: Steps, *, colour: Floats, is_shape: bool) -> Cells:
    """Return smoothed clusters with their rough coordinates pooled, for little signal."""
    if cells.centres.shape[1] <= _FIRST:
        return cells
    found = [observed_centres(one, seen, counts=cells, colour=colour) for one, seen in steps]
    seen_at, noise = (np.array(part) for part in zip(*found, strict=True))
    precision = (1.0 / noise).sum(axis=0)
    mean = (seen_at / noise).sum(axis=0) / precision
    length = _lengths(cells)
    y, s2 = mean[:, _FIRST:] / length, 1.0 / precision[:, _FIRST:] / np.square(length)
    tau2, delta2 = (part[_FIRST:] for part in _prior(cells.centres.shape[1], is_shape=is_shape))
    weights = 1.0 / (delta2 + s2)
    total = 1.0 / tau2 + weights.sum(axis=0)
    shared = (y * weights).sum(axis=0) / total
    own = delta2 * weights
    centres, variance = cells.centres.copy(), cells.variance.copy()
    centres[:, _FIRST:] = (shared + own * (y - shared)) * length
    variance[:, _FIRST:] = (own * s2 + np.square(1.0 - own) / total) * np.square(length)
    return replace(cells, centres=centres, variance=variance)


def dropped_variance(cells: Cells, n_slots: int, *, is_shape: bool) -> Floats:
    """Return the variance of the coordinates that were not queried, (K, slots - r)."""
    tau2, delta2 = _prior(n_slots, is_shape=is_shape)
    dropped: Floats = np.square(_lengths(cells)) * (tau2 + delta2)[cells.centres.shape[1] :]
    return dropped


def curves_of(cells: Cells, basis: Floats, *, is_shape: bool) -> tuple[Floats, Floats]:
    """Return the centroids (K, slots) of cells in basis coordinates, and their standard errors.

    ``basis`` has a curve for every slot; the cells use the first ones.
    """
    n_slots, used = len(basis), cells.centres.shape[1]
    variance = np.hstack([cells.variance, dropped_variance(cells, n_slots, is_shape=is_shape)])
    counts, counts_std = np.maximum(cells.counts, 0.0), np.sqrt(cells.counts_variance)
    centres: Floats = cells.centres @ basis[:used]
    factors = band_factors(centres, counts, counts_std, is_shape=is_shape)
    std: Floats = factors[:, None] * np.sqrt(variance @ np.square(basis))
    return centres, std


def _lengths(cells: Cells) -> Floats:
    lengths: Floats = np.maximum(np.linalg.norm(cells.centres, axis=1, keepdims=True), 1e-12)
    return lengths


def _prior(n_coordinates: int, *, is_shape: bool) -> tuple[Floats, Floats]:
    """Return tau^2 and delta^2 of each coordinate."""
    falling = (6.0 / (1.0 + harmonics(n_coordinates))) ** kmeans_tuning.ROUGH_DECAY
    own = kmeans_tuning.ROUGH_OF_SHAPES if is_shape else kmeans_tuning.ROUGH_OF_LOAD
    return kmeans_tuning.ROUGH_IN_COMMON * falling, own * falling
