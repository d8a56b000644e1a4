"""From a noisy histogram of customer sizes to the size levels of a codebook.

Post-processing: it sees released counts and public bounds only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from wattveil import checks
from wattveil.clustering.geometry import Floats
from wattveil.clustering.log_normal import fit_log_normal
from wattveil.clustering.tuning import LEVEL_RATIO
from wattveil.errors import InvalidParameterError

_SURE = (3.5, 5.5)
"""Standard deviations that make a tail believed: near the bulk, and beyond three spreads. A false
level far out is costly, as a cluster's weight in the loss grows with the square of its size: with 3
standard deviations one run in 24 spent its clusters on empty space."""
_LEAST_IN_TAIL = 8.0
"""Customers in a believed tail, times 1 / mu."""
LEAST_KW, MOST_KW = 1e-9, 4e9
"""Sizes in kW between which arithmetic is safe."""
_WIDE = 6.0
"""Logarithm of most / least of a plausible range that was not chosen for the customers at hand. The
middle of a narrower one is nearer to their median."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SizeLevels:
    """Size levels, the expected customers near each, and the log-normal that fits the histogram."""

    levels: Floats
    customers: Floats
    log_median: float
    log_spread: float
    total: float
    """Customers under the fitted curve."""


def checked_range(plausible_kw: Sequence[float]) -> tuple[float, float]:
    """Accept a public range of sizes in kW in which arithmetic is safe."""
    kws = [checks.positive("plausible_kw", kw) for kw in plausible_kw]
    if len(kws) != 2 or not LEAST_KW <= kws[0] <= kws[1] / 4.0 <= MOST_KW / 4.0:
        rule = (
            "(least, most) with most at least 4 times least,"
            f" between {LEAST_KW:g} and {MOST_KW:g} kW"
        )
        raise InvalidParameterError("plausible_kw", rule, plausible_kw)
    return kws[0], kws[1]


def size_edges(least: float, most: float, *, signal: float) -> Floats:
    """Return the bounds of the size cells, geometric between the plausible sizes."""
    ratio = 2.0 if signal < 80.0 else 1.6
    edges: Floats = np.exp(np.arange(math.log(least), math.log(most) + 1e-9, math.log(ratio)))
    return edges


def one_level(size: float, total: float) -> SizeLevels:
    """Return the level of rows that are all of one size."""
    return SizeLevels(
        levels=np.array([size]),
        customers=np.array([total]),
        log_median=math.log(size),
        log_spread=0.1,
        total=total,
    )


def size_levels(counts: Floats, edges: Floats, *, std: float, mu: float) -> SizeLevels:
    """Fit a log-normal to the noisy counts and choose levels from its bulk to its believed tail.

    Parameters
    ----------
    counts : (edges + 1,)
        Noisy number of customers in each size cell.
    edges : (cells - 1,)
        Bounds between the cells.
    std : float
        Standard deviation of the noise of a count.
    mu : float
        Gaussian signal of the whole release, for the least customers a level is worth.
    """
    log_edges = np.log(edges)
    width = min(1.0, float(log_edges[-1] - log_edges[0]) / _WIDE)
    median, spread, total = fit_log_normal(counts, log_edges, std, lowered=width)
    fewest = _LEAST_IN_TAIL / mu

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
        # In the tail the histogram knows better than the curve, if it shows anything.
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
        levels=levels, customers=expected, log_median=median, log_spread=spread, total=total
    )
