"""The rules of reading: public parameters, recorded word for word in the report.

They decide which rows stay, so they become part of the release statement and must not be tuned by
looking at the result.
"""

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.ingest.schema import ALLOWED_MINUTES, EARLIEST_YEAR, LATEST_YEAR

E = TypeVar("E", bound=StrEnum)


class Layout(StrEnum):
    """How a table lays readings out."""

    LONG = "long"  # one row a reading
    WIDE = "wide"  # one row a customer and day, one column a slot of the day
    MATRIX = "matrix"  # one row a time stamp, one column a customer


class MeasuredIn(StrEnum):
    """What the values are."""

    KWH = "kWh"
    WH = "Wh"
    KW = "kW"
    REGISTER = "register"  # a running total in kWh; energy is the difference of two reads


class Stamp(StrEnum):
    """Which end of the interval a time stamp names."""

    START = "start"
    END = "end"


class DecimalMark(StrEnum):
    """What parts whole numbers from fractions, where values are texts."""

    POINT = "point"
    COMMA = "comma"


class Conflicts(StrEnum):
    """What becomes of two different values for one interval."""

    DROP = "drop"  # neither: no guess about which is right
    FIRST = "first"  # in order of appearance: folder, file, row
    LAST = "last"
    MEAN = "mean"


class Estimated(StrEnum):
    """What becomes of estimated reads."""

    KEEP = "keep"  # as any other
    FLAG = "flag"  # kept; profiles carry each customer's share of them
    DROP = "drop"


class DaySlots(StrEnum):
    """What the columns of a wide table mean on the days when clocks change."""

    CLOCK = "clock"  # the time on the wall: an hour is empty in spring, one is single in autumn
    ELAPSED = "elapsed"  # time since midnight: the last are empty in spring, extra ones in autumn


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Every rule of `read_readings`; its docstring says what each one does."""

    layout: Layout | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    unit: MeasuredIn | None = None
    minutes: int | None = None
    stamp: Stamp | None = None
    stamp_format: str | None = None
    decimal: DecimalMark | None = None
    timezone: str | None = None
    day_slots: DaySlots | None = None
    period: tuple[dt.date, dt.date] | None = None
    conflicts: Conflicts = Conflicts.DROP
    estimated: Estimated = Estimated.KEEP
    meters: Path | None = None
    register_rollover: float | None = None
    skip_lines: int = 0

    def __post_init__(self) -> None:
        """Check what does not depend on the data."""
        if self.minutes is not None and self.minutes not in ALLOWED_MINUTES:
            raise InvalidParameterError("minutes", f"one of {ALLOWED_MINUTES}", self.minutes)
        if self.timezone is not None:
            known_zone("timezone", self.timezone)
        if self.register_rollover is not None:
            checks.positive("register_rollover", self.register_rollover)
            if self.unit is not MeasuredIn.REGISTER:
                raise InvalidParameterError(
                    "register_rollover", "left out unless unit='register'", self.register_rollover
                )
        if self.unit is MeasuredIn.REGISTER and self.stamp is not None:
            raise InvalidParameterError(
                "stamp", "left out with unit='register': a register read is an instant", self.stamp
            )
        checks.integer("skip_lines", self.skip_lines, least=0)
        if unknown := set(self.columns) - COLUMN_ROLES:
            raise InvalidParameterError(
                "columns", f"keyed by {sorted(COLUMN_ROLES)}", sorted(unknown)
            )

    @classmethod
    def from_text(
        cls,
        *,
        layout: str | None = None,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        minutes: int | None = None,
        stamp: str | None = None,
        stamp_format: str | None = None,
        decimal: str | None = None,
        timezone: str | None = None,
        day_slots: str | None = None,
        period: tuple[str, str] | None = None,
        conflicts: str = "drop",
        estimated: str = "keep",
        meters: str | Path | None = None,
        register_rollover: float | None = None,
        skip_lines: int = 0,
    ) -> Self:
        """Check the arguments of the public function and store them."""
        return cls(
            layout=_optional("layout", layout, Layout),
            columns=dict(columns or {}),
            unit=_optional("unit", unit, MeasuredIn),
            minutes=minutes,
            stamp=_optional("stamp", stamp, Stamp),
            stamp_format=stamp_format,
            decimal=_optional("decimal", decimal, DecimalMark),
            timezone=timezone,
            day_slots=_optional("day_slots", day_slots, DaySlots),
            period=None if period is None else _period(period),
            conflicts=checks.enum_value("conflicts", conflicts, Conflicts),
            estimated=checks.enum_value("estimated", estimated, Estimated),
            meters=None if meters is None else Path(meters),
            register_rollover=register_rollover,
            skip_lines=skip_lines,
        )

    def to_json(self) -> dict[str, object]:
        """Return the rules that were set, as a release statement quotes them."""
        record: dict[str, object] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Path):
                value = value.name
            elif isinstance(value, tuple):
                value = [day.isoformat() for day in value]
            record[item.name] = value
        return record


COLUMN_ROLES = {
    "customer",
    "meter",
    "stamp",
    "date",
    "time",
    "value",
    "channel",
    "quality",
    "minutes",
}


def known_zone(name: str, zone: object) -> ZoneInfo:
    """Accept an IANA time zone."""
    try:
        return ZoneInfo(str(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidParameterError(
            name, "an IANA time zone such as Europe/London", zone
        ) from error


def _optional(name: str, value: str | None, kind: type[E]) -> E | None:
    return None if value is None else checks.enum_value(name, value, kind)


def _period(period: tuple[str, str]) -> tuple[dt.date, dt.date]:
    """Read the first day and the day after the last."""
    rule = f"two dates (first day, day after the last) in {EARLIEST_YEAR}-{LATEST_YEAR}"
    try:
        first, end = (dt.date.fromisoformat(str(day)) for day in period)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError("period", rule, period) from error
    if not EARLIEST_YEAR <= first.year <= end.year <= LATEST_YEAR or first >= end:
        raise InvalidParameterError("period", rule, period)
    return first, end
