"""One SELECT for each layout: the rows of the source as fields, not checked yet.

=============  ====================================================================================
customer       customer as written; NULL or empty if not given
meter          meter; the same as customer unless the caller names both
stamp_us       its time stamp in microseconds since 1970: an instant, or the time on a clock
value          its number; NULL if empty or unreadable
value_written  the same as written, of whatever type
minutes        length of the interval
channel        place in `CHANNELS`; NULL if unknown
quality        place in `QUALITIES`
register       part of the customer's load; rows that differ in it add up; only where there are any
beyond_day     whether the slot of a wide row lies beyond the end of its day
source_row     place in the source, for order of appearance; only on request
written        the row as text, for the list of problems
=============  ====================================================================================
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import pyarrow as pa

from wattveil.errors import InvalidFileError, NoUsableReadingError
from wattveil.readings import schema
from wattveil.readings.csv_files import typed_csv
from wattveil.readings.formats.column_names import unit_in_name
from wattveil.readings.formats.decimals import Decimals, find_mark
from wattveil.readings.formats.quality_words import quality_codes, word_sql
from wattveil.readings.formats.stamp_ends import with_stamp_ends
from wattveil.readings.formats.table_columns import (
    FoundLayout,
    LongTable,
    MatrixTable,
    TableLayout,
    WideTable,
    plain_name,
)
from wattveil.readings.options import (
    ASSUMED_UTC,
    DaySlots,
    DecimalMark,
    MeasuredIn,
    ReadOptions,
    Stamp,
    unit_note,
)
from wattveil.readings.sources import Scan, numbered
from wattveil.readings.sql_text import choose, ident, literals
from wattveil.readings.timestamps import (
    DAY_US,
    MINUTE_US,
    StampReader,
    check_format,
    midnights,
    text_stamp,
    typed_stamp,
)

_SAMPLE_ROWS = 2_000
_SLOTS_PER_ROW = 512  # keeps (row, slot) in one number
_NUMBER_TYPE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|FLOAT$|DOUBLE$|DECIMAL")
_FIRST_DAY, _LAST_DAY = 7_000, 48_000  # 1989 to 2101


@dataclass(frozen=True)
class PlainRows:
    """A SELECT of customer, stamp, stamp_us and value, and the name of the column of stamps."""

    sql: str
    stamp: str


@dataclass(frozen=True)
class TableRows:
    """The rows of a source, ready to be checked."""

    scan: Scan
    table: TableLayout
    stamp: StampReader
    end_stamped: bool
    minutes: int | None  # None: a column of the table
    decimals: Decimals | None  # None: values are numbers
    assumptions: tuple[str, ...]
    unit: MeasuredIn = MeasuredIn.KWH
    cumulative: bool = False  # values are registers
    fills_gaps: bool = False  # the energy between two distant register reads is spread evenly
    file_unit: str = ""  # if values were converted to kWh before
    infers_minutes: bool = False  # from the stamps of all customers; one of them may differ
    qualities: Mapping[str, int] = field(default_factory=dict)  # codes; the names of qualities
    words: Mapping[str, str] = field(default_factory=dict)  # meanings that the caller states

    @property
    def has_registers(self) -> bool:
        """Whether rows of one interval may be parts that add up."""
        return isinstance(self.table, LongTable) and self.table.register is not None

    @property
    def has_days(self) -> bool:
        """Whether a row may lie beyond the end of its day."""
        return isinstance(self.table, WideTable) and self.table.day_slots is DaySlots.ELAPSED

    @property
    def has_channels(self) -> bool:
        """Whether rows may differ in channel."""
        return isinstance(self.table, LongTable) and self.table.channel is not None

    @property
    def has_qualities(self) -> bool:
        """Whether rows may differ in quality."""
        return isinstance(self.table, LongTable) and self.table.quality is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source that are read."""
        return tuple(dict.fromkeys(name for name in self._roles() if name is not None))

    def sql(self, *, in_order: bool = False) -> str:
        """Write the SELECT; ``in_order`` adds ``source_row``."""
        scan = numbered(self.scan) if in_order else self.scan.sql
        match self.table:
            case LongTable():
                return self._long(self.table, scan, in_order=in_order)
            case WideTable():
                return self._wide(self.table, scan, in_order=in_order)
            case MatrixTable():
                return self._matrix(self.table, scan, in_order=in_order)

    def row_sql(self) -> str:
        """Write the number of the row in the source, of which ``source_row`` is one value."""
        match self.table:
            case LongTable():
                return "source_row"
            case WideTable():
                return f"source_row // {_SLOTS_PER_ROW}"
            case MatrixTable():
                return f"source_row // {len(self.table.customers)}"

    def plain_sql(self) -> PlainRows | None:
        """Write the SELECT of a table that holds customer, stamp and value and nothing else.

        They are as the source has them, and stamp_us is what the stamp reads: let it be unless it
        is cheap. The scan of a CSV file fails on a value that is no number.
        """
        table = self.table
        if not isinstance(table, LongTable) or len(table.stamp) > 1:
            return None
        if self.decimals is not None and self.decimals.mark is DecimalMark.COMMA:
            return None
        if table.meter or table.channel or table.quality or table.minutes or not self.stamp.writes:
            return None
        if table.register or table.written:
            return None
        scan = self.scan.sql
        if self.scan.csv_call is not None:
            scan = typed_csv(self.scan, {table.value: "DOUBLE"})
        elif not _NUMBER_TYPE.match(self.scan.types[table.value]):
            return None
        stamp = table.stamp[0]
        sql = (
            f"SELECT {ident(table.customer)} AS customer, {ident(stamp)} AS stamp,"
            f" {self.stamp.sql} AS stamp_us, {ident(table.value)} AS value FROM {scan}"
        )
        return PlainRows(sql, stamp)

    def lengths_sql(self) -> str:
        """Write the SELECT of the interval lengths that occur in the column of a long table."""
        return f"""
            SELECT DISTINCT minutes FROM (SELECT {self._minutes()} AS minutes FROM {self.scan.sql})
            WHERE minutes IN {schema.ALLOWED_MINUTES} ORDER BY minutes
        """

    def longest_sql(self) -> str:
        """Write the SELECT of the longest interval in the column of a long table."""
        return (
            f"SELECT max(minutes) FROM (SELECT {self._minutes()} AS minutes FROM {self.scan.sql})"
        )

    def range_sql(self) -> str | None:
        """Write the SELECT of the first and last stamp, if the files' own statistics have them."""
        if isinstance(self.table, WideTable) or not self.stamp.typed:
            return None
        column = ident(_stamps_and_values(self.table)[0][0])
        first, last = (self.stamp.sql.replace(column, name) for name in ("first", "last"))
        return f"""
            SELECT {first}, {last}
            FROM (SELECT min({column}) AS first, max({column}) AS last FROM {self.scan.sql})
        """

    def _long(self, table: LongTable, scan: str, *, in_order: bool) -> str:
        value = ident(table.value)
        channel = f"{schema.NET}::TINYINT"
        if table.channel is not None:
            channel = f"{choose(word_sql(table.channel), self._channels(), 'NULL')}::TINYINT"
        quality = "0::TINYINT"
        if table.quality is not None:
            codes = self.qualities or {name: code for code, name in enumerate(schema.QUALITIES)}
            word = word_sql(table.quality)
            unknown = (
                f"error('unknown quality ' || {word} || ' beyond the rows that were inspected')"
            )
            quality = f"{choose(word, codes, unknown)}::TINYINT"
        fields = [table.customer, *table.stamp, table.value]
        told = _as_text([*fields, *filter(None, [table.channel])])
        if table.register:  # readings of one line may differ in channel and register alone
            told = f"concat_ws(', ', {told}, nullif(trim({ident(table.register)}), ''))"
        written = value
        if table.written is not None:
            written = f"coalesce({ident(table.written)}, {value}::VARCHAR)"
        register = f"{ident(table.register)} AS register," if table.register else ""
        return f"""
            SELECT {self._name(table.customer)} AS customer,
                   {self._name(table.meter or table.customer)} AS meter,
                   {self.stamp.sql} AS stamp_us,
                   {self._number(value)} AS value,
                   {written} AS value_written,
                   {self._minutes()} AS minutes,
                   {register}
                   {channel} AS channel,
                   {quality} AS quality,
                   false AS beyond_day,
                   {"source_row," if in_order else ""}
                   {told} AS written
            FROM {scan}
        """

    def _wide(self, table: WideTable, scan: str, *, in_order: bool) -> str:
        slots = len(table.slots)
        values = ", ".join(ident(slot) for slot in table.slots)
        source_row = f"source_row * {_SLOTS_PER_ROW} + slot AS source_row," if in_order else ""
        # Elapsed slots are counted from the instant of local midnight, clock slots from 0:00.
        elapsed = table.day_slots is DaySlots.ELAPSED
        begin = "midnight_us" if elapsed else "date_us"
        beyond = f"slot * {table.minutes} >= day_minutes" if elapsed else "false"
        join = f"LEFT JOIN midnights ON day = date_us // {DAY_US}" if elapsed else ""
        return f"""
            SELECT meter AS customer,
                   meter,
                   {begin} + slot * {table.minutes * MINUTE_US} AS stamp_us,
                   {self._number("value_written")} AS value,
                   value_written,
                   {table.minutes}::SMALLINT AS minutes,
                   {schema.NET}::TINYINT AS channel,
                   0::TINYINT AS quality,
                   {beyond} AS beyond_day,
                   {source_row}
                   concat_ws(', ', meter, date_written, 'slot ' || (slot + 1), value_written)
                       AS written
            FROM (
                SELECT {self._name(table.customer)} AS meter,
                       {self.stamp.sql} AS date_us,
                       {ident(table.date)}::VARCHAR AS date_written,
                       {"source_row," if in_order else ""}
                       unnest([{values}]) AS value_written,
                       unnest(range({slots})) AS slot
                FROM {scan}
            ) {join}
        """

    def _matrix(self, table: MatrixTable, scan: str, *, in_order: bool) -> str:
        values = ", ".join(ident(name) for name in table.customers)
        order = f"source_row * {len(table.customers)} + place AS source_row," if in_order else ""
        return f"""
            SELECT meter AS customer,
                   meter,
                   stamp_us,
                   {self._number("value_written")} AS value,
                   value_written,
                   {self.minutes}::SMALLINT AS minutes,
                   {schema.NET}::TINYINT AS channel,
                   0::TINYINT AS quality,
                   false AS beyond_day,
                   {order}
                   concat_ws(', ', meter, stamp_written, value_written) AS written
            FROM (
                SELECT {self.stamp.sql} AS stamp_us,
                       {ident(table.stamp)}::VARCHAR AS stamp_written,
                       {"source_row," if in_order else ""}
                       unnest([{values}]) AS value_written,
                       trim(unnest({literals(list(table.customers))})) AS meter,
                       unnest(range({len(table.customers)})) AS place
                FROM {scan}
            )
        """

    def _roles(self) -> tuple[str | None, ...]:
        table = self.table
        match table:
            case LongTable():
                notes = (table.channel, table.quality, table.minutes, table.register, table.written)
                return (table.customer, *table.stamp, table.value, table.meter, *notes)
            case WideTable():
                return (table.customer, table.date, *table.slots)
            case MatrixTable():
                return (table.stamp, *table.customers)

    def _channels(self) -> dict[str, int]:
        """Return the codes of the texts of channels."""
        stated = {
            text.strip().lower(): schema.CHANNELS.index(meaning)
            for text, meaning in self.words.items()
            if meaning in schema.CHANNELS
        }
        return {**schema.CHANNEL_WORDS, **stated}

    def _minutes(self) -> str:
        if isinstance(self.table, LongTable) and self.table.minutes is not None:
            return f"try_cast({ident(self.table.minutes)} AS SMALLINT)"
        return f"{self.minutes}::SMALLINT"

    def _name(self, name: str) -> str:
        """Write a name column; some sources pad with blanks, and one home must not become two."""
        return f"trim({ident(name)}::VARCHAR)"

    def _number(self, value: str) -> str:
        return self.decimals.number(value) if self.decimals else f"try_cast({value} AS DOUBLE)"


