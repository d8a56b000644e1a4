"""Expected error of a series before anything is spent: levels, trends, smallest visible change.

Public numbers only: the strategy, the budget, and estimates of the number of customers and of their
typical size. The error of a level is that of the filter over periods, under the candidate change
`EXPECTED_CHANGE`, and of clipping; the error of a trend is that of the unfiltered slope. Both are
what the release will state as its own standard errors, for groups of the expected size.
"""

import math
from dataclasses import dataclass

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.numerics.load_basis import Calendar
from wattveil.numerics.series.centres import SeriesRadii, widening
from wattveil.numerics.series.period_filter import Change, Observed, filter_periods
from wattveil.numerics.series.smoothing import VISIBLE, coordinate_sizes
from wattveil.numerics.series.strategy import Strategy, has_trend, slope_weights

EXPECTED_CHANGE = Change(walk=0.03, season=0.15, slope=0.05, white=0.01)
_EXPECTED_RADIUS = 2.0
"""Radius in typical sizes."""
_FIRST_STD = 0.3
"""Prior standard deviation of the level of period 1, in sizes of a coordinate."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadPlan:
    """Expected errors of a series of load by group, for one group."""

    level_error: Floats
    """(T,): relative root-mean-square error of the mean curve when the period is published."""
    trend_error_kw: float
    """Standard error of the change per year of the mean load over the whole horizon; infinite
    below two years."""
    smallest_visible_kw: float
    """Change per year that is found in 80 % of all releases, at 5 % false positives."""


def plan_load(
    *,
    strategy: Strategy,
    periods_per_year: int,
    rho: float,
    customers: float,
    typical_kw: float,
    calendar: Calendar,
) -> LoadPlan:
    """Return the expected errors of a group of so many customers of a typical size.

    ``rho`` is the budget of the sums of load over the whole horizon.
    """
    checks.positive("rho", rho)
    checks.positive("customers", customers)
    checks.positive("typical_kw", typical_kw)
    unit = math.sqrt(strategy.allowances[-1] / (2.0 * rho))
    level_std = unit * math.sqrt(np.square(strategy.feedback).sum(axis=1).mean())
    number = np.array([customers])
    radii = SeriesRadii(
        radii_kw=_EXPECTED_RADIUS * typical_kw * widening(number, level_std),
        typical_kw=np.array([typical_kw]),
        customers=number,
    )
    factor = unit * float(radii.radii_kw[0]) / customers * strategy.feedback
    sizes = coordinate_sizes(np.array([typical_kw]), calendar)[0]
    weights = np.square(calendar.colour[:, None] * calendar.weights).mean(axis=1)
    clipping = float(radii.level_clipping[0])
    errors = [
        math.sqrt(weights @ _filtered(factor, sizes, period, periods_per_year)) / typical_kw
        for period in range(1, strategy.horizon + 1)
    ]
    trend = math.inf
    if has_trend(horizon=strategy.horizon, periods_per_year=periods_per_year):
        slope = slope_weights(horizon=strategy.horizon, periods_per_year=periods_per_year)
        of_clipping = float(radii.trend_clipping_kw(number)[0])
        trend = math.hypot(float(np.linalg.norm(slope @ factor)), of_clipping)
    return LoadPlan(
        level_error=np.hypot(errors, clipping),
        trend_error_kw=trend,
        smallest_visible_kw=VISIBLE * trend,
    )


def _filtered(factor: Floats, sizes: Floats, periods: int, periods_per_year: int) -> Floats:
    """Return the variance of each coordinate in the last of so many periods."""
    own = factor[:periods, :periods]
    block = Observed(
        values=np.zeros((sizes.size, periods)),
        prior=np.zeros(sizes.size),
        scale=sizes,
        level=_FIRST_STD**2,
        noise=own @ own.T,
    )
    seen = np.ones(periods, dtype=np.bool_)
    (found,) = filter_periods(
        [block], seen=seen, periods_per_year=periods_per_year, changes=(EXPECTED_CHANGE,)
    )
    return np.square(found.std[:, -1])
