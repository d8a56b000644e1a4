"""Distribution of customer sizes from a noisy histogram: log-normal fit, and size levels.

Post-processing of released counts and public bounds. `fit_log_normal` returns the most likely
log-normal, under a public prior; `size_levels` places the size levels of the codebook of K-means
between its bulk and the part of its tail that the counts confirm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.kmeans_tuning import LEVEL_RATIO

_LOG_STD = (math.log(0.6), 0.4)
"""Prior of the SD of log sizes: log of its median, and standard deviation of its logarithm."""
_MEDIAN = (0.25, 0.2)
"""Expected distance of the median size below the centre of the plausible range, and its standard
deviation; in halves of the range. With (0, 0.5), 100 customers at epsilon 0.1 had losses of K-means
up to 1,600: the fit diverged upwards. With this they stay below 11, and from 1,000 customers on
nothing changes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LogNormals:
    """Fit of a grid of log-normals, m medians by s standard deviations, to a histogram."""

    misfit: Floats
    """(m, s): twice the negative log-likelihood before any prior, but for a constant."""
    total: Floats
    """(m, s): the best number of customers under each."""
    total_std: Floats

    def likelihood(self) -> Floats:
        """Return the likelihood of each, relative to that of the best."""
        found: Floats = np.exp(-0.5 * (self.misfit - self.misfit.min()))
        return found


def log_normal_grid(log_edges: Floats) -> tuple[Floats, Floats]:
    """Return the medians (m, 1) and standard deviations (s,) of log size that are compared."""
    medians = np.linspace(log_edges[0] + 0.3, log_edges[-1] - 0.3, 200)[:, None]
    return medians, np.exp(np.linspace(math.log(0.1), math.log(1.3), 20))


def log_normals(
    counts: Floats,
    log_edges: Floats,
    *,
    std: float,
    counted: tuple[float, float] | None = None,
) -> LogNormals:
    """Return how well each log-normal of the grid fits noisy counts of size cells.

    With q the shares of the cells under a log-normal, h the counts of standard deviation s and c a
    count of all customers of standard deviation t (optional), the best number of customers is::

        n = (q'h / s^2 + c / t^2) / (q'q / s^2 + 1 / t^2)
    """
    shares, squares = _shares(tuple(log_edges.tolist()))
    counted_total, precision = (0.0, 0.0) if counted is None else (counted[0], counted[1] ** -2)
    total_precision = squares / std**2 + precision
    along = shares @ counts  # q'h
    total = (along / std**2 + counted_total * precision) / total_precision
    total = np.maximum(total, 1.0)
    # |h - n q|^2 but for h'h, which is the same for all
    misfit = (np.square(total) * squares - 2.0 * total * along) / std**2
    misfit += np.square(total - counted_total) * precision
    return LogNormals(misfit=misfit, total=total, total_std=1.0 / np.sqrt(total_precision))


def penalty(log_edges: Floats, median: tuple[float, float], spread: tuple[float, float]) -> Floats:
    """Return twice a negative log-density on the grid: log median and log SD are normal."""
    medians, stds = log_normal_grid(log_edges)
    away = np.square((medians - median[0]) / median[1])
    return np.asarray(away + np.square((np.log(stds) - spread[0]) / spread[1]))


def public_penalty(log_edges: Floats, *, lowered: float = 1.0) -> Floats:
    """Return the penalty of the public prior of sizes.

    ``lowered`` is the part of the usual distance from the centre of the range down to the median.
    """
    half = 0.5 * (log_edges[-1] - log_edges[0])
    expected = 0.5 * (log_edges[0] + log_edges[-1]) - lowered * _MEDIAN[0] * half
    return penalty(log_edges, (expected, _MEDIAN[1] * half), _LOG_STD)


def fit_log_normal(
    counts: Floats, log_edges: Floats, std: float, *, lowered: float = 1.0
) -> tuple[float, float, float]:
    """Return median and SD of log size and number of customers of the likeliest log-normal."""
    found = log_normals(counts, log_edges, std=std)
    medians, stds = log_normal_grid(log_edges)
    misfit = found.misfit + public_penalty(log_edges, lowered=lowered)
    i, j = np.unravel_index(misfit.argmin(), misfit.shape)
    return float(medians[i, 0]), float(stds[j]), float(found.total[i, j])


