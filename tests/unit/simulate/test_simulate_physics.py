"""Physical and statistical rules that simulated load obeys."""

from datetime import date
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.simulate import LONDON_MIX, SUNNY, TEMPERATE, Climate, simulate_kwh
from wattveil.simulate.appliances import Events, cycle, panels_w
from wattveil.simulate.population import weather_stream
from wattveil.simulate.weather import Clock, Weather, simulate_weather

USUAL: dict[str, Any] = {
    "customers": 64,
    "days": 28,
    "start": date(2025, 6, 2),
    "timezone": "Europe/London",
    "minutes": 60,
    "seed": 2,
}
CONSUMERS = {"family": 0.3, "electric_heating": 0.2, "ev": 0.1, "shop": 0.2, "industrial": 0.2}


def hourly(**changes: object) -> NDArray[np.float64]:
    """Return customers x days x hours."""
    arguments = USUAL | changes
    return simulate_kwh(**arguments).reshape(arguments["customers"], -1, 24)


def test_consumption_is_not_negative() -> None:
    """Without panels no reading is negative, at any resolution."""
    assert simulate_kwh(**(USUAL | {"minutes": 15}), mix=CONSUMERS).min() >= 0.0


def test_panels_export_by_day_only() -> None:
    """With panels some summer middays are negative, and no hour of the night is."""
    kwh = hourly(mix={"pv": 1.0})
    assert (kwh[:, :, 11:14] < 0.0).mean() > 0.3
    assert kwh[:, :, [22, 23, 0, 1, 2]].min() >= 0.0


def test_panels_give_nothing_at_night() -> None:
    """While the sun is down a roof generates nothing; over a year it gives 700 to 1,200 kWh/kW."""
    clock, sky = weather(days=365, start=date(2025, 1, 1))
    generated = panels_w(200, sky, np.random.default_rng(0))
    assert not generated[:, sky.sun_height <= 0.0].any()
    assert generated.min() >= 0.0
    kwh = generated.sum(axis=1) / 4000.0 * 365 / clock.behaviour_days
    assert 700 < np.median(kwh) / 3.5 < 1200


@pytest.mark.parametrize("minutes", [15, 30])
def test_resolutions_add_up(minutes: int) -> None:
    """Short readings add up to the hourly ones to the watt-hour, panels and factories included."""
    fine = simulate_kwh(**(USUAL | {"minutes": minutes}))
    coarse = simulate_kwh(**USUAL)
    summed = fine.reshape(*coarse.shape, -1).sum(axis=2)
    assert np.array_equal(np.rint(summed * 1000), np.rint(coarse * 1000))
    assert np.allclose(summed, coarse, rtol=0.0, atol=1e-9)


def test_readings_are_whole_watt_hours() -> None:
    """A meter counts whole watt-hours."""
    wh = simulate_kwh(**(USUAL | {"minutes": 15})) * 1000
    assert np.allclose(wh, np.rint(wh), rtol=0.0, atol=1e-6)


def test_homes_persist() -> None:
    """Homes differ from each other for good: a fifth of all variance or more, in both halves."""
    kwh = hourly(customers=128, mix=LONDON_MIX)
    share = kwh.mean(axis=(1, 2)).var() / kwh.var()
    assert 0.15 < share < 0.6
    halves = kwh[:, :14].mean(axis=(1, 2)), kwh[:, 14:].mean(axis=(1, 2))
    assert np.corrcoef(np.log(halves[0] + 0.01), np.log(halves[1] + 0.01))[0, 1] > 0.8


def test_days_repeat() -> None:
    """The same hour of the next day, and of the next week, resembles this one."""
    kwh = hourly(customers=128, mix=LONDON_MIX).reshape(128, -1)
    for lag, lowest in ((1, 0.4), (24, 0.2), (168, 0.2)):
        each = [np.corrcoef(row[:-lag], row[lag:])[0, 1] for row in kwh if row.std() > 0]
        assert np.median(each) > lowest


def test_groups_peak_lower() -> None:
    """A hundred homes together peak at less than half of what they do one by one."""
    kwh = hourly(customers=128, mix=LONDON_MIX).reshape(128, -1)
    assert kwh.mean(axis=0).max() < 0.5 * kwh.max(axis=1).mean()


def test_winter_takes_more_than_summer() -> None:
    """Homes use more in January than in July, electrically heated ones far more."""
    for mix, lowest in ((LONDON_MIX, 1.2), ({"electric_heating": 1.0}, 2.0)):
        january = hourly(mix=mix, start=date(2025, 1, 6)).mean()
        assert january / hourly(mix=mix, start=date(2025, 7, 7)).mean() > lowest