def find_rows(
    connection: duckdb.DuckDBPyConnection,
    scan: Scan,
    found: FoundLayout,
    options: ReadOptions,
    path: str,
) -> TableRows:
    """Complete a layout from the data: stamps, decimal mark, minutes."""
    stamps, values = _stamps_and_values(found.table)
    stamp = _find_stamp(connection, scan, stamps, options, path)
    is_local = found.placed or (not stamp.aware and found.zone != "UTC")
    if isinstance(found.table, WideTable) and found.table.day_slots is DaySlots.ELAPSED:
        add_midnights(connection, options.timezone or "UTC")
        stamp = replace(stamp, aware=True)
        is_local = True
    if found.zone == "UTC":
        stamp = replace(stamp, aware=True, inferred="clock of the time stamps: UTC, by the format")
    assumptions = list(found.assumptions) + ([stamp.inferred] if stamp.inferred else [])
    decimals = None
    if all(scan.types[name] == "VARCHAR" for name in values):
        mark = options.decimal or find_mark(connection, scan, values, _SAMPLE_ROWS, path)
        decimals = Decimals(mark, groups=options.decimal is not None)
        if options.decimal is None:
            assumptions.append(f"values: decimal {mark.value}")
    if is_local and options.timezone is None:
        assumptions.append(ASSUMED_UTC)
    minutes = options.minutes
    if isinstance(found.table, WideTable):
        minutes = found.table.minutes
    end = found.stamp is Stamp.END
    unit, unit_notes = _find_unit(connection, scan, found, options, path)
    rows = TableRows(
        scan,
        found.table,
        stamp,
        end,
        minutes,
        decimals,
        (*assumptions, *unit_notes),
        unit=unit,
        cumulative=options.cumulative or found.cumulative,
        fills_gaps=found.cumulative,
        file_unit=found.file_unit,
        qualities=_find_qualities(connection, scan, found.table, options, path),
        words=options.words,
    )
    if minutes is None and not (isinstance(found.table, LongTable) and found.table.minutes):
        minutes = _infer_minutes(connection, rows, path)
        inferred = f"minutes: {minutes}, the most common gap between a customer's readings"
        assumptions = [*rows.assumptions, inferred]
        rows = replace(rows, minutes=minutes, infers_minutes=True, assumptions=tuple(assumptions))
    return with_stamp_ends(connection, rows, stamps)


