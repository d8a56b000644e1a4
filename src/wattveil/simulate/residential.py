"""The load of homes, in watts on the behavioural grid."""

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from wattveil.simulate import parameters
from wattveil.simulate.appliances import Events, Household, cycle, use_appliances
from wattveil.simulate.clock import SLOTS_A_DAY, Clock
from wattveil.simulate.homes import Homes
from wattveil.simulate.occupancy import draw_absent, simulate_active
from wattveil.simulate.technologies import charge_cars, cool, heat_by_day, heat_by_night, panels_w
from wattveil.simulate.weather import Weather

_HELD_SLOTS = 12  # screens and lamps keep their level for some hours


def residential_w(
    homes: Homes, clock: Clock, weather: Weather, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the net load of some homes; it is negative where panels give more than is used."""
    absent = draw_absent(homes, clock, rng)
    active = simulate_active(homes, clock, absent, rng)
    coldness = np.clip((15.0 - weather.daily_temperature_c) / 10.0, 0.0, 2.0)
    indoors = 1.0 - parameters.SUMMER_LESS * (1.0 - coldness)  # in summer life moves out of doors
    household = Household(
        active=active,
        use=homes.size[:, None] * indoors * _moods(homes.count, clock, rng),
        busy=homes.busy,
        rhythm_hours=homes.rhythm_hours,
        free_day=clock.free_day,
        coldness=coldness,
    )
    events = Events(homes.count, active.shape[1])
    use_appliances(household, events, rng)
    charge_cars(homes, active, events, rng)
    heat_by_night(homes, weather, events, rng)

    load = events.watts()
    load += _always_on(homes, absent, rng)
    load += _cold_appliances(homes, weather, active, rng)
    load += _media_and_lamps(household, weather, rng)
    load += heat_by_day(homes, weather, active, rng)
    load += cool(homes, weather, active, rng)
    load[homes.has_pv] -= panels_w(int(homes.has_pv.sum()), weather, rng)
    return load


def _moods(count: int, clock: Clock, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw how busy each home is on each day: moods that last days, and circumstances."""
    days = clock.behaviour_days
    level = rng.normal(0.0, parameters.WEEKLY_SD, (count, 7))[:, clock.weekday]  # washing day
    for sd, memory in parameters.MOODS:
        steps = sd * rng.standard_normal((count, days))
        steps[:, 1:] *= np.sqrt(1.0 - memory**2)
        level += lfilter([1.0], [1.0, -memory], steps)
    return np.exp(level)


def _always_on(
    homes: Homes, absent: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return what is never switched off; now and then something is bought or unplugged."""
    changes = rng.random(absent.shape) < parameters.BASE_CHANGES_A_YEAR / 365.0
    level = np.cumsum(changes * rng.normal(0.0, parameters.BASE_CHANGE_SD, absent.shape), axis=1)
    level += rng.normal(0.0, parameters.BASE_DAY_SD, absent.shape)
    level -= 0.5 * absent  # unplugged before a journey
    return np.repeat(homes.base_w[:, None] * np.exp(level), SLOTS_A_DAY, axis=1)


def _cold_appliances(
    homes: Homes, weather: Weather, active: NDArray[np.float32], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return refrigerators and freezers: faster in warm kitchens and while doors are opened."""
    load = np.zeros(active.shape)
    warmth = 1.0 + 0.012 * (weather.temperature_c - 11.0)
    for share in (1.0, parameters.FREEZER_SHARE):
        rows = np.flatnonzero((rng.random(homes.count) < share) & ~homes.empty)
        column = (rows.size, 1)
        minutes = parameters.FRIDGE_MINUTES * np.exp(0.45 * rng.standard_normal(column))
        duty = np.clip(parameters.FRIDGE_DUTY * np.exp(0.3 * rng.standard_normal(column)), 0.1, 0.9)
        watts = parameters.FRIDGE_W * np.exp(0.3 * rng.standard_normal(column))
        wander = np.exp(0.08 * rng.standard_normal((rows.size, active.shape[1] // SLOTS_A_DAY)))
        speed = np.repeat(15.0 / minutes * wander, SLOTS_A_DAY, axis=1)
        speed *= warmth
        speed *= 1.0 + np.float32(0.12) * active[rows]
        load[rows] += watts * cycle(speed, duty, rng.random(column))
    return load


def _media_and_lamps(
    household: Household, weather: Weather, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return what people keep on while they are up: screens, and lamps when it is dark."""
    homes, slots = household.active.shape
    stretches = SLOTS_A_DAY // _HELD_SLOTS
    taste = np.exp(rng.normal(0.0, parameters.TASTE_SD, (2, homes, 1, 1)))
    habit = rng.gamma(3.0, 1.0 / 3.0, (2, homes, 1, stretches))  # the same programme every evening
    mood = rng.gamma(8.0, 0.125, (2, homes, slots // SLOTS_A_DAY, stretches))
    mood *= household.use[:, :, None]
    screens, lamps = (taste * habit * mood).reshape(2, homes, -1)
    shift = rng.integers(0, _HELD_SLOTS, (homes,))
    load = _held(screens, shift) * parameters.MEDIA_W
    lit = _held(lamps, shift) * parameters.LIGHTING_W
    lit *= 0.12 + 0.88 * weather.darkness  # some rooms have no window
    load += lit
    load *= np.sqrt(household.active)  # two in one room share its lamp and its screen
    return load


def _held(levels: NDArray[np.float64], shift: NDArray[np.int64]) -> NDArray[np.float64]:
    """Hold each level for some hours; homes change it at different times of the clock."""
    held = np.repeat(levels, _HELD_SLOTS, axis=1)
    for row, slots in enumerate(shift):
        held[row, slots:] = held[row, : held.shape[1] - slots].copy()
    return held