def test_seasons_turn_in_the_south() -> None:
    """South of the equator July is the winter and panels face the sun."""
    south = Climate(
        latitude_deg=-37.8,
        mean_c=15.0,
        yearly_swing_c=6.0,
        daily_swing_c=4.0,
        spell_sd_c=2.5,
        cloud_bias=0.0,
    )
    arguments = {"timezone": "Australia/Melbourne", "climate": south}
    january = hourly(start=date(2025, 1, 6), mix={"pv": 1.0}, **arguments)
    july = hourly(start=date(2025, 7, 7), mix={"pv": 1.0}, **arguments)
    assert january[:, :, 12].mean() < july[:, :, 12].mean()
    assert january[:, :, 12].mean() < 0.0


def test_offices_rest_on_sundays() -> None:
    """An office uses less than half as much on a Sunday noon as on a Wednesday noon."""
    kwh = hourly(mix={"office": 1.0}).reshape(64, 4, 7, 24)
    assert kwh[:, :, 6, 12].mean() < 0.5 * kwh[:, :, 2, 12].mean()


def test_cars_charge_in_the_evening_and_at_night() -> None:
    """Homes with a car use more than those without, most of it between 17 and 5 o'clock."""
    extra = hourly(mix={"ev": 1.0}).mean(axis=(0, 1)) - hourly(mix={"couple": 1.0}).mean(
        axis=(0, 1)
    )
    night = [17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4]
    assert 2.0 < extra.sum() < 15.0
    assert extra[night].sum() > 0.6 * extra.sum()


def test_very_large_customers_are_very_large() -> None:
    """The mean load of industry lies around 100 to 300 kW and spreads over decades."""
    mean_kw = hourly(customers=256, days=7, mix={"industrial": 1.0}).mean(axis=(1, 2))
    low, median, high = np.quantile(mean_kw, [0.05, 0.5, 0.95])
    assert 60 < median < 250
    assert high / low > 30


def test_hot_climates_cool() -> None:
    """Air conditioners run where summers are hot, and nowhere else."""
    assert weather(climate=SUNNY)[1].hot_summers
    assert not weather()[1].hot_summers
    july = USUAL | {"start": date(2025, 7, 7), "mix": {"family": 1.0}}
    hot, mild = hourly(**july, climate=SUNNY), hourly(**july)
    assert hot[:, :, 17].mean() > 1.2 * mild[:, :, 17].mean()


def test_weather_is_one_path() -> None:
    """A seed has one weather, drawn apart from the customers; cloud lies between 0 and 1."""
    first, second = weather()[1], weather()[1]
    assert np.array_equal(first.temperature_c, second.temperature_c)
    assert first.cloud.min() >= 0.0
    assert first.cloud.max() <= 1.0


def test_sun_culminates_at_noon_standard_time() -> None:
    """The sun stands highest within half an hour of 12 standard time, 13 summer time."""
    _, sky = weather(start=date(2025, 6, 2), days=7)
    highest = sky.sun_height[96:192].argmax() / 4 + 4  # the grid begins at 04:00
    assert abs(highest - 13.0) <= 0.5


def test_events_lay_energy_exactly() -> None:
    """An event of 2 kW from 1.5 to 3.25 slots gives half a slot, a full one and a quarter."""
    events = Events(1, 6)
    events.add(np.array([0]), np.array([1.5]), np.array([1.75]), np.array([2000.0]))
    assert np.allclose(events.watts(), [[0.0, 1000.0, 2000.0, 500.0, 0.0, 0.0]])


def test_events_end_with_the_grid() -> None:
    """An event that runs past the last slot is cut there."""
    events = Events(2, 4)
    events.add(np.array([1]), np.array([3.0]), np.array([9.0]), np.array([100.0]))
    assert np.allclose(events.watts(), [[0.0] * 4, [0.0, 0.0, 0.0, 100.0]])


@pytest.mark.parametrize("changing", [False, True])
def test_thermostats_keep_their_duty(changing: bool) -> None:  # noqa: FBT001
    """Over many cycles a thermostat is on for its duty, whether the duty may change or not."""
    shape = (3, 4000)
    duty = np.array([[0.1], [0.4], [0.9]])
    on = cycle(
        np.full(shape, 0.23), np.broadcast_to(duty, shape) if changing else duty, np.zeros((3, 1))
    )
    assert on.min() >= -1e-9
    assert on.max() <= 1.0 + 1e-9
    assert np.allclose(on.mean(axis=1), duty[:, 0], atol=2e-3)


def weather(
    days: int = 28, start: date = date(2025, 6, 2), climate: Climate = TEMPERATE
) -> tuple[Clock, Weather]:
    """Draw the weather of some London days."""
    clock = Clock(start=start, days=days, timezone="Europe/London")
    return clock, simulate_weather(clock, climate, weather_stream(1))
