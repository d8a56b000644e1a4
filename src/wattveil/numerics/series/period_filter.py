"""Gaussian-process filter and smoother over periods, for numbers observed under known noise.

A number m = (m_1, ..., m_n) over periods is a priori a level that stays, plus changes::

    m = prior + s f,    f ~ N(0, K),    K = level + walk + slope + season + white

with s the public size of the number. It is observed in t of the periods as y = m + noise, with the
covariance N of the noise known exactly: sums of a series have noise that is correlated over
periods. With C C' = N and the eigenvalues ``C^-1 K C^-T = V E V'``, all numbers that share N and K
are filtered at once, each coordinate of ``V' C^-1 (y - prior)`` by itself::

    f | y = K C^-T V (s^2 E + 1)^-1 V' C^-1 (y - prior) s

How quickly numbers change is not known in advance: the candidates `CHANGES` are weighed by the
likelihood of everything released so far: that of the block's own set of numbers, and in part that
of the others. The mean over the candidates includes their disagreement in the variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from wattveil.arrays import Bools, Floats


class Change(NamedTuple):
    """How a number changes over periods, in units of its size (standard deviations)."""

    walk: float
    """Of a random walk, after a year."""
    season: float
    slope: float
    """Of a change per year that goes on."""
    white: float
    """Of each period by itself."""


CHANGES = tuple(
    Change(*one)
    for one in product((0.01, 0.03, 0.1), (0.04, 0.15, 0.6), (0.01, 0.05), (0.003, 0.02))
)
"""Candidates for mean load by group."""
COUNT_CHANGES = tuple(
    Change(*one) for one in product((0.006, 0.02, 0.06), (0.0,), (0.005, 0.03), (0.001,))
)
"""Candidates for numbers of customers."""

_SEASON_MEMORY = 12.0
"""Years after which a season has changed by 1 - 1/e."""
_MAX_WAVES = 3
"""Waves per year of a season."""
_SHARED = 0.2
"""Exponent of the likelihood of other sets of numbers. Groups differ: with electric heating the
season is several times that of others, and with weight 1 its bands covered 0.8 instead of 0.93."""
_NEGLIGIBLE = 1e-4
"""Weight below which a candidate is left out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Numbers that share one noise covariance."""

    values: Floats
    """(J, t): y, in the observed periods."""
    prior: Floats
    """(J,): expected level."""
    scale: Floats
    """(J,): s, the size of each number."""
    level: float
    """Variance of the level around its prior, in units of s^2."""
    noise: Floats
    """(t, t): covariance of the noise, the same for each number."""
    of: int = 0
    """Set of numbers that change in the same way, such as a group."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """Mean and covariance of numbers over periods."""

    mean: Floats
    """(J, n)"""
    covariance: Floats
    """(J, n, n)"""

    @property
    def std(self) -> Floats:
        """(J, n)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))


