"""From readings to cells: one pass over all rows, and a second look where rows collide.

The pass of `counting` groups by customer and slot of the calendar: how many rows, how much energy,
and which intervals (a bit each). A customer with more rows than bits has duplicates; one with
several channels has intervals to net. Only these go the exact road of `ingest.settle`, and come
back to the same table.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.errors import NoUsableReadingError
from wattveil.ingest import schema
from wattveil.ingest.judge import Judgement
from wattveil.ingest.options import MeasuredIn
from wattveil.ingest.readings import Readings
from wattveil.ingest.report import IngestReport
from wattveil.ingest.schema import Drop, Merge, Note
from wattveil.ingest.sources import duckdb_reads
from wattveil.ingest.zones import DAY_US, MINUTE_US
from wattveil.profiles.calendar import (
    OUTSIDE_WINDOW,
    SPECIAL,
    STRADDLES,
    WORD_BITS,
    Calendar,
    Frame,
    calendar_of_clock,
    calendar_of_instants,
)
from wattveil.profiles.counting import count_plain_rows, count_rows
from wattveil.profiles.grid import Grid

_LONG_YEARS_US = 10 * 366 * DAY_US  # a longer stretch is rather a clock that was never set
_MARGIN_US = 800 * DAY_US  # days that do not occur cost next to nothing
_SAMPLE_ROWS = 50_000


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The table ``cells`` of the readings' connection, and what it was made with.

    `counting` says what its columns are. ``straddling`` and ``unfit`` are rows of the table of
    readings that no cell could take.
    """

    readings: Readings  # owns the connection
    frame: Frame
    special_cells: NDArray[np.int64]
    special_bits: NDArray[np.int64]
    report: IngestReport
    customers: int  # named in the source
    straddling: int
    unfit: int


def make_cells(readings: Readings, grid: Grid, zone: str) -> Cells:
    """Fill the cells of every customer."""
    if _takes_one_pass(readings, zone):
        return _one_pass(readings, grid, zone)
    return _settled_first(readings, grid, zone)


def _takes_one_pass(readings: Readings, zone: str) -> bool:
    """Tell whether rows can be counted before they are settled.

    Not if energy is a difference of rows, if lengths differ, or if the repeated hour of a local
    clock has to be told apart: its two passes share a cell only when they are starts in this zone.
    """
    source = readings.source
    told_apart = readings.clock is not None and (readings.clock != zone or source.rows.end_stamped)
    return (
        source.unit is not MeasuredIn.REGISTER
        and len(source.lengths) == 1
        and source.problems_to is None
        and not told_apart
    )


def _one_pass(readings: Readings, grid: Grid, zone: str) -> Cells:
    minutes = readings.source.lengths[0]
    late_us = minutes * MINUTE_US if readings.source.rows.end_stamped else 0
    days, plain = _likely_days(readings), True
    while True:
        frame = Frame(
            grid=grid, zone=zone, minutes=minutes, days=days, period_us=readings.period_us()
        )
        if readings.clock is None:
            calendar = calendar_of_instants(frame, late_us=late_us)
        else:
            calendar = calendar_of_clock(frame)
        plain = plain and count_plain_rows(readings, "cells", calendar)
        if not plain:
            with duckdb_reads(readings.source.files):
                count_rows(readings, "cells", readings.judged(), calendar)
        if not _total(readings, f"FROM cells WHERE slot = {-OUTSIDE_WINDOW}"):
            return _second_look(readings, frame, calendar)
        days = _present_days(readings)


