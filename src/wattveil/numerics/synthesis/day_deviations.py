"""Deviations of days from the typical days of a customer: calendar, public bases, noisy moments.

A slot of a day is compared with the typical load m of the same customer::

    e = asinh(x / s) - its mean over the days of that part of the year
    s = 1/4 sqrt(m^2 + (r / 10)^2),  r the root-mean-square typical load of the customer

so that days of small and large customers, and of quiet and busy hours, are alike. z are the
coordinates of a day in which the public prior covariance is the identity; the first is the level of
the day, the others its shape. Customers differ in how much their days vary, so z is divided by the
root mean square of the customer: of the level, and of the shape. A customer contributes averages
over its own days, whatever their number: z z', the products of z_j with those of the next day and a
week later, and the cosine coefficients of e over its own standard deviation (`noisy_moments`). The
spread of its shapes, and the ratio of the spread of its levels to it, are counted in two
histograms.
"""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.compiled import compiled
from wattveil.errors import InvalidParameterError
from wattveil.numerics.size_distribution import fit_log_normal
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.noisy_moments import (
    margin_colour,
    margin_width,
    read_margins,
    towards_identity,
    waves,
)
from wattveil.profiles.time_grid import Split, TimeGrid
from wattveil.readings.timestamps import DAY_US

_ROOT_TWO = math.sqrt(2.0)
LAGS = (1, 7)
_SPREADS = (0.1, 4.0)
"""Range of the cells for the spread of shapes, and for that of levels relative to it."""
_SPREAD_RATIO = 1.25
_MAX_DECAY = 0.98
_MIN_SLOW, _MAX_SLOW = 0.05, 0.98


def day_width(n_slots: int) -> int:
    """Return the number of features per customer."""
    return n_slots * (n_slots + 1) // 2 + len(LAGS) * n_slots + margin_width(n_slots)


def spread_edges() -> Floats:
    """Return the bounds of the cells in which the spreads of days are counted."""
    low, high = _SPREADS
    steps = np.arange(math.log(low), math.log(high), math.log(_SPREAD_RATIO))
    return np.asarray(np.exp(steps))


@dataclass(frozen=True, kw_only=True, eq=False)
class DayToDay:
    """Released model of the deviations of days from typical days."""

    factors: Floats
    """(2, slots, slots): e is (d_1 times the first + d_0 times the second) times coordinates that
    are independent of each other, d_1 and d_0 being a customer's spreads of shape and level."""
    slow: Floats
    """(slots,): share of a coordinate's variance that lasts over days; for the level the mean."""
    decay: Floats
    """(slots,): autocorrelation of that share at a lag of one day."""
    margins: Floats
    """(cosines, waves)"""
    spreads: Floats
    """(2, 2): mean and standard deviation of log d_1, and of log(d_0 / d_1)."""

    @cached_property
    def fast_level(self) -> float:
        """f: the part of (d_0 / d_1)^2 that does not last, by which the mean share is as released.

        Customers who are often away have levels that vary more *and* persist: the part beyond f.
        """
        mean, deviation = self.spreads[1]
        ratios = np.exp(mean + deviation * ndtri((np.arange(200) + 0.5) / 200))

        def lasts_longer(fast: float) -> float:
            return float(slow_levels(ratios, fast).mean() - self.slow[0])

        low, high = 1e-6, 1e6
        return float(brentq(lasts_longer, low, high)) if lasts_longer(high) < 0.0 else high


def slow_levels(ratios: Floats, fast: float) -> Floats:
    """Return the share of the level that lasts, for customers of these d_0 / d_1."""
    return np.clip(1.0 - fast / np.square(ratios), _MIN_SLOW, _MAX_SLOW)


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
    # Of each customer the trace is 1; times the number of slots the prior is the identity.
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
    expected = np.array(
        [[level] + [rest] * (n_slots - 1) for level, rest in synthesis_tuning.DAY_LAGS]
    )
    variance = np.square(std * n_slots / (n * for_lags)) + 1.0 / n
    weight = synthesis_tuning.DAY_LAG_SPREAD**2 / (synthesis_tuning.DAY_LAG_SPREAD**2 + variance)
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
    decay = np.clip((next_week / next_day) ** (1.0 / 6.0), 0.3, _MAX_DECAY)
    return np.minimum(next_day / decay, 1.0), decay


