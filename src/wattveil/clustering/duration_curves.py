"""From mean curves to duration curves: what noise makes of the extremes is taken back, then sorted.

Post-processing: it sees released numbers whose noise is known, and public ones, nothing else.
"""

import numpy as np
from scipy.ndimage import uniform_filter1d

from wattveil.clustering.calendar import Calendar
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_means import GroupMeans

_EXPORTS = 0.05
"""A mean day that falls below this share of its mean may go below 0 on other days."""


def sort_curves(means: GroupMeans, calendar: Calendar) -> tuple[Floats, Floats]:
    """Return each group's curve in descending order and the error at each rank.

    The filtered curve is sorted, not the noisy one: noise would make the highest hours too high and
    the lowest too low. Coordinates of the expected square, ``sign(m) sqrt(m^2 + v)``, and isotonic
    regression of them along the filtered order were measured too: 0 to 20 % less accurate.

    Hours of nearly the same load change places, so the error at a rank is that of the average over
    the ranks around it, a fiftieth of all.
    """
    curves = calendar.weights
    filtered = means.mean @ curves
    days = (len(filtered), calendar.n_days, calendar.n_slots)
    variance = (means.variance @ np.square(curves)).reshape(days).mean(axis=1)
    groups = zip(filtered.reshape(days), variance, strict=True)
    load = np.array([_settle(*group).ravel() for group in groups])
    order = np.argsort(-load, axis=1, kind="stable")
    moved = np.take_along_axis(load - filtered, order, axis=1)
    load = np.take_along_axis(load, order, axis=1)
    width = max(1, load.shape[1] // 50)
    squares = np.square(np.hypot(means.missed, means.uncounted)[:, None] * load)
    squares += uniform_filter1d(np.square(moved), width, axis=1, mode="nearest")
    for curve, own in zip(curves, means.variance.T, strict=True):
        nearby = uniform_filter1d(curve[order], width, axis=1, mode="nearest")
        squares += own[:, None] * np.square(nearby)
    return load, np.sqrt(squares)


def _settle(days: Floats, variance: Floats) -> Floats:
    """Return days (D, H) whose lowest slots are not lower than noise of that variance explains.

    The filter takes deviations from the mean day m to be as large at night as in the evening. Load
    deviates in proportion: a slot that deviates by more, S^2 > a^2 m^2, is drawn together by as
    much of it as noise explains. What is left below the mean is bent, so that no slot falls below
    0: m (1 + u) becomes m exp(u), by no more than the error again. Slot means stay.

    A group that exports on a mean day is left as it is.
    """
    mean = days.mean(axis=0)
    if mean.min() <= _EXPORTS * mean.mean():
        return days
    away = days - mean
    spread = np.square(away).mean(axis=0)  # S^2
    if not spread.any():
        return days
    in_proportion = spread.sum() / np.square(mean).sum() * np.square(mean)  # a^2 m^2
    kept = np.maximum(in_proportion, spread - variance) / np.maximum(spread, in_proportion)
    drawn = mean + np.sqrt(np.minimum(kept, 1.0)) * away
    below = np.minimum(drawn / mean - 1.0, 0.0)
    bent = np.where(below < 0.0, np.exp(below), drawn / mean)
    change = mean * bent / bent.mean(axis=0) - drawn
    explained = np.sqrt(variance / np.maximum(np.square(change).mean(axis=0), variance))
    settled: Floats = drawn + explained * change
    return settled