def _second_look(readings: Readings, frame: Frame, calendar: Calendar) -> Cells:
    """Settle the customers whose rows collide, and put the cells of all together."""
    run = readings.connection.execute
    # `bit_count` takes a step for each bit that is set. Most are, so the others are counted.
    bits = f"{WORD_BITS} - bit_count(~low_bits) - bit_count(~high_bits)::INTEGER"
    run(f"""
        CREATE OR REPLACE TABLE suspects AS
        SELECT DISTINCT customer_id FROM cells
        WHERE slot BETWEEN 0 AND {SPECIAL - 1} AND rows <> {bits}
            OR slot >= {SPECIAL} AND rows > {calendar.special_rows}
    """)
    if readings.source.rows.has_channels:
        run("""
            INSERT INTO suspects SELECT customer_id FROM cells WHERE slot >= 0
            GROUP BY customer_id HAVING min(low_channel) <> max(high_channel)
        """)
    dropped = Counter(
        {Drop(-slot): rows for slot, rows in _by_reason(readings) if -slot < STRADDLES}
    )
    rows_in, customers = _total(readings, "FROM cells"), _customers(readings)
    used = f"FROM cells WHERE slot >= 0 OR slot = {-STRADDLES}"
    went = _total(readings, used)
    run("DELETE FROM cells WHERE customer_id IN (FROM suspects)")
    rows_out = _total(readings, used)
    notes = _notes(readings, calendar)
    merged: Counter[Merge] = Counter()
    straddling = _total(readings, f"FROM cells WHERE slot = {-STRADDLES}")
    special_cells, special_bits = calendar.special_cells, calendar.special_bits
    if went > rows_out:
        settled = readings.settled(only="suspects")
        came = settled.rows_in - settled.by_row.total()
        if came != went - rows_out:
            raise AssertionError(f"{went - rows_out} rows went to a second look, {came} came")
        again = calendar_of_instants(frame)
        count_rows(readings, "settled_cells", _settled_rows(settled.sql), again)
        straddling += _total(readings, f"FROM settled_cells WHERE slot = {-STRADDLES}")
        # Repeated intervals have their own numbers in each calendar: the second follows the first.
        run(f"""
            INSERT INTO cells SELECT * REPLACE (
                CASE WHEN slot >= {SPECIAL} THEN slot + {special_cells.size} ELSE slot END AS slot
            ) FROM settled_cells
        """)
        special_cells = np.concatenate([special_cells, again.special_cells])
        special_bits = np.concatenate([special_bits, again.special_bits])
        rows_out += settled.rows_out
        dropped += settled.dropped
        merged += settled.merged
        notes += settled.notes
    report = readings.account(
        rows_in=rows_in, rows_out=rows_out, dropped=dropped, merged=merged, notes=notes
    )
    return Cells(
        readings=readings,
        frame=frame,
        special_cells=special_cells,
        special_bits=special_bits,
        report=report,
        customers=customers,
        straddling=straddling,
        unfit=0,
    )


def _settled_first(readings: Readings, grid: Grid, zone: str) -> Cells:
    """Settle all rows, and count them."""
    settled = readings.settled()
    minutes = readings.base_minutes
    table = f"({settled.sql})"
    query = f"SELECT DISTINCT epoch_us(start_utc) // {DAY_US} FROM {table}"
    found = readings.connection.execute(query).fetchall()
    if not found:
        raise _nothing(readings)
    days = _with_neighbours([int(row[0]) for row in found])
    frame = Frame(grid=grid, zone=zone, minutes=minutes, days=days, period_us=None)
    calendar = calendar_of_instants(frame)
    fits = f"{grid.minutes} % minutes = 0"
    count_rows(readings, "cells", _settled_rows(f"FROM {table} WHERE {fits}"), calendar)
    unfit = readings.connection.execute(
        f"SELECT count(*) FROM {table} WHERE NOT ({fits})"
    ).fetchall()[0][0]
    straddling = _total(readings, f"FROM cells WHERE slot = {-STRADDLES}")
    return Cells(
        readings=readings,
        frame=frame,
        special_cells=calendar.special_cells,
        special_bits=calendar.special_bits,
        report=readings.report,
        customers=settled.customers,
        straddling=straddling,
        unfit=unfit,
    )


