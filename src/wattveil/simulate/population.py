"""Who the customers are, and their load in blocks of a fixed number of customers.

A block is drawn from its own random stream, so a customer is the same whatever the number of
customers, the size of the batches or the order in which blocks are made.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate import parameters
from wattveil.simulate.business import business_w
from wattveil.simulate.clock import SLOTS_AN_HOUR, Clock, behavioural_to_utc
from wattveil.simulate.homes import draw_homes
from wattveil.simulate.residential import residential_w
from wattveil.simulate.weather import Weather

BLOCK = 64

CLASSES = tuple(parameters.DEFAULT_MIX)
_CUSTOMERS_A_FEEDER = 50
_FEEDERS_A_ZIP = 6
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
    feeder = number // _CUSTOMERS_A_FEEDER
    has_pv = classes == "pv"
    car_too = has_pv & (rng.random(BLOCK) < parameters.PV_HOMES_WITH_CAR)
    return Customers(
        ids=np.char.mod("C%07d", number),
        classes=classes,
        zips=np.char.mod("%05d", 1 + feeder // _FEEDERS_A_ZIP),
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
    return behavioural_to_utc(load_w, clock) / SLOTS_AN_HOUR
