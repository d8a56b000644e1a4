"""Reading options: public parameters of `read_readings`, declared once.

They decide which rows stay, so the report, the profiles and the manifest of a release record them;
    do not tune them by inspecting the result. Keyword arguments of `read_readings`, options of
`wattveil profiles`, messages to Spark executors and the JSON of reports derive from `ReadOptions`.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from wattveil.declaration import CommandLine, Declaration, Rule
from wattveil.errors import InvalidParameterError, one_of
from wattveil.readings.schema import (
    ALLOWED_MINUTES,
    CHANNELS,
    EARLIEST_YEAR,
    LATEST_YEAR,
    QUALITIES,
)
from wattveil.readings.timestamps import TimeZone

NAMED_BY_FILE = "customer: the name of the file, as no column names it"
NUMBERED_FILES = "customers: one per file, though names of files differ only by numbers"
REPLACED_FORMAT = "format: looks like "
"""Begin of the assumption that the caller's columns replace the rules of a known format."""

UNREAD = "not read"
UNREAD_DIRECTION = f"{UNREAD}, although named by a direction of energy: "
"""Beginnings of the notes on columns without a role."""

OTHER_UNIT = " may use a different unit: "
"""Part of the note on a file whose values are far from those of the others."""

OTHER_THAN_NAMED = "as stated, although the file says "
"""Part of the note on a unit that contradicts the name of a column, or a column of units."""

UNSURE_START = (
    "time stamps: start of the interval, although the first of nearly every customer is one"
    " interval after midnight"
)
"""Assumption about stamps that may be ends. It is shown as a warning wherever it holds."""

ASSUMED_UTC = "timezone: UTC, as stamps have no offset and no time zone is given"
UTC_PROFILES = "given: the profiles are in UTC. State it"
"""Assumption about stamps of an unknown zone. It is shown as a warning wherever it holds."""


ASSUMED_KWH = "unit: kWh assumed, as no unit is found"
"""Assumption about values of an unknown unit. It is shown as a warning wherever it holds."""


_NOTES = (UNREAD, REPLACED_FORMAT)


def inferred_options(assumptions: Iterable[str]) -> list[str]:
    """Return the assumptions that are options; columns without a role are no option."""
    return [
        text
        for text in assumptions
        if not text.startswith(_NOTES) and OTHER_UNIT not in text and OTHER_THAN_NAMED not in text
    ]


class FileLayout(StrEnum):
    """Layout of a table of readings."""

    LONG = "long"  # one row per reading
    WIDE = "wide"  # one row per customer and day, one column per slot of the day
    MATRIX = "matrix"  # one row per time stamp, one column per customer


class MeasuredIn(StrEnum):
    """Unit of the values."""

    KWH = "kWh"
    WH = "Wh"
    MWH = "MWh"
    MJ = "MJ"
    W = "W"  # power is the mean of its interval
    KW = "kW"

    @classmethod
    def _missing_(cls, value: object) -> "MeasuredIn | None":
        """Accept any case: kwh is kWh."""
        written = str(value).lower()
        return next((unit for unit in cls if unit.value.lower() == written), None)


def unit_note(stated: MeasuredIn, said: str, column: str) -> str:
    """Return the note on a stated unit that a column contradicts."""
    return f"unit: {stated.value} {OTHER_THAN_NAMED}{said} (column {column!r})"


class Implausible(StrEnum):
    """Rule for data that contradict themselves or exceed a plausible load."""

    REFUSE = "refuse"
    ACCEPT = "accept"


class Stamp(StrEnum):
    """Which end of the interval a time stamp names."""

    START = "start"
    END = "end"


class DecimalMark(StrEnum):
    """Decimal separator of values that are texts."""

    POINT = "point"
    COMMA = "comma"


class Conflicts(StrEnum):
    """Rule for different values of one interval."""

    DROP = "drop"  # neither value is used
    FIRST = "first"  # in order of appearance: folder, file, row
    LAST = "last"
    MEAN = "mean"


class Estimated(StrEnum):
    """Rule for estimated reads."""

    KEEP = "keep"  # as any other
    FLAG = "flag"  # kept; profiles carry each customer's share of them
    DROP = "drop"


class DaySlots(StrEnum):
    """Meaning of the columns of a wide table on the days when clocks change."""

    CLOCK = "clock"  # the time on the wall: an hour is empty in spring, one is single in autumn
    ELAPSED = "elapsed"  # time since midnight: the last are empty in spring, extra ones in autumn


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
_PERIOD_RULE = (
    "two dates such as 2025-03-03 (first day, day after the last), in"
    f" {EARLIEST_YEAR}-{LATEST_YEAR}"
)


def _allowed_minutes(value: int) -> int:
    if value not in ALLOWED_MINUTES:
        raise InvalidParameterError("minutes", f"one of {ALLOWED_MINUTES}", value)
    return value


def _possible_period(value: tuple[dt.date, dt.date]) -> tuple[dt.date, dt.date]:
    first, end = value
    if first >= end:
        rule = "two dates (first day, day after the last): the first must be before the second"
        raise InvalidParameterError("period", rule, tuple(map(str, value)))
    if not EARLIEST_YEAR <= first.year <= end.year <= LATEST_YEAR:
        raise InvalidParameterError("period", _PERIOD_RULE, tuple(map(str, value)))
    return value


def _unit_named(text: str) -> MeasuredIn:
    """Return a unit by its name, in any case."""
    try:
        return MeasuredIn(text)
    except ValueError:
        raise InvalidParameterError("unit", one_of(MeasuredIn), text) from None


def _known_roles(value: Mapping[str, str]) -> Mapping[str, str]:
    if unknown := set(value) - COLUMN_ROLES:
        raise InvalidParameterError(
            "columns", f"given for a role, {one_of(sorted(COLUMN_ROLES))}", sorted(unknown)
        )
    return value


