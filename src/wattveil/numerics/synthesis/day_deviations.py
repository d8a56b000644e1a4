"""Deviations of days from the typical days of a customer: calendar, public bases, noisy moments.

A slot of a day is compared with the base load b of the same customer, a low quantile of its load,
or its lowest load if it exports. With r its root-mean-square load::

    e = cbrt((x - b) / r) - its mean over the days of that part of the year

and below b the root is linear. Load above the base load is close to a gamma distribution whose
variance grows with its mean: its cube root is almost normal (Wilson and Hilferty), and varies
equally in quiet and busy hours, of small and large customers. z are the
coordinates of a day in which the public prior covariance is the identity; the first is the level of
the day, the others its shape. Customers differ in how much their days vary, so z is divided by the
root mean square of the customer: of the level, and of the shape. A customer contributes averages
over its own days, whatever their number: z z', the products of z_j with those of the next day and a
week later, and the cosine coefficients of e over its own standard deviation (`noisy_moments`). The
spread of its shapes, the ratio of the spread of its levels to it, its base load and its largest
load are counted in histograms.
"""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import bisect
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
from wattveil.numerics.synthesis.synthesis_tuning import BELOW_BASE, LOWEST_ROOT
from wattveil.profiles.time_grid import Split, TimeGrid
from wattveil.readings.timestamps import DAY_US

_ROOT_TWO = math.sqrt(2.0)
LAGS = (1, 7)
_SPREADS = (0.03, 4.0)
"""Range of the cells for the spread of shapes, and for that of levels relative to it."""
_SPREAD_RATIO = 1.25
_MAX_DECAY, _LEAST_FIRST = 0.985, 0.15
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
    base: Floats
    """(2, points): quantiles of base loads over root-mean-square loads, without and with export."""

    @cached_property
    def fast_level(self) -> float:
        """f: the part of (d_0 / d_1)^2 that does not last, by which the mean share is as released.

        Customers who are often away have levels that vary more *and* persist: the part beyond f.
        No f gives a share beyond the bounds of `slow_levels`; then f is at its own bound.
        """
        mean, deviation = self.spreads[1]
        ratios = np.exp(mean + deviation * ndtri((np.arange(200) + 0.5) / 200))

        def lasts_longer(fast: float) -> float:
            return float(slow_levels(ratios, fast).mean() - self.slow[0])

        low, high = 1e-6, 1e6
        if lasts_longer(low) <= 0.0:  # released shares reach 1.0
            return low
        return float(bisect(lasts_longer, low, high)) if lasts_longer(high) < 0.0 else high


def slow_levels(ratios: Floats, fast: float) -> Floats:
    """Return the share of the level that lasts, for customers of these d_0 / d_1."""
    return np.clip(1.0 - fast / np.square(ratios), _MIN_SLOW, _MAX_SLOW)


def read_days(
    sums: tuple[Floats, float],
    counts: Sequence[tuple[Floats, float]],
    *,
    customers: float,
    calendar: "YearCalendar",
) -> DayToDay:
    """Read the noisy sums of `day_features` and the noisy histograms of spreads and base loads."""
    total, std = sums
    n_slots = calendar.n_slots
    n = max(customers, 10.0)
    for_moments, for_lags, for_margins, _ = day_gains(n_slots, calendar.n_days)
    n_moments = n_slots * (n_slots + 1) // 2
    first, second = np.triu_indices(n_slots)
    # Of each customer the trace is 1; times the number of slots the prior is the identity.
    unit = n_slots / (n * for_moments)
    weights = np.where(first == second, 1.0, 1.0 / _ROOT_TWO) * unit
    within, noise = np.empty((2, n_slots, n_slots))
    for places in ((first, second), (second, first)):
        within[places] = total[:n_moments] * weights
        noise[places] = np.square(std * weights) + synthesis_tuning.DAY_MOMENT_ERROR / n
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
    next_day, next_week = weight * lags + (1.0 - weight) * expected
    slow, decay = _slow_and_decay(next_day, next_week, calendar.parts)

    values, vectors = day_axes(n_slots)
    curves = np.sqrt(values)[:, None] * vectors
    own, axes = np.linalg.eigh(matrix)
    root = (axes * np.sqrt(own)) @ axes.T  # nearest to the identity: coordinates keep their lags
    edges = np.log(spread_edges())
    fits = [fit_log_normal(seen, edges, noise) for seen, noise in counts[:2]]
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
        base=_base_quantiles(*counts[2]),
    )


