"""Load by group over periods from the released sums of a series: levels, revised past, trends.

The sums of period t hold the innovations of the customers' offsets from a released centre c_t, in
radii R (`strategy`). With y_s the noisy sum of period s and N_t the number of customers, the mean
of a group in public coordinates is observed as::

    m_t = c_t + (R / N_t) sum_{s <= t} L_ts y_s,    noise covariance  sigma^2 D L L' D,  D = R / N_t

Levels are these means after a filter over periods (`period_filter`), which also revises the past
and predicts the next period. Trends are least-squares slopes of the *unfiltered* means: their noise
is known exactly, and no prior draws them towards zero.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wattveil.arrays import Bools, Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.load_basis import Calendar
from wattveil.numerics.series.period_filter import (
    COUNT_CHANGES,
    Observed,
    Posterior,
    filter_periods,
    joined,
)
from wattveil.numerics.series.strategy import Strategy, has_trend, slope_weights

_SIZE = 1.2
"""Size of a coordinate of a group's curve, in typical sizes of its customers and public spectra."""
_PRIOR_VARIANCE = 4.0
"""Factor of the variance of the first estimate: its errors stay in every later period."""
_FEWEST = 3.0
"""Smallest number of customers that a mean is divided by."""
_WIDTH = 1.2
"""Factor of the filter's standard errors, for what is chosen by noisy numbers: radii, changes."""
_CORRECTED = 0.5
"""Mean of what clipping takes from a level, in its standard deviations around 0."""
_BAND = 1.96
VISIBLE = 1.96 + 0.84
"""Standard errors of a change that is found in 80 % of all releases, at 5 % false positives."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstEstimate:
    """Released estimate of period 1, from a release of its own: what the series begins with."""

    mean: Floats
    """(G, r): mean curve in public coordinates, in colour."""
    variance: Floats
    """(G, r): of its errors, in the same unit."""
    typical_kw: Floats
    """(G,): typical size of a customer."""
    customers: Floats
    customers_std: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesSums:
    """Everything that a series of sums released up to period t, and the public strategy."""

    strategy: Strategy
    periods_per_year: int
    released: Bools
    """(t,): False for a period that was skipped by a public decision."""
    sums: Floats
    """(t, G, r): y, in radii and colour; 0 in a skipped period."""
    sums_std: float
    centres: Floats
    """(t, G, r): c_t, in kW and colour."""
    radii_kw: Floats
    """(G,)"""


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesCounts:
    """Numbers of customers with a property by group, as released: the strategy of memberships."""

    strategy: Strategy
    periods_per_year: int
    released: Bools
    sums: Floats
    """(t, G)"""
    sums_std: float


def smooth_counts(
    counts: SeriesCounts, *, first: Floats, first_std: Floats, ahead: int = 1
) -> Posterior:
    """Return the numbers of each group over the released periods, and ``ahead`` more.

    ``first`` is an independent estimate of the numbers in period 1, with standard errors.
    """
    seen = counts.released
    rows = np.flatnonzero(seen)
    feedback = counts.strategy.feedback[np.ix_(rows, rows)]
    noise = np.square(counts.sums_std) * feedback @ feedback.T
    values = feedback @ counts.sums[rows]
    size = np.maximum(first, 10.0)
    blocks = [
        Observed(
            values=values[None, :, group],
            prior=first[group, None],
            scale=size[group, None],
            level=float(np.square(first_std[group] / size[group])),
            noise=noise,
            of=group,
        )
        for group in range(len(first))
    ]
    found = filter_periods(
        blocks,
        seen=np.pad(seen, (0, ahead)),
        periods_per_year=counts.periods_per_year,
        changes=COUNT_CHANGES,
    )
    return joined(found)


class PeriodMeans(NamedTuple):
    """Unfiltered means in the released periods, and the factor of their noise."""

    mean: Floats
    """(G, r, t)"""
    factor: Floats
    """(G, t, t): F with covariance F F' of each coordinate."""


def period_means(series: SeriesSums, *, customers: Floats) -> PeriodMeans:
    """Return m_t = c_t + (R / N_t) sum_s L_ts y_s of the released periods."""
    rows = np.flatnonzero(series.released)
    feedback = series.strategy.feedback[np.ix_(rows, rows)]
    unit = series.radii_kw[:, None] / np.maximum(customers[:, rows], _FEWEST)  # D
    offsets = np.einsum("ts,sgr->grt", feedback, series.sums[rows])
    mean = series.centres[rows].transpose(1, 2, 0) + unit[:, None, :] * offsets
    return PeriodMeans(mean, series.sums_std * unit[:, :, None] * feedback)


