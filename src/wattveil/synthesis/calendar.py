"""The public calendar of the hours in a row."""

import datetime as dt
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wattveil import checks
from wattveil.clustering._kernels import Counts, Floats
from wattveil.errors import InvalidParameterError
from wattveil.ingest.zones import DAY_US
from wattveil.profiles.grid import Grid, Split
from wattveil.synthesis.day_bases import day_bases

MOST_SLOTS = 96
_MOST_DAYS = 10 * 366


@dataclass(frozen=True, kw_only=True)
class YearCalendar:
    """Consecutive local days of equal slots, each day of one part of the year.

    The parts are those of `wattveil.profiles.Grid`: seasons, weekdays and weekends, or both.
    """

    first_day: dt.date
    n_days: int
    n_slots: int
    split: Split

    def __post_init__(self) -> None:
        """Check the parameters."""
        if type(self.first_day) is not dt.date:
            raise InvalidParameterError("first_day", "a date", self.first_day)
        checks.integer("n_days", self.n_days, least=1, most=_MOST_DAYS)
        checks.integer("slots_per_day", self.n_slots, least=2, most=MOST_SLOTS)
        checks.member("split", self.split, Split)

    @property
    def n_parts(self) -> int:
        """How many typical days a customer has."""
        grid = Grid(split=self.split)
        return grid.cells // grid.slots

    @cached_property
    def parts(self) -> Counts:
        """(n_days,): the part of each day."""
        grid = Grid(split=self.split)
        first = (self.first_day - dt.date(1970, 1, 1)).days
        return grid.cell_of((first + np.arange(self.n_days)) * DAY_US) // grid.slots

    @cached_property
    def day_bases(self) -> tuple[Floats, Floats, Floats]:
        """The public bases of a day: found once, and then sent to executors with the calendar.

        Another machine might find eigenvectors that differ in their last bits.
        """
        return day_bases(self.n_slots)


def fitting_calendar(
    n_columns: int, *, first_day: dt.date, n_slots: int, split: Split
) -> YearCalendar:
    """Return the calendar of rows of so many slots; every part of the year must occur in it."""
    checks.integer("slots_per_day", n_slots, least=2, most=MOST_SLOTS)
    if n_columns % n_slots:
        raise InvalidParameterError("X", f"whole days of {n_slots} slots", f"{n_columns} columns")
    calendar = YearCalendar(
        first_day=first_day, n_days=n_columns // n_slots, n_slots=n_slots, split=split
    )
    if np.unique(calendar.parts).size < calendar.n_parts:
        rule = f"one whose parts all occur in {calendar.n_days} days from {first_day}"
        raise InvalidParameterError("split", rule, split.value)
    return calendar
