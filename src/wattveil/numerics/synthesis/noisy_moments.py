"""Moments and margins of clusters from noisy sums, shrunk by their known noise.

Post-processing of released and public numbers, in whitened coordinates: the prior covariance is the
identity.

**Moments.** A customer contributes (sqrt(p) a, sqrt(1 - p) a a')
(`wattveil.release.rows.synthesis_features`). Each number is shrunk towards a prior estimate as far
as its noise requires (empirical Bayes): the covariance of a cluster towards that of all clusters,
at its own level; that one towards the public prior, at its own level. The variance around the prior
estimate is itself estimated from the noisy numbers, by blocks of equally rough coordinates.

**Margins.** After the transform a slot is only roughly normal: it may be skewed, flat-topped or
heavy-tailed. With u = (y - m) / sigma of the released moments, v = Phi(u) would be uniform; its
density is written in cosines whose coefficients change slowly over the day, for all clusters
together::

    p(v; h) = 1 + sum_j a_j(h) sqrt(2) cos(pi j v),    a_j(h) = sum_w a_jw b_w(h) sqrt(d)

The coefficients of a customer are averages over the day of bounded functions, so their sum over
customers has low sensitivity; they also correct errors of the moments of a slot.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from wattveil.arrays import Floats
from wattveil.numerics.synthesis import synthesis_tuning

_ROOT_TWO = math.sqrt(2.0)


def moment_width(n_coordinates: int) -> int:
    """Return the number of first and second moments."""
    return n_coordinates + n_coordinates * (n_coordinates + 1) // 2


def read_moments(sums: Floats, radius: float, n_coordinates: int) -> tuple[Floats, Floats]:
    """Return the sums of a and of a a' in the units of the scores, from noisy sums by cluster."""
    r = n_coordinates
    means = sums[:, :r] * (radius / math.sqrt(synthesis_tuning.MEAN_PART))
    first, second = np.triu_indices(r)
    weights = np.where(first == second, 1.0, _ROOT_TWO) * math.sqrt(
        1.0 - synthesis_tuning.MEAN_PART
    )
    seconds = np.empty((len(sums), r, r))
    seconds[:, first, second] = sums[:, r:] * (radius**2 / weights)
    seconds[:, second, first] = seconds[:, first, second]
    return means, seconds


def moments_std(std: float, radius: float, n_coordinates: int) -> tuple[float, Floats]:
    """Return the standard deviations of the noise in what `read_moments` returns."""
    of_second = np.full((n_coordinates, n_coordinates), 1.0 / _ROOT_TWO)
    np.fill_diagonal(of_second, 1.0)
    mean_std = std * radius / math.sqrt(synthesis_tuning.MEAN_PART)
    return mean_std, of_second * (std * radius**2 / math.sqrt(1.0 - synthesis_tuning.MEAN_PART))