def _known_meanings(value: Mapping[str, str]) -> Mapping[str, str]:
    meanings = {*CHANNELS, *QUALITIES}
    if unknown := set(value.values()) - meanings:
        rule = f"texts and one of {sorted(meanings)}"
        raise InvalidParameterError("words", rule, sorted(unknown))
    return value


class ReadOptions(Declaration):
    """Rules by which readings are read. Options with "inferred" may be omitted.

    `Readings.assumptions` lists what was inferred.
    """

    layout: FileLayout | None = None
    """long (one row per reading), wide (one row per customer and day, 24, 48, 96 or 288 columns, or
    the ComEd columns) or matrix (one row per time, one column per customer). Inferred from the
    header if omitted."""
    columns: Annotated[
        Mapping[str, str],
        AfterValidator(_known_roles),
        CommandLine(option="--column", metavar="role=name"),
    ] = Field(default_factory=dict)
    """Name of the column of a role: customer, meter, stamp (or date and time), value, channel,
    quality, minutes. Inferred from the header if omitted."""
    unit: Annotated[
        MeasuredIn | None,
        CommandLine(read=_unit_named, metavar="<kWh|Wh|MWh|MJ|kW|W>"),
    ] = None
    """kWh, Wh, MWh, MJ, kW or W (mean power of the interval). Inferred from the names of columns, a
    column of units or the lines above the header if omitted; else kWh."""
    cumulative: bool = False
    """Values are registers, running totals of energy; the energy of an interval is their
    difference. Registers are recognised by their values and rejected without this option."""
    customer: str | None = None
    """Customer of all files that name none, such as the months of one home. If omitted, each file
    is a separate home, named after the file."""
    minutes: Annotated[int, Field(strict=True), AfterValidator(_allowed_minutes)] | None = None
    """Length of the intervals, in minutes. Inferred from the time stamps if omitted."""
    stamp: Stamp | None = None
    """Whether a time stamp is the start or the end of its interval. Inferred if omitted."""
    stamp_format: str | None = None
    """Format of the time stamps, as for strptime. With %z or a Z at its end they are instants;
    with any other, local time. Inferred if omitted."""
    decimal: DecimalMark | None = None
    """Decimal separator of values that are texts: point or comma. The other sign then separates
    groups of thousands. If omitted, it is inferred, and 1,500 is rejected where it may be both."""
    timezone: Annotated[
        TimeZone | None,
        CommandLine(
            parameter="stamps_in",
            help="IANA time zone of stamps without offset; that of --timezone if omitted.",
        ),
    ] = None
    """IANA time zone of stamps without offset; UTC if omitted, with a warning. A local time that
    clocks skip is dropped. One that they show twice is assigned to its first and second pass in
    turn, by order of appearance within the customer."""
    day_slots: DaySlots | None = None
    """Meaning of wide columns when clocks change: clock (local time) or elapsed (time since
    midnight; the rule for tables with 25, 50, 100 or 300 slots)."""
    period: Annotated[
        Annotated[
            tuple[dt.date, dt.date],
            AfterValidator(_possible_period),
            Rule(_PERIOD_RULE),
        ]
        | None,
        CommandLine(metavar="FIRST END"),
    ] = None
    """First day, and day after the last. Readings outside are dropped."""
    conflicts: Conflicts = Conflicts.DROP
    """Rule for different values of one interval: drop all of them, keep the first or the last to
    appear, or their mean. Before that, a measured read replaces an estimated one; equal values are
    always merged."""
    estimated: Estimated = Estimated.KEEP
    """Rule for estimated reads: keep, flag (profiles then have the share of each customer), or
    drop."""
    meters: Annotated[Path, PlainSerializer(lambda path: path.name)] | None = None
    """CSV or Parquet file with columns meter_id and customer_id: after a meter swap, several meters
    are one customer. Their rows for one interval are duplicates of each other."""
    register_rollover: Annotated[float, Field(strict=True, gt=0)] | None = None
    """Reading at which a register starts again from 0, in kWh. A fall from its last tenth to its
    first is a rollover; any other fall is a reset, and that interval is dropped."""
    words: Annotated[
        Mapping[str, str],
        AfterValidator(_known_meanings),
        CommandLine(option="--word", metavar="text=meaning"),
    ] = Field(default_factory=dict)
    """Meaning of a text in a column of channels (delivered, received, net) or qualities (valid,
    estimated, edited, raw, missing). Texts of unknown meaning are rejected if omitted."""
    skip_lines: Annotated[int, Field(strict=True, ge=0)] = 0
    """Lines of a CSV file before its header. Found automatically if omitted."""
    implausible: Implausible = Implausible.REFUSE
    """Rule for a median load above 100 kW, registers that often go backwards, intervals that
    overlap, customers of several interval lengths, a stated length that the data contradict, and
    time stamps that contradict the time zone: refuse, or accept if the data are right."""
    table: str | None = None
    """Sheet of a workbook, or table of a database file, where several may hold readings."""

    @model_validator(mode="after")
    def _check_registers(self) -> Self:
        """Check rules between fields."""
        if self.register_rollover is not None and not self.cumulative:
            rule = "omitted unless values are cumulative"
            raise InvalidParameterError("register_rollover", rule, self.register_rollover)
        if self.cumulative and self.stamp is not None:
            rule = "omitted if values are cumulative: a register read is an instant"
            raise InvalidParameterError("stamp", rule, self.stamp.value)
        if self.cumulative and self.unit in {MeasuredIn.KW, MeasuredIn.W}:
            raise InvalidParameterError("unit", "one of energy if values are cumulative", self.unit)
        return self