@lru_cache(maxsize=8)
def _shares(log_edges: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return the share of each size cell under each log-normal, and their sums of squares."""
    edges = np.array(log_edges)
    medians, stds = log_normal_grid(edges)
    below = ndtr((edges - medians[..., None]) / stds[:, None])
    shares = np.diff(below, axis=2, prepend=0.0, append=1.0)
    return shares, np.square(shares).sum(axis=2)


_SURE = (3.5, 5.5)
"""Standard deviations that make a tail significant: near the bulk, and beyond three SD. A false
level far out is costly, as a cluster's weight in the loss grows with the square of its size: with 3
standard deviations one run in 24 spent its clusters on empty space."""
_MIN_IN_TAIL = 8.0
"""Minimum number of customers in a significant tail, times 1 / mu."""
MIN_KW, MAX_KW = 1e-9, 4e9
"""Sizes in kW between which arithmetic is safe."""
_WIDE = 6.0
"""Logarithm of maximum over minimum of a plausible range that was not chosen for these customers.
The centre of a narrower one is nearer to their median."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SizeLevels:
    """Size levels, the expected customers near each, and the log-normal that fits the histogram."""

    levels: Floats
    customers: Floats
    log_median: float
    log_std: float
    total: float
    """Customers under the fitted curve."""


def checked_range(plausible_kw: Sequence[float]) -> tuple[float, float]:
    """Accept a public range of sizes in kW in which arithmetic is safe."""
    kws = [checks.positive("plausible_kw", kw) for kw in plausible_kw]
    if len(kws) != 2 or not MIN_KW <= kws[0] <= kws[1] / 4.0 <= MAX_KW / 4.0:
        rule = f"(min, max) with max at least 4 times min, between {MIN_KW:g} and {MAX_KW:g} kW"
        raise InvalidParameterError("plausible_kw", rule, plausible_kw)
    return kws[0], kws[1]


def size_edges(min_kw: float, max_kw: float, *, signal: float) -> Floats:
    """Return the bounds of the size cells, geometric between the plausible sizes."""
    ratio = 2.0 if signal < 80.0 else 1.6
    edges: Floats = np.exp(np.arange(math.log(min_kw), math.log(max_kw) + 1e-9, math.log(ratio)))
    return edges


def one_level(size: float, total: float) -> SizeLevels:
    """Return the level of rows that are all of one size."""
    return SizeLevels(
        levels=np.array([size]),
        customers=np.array([total]),
        log_median=math.log(size),
        log_std=0.1,
        total=total,
    )


def size_levels(counts: Floats, edges: Floats, *, std: float, mu: float) -> SizeLevels:
    """Fit a log-normal to the noisy counts and choose levels from its bulk to its significant tail.

    Parameters
    ----------
    counts : (edges + 1,)
        Noisy number of customers in each size cell.
    edges : (cells - 1,)
        Bounds between the cells.
    std
        Standard deviation of the noise of a count.
    mu
        Gaussian signal of the whole release, for the minimum number of customers of a level.
    """
    log_edges = np.log(edges)
    width = min(1.0, float(log_edges[-1] - log_edges[0]) / _WIDE)
    median, spread, total = fit_log_normal(counts, log_edges, std, lowered=width)
    fewest = _MIN_IN_TAIL / mu

    tail = np.cumsum(counts[::-1])[::-1][1:]
    tail_std = std * np.sqrt(np.arange(counts.size - 1, 0, -1))
    sure = np.where(log_edges < median + 3.0 * spread, *_SURE)
    believed = np.flatnonzero(tail >= np.maximum(sure * tail_std, fewest))
    top = edges[believed[-1]] * 1.2 if believed.size else 0.0
    top = min(max(top, math.exp(median + 1.5 * spread)), math.exp(median + 5.0 * spread))
    bottom = math.exp(median - 0.4 * spread)
    n_levels = max(2, round(math.log(top / bottom) / math.log(LEVEL_RATIO)) + 1)
    levels = np.exp(np.linspace(math.log(bottom), math.log(top), n_levels))

    borders = np.sqrt(levels[1:] * levels[:-1])
    expected = total * np.diff([0.0, *ndtr((np.log(borders) - median) / spread), 1.0])
    lower = np.concatenate([[0.0], edges])  # where each size cell begins
    for level in np.flatnonzero(levels > math.exp(median + 1.5 * spread)):
        # In the tail the histogram, if significant, is more accurate than the curve.
        first = borders[level - 1]
        last = math.inf if level == n_levels - 1 else borders[level]
        inside = (lower >= 0.999 * first) & (lower < 0.999 * last)
        seen = float(counts[inside].sum())
        seen_std = std * math.sqrt(max(int(inside.sum()), 1))
        if seen > 2.0 * seen_std:
            weight = expected[level] ** 2 / (expected[level] ** 2 + seen_std**2)
            expected[level] += weight * (seen - expected[level])
        expected[level] = max(expected[level], 0.2 * fewest)
    return SizeLevels(
        levels=levels, customers=expected, log_median=median, log_std=spread, total=total
    )
