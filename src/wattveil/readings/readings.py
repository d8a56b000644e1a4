"""`read_readings` and `Readings`: meter data of any known kind as one table, larger than memory.

`Readings` returns the long table of `READINGS_SCHEMA`, as a whole or as a stream, and totals by
customer and slot (`slot_totals`). Behind these methods every row is checked by itself
(`row_checks`) and reconciled with the others (`reconcile`), or counted in one pass where that gives
the same result.
"""

import datetime as dt
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

import duckdb
import numpy as np
import pyarrow as pa

from wattveil import checks
from wattveil.declaration import one_model, takes_fields
from wattveil.errors import AssumedTimeZoneWarning, InvalidFileError, InvalidParameterError
from wattveil.readings import schema
from wattveil.readings.batches import ProblemLog
from wattveil.readings.containers import named_by_origin
from wattveil.readings.formats.table import TableRows, find_rows
from wattveil.readings.formats.table_columns import FoundLayout, find_layout
from wattveil.readings.open_files import (
    ArrowTable,
    OpenedSource,
    open_files,
    open_query,
    single_scans,
    store_table,
)
from wattveil.readings.options import ASSUMED_UTC, MeasuredIn, ReadOptions
from wattveil.readings.plausibility import check_plausible, other_unit_files
from wattveil.readings.reconcile import ReconcileRules, Reconciliation, reconcile
from wattveil.readings.row_checks import (
    Drop,
    Merge,
    Note,
    ReadingReport,
    RowChecks,
    check_rows,
    units_sql,
)
from wattveil.readings.row_positions import FileSpan, file_spans, positions_sql, with_rows
from wattveil.readings.slot_counts import CellGrid
from wattveil.readings.slot_totals import SlotTotals, slot_totals
from wattveil.readings.sources import (
    REPLACEMENT,
    ScratchDatabase,
    add_meters,
    duckdb_reads,
    not_utf_8,
)
from wattveil.readings.sql_text import literal
from wattveil.readings.timestamps import MINUTE_US, midnights
from wattveil.web.results import PrivateResult, ResultTable

_MIN_MEMORY_MB = 200
_SHOWN_FILES = 3
_BATCH_ROWS = 65_536
_DAILY_MINUTES = 1380  # a day in spring
_UNIT_BATCH_ROWS = 1 << 20
_FIRST_OF_1970 = dt.date(1970, 1, 1)


_Distributed = TypeVar("_Distributed")
_Distributed_co = TypeVar("_Distributed_co", covariant=True)


class ReadingsEngine(Protocol[_Distributed_co]):
    """Engine that reads readings outside this process."""

    def read_readings(
        self, source: str | Path | Sequence[str | Path], options: ReadOptions, *, memory_mb: int
    ) -> _Distributed_co:
        """Return readings that the engine reads."""


@overload
def read_readings(
    source: str | Path | Sequence[str | Path] | ArrowTable,
    options: ReadOptions | None = None,
    *,
    sql: str | None = None,
    problems_to: str | Path | None = None,
    memory_mb: int = 600,
    engine: None = None,
    **fields: Any,  # noqa: ANN401 - those of `ReadOptions`
) -> "Readings": ...


@overload
def read_readings(
    source: object,
    options: ReadOptions | None = None,
    *,
    memory_mb: int = 600,
    engine: ReadingsEngine[_Distributed],
    **fields: Any,  # noqa: ANN401 - those of `ReadOptions`
) -> _Distributed: ...


