"""The time grid of a profile: times of day, kinds of day and seasons that its columns stand for."""

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from wattveil.declaration import CommandLine, Declaration
from wattveil.errors import InvalidParameterError, one_of
from wattveil.readings.timestamps import DAY_US, MINUTE_US

_MINUTES = (5, 15, 30, 60)
_DAY_MINUTES = (15, 30, 60)
"""Lengths of the slots of days that are kept one by one."""
_MIN_DAYS, _MAX_DAYS = 14, 10 * 366
_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_KINDS = ("weekday", "weekend")
_SEASONS = ("Dec-Feb", "Mar-May", "Jun-Aug", "Sep-Nov")
_FIRST_OF_1970 = 3  # a Thursday
_SATURDAY = 5


class Split(StrEnum):
    """Days that are averaged separately."""

    DAY = "day"
    WEEKDAY_WEEKEND = "weekday-weekend"
    SEASON = "season"
    SEASON_WEEKDAY_WEEKEND = "season-weekday-weekend"
    WEEK = "week"


_PARTS = {
    Split.DAY: ("",),
    Split.WEEKDAY_WEEKEND: _KINDS,
    Split.SEASON: _SEASONS,
    Split.SEASON_WEEKDAY_WEEKEND: tuple(f"{a} {b}" for a in _SEASONS for b in _KINDS),
    Split.WEEK: _WEEK,
}


def _allowed_minutes(value: int) -> int:
    if value not in _MINUTES:
        raise InvalidParameterError("grid.minutes", one_of(_MINUTES), value)
    return value


def _allowed_days(value: int) -> int:
    if value and not _MIN_DAYS <= value <= _MAX_DAYS:
        rule = f"0, or from {_MIN_DAYS} to {_MAX_DAYS:,}"
        raise InvalidParameterError("grid.n_days", rule, value)
    return value


class TimeGrid(Declaration):
    """The columns of a profile: slots of the day, by kind of day or season.

    Days that are kept beside the profile are consecutive: their slots are not columns of it.
    """

    minutes: Annotated[
        int,
        Field(strict=True),
        AfterValidator(_allowed_minutes),
        CommandLine(parameter="grid_minutes"),
    ] = 60
    """Length of a slot of the profile, in minutes: 5, 15, 30 or 60."""
    split: Split = Split.DAY
    """day for one average day; weekday-weekend, season or both (season-weekday-weekend) for
    several; week for Monday to Sunday (168 hours)."""
    closing_midnight: bool = False
    """Repeat the first slot as a last column, so that a day runs from midnight to midnight: the
    paper's d = 25. On an average day, 24:00 is the 0:00 of the day after."""
    first_day: dt.date | None = None
    """With --days: the first local day to keep."""
    n_days: Annotated[
        int,
        Field(strict=True),
        AfterValidator(_allowed_days),
        CommandLine(option="--days"),
    ] = 0
    """Number of consecutive local days whose slots are all kept beside the average: the product
    years of a release needs them, usually 365. 0 keeps none. In memory, a year of hours takes 70 KB
    per customer."""

    @model_validator(mode="after")
    def _check_days(self) -> Self:
        """Check the rules between the fields of days."""
        if (self.first_day is None) != (self.n_days == 0):
            rule = "given with n_days, the number of days to keep, and omitted without it"
            raise InvalidParameterError("grid.first_day", rule, self.first_day)
        if self.n_days and self.minutes not in _DAY_MINUTES:
            rule = f"{one_of(_DAY_MINUTES)} where days are kept"
            raise InvalidParameterError("grid.minutes", rule, self.minutes)
        return self

    @model_validator(mode="after")
    def _check_midnight(self) -> Self:
        """Check the rule between fields."""
        if self.closing_midnight and self.split is not Split.DAY:
            rule = "false unless the split is 'day'"
            raise InvalidParameterError("grid.closing_midnight", rule, self.closing_midnight)
        return self

    @property
    def slots(self) -> int:
        """Number of slots of a day."""
        return 1440 // self.minutes

    @property
    def cells(self) -> int:
        """Number of averages: columns without the closing midnight."""
        return self.slots * len(_PARTS[self.split])

    @property
    def columns(self) -> int:
        """Number of columns: the d of a P × d matrix."""
        return self.cells + self.closing_midnight

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each column."""
        starts = list(range(0, 1440, self.minutes))
        names = [
            f"{part} {minute // 60:02}:{minute % 60:02}".strip()
            for part in _PARTS[self.split]
            for minute in starts
        ]
        return tuple(names + ["24:00"] * self.closing_midnight)

    def cell_of(self, local_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell of each local time, in microseconds since 1970."""
        day = local_us // DAY_US
        slot = local_us % DAY_US // (self.minutes * MINUTE_US)
        weekday = (day + _FIRST_OF_1970) % len(_WEEK)
        weekend = (weekday >= _SATURDAY).astype(np.int64)
        month = day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
        season = (month + 1) % 12 // 3
        part = {
            Split.DAY: np.zeros_like(day),
            Split.WEEKDAY_WEEKEND: weekend,
            Split.SEASON: season,
            Split.SEASON_WEEKDAY_WEEKEND: season * len(_KINDS) + weekend,
            Split.WEEK: weekday,
        }[self.split]
        return part * self.slots + slot

    @property
    def without_days(self) -> Self:
        """The same columns, without days that are kept beside them."""
        return self.replace(first_day=None, n_days=0)

    def to_json(self) -> dict[str, object]:
        """Return the grid as JSON values; of days only if some are kept."""
        return self.model_dump(
            mode="json", exclude=None if self.n_days else {"first_day", "n_days"}
        )

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Self:
        """Return the grid of JSON values."""
        return cls.parse(record)
