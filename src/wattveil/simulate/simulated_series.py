"""Simulated homes over years: monthly mean days, adoption of technologies, joins and leavers.

`simulate_home_months` runs the simulator over whole years without a break, so a home keeps its size
and habits while moods, absences and weather go on. Panels, a car and a heat pump of each home are
kept apart. `simulate_series` draws customers from such homes, gives some of them the technologies
at some month, applies a drift of efficiency, lets customers join and leave, and averages months to
periods. With ``trend=False`` each home's years are in a random order of their own: seasons stay,
trends are chance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.arrays import Bools, Floats, Ints
from wattveil.simulate import parameters
from wattveil.simulate.appliances import panels_w
from wattveil.simulate.parameters import LONDON_MIX, TEMPERATE
from wattveil.simulate.population import BLOCK, draw_customers, simulate_block, weather_stream
from wattveil.simulate.weather import (
    SLOTS_PER_HOUR,
    Clock,
    Weather,
    behavioural_to_utc,
    simulate_weather,
)

_TECHNOLOGIES = 99  # random stream
_HOURS = 24
_MONTHS = 12
_TIMER_SHARE, _TIMER, _EVENING = 0.35, (2.5, 1.8), (19.5, 2.0)
"""Share of cars that wait for the night; hour and width in hours of both ways of charging."""
_CAR_SD, _CAR_MONTH_SD = 0.4, 0.15
_HEAT_W_PER_K, _HEAT_SD, _HEAT_BASE_C = 45.0, 0.35, 16.0
"""Electricity of a heat pump per kelvin below the base temperature, at a performance of 3.3."""
_TWIN_SD = 0.12
"""Log standard deviation of the size of customers that share a simulated home."""

CHURN = 0.02
"""Share of the customers that leave per quarter, and as many join."""
EFFICIENCY = -0.01
"""Relative change of the load of a home per quarter."""
_CARS, _PANELS, _HEAT_PUMPS = (0.012, 0.14), (0.02, 0.09), (0.0, 0.08)
"""Shares of homes that have the technology before the first month and by the last one."""

Months = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class HomeMonths:
    """Mean day of each home and month in kW, with its possible technologies apart."""

    load_kw: Months
    """(homes, months, 24)"""
    panels_kw: Months
    """Negative: generation."""
    car_kw: Months
    heat_pump_kw: Months
    classes: NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedSeries:
    """Simulated customers over periods."""

    load_kw: Floats
    """(customers, periods, 24): mean day of the period; NaN where the customer is absent."""
    groups: Ints
    """(customers,): place of the class in ``levels``."""
    levels: tuple[str, ...]
    has_car: Bools
    """(customers, periods)"""
    periods_per_year: int


def simulate_home_months(
    *,
    customers: int,
    years: int = 5,
    first_year: int = 2020,
    mix: Mapping[str, float] = LONDON_MIX,
    seed: int,
) -> HomeMonths:
    """Return the mean day of each month of simulated homes; a home takes 0.1 s of CPU per 5 years.

    Parameters
    ----------
    customers
        Number of homes.
    years, first_year
        Calendar years that are simulated, in UTC.
    mix
        Share of each class.
    seed
        Of the homes and their weather.
    """
    checks.integer("customers", customers, minimum=1)
    checks.integer("years", years, minimum=1, maximum=20)
    start = date(first_year, 1, 1)
    days = (date(first_year + years, 1, 1) - start).days
    clock = Clock(start=start, days=days, timezone="UTC")
    weather = simulate_weather(clock, TEMPERATE, weather_stream(seed))
    stamps = np.datetime64(start) + np.arange(days)
    months = (stamps.astype("datetime64[M]") - np.datetime64(start, "M")).astype(np.int64)
    cold = np.maximum(_HEAT_BASE_C - weather.temperature_c, 0.0)[None]
    coldness = _monthly(behavioural_to_utc(cold, clock) / SLOTS_PER_HOUR, months)
    parts = []
    for block in range(-(-customers // BLOCK)):
        people = draw_customers(block, mix, seed)
        rng = np.random.default_rng([seed, _TECHNOLOGIES, block])
        load = _monthly(simulate_block(block, people, clock, weather, seed), months)
        parts.append((load, *_technologies(rng, clock, weather, months, coldness)))
    joined = [np.concatenate(part)[:customers] for part in zip(*parts, strict=True)]
    classes = [draw_customers(block, mix, seed).classes for block in range(len(parts))]
    return HomeMonths(
        load_kw=joined[0],
        panels_kw=joined[1],
        car_kw=joined[2],
        heat_pump_kw=joined[3],
        classes=np.concatenate(classes)[:customers],
    )


def _monthly(energy_wh: Floats, months: Ints) -> Months:
    """Return the mean day of each month in kW (homes, months, 24) of quarter-hourly Wh in UTC."""
    hours = energy_wh.reshape(len(energy_wh), -1, SLOTS_PER_HOUR).sum(axis=2) / 1000.0
    days = hours[:, : months.size * _HOURS].reshape(len(hours), months.size, _HOURS)
    first = np.searchsorted(months, np.arange(months[-1] + 1))
    means = np.add.reduceat(days, first, axis=1) / np.bincount(months)[:, None]
    return means.astype(np.float32)


def _technologies(
    rng: np.random.Generator, clock: Clock, weather: Weather, months: Ints, coldness: Months
) -> tuple[Months, Months, Months]:
    """Return panels, car and heat pump of each home of a block, as if it had them."""
    sun = behavioural_to_utc(panels_w(BLOCK, weather, rng), clock) / SLOTS_PER_HOUR
    timer = rng.random(BLOCK) < _TIMER_SHARE
    hour, width = np.where(timer[:, None], _TIMER, _EVENING).T[:, :, None]
    apart = np.abs(np.arange(_HOURS) + 0.5 - hour)
    shape = np.exp(-0.5 * np.square(np.minimum(apart, _HOURS - apart) / width))
    shape /= shape.sum(axis=1, keepdims=True)
    kwh = parameters.CAR_KWH_PER_DAY * np.exp(rng.normal(0.0, _CAR_SD, (BLOCK, 1)))
    kwh = kwh * np.exp(rng.normal(0.0, _CAR_MONTH_SD, (BLOCK, coldness.shape[1])))
    car = kwh[:, :, None] * shape[:, None]
    heat = _HEAT_W_PER_K * np.exp(rng.normal(0.0, _HEAT_SD, BLOCK))[:, None, None] * coldness
    return -_monthly(sun, months), car.astype(np.float32), heat.astype(np.float32)


def simulate_series(
    homes: HomeMonths,
    *,
    customers: int,
    months_per_period: int = 3,
    churn: float = CHURN,
    trend: bool = True,
    seed: int,
) -> SimulatedSeries:
    """Return customers over periods, drawn from simulated homes.

    Where there are more customers than homes, several share a home at sizes and hours of their own.

    Parameters
    ----------
    homes
        From `simulate_home_months`.
    customers
        Number at any time; those who leave are replaced.
    months_per_period
        1 for months, 3 for quarters, 12 for years.
    churn
        Share of the customers that leaves per quarter.
    trend
        Whether efficiency changes and technologies are adopted.
    seed
        Of the draw, of adoption, joins and leavers.
    """
    rng = np.random.default_rng([seed, customers, months_per_period])
    n_homes, n_months = homes.load_kw.shape[:2]
    periods = n_months // months_per_period
    leaving = churn * months_per_period / 3.0
    joining = int(leaving * customers)
    total = customers + joining * (periods - 1)
    source = np.resize(rng.permutation(n_homes), total)
    load = homes.load_kw[source].astype(np.float64)
    shift = rng.integers(-1, 2, total) * (np.arange(total) >= n_homes)
    for hours in (-1, 1):
        load[shift == hours] = np.roll(load[shift == hours], hours, axis=2)
    load *= np.exp(rng.normal(0.0, _TWIN_SD, total))[:, None, None]
    month = np.arange(n_months)
    has_car = np.zeros((total, n_months), dtype=np.bool_)
    if trend:
        load *= ((1.0 + EFFICIENCY) ** (month / 3.0))[:, None]
        chance = rng.random((3, total))
        late = np.sqrt(rng.random(total)), rng.random(total), rng.random(total)
        heated = homes.classes[source] == "electric_heating"
        for number, (shares, kw) in enumerate(
            [
                (_CARS, homes.car_kw),
                (_PANELS, homes.panels_kw),
                (_HEAT_PUMPS, homes.heat_pump_kw),
            ]
        ):
            before, by_end = shares
            begins = np.where(chance[number] < before, -1.0, n_months * late[number])
            has = (chance[number] < by_end)[:, None] & (month >= begins[:, None])
            has &= ~heated[:, None] if kw is homes.heat_pump_kw else True
            load += kw[source] * has[:, :, None]
            has_car = has if kw is homes.car_kw else has_car
    else:
        years = load.reshape(total, -1, _MONTHS, _HOURS)
        order = np.argsort(rng.random(years.shape[:2]), axis=1)
        load = np.take_along_axis(years, order[:, :, None, None], axis=1).reshape(load.shape)
    used = slice(0, periods * months_per_period)
    by_period = load[:, used].reshape(total, periods, months_per_period, _HOURS).mean(axis=2)
    here = _present(customers, joining, periods, leaving, rng)
    by_period[~here] = np.nan
    levels = tuple(np.unique(homes.classes).tolist())
    return SimulatedSeries(
        load_kw=by_period,
        groups=np.searchsorted(levels, homes.classes[source]).astype(np.int64),
        levels=levels,
        has_car=has_car[:, used][:, months_per_period // 2 :: months_per_period] & here,
        periods_per_year=_MONTHS // months_per_period,
    )


def _present(
    customers: int, joining: int, periods: int, leaving: float, rng: np.random.Generator
) -> Bools:
    """Return who is a customer in which period: (customers and joiners, periods)."""
    here = np.zeros((customers + joining * (periods - 1), periods), dtype=np.bool_)
    here[:customers, 0] = True
    for period in range(1, periods):
        stays = rng.random(len(here)) >= leaving
        here[:, period] = here[:, period - 1] & stays
        first = customers + joining * (period - 1)
        here[first : first + joining, period] = True
    return here