@takes_fields(ReadOptions)
def read_readings(
    source: Any,  # an engine may accept others
    options: ReadOptions | None = None,
    *,
    sql: str | None = None,
    problems_to: str | Path | None = None,
    memory_mb: int = 600,
    engine: ReadingsEngine[_Distributed] | None = None,
    **fields: Any,
) -> "Readings | _Distributed":
    """Read meter data of any known kind into one table.

    Parameters
    ----------
    source
        A file, a folder, a glob, an address (``https://…``, ``s3://…``), or a list of these: CSV,
        Parquet, Green Button XML or NEM12, plain, compressed (gzip, zstd, bzip2) or in a ZIP
        archive, Excel workbooks, Arrow, JSON lines, DuckDB and SQLite files, recognised by content.
        Or a table in memory that exports an Arrow stream: a DataFrame of pandas or Polars, an Arrow
        table. With ``sql``, a database: ``sqlite:///path``, ``duckdb:///path``, ``postgresql://…``.
    options
        All options at once; else they are keyword arguments.
    sql
        Query whose rows are the readings.
    problems_to
        CSV or Parquet file for the dropped and contradicting rows themselves.
    memory_mb
        Memory in MB that DuckDB may use before it spills to the disk; with an engine, per task.
    engine
        Engine that reads instead of this process, such as `SparkEngine(session)`. ``source`` is
        then long or wide tables in files that the driver and every executor see, Parquet addresses
        that Spark resolves (``s3a://…``), or a DataFrame. The result can be passed to
        `profiles_from_readings`.
    **fields
        Fields of `ReadOptions`.

    Returns
    -------
    Readings
        Lazy: files are read when a table, a report or a profile is requested.
    """
    options = one_model(ReadOptions, options, fields)
    checks.integer("memory_mb", memory_mb, minimum=_MIN_MEMORY_MB)
    if engine is not None:
        for name, value in {"sql": sql, "problems_to": problems_to}.items():
            if value is not None:
                raise InvalidParameterError(name, "omitted with an engine", str(value))
        return engine.read_readings(source, options, memory_mb=memory_mb)
    is_table = hasattr(source, "__arrow_c_stream__")
    if not is_table and not isinstance(source, str | Path | Sequence):
        rule = "a path, a list of paths, or a table that Arrow can import, such as a DataFrame"
        raise InvalidParameterError("source", rule, type(source).__name__)
    if problems_to is not None and Path(problems_to).suffix not in {".csv", ".parquet"}:
        raise InvalidParameterError("problems_to", "a .csv or .parquet file", str(problems_to))
    database = ScratchDatabase(memory_mb)
    if is_table:
        source = store_table(source, database.folder)
    with named_by_origin():
        opened = open_query(database, source, sql) if sql else open_files(database, source, options)
        found = _complete(database.connection, opened, options, problems_to)
    if ASSUMED_UTC in found.rows.assumptions:
        text = f"{ASSUMED_UTC}; state timezone=…, such as 'Europe/Berlin'"
        warnings.warn(text, AssumedTimeZoneWarning, stacklevel=2)
    return Readings(database, found)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Origin of readings, and the rules by which they are read."""

    files: tuple[Path, ...]
    rows: TableRows
    unit: MeasuredIn
    options: ReadOptions
    lengths: tuple[int, ...]  # interval lengths that occur, in minutes
    kind: str = "table"
    log: ProblemLog | None = None
    problems_to: Path | None = None
    scanned: tuple[Path, ...] = ()  # files of the scan; a container holds several
    spans: tuple[FileSpan, ...] = ()  # of rows that were staged or streamed


class Readings(PrivateResult):
    """Readings as one table of `READINGS_SCHEMA`; made by `read_readings`.

    Nothing is read before something is requested. `report` and the table need all rows reconciled;
    `slot_totals` only those of customers whose rows collide.
    """

    def __init__(self, database: ScratchDatabase, source: Source) -> None:
        self._database = database
        self._reconciled: Reconciliation | None = None
        self.source = source
        self.connection = database.connection  # for modules of this package

    @property
    def options(self) -> ReadOptions:
        """Options by which they are read."""
        return self.source.options

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the source."""
        return self.source.files

    @property
    def kind(self) -> str:
        """Format of the source, if its columns were found by name."""
        return self.source.kind

    @property
    def lengths(self) -> tuple[int, ...]:
        """Interval lengths that occur, in minutes."""
        return self.source.lengths

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Options that were not given and were inferred from the data."""
        return self.source.rows.assumptions

    @property
    def report(self) -> ReadingReport:
        """Account of every row."""
        found = self.reconciled()
        return self.account(
            rows_in=found.rows_in,
            rows_out=found.rows_out,
            dropped=found.by_row + found.dropped,
            merged=found.merged,
            notes=found.notes,
        )

    @property
    def progress_percent(self) -> float:
        """Progress of the running query; below 0 if it is unknown."""
        return self.connection.query_progress()

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"readings": self._long}

    def _long(self) -> ResultTable:
        return ResultTable(self.batches().read_all(), ("customer_id", "start_utc"))

    def _columns(self) -> Sequence[str]:
        return tuple(schema.READINGS_SCHEMA.names)

    def _public_facts(self) -> Mapping[str, object]:
        named = {"customer", "meters", "table", "columns"}  # these may hold names of customers
        return self.options.model_dump(exclude=named, exclude_defaults=True, mode="json")

    def batches(self) -> pa.RecordBatchReader:
        """Return the table as a stream of batches, by customer and time."""
        reader = self.connection.cursor().sql(self._table_sql()).to_arrow_reader(_BATCH_ROWS)
        batches = (batch.cast(schema.READINGS_SCHEMA) for batch in reader)
        return pa.RecordBatchReader.from_batches(schema.READINGS_SCHEMA, batches)

    def unit_batches(self, first_us: int, end_us: int, *, divisor_of: int) -> pa.RecordBatchReader:
        """Return readings with whole units of energy as a stream of batches, in no order.

        Columns: customer_id, start_us, minutes, units (1e-7 kWh). Only starts from ``first_us`` to
        ``end_us``, and lengths that divide ``divisor_of`` minutes.
        """
        return (
            self.connection.cursor()
            .sql(
                f"SELECT customer_id, epoch_us(start_utc) AS start_us, minutes,"
                f" {units_sql('kwh')}::BIGINT AS units FROM ({self.reconciled().sql})"
                f" WHERE {divisor_of} % minutes = 0"
                f" AND epoch_us(start_utc) BETWEEN {first_us} AND {end_us}"
            )
            .to_arrow_reader(_UNIT_BATCH_ROWS)
        )

    def customer_ids(self) -> list[str]:
        """Return the customers of the table, in order."""
        query = f"SELECT DISTINCT customer_id FROM ({self.reconciled().sql}) ORDER BY customer_id"
        return [str(name) for (name,) in self.connection.cursor().sql(query).fetchall()]

    def span_us(self) -> tuple[int, int] | None:
        """Return start of the first and end of the last reading, microseconds since 1970."""
        ends = f"max(epoch_us(start_utc) + minutes::BIGINT * {MINUTE_US})"
        query = f"SELECT min(epoch_us(start_utc)), {ends} FROM ({self.reconciled().sql})"
        found = self.connection.cursor().sql(query).fetchone()
        return None if found is None or found[0] is None else (int(found[0]), int(found[1]))

    def slot_totals(self, grid: CellGrid, zone: str) -> SlotTotals:
        """Return the totals of every customer by slot of a calendar, and the account of every row.

        Equal to the totals of the reconciled table, in one pass over the source where possible.

        Parameters
        ----------
        grid
            Assigns local times to cells.
        zone
            Time zone of the cells.
        """
        return slot_totals(self, grid, zone)

    def customers_in(self) -> int:
        """Count the customers found in the source, with or without usable readings."""
        return self.reconciled().customers

    def write_parquet(self, path: str | Path) -> None:
        """Write the table to a Parquet file."""
        target = literal(str(path))
        self.connection.execute(f"COPY ({self._table_sql()}) TO {target} (FORMAT parquet)")

    def close(self) -> None:
        """Remove the temporary folder; otherwise it is removed with the object."""
        self._database.close()

    # What follows is for modules of this package.

    @property
    def clock(self) -> str | None:
        """Zone of stamps that are local time; None if they are instants."""
        zone = self.options.timezone
        return None if self.source.rows.stamp.aware or zone in {None, "UTC"} else zone

    def checked(self, *, in_order: bool = False) -> RowChecks:
        """Return the checks of single rows."""
        return check_rows(self.source.rows, self.source.unit, self.options, in_order=in_order)

    def reconciled(self, only: str | None = None) -> Reconciliation:
        """Reconcile all rows, or those of the customers in the table ``only``."""
        if only is None and self._reconciled is not None:
            return self._reconciled
        folder = self._database.folder / (only or "all")
        folder.mkdir(exist_ok=True)
        checked = folder / "checked.parquet"
        chosen = f"SEMI JOIN {only} USING (customer_id)" if only else ""
        unwanted = "EXCLUDE (written)" if self.source.problems_to is None else ""
        checked_sql = self.checked(in_order=True).sql(in_order=True)
        with duckdb_reads(self.files):
            self.connection.execute(f"""
                COPY (SELECT * {unwanted} FROM ({checked_sql}) {chosen})
                TO {literal(str(checked))} (FORMAT parquet)
            """)
        result = reconcile(self.connection, checked, self._rules(), folder)
        if only is None:
            self._reconciled = result
            if self.source.problems_to is not None:
                self._write_problems(result, self.source.problems_to)
        return result

    def account(
        self,
        *,
        rows_in: int,
        rows_out: int,
        dropped: Counter[Drop],
        merged: Counter[Merge],
        notes: Counter[Note],
    ) -> ReadingReport:
        """Make the report; what a streaming reader left out is added."""
        by_text = Counter({reason.text: rows for reason, rows in dropped.items()})
        remarks: Counter[str] = Counter({str(note): rows for note, rows in notes.items()})
        if self.source.log is not None:
            rows_in += self.source.log.dropped.total()
            by_text += self.source.log.dropped
            remarks += self.source.log.notes
        return ReadingReport(
            files=tuple(path.name for path in self.files),
            rows_in=rows_in,
            rows_out=rows_out,
            dropped={reason: rows for reason, rows in by_text.items() if rows},
            merged={str(reason): rows for reason, rows in merged.items() if rows},
            notes={note: rows for note, rows in remarks.items() if rows},
            assumptions=self.assumptions,
            options=self.options.model_dump(mode="json"),
        )

    def period_us(self) -> tuple[int, int] | None:
        """Return the period as instants: midnights of the stamps' zone."""
        if self.options.period is None:
            return None
        days = np.array([(day - _FIRST_OF_1970).days for day in self.options.period], np.int64)
        first, end = midnights(self.options.timezone or "UTC", days).tolist()
        return first, end

    def _rules(self) -> ReconcileRules:
        rows = self.source.rows
        return ReconcileRules(
            cumulative=rows.cumulative,
            clock=self.clock,
            end_stamped=rows.end_stamped,
            period_us=self.period_us(),
            conflicts=self.options.conflicts,
            register_rollover=self.options.register_rollover,
            has_channels=rows.has_channels,
            has_registers=rows.has_registers,
            fills_gaps=rows.fills_gaps,
            has_qualities=rows.has_qualities,
        )

    def _table_sql(self) -> str:
        return f"SELECT * FROM ({self.reconciled().sql}) ORDER BY customer_id, start_utc, minutes"

    def _write_problems(self, found: Reconciliation, path: Path) -> None:
        """Write every row that was dropped, or that contradicted another, with its reason."""
        rows, spans = self.source.rows, self.source.spans
        problems = with_rows(found.problems, rows.scan, rows.row_sql(), staged=bool(spans))
        if self.source.log is not None:
            problems = " UNION ALL ".join([problems, *self.source.log.staged])
        spans = spans or tuple(file_spans(self.connection, rows.scan, self.source.scanned))
        parts = [f"({positions_sql(self.connection, problems, spans)})"]
        if self.source.log is not None:
            left_out = literal(str(self.source.log.path))
            parts.append(f"SELECT * FROM read_csv({left_out}, all_varchar = true, header = true)")
        union = " UNION ALL ".join(parts)
        self.connection.execute(
            f"COPY ({union}) TO {literal(str(path))} (FORMAT {path.suffix.removeprefix('.')})"
        )


