"""Division of the budget of segments: regimes of signal, the wait for midsummer, what accrues."""

import math

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.numerics.series.segment_plan import (
    CLEAR,
    EACH,
    KEEP_BELOW,
    STRONG,
    WarmPlan,
    plan_segments,
    segment_schedule,
)

UNITS = 10**18
RHO, CLUSTERS, HORIZON = 0.1, 6, 20


def planned(signal: float, *, midsummer: int = 2, horizon: int = HORIZON) -> WarmPlan:
    """Return the plan for a signal of an even division."""
    customers = signal * CLUSTERS / math.sqrt(2.0 * RHO / horizon)
    return plan_segments(
        customers=customers, rho=RHO, n_clusters=CLUSTERS, horizon=horizon, midsummer=midsummer
    )


def test_the_division_follows_the_signal() -> None:
    """Kept, found again in midsummer, followed with more steps, found in each period."""
    kept, weak, clear, strong, each = (planned(one) for one in (5.0, 15.0, 50.0, 200.0, 300.0))
    assert (kept.steps, kept.again, kept.first_share) == (0, 2, 0.05)
    assert (weak.steps, weak.again, weak.first_share) == (2, 2, 0.05)
    assert (clear.steps, clear.again, clear.first_share) == (4, None, 0.3)
    assert (strong.steps, strong.again, strong.first_share) == (6, None, 0.15)
    assert (each.again, each.first_share) == (1, 0.05)
    assert weak.signal == pytest.approx(15.0)
    assert clear.signal == pytest.approx(50.0 * math.sqrt(0.7 * 20.0 / 19.0))


def test_limits_of_the_regimes() -> None:
    """The plan changes at the stated signals and not beside them."""
    for limit in (CLEAR, STRONG, EACH):
        below, above = planned(0.999 * limit), planned(1.001 * limit)
        assert below[:2] + below[3:] != above[:2] + above[3:]
    refined = KEEP_BELOW / math.sqrt(0.4 * 20.0 / 19.0)
    assert [planned(factor * refined, midsummer=0).steps for factor in (0.999, 1.001)] == [0, 2]


@pytest.mark.parametrize(
    ("midsummer", "horizon", "waits"),
    [(0, 20, False), (3, 20, True), (3, 8, True), (6, 15, True), (6, 12, False), (2, 4, False)],
)
def test_midsummer_is_awaited_for_at_most_two_fifths(
    midsummer: int, horizon: int, *, waits: bool
) -> None:
    """Otherwise the first period finds the clusters, with the larger share."""
    plan = planned(15.0, midsummer=midsummer, horizon=horizon)
    assert plan.again == (midsummer if waits else None)
    assert plan.first_share == (1.0 / horizon if waits else 0.6)
    assert planned(5.0, midsummer=midsummer, horizon=horizon).first_share == (
        1.0 / horizon if waits else 0.95
    )


def test_one_period_and_bad_numbers() -> None:
    """A single period spends everything; customers are positive."""
    assert planned(15.0, midsummer=0, horizon=1).first_share == 1.0
    with pytest.raises(InvalidParameterError, match="customers"):
        plan_segments(customers=0.0, rho=0.1, n_clusters=6, horizon=20)


def accrued(*found_in: int, midsummer: int = 0, customers: float = 1000.0) -> list[int]:
    """Return what has accrued by each of eleven periods."""
    return [
        segment_schedule(
            units=10**17,
            unit=UNITS,
            customers=customers,
            n_clusters=6,
            horizon=11,
            periods_per_year=4,
            midsummer=midsummer,
            found_in=found_in,
            period=period,
        ).accrued
        for period in range(11)
    ]


def test_all_units_accrue_and_clustering_anew_takes_the_first_share_of_what_is_left() -> None:
    """Even parts after the first; found anew, a period takes 0.6 of the rest; the last, all."""
    plain = accrued(0)
    assert plain[0] == pytest.approx(0.6e17)
    assert np.diff(plain) == pytest.approx(0.04e17)
    assert plain[-1] == 10**17
    anew = accrued(0, 6)
    assert anew[:6] == plain[:6]
    assert anew[6] - anew[5] == pytest.approx(0.6 * (1e17 - anew[5]))
    assert np.diff(anew)[6:] == pytest.approx(0.4 * (1e17 - anew[5]) / 4.0)
    assert anew[-1] == accrued(0, 10)[-1] == 10**17


def test_before_midsummer_parts_are_even() -> None:
    """As those of independent releases; a decision to recluster before it costs one of them."""
    parts = np.diff([0, *accrued(0, 3, midsummer=3)]) / 1e17
    assert parts[:3] == pytest.approx(1.0 / 11.0)
    assert parts[3] == pytest.approx(0.6 * 8.0 / 11.0)
    assert parts[4:] == pytest.approx(0.4 * 8.0 / 11.0 / 7.0)
    assert accrued(0, 1, 3, midsummer=3) == pytest.approx(accrued(0, 3, midsummer=3), rel=1e-12)
    late = np.diff([0, *accrued(0, 4, midsummer=3)]) / 1e17  # the period with midsummer is skipped
    assert late[4] == pytest.approx(0.6 * 7.0 / 11.0)
    each = np.diff([0, *accrued(*range(11), customers=1e5)]) / 1e17
    assert each == pytest.approx(1.0 / 11.0)


def parts_of_twenty(*found_in: int, midsummer: int, rho: float = 0.1) -> list[float]:
    """Return the shares of twenty quarters, for a signal of 17 with rho of 0.1."""
    units = [
        segment_schedule(
            units=int(rho * UNITS),
            unit=UNITS,
            customers=1000.0,
            n_clusters=6,
            horizon=20,
            periods_per_year=4,
            midsummer=midsummer,
            found_in=found_in,
            period=period,
        )
        for period in range(20)
    ]
    parts: list[float] = (np.diff([0, *(one.accrued for one in units)]) / (rho * UNITS)).tolist()
    return parts


def test_long_series_with_little_signal_find_clusters_twice() -> None:
    """In midsummer and two years later, for which 0.3 is reserved; then 0.6 of what is left."""
    parts = parts_of_twenty(0, 2, 10, midsummer=2)
    assert parts[:2] == pytest.approx([0.05, 0.05])
    assert parts[2] == pytest.approx(0.4 * 0.9)
    assert parts[3:10] == pytest.approx([0.3 * 0.9 / 17.0] * 7)
    left = 1.0 - sum(parts[:10])
    assert parts[10] == pytest.approx(0.6 * left)
    assert parts[11:] == pytest.approx([0.4 * left / 9.0] * 9)
    assert sum(parts) == pytest.approx(1.0)
    kept = parts_of_twenty(0, 2, 10, midsummer=2, rho=0.008)
    assert kept[2] == pytest.approx(0.475 * 0.9)
    assert kept[10] == pytest.approx(0.95 * (1.0 - sum(kept[:10])))
    assert parts_of_twenty(0, midsummer=0)[0] == pytest.approx(0.6)  # no midsummer is known


@pytest.mark.parametrize(
    ("place", "again"), [(2, 8), (3, 7), (4, 6), (5, None), (10, None), (1, 1)]
)
def test_the_second_time_is_midsummer_too(place: int, again: int | None) -> None:
    """Also if the first one was skipped, or clusters were found since; with four years left."""
    schedule = segment_schedule(
        units=UNITS // 10,
        unit=UNITS,
        customers=1000.0,
        n_clusters=6,
        horizon=20,
        periods_per_year=4,
        midsummer=2,
        found_in=(0, place),
        period=place,
    )
    assert schedule.plan.again == again
