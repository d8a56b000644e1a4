"""Checks of single rows, reasons for dropping or merging a row, and the report of every row.

What takes more than one row (duplicates, registers, channels, the repeated hour) is in `reconcile`.

Energy is summed in whole units. Floating-point sums depend on the order of rows, and so, by their
last bits, on the other customers in the file; sums of whole numbers do not. A reading is rounded to
the nearest 1e-7 kWh (a third of a joule, below the resolution of any meter), and sums are exact as
long as they do not overflow.

They never do. A load beyond a gigawatt is dropped with its reason, so that a reading is at most
1e13 units, and 2e13 when two channels are netted. A slot of the calendar sums at most 128 readings
in a double: 128 * 2e13 < 2^53. A cell of a profile sums in 64 bits the hours of at most 110 years:
110 * 366 * 2e13 < 2^63.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from rich.table import Table

from wattveil.readings import schema
from wattveil.readings.options import (
    ASSUMED_KWH,
    ASSUMED_UTC,
    NAMED_BY_FILE,
    NUMBERED_FILES,
    OTHER_THAN_NAMED,
    OTHER_UNIT,
    REPLACED_FORMAT,
    UNREAD_DIRECTION,
    UNSURE_START,
    Estimated,
    MeasuredIn,
    ReadOptions,
)
from wattveil.readings.schema import EARLIEST_YEAR, LATEST_YEAR, MAX_KW, MINUTES_TEXT
from wattveil.readings.sql_text import one_of
from wattveil.readings.timestamps import MINUTE_US
from wattveil.terminal import plain
from wattveil.web.formatting import format_count, format_share
from wattveil.web.results import PrivateResult, ResultTable, records_table

if TYPE_CHECKING:  # loads DuckDB, which comes with an extra
    from wattveil.readings.formats.table import TableRows

CONTRADICTED = "stated interval length contradicted by time stamps, which are used instead"
_MAX_UNREAD = 0.01  # share of rows without a warning
_MAX_EQUAL = 0.1
_MAX_MISPLACED = 0.5 / (24 * 365.25)
"""Half of the share of an hour in a year: stamps of another zone have one such hour per year."""


class Drop(IntEnum):
    """Reason why a row is not in the table; the order is that of the checks."""

    NO_CUSTOMER = 1
    UNMAPPED_METER = 2
    BAD_STAMP = 3
    IMPOSSIBLE_YEAR = 4
    EMPTY_SLOT_BEYOND_DAY = 5
    VALUE_BEYOND_DAY = 6
    MARKED_MISSING = 7
    NO_VALUE = 8
    BAD_VALUE = 9
    NOT_FINITE = 10
    BAD_MINUTES = 11
    IMPOSSIBLE_LOAD = 12
    UNKNOWN_CHANNEL = 13
    ESTIMATED = 14
    SPRING_GAP = 15
    OFF_GRID = 16
    OUTSIDE_PERIOD = 17
    CONFLICT = 18
    FIRST_REGISTER_READ = 19
    REGISTER_GAP = 20
    REGISTER_RESET = 21
    SUPERSEDED_BY_NET = 22

    @property
    def text(self) -> str:
        """The reason as reports print it."""
        return _DROP_TEXTS[self]


_DROP_TEXTS = {
    Drop.NO_CUSTOMER: "no customer id",
    Drop.UNMAPPED_METER: "meter is not in the list of meters",
    Drop.BAD_STAMP: "unreadable time stamp",
    Drop.IMPOSSIBLE_YEAR: f"year outside {EARLIEST_YEAR}-{LATEST_YEAR}",
    Drop.EMPTY_SLOT_BEYOND_DAY: "empty slot beyond the end of its day",
    Drop.VALUE_BEYOND_DAY: "value beyond the end of its day",
    Drop.MARKED_MISSING: "marked as missing",
    Drop.NO_VALUE: "no value",
    Drop.BAD_VALUE: "value is not a number",
    Drop.NOT_FINITE: "value is not finite",
    Drop.BAD_MINUTES: f"interval length is not {MINUTES_TEXT}",
    Drop.IMPOSSIBLE_LOAD: f"load beyond {MAX_KW:,} kW",
    Drop.UNKNOWN_CHANNEL: "unknown channel",
    Drop.ESTIMATED: "estimated",
    Drop.SPRING_GAP: "local time that does not exist (clocks forward)",
    Drop.OFF_GRID: "time stamp is not on the interval grid",
    Drop.OUTSIDE_PERIOD: "outside the period",
    Drop.CONFLICT: "conflicting duplicates",
    Drop.FIRST_REGISTER_READ: "first register read (no earlier value to subtract)",
    Drop.REGISTER_GAP: "register read after a gap",
    Drop.REGISTER_RESET: "register went backwards",
    Drop.SUPERSEDED_BY_NET: "superseded by the net channel",
}


class Merge(StrEnum):
    """Reason why a row was merged into another row of the table."""

    EQUAL = "equal duplicate"
    BETTER = "replaced by a better read of the interval"
    RESOLVED = "conflicting duplicate, resolved by the rule"
    NETTED = "delivered and received, netted"
    ADDED = "added to another register of the same direction"


class Note(StrEnum):
    """Assumption about, or repair of, a row that was kept."""

    AMBIGUOUS_PAIR = "repeated hour (clocks back), assigned by order of appearance"
    AMBIGUOUS_SINGLE = "repeated hour (clocks back) read once, taken as its first pass"
    ESTIMATED = "estimated, kept"
    ROLLOVER = "register rolled over"
    SPREAD = "energy between two register reads, spread over the intervals without a read"
    UNPAIRED = "missing channel (import or export) counted as 0"


_KEPT_NOTES = frozenset(map(str, Note))


@dataclass(frozen=True, kw_only=True, repr=False)  # counts are exact
class ReadingReport(PrivateResult):
    """Counts of the rows read, kept, dropped and merged, with reasons and inferred options.

    Always ``rows_in == rows_out + sum(dropped) + sum(merged)``; making a report that does not
    balance raises. A row is one reading: a wide row of 48 slots counts 48 times.

    Attributes
    ----------
    dropped, merged
        Rows that are not in the table, and rows that became part of another, by reason.
    notes
        Rows that stayed, but needed an assumption or a repair, by kind; and `remarks`.
    assumptions
        Options that were not given and were inferred from the data.
    options
        The rules as given.
    """

    files: tuple[str, ...]
    rows_in: int
    rows_out: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    merged: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject counts that do not balance."""
        accounted = self.rows_out + sum(self.dropped.values()) + sum(self.merged.values())
        if accounted != self.rows_in:
            raise AssertionError(f"{self.rows_in} rows came in, {accounted} are accounted for")

    def plus(self, other: "ReadingReport") -> "ReadingReport":
        """Return the sum of both reports, with the files and options of this one."""
        return replace(
            self,
            rows_in=self.rows_in + other.rows_in,
            rows_out=self.rows_out + other.rows_out,
            dropped=dict(Counter(self.dropped) + Counter(other.dropped)),
            merged=dict(Counter(self.merged) + Counter(other.merged)),
            notes=dict(Counter(self.notes) + Counter(other.notes)),
        )

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values. Counts are exact: internal only."""
        return {
            "files": list(self.files),
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "dropped": dict(self.dropped),
            "merged": dict(self.merged),
            "notes": dict(self.notes),
            "assumptions": list(self.assumptions),
            "options": dict(self.options),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "ReadingReport":
        """Read a report from its JSON values."""
        files, assumptions = tuple(record["files"]), tuple(record["assumptions"])
        return cls(**{**record, "files": files, "assumptions": assumptions})

    @property
    def loses_stamps(self) -> bool:
        """Whether so many rows have an unreadable time stamp that a format may be unknown."""
        return self.dropped.get(Drop.BAD_STAMP.text, 0) > _MAX_UNREAD * self.rows_in

    @property
    def warnings(self) -> tuple[str, ...]:
        """Assumptions that may be wrong for most users of such data, and lost time stamps."""
        remedies = {
            REPLACED_FORMAT: (
                "rows that the format leaves out are kept. Omit --layout, --column, --stamp-format"
                " and --skip-lines to apply its rules"
            ),
            ASSUMED_UTC: "state it, such as --timezone Europe/Berlin",
            UNREAD_DIRECTION: (
                "a table of readings has one value per row. To read both directions, pass them as"
                " rows with a column 'channel' (delivered, received), such as by --sql"
            ),
            OTHER_UNIT: "check it, and read files of each --unit separately",
            OTHER_THAN_NAMED: "check --unit",
            UNSURE_START: "state --stamp start or --stamp end",
            ASSUMED_KWH: "state it, such as --unit kWh",
            NUMBERED_FILES: "state --customer NAME if all are of one home",
        }
        found = [
            f"{assumption}; {remedy}"
            for part, remedy in remedies.items()
            for assumption in self.assumptions
            if part in assumption
        ]
        if contradicted := self.notes.get(CONTRADICTED):
            found.append(
                f"stated interval length contradicted by time stamps:"
                f" {format_count(contradicted, 'reading')}; their lengths are the time between"
                " rows. State --minutes if that is wrong"
            )
        if self.loses_stamps:
            unread = self.dropped[Drop.BAD_STAMP.text]
            share = format_share(unread / self.rows_in, 0)
            found.append(
                f"{format_count(unread, 'row')} ({share}) dropped because of a time stamp in"
                " another format than the others; --problems-to FILE lists them"
            )
        return (*found, *self._of_many_rows())

    def _of_many_rows(self) -> Iterator[str]:
        """Yield what so many rows share that it is a fault of the export or of an option."""
        texts = self.dropped.get(Drop.BAD_VALUE.text, 0)
        if texts > _MAX_UNREAD * self.rows_in:
            share = format_share(texts / self.rows_in, 0)
            yield (
                f"{format_count(texts, 'row')} ({share}) dropped because the value is not a number;"
                " check --column value=NAME. --problems-to FILE lists them"
            )
        skipped = self.dropped.get(Drop.SPRING_GAP.text, 0)
        if skipped > _MAX_MISPLACED * self.rows_in:
            number, are = format_count(skipped, "reading"), "is" if skipped == 1 else "are"
            yield (
                f"{number} {are} in an hour that does not exist in {self.options.get('timezone')}."
                " If the stamps are in UTC or another zone, add --stamps-in UTC"
            )
        conflicts = self.dropped.get(Drop.CONFLICT.text, 0)
        if conflicts > _MAX_MISPLACED * self.rows_in:
            found = (
                f"{format_count(conflicts, 'row')} dropped as conflicting duplicates: different"
                " values for one interval."
            )
            if NAMED_BY_FILE in self.assumptions and conflicts > self.rows_in / 2:
                yield (
                    f"{found} No column names the customer, so each file is read as one home. If"
                    " it has several, name their column: --column customer=NAME"
                )
            else:
                yield (
                    f"{found} If all are in an hour in which clocks change, check --timezone. For"
                    " all others, --conflicts sets the rule"
                )
        equal = self.merged.get(Merge.EQUAL, 0)
        if equal > _MAX_EQUAL * self.rows_in:
            share = format_share(equal / self.rows_in, 0)
            yield (
                f"{format_count(equal, 'row')} ({share}) are equal duplicates, merged; check"
                " whether the export has readings twice"
            )

    def lines(self) -> list[tuple[str, int]]:
        """Return the report as texts and counts, the rows read first."""
        found = [("read", self.rows_in)]
        for kind, counts in (("dropped", self.dropped), ("merged", self.merged)):
            ordered = sorted(counts.items(), key=lambda item: -item[1])
            found += [(f"{kind}: {reason}", rows) for reason, rows in ordered]
        found.append(("kept", self.rows_out))
        kept = ((note, rows) for note, rows in self.notes.items() if note in _KEPT_NOTES)
        found += [(f"of these: {note}", rows) for note, rows in kept]
        return found + [(f"in the source: {note}", count) for note, count in self.remarks.items()]

    @property
    def remarks(self) -> Mapping[str, int]:
        """Notes about files and rows as they are in the source: they do not count kept rows."""
        return {note: count for note, count in self.notes.items() if note not in _KEPT_NOTES}

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        records = [{"rule": text, "rows": rows} for text, rows in self.lines()]
        return {"report": lambda: records_table(records, "rule")}

    def table(self) -> Table:
        """Return the report as a table for the screen, without `remarks`."""
        table = Table("", "rows", "share", title="Readings", title_justify="left")
        table.columns[1].justify = table.columns[2].justify = "right"
        for label, rows in self.lines()[: -len(self.remarks) or None]:
            table.add_row(plain(label), f"{rows:,}", format_share(rows / max(self.rows_in, 1), 2))
        return table


_BLANK = r"(?i)\s*(|null|na|n/a|nan|none|-|--)\s*"


@dataclass(frozen=True)
class RowChecks:
    """Expressions over the rows of ``source``.

    Nearly all rows pass, so ``passes`` is evaluated first and ``reason`` only for the others, where
    it costs nothing.
    """

    source: str  # with columns stamp_us, minutes, channel, quality
    customer: str
    kwh: str
    passes: str
    reason: str
    has_registers: bool = False

    def sql(self, *, in_order: bool = False) -> str:
        """Write the SELECT of checked rows.

        Columns: customer_id, meter, stamp_us, kwh, minutes, channel, quality, reason (0: may stay),
        written, and source_row when ``in_order``.
        """
        return f"""
            SELECT {self.customer} AS customer_id, meter, stamp_us, {self.kwh} AS kwh, minutes,
                   channel, quality, {"register," if self.has_registers else ""}
                   CASE WHEN {self.passes} THEN 0 ELSE {self.reason} END::TINYINT AS reason,
                   {"source_row," if in_order else ""}
                   written
            FROM {self.source}
        """


def check_rows(
    rows: "TableRows", unit: MeasuredIn, options: ReadOptions, *, in_order: bool = False
) -> RowChecks:
    """Return the checks of the rows of a source."""
    source, customer = f"({rows.sql(in_order=in_order)})", "customer"
    if options.meters is not None:
        customer = "meters.customer_id"
        source = f"{source} LEFT JOIN meters ON meters.meter_id = meter"
    kwh = kwh_sql(unit, "minutes")
    # The state of a register is no load yet: `reconcile` checks its differences.
    possible = "isfinite(value)"
    if not rows.cumulative:
        possible = possible_load(kwh, "minutes")
    if rows.has_channels and not rows.cumulative:
        # Senders write received energy with either sign; here it is negative load.
        kwh = f"CASE WHEN channel = {schema.RECEIVED} THEN -abs({kwh}) ELSE {kwh} END"
    passes = _passes_sql(rows, options, customer, possible)
    reason = _reason(customer, possible)
    return RowChecks(source, customer, kwh, passes, reason, rows.has_registers)


def _passes_sql(rows: "TableRows", options: ReadOptions, customer: str, possible: str) -> str:
    tests = [f"{customer} <> ''", _in_possible_year(), possible]
    if rows.has_days:
        tests.append("NOT beyond_day")
    if rows.minutes is None:
        tests.append(one_of("minutes", schema.ALLOWED_MINUTES))
    if rows.has_channels:
        tests.append("channel IS NOT NULL")
    if rows.has_qualities:
        drops_estimated = options.estimated is Estimated.DROP
        worst = schema.FIRST_ESTIMATED if drops_estimated else schema.MISSING
        tests.append(f"quality < {worst}")
    return " AND ".join(tests)


def _reason(customer: str, possible: str) -> str:
    """Write the CASE that finds the first reason against a row that does not pass."""
    return f"""
        CASE WHEN customer IS NULL OR customer = '' THEN {Drop.NO_CUSTOMER}
             WHEN {customer} IS NULL THEN {Drop.UNMAPPED_METER}
             WHEN stamp_us IS NULL THEN {Drop.BAD_STAMP}
             WHEN NOT {_in_possible_year()} THEN {Drop.IMPOSSIBLE_YEAR}
             WHEN beyond_day AND value IS NULL THEN {Drop.EMPTY_SLOT_BEYOND_DAY}
             WHEN beyond_day THEN {Drop.VALUE_BEYOND_DAY}
             WHEN quality = {schema.MISSING} THEN {Drop.MARKED_MISSING}
             WHEN value_written IS NULL OR regexp_full_match(value_written::VARCHAR, '{_BLANK}')
                 THEN {Drop.NO_VALUE}
             WHEN value IS NULL THEN {Drop.BAD_VALUE}
             WHEN NOT isfinite(value) THEN {Drop.NOT_FINITE}
             WHEN {one_of("minutes", schema.ALLOWED_MINUTES)} IS NOT TRUE THEN {Drop.BAD_MINUTES}
             WHEN NOT {possible} THEN {Drop.IMPOSSIBLE_LOAD}
             WHEN channel IS NULL THEN {Drop.UNKNOWN_CHANNEL}
             ELSE {Drop.ESTIMATED}
        END
    """


def _in_possible_year() -> str:
    first, end = (
        int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) // 60 * MINUTE_US
        for year in (schema.EARLIEST_YEAR, schema.LATEST_YEAR + 1)
    )
    return f"(stamp_us BETWEEN {first} AND {end - 1})"


UNITS_PER_KWH = 10_000_000


def kwh_sql(unit: MeasuredIn, minutes: str) -> str:
    """Write the energy of a column ``value`` in kWh; that of a register is its state."""
    return {
        MeasuredIn.KWH: "value",
        MeasuredIn.WH: "value / 1000",
        MeasuredIn.MWH: "value * 1000",
        MeasuredIn.MJ: "value / 3.6",
        MeasuredIn.W: f"value * {minutes} / 60000",
        MeasuredIn.KW: f"value * {minutes} / 60",
    }[unit]


def possible_load(energy: str, minutes: str) -> str:
    """Write the test that a load is at most `MAX_KW`; NaN and infinity fail it."""
    return f"(abs({energy}) * 60 <= {MAX_KW}::DOUBLE * {minutes})"


def units_sql(energy: str) -> str:
    """Write the whole units of an energy in kWh, as a double."""
    return f"round(({energy}) * {UNITS_PER_KWH}::DOUBLE)"
