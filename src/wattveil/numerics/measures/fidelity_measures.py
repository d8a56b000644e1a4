"""Measures of the fidelity of samples: distances, correlations, group demand, and their assessment.

Samples are sorted arrays of any sizes.

>>> import numpy as np
>>> one, other = np.array([0.0, 1.0, 3.0]), np.array([5.0, 6.0, 8.0])
>>> wasserstein(one, other), kolmogorov_smirnov(one, other)
(5.0, 1.0)
"""

import math
from dataclasses import dataclass

import numpy as np

from wattveil.arrays import Floats
from wattveil.compiled import compiled


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
    whose minimum is at their median (Werman, Peleg and Rosenfeld 1985).
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


def slot_distance(rows: Floats, sampled: Floats) -> float:
    """Return W1 between the loads of a slot over their standard deviation, mean of all slots."""
    apart, _ = slot_distances(sorted_slots(rows), sorted_slots(sampled))
    return float((apart / np.maximum(rows.std(axis=0), 1e-12)).mean())


def correlation_error(rows: Floats, sampled: Floats) -> float:
    """Return the mean absolute difference of the correlations of two slots."""
    pairs = np.triu_indices(rows.shape[1], 1)
    apart = correlations(covariance(rows)) - correlations(covariance(sampled))
    return float(np.abs(apart[pairs]).mean())


def covariance(rows: Floats) -> Floats:
    """Return ``1/P sum_p (x_p - m)(x_p - m)'``."""
    centred = rows - rows.mean(axis=0)
    found: Floats = centred.T @ centred / len(rows)
    return found


def correlations(covariance: Floats) -> Floats:
    """Return the correlations of two slots from their covariance; 0 with a slot of one value."""
    std = np.sqrt(np.maximum(np.diag(covariance), 1e-24))
    found: Floats = covariance / np.outer(std, std)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupDemand:
    """Groups of N homes each.

    Attributes
    ----------
    admd_kw : (G,)
        After-diversity maximum demand: ``max_t sum_i x_i(t) / N``. Sorted.
    coincidence : (G,)
        ``max_t sum_i x_i(t) / sum_i max_t x_i(t)``, 1 where no home has a peak. Sorted.
    """

    admd_kw: Floats
    coincidence: Floats


def group_demand(load_kw: Floats, homes: int) -> GroupDemand:
    """Return the demand of groups of neighbouring rows; rows in random order give random groups."""
    peak, sum_of_peaks = _group_peaks(np.ascontiguousarray(load_kw), homes)
    coincidence = np.ones_like(peak)
    np.divide(peak, sum_of_peaks, out=coincidence, where=sum_of_peaks > 0.0)
    return GroupDemand(admd_kw=np.sort(peak / homes), coincidence=np.sort(coincidence))


@compiled
def _group_peaks(load_kw: Floats, homes: int) -> tuple[Floats, Floats]:
    """Return ``max_t sum_i x_i(t)`` and ``sum_i max_t x_i(t)`` of each group."""
    n_groups, n_slots = load_kw.shape[0] // homes, load_kw.shape[1]
    peak, sum_of_peaks = np.empty(n_groups), np.empty(n_groups)
    total = np.empty(n_slots)
    for group in range(n_groups):
        total[:] = 0.0
        peaks = 0.0
        for home in range(group * homes, (group + 1) * homes):
            own = -np.inf
            for slot in range(n_slots):
                total[slot] += load_kw[home, slot]
                own = max(own, load_kw[home, slot])
            peaks += own
        peak[group], sum_of_peaks[group] = total.max(), peaks
    return peak, sum_of_peaks


def autocorrelation(before: Floats, after: Floats) -> Floats:
    """Return the correlation of each customer's load with that of a later slot.

    Parameters
    ----------
    before, after : (customers, pairs)
        Loads of the earlier and of the later slot of each pair. A constant load has 1.
    """
    x = before - before.mean(axis=1, keepdims=True)
    y = after - after.mean(axis=1, keepdims=True)
    scale = np.sqrt(_dot(x, x) * _dot(y, y))
    constant = scale <= 1e-12 * _dot(before, before)  # rounding is no variation
    correlation = np.ones(len(before))
    np.divide(_dot(x, y), scale, out=correlation, where=~constant)
    return correlation


def load_factor(load_kw: Floats) -> Floats:
    """Return ``mean_t x / max_t x`` of each customer, 0 where the peak is not above 0."""
    peak = load_kw.max(axis=1)
    factor = np.zeros(len(load_kw))
    np.divide(load_kw.mean(axis=1), peak, out=factor, where=peak > 0.0)
    return factor


def _dot(x: Floats, y: Floats) -> Floats:
    products: Floats = np.einsum("it,it->i", x, y)
    return products


NOISE_QUANTILE = 0.95


def ratio_to_noise(distance: float, noise: float) -> float:
    """Return distance over noise: 0 without distance, infinite where real samples never differ."""
    if distance == 0.0:
        return 0.0
    return distance / noise if noise > 0.0 else math.copysign(math.inf, distance)
