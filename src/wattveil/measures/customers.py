"""What single customers and groups of them show: persistence, diversity, load factor."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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
    """Return what groups of neighbouring rows need; rows in random order make random groups."""
    groups = len(load_kw) // homes
    members = load_kw[: groups * homes].reshape(groups, homes, -1)
    peak = members.sum(axis=1).max(axis=1)
    sum_of_peaks = members.max(axis=2).sum(axis=1)
    coincidence = np.ones_like(peak)
    np.divide(peak, sum_of_peaks, out=coincidence, where=sum_of_peaks > 0.0)
    return GroupDemand(admd_kw=np.sort(peak / homes), coincidence=np.sort(coincidence))


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
