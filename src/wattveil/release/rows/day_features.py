"""Typical days of customers, and features of the deviations of single days from them.

`wattveil.numerics.synthesis.day_deviations` explains the quantities and processes their noisy sums.
"""

import math

import numpy as np

from wattveil.arrays import Bools, Floats, Ints
from wattveil.compiled import compiled
from wattveil.numerics.synthesis.day_deviations import LAGS, load_root
from wattveil.numerics.synthesis.synthesis_tuning import BASE_CHANCE, DAY_PARTS, LEVEL_LIMIT
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.private_data import row_function
from wattveil.release.rows.load_features import check_shapes, check_width, row_lengths
from wattveil.release.rows.synthesis_features import add_cosines

Bases = tuple[Floats, Floats, Floats]
"""Public: the whitening matrix of a day, and the curves and weights of its margins."""
Gains = tuple[float, float, float, float]
"""Public: factors of the covariance, the products, the margins and the levels."""
Edges = tuple[Floats, Floats, Floats, Floats]
"""Public: bounds of the cells of both spreads, base loads and peaks."""
Features = tuple[Ints, Floats, Ints, Floats, Ints, Ints, Ints, Ints]

_LARGEST, _SMALLEST = 1e9, 1e-9
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
    hours_kw: Floats, *, parts: Ints, n_parts: int, bases: Bases, gains: Gains, edges: Edges
) -> Features:
    """Return what each customer adds to the queries of its days.

    Cell 0 and the features of its days; cell 0 and the levels of its days; and the cells of the
    spreads of its shapes and levels, of its base load over its root-mean-square load, and of its
    largest load in kW.
    """
    (typical,) = typical_days(hours_kw, parts=parts, n_parts=n_parts)
    has_data = np.isfinite(typical).all(axis=1)
    typical[~has_data] = 0.0
    days_kw, whole = whole_days(hours_kw, parts.size)
    sizes = np.maximum(row_lengths(typical) / math.sqrt(typical.shape[1]), _SMALLEST)
    base_kw = base_loads(days_kw, whole)
    features, spreads = day_moments(
        days_kw, whole, (base_kw, sizes), parts=parts, n_parts=n_parts, bases=bases, gains=gains
    )
    usual = np.cumsum(typical, axis=1)[:, -1:] / n_parts
    figures = (*spreads.T, base_kw / sizes, days_kw.max(axis=(1, 2)))
    cells = np.where(has_data, 0, NO_DATA)
    shapes, levels, base, peaks = (
        np.where(has_data, np.searchsorted(own, figure, side="right"), cells)
        for own, figure in zip(edges, figures, strict=True)
    )
    common = daily_levels(days_kw, whole, usual, gain=gains[3])
    return cells, features, cells, common, shapes, levels, base, peaks


def daily_levels(days_kw: Floats, whole: Bools, usual: Floats, *, gain: float) -> Floats:
    """Return the energy of each day over the usual energy, less 1: limited, of length at most 1.

    ``usual``, (customers, 1), is the mean energy of the typical days of a customer.
    """
    ratios = np.cumsum(days_kw, axis=2)[:, :, -1] / np.maximum(usual, _SMALLEST)
    levels = np.where(whole & (usual > 0.0), ratios - 1.0, 0.0)
    levels = np.clip(levels, -LEVEL_LIMIT, LEVEL_LIMIT) * gain
    return np.asarray(levels / np.maximum(row_lengths(levels), 1.0)[:, None])


