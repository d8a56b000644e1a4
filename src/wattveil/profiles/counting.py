"""One pass over all rows: how many of a customer fall into each slot, how much energy, which bits.

Both functions make a table with the columns customer_id, slot, rows, kwh, low_bits and high_bits
(the two halves of the slot's word), estimated, low_channel and high_channel.

`count_rows` judges every row as it goes. `count_plain_rows` is for tables of customer, stamp and
value. It never reads a stamp: the calendar is written as the file writes it, and the two are
compared. Whatever it does not know makes it give up.
"""

from wattveil.errors import InvalidFileError
from wattveil.ingest import schema
from wattveil.ingest.judge import Judgement
from wattveil.ingest.options import MeasuredIn
from wattveil.ingest.readings import Readings
from wattveil.ingest.schema import Drop
from wattveil.ingest.sources import duckdb_reads
from wattveil.ingest.sql import ident
from wattveil.profiles.calendar import OUTSIDE_WINDOW, STRADDLES, Calendar

_HALVES = (
    f"({{mask}} & {(1 << 64) - 1})::UBIGINT AS low_bits, ({{mask}} >> 64)::UBIGINT AS high_bits"
)


def count_rows(readings: Readings, target: str, judged: Judgement, calendar: Calendar) -> None:
    """Group rows by customer and slot."""
    source = readings.source.rows
    low, high = ("min(channel)", "max(channel)") if source.has_channels else ("0", "0")
    estimated = "0"
    if source.has_qualities:
        estimated = f"count(*) FILTER (WHERE quality >= {schema.FIRST_ESTIMATED})"
    block_us, first_us = calendar.frame.block_us, calendar.first_us
    beyond = OUTSIDE_WINDOW if calendar.frame.period_us is None else Drop.OUTSIDE_PERIOD
    _add_calendar(readings, calendar)
    readings.connection.execute(f"""
        CREATE OR REPLACE TABLE {ident(target)} AS
        SELECT customer_id, slot, count(*) AS rows, sum(kwh) AS kwh,
               {_HALVES.format(mask="bit_or(mask)")},
               {estimated} AS estimated,
               {low} AS low_channel, {high} AS high_channel
        FROM (
            SELECT {judged.customer} AS customer_id, {judged.kwh} AS kwh, channel, quality,
                   CASE WHEN {judged.is_fine}
                             AND stamp_us BETWEEN {first_us} AND {calendar.end_us - 1}
                             AND (stamp_us - {first_us}) % {block_us} = 0
                        THEN (stamp_us - {first_us}) // {block_us}
                        WHEN ({judged.is_fine}) IS NOT TRUE THEN -({judged.reason})
                        WHEN stamp_us % {calendar.frame.aligned_us} <> 0 THEN {-Drop.OFF_GRID}
                        WHEN stamp_us BETWEEN {first_us} AND {calendar.end_us - 1}
                        THEN {-STRADDLES}
                        ELSE {-beyond}
                   END::INTEGER AS key
            FROM {judged.source}
        ) JOIN calendar USING (key)
        GROUP BY customer_id, slot
    """)


def count_plain_rows(readings: Readings, target: str, calendar: Calendar) -> bool:
    """Do the same for a plain table, some times faster; tell whether it could."""
    rows = readings.source.rows
    plain = rows.plain_sql()
    if plain is None or calendar.frame.period_us is not None or readings.source.options.meters:
        return False
    _add_calendar(readings, calendar)
    readings.connection.execute(f"""
        CREATE OR REPLACE TABLE written AS
        SELECT {rows.stamp.writes} AS as_written, slot, mask, stamp_us
        FROM calendar WHERE key >= 0
    """)
    # If each stamp comes back as it went, no two are written alike, and the join adds no row. The
    # reader wants the column under its own name, which may be any.
    named = (
        f'SELECT as_written AS {ident(plain.stamp)}, stamp_us AS "stamp as it went" FROM written'
    )
    if _any(
        readings, f'FROM ({named}) WHERE ({rows.stamp.sql}) IS DISTINCT FROM "stamp as it went"'
    ):
        return False
    factor = {MeasuredIn.WH: 1e-3, MeasuredIn.KW: calendar.frame.minutes / 60}
    # A value that is missing has a reason of its own, unless its stamp is unknown.
    slot = f"CASE WHEN value IS NULL AND slot IS NOT NULL THEN {-Drop.NO_VALUE} ELSE slot END"
    try:
        with duckdb_reads(readings.source.files):
            readings.connection.execute(f"""
                CREATE OR REPLACE TABLE {ident(target)} AS
                SELECT customer::VARCHAR AS customer_id, slot, rows,
                       kwh * {factor.get(readings.source.unit, 1.0)} AS kwh,
                       {_HALVES.format(mask="mask")},
                       0 AS estimated, 0 AS low_channel, 0 AS high_channel
                FROM (
                    SELECT customer, slot, count(*) AS rows, sum(value)::DOUBLE AS kwh,
                           bit_or(mask) AS mask
                    FROM (
                        SELECT customer, value, {slot} AS slot, mask
                        FROM ({plain.sql}) LEFT JOIN written ON stamp = as_written
                    )
                    GROUP BY customer, slot
                )
            """)
    except InvalidFileError:  # a field is not of its type; the other pass finds out which
        return False
    blanks = "customer_id <> trim(customer_id)" if rows.scan.is_text else "false"
    doubtful = "slot IS NULL OR customer_id IS NULL OR customer_id = ''"
    infinite = "slot >= 0 AND NOT isfinite(kwh)"
    return not _any(readings, f"FROM {ident(target)} WHERE {doubtful} OR {blanks} OR {infinite}")


def _add_calendar(readings: Readings, calendar: Calendar) -> None:
    readings.connection.register("calendar_made", calendar.to_arrow())
    readings.connection.execute("""
        CREATE OR REPLACE TABLE calendar AS
        SELECT key, stamp_us, slot,
               CASE WHEN bit < 0 THEN 0 ELSE 1::UHUGEINT << bit::UHUGEINT END AS mask
        FROM calendar_made
    """)
    readings.connection.unregister("calendar_made")


def _any(readings: Readings, rest: str) -> bool:
    return bool(readings.connection.execute(f"SELECT 1 {rest} LIMIT 1").fetchall())