def _settled_rows(table: str) -> Judgement:
    """Give settled rows the columns of judged ones; all are fine."""
    estimated = ", ".join(f"'{name}'" for name in schema.QUALITIES[schema.FIRST_ESTIMATED :])
    source = f"""(
        SELECT customer_id, epoch_us(start_utc) AS stamp_us, kwh, minutes, 0 AS channel,
               CASE WHEN quality IN ({estimated}) THEN {schema.FIRST_ESTIMATED} ELSE 0 END
                   AS quality
        FROM ({table})
    )"""
    return Judgement(source, customer="customer_id", kwh="kwh", is_fine="true", reason="0")


def _likely_days(readings: Readings) -> NDArray[np.int64]:
    """Guess which days occur: Parquet knows its range, of a CSV file the beginning is read."""
    source = readings.source
    if source.options.period is not None and (period := readings.period_us()) is not None:
        return np.arange(period[0] // DAY_US - 2, period[1] // DAY_US + 3)
    with duckdb_reads(source.files):
        query, margin_us = source.rows.range_sql(), DAY_US
        if query is None:
            margin_us = _MARGIN_US
            query = f"""
                SELECT min(stamp_us), max(stamp_us)
                FROM (SELECT stamp_us, reason FROM ({readings.judged().sql()}) LIMIT {_SAMPLE_ROWS})
                WHERE reason = 0
            """
        first, last = readings.connection.execute(query).fetchall()[0]
    if first is None or last - first > _LONG_YEARS_US:
        return _present_days(readings)
    return np.arange((first - margin_us) // DAY_US, (last + margin_us) // DAY_US + 1)


def _present_days(readings: Readings) -> NDArray[np.int64]:
    """Find the days that occur, so that one wild stamp does not lengthen every record."""
    with duckdb_reads(readings.source.files):
        found = readings.connection.execute(f"""
            SELECT DISTINCT stamp_us // {DAY_US} FROM ({readings.judged().sql()}) WHERE reason = 0
        """).fetchall()
    if not found:
        raise _nothing(readings)
    return _with_neighbours([int(row[0]) for row in found])


def _with_neighbours(days: list[int]) -> NDArray[np.int64]:
    """Add the days before and after: a day of UTC reaches into two local ones."""
    array = np.array(days, dtype=np.int64)
    return np.unique(np.concatenate([array - 1, array, array + 1]))


def _notes(readings: Readings, calendar: Calendar) -> Counter[Note]:
    rows = readings.connection.execute(f"""
        SELECT coalesce(sum(rows) FILTER (slot >= {SPECIAL} AND rows = 1), 0),
               coalesce(sum(rows) FILTER (slot >= {SPECIAL} AND rows > 1), 0),
               coalesce(sum(estimated) FILTER (slot >= 0), 0)
        FROM cells
    """).fetchall()[0]
    notes = Counter({Note.ESTIMATED: int(rows[2])})
    if calendar.special_rows > 1:
        notes[Note.AMBIGUOUS_SINGLE] = int(rows[0])
        notes[Note.AMBIGUOUS_PAIR] = int(rows[1])
    return notes


def _customers(readings: Readings) -> int:
    query = "SELECT count(DISTINCT customer_id) FROM cells WHERE customer_id <> ''"
    return int(readings.connection.execute(query).fetchall()[0][0])


def _by_reason(readings: Readings) -> list[tuple[int, int]]:
    query = "SELECT slot, sum(rows)::BIGINT FROM cells WHERE slot < 0 GROUP BY slot"
    return readings.connection.execute(query).fetchall()


def _total(readings: Readings, rest: str) -> int:
    query = f"SELECT coalesce(sum(rows), 0)::BIGINT {rest}"
    return int(readings.connection.execute(query).fetchall()[0][0])


def _nothing(readings: Readings) -> NoUsableReadingError:
    dropped = dict(readings.report.dropped)
    return NoUsableReadingError(
        readings.source.files[0], "all rows", "a reading that can stay", dropped
    )