def base_loads(days_kw: Floats, whole: Bools) -> Floats:
    """Return the base load of each customer, over its whole days.

    A low quantile of its slots, or the lowest where that is negative; 0 without any day.
    """
    known = np.where(whole[:, :, None], days_kw, math.inf)
    known = np.sort(known.reshape(len(known), known.shape[1] * known.shape[2]), axis=1)
    places = (BASE_CHANCE * days_kw.shape[2] * whole.sum(axis=1)).astype(np.int64)
    base = np.where(known[:, 0] < 0.0, known[:, 0], known[np.arange(len(known)), places])
    return np.where(np.isfinite(base), base, 0.0)


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
    days_kw: Floats,
    whole: Bools,
    own: tuple[Floats, Floats],
    *,
    parts: Ints,
    n_parts: int,
    bases: Bases,
    gains: Gains,
) -> tuple[Floats, Floats]:
    """Return the features of each customer, of L2 norm at most 1, and the spreads of its days.

    ``own`` are base loads and sizes. Spreads are (customers, 2): of shapes, and of levels relative
    to them; 0 for identical days.
    """
    whiten, curves, weights = bases
    n_slots = days_kw.shape[2]
    check_shapes((whiten, (n_slots, n_slots)), (curves, (weights.shape[1], n_slots)))
    offsets, margins = np.zeros(days_kw.shape), np.zeros((len(days_kw), *weights.shape))
    _fill_offsets((days_kw, whole), np.column_stack(own), parts, n_parts, offsets)
    _fill_margins(offsets, whole, curves, margins)
    z = np.zeros(days_kw.shape)
    for h in range(n_slots):
        z += offsets[:, :, h, None] * whiten[:, h]
    n_whole = np.maximum(whole.sum(axis=1), 1).astype(np.float64)
    squares = np.cumsum(np.square(z), axis=1)[:, -1] / n_whole[:, None]
    level = np.sqrt(squares[:, 0])
    shape = np.sqrt(np.cumsum(squares[:, 1:], axis=1)[:, -1] / (n_slots - 1))
    varied = (level > 0.0) & (shape > 0.0)
    level, shape = np.where(varied, level, 1.0), np.where(varied, shape, 1.0)
    z *= varied[:, None, None]
    z[:, :, 0] /= level[:, None]
    z[:, :, 1:] /= shape[:, None, None]
    seconds = [
        np.cumsum(z[:, :, j, None] * z[:, :, j:], axis=1)[:, -1]
        / n_whole[:, None]
        * np.where(np.arange(j, n_slots) == j, 1.0, math.sqrt(2.0))
        for j in range(n_slots)
    ]
    lags = [
        np.cumsum(z[:, lag:] * z[:, :-lag], axis=1)[:, -1]
        / np.maximum((whole[:, lag:] & whole[:, :-lag]).sum(axis=1), 1)[:, None]
        for lag in LAGS
    ]
    cosines = (margins * weights / n_whole[:, None, None]).reshape(len(z), weights.size)
    cosines *= varied[:, None]
    found = []
    for part, gain, most in zip(
        (np.hstack(seconds) / n_slots, np.hstack(lags) / n_slots, cosines),
        gains,
        DAY_PARTS,
        strict=False,
    ):  # each part is clipped to its squared length
        longest = math.sqrt(most) / np.maximum(row_lengths(part * gain), math.sqrt(most))
        found.append(part * gain * longest[:, None])
    # Degrees of freedom: the means of the parts were estimated from the same days.
    free = np.sqrt(n_whole / np.maximum(n_whole - n_parts, 1.0))
    spreads = np.column_stack([shape * free, level / shape]) * varied[:, None]
    return np.hstack(found), spreads


@compiled
def _fill_offsets(
    days: tuple[Floats, Bools], own: Floats, parts: Ints, n_parts: int, offsets: Floats
) -> None:
    """Fill the offsets e, (customers, days, slots): 0 for a day that is not whole."""
    days_kw, whole = days
    for i in range(len(days_kw)):
        means, counts = np.zeros((n_parts, days_kw.shape[2])), np.zeros(n_parts)
        for t in range(parts.size):
            if whole[i, t]:
                counts[parts[t]] += 1.0
                for h in range(days_kw.shape[2]):
                    offsets[i, t, h] = load_root(days_kw[i, t, h], own[i, 0], own[i, 1])
                    means[parts[t], h] += offsets[i, t, h]
        for t in range(parts.size):
            if whole[i, t]:
                offsets[i, t] -= means[parts[t]] / counts[parts[t]]


@compiled
def _fill_margins(offsets: Floats, whole: Bools, curves: Floats, margins: Floats) -> None:
    """Fill the sums over days of b_w(h) sqrt(2) cos(pi j v_h), (customers, cosines, waves)."""
    for i in range(len(offsets)):
        for h in range(offsets.shape[2]):
            squares = 0.0
            for t in range(whole.shape[1]):
                squares += offsets[i, t, h] * offsets[i, t, h]
            deviation = math.sqrt(squares / max(whole[i].sum(), 1))
            if deviation > 0.0:
                for t in range(whole.shape[1]):
                    if whole[i, t]:
                        add_cosines(offsets[i, t, h] / deviation, curves[:, h], margins[i])
