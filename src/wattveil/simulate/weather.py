"""One weather for all customers: temperature, cloud and the sun, on the behavioural grid.

The temperature is a yearly wave, a daily wave and an autoregressive departure that lasts for days.
Cloud is a slow front passing and quick patches, squeezed between 0 and 1. The sun is geometry.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from wattveil.simulate.clock import SLOTS_A_DAY, SLOTS_AN_HOUR, Clock
from wattveil.simulate.parameters import Climate

_DAYS_A_YEAR = 365.25
_COLDEST_DAY = 25.0  # late January in the north; the ground lags the sun by a month
_EQUINOX_DAY = 80.0
_HOT_SUMMER_C = 22.0
_TILT_RAD = np.deg2rad(23.44)  # of the Earth's axis


@dataclass(frozen=True, kw_only=True)
class Weather:
    """Weather at every slot of the behavioural grid."""

    temperature_c: NDArray[np.float64]
    cloud: NDArray[np.float64]  # 0 clear, 1 overcast
    sun_height: NDArray[np.float64]  # sine of the sun's elevation; below 0 at night
    sun_east: NDArray[np.float64]  # the other two components of the direction of the sun
    sun_south: NDArray[np.float64]
    southern: bool  # south of the equator, where roofs with panels face north
    hot_summers: bool  # where air conditioners are bought

    @property
    def darkness(self) -> NDArray[np.float64]:
        """How much light is missing indoors: 0 on a bright day, 1 at night."""
        twilight = np.maximum(self.sun_height + 0.07, 0.0)  # light lasts until 4 degrees below
        outdoors = twilight * (1.0 - 0.7 * self.cloud)
        dark: NDArray[np.float64] = 1.0 - outdoors / (outdoors + 0.04)
        return dark

    @property
    def daily_temperature_c(self) -> NDArray[np.float64]:
        """Mean temperature of every behavioural day."""
        daily: NDArray[np.float64] = self.temperature_c.reshape(-1, SLOTS_A_DAY).mean(axis=1)
        return daily


def simulate_weather(clock: Clock, climate: Climate, rng: np.random.Generator) -> Weather:
    """Draw the one weather path that all customers share."""
    slots = clock.behaviour_days * SLOTS_A_DAY
    day = np.repeat(clock.day_of_year, SLOTS_A_DAY)
    south = climate.latitude_deg < 0.0
    year_angle = 2.0 * np.pi * (day - _COLDEST_DAY) / _DAYS_A_YEAR + np.pi * south
    hour = (np.arange(slots) / SLOTS_AN_HOUR + 4.0) % 24.0

    front = _autoregressive(rng, clock.behaviour_days + 1, memory=0.7)
    patches = _autoregressive(rng, slots, memory=0.93)
    latent = _between_days(front, slots) * 1.3 + patches * 0.9
    cloud = 1.0 / (1.0 + np.exp(-(latent + climate.cloud_bias)))

    spell = _autoregressive(rng, clock.behaviour_days + 1, memory=0.8)
    swing = climate.daily_swing_c * (1.2 - 0.8 * cloud.reshape(-1, SLOTS_A_DAY).mean(axis=1))
    daily = -np.repeat(swing, SLOTS_A_DAY) * np.cos(2.0 * np.pi * (hour - 4.0) / 24.0)
    temperature = (
        climate.mean_c
        - climate.yearly_swing_c * np.cos(year_angle)
        + climate.spell_sd_c * _between_days(spell, slots)
        + daily
    )

    # Longitude is taken as the middle of the time zone: the sun culminates near 12 standard time.
    hour_angle = 2.0 * np.pi * (clock.standard_hours - 12.0 + 0.125) / 24.0  # middle of the slot
    declination = _TILT_RAD * np.sin(2.0 * np.pi * (day - _EQUINOX_DAY) / _DAYS_A_YEAR)
    latitude = np.deg2rad(climate.latitude_deg)
    height = np.sin(latitude) * np.sin(declination)
    height += np.cos(latitude) * np.cos(declination) * np.cos(hour_angle)
    southward = np.sin(latitude) * np.cos(declination) * np.cos(hour_angle)
    southward -= np.cos(latitude) * np.sin(declination)
    return Weather(
        temperature_c=temperature,
        cloud=cloud,
        sun_height=height,
        sun_east=-np.cos(declination) * np.sin(hour_angle),
        sun_south=southward,
        southern=south,
        hot_summers=climate.mean_c + climate.yearly_swing_c > _HOT_SUMMER_C,
    )


def _autoregressive(rng: np.random.Generator, length: int, *, memory: float) -> NDArray[np.float64]:
    """Draw a stationary autoregressive path of unit variance."""
    steps = rng.standard_normal(length) * np.sqrt(1.0 - memory**2)
    steps[0] /= np.sqrt(1.0 - memory**2)
    path: NDArray[np.float64] = lfilter([1.0], [1.0, -memory], steps)
    return path


def _between_days(daily: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
    """Draw straight lines from day to day."""
    return np.interp(np.arange(slots) / SLOTS_A_DAY, np.arange(daily.size), daily)
