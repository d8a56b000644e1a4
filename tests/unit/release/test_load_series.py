"""Periods of a series: costs, skipped periods, members, refusals."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.privacy.guarantee import Budget, global_guarantee
from wattveil.release.load_series import (
    LOAD,
    MEMBERS,
    ReleasedSeries,
    SeriesDesign,
    day_calendar,
    release_load_period,
)
from wattveil.simulate import simulate_load_kw

CUSTOMERS = 600
LOADS = simulate_load_kw(customers=CUSTOMERS)
GROUPS = ["home" if row % 3 else "shop" for row in range(CUSTOMERS)]
CARS = ["yes" if row % 5 == 0 else "no" for row in range(CUSTOMERS)]
IDS = [f"customer {row}" for row in range(CUSTOMERS)]


def design(**changed: Any) -> SeriesDesign:  # noqa: ANN401 - fields
    """Return a series of eight quarters with much budget."""
    fields: dict[str, Any] = {
        "horizon": 8,
        "periods_per_year": 4,
        "guarantee": global_guarantee(epsilon=50.0, delta=1e-6),
        "levels": {"class": ("home", "shop")},
        "properties": (("car", "yes"),),
    }
    return SeriesDesign(**{**fields, **changed})


def released(own: SeriesDesign, periods: tuple[int, ...]) -> ReleasedSeries:
    """Release some periods of the same customers."""
    found = ReleasedSeries(design=own)
    state = MemoryState(names_key=bytes(32))
    for period in periods:
        found = add(found, state, period, LOADS * (1.0 + 0.02 * period))
    return found


def add(past: ReleasedSeries, state: MemoryState, period: int, load_kw: Floats) -> ReleasedSeries:
    """Release one period."""
    groups = {"class": GROUPS, "car": CARS}
    return release_load_period(
        load_kw, groups=groups, customer_ids=IDS, past=past, period=period, state=state
    )


def test_means_and_numbers_are_found() -> None:
    """With much budget, also after a period that was skipped."""
    found = released(design(), (0, 1, 3))
    calendar = day_calendar(24)
    means = found.means().mean.reshape(2, 24, -1)[:, :, -1] * calendar.colour @ calendar.weights
    for mean, group in zip(means, ("home", "shop"), strict=True):
        own = LOADS[np.array(GROUPS) == group].mean(axis=0) * 1.06
        assert np.sqrt(np.mean((mean - own) ** 2)) < 0.1 * own.mean()
    assert found.mask.tolist() == [True, True, False, True]
    assert np.allclose(found.counts(MEMBERS).mean[:, -1], [400, 200], rtol=0.05)
    assert np.allclose(found.counts("car=yes").mean[:, -1], [80, 40], rtol=0.2)
    assert found.guarantee.epsilon == 50.0


def test_costs_accrue_to_the_whole_budget() -> None:
    """The charges of every period add up to the stated share; all periods to the grant."""
    own = design(properties=())
    found = released(own, (0, 2, 7))
    assert sum(spend.rho_units for spend in found.spends) == own.accrued_units(7)
    assert own.accrued_units(7) == Budget(own.guarantee).rho_units
    first = sum(spend.rho_units for spend in found.periods[0].spends)
    assert first == own.accrued_units(0) < Fraction(1, 2) * own.accrued_units(7)
    assert set(own.rho_units) == {"first", "lengths", LOAD, MEMBERS}


def test_one_group_of_all_customers() -> None:
    """Without levels every customer is in one group."""
    found = released(design(levels={}, properties=()), (0,))
    assert found.periods[0].sums.shape == (1, 24)
    assert abs(found.counts(MEMBERS).mean[0, 0] - CUSTOMERS) < 30


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"horizon": 1}, "horizon"),
        ({"horizon": 241}, "horizon"),
        ({"levels": {"a": ("x",), "b": ("y",)}}, "levels"),
        ({"properties": (("car", "yes"), ("car", "yes"))}, "properties"),
        ({"properties": tuple(("car", str(value)) for value in range(6))}, "properties"),
    ],
)
def test_bad_designs_are_refused(changed: dict[str, Any], field: str) -> None:
    """Field and rule are named."""
    with pytest.raises(InvalidParameterError, match=f"^{field} must be"):
        design(**changed)


def test_bad_periods_are_refused() -> None:
    """Missing attributes, another width, a period that was released before."""
    own = ReleasedSeries(design=design())
    state = MemoryState(names_key=bytes(32))
    with pytest.raises(InvalidParameterError, match="attributes must be those"):
        release_load_period(LOADS, groups={}, customer_ids=IDS, past=own, period=0, state=state)
    with pytest.raises(InvalidParameterError, match="series must be one with at least one"):
        own.means()
    own = add(own, state, 1, LOADS)
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 24 columns"):
        add(own, state, 2, LOADS[:, :12])
    with pytest.raises(InvalidParameterError, match="period must be after"):
        add(dataclasses.replace(own, periods=(*own.periods,)), state, 1, LOADS)
