"""Typical days of customers, and how their days differ from them.

`wattveil.synthesis.days` explains the quantities and reads their noisy sums.
"""

import math

import numpy as np

from wattveil.compiled import compiled
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.rows import FloatArray, IntArray, row_function
from wattveil.release.rows.projection import check_width
from wattveil.release.rows.synthesis_features import add_cosines
from wattveil.synthesis import tuning
from wattveil.synthesis.calendar import YearCalendar
from wattveil.synthesis.days import LAGS, day_gains, day_width, slot_scale

_ROOT_TWO = math.sqrt(2.0)
_LARGEST = 1e9
"""Values saturate here, in kW: no customer can overflow a sum of squares."""


@row_function
def typical_days(hours_kw: FloatArray, *, calendar: YearCalendar) -> tuple[FloatArray]:
    """Return each customer's mean day of every part of the year, side by side.

    A day with a slot that is not finite is excluded; a customer without any day of some part has a
    row of NaN.
    """
    check_width(hours_kw, calendar.n_days * calendar.n_slots)
    found = np.empty((len(hours_kw), calendar.n_parts * calendar.n_slots))
    _fill_typical(np.ascontiguousarray(hours_kw), calendar.parts, found)
    return (found,)


@row_function
def typical_size_cells(
    hours_kw: FloatArray, *, calendar: YearCalendar, edges: FloatArray
) -> tuple[IntArray]:
    """Return between which bounds the root-mean-square typical load of each customer lies."""
    (typical,) = typical_days(hours_kw, calendar=calendar)
    # A running sum has one order of additions, whatever rows stand beside.
    squares = np.cumsum(np.square(typical), axis=1)[:, -1]
    cells = np.searchsorted(edges, np.sqrt(squares / typical.shape[1]), side="right")
    return (np.where(np.isfinite(squares), cells, NO_DATA).astype(np.int64),)


@row_function
def day_features(
    hours_kw: FloatArray, *, calendar: YearCalendar, edges: FloatArray
) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
    """Return cell 0 and features of each customer's days, and the cells of their two spreads."""
    (typical,) = typical_days(hours_kw, calendar=calendar)
    has_data = np.isfinite(typical).all(axis=1)
    features, spreads = day_moments(hours_kw, np.where(has_data[:, None], typical, 0.0), calendar)
    shapes, levels = np.searchsorted(edges, spreads.T, side="right")
    cells = (np.where(has_data, own, NO_DATA) for own in (np.zeros(len(shapes)), shapes, levels))
    everyone, shapes, levels = (own.astype(np.int64) for own in cells)
    return everyone, features, shapes, levels


def day_moments(
    hours_kw: FloatArray, typical_kw: FloatArray, calendar: YearCalendar
) -> tuple[FloatArray, FloatArray]:
    """Return what each customer adds, of length at most 1, and the spreads of its days.

    Spreads are (customers, 2): of shapes, and of levels beside them; 0 for days that are all alike.
    """
    n_slots = calendar.n_slots
    features = np.zeros((len(hours_kw), day_width(n_slots)))
    spreads = np.zeros((len(hours_kw), 2))
    whiten, curves, weights = calendar.day_bases
    gains, scale = day_gains(n_slots), (tuning.DAY_SCALE, tuning.DAY_FLOOR)
    for i in range(len(hours_kw)):
        days = _offsets(hours_kw[i : i + 1], typical_kw[i], calendar.parts, scale)
        spreads[i] = _fill_moments(days, calendar.n_parts, whiten, gains, features[i])
        if spreads[i, 0] > 0.0:
            _fill_margins(days, (curves, weights), gains[2], features[i])
        _clip_parts(features[i], n_slots, tuning.DAY_PARTS)
    return features, spreads


@compiled
def _whole_day(hours_kw: FloatArray, customer: int, day: int, n_slots: int) -> bool:
    """Tell whether every slot of a day is finite."""
    for slot in range(day * n_slots, (day + 1) * n_slots):
        if not math.isfinite(hours_kw[customer, slot]):
            return False
    return True


@compiled
def _saturated(load_kw: float) -> float:
    """Return the load, within bounds that arithmetic can bear."""
    return min(max(load_kw, -_LARGEST), _LARGEST)