def _find_unit(
    connection: duckdb.DuckDBPyConnection,
    scan: Scan,
    found: FoundLayout,
    options: ReadOptions,
    path: str,
) -> tuple[MeasuredIn, tuple[str, ...]]:
    """Return the unit, that of the column of units if there is one; and a note if it differs."""
    if found.unit_column is None:
        return found.unit, ()
    column = ident(found.unit_column)
    drawn = connection.execute(
        f"SELECT DISTINCT trim({column}::VARCHAR) AS unit FROM {scan.sql} WHERE unit <> '' LIMIT 20"
    ).fetchall()
    words = sorted(str(row[0]) for row in drawn)
    units = {unit_in_name(plain_name(word)) for word in words} or {found.unit}
    if options.unit is not None:
        note = unit_note(options.unit, ", ".join(words), found.unit_column)
        return options.unit, () if units == {options.unit} else (note,)
    unit = units.pop() if len(units) == 1 else None
    if unit is None:
        expected = "one unit, such as kWh, Wh, MWh, kW or W; or columns={'value': …} and unit=…"
        raise InvalidFileError(path, f"column {column}", expected, words)
    return unit, ()


def _find_qualities(
    connection: duckdb.DuckDBPyConnection,
    scan: Scan,
    table: TableLayout,
    options: ReadOptions,
    path: str,
) -> dict[str, int]:
    """Return the codes of the texts of qualities; staged tables have the names of qualities."""
    if not isinstance(table, LongTable) or table.quality is None or table.register is not None:
        return {}
    return quality_codes(connection, scan.sql, table.quality, options.words, path)