def change_covariance(change: Change, *, periods: int, periods_per_year: int) -> Floats:
    """Return the covariance of the changes over periods, of a number of size 1; 0 in period 1.

    ``walk^2 min(t, s) + slope^2 t s + white^2 [t = s] + season^2 sum_w cos(2 pi w (t - s)) / w``,
    t and s in years; the seasons share a variance of season^2.
    """
    years = np.arange(periods) / periods_per_year
    lag = years[:, None] - years[None]
    covariance: Floats = change.walk**2 * np.minimum(years[:, None], years[None])
    covariance += change.slope**2 * np.outer(years, years)
    covariance += change.white**2 * np.eye(periods)
    waves = np.arange(1, min(periods_per_year // 2, _MAX_WAVES) + 1)
    if change.season > 0.0 and waves.size:
        cosines = np.cos(2.0 * np.pi * waves * lag[..., None]) / waves
        season = cosines.sum(axis=2) / (1.0 / waves).sum() * np.exp(-np.abs(lag) / _SEASON_MEMORY)
        covariance += change.season**2 * season
    return covariance


def filter_periods(
    blocks: Sequence[Observed],
    *,
    seen: Bools,
    periods_per_year: int,
    changes: Sequence[Change] = CHANGES,
) -> list[Posterior]:
    """Return the posterior of the numbers of each block over the periods of ``seen``.

    Parameters
    ----------
    blocks
        Numbers by their noise.
    seen : (n,)
        Which periods were observed: later ones are predicted, others interpolated.
    changes
        Candidates, weighed by their likelihood.
    """
    shared = {"periods": seen.size, "periods_per_year": periods_per_year}
    kernels = np.array([change_covariance(change, **shared) for change in changes])
    found = [_diagonal(block, kernels, seen) for block in blocks]
    sets = np.array([block.of for block in blocks])
    misfits = np.array([one.misfit for one in found])
    parts = []
    for block, one in zip(blocks, found, strict=True):
        own = sets == block.of
        misfit = misfits[own].sum(axis=0) + _SHARED * misfits[~own].sum(axis=0)
        weights = np.exp(-0.5 * (misfit - misfit.min()))
        weights[weights < _NEGLIGIBLE * weights.sum()] = 0.0
        parts.append(_mixed(block, one, weights / weights.sum()))
    return parts


def joined(parts: Sequence[Posterior]) -> Posterior:
    """Return the numbers of several posteriors as one."""
    return Posterior(
        mean=np.concatenate([part.mean for part in parts]),
        covariance=np.concatenate([part.covariance for part in parts]),
    )


class _Diagonal(NamedTuple):
    """A block in the coordinates in which observations are independent, for each candidate."""

    kernels: Floats
    """K, (candidates, n, n)."""
    gains: Floats
    """K C^-T V, (candidates, n, t)."""
    precision: Floats
    """1 / (s^2 E + 1), (candidates, J, t)."""
    residual: Floats
    """V' C^-1 (y - prior), (candidates, J, t)."""

    @property
    def misfit(self) -> Floats:
        """-2 log-likelihood of each candidate, up to a constant that all share."""
        terms = np.square(self.residual) * self.precision - np.log(self.precision)
        return np.asarray(terms.sum(axis=(1, 2)))


def _diagonal(block: Observed, kernels: Floats, seen: Bools) -> _Diagonal:
    kernels = kernels + block.level
    whiten = np.linalg.inv(np.linalg.cholesky(block.noise))  # C^-1
    whitened = whiten @ kernels[:, seen]
    values, vectors = np.linalg.eigh(whitened[:, :, seen] @ whiten.T)
    away = (block.values - block.prior[:, None]) @ whiten.T
    power = np.square(block.scale)[:, None] * np.maximum(values, 0.0)[:, None, :]
    gains = whitened.transpose(0, 2, 1) @ vectors
    return _Diagonal(kernels, gains, 1.0 / (power + 1.0), away @ vectors)


def _mixed(block: Observed, found: _Diagonal, weights: Floats) -> Posterior:
    """Return the mean over the candidates, their disagreement included."""
    kept = np.flatnonzero(weights)
    power = np.square(block.scale)[:, None]
    means = [
        block.prior[:, None]
        + power * ((found.residual[one] * found.precision[one]) @ found.gains[one].T)
        for one in kept
    ]
    mean = np.tensordot(weights[kept], np.array(means), axes=1)
    covariance = np.zeros((*mean.shape, mean.shape[1]))
    for one, own in zip(kept, means, strict=True):
        # s^2 K - s^4 K C^-T V (s^2 E + 1)^-1 V' C^-1 K
        known = (found.gains[one] * found.precision[one][:, None, :]) @ found.gains[one].T
        apart = own - mean
        spread = power[:, :, None] * (found.kernels[one] - power[:, :, None] * known)
        covariance += weights[one] * (spread + apart[:, :, None] * apart[:, None, :])
    return Posterior(mean=mean, covariance=covariance)
