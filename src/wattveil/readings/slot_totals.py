"""Totals of readings by customer and slot of a calendar: one pass over all rows.

A calendar maps every time stamp that can occur to a slot and a bit (`slot_counts`). The pass groups
rows by customer and slot: how many, how much energy, and which intervals (a bit each). A customer
with more rows than bits has duplicates; one with several channels has intervals to net. Only these
customers are reconciled exactly (`reconcile`) and added to the same table. Where rows cannot be
counted before they are reconciled, all are.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.errors import NoUsableReadingError
from wattveil.readings import schema
from wattveil.readings.row_checks import Drop, Merge, Note, ReadingReport, RowChecks
from wattveil.readings.slot_counts import (
    MASK_BITS,
    OUTSIDE_WINDOW,
    SPECIAL,
    STRADDLES,
    Calendar,
    CalendarFrame,
    CellGrid,
    calendar_of_clock,
    calendar_of_instants,
    count_plain_rows,
    count_rows,
)
from wattveil.readings.sources import duckdb_reads
from wattveil.readings.timestamps import DAY_US, MINUTE_US

if TYPE_CHECKING:  # `readings` calls this module
    from wattveil.readings.readings import Readings

_LONG_YEARS_US = 10 * 366 * DAY_US  # a longer range comes from a clock that was never set
_MARGIN_US = 800 * DAY_US  # days that do not occur cost next to nothing
_SAMPLE_ROWS = 50_000
_MAX_BETWEEN = 0.1  # share of a customer's readings


@dataclass(frozen=True, kw_only=True)
class SlotTotals:
    """Totals by customer and slot, and the account of every row.

    ``straddling`` and ``unfit`` are readings that no cell could take. ``special_cells`` and
    ``special_bits`` are those of the slots from `SPECIAL` on. ``between`` are the customers of whom
    over a tenth of the readings begin within the intervals of the others.
    """

    frame: CalendarFrame
    special_cells: NDArray[np.int64]
    special_bits: NDArray[np.int64]
    report: ReadingReport
    customers: int  # found in the source
    straddling: int
    unfit: int
    between: frozenset[str]
    _part: Callable[[int, int], pa.Table] = field(repr=False)

    def tables(self, parts: int) -> Iterator[pa.Table]:
        """Yield the totals of whole customers, in no order, in at most so many tables.

        A scan for each part is much faster than one sort of all, as long as the parts are few.
        """
        for part in range(parts):
            table = self._part(part, parts)
            if table.num_rows:
                yield table


def slot_totals(readings: "Readings", grid: CellGrid, zone: str) -> SlotTotals:
    """Return the totals of every customer: what `Readings.slot_totals` does."""
    if takes_one_pass(readings, zone):
        return totals_in_one_pass(readings, grid, zone)
    return totals_after_reconciling(readings, grid, zone)


def takes_one_pass(readings: "Readings", zone: str) -> bool:
    """Return whether rows can be counted before they are reconciled.

    Not if energy is a difference of rows, if lengths differ, or if the repeated hour of a local
    clock must be resolved: its two passes share a cell only when they are starts in this zone.
    """
    source = readings.source
    to_resolve = readings.clock is not None and (readings.clock != zone or source.rows.end_stamped)
    return (
        not source.rows.cumulative
        and len(source.lengths) == 1
        and source.problems_to is None
        and not to_resolve
    )


def totals_in_one_pass(readings: "Readings", grid: CellGrid, zone: str) -> SlotTotals:
    """Count rows as they are, and reconcile the customers whose rows collide."""
    minutes = readings.lengths[0]
    late_us = minutes * MINUTE_US if readings.source.rows.end_stamped else 0
    days, plain = _likely_days(readings), True
    while True:
        frame = CalendarFrame(
            grid=grid, zone=zone, minutes=minutes, days=days, period_us=readings.period_us()
        )
        if readings.clock is None:
            calendar = calendar_of_instants(frame, late_us=late_us)
        else:
            calendar = calendar_of_clock(frame)
        plain = plain and count_plain_rows(readings, "cells", calendar)
        if not plain:
            with duckdb_reads(readings.files):
                count_rows(readings, "cells", readings.checked(), calendar)
        if not _total(readings, f"FROM cells WHERE slot = {-OUTSIDE_WINDOW}"):
            return _reconcile_colliding(readings, frame, calendar)
        days = _present_days(readings)


def _reconcile_colliding(
    readings: "Readings", frame: CalendarFrame, calendar: Calendar
) -> SlotTotals:
    """Reconcile the customers whose rows collide, and put the totals of all together."""
    run = readings.connection.execute
    # `bit_count` takes a step for each bit that is set. Most are, so the others are counted.
    bits = f"{MASK_BITS} - bit_count(~low_bits) - bit_count(~high_bits)::INTEGER"
    run(f"""
        CREATE OR REPLACE TABLE colliding AS
        SELECT DISTINCT customer_id FROM cells
        WHERE slot BETWEEN 0 AND {SPECIAL - 1} AND rows <> {bits}
            OR slot >= {SPECIAL} AND rows > {calendar.special_rows}
    """)
    if readings.source.rows.has_channels:
        run("""
            INSERT INTO colliding SELECT customer_id FROM cells WHERE slot >= 0
            GROUP BY customer_id HAVING min(low_channel) <> max(high_channel)
        """)
    dropped = Counter(
        {Drop(-slot): rows for slot, rows in _by_reason(readings) if -slot < STRADDLES}
    )
    rows_in, customers = _total(readings, "FROM cells"), _customers(readings)
    used = f"FROM cells WHERE slot >= 0 OR slot = {-STRADDLES}"
    before = _total(readings, used)
    run("DELETE FROM cells WHERE customer_id IN (FROM colliding)")
    rows_out = _total(readings, used)
    notes = _notes(readings, calendar)
    merged: Counter[Merge] = Counter()
    straddling = _total(readings, f"FROM cells WHERE slot = {-STRADDLES}")
    special_cells, special_bits = calendar.special_cells, calendar.special_bits
    if before > rows_out:
        reconciled = readings.reconciled(only="colliding")
        found = reconciled.rows_in - reconciled.by_row.total()
        if found != before - rows_out:
            raise AssertionError(f"{before - rows_out} rows to reconcile, {found} reconciled")
        again = calendar_of_instants(frame)
        count_rows(readings, "reconciled_cells", _reconciled_rows(reconciled.sql), again)
        straddling += _total(readings, f"FROM reconciled_cells WHERE slot = {-STRADDLES}")
        # Repeated intervals have their own numbers in each calendar: the second follows the first.
        run(f"""
            INSERT INTO cells SELECT * REPLACE (
                CASE WHEN slot >= {SPECIAL} THEN slot + {special_cells.size} ELSE slot END AS slot
            ) FROM reconciled_cells
        """)
        special_cells = np.concatenate([special_cells, again.special_cells])
        special_bits = np.concatenate([special_bits, again.special_bits])
        rows_out += reconciled.rows_out
        dropped += reconciled.dropped
        merged += reconciled.merged
        notes += reconciled.notes
    report = readings.account(
        rows_in=rows_in, rows_out=rows_out, dropped=dropped, merged=merged, notes=notes
    )
    return SlotTotals(
        frame=frame,
        special_cells=special_cells,
        special_bits=special_bits,
        report=report,
        customers=customers,
        straddling=straddling,
        unfit=0,
        between=_between(readings, frame),
        _part=_parts_of(readings),
    )


def totals_after_reconciling(readings: "Readings", grid: CellGrid, zone: str) -> SlotTotals:
    """Reconcile all rows, and count them."""
    reconciled = readings.reconciled()
    table = f"({reconciled.sql})"
    query = f"SELECT DISTINCT epoch_us(start_utc) // {DAY_US} FROM {table}"
    found = readings.connection.execute(query).fetchall()
    if not found:
        raise _no_usable_reading(readings)
    days = _with_neighbours([int(row[0]) for row in found])
    minutes = math.gcd(*readings.lengths)
    frame = CalendarFrame(grid=grid, zone=zone, minutes=minutes, days=days, period_us=None)
    calendar = calendar_of_instants(frame)
    fits = f"{grid.minutes} % minutes = 0"
    count_rows(readings, "cells", _reconciled_rows(f"FROM {table} WHERE {fits}"), calendar)
    unfit = readings.connection.execute(
        f"SELECT count(*) FROM {table} WHERE NOT ({fits})"
    ).fetchall()[0][0]
    return SlotTotals(
        frame=frame,
        special_cells=calendar.special_cells,
        special_bits=calendar.special_bits,
        report=readings.report,
        customers=reconciled.customers,
        straddling=_total(readings, f"FROM cells WHERE slot = {-STRADDLES}"),
        unfit=unfit,
        between=_between(readings, frame),
        _part=_parts_of(readings),
    )


def _parts_of(readings: "Readings") -> Callable[[int, int], pa.Table]:
    """Return the function that reads one of several parts of the table ``cells``."""

    def part_of(part: int, parts: int) -> pa.Table:
        return readings.connection.sql(f"""
            SELECT customer_id, slot, rows, units, low_bits, high_bits, estimated
            FROM cells WHERE slot >= 0 AND hash(customer_id) % {parts} = {part}
        """).to_arrow_table()

    return part_of


def _between(readings: "Readings", frame: CalendarFrame) -> frozenset[str]:
    """Find the customers whose readings are more frequent than the inferred length.

    Where offsets from UTC are no multiple of the length, whole readings lie in two cells as well,
    and nothing can be said.
    """
    whole = replace(frame, period_us=None).block_us == frame.minutes * MINUTE_US
    if not (readings.source.rows.infers_minutes and whole):
        return frozenset()
    found = readings.connection.execute(f"""
        SELECT customer_id FROM cells GROUP BY customer_id
        HAVING sum(rows) FILTER (slot IN ({-STRADDLES}, {-Drop.OFF_GRID}))
            > {_MAX_BETWEEN} * sum(rows) FILTER (slot >= 0)
    """).fetchall()
    return frozenset(str(row[0]) for row in found)


def _reconciled_rows(table: str) -> RowChecks:
    """Give reconciled rows the columns of checked ones; all pass."""
    estimated = ", ".join(f"'{name}'" for name in schema.QUALITIES[schema.FIRST_ESTIMATED :])
    source = f"""(
        SELECT customer_id, epoch_us(start_utc) AS stamp_us, kwh, minutes, 0 AS channel,
               CASE WHEN quality IN ({estimated}) THEN {schema.FIRST_ESTIMATED} ELSE 0 END
                   AS quality
        FROM ({table})
    )"""
    return RowChecks(source, customer="customer_id", kwh="kwh", passes="true", reason="0")


def _likely_days(readings: "Readings") -> NDArray[np.int64]:
    """Estimate which days occur: from the statistics of Parquet, or the first rows of CSV."""
    source = readings.source
    if source.options.period is not None and (period := readings.period_us()) is not None:
        return np.arange(period[0] // DAY_US - 2, period[1] // DAY_US + 3)
    with duckdb_reads(source.files):
        query, margin_us = source.rows.range_sql(), DAY_US
        if query is None:
            margin_us = _MARGIN_US
            query = f"""
                SELECT min(stamp_us), max(stamp_us) FROM (
                    SELECT stamp_us, reason FROM ({readings.checked().sql()}) LIMIT {_SAMPLE_ROWS}
                )
                WHERE reason = 0
            """
        first, last = readings.connection.execute(query).fetchall()[0]
    if first is None or last - first > _LONG_YEARS_US:
        return _present_days(readings)
    return np.arange((first - margin_us) // DAY_US, (last + margin_us) // DAY_US + 1)


def _present_days(readings: "Readings") -> NDArray[np.int64]:
    """Find the days that occur, so that one wrong stamp does not lengthen every record."""
    with duckdb_reads(readings.files):
        found = readings.connection.execute(f"""
            SELECT DISTINCT stamp_us // {DAY_US} FROM ({readings.checked().sql()}) WHERE reason = 0
        """).fetchall()
    if not found:
        raise _no_usable_reading(readings)
    return _with_neighbours([int(row[0]) for row in found])


def _with_neighbours(days: list[int]) -> NDArray[np.int64]:
    """Add the days before and after: a day of UTC reaches into two local ones."""
    array = np.array(days, dtype=np.int64)
    return np.unique(np.concatenate([array - 1, array, array + 1]))


def _notes(readings: "Readings", calendar: Calendar) -> Counter[Note]:
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


def _customers(readings: "Readings") -> int:
    query = "SELECT count(DISTINCT customer_id) FROM cells WHERE customer_id <> ''"
    return int(readings.connection.execute(query).fetchall()[0][0])


def _by_reason(readings: "Readings") -> list[tuple[int, int]]:
    query = "SELECT slot, sum(rows)::BIGINT FROM cells WHERE slot < 0 GROUP BY slot"
    return readings.connection.execute(query).fetchall()


def _total(readings: "Readings", rest: str) -> int:
    query = f"SELECT coalesce(sum(rows), 0)::BIGINT {rest}"
    return int(readings.connection.execute(query).fetchall()[0][0])


def _no_usable_reading(readings: "Readings") -> NoUsableReadingError:
    dropped = dict(readings.report.dropped)
    return NoUsableReadingError(readings.files[0], "all rows", "a usable reading", dropped)
