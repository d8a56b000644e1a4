"""Typical days of customers, and features of the deviations of single days from them.

`wattveil.numerics.synthesis.day_deviations` explains the quantities and processes their noisy sums.
"""

import math

import numpy as np

from wattveil.arrays import Bools, Floats, Ints
from wattveil.compiled import compiled
from wattveil.numerics.synthesis.day_deviations import LAGS, slot_scale
from wattveil.numerics.synthesis.synthesis_tuning import DAY_FLOOR, DAY_PARTS, DAY_SCALE
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.private_data import row_function
from wattveil.release.rows.load_features import check_shapes, check_width, row_lengths
from wattveil.release.rows.synthesis_features import add_cosines

Bases = tuple[Floats, Floats, Floats]
"""Public: the whitening matrix of a day, and the curves and weights of its margins."""
Gains = tuple[float, float, float]
"""Public: factors of the covariance, the products and the margins."""

_ROOT_TWO = math.sqrt(2.0)
_LARGEST = 1e9
"""Values saturate here, in kW: no customer can overflow a sum of squares."""


@row_function
def typical_days(hours_kw: Floats, *, parts: Ints, n_parts: int) -> tuple[Floats]:
    """Return each customer's mean day of every part of the year, side by side.

    ``parts`` is the part of each day. A day with a slot that is not finite is excluded; a customer
    without any day of some part has a row of NaN.
    """
    days_kw, whole = whole_days(hours_kw, parts.size)
    typical = np.zeros((len(days_kw), n_parts, days_kw.shape[2]))
    counts = np.zeros((len(days_kw), n_parts))
    for day, part in enumerate(parts):  # in the order of the days, the same for every row
        typical[:, part] += days_kw[:, day]
        counts[:, part] += whole[:, day]
    counts[(counts == 0.0).any(axis=1)] = math.nan
    return ((typical / counts[:, :, None]).reshape(len(typical), n_parts * typical.shape[2]),)


@row_function
def day_features(
    hours_kw: Floats,
    *,
    parts: Ints,
    n_parts: int,
    bases: Bases,
    gains: Gains,
    edges: Floats,
) -> tuple[Ints, Floats, Ints, Ints]:
    """Return cell 0 and the features of each customer's days, and the cells of both spreads."""
    (typical,) = typical_days(hours_kw, parts=parts, n_parts=n_parts)
    has_data = np.isfinite(typical).all(axis=1)
    typical[~has_data] = 0.0
    features, spreads = day_moments(hours_kw, typical, parts=parts, bases=bases, gains=gains)
    shapes, levels = np.searchsorted(edges, spreads.T, side="right")
    cells = np.where(has_data, 0, NO_DATA)
    return cells, features, np.where(has_data, shapes, cells), np.where(has_data, levels, cells)


def whole_days(hours_kw: Floats, n_days: int) -> tuple[Floats, Bools]:
    """Return the load of each day, (customers, days, slots), and which days are whole.

    Values saturate; a day with a slot that is not finite is not whole, and is set to zeros.
    """
    n_slots = hours_kw.shape[1] // n_days
    check_width(hours_kw, n_days * n_slots)
    days_kw = hours_kw.reshape(len(hours_kw), n_days, n_slots)
    whole = np.asarray(np.isfinite(days_kw).all(axis=2))
    filled = np.where(whole[:, :, None], days_kw, 0.0)
    return np.clip(filled, -_LARGEST, _LARGEST), whole


def day_moments(
    hours_kw: Floats, typical_kw: Floats, *, parts: Ints, bases: Bases, gains: Gains
) -> tuple[Floats, Floats]:
    """Return the features of each customer, of L2 norm at most 1, and the spreads of its days.

    Spreads are (customers, 2): of shapes, and of levels relative to them; 0 for identical days.
    """
    whiten, curves, weights = bases
    n_slots = len(whiten)
    check_width(hours_kw, parts.size * n_slots)
    check_shapes((whiten, (n_slots, n_slots)), (curves, (weights.shape[1], n_slots)))
    days_kw, whole = whole_days(hours_kw, parts.size)
    n_parts = typical_kw.shape[1] // n_slots
    typical = typical_kw.reshape(len(days_kw), n_parts, n_slots)
    width = n_slots * (n_slots + 1) // 2 + len(LAGS) * n_slots + weights.size
    features, spreads = np.zeros((len(days_kw), width)), np.zeros((len(days_kw), 2))
    floors = DAY_FLOOR * row_lengths(typical_kw) / math.sqrt(typical_kw.shape[1])
    for i in range(len(days_kw)):
        days = _offsets(days_kw[i], whole[i], typical[i], parts, floors[i]), whole[i]
        spreads[i] = _fill_moments(days, n_parts, whiten, gains, features[i])
        if spreads[i, 0] > 0.0:
            _fill_margins(days, (curves, weights), gains[2], features[i])
    n_moments = n_slots * (n_slots + 1) // 2
    ends = [n_moments, n_moments + len(LAGS) * n_slots]
    for part, max_squared in zip(np.split(features, ends, axis=1), DAY_PARTS, strict=True):
        longest = math.sqrt(max_squared)  # clipped in place, each part to its squared length
        np.multiply(part, (longest / np.maximum(row_lengths(part), longest))[:, None], out=part)
    return features, spreads


