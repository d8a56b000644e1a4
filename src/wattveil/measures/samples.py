"""Distances between two sorted samples of numbers, of any sizes.

>>> import numpy as np
>>> one, other = np.array([0.0, 1.0, 3.0]), np.array([5.0, 6.0, 8.0])
>>> wasserstein(one, other), kolmogorov_smirnov(one, other)
(5.0, 1.0)
"""

import numpy as np
from numpy.typing import NDArray

from wattveil.compiled import compiled

Floats = NDArray[np.float64]


def wasserstein(one: Floats, other: Floats) -> float:
    """Return ``W1 = integral |F^-1(u) - G^-1(u)| du = integral |F(x) - G(x)| dx``.

    Samples of the same size may be stacked, each sorted along the last axis: W1 is their mean.
    """
    if one.shape == other.shape:
        return float(np.abs(one - other).mean())
    return _walk(np.ascontiguousarray(one), np.ascontiguousarray(other))[0]


def kolmogorov_smirnov(one: Floats, other: Floats) -> float:
    """Return ``sup_x |F(x) - G(x)|``."""
    return _walk(np.ascontiguousarray(one), np.ascontiguousarray(other))[1]


def slot_distances(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return both distances of every slot.

    Parameters
    ----------
    one, other : (slots, customers)
        Sorted along customers; `sorted_slots` makes them.
    """
    found = np.array([_walk(a, b) for a, b in zip(one, other, strict=True)])
    return found[:, 0], found[:, 1]


def sorted_slots(rows: Floats) -> Floats:
    """Return the loads of every slot in ascending order: (slots, customers)."""
    slots = np.ascontiguousarray(rows.T)
    if np.shares_memory(slots, rows):
        slots = slots.copy()
    slots.sort(axis=1)
    return slots


def circular_wasserstein(shares: Floats, others: Floats) -> float:
    """Return W1 around a circle, in steps, of two histograms that add up to 1.

    Going around the other way is allowed: ``min_c sum_t |D_t - c|`` over cumulated differences D,
    whose least is at their median (Werman, Peleg and Rosenfeld 1985).
    """
    cumulated = np.cumsum(shares - others)
    return float(np.abs(cumulated - np.median(cumulated)).sum())


def total_variation(shares: Floats, others: Floats) -> float:
    """Return ``1/2 sum_k |p_k - q_k|`` of two lists of shares."""
    return float(np.abs(shares - others).sum() / 2.0)


@compiled
def _walk(one: Floats, other: Floats) -> tuple[float, float]:
    """Walk up both samples at once: area between F and G, and their largest difference."""
    n, m = one.size, other.size
    if np.isnan(one[n - 1]) or np.isnan(other[m - 1]):  # NaN is sorted last
        return np.nan, np.nan
    i, j = 0, 0
    area, largest, apart, x = 0.0, 0.0, 0.0, 0.0
    while i < n or j < m:
        step = one[i] if j >= m or (i < n and one[i] <= other[j]) else other[j]
        if i or j:
            area += apart * (step - x)
        x = step
        while i < n and one[i] == x:
            i += 1
        while j < m and other[j] == x:
            j += 1
        apart = abs(i / n - j / m)
        largest = max(largest, apart)
    return area, largest