def smooth_means(
    series: SeriesSums,
    first: FirstEstimate,
    *,
    customers: Floats,
    calendar: Calendar,
    ahead: int = 1,
) -> Posterior:
    """Return the filtered means (G r, t + ahead), in kW and colour.

    The level of a group, coordinate 0, has a prior variance of its own.
    """
    observed = period_means(series, customers=customers)
    scale = coordinate_sizes(first.typical_kw, calendar)
    coordinates = [slice(0, 1), slice(1, None)]
    blocks = [
        Observed(
            values=observed.mean[group, part],
            prior=first.mean[group, part],
            scale=scale[group, part],
            level=_PRIOR_VARIANCE * _relative(first.variance[group, part], scale[group, part]),
            noise=factor @ factor.T,
            of=group,
        )
        for group, factor in enumerate(observed.factor)
        for part in coordinates
    ]
    seen = np.pad(series.released, (0, ahead))
    return joined(filter_periods(blocks, seen=seen, periods_per_year=series.periods_per_year))


def coordinate_sizes(typical_kw: Floats, calendar: Calendar) -> Floats:
    """Return the public size (G, r) of each coordinate of the mean curves, in colour."""
    return _SIZE * np.outer(typical_kw, calendar.spectrum / calendar.colour)


def _relative(variance: Floats, scale: Floats) -> float:
    return float(variance.mean() / np.square(scale).mean())


class Levels(NamedTuple):
    """Mean load of each group and period, in kW per slot."""

    mean_kw: Floats
    """(G, periods, slots)"""
    std_kw: Floats


def levels(means: Posterior, *, calendar: Calendar, clipping: Floats) -> Levels:
    """Return filtered means in kW, corrected for what clipping takes from them on average.

    ``clipping`` (G,) is the relative standard deviation of that; see `centres`.
    """
    weights = calendar.colour[:, None] * calendar.weights
    shape = (clipping.size, calendar.colour.size, -1)
    mean = np.einsum("grt,rh->gth", means.mean.reshape(shape), weights)
    variance = np.einsum("grt,rh->gth", np.square(means.std).reshape(shape), np.square(weights))
    share = clipping[:, None, None]
    size = np.abs(mean).mean(axis=2, keepdims=True)
    return Levels(
        mean * (1.0 + _CORRECTED * share), np.sqrt(_WIDTH**2 * variance + np.square(share * size))
    )


def duration_curves(mean: Levels, *, customers: Floats, customers_std: Floats) -> Levels:
    """Return the load of whole groups, in descending order within each period, and its error.

    The filtered mean is sorted: noise would make the highest slots too high. The error at a rank is
    that of the slot that has it, ``sqrt((N std)^2 + (mean std_N)^2)``, as if mean and number N
    were independent; a mean is a sum divided by N, so that the true error is rather smaller.
    ``customers`` and their errors are (G, T).
    """
    order = np.argsort(-mean.mean_kw, axis=2, kind="stable")
    load, error = (np.take_along_axis(part, order, axis=2) for part in mean)
    number, number_std = customers[:, :, None], customers_std[:, :, None]
    return Levels(number * load, np.hypot(number * error, load * number_std))


class Trend(NamedTuple):
    """Change per year of a quantity of each group, by least squares over whole periods."""

    slope: Floats
    """(G,): kW per year."""
    std: Floats
    """(G,): standard error."""

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Lower and upper end of the 95 % band."""
        return self.slope - _BAND * self.std, self.slope + _BAND * self.std

    @property
    def smallest_visible(self) -> Floats:
        """(G,): change per year that is found in 80 % of all releases, at 5 % false positives."""
        return VISIBLE * self.std


def trend(
    means: PeriodMeans,
    *,
    released: Bools,
    periods_per_year: int,
    weights: Floats,
    clipping_kw: Floats,
) -> Trend:
    """Return the change per year of ``weights`` applied to the unfiltered mean curves.

    Parameters
    ----------
    weights : (r,)
        Of the coordinates: what the quantity is, such as the mean of some hours.
    clipping_kw : (G,)
        Standard deviation of what clipping may add to a slope.
    """
    if not has_trend(horizon=released.size, periods_per_year=periods_per_year):
        rule = f"at least two years, {2 * periods_per_year} periods, for a trend"
        raise InvalidParameterError("periods", rule, released.size)
    slope = slope_weights(
        horizon=released.size, periods_per_year=periods_per_year, released=released
    )
    quantity = np.einsum("grt,r->gt", means.mean, weights)
    noise = np.linalg.norm(np.einsum("t,gts->gs", slope, means.factor), axis=1)
    std = np.hypot(np.linalg.norm(weights) * noise, clipping_kw)
    return Trend(quantity @ slope, std)