@compiled
def _fill_typical(hours_kw: FloatArray, parts: IntArray, found: FloatArray) -> None:
    """Fill the means of each row, added in the order of the days."""
    n_slots = hours_kw.shape[1] // parts.size
    n_parts = found.shape[1] // n_slots
    days = np.empty(n_parts)
    for i in range(hours_kw.shape[0]):
        days[:] = 0.0
        found[i] = 0.0
        for t in range(parts.size):
            if _whole_day(hours_kw, i, t, n_slots):
                days[parts[t]] += 1.0
                for h in range(n_slots):
                    value = _saturated(hours_kw[i, t * n_slots + h])
                    found[i, parts[t] * n_slots + h] += value
        if days.min() == 0.0:
            found[i] = math.nan
        else:
            for column in range(found.shape[1]):
                found[i, column] /= days[column // n_slots]


@compiled
def _offsets(
    row: FloatArray, typical: FloatArray, parts: IntArray, how: tuple[float, float]
) -> tuple[FloatArray, IntArray]:
    """Return e, (days, slots), and which days are whole: 1 or 0."""
    n_days = parts.size
    n_slots = row.shape[1] // n_days
    n_parts = typical.size // n_slots
    squares = 0.0
    for column in range(typical.size):
        squares += typical[column] * typical[column]
    least = how[1] * math.sqrt(squares / typical.size)
    offsets = np.zeros((n_days, n_slots))
    whole = np.zeros(n_days, np.int64)
    means = np.zeros((n_parts, n_slots))
    days = np.zeros(n_parts)
    for t in range(n_days):
        if _whole_day(row, 0, t, n_slots):
            whole[t] = 1
            days[parts[t]] += 1.0
            for h in range(n_slots):
                scale = slot_scale(typical[parts[t] * n_slots + h], how[0], least)
                y = math.asinh(_saturated(row[0, t * n_slots + h]) / scale)
                offsets[t, h] = y
                means[parts[t], h] += y
    for t in range(n_days):
        if whole[t] == 1:
            for h in range(n_slots):
                offsets[t, h] -= means[parts[t], h] / days[parts[t]]
    return offsets, whole


@compiled
def _fill_moments(
    days: tuple[FloatArray, IntArray],
    n_parts: int,
    whiten: FloatArray,
    gains: tuple[float, float, float],
    found: FloatArray,
) -> tuple[float, float]:
    """Fill covariance and products; return both spreads, 0 if the days are all alike."""
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
    # The means of the parts were taken from the same days.
    return shape * math.sqrt(n_whole / max(n_whole - n_parts, 1.0)), level / shape


@compiled
def _product(
    z: FloatArray, whole: IntArray, coordinates: tuple[int, int], lag: int
) -> tuple[float, float]:
    """Return the sum over whole days of two coordinates' products so many days apart, and days."""
    j, m = coordinates
    total, pairs = 0.0, 0.0
    for t in range(lag, whole.size):
        if whole[t] == 1 and whole[t - lag] == 1:
            total += z[t, j] * z[t - lag, m]
            pairs += 1.0
    return total, pairs


@compiled
def _fill_margins(
    days: tuple[FloatArray, IntArray],
    margins: tuple[FloatArray, FloatArray],
    gain: float,
    found: FloatArray,
) -> None:
    """Fill the mean over days of w_jw / sqrt(d) sum_h b_w(h) sqrt(2) cos(pi j v_h)."""
    offsets, whole = days
    curves, weights = margins
    n_cosines, n_waves = weights.shape
    n_days, n_slots = offsets.shape
    deviations = np.zeros(n_slots)
    n_whole = 0.0
    for t in range(n_days):
        n_whole += whole[t]
        for h in range(n_slots):
            deviations[h] += offsets[t, h] * offsets[t, h]
    own = np.zeros((n_cosines, n_waves))
    for h in range(n_slots):
        deviation = math.sqrt(deviations[h] / n_whole)
        if deviation > 0.0:
            for t in range(n_days):
                if whole[t] == 1:
                    add_cosines(offsets[t, h] / deviation, curves[:, h], own)
    place = found.size - own.size
    for j in range(n_cosines):
        for w in range(n_waves):
            found[place + j * n_waves + w] = own[j, w] * weights[j, w] / n_whole * gain


@compiled
def _clip_parts(found: FloatArray, n_slots: int, parts: tuple[float, float, float]) -> None:
    """Clip covariance, products and margins, in place, each to its squared length."""
    first = 0
    ends = (n_slots * (n_slots + 1) // 2, n_slots * (n_slots + 1) // 2 + 2 * n_slots, found.size)
    for which in range(3):
        squares = 0.0
        for place in range(first, ends[which]):
            squares += found[place] * found[place]
        if squares > parts[which]:
            scale = math.sqrt(parts[which] / squares)
            for place in range(first, ends[which]):
                found[place] *= scale
        first = ends[which]
