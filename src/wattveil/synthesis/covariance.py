"""Means and covariances of the clusters from noisy moments.

The noise is known, so each number is pulled towards a guess by as much as its noise asks for
(empirical Bayes): a cluster's covariance towards that of all clusters, at its own level; that one
towards the public prior, at its own level. How far numbers really lie from their guess is estimated
from the noisy numbers themselves, by blocks of equally rough coordinates.

Post-processing: everything here is released or public. Coordinates are whitened: the prior
covariance is the identity.
"""

from dataclasses import dataclass

import numpy as np

from wattveil.clustering.geometry import Floats

_MEAN_SPREAD = 0.3
"""Expected distance of a mean from its guess."""
_LEVEL_SPREAD = (0.5, 0.4)
"""Expected distance of a level from 1: of all clusters, and of a cluster beside them."""
_DIAGONAL_SPREAD = (0.4, 0.3)
_OTHER_SPREAD = (0.15, 0.12)
"""Expected distance of an entry from its guess, on and off the diagonal: of all clusters, and of a
cluster beside them. Where the data say more than this guess, they are believed."""
_SPREAD_WEIGHT = 4.0
"""How soon the data are believed about a spread: the guess is that surely within a factor 2."""
_BLOCKS = (1, 2, 3, 5, 7, 10, 14, 19, 28)
"""First coordinates of the blocks: an entry belongs to the block of its rougher coordinate."""
_LEVELS = (0.1, 4.0)
_FLOOR = 0.05
"""Least eigenvalue, in levels."""
_FEWEST = 3.0
"""Standard deviations of a count: no cluster is believed to be smaller."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Sums over the customers of each cluster, and the standard deviations of their noise."""

    counts: Floats
    counts_std: float
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
        """(K,): a first look at each cluster's variance, in units of the prior's."""
        diagonals = np.einsum("kii->ki", self.seconds) / self.customers[:, None]
        return np.asarray(np.clip(diagonals.mean(axis=1), 0.3, 3.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterMoments:
    """What is believed of each cluster."""

    means: Floats
    """(K, r)"""
    covariances: Floats
    """(K, r, r)"""
    levels: Floats
    """(K,): variance over the prior's, also where nothing was asked."""


def read_clusters(noisy: NoisyMoments, expected_means: Floats) -> ClusterMoments:
    """Return means and covariances, pulled towards their guesses."""
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

    level, everybody = towards_identity(pooled, pooled_variance)

    levels = np.array(
        [
            _level(own, everybody, noise, _LEVEL_SPREAD[1])
            for own, noise in zip(within, variance, strict=True)
        ]
    )
    deep = levels[:, None, None]
    spread = _spreads(within / deep - everybody, variance / deep**2, which=1)
    covariances = np.array(
        [
            _pulled(own, noise, of_all * everybody, spread * of_all**2)
            for own, noise, of_all in zip(within, variance, levels, strict=True)
        ]
    )
    return ClusterMoments(means=means, covariances=covariances, levels=levels * level)


def towards_identity(matrix: Floats, variance: Floats) -> tuple[float, Floats]:
    """Return the level of a noisy covariance, and it pulled towards the identity at this level."""
    identity = np.eye(len(matrix))
    level = _level(matrix, identity, variance, _LEVEL_SPREAD[0])
    spread = _spreads((matrix / level - identity)[None], (variance / level**2)[None], which=0)
    return level, _pulled(matrix, variance, level * identity, spread * level**2)


def _level(matrix: Floats, guess: Floats, variance: Floats, spread: float) -> float:
    """Return the factor by which the guess is best multiplied: least squares on the diagonal.

    a = sum w c / sum w g with weights w = g / (noise variance + 0.05 g^2), then towards 1.
    """
    of_guess, of_noise = np.diag(guess), np.diag(variance)
    weights = of_guess / (of_noise + 0.05 * of_guess**2)
    norm = float((weights * of_guess).sum())
    seen = float((weights * np.diag(matrix)).sum()) / norm
    seen_variance = float((weights**2 * of_noise).sum()) / norm**2
    level = 1.0 + (seen - 1.0) * spread**2 / (spread**2 + seen_variance)
    return float(np.clip(level, *_LEVELS))


def _spreads(distances: Floats, variance: Floats, *, which: int) -> Floats:
    """Return tau^2, the expected squared distance of each entry from its guess.

    In a block: the mean of distance^2 - noise^2, weighted by its precision, and averaged with the
    public guess by the precision of both.
    """
    r = distances.shape[-1]
    diagonal = np.eye(r, dtype=bool)
    guess = np.where(diagonal, _DIAGONAL_SPREAD[which], _OTHER_SPREAD[which]) ** 2
    rougher = np.maximum.outer(np.arange(r), np.arange(r))
    block = 2 * np.searchsorted(_BLOCKS, rougher, side="right") + diagonal
    found = np.empty((r, r))
    for inside in (block == one for one in np.unique(block)):
        of_guess = float(guess[inside].mean())
        precision = 1.0 / np.square(variance[:, inside] + of_guess)
        excess = np.square(distances[:, inside]) - variance[:, inside]
        seen = float((precision * excess).sum() / precision.sum())
        seen_variance = 2.0 / float(precision.sum())
        prior_variance = _SPREAD_WEIGHT * of_guess**2
        mixed = (seen * prior_variance + of_guess * seen_variance) / (
            prior_variance + seen_variance
        )
        found[inside] = max(mixed, 0.02 * of_guess)
    return found


def _pulled(matrix: Floats, variance: Floats, guess: Floats, spread: Floats) -> Floats:
    """Return the matrix pulled towards its guess, entry by entry, and made positive."""
    weight = spread / (spread + variance)
    values, vectors = np.linalg.eigh(weight * matrix + (1.0 - weight) * guess)
    floor = _FLOOR * float(np.trace(guess)) / len(guess)
    positive: Floats = (vectors * np.maximum(values, floor)) @ vectors.T
    return positive
