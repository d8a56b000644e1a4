"""Local days, UTC instants and the quarter-hour grid on which everything is simulated.

People live by the wall clock and meters count in UTC. Loads are simulated on a grid of wall-clock
quarter hours, 96 a day, and then picked slot by slot for the UTC instants that exist: the day the
clock goes forward has 92 of them, the day it goes back has 100.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

SLOTS_A_DAY = 96
SLOTS_AN_HOUR = 4
SLOT = timedelta(minutes=15)

# A behavioural day runs from 04:00 to 04:00, when nearly everybody sleeps. One more of them is
# simulated before the first midnight, so that the first night has its late evening.
WAKE_SLOT = 4 * SLOTS_AN_HOUR
LEAD_SLOTS = SLOTS_A_DAY - WAKE_SLOT

_SATURDAY = 5
_HOLIDAYS = {(1, 1), (12, 25), (12, 26)}  # the days on which business rests almost everywhere


@dataclass(frozen=True, kw_only=True)
class Clock:
    """So many local days from a local midnight on, seen from the wall and from UTC."""

    start: date
    days: int
    timezone: str

    @cached_property
    def start_utc(self) -> datetime:
        """The instant of the first local midnight."""
        return self._midnight(0)

    @cached_property
    def utc_slots(self) -> int:
        """How many quarter hours there are between the first midnight and the last."""
        return (self._midnight(self.days) - self.start_utc) // SLOT

    @property
    def behaviour_days(self) -> int:
        """Days from 04:00 to 04:00 that cover the local days."""
        return self.days + 1

    @cached_property
    def offset_hours(self) -> NDArray[np.float64]:
        """Hours that the wall clock is ahead of UTC, at every UTC slot."""
        hours: NDArray[np.float64] = self._zone_hours[0]
        return hours

    @cached_property
    def wall_of_utc(self) -> NDArray[np.intp]:
        """The wall-clock slot, counted from the first midnight, of every UTC slot."""
        ahead = (self.offset_hours - self.offset_hours[0]) * SLOTS_AN_HOUR
        slots: NDArray[np.intp] = np.arange(self.utc_slots) + np.rint(ahead).astype(np.intp)
        return slots

    @cached_property
    def standard_hours(self) -> NDArray[np.float64]:
        """Hours of standard time since the first midnight, at every slot of the behavioural grid.

        The sun keeps standard time. Where the wall clock passes an hour twice, the first counts.
        """
        wall = np.arange(self.behaviour_days * SLOTS_A_DAY) - LEAD_SLOTS
        first_seen = np.searchsorted(np.maximum.accumulate(self.wall_of_utc), wall)
        summer = self._zone_hours[1][np.clip(first_seen, 0, self.utc_slots - 1)]
        hours: NDArray[np.float64] = wall / SLOTS_AN_HOUR - summer
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