_MEAN_SPREAD = 0.3
"""Expected distance of a mean from its prior estimate."""
_LEVEL_SPREAD = (0.5, 0.4)
"""Expected distance of a level from 1: of all clusters, and of a cluster beside them."""
_DIAGONAL_SPREAD = (0.4, 0.3)
_OTHER_SPREAD = (0.15, 0.12)
"""Expected distance of an entry from its prior estimate, on and off the diagonal: of all clusters,
and of a cluster relative to them. More informative data take precedence over this prior."""
_SPREAD_WEIGHT = 4.0
"""Weight of the data in the estimate of a spread: the prior is within a factor of about 2."""
_BLOCKS = (1, 2, 3, 5, 7, 10, 14, 19, 28)
"""First coordinates of the blocks: an entry belongs to the block of its rougher coordinate."""
_LEVELS = (0.1, 4.0)
_FLOOR = 0.05
"""Minimum eigenvalue, in levels."""
_FEWEST = 3.0
"""Minimum size of a cluster, in standard deviations of a count."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Sums over the customers of each cluster, and the standard deviations of their noise."""

    counts: Floats
    counts_std: Floats
    sums: Floats
    """(K, r)"""
    sums_std: Floats
    """(r,)"""
    seconds: Floats
    """(K, r, r)"""
    seconds_std: Floats
    """(r, r)"""

    @property
    def customers(self) -> Floats:
        """(K,): counts that may stand below a fraction."""
        return np.asarray(np.maximum(self.counts, _FEWEST * self.counts_std))

    @property
    def levels(self) -> Floats:
        """(K,): first estimate of each cluster's variance, in units of the prior's."""
        diagonals = np.einsum("kii->ki", self.seconds) / self.customers[:, None]
        return np.asarray(np.clip(diagonals.mean(axis=1), 0.3, 3.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterMoments:
    """Estimated moments of each cluster."""

    means: Floats
    """(K, r)"""
    covariances: Floats
    """(K, r, r)"""
    levels: Floats
    """(K,): variance over the prior's, also of coordinates that are not queried."""


def read_clusters(noisy: NoisyMoments, expected_means: Floats) -> ClusterMoments:
    """Return means and covariances, shrunk towards their priors."""
    n = noisy.customers
    total = float(n.sum())
    variance = np.square(noisy.sums_std / n[:, None]) + 1.0 / n[:, None]
    weight = _MEAN_SPREAD**2 / (_MEAN_SPREAD**2 + variance)
    means = weight * noisy.sums / n[:, None] + (1.0 - weight) * expected_means

    n_clusters = len(means)
    within = noisy.seconds / n[:, None, None] - means[:, :, None] * means[:, None, :]
    # Besides the noise a covariance of n customers has an error of its own, about 1 / n.
    variance = np.square(noisy.seconds_std / n[:, None, None]) + 1.0 / n[:, None, None]
    pooled = np.einsum("k,kij->ij", n / total, within)
    pooled_variance = np.square(noisy.seconds_std) * n_clusters / total**2 + 1.0 / total

    level, pooled_covariance = towards_identity(pooled, pooled_variance)

    levels = np.array(
        [
            _level(own, pooled_covariance, noise, _LEVEL_SPREAD[1])
            for own, noise in zip(within, variance, strict=True)
        ]
    )
    deep = levels[:, None, None]
    spread = _spreads(within / deep - pooled_covariance, variance / deep**2, which=1)
    covariances = np.array(
        [
            _shrunk(own, noise, of_all * pooled_covariance, spread * of_all**2)
            for own, noise, of_all in zip(within, variance, levels, strict=True)
        ]
    )
    return ClusterMoments(means=means, covariances=covariances, levels=levels * level)


def towards_identity(matrix: Floats, variance: Floats) -> tuple[float, Floats]:
    """Return the level of a noisy covariance, and the covariance shrunk towards level times I."""
    identity = np.eye(len(matrix))
    level = _level(matrix, identity, variance, _LEVEL_SPREAD[0])
    spread = _spreads((matrix / level - identity)[None], (variance / level**2)[None], which=0)
    return level, _shrunk(matrix, variance, level * identity, spread * level**2)


def _level(matrix: Floats, prior: Floats, variance: Floats, spread: float) -> float:
    """Return the factor of the prior by least squares on the diagonal.

    a = sum w c / sum w g with weights w = g / (noise variance + 0.05 g^2), then towards 1.
    """
    of_prior, of_noise = np.diag(prior), np.diag(variance)
    weights = of_prior / (of_noise + 0.05 * of_prior**2)
    norm = float((weights * of_prior).sum())
    seen = float((weights * np.diag(matrix)).sum()) / norm
    seen_variance = float((weights**2 * of_noise).sum()) / norm**2
    level = 1.0 + (seen - 1.0) * spread**2 / (spread**2 + seen_variance)
    return float(np.clip(level, *_LEVELS))


def _spreads(distances: Floats, variance: Floats, *, which: int) -> Floats:
    """Return tau^2, the expected squared distance of each entry from its prior estimate.

    In a block: the mean of distance^2 - noise^2, weighted by its precision, and averaged with the
    public prior by the precision of both.
    """
    r = distances.shape[-1]
    diagonal = np.eye(r, dtype=bool)
    prior = np.where(diagonal, _DIAGONAL_SPREAD[which], _OTHER_SPREAD[which]) ** 2
    rougher = np.maximum.outer(np.arange(r), np.arange(r))
    block = 2 * np.searchsorted(_BLOCKS, rougher, side="right") + diagonal
    found = np.empty((r, r))
    for inside in (block == one for one in np.unique(block)):
        of_prior = float(prior[inside].mean())
        precision = 1.0 / np.square(variance[:, inside] + of_prior)
        excess = np.square(distances[:, inside]) - variance[:, inside]
        seen = float((precision * excess).sum() / precision.sum())
        seen_variance = 2.0 / float(precision.sum())
        prior_variance = _SPREAD_WEIGHT * of_prior**2
        mixed = (seen * prior_variance + of_prior * seen_variance) / (
            prior_variance + seen_variance
        )
        found[inside] = max(mixed, 0.02 * of_prior)
    return found


def _shrunk(matrix: Floats, variance: Floats, prior: Floats, spread: Floats) -> Floats:
    """Return the matrix shrunk towards its prior, entry by entry, and made positive definite."""
    weight = spread / (spread + variance)
    values, vectors = np.linalg.eigh(weight * matrix + (1.0 - weight) * prior)
    floor = _FLOOR * float(np.trace(prior)) / len(prior)
    positive: Floats = (vectors * np.maximum(values, floor)) @ vectors.T
    return positive


_MIN_DENSITY = 0.1
_GRID = 400


def waves(n_slots: int) -> Floats:
    """Return the orthonormal curves b_w over the slots of a day as rows: level, then waves."""
    angle = 2.0 * np.pi * np.arange(n_slots) / n_slots
    curves = [np.ones(n_slots)]
    for wave in range(1, min(synthesis_tuning.DAILY_WAVES, n_slots // 2) + 1):
        curves.append(np.cos(wave * angle))
        if 2 * wave < n_slots:  # the sine of the fastest wave is 0 in every slot
            curves.append(np.sin(wave * angle))
    return np.array([curve / np.linalg.norm(curve) for curve in curves])


def margin_curves(n_slots: int, n_days: int) -> tuple[Floats, Floats]:
    """Return the curves b_w over rows of so many days, and the weight of each coefficient."""
    colour, radius = margin_colour(n_slots)
    return np.tile(waves(n_slots), n_days) / math.sqrt(n_days), colour / radius


def margin_width(n_slots: int) -> int:
    """Return the number of coefficients a_jw."""
    return synthesis_tuning.COSINES * len(waves(n_slots))


def expected_sizes(n_slots: int) -> Floats:
    """Return the expected sizes of the coefficients a_jw."""
    order = np.ceil(np.arange(len(waves(n_slots))) / 2.0)
    by_cosine = np.arange(1, synthesis_tuning.COSINES + 1) ** -0.5
    return synthesis_tuning.MARGIN_PRIOR * by_cosine[:, None] / (1.0 + order)[None, :]


def read_margins(sums: Floats, *, std: float, customers: float, n_slots: int) -> Floats:
    """Return the coefficients a_jw, shrunk towards 0 by their known noise."""
    colour, radius = margin_colour(n_slots)
    expected = expected_sizes(n_slots)
    unit = radius / (customers * colour)
    variance = np.square(std * unit) + 1.0 / customers
    weight = expected**2 / (expected**2 + variance)
    pulled: Floats = weight * sums.reshape(colour.shape) * unit
    return pulled


def quantile_maps(coefficients: Floats, n_slots: int, z: Floats) -> Floats:
    """Return where a standard normal z goes, (slots, points): u of each slot."""
    by_slot = coefficients @ waves(n_slots) * math.sqrt(n_slots)
    midpoints = (np.arange(_GRID) + 0.5) / _GRID
    j = np.arange(1, len(coefficients) + 1)[:, None]
    density = 1.0 + by_slot.T @ (_ROOT_TWO * np.cos(np.pi * j * midpoints))
    steps = np.cumsum(np.maximum(density, _MIN_DENSITY), axis=1)
    ends = np.linspace(0.0, 1.0, _GRID + 1)
    chances = ndtr(z)
    # Beyond the outermost cells the normal tail goes on, shifted to meet them.
    low, high = 1.0 / _GRID, 1.0 - 1.0 / _GRID
    inside = np.clip(chances, low, high)
    beyond = z - ndtri(inside)
    maps = np.empty((n_slots, z.size))
    for slot in range(n_slots):
        below = np.concatenate([[0.0], steps[slot] / steps[slot, -1]])
        maps[slot] = ndtri(np.clip(np.interp(inside, below, ends), 0.25 * low, 1.0 - 0.25 * low))
    return maps + beyond


def margin_colour(n_slots: int) -> tuple[Floats, float]:
    """Return the weight of each coefficient in the query, and the clip radius."""
    expected = expected_sizes(n_slots)
    colour = np.sqrt(expected / expected.max())
    return colour, synthesis_tuning.MARGIN_RADIUS * float(np.linalg.norm(colour[:, 0]))