_EXPORTING = 13
"""Cells of base loads below 0."""


def base_edges() -> Floats:
    """Return the bounds of the cells in which base loads are counted, over the size of a customer.

    Those below 0 are of customers that export.
    """
    return np.concatenate([-np.geomspace(8.0, 0.1, _EXPORTING - 1), np.arange(0.0, 0.76, 0.05)])


def _base_quantiles(counts: Floats, std: float) -> Floats:
    """Return quantiles of base loads without and with export, by counts shrunk to public ones."""
    edges = base_edges()
    ends = np.concatenate([[1.3 * edges[0]], edges, [1.1 * edges[-1]]])
    middles = 0.5 * (ends[1:] + ends[:-1])
    found = np.empty((2, 101))
    for which, own in enumerate((slice(_EXPORTING, None), slice(_EXPORTING))):
        usual, size = (0.25, 0.15) if which == 0 else (-1.0, 0.7)
        curve = np.exp(-0.5 * np.square((middles[own] - usual) / size))
        prior = curve / curve.sum() * max(float(counts[own].sum()), 10.0)
        weight = np.square(prior) / (np.square(prior) + std**2 + prior)
        shares = np.maximum(weight * counts[own] + (1.0 - weight) * prior, 0.0)
        below = np.concatenate([[0.0], np.cumsum(shares) / max(shares.sum(), 1e-9)])
        ends_own = ends[own.start or 0 :][: below.size]
        found[which] = np.interp(np.linspace(0.0, 1.0, found.shape[1]), below, ends_own)
    return found


_DECAYS = np.concatenate([np.arange(0.3, 0.9, 0.05), np.arange(0.9, _MAX_DECAY, 0.005)])


def _slow_and_decay(next_day: Floats, next_week: Floats, parts: Ints) -> tuple[Floats, Floats]:
    """Return p and phi by which the products with the next day and week are r_1 and r_7.

    Days are compared with the mean of their part of the year. With v(phi) the variance of such a
    mean, r_k = p (phi^k - v) / (1 - v).
    """
    lost = lost_shares(_DECAYS, parts)
    first, seventh = (_DECAYS - lost) / (1.0 - lost), (_DECAYS**7 - lost) / (1.0 - lost)
    next_day = np.clip(next_day, 0.01, 0.95)
    misfit = np.abs(next_week[:, None] / next_day[:, None] - seventh / np.maximum(first, 0.05))
    best = np.where(first > _LEAST_FIRST, misfit, np.inf).argmin(axis=1)
    return np.minimum(next_day / first[best], 1.0), _DECAYS[best]


def lost_shares(decays: Floats, parts: Ints) -> Floats:
    """Return the variance of the mean over the days of a part, of a process of variance 1.

    Mean over days t of the mean over days u of the same part of phi^|t - u|.
    """
    pairs = np.zeros(parts.size)
    for part in np.unique(parts):
        own = np.fft.rfft(parts == part, 2 * parts.size)
        together = np.fft.irfft(np.square(np.abs(own)), 2 * parts.size)[: parts.size]
        pairs += together / np.count_nonzero(parts == part)
    pairs[1:] *= 2.0
    return np.asarray(decays[:, None] ** np.arange(parts.size) @ pairs / parts.size)


def day_gains(n_slots: int, n_days: int) -> tuple[float, float, float, float]:
    """Return sqrt(part) / radius of covariance, products and margins, and 1 / radius of levels."""
    roots = [math.sqrt(part) for part in synthesis_tuning.DAY_PARTS]
    moments, lags, margins = synthesis_tuning.DAY_RADII
    narrow = 1.0 / math.sqrt(n_slots)
    for_levels = 1.0 / (synthesis_tuning.LEVEL_RADIUS * math.sqrt(n_days))
    return roots[0] / (moments * narrow), roots[1] / (lags * narrow), roots[2] / margins, for_levels


@compiled
def load_root(load: float, base: float, scale: float) -> float:
    """Return the root of a load: cubic above the base load, linear below it."""
    if load >= base:
        return float(np.cbrt((load - base) / scale))
    return max((load - base) / max(BELOW_BASE * abs(base), 1e-9), -LOWEST_ROOT)


@compiled
def load_of_root(root: float, base: float, scale: float) -> float:
    """Return the load of a root; none is below the base load of a customer that exports."""
    if root >= 0.0:
        return base + scale * root * root * root
    return base + max(root, -LOWEST_ROOT) * BELOW_BASE * max(base, 0.0)


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
