"""Time grid and weather of the simulation, common to all customers.

People follow local time and meters count in UTC. Loads are simulated on a grid of local quarter
hours, 96 per day, and then selected for the UTC instants that exist: the day on which clocks go
forward has 92 of them, the day on which they go back has 100.

Temperature is a yearly wave, a daily wave and an autoregressive deviation that lasts for days.
Cloud cover is a slow front and quick patches, squeezed between 0 and 1. The sun is geometry.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from wattveil.simulate.parameters import Climate

SLOTS_PER_DAY = 96
SLOTS_PER_HOUR = 4
SLOT = timedelta(minutes=15)

# A behavioural day runs from 04:00 to 04:00, when nearly all residents sleep. One more of them is
# simulated before the first midnight, so that the first night has its late evening.
WAKE_SLOT = 4 * SLOTS_PER_HOUR
LEAD_SLOTS = SLOTS_PER_DAY - WAKE_SLOT

_SATURDAY = 5
_HOLIDAYS = {(1, 1), (12, 25), (12, 26)}  # the days on which business rests almost everywhere


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Consecutive local days from a local midnight on, in local time and in UTC."""

    start: date
    days: int
    timezone: str

    @cached_property
    def start_utc(self) -> datetime:
        """The instant of the first local midnight."""
        return self._midnight(0)

    @cached_property
    def utc_slots(self) -> int:
        """Number of quarter hours between the first midnight and the last."""
        return (self._midnight(self.days) - self.start_utc) // SLOT

    @property
    def behaviour_days(self) -> int:
        """Days from 04:00 to 04:00 that cover the local days."""
        return self.days + 1

    @cached_property
    def offset_hours(self) -> NDArray[np.float64]:
        """Hours that local time is ahead of UTC, at every UTC slot."""
        hours: NDArray[np.float64] = self._zone_hours[0]
        return hours

    @cached_property
    def wall_of_utc(self) -> NDArray[np.intp]:
        """The wall-clock slot, counted from the first midnight, of every UTC slot."""
        ahead = (self.offset_hours - self.offset_hours[0]) * SLOTS_PER_HOUR
        slots: NDArray[np.intp] = np.arange(self.utc_slots) + np.rint(ahead).astype(np.intp)
        return slots

    @cached_property
    def standard_hours(self) -> NDArray[np.float64]:
        """Hours of standard time since the first midnight, at every slot of the behavioural grid.

        The sun follows standard time. Where local time has an hour twice, the first counts.
        """
        wall = np.arange(self.behaviour_days * SLOTS_PER_DAY) - LEAD_SLOTS
        first_seen = np.searchsorted(np.maximum.accumulate(self.wall_of_utc), wall)
        summer = self._zone_hours[1][np.clip(first_seen, 0, self.utc_slots - 1)]
        hours: NDArray[np.float64] = wall / SLOTS_PER_HOUR - summer
        return hours

    @cached_property
    def weekday(self) -> NDArray[np.intp]:
        """Day of the week of every behavioural day, Monday being 0."""
        return (self.start.weekday() - 1 + np.arange(self.behaviour_days)) % 7

    @cached_property
    def free_day(self) -> NDArray[np.bool_]:
        """Whether a behavioural day is a weekend day or a holiday."""
        return (self.weekday >= _SATURDAY) | self.holiday

    @cached_property
    def holiday(self) -> NDArray[np.bool_]:
        """Whether a behavioural day is one of the common holidays."""
        dates = [self.start + timedelta(days=day - 1) for day in range(self.behaviour_days)]
        return np.array([(day.month, day.day) in _HOLIDAYS for day in dates])

    @cached_property
    def day_of_year(self) -> NDArray[np.float64]:
        """Day of the year, 0 to 365, of every behavioural day."""
        first = self.start - timedelta(days=1)
        new_year = date(first.year, 1, 1)
        days: NDArray[np.float64] = np.arange(self.behaviour_days, dtype=np.float64)
        return (days + (first - new_year).days) % 365.25

    @cached_property
    def _zone_hours(self) -> NDArray[np.float64]:
        """Hours ahead of UTC, and how many of them are summer time, at every UTC slot."""
        zone = ZoneInfo(self.timezone)
        hours = np.empty((2, self.utc_slots))
        for slot in range(self.utc_slots):
            local = (self.start_utc + slot * SLOT).astimezone(zone)
            ahead, summer = local.utcoffset(), local.dst()
            hours[0, slot] = 0.0 if ahead is None else ahead / timedelta(hours=1)
            hours[1, slot] = 0.0 if summer is None else summer / timedelta(hours=1)
        return hours

    def _midnight(self, day: int) -> datetime:
        local = datetime.combine(self.start + timedelta(days=day), datetime.min.time())
        return local.replace(tzinfo=ZoneInfo(self.timezone)).astimezone(UTC)


def behavioural_to_utc(load: NDArray[np.float64], clock: Clock) -> NDArray[np.float64]:
    """Pick, from loads on the behavioural grid, the slots that exist, in their UTC order."""
    picked: NDArray[np.float64] = load[:, LEAD_SLOTS + clock.wall_of_utc]
    return picked


_DAYS_PER_YEAR = 365.25
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
        daily: NDArray[np.float64] = self.temperature_c.reshape(-1, SLOTS_PER_DAY).mean(axis=1)
        return daily


def simulate_weather(clock: Clock, climate: Climate, rng: np.random.Generator) -> Weather:
    """Simulate the weather path that all customers share."""
    slots = clock.behaviour_days * SLOTS_PER_DAY
    day = np.repeat(clock.day_of_year, SLOTS_PER_DAY)
    south = climate.latitude_deg < 0.0
    year_angle = 2.0 * np.pi * (day - _COLDEST_DAY) / _DAYS_PER_YEAR + np.pi * south
    hour = (np.arange(slots) / SLOTS_PER_HOUR + 4.0) % 24.0

    front = _autoregressive(rng, clock.behaviour_days + 1, memory=0.7)
    patches = _autoregressive(rng, slots, memory=0.93)
    latent = _between_days(front, slots) * 1.3 + patches * 0.9
    cloud = 1.0 / (1.0 + np.exp(-(latent + climate.cloud_bias)))

    spell = _autoregressive(rng, clock.behaviour_days + 1, memory=0.8)
    swing = climate.daily_swing_c * (1.2 - 0.8 * cloud.reshape(-1, SLOTS_PER_DAY).mean(axis=1))
    daily = -np.repeat(swing, SLOTS_PER_DAY) * np.cos(2.0 * np.pi * (hour - 4.0) / 24.0)
    temperature = (
        climate.mean_c
        - climate.yearly_swing_c * np.cos(year_angle)
        + climate.spell_sd_c * _between_days(spell, slots)
        + daily
    )

    # Longitude is taken as the centre of the time zone: the sun culminates near 12 standard time.
    hour_angle = 2.0 * np.pi * (clock.standard_hours - 12.0 + 0.125) / 24.0  # centre of the slot
    declination = _TILT_RAD * np.sin(2.0 * np.pi * (day - _EQUINOX_DAY) / _DAYS_PER_YEAR)
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
    return np.interp(np.arange(slots) / SLOTS_PER_DAY, np.arange(daily.size), daily)
