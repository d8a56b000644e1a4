"""Population of simulated customers, and their load in blocks of a fixed number of customers.

Homes follow their residents and the weather; shops, offices, restaurants and industry follow
opening hours, weather, machines and noise. A block is drawn from its own random stream, so a
customer is the same whatever the number of customers, batches, or the order of blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from wattveil.simulate import parameters
from wattveil.simulate.appliances import (
    Events,
    Household,
    charge_cars,
    cool,
    cycle,
    heat_by_day,
    heat_by_night,
    panels_w,
    use_appliances,
)
from wattveil.simulate.homes import Homes, draw_absent, draw_homes, simulate_active
from wattveil.simulate.parameters import BUSINESSES, Business
from wattveil.simulate.weather import (
    SLOTS_PER_DAY,
    SLOTS_PER_HOUR,
    WAKE_SLOT,
    Clock,
    Weather,
    behavioural_to_utc,
)

_HELD_SLOTS = 12  # screens and lamps keep their level for some hours


def residential_w(
    homes: Homes, clock: Clock, weather: Weather, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the net load of some homes; negative where panels generate more than is used."""
    absent = draw_absent(homes, clock, rng)
    active = simulate_active(homes, clock, absent, rng)
    coldness = np.clip((15.0 - weather.daily_temperature_c) / 10.0, 0.0, 2.0)
    indoors = 1.0 - parameters.SUMMER_LESS * (1.0 - coldness)  # less use indoors in summer
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
    """Draw the activity of each home on each day: an autoregressive factor and random events."""
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
    """Return the base load, with occasional permanent changes."""
    changes = rng.random(absent.shape) < parameters.BASE_CHANGES_PER_YEAR / 365.0
    level = np.cumsum(changes * rng.normal(0.0, parameters.BASE_CHANGE_SD, absent.shape), axis=1)
    level += rng.normal(0.0, parameters.BASE_DAY_SD, absent.shape)
    level -= 0.5 * absent  # unplugged before a journey
    return np.repeat(homes.base_w[:, None] * np.exp(level), SLOTS_PER_DAY, axis=1)


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
        wander = np.exp(0.08 * rng.standard_normal((rows.size, active.shape[1] // SLOTS_PER_DAY)))
        speed = np.repeat(15.0 / minutes * wander, SLOTS_PER_DAY, axis=1)
        speed *= warmth
        speed *= 1.0 + np.float32(0.12) * active[rows]
        load[rows] += watts * cycle(speed, duty, rng.random(column))
    return load


def _media_and_lamps(
    household: Household, weather: Weather, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the load of screens while residents are awake, and of lamps when it is dark."""
    homes, slots = household.active.shape
    stretches = SLOTS_PER_DAY // _HELD_SLOTS
    taste = np.exp(rng.normal(0.0, parameters.TASTE_SD, (2, homes, 1, 1)))
    habit = rng.gamma(3.0, 1.0 / 3.0, (2, homes, 1, stretches))  # the same programme every evening
    mood = rng.gamma(8.0, 0.125, (2, homes, slots // SLOTS_PER_DAY, stretches))
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


_HOURS = (np.arange(SLOTS_PER_DAY) + WAKE_SLOT) / SLOTS_PER_HOUR  # 4 to 28
_CLOSED_DAYS = 0.01
_MILD_C = 16.0
_NOISE_MEMORY = 0.7  # of the quarter-hourly noise
_SHIFTS = (10.5, 16.0, 24.0)  # hours per day that a factory works with one, two or three shifts
_SHIFT_SHARES = (0.4, 0.3, 0.3)


def business_w(
    kind: str, count: int, clock: Clock, weather: Weather, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the load of some firms of one kind, in watts on the behavioural grid."""
    business = BUSINESSES[kind]
    column = (count, 1)
    days = clock.behaviour_days
    firm = _firms(business, count, rng, shifts=kind == "industrial")
    watts = 1000.0 * business.mean_kw * np.exp(business.sd * rng.standard_normal(column))
    night = np.clip(business.night * np.exp(0.3 * rng.standard_normal(column)), 0.03, 0.9)

    working = _working_days(firm, clock, rng)
    by_day = np.zeros((count, days, SLOTS_PER_DAY))
    late = rng.normal(0.0, 0.15, (count, days, 1))
    by_day += _between(firm.opens[:, :, None] + late, firm.closes[:, :, None] + late)
    for hour, width, height in business.humps:
        by_day *= 1.0 + height * np.exp(-0.5 * ((_HOURS - hour) / width) ** 2)
    by_day *= (working * np.exp(rng.normal(0.0, 0.07, (count, days))))[:, :, None]
    level = by_day.reshape(count, -1)

    away = np.abs(weather.temperature_c - _MILD_C) * business.weather_kw_per_k
    level *= 1.0 + away * rng.uniform(0.0, 2.0, column)
    level *= 1.0 + _machines(level.shape, rng)
    load = watts * (night + (1.0 - night) * level)

    minutes = rng.uniform(35.0, 90.0, column)
    on = cycle(
        np.broadcast_to(15.0 / minutes, load.shape), np.full(column, 0.5), rng.random(column)
    )
    load *= 1.0 + business.cold_rooms * (2.0 * on - 1.0) * np.where(level > night, 0.6, 1.0)
    load *= np.maximum(1.0 + _noise(load.shape, rng), 0.1)
    return load


@dataclass(frozen=True, kw_only=True)
class _Firms:
    """Opening hours and days of some firms, columns."""

    opens: NDArray[np.float64]
    closes: NDArray[np.float64]
    days: NDArray[np.float64]  # a week


def _firms(business: Business, count: int, rng: np.random.Generator, *, shifts: bool) -> _Firms:
    """Draw the hours that each firm keeps."""
    column = (count, 1)
    opens = business.opens + rng.normal(0.0, 0.7, column)
    closes = business.closes + rng.normal(0.0, 0.9, column)
    days = np.clip(business.days + rng.normal(0.0, 0.6, column), 4.5, 7.0)
    if shifts:
        hours = rng.choice(_SHIFTS, size=column, p=_SHIFT_SHARES)
        closes = np.where(hours < _SHIFTS[-1], opens + hours, 40.0)
        opens = np.where(hours < _SHIFTS[-1], opens, -10.0)
        days = np.where(hours < _SHIFTS[-1], days, 7.0)
    return _Firms(opens=opens, closes=closes, days=days)


def _working_days(firm: _Firms, clock: Clock, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return how much of a working day each day is: Saturday gives way after Sunday."""
    share = np.clip(firm.days - clock.weekday, 0.0, 1.0)
    share = np.where(clock.holiday, 0.25 * share, share)
    # A closed day now and then: stocktaking, a breakdown.
    return share * np.where(rng.random(share.shape) < _CLOSED_DAYS, 0.1, 1.0)


def _between(opens: NDArray[np.float64], closes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rise at opening and fall at closing, each within half an hour; past 04:00 it goes on."""
    rise = 1.0 / (1.0 + np.exp(np.clip((opens - _HOURS) / 0.25, -50.0, 50.0)))
    fall = 1.0 / (1.0 + np.exp(np.clip((_HOURS - closes) / 0.3, -50.0, 50.0)))
    return rise * fall


def _machines(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a big machine or two going on and off for hours: steps around zero."""
    count, slots = shape
    held = 5  # slots between decisions, on average the length of a batch
    steps = -(-slots // held)
    depth = rng.uniform(0.02, 0.15, (count, 1))
    on = np.repeat(rng.integers(0, 2, (count, steps)), held, axis=1)[:, :slots]
    return depth * (2.0 * on - 1.0)


def _noise(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return autoregressive noise around zero."""
    steps = rng.standard_normal(shape) * rng.uniform(0.015, 0.06, (shape[0], 1))
    noise: NDArray[np.float64] = lfilter([1.0], [1.0, -_NOISE_MEMORY], steps)
    return noise


BLOCK = 64

CLASSES = tuple(parameters.DEFAULT_MIX)
_CUSTOMERS_PER_FEEDER = 50
_FEEDERS_PER_ZIP = 6
_GOLDEN = (5.0**0.5 - 1.0) / 2.0
_WEATHER, _PEOPLE, _LOAD, _METER = range(4)  # random streams


@dataclass(frozen=True, kw_only=True)
class Customers:
    """Public attributes of one block of customers."""

    ids: NDArray[np.str_]
    classes: NDArray[np.str_]
    zips: NDArray[np.str_]
    feeders: NDArray[np.str_]
    has_pv: NDArray[np.bool_]
    has_ev: NDArray[np.bool_]


def weather_stream(seed: int) -> np.random.Generator:
    """Return the generator of the weather that all blocks share."""
    return np.random.default_rng([seed, _WEATHER])


def meter_stream(seed: int, block: int) -> np.random.Generator:
    """Return the generator of a block's missing and estimated reads."""
    return np.random.default_rng([seed, _METER, block])


def draw_customers(block: int, mix: Mapping[str, float], seed: int) -> Customers:
    """Draw the customers of one block.

    Classes follow a golden-ratio sequence, which keeps every stretch of customers close to the mix.
    """
    rng = np.random.default_rng([seed, _PEOPLE, block])
    number = np.arange(block * BLOCK, (block + 1) * BLOCK)
    start = np.random.default_rng([seed, _PEOPLE]).random()
    place = (start + number * _GOLDEN) % 1.0
    shares = np.cumsum(list(mix.values()))
    chosen = np.searchsorted(shares / shares[-1], place, side="right")
    classes = np.array(list(mix))[np.minimum(chosen, len(mix) - 1)]
    feeder = number // _CUSTOMERS_PER_FEEDER
    has_pv = classes == "pv"
    car_too = has_pv & (rng.random(BLOCK) < parameters.PV_HOMES_WITH_CAR)
    return Customers(
        ids=np.char.mod("C%07d", number),
        classes=classes,
        zips=np.char.mod("%05d", 1 + feeder // _FEEDERS_PER_ZIP),
        feeders=np.char.mod("F%05d", 1 + feeder),
        has_pv=has_pv,
        has_ev=(classes == "ev") | car_too,
    )


def simulate_block(
    block: int, customers: Customers, clock: Clock, weather: Weather, seed: int
) -> NDArray[np.float64]:
    """Return the energy of a block's customers in Wh per quarter hour of UTC."""
    load_w = np.empty((BLOCK, weather.cloud.size))
    firm = np.isin(customers.classes, list(parameters.BUSINESSES))
    for stream, kind in enumerate(parameters.BUSINESSES):
        rows = np.flatnonzero(customers.classes == kind)
        rng = np.random.default_rng([seed, _LOAD, block, stream])
        if rows.size:
            load_w[rows] = business_w(kind, rows.size, clock, weather, rng)
    if not firm.all():
        rng = np.random.default_rng([seed, _LOAD, block])
        homes = draw_homes(customers.classes[~firm], customers.has_ev[~firm], rng)
        load_w[~firm] = residential_w(homes, clock, weather, rng)
    return behavioural_to_utc(load_w, clock) / SLOTS_PER_HOUR
