"""Appliances and technologies of homes: events of any length, thermostats, heating, cars, solar.

Events are placed exactly on quarter hours.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate import parameters
from wattveil.simulate.homes import Homes
from wattveil.simulate.parameters import APPLIANCES, HABIT_SHARE, Appliance
from wattveil.simulate.weather import SLOTS_PER_DAY, SLOTS_PER_HOUR, Weather

_MINUTES_PER_SLOT = 15.0
_CRUMB_W = 1e-6
_DAY_BEGINS = 4.0  # the behavioural day
# Chores: hours after 04:00, and how readily one begins then what can wait.
_CHORES = ((0.0, 4.0, 9.0, 12.0, 18.0, 20.0, 24.0), (0.2, 1.0, 1.0, 0.6, 0.4, 0.1, 0.1))


@dataclass(frozen=True, kw_only=True)
class Household:
    """Occupancy and activity of some homes: determines how often appliances are used."""

    active: NDArray[np.float32]  # homes x slots, people up and at home
    use: NDArray[np.float64]  # homes x days, size times the mood of the day
    busy: NDArray[np.float64]  # homes, how much of their use is cooking, washing and the like
    rhythm_hours: NDArray[np.float64]
    free_day: NDArray[np.bool_]  # days
    coldness: NDArray[np.float64]  # days, 0 when mild


@dataclass(frozen=True)
class Events:
    """Rectangles of power in continuous time, collected until they are added to the grid.

    A rise of power by w at a moment inside slot k, a share f of it gone, adds w (1 - f) to slot k
    and w to every later one. As differences between slots this is w (1 - f) at k and w f at k + 1,
    so a rectangle is four numbers, whatever its length, and one running sum lays all of them.
    """

    homes: int
    slots: int
    _where: list[NDArray[np.intp]] = field(default_factory=list)
    _steps: list[NDArray[np.float64]] = field(default_factory=list)

    def add(
        self,
        home: NDArray[np.intp],
        slot: NDArray[np.float64],
        slots: NDArray[np.float64],
        watts: NDArray[np.float64],
    ) -> None:
        """Add ``watts`` from ``slot`` on for ``slots`` slots, fractions included."""
        end = np.minimum(slot + slots, self.slots)
        for moment, rise in ((slot, watts), (end, -watts)):
            whole = np.floor(moment)
            part = moment - whole
            at = home * (self.slots + 2) + whole.astype(np.intp)
            self._where.extend((at, at + 1))
            self._steps.extend((rise * (1.0 - part), rise * part))

    def watts(self) -> NDArray[np.float64]:
        """Return the mean power in every slot of every home."""
        row = self.slots + 2
        where, steps = np.concatenate(self._where), np.concatenate(self._steps)
        change = np.bincount(where, steps, minlength=self.homes * row).reshape(self.homes, row)
        # The running sum leaves crumbs of rounding where the power is back at zero.
        laid = np.cumsum(change, axis=1, dtype=np.float64)[:, : self.slots]
        return np.where(laid > _CRUMB_W, laid, 0.0)


def use_appliances(household: Household, events: Events, rng: np.random.Generator) -> None:
    """Draw every use of every appliance in the table."""
    homes, days = household.use.shape
    for appliance in APPLIANCES.values():
        owned = rng.random(homes) < appliance.owned
        habit = rng.gamma(1.0 / HABIT_SHARE, HABIT_SHARE, homes)
        watts = appliance.watts * np.exp(appliance.watts_sd * rng.standard_normal(homes))
        centre = appliance.hour_sd * rng.standard_normal((homes,))

        rate = appliance.uses * household.use * (owned * habit * household.busy)[:, None]
        rate = rate * np.where(household.free_day, appliance.free_day, 1.0)
        rate *= 1.0 - appliance.cold + appliance.cold * household.coldness
        home, slot = _moments(appliance, household, rate, centre, rng)

        length = appliance.minutes / _MINUTES_PER_SLOT
        slots = length * np.exp(appliance.minutes_sd * rng.standard_normal(home.size))
        events.add(home, slot, slots, watts[home])
        if appliance.tail_watts:
            tail = np.full(home.size, appliance.tail_minutes / _MINUTES_PER_SLOT)
            late = np.minimum(slot + slots, days * SLOTS_PER_DAY)
            events.add(home, late, tail, np.full(home.size, appliance.tail_watts))


def cycle(
    speed: NDArray[np.float64], duty: NDArray[np.float64], phase: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of every slot in which a thermostat is on.

    Parameters
    ----------
    speed
        Cycles per slot, homes x slots.
    duty
        Duty cycle; a column or one value per slot.
    phase
        Where in its cycle each home begins, a column.
    """
    end = phase + np.cumsum(speed, axis=1)
    on = _on_until(end, duty)
    if duty.shape[1] == 1:  # the duty never changes, so a slot begins where the last one ended
        on[:, 1:] -= on[:, :-1].copy()
        on[:, :1] -= _on_until(phase, duty)
    else:
        on -= _on_until(end - speed, duty)
    on /= speed
    return on


