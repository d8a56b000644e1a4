"""One pass over all rows: how many of a customer fall into each slot, how much energy, which bits.

Both functions make a table with the columns customer_id, slot, rows, units (`energy`), low_bits
and high_bits (the two halves of the slot's word), estimated, low_channel and high_channel.

`count_rows` judges every row as it goes. Where lengths differ, a reading counts as often as the
length of the calendar goes into its own, with as many bits: so its weight is its length, and who
else is in the file leaves no trace. `count_plain_rows` is for tables of customer, stamp and
value. It never reads a stamp: the calendar is written as the file writes it, and the two are
compared. Whatever it does not know makes it give up.
"""

from dataclasses import dataclass

from wattveil.errors import InvalidFileError
from wattveil.ingest import energy, schema
from wattveil.ingest.judge import Judgement
from wattveil.ingest.readings import Readings
from wattveil.ingest.schema import Drop
from wattveil.ingest.sources import duckdb_reads
from wattveil.ingest.sql import ident
from wattveil.profiles.calendar import OUTSIDE_WINDOW, STRADDLES, WORD_BITS, Calendar

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
    several = len(readings.source.lengths) > 1
    _add_calendar(readings, calendar)
    readings.connection.execute(f"""
        CREATE OR REPLACE TABLE {ident(target)} AS
        WITH placed AS (
            SELECT {judged.customer} AS customer_id, {energy.units(judged.kwh)} AS units,
                   channel, quality, {"minutes," if several else ""}
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
        )
        SELECT customer_id, slot, count(*) AS rows, sum(units) AS units,
               {_HALVES.format(mask="bit_or(mask)")},
               {estimated} AS estimated,
               {low} AS low_channel, {high} AS high_channel
        FROM {_cut(calendar) if several else "placed JOIN calendar USING (key)"}
        GROUP BY customer_id, slot
    """)


def _cut(calendar: Calendar) -> str:
    """Write the rows ``placed`` with a row for each bit of theirs; the first has all the energy."""
    return f"""(
        SELECT customer_id, channel, quality,
               CASE WHEN piece = 0 THEN units ELSE 0 END AS units,
               CASE WHEN NOT fits THEN {-STRADDLES}
                    WHEN bit < 0 THEN slot
                    ELSE slot + (bit + piece) // {WORD_BITS} END AS slot,
               CASE WHEN fits AND bit >= 0 THEN {_mask(f"(bit + piece) % {WORD_BITS}")}
                    ELSE 0 END AS mask
        FROM (
            SELECT *,
                   slot < 0 OR minute_of_day % minutes = 0 AND minutes <= steady_minutes AS fits,
                   CASE WHEN fits AND slot >= 0 THEN minutes // {calendar.frame.minutes}
                        ELSE 1 END AS pieces,
                   unnest(range(pieces)) AS piece
            FROM placed JOIN calendar USING (key)
        )
    )"""


def _mask(bit: str) -> str:
    return f"1::UHUGEINT << ({bit})::UHUGEINT"


def count_plain_rows(readings: Readings, target: str, calendar: Calendar) -> bool:
    """Do the same for a plain table, some times faster; tell whether it could."""
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
    # If each stamp comes back as it went, no two are written alike, and the join adds no row. The
    # reader wants the column under its own name, which may be any.
    named = (
        f'SELECT as_written AS {ident(plain.stamp)}, stamp_us AS "stamp as it went" FROM written'
    )
    if _any(
        readings, f'FROM ({named}) WHERE ({rows.stamp.sql}) IS DISTINCT FROM "stamp as it went"'
    ):
        return False
    units = energy.units(energy.kwh(readings.source.unit, f"{frame.minutes}::SMALLINT"))
    most = schema.MOST_KW * frame.minutes * energy.UNITS_A_KWH // 60
    try:
        with duckdb_reads(readings.source.files):
            lookup: _Lookup | None = _by_text(most)
            if rows.stamp.typed:
                lookup = _by_low_bits(readings, plain.sql, calendar, units, most)
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
                            SELECT customer, {lookup.field}, {units} AS units
                            FROM (SELECT * REPLACE (value::DOUBLE AS value) FROM ({plain.sql}))
                        ) {lookup.join}
                    )
                    GROUP BY customer, slot
                )
            """)
    except InvalidFileError:  # a field is not of its type; the other pass finds out which
        return False
    doubtful = "slot IS NULL OR customer_id IS NULL OR customer_id = ''"
    blanks = "customer_id <> trim(customer_id)"
    too_much = "slot >= 0 AND isfinite(units) IS NOT TRUE"
    return not _any(readings, f"FROM {ident(target)} WHERE {doubtful} OR {blanks} OR {too_much}")


# A value that is missing has a reason of its own, unless its stamp is unknown.
_SLOT = f"CASE WHEN units IS NULL AND slot IS NOT NULL THEN {-Drop.NO_VALUE} ELSE slot END"


@dataclass(frozen=True)
class _Lookup:
    """How a row of customer, ``field`` and units finds its slot, and what is summed there."""

    field: str
    join: str
    slot: str = _SLOT
    total: str = "sum(units)"


def _by_text(most: int) -> _Lookup:
    """Compare texts. The one scan has to tell all, so each slot looks for its largest value."""
    join = "LEFT JOIN written ON stamp = as_written"
    return _Lookup("stamp", join, total=f"CASE WHEN max(abs(units)) < {most} THEN sum(units) END")


def _by_low_bits(
    readings: Readings, plain: str, calendar: Calendar, units: str, most: int
) -> _Lookup | None:
    """Join by low bits what is no text; it can be asked beforehand, mostly from statistics.

    None if a stamp is not in the calendar, or a value is too large.
    """
    largest, value_missing, stamp_missing = readings.connection.execute(f"""
        SELECT max(abs({units})), bool_or(value_missing), bool_or(stamp_missing)
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
    too_large = largest is not None and largest >= most
    if too_large or stamp_missing or not _all_in_calendar(readings, calendar):
        return None
    slot = _SLOT if value_missing else "slot"
    return _Lookup(f"{_low_bits(calendar)} AS low", "JOIN written USING (low)", slot)


def _all_in_calendar(readings: Readings, calendar: Calendar) -> bool:
    """Tell whether every stamp is one of the calendar: between first and last, and on its grid.

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
    return not _any(readings, f"FROM {rows.scan.sql} WHERE {off_grid}")


def _low_bits(calendar: Calendar) -> str:
    """Write bits of stamp_us that are different for all stamps of the calendar.

    Stamps are consecutive multiples of 2^zeros times an odd number, so 2^n of them differ in the n
    bits above the zeros. DuckDB works bit operations out once for each entry of a Parquet
    dictionary, not for each row, and has a quick way of joining small whole numbers.
    """
    zeros = (calendar.frame.block_us & -calendar.frame.block_us).bit_length() - 1
    return f"((stamp_us >> {zeros}) & {(1 << calendar.cells.size.bit_length()) - 1})"


def _add_calendar(readings: Readings, calendar: Calendar) -> None:
    readings.connection.register("calendar_made", calendar.to_arrow())
    readings.connection.execute(f"""
        CREATE OR REPLACE TABLE calendar AS
        SELECT *, CASE WHEN bit < 0 THEN 0 ELSE {_mask("bit")} END AS mask
        FROM calendar_made
    """)
    readings.connection.unregister("calendar_made")


def _any(readings: Readings, rest: str) -> bool:
    return bool(readings.connection.execute(f"SELECT 1 {rest} LIMIT 1").fetchall())
