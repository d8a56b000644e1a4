"""Division of the budget of segments over the periods of a series, by public numbers.

The division depends on the signal nu = n mu / K, with mu^2 / 2 the budget that each period would
have in an even division: customers of a cluster over the noise of a count with that budget.

* Below 30, K-means in a period without midsummer often misses small clusters that exist in summer
  only (homes that export power at noon), and refining steps do not find them later. Therefore each
  period before the first one that contains midsummer gets an even part, as independent releases
  do; that period finds the clusters again with 0.6 of what is left. If the wait is longer than
  0.4 of the horizon, clusters are found in the first period with that share. If at least four
  years are left in midsummer, 0.4 is for that period, and 0.3 is reserved for midsummer two years
  later, which finds the clusters once more: homes that export have become more by then, and a
  series does not depend on the noise of a single search.
* From 30 on K-means finds them in any period. The first one gets 0.3, each later one four steps;
  from 150 on, 0.15 and six steps.
* From 250 on independent releases are nearly exact, and clusters that are followed may stay in a
  local optimum: clusters are found in each period, with even parts.

If a later period has a signal below 5, refining would follow noise: the clusters that were found
get 0.95 and are kept, and later periods query their sizes alone; if they are found twice, each
time gets half of that.

The limits were chosen on simulated homes of seed 101, 1,400 to 100,000 of them, with 6 clusters.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from wattveil import checks

KEEP_BELOW, CLEAR, STRONG, EACH = 5.0, 30.0, 150.0, 250.0
"""Signals: of a later period below which clusters are kept; of an even division from which on
midsummer is not waited for, later periods get more, and clusters are found in each period."""
_LONGEST_WAIT = 0.4
"""Of the horizon, until midsummer."""
_TWICE_FROM, _TWICE_AFTER = 4, 2
"""Years: left in midsummer for clusters to be found twice, and between both times."""
_KEPT_SHARE, _WEAK_SHARE, _CLEAR_SHARE, _STRONG_SHARE = 0.95, 0.6, 0.3, 0.15
_EARLY_SHARE, _RESERVED_SHARE = 0.4, 0.3
"""Of the first of two times, if clusters are refined; and what is reserved for the second."""
_WEAK_STEPS, _CLEAR_STEPS, _STRONG_STEPS = 2, 4, 6


class WarmPlan(NamedTuple):
    """Division of what is left of the budget when clusters are found."""

    first_share: float
    """Of the period that finds them; the rest is divided evenly over the later ones."""
    steps: int
    """Refining steps in each later period; 0 keeps the clusters and counts their sizes."""
    signal: float
    """nu of a later period."""
    again: int | None = None
    """So many periods later clusters are found again; None for never."""
    reserved: float = 0.0
    """Of what is left, for that period: not divided over those before it."""


def plan_segments(
    *,
    customers: float,
    rho: float,
    n_clusters: int,
    horizon: int,
    midsummer: int = 0,
    twice_after: int | None = None,
) -> WarmPlan:
    """Return the division by a public estimate of the number of customers.

    ``rho`` is the budget of the segments over the ``horizon``; ``midsummer`` is the number of
    periods until the first one that contains midsummer, 0 if it is this one, or over. So many
    periods as ``twice_after`` later, clusters with little signal are found once more.
    """
    checks.positive("customers", customers)
    checks.positive("rho", rho)
    checks.integer("horizon", horizon, minimum=1)
    if horizon == 1:
        return WarmPlan(1.0, 0, 0.0)

    def signal(spent: float) -> float:
        later = (1.0 - spent) * rho / (horizon - 1)
        return customers * math.sqrt(2.0 * later) / n_clusters

    even = signal(1.0 / horizon)
    if even >= EACH:
        return WarmPlan(1.0 / horizon, 0, even, again=1)
    if even >= STRONG:
        return WarmPlan(_STRONG_SHARE, _STRONG_STEPS, signal(_STRONG_SHARE))
    if even >= CLEAR:
        return WarmPlan(_CLEAR_SHARE, _CLEAR_STEPS, signal(_CLEAR_SHARE))
    steps = _WEAK_STEPS if signal(_WEAK_SHARE) >= KEEP_BELOW else 0
    share, reserved, again = _WEAK_SHARE if steps else _KEPT_SHARE, 0.0, None
    if 0 < midsummer <= _LONGEST_WAIT * horizon:
        share, again = 1.0 / horizon, midsummer
    elif twice_after is not None:
        share = _EARLY_SHARE if steps else 0.5 * _KEPT_SHARE
        reserved, again = _RESERVED_SHARE if steps else share, twice_after
    # What is reserved is not for the periods before it.
    return WarmPlan(share, steps, signal(share + reserved), again, reserved)


class Schedule(NamedTuple):
    """Division of the budget in force in a period, and what all periods up to it may spend."""

    plan: WarmPlan
    accrued: int


def segment_schedule(
    *,
    units: int,
    unit: int,
    customers: float,
    n_clusters: int,
    horizon: int,
    periods_per_year: int,
    midsummer: int,
    found_in: Sequence[int],
    period: int,
) -> Schedule:
    """Return the division of a period and the units that have accrued by it.

    Clusters are found in the periods ``found_in``, counted from 0: such a period gets the first
    share of what is left, every other one an even share of what is not reserved. What accrues in
    a skipped period is for the next one. ``units`` of ``unit`` per rho are for the whole horizon;
    ``midsummer`` is the first period that contains it, 0 if none is known.
    """
    accrued, reserved, plan = 0, 0, WarmPlan(1.0, 0, 0.0)
    for place in range(period + 1):
        left, periods = units - accrued, horizon - place
        if place == 0 or place in found_in:
            is_long = 0 < midsummer <= place and periods >= _TWICE_FROM * periods_per_year
            since = (place - midsummer) % periods_per_year
            plan = plan_segments(
                customers=customers,
                rho=left / unit,
                n_clusters=n_clusters,
                horizon=periods,
                midsummer=max(midsummer - place, 0),
                twice_after=_TWICE_AFTER * periods_per_year - since if is_long else None,
            )
            accrued += int(Fraction(plan.first_share) * left)
            reserved = int(Fraction(plan.reserved) * left)
        else:
            accrued += (left - reserved) // periods
    return Schedule(plan, accrued)