def _complete(
    connection: duckdb.DuckDBPyConnection,
    opened: OpenedSource,
    options: ReadOptions,
    problems_to: str | Path | None,
) -> Source:
    """Find columns, interval lengths and the customers of meters."""
    path = str(opened.files[0])
    with duckdb_reads(opened.files):
        found = opened.layout or _named_layout(opened.scan.names, options, path)
        rows = find_rows(connection, opened.scan, found, options, path)
        lengths = _lengths(connection, rows, path)
        check_plausible(connection, rows, rows.unit, options, path)
        other_units = other_unit_files(connection, rows, single_scans(connection, opened, options))
    passed_over = passed_over_assumption(opened.passed_over)
    noted = (*opened.notes, *other_units, *passed_over)
    assumptions = (*opened.replaced, *rows.assumptions, *noted)
    if options.meters is not None:
        add_meters(connection, options.meters)
    return Source(
        files=tuple(opened.origins),
        rows=replace(rows, assumptions=assumptions),
        unit=rows.unit,
        options=options,
        lengths=lengths,
        kind=opened.kind,
        log=opened.log,
        problems_to=None if problems_to is None else Path(problems_to),
        scanned=tuple(opened.files),
        spans=tuple(opened.spans),
    )


def _named_layout(names: list[str], options: ReadOptions, path: str) -> FoundLayout:
    """Find the layout by names; if none is known, one that is not UTF-8 may be the reason."""
    try:
        return find_layout(names, options, path=path)
    except InvalidFileError as error:
        if unread := [name for name in names if REPLACEMENT in name]:
            raise not_utf_8(path, "header", unread[0]) from error
        raise


