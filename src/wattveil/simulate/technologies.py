"""Electric heating, air conditioning, cars and solar panels."""

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate import parameters
from wattveil.simulate.appliances import Events, cycle
from wattveil.simulate.clock import SLOTS_A_DAY, SLOTS_AN_HOUR
from wattveil.simulate.homes import Homes
from wattveil.simulate.weather import Weather

_NIGHT_RATE_SLOT = 20.6 * SLOTS_AN_HOUR  # 00:36, counted from 04:00: cheap units after half past
_NIGHT_RATE_HOURS = 6.9
# Storage heaters of a home: share of the power, and how long each charges beside the average. The
# load falls in steps through the night, as one after the other is full.
_HEATERS = ((0.5, 0.6), (0.3, 1.1), (0.2, 1.85))
_AFTERNOON_SLOT = 10 * SLOTS_AN_HOUR  # 14:00: who comes home later than that may plug in
_DESIGN_COLD_K = 18.0  # heaters are chosen for this many kelvin below comfort
_HEATER_MINUTES = 22.0  # from start to start of a thermostat
_COOLER_W = 3000.0
_SETBACK = 0.35  # share of the heat that is left on for an empty or sleeping home


def heat_by_night(homes: Homes, weather: Weather, events: Events, rng: np.random.Generator) -> None:
    """Charge storage heaters on cheap night units: the colder the day, the longer."""
    rows = np.flatnonzero(homes.stores_heat)
    cold = np.maximum(parameters.COMFORT_C - weather.daily_temperature_c, 0.0)
    need_w = homes.heat_w_per_k[rows][:, None] * cold * np.exp(rng.normal(0.0, 0.1, cold.size))
    watts = homes.heat_w_per_k[rows] * _DESIGN_COLD_K * 24.0 / _NIGHT_RATE_HOURS
    start = _NIGHT_RATE_SLOT + rng.uniform(-1.0, 2.0, rows.size)  # each meter has its own minute
    slot = start[:, None] + np.arange(cold.size) * SLOTS_A_DAY
    home = np.repeat(rows, cold.size)
    for share, longer in _HEATERS:
        hours = np.minimum(longer * need_w * 24.0 / watts[:, None], _NIGHT_RATE_HOURS)
        power = np.repeat(share * watts, cold.size)
        events.add(home, slot.ravel(), hours.ravel() * SLOTS_AN_HOUR, power)


def heat_by_day(
    homes: Homes, weather: Weather, active: NDArray[np.float32], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the load of panel heaters and of the gas boilers' pumps, one row a home."""
    direct = homes.electric_heating & ~homes.stores_heat
    watts = np.where(direct, homes.heat_w_per_k * _DESIGN_COLD_K, homes.pump_w)[:, None]
    cold = np.maximum(parameters.COMFORT_C - weather.temperature_c, 0.0)
    duty = np.clip(cold / _DESIGN_COLD_K, 0.0, 1.0) * homes.thrift[:, None]
    duty = duty * np.where(active > 0.0, 1.0, np.where(direct, _SETBACK, 0.0)[:, None])
    minutes = _HEATER_MINUTES * np.exp(0.3 * rng.standard_normal((homes.count, 1)))
    speed = np.broadcast_to(15.0 / minutes, active.shape)
    return watts * cycle(speed, np.clip(duty, 0.0, 1.0), rng.random((homes.count, 1)))


def cool(
    homes: Homes, weather: Weather, active: NDArray[np.float32], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the load of air conditioners; none where it never gets hot enough to buy one."""
    owned = rng.random((homes.count, 1)) < parameters.COOL_SHARE
    phase = rng.random((homes.count, 1))
    warm = np.maximum(weather.temperature_c - parameters.COOL_ABOVE_C, 0.0)
    if not weather.hot_summers:
        return np.zeros(active.shape)
    duty = warm * parameters.COOL_W_PER_K / _COOLER_W * np.where(active > 0.0, 1.0, _SETBACK)
    speed = np.full(active.shape, 15.0 / _HEATER_MINUTES)
    return _COOLER_W * owned * cycle(speed, np.clip(duty, 0.0, 1.0), phase)


def charge_cars(
    homes: Homes, active: NDArray[np.float32], events: Events, rng: np.random.Generator
) -> None:
    """Plug cars in after the last homecoming of the day, or leave them to a timer at night."""
    rows = np.flatnonzero(homes.has_ev)
    up = active.reshape(homes.count, -1, SLOTS_A_DAY)[rows, :, _AFTERNOON_SLOT:] > 0.0
    home, day = np.nonzero(
        up.any(axis=2) & (rng.random(up.shape[:2]) < parameters.CAR_CHARGES_A_DAY)
    )
    comes = up[home, day, 1:] & ~up[home, day, :-1]
    last = comes.shape[1] - comes[:, ::-1].argmax(axis=1)
    # Where somebody was at home all afternoon the driver's return does not show.
    unseen = rng.triangular(8.0, 16.0, 36.0, home.size)
    arrival = _AFTERNOON_SLOT + np.where(comes.any(axis=1), last, unseen)
    arrival += rng.uniform(0.0, 3.0, home.size)
    timer = rng.random(rows.size) < parameters.CAR_TIMER_SHARE
    slot = np.where(timer[home], _NIGHT_RATE_SLOT, arrival) + day * float(SLOTS_A_DAY)
    driven = np.exp(rng.normal(0.0, 0.4, rows.size))
    kwh = parameters.CAR_KWH_A_DAY / parameters.CAR_CHARGES_A_DAY * driven[home]
    kwh = kwh * rng.gamma(3.0, 1.0 / 3.0, home.size)
    kw = rng.choice(parameters.CAR_KW, rows.size)[home]
    events.add(rows[home], slot, np.minimum(kwh / kw, 10.0) * SLOTS_AN_HOUR, kw * 1000.0)


def panels_w(count: int, weather: Weather, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return what so many roofs generate, in watts: nothing while the sun is down."""
    column = (count, 1)
    watts = 1000.0 * parameters.PANEL_KW * np.exp(parameters.PANEL_SD * rng.standard_normal(column))
    tilt = np.deg2rad(rng.normal(33.0, 7.0, column))
    turn = np.deg2rad(rng.normal(0.0, 45.0, column))  # from due south
    side = np.where(weather.southern, -1.0, 1.0)
    height = np.maximum(weather.sun_height, 0.0)
    facing = np.cos(tilt) * height + np.sin(tilt) * (
        np.cos(turn) * weather.sun_south * side + np.sin(turn) * weather.sun_east
    )
    patchy = rng.normal(0.0, 0.06, (count, height.size))  # no two roofs lie under the same cloud
    cloud = np.clip(weather.cloud + patchy, 0.0, 1.0)
    air = np.exp(-0.14 / np.maximum(height, 0.02))  # what a clear sky lets through
    beam = air * (1.0 - cloud) ** 1.3 * np.maximum(facing, 0.0)
    diffuse = (0.10 + 0.22 * cloud) * np.sqrt(height) * np.sqrt(air)
    generated = np.minimum(parameters.PANEL_YIELD * (beam + diffuse), 0.92)  # inverter limit
    return watts * generated * (height > 0.0)
