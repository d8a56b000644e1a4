"""A log-normal behind a noisy histogram of sizes: each median and spread, and how likely it is.

Post-processing: it sees released counts and public bounds only.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from wattveil.clustering.geometry import Floats

_LOG_SPREAD = (math.log(0.6), 0.4)
"""Median of the spread of log sizes, as a logarithm, and the standard deviation around it."""
_MEDIAN = (0.25, 0.2)
"""How far below the middle of the plausible range a median size is expected, and how surely; in
halves of the range. With (0, 0.5), 100 customers at epsilon 0.1 had losses of K-means up to 1,600:
the fit ran away upwards. With this they stay below 11, and from 1,000 customers on nothing changes.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class LogNormals:
    """Log-normals of m medians and s spreads, as far as a histogram tells them apart."""

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
    """Return medians (m, 1) and spreads (s,) of log size that are told apart."""
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
    count of everybody of standard deviation t, if there is one, the best number of customers is::

        n = (q'h / s^2 + c / t^2) / (q'q / s^2 + 1 / t^2)
    """
    shares, squares = _shares(tuple(log_edges.tolist()))
    everybody, precision = (0.0, 0.0) if counted is None else (counted[0], counted[1] ** -2)
    total_precision = squares / std**2 + precision
    along = shares @ counts  # q'h
    total = (along / std**2 + everybody * precision) / total_precision
    total = np.maximum(total, 1.0)
    # |h - n q|^2 but for h'h, which is the same for all
    misfit = (np.square(total) * squares - 2.0 * total * along) / std**2
    misfit += np.square(total - everybody) * precision
    return LogNormals(misfit=misfit, total=total, total_std=1.0 / np.sqrt(total_precision))


def penalty(log_edges: Floats, median: tuple[float, float], spread: tuple[float, float]) -> Floats:
    """Return twice a negative log-density on the grid: log median and log spread are normal."""
    medians, spreads = log_normal_grid(log_edges)
    away = np.square((medians - median[0]) / median[1])
    return np.asarray(away + np.square((np.log(spreads) - spread[0]) / spread[1]))


def public_penalty(log_edges: Floats, *, lowered: float = 1.0) -> Floats:
    """Return the penalty of what is expected of sizes before anything is seen.

    ``lowered`` is the part of the usual distance from the middle of the range down to the median.
    """
    half = 0.5 * (log_edges[-1] - log_edges[0])
    expected = 0.5 * (log_edges[0] + log_edges[-1]) - lowered * _MEDIAN[0] * half
    return penalty(log_edges, (expected, _MEDIAN[1] * half), _LOG_SPREAD)


def fit_log_normal(
    counts: Floats, log_edges: Floats, std: float, *, lowered: float = 1.0
) -> tuple[float, float, float]:
    """Return log median, log spread and number of customers of the likeliest log-normal."""
    found = log_normals(counts, log_edges, std=std)
    medians, spreads = log_normal_grid(log_edges)
    misfit = found.misfit + public_penalty(log_edges, lowered=lowered)
    i, j = np.unravel_index(misfit.argmin(), misfit.shape)
    return float(medians[i, 0]), float(spreads[j]), float(found.total[i, j])


@lru_cache(maxsize=8)
def _shares(log_edges: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return the share of each size cell under each log-normal, and their sums of squares."""
    edges = np.array(log_edges)
    medians, spreads = log_normal_grid(edges)
    below = ndtr((edges - medians[..., None]) / spreads[:, None])
    shares = np.diff(below, axis=2, prepend=0.0, append=1.0)
    return shares, np.square(shares).sum(axis=2)
