"""The public calendar of hours in a row, and each customer's typical days in it."""

import datetime as dt
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wattveil import checks
from wattveil.clustering._kernels import Counts, Floats
from wattveil.compiled import compiled, over_spans
from wattveil.errors import InvalidParameterError
from wattveil.ingest.zones import DAY_US
from wattveil.profiles.grid import Grid, Split
from wattveil.synthesis.day_bases import day_bases

MOST_SLOTS = 96
_MOST_DAYS = 10 * 366
_LARGEST = 1e9
"""Values saturate here, in kW: no customer can overflow a sum of squares."""


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


def typical_days(hours_kw: Floats, calendar: YearCalendar) -> Floats:
    """Return each customer's mean day of every part of the year, side by side.

    A day with a slot that is not finite is left out; a customer without any day of some part has a
    row of NaN. What is computed of a row depends on that row alone, to the last bit.
    """
    found = np.empty((len(hours_kw), calendar.n_parts * calendar.n_slots))
    over_spans(
        len(hours_kw),
        lambda _, *span: _typical_of_span(hours_kw, span, calendar.parts, found),
    )
    return found


@compiled
def whole_day(hours_kw: Floats, customer: int, day: int, n_slots: int) -> bool:
    """Tell whether every slot of a day is finite."""
    for slot in range(day * n_slots, (day + 1) * n_slots):
        if not math.isfinite(hours_kw[customer, slot]):
            return False
    return True


@compiled
def saturated(load_kw: float) -> float:
    """Return the load, within bounds that arithmetic can bear."""
    return min(max(load_kw, -_LARGEST), _LARGEST)


@compiled
def _typical_of_span(hours_kw: Floats, span: tuple[int, int], parts: Counts, found: Floats) -> None:
    """Fill the means of the rows of a span, added in the order of the days."""
    n_slots = hours_kw.shape[1] // parts.size
    n_parts = found.shape[1] // n_slots
    days = np.empty(n_parts)
    for i in range(span[0], span[1]):
        days[:] = 0.0
        found[i] = 0.0
        for t in range(parts.size):
            if whole_day(hours_kw, i, t, n_slots):
                days[parts[t]] += 1.0
                for h in range(n_slots):
                    value = saturated(hours_kw[i, t * n_slots + h])
                    found[i, parts[t] * n_slots + h] += value
        if days.min() == 0.0:
            found[i] = math.nan
        else:
            for column in range(found.shape[1]):
                found[i, column] /= days[column // n_slots]
