"""Shops, offices, restaurants and industry: opening hours, humps, weather, machines and noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from wattveil.simulate.appliances import cycle
from wattveil.simulate.clock import SLOTS_A_DAY, SLOTS_AN_HOUR, WAKE_SLOT, Clock
from wattveil.simulate.parameters import BUSINESSES, Business
from wattveil.simulate.weather import Weather

_HOURS = (np.arange(SLOTS_A_DAY) + WAKE_SLOT) / SLOTS_AN_HOUR  # 4 to 28
_CLOSED_DAYS = 0.01
_MILD_C = 16.0
_NOISE_MEMORY = 0.7  # of the quarter-hourly noise
_SHIFTS = (10.5, 16.0, 24.0)  # hours a day that a factory works with one, two or three shifts
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
    by_day = np.zeros((count, days, SLOTS_A_DAY))
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