def _on_until(phase: NDArray[np.float64], duty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much of the time up to a phase was on, in cycles."""
    whole = np.floor(phase)
    part = phase - whole
    np.minimum(part, duty, out=part)
    whole *= duty
    whole += part
    return whole


def _moments(
    appliance: Appliance,
    household: Household,
    rate: NDArray[np.float64],
    centre: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Draw homes and moments of use, in slots, and keep those with an active resident."""
    homes, days = rate.shape
    if appliance.hour is None:
        cell = np.repeat(np.arange(homes * days), rng.poisson(24.0 * rate).ravel())
        hour = rng.uniform(0.0, 24.0, cell.size)
    else:
        # A habit happens or not; only the keenest homes do it twice a day.
        sure = np.floor(rate)
        often = (sure + (rng.random(rate.shape) < rate - sure)).astype(np.intp)
        cell = np.repeat(np.arange(homes * days), often.ravel())
        mean_hour = appliance.hour - _DAY_BEGINS + centre
        if not appliance.unattended:
            mean_hour = mean_hour + household.rhythm_hours
        hour = mean_hour[cell // days] + rng.normal(0.0, appliance.hour_jitter, cell.size)
    home, day = cell // days, cell % days
    slot = (day * 24.0 + hour % 24.0) * SLOTS_PER_HOUR
    if appliance.unattended:
        return home, slot
    up = household.active[home, slot.astype(np.intp)] > 0.0
    if appliance.daytime:
        up &= rng.random(home.size) < np.interp(hour % 24.0, *_CHORES)
    return home[up], slot[up]


_NIGHT_RATE_SLOT = 20.6 * SLOTS_PER_HOUR  # 00:36, counted from 04:00: cheap units after half past
_NIGHT_RATE_HOURS = 6.9
# Storage heaters of a home: share of the power, and how long each charges beside the average. The
# load falls in steps through the night, as one after the other is full.
_HEATERS = ((0.5, 0.6), (0.3, 1.1), (0.2, 1.85))
_AFTERNOON_SLOT = 10 * SLOTS_PER_HOUR  # 14:00: who comes home later than that may plug in
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
    slot = start[:, None] + np.arange(cold.size) * SLOTS_PER_DAY
    home = np.repeat(rows, cold.size)
    for share, longer in _HEATERS:
        hours = np.minimum(longer * need_w * 24.0 / watts[:, None], _NIGHT_RATE_HOURS)
        power = np.repeat(share * watts, cold.size)
        events.add(home, slot.ravel(), hours.ravel() * SLOTS_PER_HOUR, power)


def heat_by_day(
    homes: Homes, weather: Weather, active: NDArray[np.float32], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the load of panel heaters and of the gas boilers' pumps, one row per home."""
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
    up = active.reshape(homes.count, -1, SLOTS_PER_DAY)[rows, :, _AFTERNOON_SLOT:] > 0.0
    home, day = np.nonzero(
        up.any(axis=2) & (rng.random(up.shape[:2]) < parameters.CAR_CHARGES_PER_DAY)
    )
    comes = up[home, day, 1:] & ~up[home, day, :-1]
    last = comes.shape[1] - comes[:, ::-1].argmax(axis=1)
    # If a resident was at home all afternoon, the occupancy does not show the driver's return.
    unseen = rng.triangular(8.0, 16.0, 36.0, home.size)
    arrival = _AFTERNOON_SLOT + np.where(comes.any(axis=1), last, unseen)
    arrival += rng.uniform(0.0, 3.0, home.size)
    timer = rng.random(rows.size) < parameters.CAR_TIMER_SHARE
    slot = np.where(timer[home], _NIGHT_RATE_SLOT, arrival) + day * float(SLOTS_PER_DAY)
    driven = np.exp(rng.normal(0.0, 0.4, rows.size))
    kwh = parameters.CAR_KWH_PER_DAY / parameters.CAR_CHARGES_PER_DAY * driven[home]
    kwh = kwh * rng.gamma(3.0, 1.0 / 3.0, home.size)
    kw = rng.choice(parameters.CAR_KW, rows.size)[home]
    events.add(rows[home], slot, np.minimum(kwh / kw, 10.0) * SLOTS_PER_HOUR, kw * 1000.0)


def panels_w(count: int, weather: Weather, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the generation of rooftop panels in watts: 0 while the sun is down."""
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