def day_gains(n_slots: int) -> tuple[float, float, float]:
    """Return the factors of covariance, products and margins: sqrt(part) / radius."""
    roots = [math.sqrt(part) for part in synthesis_tuning.DAY_PARTS]
    moments, lags, margins = synthesis_tuning.DAY_RADII
    narrow = 1.0 / math.sqrt(n_slots)
    return roots[0] / (moments * narrow), roots[1] / (lags * narrow), roots[2] / margins


@compiled
def slot_scale(typical: float, part: float, floor: float) -> float:
    """Return the scale of asinh where the typical load is this; never 0."""
    return max(part * math.sqrt(typical * typical + floor * floor), 1e-9)


def day_prior(n_slots: int) -> Floats:
    """Return the public prior of the correlations within a day, (slots, slots)."""
    hours = np.arange(n_slots) * 24.0 / n_slots
    fading = synthesis_tuning.DAY_PRIOR_PERSISTENCE ** np.abs(hours[:, None] - hours[None])
    level, spread = synthesis_tuning.DAY_PRIOR_LEVEL, synthesis_tuning.DAY_PRIOR_SPREAD
    shared: Floats = level + spread * fading
    return shared + (1.0 - level - spread) * np.eye(n_slots)


def day_axes(n_slots: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors (as rows) of the prior, largest first."""
    values, vectors = np.linalg.eigh(day_prior(n_slots))
    return values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1].T)


def day_bases(n_slots: int) -> tuple[Floats, Floats, Floats]:
    """Return the basis of the coordinates of a day, and the curves and weights of its margins."""
    values, vectors = day_axes(n_slots)
    colour, radius = margin_colour(n_slots)
    whiten = vectors / np.sqrt(values)[:, None]
    return whiten, waves(n_slots) / math.sqrt(n_slots), math.sqrt(2.0) * colour / radius


MAX_SLOTS = 96
_MAX_DAYS = 10 * 366


@dataclass(frozen=True, kw_only=True)
class YearCalendar:
    """Consecutive local days of equal slots, each day of one part of the year.

    The parts are those of `wattveil.profiles.TimeGrid`: seasons, weekdays and weekends, or both.
    """

    first_day: dt.date
    n_days: int
    n_slots: int
    split: Split

    def __post_init__(self) -> None:
        """Check the parameters."""
        if type(self.first_day) is not dt.date:
            raise InvalidParameterError("first_day", "a date", self.first_day)
        checks.integer("n_days", self.n_days, minimum=1, maximum=_MAX_DAYS)
        checks.integer("slots_per_day", self.n_slots, minimum=2, maximum=MAX_SLOTS)
        checks.member("split", self.split, Split)

    @property
    def n_parts(self) -> int:
        """Number of typical days per customer."""
        grid = TimeGrid(split=self.split)
        return grid.cells // grid.slots

    @cached_property
    def parts(self) -> Ints:
        """(n_days,): the part of each day."""
        grid = TimeGrid(split=self.split)
        first = (self.first_day - dt.date(1970, 1, 1)).days
        return grid.cell_of((first + np.arange(self.n_days)) * DAY_US) // grid.slots

    @cached_property
    def day_bases(self) -> tuple[Floats, Floats, Floats]:
        """The public bases of a day: found once, and then sent to executors with the calendar.

        Another machine might find eigenvectors that differ in their last bits.
        """
        return day_bases(self.n_slots)


def fitting_calendar(
    n_columns: int, *, first_day: dt.date, n_slots: int, split: Split
) -> YearCalendar:
    """Return the calendar of rows of ``n_columns`` slots; every part of the year must occur."""
    checks.integer("slots_per_day", n_slots, minimum=2, maximum=MAX_SLOTS)
    if n_columns % n_slots:
        raise InvalidParameterError("X", f"whole days of {n_slots} slots", f"{n_columns} columns")
    calendar = YearCalendar(
        first_day=first_day, n_days=n_columns // n_slots, n_slots=n_slots, split=split
    )
    if np.unique(calendar.parts).size < calendar.n_parts:
        rule = f"one whose parts all occur in {calendar.n_days} days from {first_day}"
        raise InvalidParameterError("split", rule, split.value)
    return calendar
