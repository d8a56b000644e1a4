"""How a customer's days differ from its typical ones: what it adds to the sums, and their reading.

A slot of a day is compared with the customer's own typical load m there::

    e = asinh(x / s) - its mean over the days of that part of the year
    s = 1/4 sqrt(m^2 + (r / 10)^2),  r the customer's root-mean-square typical load

so that days of small and large customers, and of quiet and busy hours, are alike. z are the
coordinates of a day in which a public guess of its covariance is the identity; the first is the
level of the day, the others its shape. Customers differ in how much their days vary, so z is
divided by the customer's own root mean square: of the level, and of the shape. A customer adds
averages over its own days, whatever their number: z z', the products of z_j with those of the next
day and a week later, and the cosines of `margins` of e over its own standard deviation. The spread
of its shapes, and how much larger that of its levels is, go into two histograms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from wattveil.clustering._kernels import Floats
from wattveil.clustering.log_normal import fit_log_normal
from wattveil.compiled import compiled
from wattveil.synthesis import tuning
from wattveil.synthesis.covariance import towards_identity
from wattveil.synthesis.day_bases import day_axes
from wattveil.synthesis.margins import margin_width, read_margins

_ROOT_TWO = math.sqrt(2.0)
LAGS = (1, 7)
_SPREADS = (0.1, 4.0)
"""Spreads of shapes that are told apart, and those of levels beside them."""
_SPREAD_RATIO = 1.25
_MOST_DECAY = 0.98
_LEAST_SLOW, _MOST_SLOW = 0.05, 0.98


def day_width(n_slots: int) -> int:
    """Return how many numbers a customer adds."""
    return n_slots * (n_slots + 1) // 2 + len(LAGS) * n_slots + margin_width(n_slots)


def spread_edges() -> Floats:
    """Return the bounds of the cells in which the spreads of days are counted."""
    least, most = _SPREADS
    steps = np.arange(math.log(least), math.log(most), math.log(_SPREAD_RATIO))
    return np.asarray(np.exp(steps))


@dataclass(frozen=True, kw_only=True, eq=False)
class DayToDay:
    """Released: how days differ from typical ones."""

    factors: Floats
    """(2, slots, slots): e is (d_1 times the first + d_0 times the second) times coordinates that
    are independent of each other, d_1 and d_0 being a customer's spreads of shape and level."""
    slow: Floats
    """(slots,): share of a coordinate's variance that lasts over days; for the level the mean."""
    decay: Floats
    """(slots,): what is left of it a day later."""
    margins: Floats
    """(cosines, waves)"""
    spreads: Floats
    """(2, 2): mean and standard deviation of log d_1, and of log(d_0 / d_1)."""

    @cached_property
    def fast_level(self) -> float:
        """f: the part of (d_0 / d_1)^2 that does not last, by which the mean share is as released.

        Who is often away has levels that vary more *and* last longer: what is beyond f lasts.
        """
        mean, deviation = self.spreads[1]
        ratios = np.exp(mean + deviation * ndtri((np.arange(200) + 0.5) / 200))

        def lasts_longer(fast: float) -> float:
            return float(slow_levels(ratios, fast).mean() - self.slow[0])

        least, most = 1e-6, 1e6
        return float(brentq(lasts_longer, least, most)) if lasts_longer(most) < 0.0 else most


def slow_levels(ratios: Floats, fast: float) -> Floats:
    """Return the share of the level that lasts, for customers of these d_0 / d_1."""
    return np.clip(1.0 - fast / np.square(ratios), _LEAST_SLOW, _MOST_SLOW)


def read_days(
    sums: tuple[Floats, float],
    counts: Sequence[tuple[Floats, float]],
    *,
    customers: float,
    n_slots: int,
) -> DayToDay:
    """Read the noisy sums of `day_features` and the noisy histograms of both spreads."""
    total, std = sums
    n = max(customers, 10.0)
    for_moments, for_lags, for_margins = day_gains(n_slots)
    n_moments = n_slots * (n_slots + 1) // 2
    first, second = np.triu_indices(n_slots)
    # Of each customer the trace is 1; times the number of slots the guess is the identity.
    unit = n_slots / (n * for_moments)
    weights = np.where(first == second, 1.0, 1.0 / _ROOT_TWO) * unit
    within, noise = np.empty((2, n_slots, n_slots))
    for places in ((first, second), (second, first)):
        within[places] = total[:n_moments] * weights
        noise[places] = np.square(std * weights) + 1.0 / n
    matrix = towards_identity(within, noise)[1]
    shape = np.trace(matrix[1:, 1:]) / (n_slots - 1)
    units = np.sqrt(np.array([matrix[0, 0]] + [shape] * (n_slots - 1)))
    matrix /= units[:, None] * units[None]

    lags = total[n_moments : n_moments + 2 * n_slots].reshape(2, n_slots)
    lags = lags * (n_slots / (n * for_lags)) / np.diag(matrix)
    expected = np.array([[level] + [rest] * (n_slots - 1) for level, rest in tuning.DAY_LAGS])
    variance = np.square(std * n_slots / (n * for_lags)) + 1.0 / n
    weight = tuning.DAY_LAG_SPREAD**2 / (tuning.DAY_LAG_SPREAD**2 + variance)
    slow, decay = _slow_and_decay(*(weight * lags + (1.0 - weight) * expected))

    values, vectors = day_axes(n_slots)
    curves = np.sqrt(values)[:, None] * vectors
    own, axes = np.linalg.eigh(matrix)
    root = (axes * np.sqrt(own)) @ axes.T  # nearest to the identity: coordinates keep their lags
    fits = [fit_log_normal(seen, np.log(spread_edges()), noise) for seen, noise in counts]
    return DayToDay(
        factors=np.array([curves[1:].T @ root[1:], np.outer(curves[0], root[0])]),
        slow=slow,
        decay=decay,
        margins=read_margins(
            total[n_moments + 2 * n_slots :] / for_margins,
            std=std / for_margins,
            customers=n,
            n_slots=n_slots,
        ),
        spreads=np.array([fit[:2] for fit in fits]),
    )


def _slow_and_decay(next_day: Floats, next_week: Floats) -> tuple[Floats, Floats]:
    """Return p and phi with p phi = r_1 and p phi^7 = r_7, as near as 0 <= p, phi < 1 allow."""
    next_day = np.clip(next_day, 0.01, 0.95)
    next_week = np.clip(next_week, 1e-4, next_day)
    decay = np.clip((next_week / next_day) ** (1.0 / 6.0), 0.3, _MOST_DECAY)
    return np.minimum(next_day / decay, 1.0), decay


def day_gains(n_slots: int) -> tuple[float, float, float]:
    """Return what covariance, products and margins are multiplied by: sqrt(part) / radius."""
    roots = [math.sqrt(part) for part in tuning.DAY_PARTS]
    moments, lags, margins = tuning.DAY_RADII
    narrow = 1.0 / math.sqrt(n_slots)
    return roots[0] / (moments * narrow), roots[1] / (lags * narrow), roots[2] / margins


@compiled
def slot_scale(typical: float, part: float, least: float) -> float:
    """Return the scale of asinh where the typical load is this; never 0."""
    return max(part * math.sqrt(typical * typical + least * least), 1e-9)
