"""The distribution of a slot beside the normal one, for all clusters together.

After the transform a slot is roughly normal, and not quite: skewed, flat-topped, heavy-tailed. With
u = (y - m) / sigma of the released moments, v = Phi(u) would be uniform; its density is written in
cosines whose coefficients change slowly over the day::

    p(v; h) = 1 + sum_j a_j(h) sqrt(2) cos(pi j v),    a_j(h) = sum_w a_jw b_w(h) sqrt(d)

A customer's coefficients are averages over the day of bounded functions, so their sum over
customers is an easy ask; they also repair what the moments have wrong about a slot.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from wattveil.clustering._kernels import Floats
from wattveil.synthesis import tuning

_ROOT_TWO = math.sqrt(2.0)
_LEAST_DENSITY = 0.1
_GRID = 400


def waves(n_slots: int) -> Floats:
    """Return the orthonormal curves b_w over the slots of a day as rows: level, then waves."""
    angle = 2.0 * np.pi * np.arange(n_slots) / n_slots
    curves = [np.ones(n_slots)]
    for wave in range(1, min(tuning.DAILY_WAVES, n_slots // 2) + 1):
        curves.append(np.cos(wave * angle))
        if 2 * wave < n_slots:  # the sine of the fastest wave is 0 in every slot
            curves.append(np.sin(wave * angle))
    return np.array([curve / np.linalg.norm(curve) for curve in curves])


def margin_curves(n_slots: int, n_days: int) -> tuple[Floats, Floats]:
    """Return the curves b_w over rows of so many days, and the weight of each coefficient."""
    colour, radius = margin_colour(n_slots)
    return np.tile(waves(n_slots), n_days) / math.sqrt(n_days), colour / radius


def margin_width(n_slots: int) -> int:
    """Return how many coefficients a_jw there are."""
    return tuning.COSINES * len(waves(n_slots))


def expected_sizes(n_slots: int) -> Floats:
    """Return how large the coefficients a_jw are expected to be."""
    order = np.ceil(np.arange(len(waves(n_slots))) / 2.0)
    by_cosine = np.arange(1, tuning.COSINES + 1) ** -0.5
    return tuning.MARGIN_PRIOR * by_cosine[:, None] / (1.0 + order)[None, :]


def read_margins(sums: Floats, *, std: float, customers: float, n_slots: int) -> Floats:
    """Return the coefficients a_jw, pulled towards 0 by their known noise."""
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
    middle = (np.arange(_GRID) + 0.5) / _GRID
    j = np.arange(1, len(coefficients) + 1)[:, None]
    density = 1.0 + by_slot.T @ (_ROOT_TWO * np.cos(np.pi * j * middle))
    steps = np.cumsum(np.maximum(density, _LEAST_DENSITY), axis=1)
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
    """Return the weight of each coefficient in the ask, and the clip radius."""
    expected = expected_sizes(n_slots)
    colour = np.sqrt(expected / expected.max())
    return colour, tuning.MARGIN_RADIUS * float(np.linalg.norm(colour[:, 0]))
