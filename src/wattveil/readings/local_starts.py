"""Local time as instants: the table of a zone's clock, and files that write local time as UTC.

Some senders of Green Button files write local time as if it were UTC. If all files of a source do,
their starts are local time until rows are reconciled. Otherwise the starts of these files are made
instants here, by the same rules, so that one table holds them beside those of other files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from wattveil.readings.batches import ProblemLog
from wattveil.readings.row_checks import Drop, Note
from wattveil.readings.row_positions import ROW_COLUMN
from wattveil.readings.sql_text import literal
from wattveil.readings.timestamps import MINUTE_US, instants

CLOCK_BLOCK_US = 15 * MINUTE_US  # clocks have changed by multiples of it since 1990
READ_AS_LOCAL = "start read as local time, as block titles or offsets indicate"


@dataclass(frozen=True)
class RowRange:
    """Rows of a file, numbered from 1: the first, and the one after the last."""

    first: int
    end: int


def make_clock(
    connection: duckdb.DuckDBPyConnection, zone: str, first_us: int | None, last_us: int | None
) -> None:
    """Make the table ``clock`` of a zone: a row for each quarter of an hour of local time."""
    blocks = np.arange(0, dtype=np.int64)
    if first_us is not None and last_us is not None:
        blocks = np.arange(
            first_us // CLOCK_BLOCK_US, last_us // CLOCK_BLOCK_US + 1, dtype=np.int64
        )
    local_us = blocks * CLOCK_BLOCK_US
    found = instants(zone, local_us)
    made = pa.table(
        {
            "block": blocks,
            "times": found.times,
            "first_offset_us": local_us - found.first_us,
            "second_offset_us": local_us - found.second_us,
        }
    )
    connection.register("clock_made", made)
    connection.execute("CREATE OR REPLACE TABLE clock AS FROM clock_made")
    connection.unregister("clock_made")


def place_local_rows(
    connection: duckdb.DuckDBPyConnection,
    source: Path,
    ranges: Sequence[RowRange],
    zone: str,
    log: ProblemLog,
) -> Path:
    """Write streamed readings with the starts of some files read as local time of a zone.

    Rows keep their number in a column of its own. Starts that clocks skip are left out and counted;
    one that they show twice is assigned to its passes by order of appearance in its file.
    """
    made = pa.table({"first_row": [r.first for r in ranges], "next_row": [r.end for r in ranges]})
    connection.register("local_made", made)
    rows = f"""(
        SELECT * EXCLUDE (file_row_number, next_row), file_row_number + 1 AS {ROW_COLUMN},
               epoch_us(start_utc) AS stamp_us
        FROM read_parquet({literal(str(source))}, file_row_number = true)
        LEFT JOIN local_made
            ON file_row_number + 1 >= first_row AND file_row_number + 1 < next_row
    )"""
    query = f"SELECT min(stamp_us), max(stamp_us) FROM {rows} WHERE first_row IS NOT NULL"
    make_clock(connection, zone, *connection.execute(query).fetchall()[0])
    placed = source.with_name("placed.parquet")
    key = "first_row, customer_id, channel, stamp_us"
    connection.execute(f"""
        COPY (
            SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {ROW_COLUMN}) AS appearance,
                   count(*) OVER (PARTITION BY {key}) AS appearances
            FROM {rows} LEFT JOIN clock
                ON first_row IS NOT NULL AND block = stamp_us // {CLOCK_BLOCK_US}
        ) TO {literal(str(placed))} (FORMAT parquet)
    """)
    connection.unregister("local_made")
    found = f"read_parquet({literal(str(placed))})"
    local, skipped, singles, pairs = connection.execute(f"""
        SELECT count(*) FILTER (times > 0), count(*) FILTER (times = 0),
               count(*) FILTER (times = 2 AND appearances = 1),
               count(*) FILTER (times = 2 AND appearances > 1)
        FROM {found}
    """).fetchall()[0]
    log.notes[READ_AS_LOCAL] += local
    log.notes[str(Note.AMBIGUOUS_SINGLE)] += singles
    log.notes[str(Note.AMBIGUOUS_PAIR)] += pairs
    if skipped:
        log.dropped[Drop.SPRING_GAP.text] += skipped
        log.staged.append(f"""
            SELECT {literal(Drop.SPRING_GAP.text)} AS reason, {ROW_COLUMN},
                   concat_ws(', ', customer_id, make_timestamp(stamp_us)::VARCHAR, kwh::VARCHAR,
                             channel) AS written
            FROM {found} WHERE times = 0
        """)
    target = source.with_name("instants.parquet")
    offset = "CASE WHEN appearance % 2 = 1 THEN first_offset_us ELSE second_offset_us END"
    connection.execute(f"""
        COPY (
            SELECT customer_id, make_timestamptz(stamp_us - coalesce({offset}, 0)) AS start_utc,
                   minutes, kwh, channel, quality, {ROW_COLUMN}
            FROM {found} WHERE times IS DISTINCT FROM 0 ORDER BY {ROW_COLUMN}
        ) TO {literal(str(target))} (FORMAT parquet)
    """)
    return target