@compiled
def _offsets(days_kw: Floats, whole: Bools, typical: Floats, parts: Ints, floor: float) -> Floats:
    """Return the offsets e, (days, slots): 0 for a day that is not whole."""
    offsets = np.zeros(days_kw.shape)
    means = np.zeros(typical.shape)
    counts = np.zeros(len(typical))
    for t in range(parts.size):
        if whole[t]:
            counts[parts[t]] += 1.0
            for h in range(days_kw.shape[1]):
                scale = slot_scale(typical[parts[t], h], DAY_SCALE, floor)
                offsets[t, h] = math.asinh(days_kw[t, h] / scale)
                means[parts[t], h] += offsets[t, h]
    for t in range(parts.size):
        if whole[t]:
            for h in range(days_kw.shape[1]):
                offsets[t, h] -= means[parts[t], h] / counts[parts[t]]
    return offsets


@compiled
def _fill_moments(
    days: tuple[Floats, Bools],
    n_parts: int,
    whiten: Floats,
    gains: Gains,
    found: Floats,
) -> tuple[float, float]:
    """Fill covariance and products; return both spreads, 0 if all days are identical."""
    offsets, whole = days
    n_days, n_slots = offsets.shape
    z = np.zeros((n_days, n_slots))
    squares = np.zeros(2)
    for t in range(n_days):
        for j in range(n_slots):
            for h in range(n_slots):
                z[t, j] += whiten[j, h] * offsets[t, h]
            squares[0 if j else 1] += z[t, j] * z[t, j]
    if squares.min() <= 0.0:
        return 0.0, 0.0
    n_whole = float(whole.sum())
    shape = math.sqrt(squares[0] / (n_slots - 1) / n_whole)
    level = math.sqrt(squares[1] / n_whole)
    z[:, 0] /= level
    z[:, 1:] /= shape
    place = 0
    for j in range(n_slots):
        for m in range(j, n_slots):
            weight = 1.0 if j == m else _ROOT_TWO
            total = _product(z, whole, (j, m), 0)[0]
            found[place] = weight * total / n_whole / n_slots * gains[0]
            place += 1
    for lag in LAGS:
        for j in range(n_slots):
            total, pairs = _product(z, whole, (j, j), lag)
            found[place] = total / max(pairs, 1.0) / n_slots * gains[1]
            place += 1
    # Degrees of freedom: the means of the parts were estimated from the same days.
    return shape * math.sqrt(n_whole / max(n_whole - n_parts, 1.0)), level / shape


@compiled
def _product(
    z: Floats, whole: Bools, coordinates: tuple[int, int], lag: int
) -> tuple[float, float]:
    """Return the sum of products of two coordinates at a lag in days, and the number of pairs."""
    j, m = coordinates
    total, pairs = 0.0, 0.0
    for t in range(lag, whole.size):
        if whole[t] and whole[t - lag]:
            total += z[t, j] * z[t - lag, m]
            pairs += 1.0
    return total, pairs


@compiled
def _fill_margins(
    days: tuple[Floats, Bools],
    margins: tuple[Floats, Floats],
    gain: float,
    found: Floats,
) -> None:
    """Fill the mean over days of w_jw / sqrt(d) sum_h b_w(h) sqrt(2) cos(pi j v_h)."""
    offsets, whole = days
    curves, weights = margins
    n_whole = float(whole.sum())
    n_cosines, n_waves = weights.shape
    own = np.zeros((n_cosines, n_waves))
    for h in range(offsets.shape[1]):
        squares = 0.0
        for t in range(whole.size):
            squares += offsets[t, h] * offsets[t, h]
        deviation = math.sqrt(squares / n_whole)
        if deviation > 0.0:
            for t in range(whole.size):
                if whole[t]:
                    add_cosines(offsets[t, h] / deviation, curves[:, h], own)
    place = found.size - own.size
    for j in range(n_cosines):
        for w in range(n_waves):
            found[place] = own[j, w] * weights[j, w] / n_whole * gain
            place += 1