def passed_over_assumption(passed_over: Sequence[Path]) -> tuple[str, ...]:
    """Name the files of a folder or archive that are not read."""
    if not passed_over:
        return ()
    names = ", ".join(path.name for path in passed_over[:_SHOWN_FILES])
    more = len(passed_over) - _SHOWN_FILES
    tail = f" and {more} more" if more > 0 else ""
    return (f"files: {names}{tail} are not meter data",)


def _lengths(connection: duckdb.DuckDBPyConnection, rows: TableRows, path: str) -> tuple[int, ...]:
    """Return the interval lengths that occur."""
    if rows.minutes is not None:
        return (rows.minutes,)
    found = connection.execute(rows.lengths_sql()).fetchall()
    other = connection.execute(rows.longest_sql()).fetchone() if not found else None
    return allowed_lengths(found, path, other=other[0] if other else None)


def allowed_lengths(
    found: Sequence[Sequence[int]], path: str, *, other: int | None = None
) -> tuple[int, ...]:
    """Accept the interval lengths that occur; there must be one."""
    if not found:
        daily = other is not None and other >= _DAILY_MINUTES
        expected = f"intervals of {schema.MINUTES_TEXT}"
        remedy = "Daily totals have no load shape. Export interval data instead" if daily else ""
        shown = "none" if other is None else f"{other} minutes" + (", daily" if daily else "")
        raise InvalidFileError(path, "interval lengths", expected, shown, remedy=remedy)
    return tuple(int(row[0]) for row in found)
