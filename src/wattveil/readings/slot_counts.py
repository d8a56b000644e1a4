"""The slot calendar, and the counts of rows by customer and slot.

One small table takes the place of all arithmetic with dates: DuckDB joins readings to it. A cell is
a column of a profile. A bit is a place in the cell's record of days, so that (cell, bit) is the
interval, and a customer with more rows than bits set has two rows for one interval. The record is
split into 128-bit masks, which DuckDB aggregates quickly: a slot is one mask of one cell.

A reading has a cell if it starts at a multiple of its length on the local clock and no change of
the clocks cuts it: only its own stamp and length decide. Where lengths differ, bits stand for a
length that divides them all, and `count_rows` compares each reading with its own.

Cells below 0 are reasons against a row: a `Drop` with its sign changed, or one of the two here.
Cells from `SPECIAL` on stand for one repeated interval each (clocks back): a bit is of no use
there, since the day already has one for its first pass.

Counts are tables with the columns customer_id, slot, rows, units (`row_checks`), low_bits and
high_bits (the two halves of the slot's mask), estimated, low_channel and high_channel. `count_rows`
checks every row. Where lengths differ, a reading counts as often as the length of the calendar goes
into its own, with as many bits: its weight is its length, and no other customer has an influence.
`count_plain_rows` is for tables of customer, stamp and value. It never reads a stamp: the calendar
is written as the file writes it, and the two are compared. Whatever it does not recognise makes it
return False.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.errors import InvalidFileError
from wattveil.readings import schema
from wattveil.readings.row_checks import UNITS_PER_KWH, Drop, RowChecks, kwh_sql, units_sql
from wattveil.readings.sources import duckdb_reads
from wattveil.readings.sql_text import ident
from wattveil.readings.timestamps import DAY_US, MINUTE_US, Instants, instants, offsets

if TYPE_CHECKING:  # `readings` calls these functions
    from wattveil.readings.readings import Readings

STRADDLES = 50  # lies in two cells
OUTSIDE_WINDOW = 51  # the calendar is too short; a longer one is needed
SPECIAL = 1 << 28
MASK_BITS = 128
_HALVES = (
    f"({{mask}} & {(1 << 64) - 1})::UBIGINT AS low_bits, ({{mask}} >> 64)::UBIGINT AS high_bits"
)
_LOWEST_CELL = -60


class CellGrid(Protocol):
    """Assigns local times to cells, such as the columns of a profile."""

    @property
    def minutes(self) -> int:
        """Length of a cell; a reading fits if its own length divides it."""

    @property
    def cells(self) -> int:
        """Number of cells."""

    def cell_of(self, local_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell of each local time, in microseconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class CalendarFrame:
    """Time zone, grid, reading length and days of a calendar.

    ``days`` are the local days (counted from 1970) that have a bit; they are in order.
    """

    grid: CellGrid
    zone: str
    minutes: int  # of the readings; if they differ, a length that divides theirs
    days: NDArray[np.int64]
    period_us: tuple[int, int] | None

    @property
    def aligned_us(self) -> int:
        """Common divisor of all valid stamps: offsets from UTC are multiples of 15 minutes."""
        return math.gcd(self.minutes, 15) * MINUTE_US

    @cached_property
    def block_us(self) -> int:
        """Distance of the stamps in a calendar. The longer, the quicker the join.

        A whole interval, unless the zone's clocks are apart from UTC by a part of it. With a period
        every stamp has its own, so that those outside are distinguished from those in two cells.
        """
        if self.period_us is not None:
            return self.aligned_us
        first_us, last_us = int(self.days[0]) * DAY_US, int(self.days[-1]) * DAY_US
        apart_us = offsets(self.zone, first_us, last_us).offsets_us.tolist()
        return math.gcd(self.minutes * MINUTE_US, *apart_us)

    @property
    def bits_per_day(self) -> int:
        """Readings of one cell on one day."""
        return self.grid.minutes // self.minutes

    @property
    def masks(self) -> int:
        """Number of masks in a cell's record."""
        return -(-self.days.size * self.bits_per_day // MASK_BITS)


@dataclass(frozen=True)
class Calendar:
    """Cells and bits of consecutive stamps, from ``first_us`` on.

    ``minutes_of_day`` are the local ones, and ``steady_minutes`` is how long the clocks then go on
    without a change. ``special_cells`` are the true cells of those from `SPECIAL` on, and
    ``special_rows`` is how many rows each of these may hold. ``special_bits`` are their bits where
    rows stand for the first pass too, else -1.
    """

    frame: CalendarFrame
    first_us: int
    cells: NDArray[np.int64]
    bits: NDArray[np.int64]
    minutes_of_day: NDArray[np.int64]
    steady_minutes: NDArray[np.int64]
    special_cells: NDArray[np.int64]
    special_bits: NDArray[np.int64]
    special_rows: int

    @property
    def end_us(self) -> int:
        """The first stamp after the last."""
        return self.first_us + self.cells.size * self.frame.block_us

    def to_arrow(self) -> pa.Table:
        """Return the table to join with, reasons included.

        Columns: key, the place of a stamp, or a reason; stamp_us, NULL for reasons; slot; bit, the
        place in its mask; minute_of_day and steady_minutes. Reasons and repeated intervals are
        slots as they are, with bit -1.
        """
        reasons = np.arange(_LOWEST_CELL, 0)
        none = np.full(reasons.size, -1)
        plain = (self.cells >= 0) & (self.cells < SPECIAL)
        slots = np.where(plain, self.cells * self.frame.masks + self.bits // MASK_BITS, self.cells)
        bits = np.where(plain, self.bits % MASK_BITS, -1)
        places = np.arange(self.cells.size)
        stamps_us = pa.array(self.first_us + places * self.frame.block_us)
        return pa.table(
            {
                "key": pa.array(np.concatenate([reasons, places]), pa.int32()),
                "stamp_us": pa.concat_arrays([pa.nulls(reasons.size, pa.int64()), stamps_us]),
                "slot": pa.array(np.concatenate([reasons, slots]), pa.int32()),
                "bit": pa.array(np.concatenate([none, bits]), pa.int32()),
                "minute_of_day": pa.array(np.concatenate([none, self.minutes_of_day]), pa.int32()),
                "steady_minutes": pa.array(np.concatenate([none, self.steady_minutes]), pa.int32()),
            }
        )


def calendar_of_instants(frame: CalendarFrame, *, late_us: int = 0) -> Calendar:
    """Make the calendar for stamps that are instants, ``late_us`` after their starts."""
    first_us = _aligned(int(frame.days[0]) * DAY_US - DAY_US, frame)
    end_us = _aligned(int(frame.days[-1]) * DAY_US + 2 * DAY_US, frame)
    stamps_us = np.arange(first_us, end_us, frame.block_us, dtype=np.int64) + late_us
    starts_us = stamps_us - late_us
    local_us = starts_us + offsets(frame.zone, first_us, end_us).at(starts_us)
    shown = instants(frame.zone, local_us)
    again = (shown.times > 1) & (shown.second_us == starts_us)
    first_us = int(stamps_us[0])
    return _calendar(frame, first_us, starts_us, local_us, shown, special=again, special_rows=1)


def calendar_of_clock(frame: CalendarFrame) -> Calendar:
    """Make the calendar for stamps that are starts on the clock of the frame's own zone."""
    first_us = _aligned(int(frame.days[0]) * DAY_US, frame)
    end_us = _aligned(int(frame.days[-1]) * DAY_US + DAY_US, frame)
    local_us = np.arange(first_us, end_us, frame.block_us, dtype=np.int64)
    shown = instants(frame.zone, local_us)
    starts_us, twice = shown.first_us, shown.times > 1
    made = _calendar(frame, first_us, starts_us, local_us, shown, special=twice, special_rows=2)
    made.cells[shown.times == 0] = -Drop.SPRING_GAP
    return made


def _calendar(
    frame: CalendarFrame,
    first_us: int,
    starts_us: NDArray[np.int64],
    local_us: NDArray[np.int64],
    shown: Instants,
    *,
    special: NDArray[np.bool_],
    special_rows: int,
) -> Calendar:
    cells = frame.grid.cell_of(local_us)
    true_cells = cells[special]
    cells[special] = SPECIAL + np.arange(true_cells.size)
    day = np.searchsorted(frame.days, local_us // DAY_US)
    has_day = frame.days[np.minimum(day, frame.days.size - 1)] == local_us // DAY_US
    minute = local_us % DAY_US // MINUTE_US
    bits = day * frame.bits_per_day + minute % frame.grid.minutes // frame.minutes
    steady = _steady_minutes(frame.zone, shown)
    cells[(minute % frame.minutes != 0) | (steady < frame.minutes)] = -STRADDLES
    cells[~has_day] = -OUTSIDE_WINDOW
    if frame.period_us is not None:
        begin, end = frame.period_us
        cells[(starts_us < begin) | (starts_us >= end)] = -Drop.OUTSIDE_PERIOD
    special_bits = bits[special] if special_rows > 1 else np.full(true_cells.size, -1)
    bits[(cells < 0) | (cells >= SPECIAL)] = 0
    return Calendar(
        frame, first_us, cells, bits, minute, steady, true_cells, special_bits, special_rows
    )


def _steady_minutes(zone: str, shown: Instants) -> NDArray[np.int64]:
    """Return for how long local times go on steadily: the shorter of both passes of a repeated."""
    known = offsets(zone, int(shown.first_us.min()), int(shown.second_us.max()))
    steady_us = np.minimum(known.steady_us(shown.first_us), known.steady_us(shown.second_us))
    return steady_us // MINUTE_US


def _aligned(local_us: int, frame: CalendarFrame) -> int:
    return local_us // frame.block_us * frame.block_us


def count_rows(readings: "Readings", target: str, checks: RowChecks, calendar: Calendar) -> None:
    """Group rows by customer and slot."""
    source = readings.source.rows
    low, high = ("min(channel)", "max(channel)") if source.has_channels else ("0", "0")
    estimated = "0"
    if source.has_qualities:
        estimated = f"count(*) FILTER (WHERE quality >= {schema.FIRST_ESTIMATED})"
    block_us, first_us = calendar.frame.block_us, calendar.first_us
    beyond = OUTSIDE_WINDOW if calendar.frame.period_us is None else Drop.OUTSIDE_PERIOD
    several = len(readings.lengths) > 1
    _add_calendar(readings, calendar)
    readings.connection.execute(f"""
        CREATE OR REPLACE TABLE {ident(target)} AS
        WITH placed AS (
            SELECT {checks.customer} AS customer_id, {units_sql(checks.kwh)} AS units,
                   channel, quality, {"minutes," if several else ""}
                   CASE WHEN {checks.passes}
                             AND stamp_us BETWEEN {first_us} AND {calendar.end_us - 1}
                             AND (stamp_us - {first_us}) % {block_us} = 0
                        THEN (stamp_us - {first_us}) // {block_us}
                        WHEN ({checks.passes}) IS NOT TRUE THEN -({checks.reason})
                        WHEN stamp_us % {calendar.frame.aligned_us} <> 0 THEN {-Drop.OFF_GRID}
                        WHEN stamp_us BETWEEN {first_us} AND {calendar.end_us - 1}
                        THEN {-STRADDLES}
                        ELSE {-beyond}
                   END::INTEGER AS key
            FROM {checks.source}
        )
        SELECT customer_id, slot, count(*) AS rows, sum(units) AS units,
               {_HALVES.format(mask="bit_or(mask)")},
               {estimated} AS estimated,
               {low} AS low_channel, {high} AS high_channel
        FROM {_split(calendar) if several else "placed JOIN calendar USING (key)"}
        GROUP BY customer_id, slot
    """)


def _split(calendar: Calendar) -> str:
    """Write the rows ``placed`` with a row for each bit of theirs; the first has all the energy."""
    return f"""(
        SELECT customer_id, channel, quality,
               CASE WHEN part = 0 THEN units ELSE 0 END AS units,
               CASE WHEN NOT fits THEN {-STRADDLES}
                    WHEN bit < 0 THEN slot
                    ELSE slot + (bit + part) // {MASK_BITS} END AS slot,
               CASE WHEN fits AND bit >= 0 THEN {_mask(f"(bit + part) % {MASK_BITS}")}
                    ELSE 0 END AS mask
        FROM (
            SELECT *,
                   slot < 0 OR minute_of_day % minutes = 0 AND minutes <= steady_minutes AS fits,
                   CASE WHEN fits AND slot >= 0 THEN minutes // {calendar.frame.minutes}
                        ELSE 1 END AS parts,
                   unnest(range(parts)) AS part
            FROM placed JOIN calendar USING (key)
        )
    )"""


def _mask(bit: str) -> str:
    return f"1::UHUGEINT << ({bit})::UHUGEINT"


def count_plain_rows(readings: "Readings", target: str, calendar: Calendar) -> bool:
    """Count the rows of a plain table, several times faster; return whether that was possible."""
    rows, frame = readings.source.rows, calendar.frame
    plain = rows.plain_sql()
    if plain is None or frame.period_us is not None or readings.source.options.meters:
        return False
    _add_calendar(readings, calendar)
    low = _low_bits(calendar)
    readings.connection.execute(f"""
        CREATE OR REPLACE TABLE written AS
        SELECT {rows.stamp.writes} AS as_written, {low} AS low, slot, mask, stamp_us
        FROM calendar WHERE key >= 0
    """)
    # If each stamp is read back unchanged, no two are written alike, and the join adds no row. The
    # reader wants the column under its own name, which may be any.
    named = (
        f'SELECT as_written AS {ident(plain.stamp)}, stamp_us AS "stamp as written" FROM written'
    )
    if _exists(
        readings, f'FROM ({named}) WHERE ({rows.stamp.sql}) IS DISTINCT FROM "stamp as written"'
    ):
        return False
    kwh = kwh_sql(readings.source.unit, f"{frame.minutes}::SMALLINT")
    max_units = schema.MAX_KW * frame.minutes * UNITS_PER_KWH // 60
    try:
        with duckdb_reads(readings.files):
            lookup: _Lookup | None = _by_text(units_sql(kwh), max_units)
            if rows.stamp.typed:
                lookup = _by_low_bits(readings, plain.sql, calendar, kwh, max_units)
            if lookup is None:
                return False
            readings.connection.execute(f"""
                CREATE OR REPLACE TABLE {ident(target)} AS
                SELECT customer::VARCHAR AS customer_id, slot, rows, units,
                       {_HALVES.format(mask="mask")},
                       0 AS estimated, 0 AS low_channel, 0 AS high_channel
                FROM (
                    SELECT customer, slot, count(*) AS rows, {lookup.total} AS units,
                           bit_or(mask) AS mask
                    FROM (
                        SELECT customer, units, {lookup.slot} AS slot, mask
                        FROM (
                            SELECT customer, {lookup.field}, {lookup.units} AS units
                            FROM (SELECT * REPLACE (value::DOUBLE AS value) FROM ({plain.sql}))
                        ) {lookup.join}
                    )
                    GROUP BY customer, slot
                )
            """)
    except InvalidFileError:  # a field is not of its type; the other pass finds out which
        return False
    unreadable = "slot IS NULL OR customer_id IS NULL OR customer_id = ''"
    blanks = "customer_id <> trim(customer_id)"
    too_much = "slot >= 0 AND isfinite(units) IS NOT TRUE"
    return not _exists(
        readings, f"FROM {ident(target)} WHERE {unreadable} OR {blanks} OR {too_much}"
    )


# A value that is missing has a reason of its own, unless its stamp is unknown.
_SLOT = f"CASE WHEN units IS NULL AND slot IS NOT NULL THEN {-Drop.NO_VALUE} ELSE slot END"


@dataclass(frozen=True)
class _Lookup:
    """SQL of the lookup of a row's slot by ``field``, of its energy, and of the sum in a slot."""

    field: str
    join: str
    units: str
    slot: str = _SLOT
    total: str = "sum(units)"


def _by_text(units: str, max_units: int) -> _Lookup:
    """Compare texts. There is one scan, so each slot computes its largest value."""
    join = "LEFT JOIN written ON stamp = as_written"
    total = f"CASE WHEN max(abs(units)) < {max_units} THEN sum(units) END"
    return _Lookup("stamp", join, units, total=total)


# Where every row is below this, sums of kWh rounded to whole units of 1e-7 give the same total as
# sums of units. A slot without duplicates has at most n = 128 rows of at most u units, and its sum
# in floating point is off by at most (n + 1) 2^-53 n u units, 0.19 for u = 1e11: rounded, it is
# exact. DuckDB works `round(kwh, 7)` out once for each entry of a Parquet dictionary; it does not
# for two nested functions.
_MAX_UNITS_OF_KWH = 100_000_000_000
_UNIT_DECIMALS = round(math.log10(UNITS_PER_KWH))


def _by_low_bits(
    readings: "Readings", plain: str, calendar: Calendar, kwh: str, max_units: int
) -> _Lookup | None:
    """Join by low bits what is no text; values are checked before, mostly from statistics.

    None if a stamp is not in the calendar, or a value is too large.
    """
    largest, value_missing, stamp_missing = readings.connection.execute(f"""
        SELECT max(abs({units_sql(kwh)})), bool_or(value_missing), bool_or(stamp_missing)
        FROM (
            SELECT unnest([lowest, highest])::DOUBLE AS value, value_missing, stamp_missing
            FROM (
                SELECT min(value) AS lowest, max(value) AS highest,
                       count(value) < count(*) AS value_missing,
                       count(stamp) < count(*) AS stamp_missing
                FROM ({plain})
            )
        )
    """).fetchall()[0]
    too_large = largest is not None and largest >= max_units
    if too_large or stamp_missing or not _all_in_calendar(readings, calendar):
        return None
    units, total = units_sql(kwh), "sum(units)"
    if largest is not None and largest < _MAX_UNITS_OF_KWH:
        units, total = f"round({kwh}, {_UNIT_DECIMALS})", units_sql("sum(units)")
    slot = _SLOT if value_missing else "slot"
    return _Lookup(f"{_low_bits(calendar)} AS low", "JOIN written USING (low)", units, slot, total)


def _all_in_calendar(readings: "Readings", calendar: Calendar) -> bool:
    """Return whether every stamp is one of the calendar: between first and last, and on its grid.

    The filter stands on the scan itself, with nothing between: so DuckDB works it out once for each
    entry of a Parquet dictionary, not for each row.
    """
    rows, block_us = readings.source.rows, calendar.frame.block_us
    query = rows.range_sql()
    if query is None:
        return False
    first_us, last_us = readings.connection.execute(query).fetchall()[0]
    if first_us is None or first_us < calendar.first_us or last_us >= calendar.end_us:
        return False
    off_grid = f"({rows.stamp.sql}) % {block_us} <> {calendar.first_us % block_us}"
    return not _exists(readings, f"FROM {rows.scan.sql} WHERE {off_grid}")


def _low_bits(calendar: Calendar) -> str:
    """Write bits of stamp_us that are different for all stamps of the calendar.

    Stamps are consecutive multiples of 2^zeros times an odd number, so 2^n of them differ in the n
    bits above the zeros. DuckDB works bit operations out once for each entry of a Parquet
    dictionary, not for each row, and has a quick way of joining small whole numbers.
    """
    zeros = (calendar.frame.block_us & -calendar.frame.block_us).bit_length() - 1
    return f"((stamp_us >> {zeros}) & {(1 << calendar.cells.size.bit_length()) - 1})"


def _add_calendar(readings: "Readings", calendar: Calendar) -> None:
    readings.connection.register("calendar_made", calendar.to_arrow())
    readings.connection.execute(f"""
        CREATE OR REPLACE TABLE calendar AS
        SELECT *, CASE WHEN bit < 0 THEN 0 ELSE {_mask("bit")} END AS mask
        FROM calendar_made
    """)
    readings.connection.unregister("calendar_made")


def _exists(readings: "Readings", rest: str) -> bool:
    return bool(readings.connection.execute(f"SELECT 1 {rest} LIMIT 1").fetchall())