def add_midnights(connection: duckdb.DuckDBPyConnection, zone: str) -> None:
    """Make the table of days: the instant at which each begins, and how long it is."""
    days = np.arange(_FIRST_DAY, _LAST_DAY + 1, dtype=np.int64)
    begins = midnights(zone, days)
    table = pa.table(
        {
            "day": days[:-1],
            "midnight_us": begins[:-1],
            "day_minutes": np.diff(begins) // MINUTE_US,
        }
    )
    connection.register("midnights_made", table)
    connection.execute("CREATE OR REPLACE TABLE midnights AS FROM midnights_made")
    connection.unregister("midnights_made")


def _stamps_and_values(table: TableLayout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of the stamp, and those of values."""
    match table:
        case LongTable():
            return table.stamp, (table.value,)
        case WideTable():
            return (table.date,), table.slots
        case MatrixTable():
            return (table.stamp,), table.customers


def _find_stamp(
    connection: duckdb.DuckDBPyConnection,
    scan: Scan,
    columns: tuple[str, ...],
    options: ReadOptions,
    path: str,
) -> StampReader:
    if len(columns) == 1:
        typed = typed_stamp(ident(columns[0]), scan.types[columns[0]])
        if typed is not None:
            return typed
    text = ident(columns[0])
    if len(columns) > 1:
        text = "(" + " || ' ' || ".join(f"trim({ident(name)}::VARCHAR)" for name in columns) + ")"
    drawn = connection.execute(
        f"SELECT trim({text}) FROM {scan.sql} LIMIT {_SAMPLE_ROWS}"
    ).fetchall()
    if not drawn:
        raise NoUsableReadingError(path, "all rows", "a reading", None)
    sample = [str(row[0]) for row in drawn if row[0]]
    where = "column " + " and ".join(ident(name) for name in columns)
    given = options.stamp_format
    reader = text_stamp(connection, text, sample, given=given, path=path, where=where)
    check_format(connection, scan.sql, reader, given, sample[0] if sample else "", path, where)
    return reader


def _infer_minutes(connection: duckdb.DuckDBPyConnection, rows: TableRows, path: str) -> int:
    """Return the most common gap between a customer's readings, from more rows if needed."""
    source = replace(rows, minutes=60).sql()
    found: list[tuple[int]] = []
    for limit in (f"LIMIT {_SAMPLE_ROWS}", f"LIMIT {1000 * _SAMPLE_ROWS}", ""):
        found = connection.execute(f"""
            WITH drawn AS (SELECT meter, stamp_us FROM ({source}) {limit}),
            distances AS (
                SELECT stamp_us - lag(stamp_us) OVER (PARTITION BY meter ORDER BY stamp_us) AS us
                FROM drawn
            )
            SELECT us FROM distances WHERE us > 0 GROUP BY us ORDER BY count(*) DESC, us LIMIT 1
        """).fetchall()
        if found:
            break
    minutes = int(found[0][0]) / MINUTE_US if found else 0.0
    if minutes not in schema.ALLOWED_MINUTES:
        expected = f"several stamps per customer that are {schema.MINUTES_TEXT} apart, or minutes=…"
        raise InvalidFileError(path, "time stamps", expected, f"{minutes:g} minutes")
    return int(minutes)


def _as_text(names: list[str]) -> str:
    return "concat_ws(', ', " + ", ".join(f"{ident(name)}::VARCHAR" for name in names) + ")"
