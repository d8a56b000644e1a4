"""The grid of a profile: which times of day, kinds of day and seasons its columns stand for."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.ingest.zones import DAY_US, MINUTE_US

_MINUTES = (5, 15, 30, 60)
_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_KINDS = ("weekday", "weekend")
_SEASONS = ("Dec-Feb", "Mar-May", "Jun-Aug", "Sep-Nov")
_FIRST_OF_1970 = 3  # a Thursday
_SATURDAY = 5


class Split(StrEnum):
    """What an average day is made of."""

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


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The columns of a profile.

    Parameters
    ----------
    minutes
        Length of a slot: 5, 15, 30 or 60.
    split
        ``day`` for one average day; ``weekday-weekend``, ``season`` or both for several; ``week``
        for Monday to Sunday (168 hours).
    closing_midnight
        Repeat the first slot as a last column, so that a day runs from midnight to midnight: the
        paper's d = 25. On an average day, 24:00 is the 0:00 of the day after.
    """

    minutes: int = 60
    split: Split = Split.DAY
    closing_midnight: bool = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.minutes not in _MINUTES:
            raise InvalidParameterError("grid.minutes", f"one of {_MINUTES}", self.minutes)
        checks.member("grid.split", self.split, Split)
        if self.closing_midnight and self.split is not Split.DAY:
            rule = "false unless the split is 'day'"
            raise InvalidParameterError("grid.closing_midnight", rule, self.closing_midnight)

    @property
    def slots(self) -> int:
        """Slots of a day."""
        return 1440 // self.minutes

    @property
    def cells(self) -> int:
        """Averages that are taken; columns but for the closing midnight."""
        return self.slots * len(_PARTS[self.split])

    @property
    def columns(self) -> int:
        """The d of a P × d matrix."""
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

    def to_json(self) -> dict[str, object]:
        """Return the grid as JSON values."""
        return {
            "minutes": self.minutes,
            "split": self.split.value,
            "closing_midnight": self.closing_midnight,
        }

    @classmethod
    def from_json(cls, record: dict[str, object]) -> "Grid":
        """Read a grid from its JSON values."""
        return cls(
            minutes=checks.integer("grid.minutes", record["minutes"], least=1),
            split=checks.enum_value("grid.split", record["split"], Split),
            closing_midnight=record["closing_midnight"] is True,
        )
