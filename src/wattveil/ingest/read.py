"""`read_readings`: the front door."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, overload

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from wattveil import checks
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.ingest import schema
from wattveil.ingest.databases import spill_query
from wattveil.ingest.green_button import green_button_batches
from wattveil.ingest.layouts import find_layout
from wattveil.ingest.nem12 import nem12_batches
from wattveil.ingest.options import ReadOptions
from wattveil.ingest.readings import Readings, Source, Workshop
from wattveil.ingest.report import ProblemLog
from wattveil.ingest.rows import Rows, find_rows
from wattveil.ingest.sources import (
    Kind,
    Scan,
    duckdb_reads,
    kind_of,
    resolve,
    scan_csv,
    scan_parquet,
)
from wattveil.ingest.sql import paths

_LEAST_MEMORY_MB = 200
_SHOWN_FILES = 3

_StreamingReader = Callable[..., Iterator[pa.RecordBatch]]
_STREAMING: dict[Kind, _StreamingReader] = {
    Kind.GREEN_BUTTON: green_button_batches,
    Kind.NEM12: nem12_batches,
}

_Kept = TypeVar("_Kept")
_Kept_co = TypeVar("_Kept_co", covariant=True)


class ReadsReadings(Protocol[_Kept_co]):
    """An engine: where readings may be read instead of here."""

    def read_readings(
        self, source: str | Path | Sequence[str | Path], options: ReadOptions, *, memory_mb: int
    ) -> _Kept_co:
        """Return readings that the engine reads."""


class _Given(TypedDict, total=False):
    """What `read_readings` may be told."""

    sql: str | None
    layout: str | None
    columns: Mapping[str, str] | None
    unit: str | None
    minutes: int | None
    stamp: str | None
    stamp_format: str | None
    decimal: str | None
    timezone: str | None
    day_slots: str | None
    period: tuple[str, str] | None
    conflicts: str
    estimated: str
    meters: str | Path | None
    register_rollover: float | None
    skip_lines: int
    problems_to: str | Path | None
    memory_mb: int


@overload
def read_readings(
    source: str | Path | Sequence[str | Path], *, engine: None = None, **given: Unpack[_Given]
) -> Readings: ...


@overload
def read_readings(
    source: object, *, engine: ReadsReadings[_Kept], **given: Unpack[_Given]
) -> _Kept: ...


def read_readings(
    source: Any,  # an engine may know others
    *,
    sql: str | None = None,
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
    problems_to: str | Path | None = None,
    memory_mb: int = 600,
    engine: ReadsReadings[_Kept] | None = None,
) -> Readings | _Kept:
    """Read meter data of any known kind into one table.

    Parameters
    ----------
    source
        A file, a folder, a glob, or a list of these: CSV, Parquet, Green Button XML or NEM12, plain
        or compressed with gzip or zstd, told apart by content. With ``sql``, a database:
        ``sqlite:///path``, ``duckdb:///path`` or ``postgresql://…``.
    sql
        Query whose rows are the readings.
    layout
        ``long`` (one row a reading), ``wide`` (one row a customer and day, 24, 48, 96 or 288
        columns, or the ComEd columns) or ``matrix`` (one row a time, one column a customer).
        Guessed from the header if left out, as is all that follows; `Readings.guesses` says how.
    columns
        Name of the column for each of: customer, meter, stamp (or date and time), value, channel,
        quality, minutes.
    unit
        ``kWh``, ``Wh``, ``kW`` or ``register`` (a running total in kWh).
    minutes
        Length of the intervals.
    stamp
        Whether a stamp names the ``start`` or the ``end`` of its interval.
    stamp_format
        Format of the stamps, as for ``strptime``. With ``%z``, or with a ``Z`` at its end, they are
        instants; with any other, the time on a clock.
    decimal
        What values that are texts have before their fractions: a ``point`` or a ``comma``. The
        other sign then parts groups of thousands. Left out, 1,500 is refused where it may be both.
    timezone
        Zone of stamps without offset; left out, they are UTC. A local time that clocks skip is
        dropped. One that they show twice goes to its first and second pass in turn, by order of
        appearance within the customer.
    day_slots
        What wide columns are when clocks change: ``clock`` (time on the wall) or ``elapsed`` (time
        since midnight; the rule for tables with 25, 50, 100 or 300 slots).
    period
        First day and day after the last; readings outside are dropped.
    conflicts
        Two different values for one interval: ``drop`` both (no guess about which is right),
        keep the ``first`` or the ``last`` to appear, or their ``mean``. Before that, a measured
        read replaces an estimated one; equal values are always merged.
    estimated
        ``keep`` them, ``flag`` them (profiles then carry each customer's share), or ``drop`` them.
    meters
        CSV or Parquet file with columns meter_id and customer_id: after a meter swap, several
        meters are one customer. Their rows for one interval are duplicates of each other.
    register_rollover
        Where a register starts again from 0. A fall from its last tenth to its first is a
        rollover; any other fall is a reset, and that interval is dropped.
    skip_lines
        Lines of a CSV file before its header.
    problems_to
        CSV or Parquet file for the dropped and contradicting rows themselves.
    memory_mb
        What DuckDB may use before it turns to the disk; with an engine, in each task.
    engine
        Where readings are read instead of here, such as `SparkEngine(session)`. ``source`` is then
        long or wide tables in files that the driver and every executor see, addresses of Parquet
        that Spark knows (``s3a://…``), or a DataFrame. What it returns can be given to
        `profiles_from_readings`.

    Returns
    -------
    Readings
        Lazy: files are read when a table, a report or a profile is asked for.
    """
    options = ReadOptions.from_text(
        layout=layout,
        columns=columns,
        unit=unit,
        minutes=minutes,
        stamp=stamp,
        stamp_format=stamp_format,
        decimal=decimal,
        timezone=timezone,
        day_slots=day_slots,
        period=period,
        conflicts=conflicts,
        estimated=estimated,
        meters=meters,
        register_rollover=register_rollover,
        skip_lines=skip_lines,
    )
    if engine is None:
        return open_readings(source, options, sql=sql, problems_to=problems_to, memory_mb=memory_mb)
    for name, value in {"sql": sql, "problems_to": problems_to}.items():
        if value is not None:
            raise InvalidParameterError(name, "left out with an engine", str(value))
    return engine.read_readings(source, options, memory_mb=checked_memory(memory_mb))


def open_readings(
    source: str | Path | Sequence[str | Path],
    options: ReadOptions,
    *,
    sql: str | None = None,
    problems_to: str | Path | None = None,
    memory_mb: int = 600,
) -> Readings:
    """Do what `read_readings` does, by rules that were checked."""
    if problems_to is not None and Path(problems_to).suffix not in {".csv", ".parquet"}:
        raise InvalidParameterError("problems_to", "a .csv or .parquet file", str(problems_to))
    workshop = Workshop(checked_memory(memory_mb))
    opened = _query(workshop, source, sql) if sql else _files(workshop, source, options)
    return Readings(workshop, _complete(workshop.connection, opened, options, problems_to))


def checked_memory(memory_mb: int) -> int:
    """Accept what DuckDB can work with."""
    return checks.integer("memory_mb", memory_mb, least=_LEAST_MEMORY_MB)


class _Opened:
    """A source that DuckDB can scan."""

    def __init__(
        self,
        scan: Scan,
        files: list[Path],
        passed_over: Sequence[Path] = (),
        log: ProblemLog | None = None,
    ) -> None:
        self.scan = scan
        self.files = tuple(files)
        self.passed_over = tuple(passed_over)
        self.log = log


def _query(workshop: Workshop, source: object, sql: str) -> _Opened:
    target = workshop.folder / "query.parquet"
    spill_query(str(source), sql, target)
    return _Opened(scan_parquet(workshop.connection, [target]), [target])


def _files(
    workshop: Workshop, source: str | Path | Sequence[str | Path], options: ReadOptions
) -> _Opened:
    passed_over: list[Path] = []
    files = resolve(source, passed_over)
    kind = kind_of(files)
    if kind is Kind.CSV:
        return _Opened(scan_csv(files, skip_lines=options.skip_lines), files, passed_over)
    if kind is Kind.PARQUET:
        return _Opened(scan_parquet(workshop.connection, files), files, passed_over)
    log = ProblemLog(workshop.folder / "left_out.csv")
    target = workshop.folder / "streamed.parquet"
    with closing(log), pq.ParquetWriter(target, schema.READINGS_SCHEMA) as writer:
        for path in files:
            for batch in _STREAMING[kind](path, problems=log):
                writer.write_batch(batch)
    return _Opened(scan_parquet(workshop.connection, [target]), files, passed_over, log)


def _complete(
    connection: duckdb.DuckDBPyConnection,
    opened: _Opened,
    options: ReadOptions,
    problems_to: str | Path | None,
) -> Source:
    """Find out what the columns are, how long intervals are, and which meters are whose."""
    path = str(opened.files[0])
    with duckdb_reads(opened.files):
        found = find_layout(opened.scan.names, options, path=path)
        rows = find_rows(connection, opened.scan, found, options, path)
        lengths = _lengths(connection, rows, path)
    guesses = (*rows.guesses, *passed_over_guesses(opened.passed_over))
    if options.meters is not None:
        add_meters(connection, options.meters)
    return Source(
        files=opened.files,
        rows=replace(rows, guesses=guesses),
        unit=found.unit,
        options=options,
        lengths=lengths,
        log=opened.log,
        problems_to=None if problems_to is None else Path(problems_to),
    )


def passed_over_guesses(passed_over: Sequence[Path]) -> tuple[str, ...]:
    """Say which files of a folder are not read."""
    if not passed_over:
        return ()
    names = ", ".join(path.name for path in passed_over[:_SHOWN_FILES])
    more = len(passed_over) - _SHOWN_FILES
    tail = f" and {more} more" if more > 0 else ""
    return (f"files: {names}{tail} are not meter data, by their names",)


def _lengths(connection: duckdb.DuckDBPyConnection, rows: Rows, path: str) -> tuple[int, ...]:
    """Return the interval lengths that occur."""
    if rows.minutes is not None:
        return (rows.minutes,)
    return allowed_lengths(connection.execute(rows.lengths_sql()).fetchall(), path)


def allowed_lengths(found: Sequence[Sequence[int]], path: str) -> tuple[int, ...]:
    """Accept the interval lengths that occur; there must be one."""
    if not found:
        expected = f"intervals of {schema.ALLOWED_MINUTES} minutes"
        raise InvalidFileError(path, "interval lengths", expected, "none")
    return tuple(int(row[0]) for row in found)


def add_meters(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Make the table of meters; a meter of two customers is an error in the list."""
    reader = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    extra = "" if reader == "read_parquet" else ", all_varchar = true, header = true"
    with duckdb_reads([path]):
        connection.execute(f"""
            CREATE OR REPLACE TABLE meters AS
            SELECT DISTINCT trim(meter_id::VARCHAR) AS meter_id,
                            trim(customer_id::VARCHAR) AS customer_id
            FROM {reader}({paths([path])}{extra})
            WHERE meter_id IS NOT NULL AND customer_id IS NOT NULL
        """)
    twice = connection.execute(
        "SELECT meter_id FROM meters GROUP BY meter_id HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    ).fetchall()
    if twice:
        expected = "each meter with one customer"
        raise InvalidFileError(path, "meter_id", expected, f"{twice[0][0]} with several")
