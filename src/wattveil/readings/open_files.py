"""Opening of sources: files of any known kind, or a query, as something that DuckDB scans."""

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wattveil.errors import InvalidFileError, NoUsableReadingError
from wattveil.readings import schema
from wattveil.readings.batches import ProblemLog
from wattveil.readings.containers import expand
from wattveil.readings.csv_files import csv_headers, scan_by_name, scan_csv
from wattveil.readings.file_names import resolve
from wattveil.readings.formats.file_columns import add_homes
from wattveil.readings.formats.green_button import green_button_batches
from wattveil.readings.formats.green_button_catalogue import STARTS_ARE_UTC, ClockEvidence
from wattveil.readings.formats.matching_columns import match_columns
from wattveil.readings.formats.meaning_checks import refuse_unit
from wattveil.readings.formats.nem12 import nem12_batches
from wattveil.readings.formats.sections import SCHEMA as SECTIONS_SCHEMA
from wattveil.readings.formats.sections import SECTIONED, section_batches
from wattveil.readings.formats.staging import STAGED_TABLE, stage
from wattveil.readings.formats.table_columns import FoundLayout, own_layout
from wattveil.readings.home_names import home_names, numbered_files, refuse_copies
from wattveil.readings.local_starts import READ_AS_LOCAL, RowRange, place_local_rows
from wattveil.readings.options import NAMED_BY_FILE, Implausible, MeasuredIn, ReadOptions, Stamp
from wattveil.readings.plausibility import MAX_COMPARED_FILES
from wattveil.readings.recognition import (
    KnownFile,
    direct_layout,
    is_sectioned,
    known_files,
    parquet_names,
    replaced_rules,
    staged_parts,
    unknown_files,
)
from wattveil.readings.remote import local_copies
from wattveil.readings.row_positions import READING, ROW_COLUMN, FileSpan
from wattveil.readings.sources import (
    Kind,
    Scan,
    ScratchDatabase,
    duckdb_reads,
    kind_of,
    scan_parquet,
    spill_query,
)
from wattveil.readings.timestamps import known_zone

_ANY_DAY = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - a local time
_STREAMED = {
    Kind.GREEN_BUTTON: "Green Button XML",
    Kind.NEM12: "NEM12, whose times are UTC+10 (market time) in all states and all year",
}
_FEW_REPEATED = 24  # below a day of hours, two files say nothing of one home or two
_LOCAL_START = "(SELECT * REPLACE (make_timestamp(epoch_us(start_utc)) AS start_utc) FROM {scan})"


@dataclass(frozen=True)
class OpenedSource:
    """A source that DuckDB can scan."""

    scan: Scan
    files: list[Path]
    origins: Sequence[Path] = ()  # as the user named them; a container holds several files
    passed_over: Sequence[Path] = ()
    log: ProblemLog | None = None
    layout: FoundLayout | None = None  # of a known format
    kind: str = "table"
    replaced: tuple[str, ...] = ()  # rules of a known format that are not applied
    notes: tuple[str, ...] = ()  # columns that only some files have
    spans: Sequence[FileSpan] = ()  # of rows that were staged or streamed


class ArrowTable(Protocol):
    """Table of another library, such as a DataFrame of pandas or Polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows by the Arrow PyCapsule interface."""


def store_table(table: ArrowTable, folder: Path) -> Path:
    """Write a table in memory to a Parquet file, which is then read like any other."""
    path = folder / "table.parquet"
    with (
        pa.RecordBatchReader.from_stream(table) as reader,
        pq.ParquetWriter(path, reader.schema) as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)
    return path


def open_query(database: ScratchDatabase, source: object, sql: str) -> OpenedSource:
    """Run a query of a database."""
    target = database.folder / "query.parquet"
    spill_query(str(source), sql, target)
    return OpenedSource(scan_parquet(database.connection, [target]), [target], [target])


def open_files(
    database: ScratchDatabase, source: str | Path | Sequence[str | Path], options: ReadOptions
) -> OpenedSource:
    """Open files, addresses and containers."""
    passed_over: list[Path] = []
    addresses: dict[Path, str] = {}
    origins = resolve(local_copies(source, database.folder, addresses), passed_over)
    # A file that is named twice, by a folder and a glob, is read once.
    known = {path: addresses.get(path) or str(path.absolute()) for path in origins}
    files = expand(known, database, table=options.table, passed_over=passed_over)
    homes = home_names(files)
    add_homes(database.connection, homes)
    opened = _plain_files(database, homes, options)
    if opened.layout is not None and NAMED_BY_FILE in opened.layout.assumptions:
        refuse_copies(homes, files)
        said = (*opened.layout.assumptions, *numbered_files(homes.values()))
        opened = replace(opened, layout=replace(opened.layout, assumptions=said))
    first = next(iter(homes))
    if opened.layout is not None:
        refuse_unit(opened.layout, options, first)
    replaced = replaced_rules(first, kind_of([first]), options)
    return replace(opened, origins=list(known), passed_over=passed_over, replaced=replaced)


def _plain_files(
    database: ScratchDatabase, homes: Mapping[Path, str], options: ReadOptions
) -> OpenedSource:
    """Open plain files; those that are no table are streamed or staged first."""
    files = list(homes)
    kind = kind_of(files)
    if kind is Kind.CSV and all(map(is_sectioned, files)):
        return _sectioned(database, homes, options)
    layout = None
    if known := known_files(files, kind, options):
        layout = direct_layout(known)
        if layout is None:
            return _known(database, files, known, options)
    elif known := unknown_files(files, kind, options):
        return _known(database, files, known, options)
    if kind is Kind.CSV:
        headers = csv_headers(files, skip_lines=options.skip_lines)
        notes = () if layout else match_columns(headers, options)
        scan = scan_by_name(headers, skip_lines=options.skip_lines)
        return OpenedSource(scan, files, layout=layout, kind=str(kind), notes=notes)
    if kind is Kind.PARQUET:
        columns = {path: [*parquet_names(path), *_folder_columns(path)] for path in files}
        notes = () if layout else match_columns(columns, options)
        scan = scan_parquet(database.connection, files)
        return OpenedSource(scan, files, layout=layout, kind=str(kind), notes=notes)
    return _streamed(database, homes, kind, options)


def _folder_columns(path: Path) -> list[str]:
    """Return the columns that folders such as ``year=2025`` add to a Parquet file."""
    return [folder.name.partition("=")[0] for folder in path.parents if "=" in folder.name]


def _streamed(
    database: ScratchDatabase,
    homes: Mapping[Path, str],
    kind: Kind,
    options: ReadOptions,
) -> OpenedSource:
    """Write the readings of Green Button and NEM12 files to the scratch folder."""
    files = list(homes)
    log = ProblemLog(database.folder / "left_out.csv")
    target = database.folder / "streamed.parquet"
    clocks: dict[Path, ClockEvidence] = {}
    ranges: dict[Path, RowRange] = {}
    utc_notes: dict[Path, int] = {}
    units: set[str] = set()
    places: dict[str, list[Path]] = {}
    rows = 0
    with closing(log), pq.ParquetWriter(target, schema.READINGS_SCHEMA) as writer:
        for path, home in homes.items():
            before, noted = rows, log.notes[STARTS_ARE_UTC]
            found: list[ClockEvidence] = []
            batches = (
                green_button_batches(path, problems=log, clocks=found, units=units, home=home)
                if kind is Kind.GREEN_BUTTON
                else nem12_batches(path, problems=log, units=units)
            )
            for batch in batches:
                rows += batch.num_rows
                writer.write_batch(batch)
                for name in pc.unique(batch["customer_id"]).to_pylist():
                    some = places.setdefault(name, [])
                    some += [path] if path not in some else []
            clocks.update((path, clock) for clock in found)
            utc_notes[path] = log.notes[STARTS_ARE_UTC] - noted
            ranges[path] = RowRange(before + 1, rows + 1)
    if not rows:
        raise _without_electricity(files[0], kind, log)
    spans = [FileSpan(path=path, first=ranges[path].first, unit=READING) for path in files]
    scan = scan_parquet(database.connection, [target])
    local = _local_files(clocks, options)
    unit = " and ".join(sorted(units))
    layout = own_layout(said=(f"format: {_STREAMED[kind]}", f"unit: {unit}"), file_unit=unit)
    are_placed = False
    log.notes.subtract({STARTS_ARE_UTC: sum(utc_notes[path] for path in local)})
    if local and len(local) < len(clocks):
        some_ranges = [ranges[path] for path in local]
        zone = options.timezone or "UTC"
        placed = place_local_rows(database.connection, target, some_ranges, zone, log)
        scan, are_placed = scan_parquet(database.connection, [placed]), True
    shared = {name: some for name, some in places.items() if len(some) > 1}
    if shared and kind is Kind.GREEN_BUTTON:
        log.notes["usage point in several files, read as one customer"] += len(shared)
        if options.implausible is not Implausible.ACCEPT:
            _refuse_other_homes(database, scan.sql, shared)
    if local and not are_placed:
        scan = replace(scan, sql=_LOCAL_START.format(scan=scan.sql))
        scan = replace(scan, types={**scan.types, "start_utc": "TIMESTAMP"})
        log.notes[READ_AS_LOCAL] += rows
    return OpenedSource(scan, files, log=log, kind=str(kind), spans=spans, layout=layout)


def _refuse_other_homes(
    database: ScratchDatabase, rows: str, shared: Mapping[str, Sequence[Path]]
) -> None:
    """Reject a usage point whose files state different energy for the same intervals.

    Some senders give every home the link ``UsagePoint/1``. Files of one home, such as downloads of
    overlapping months, agree where they overlap, but for the few values that were revised.
    """
    found = database.connection.execute(
        f"""
        SELECT customer_id, count(*) FILTER (lowest < highest) AS differ, count(*) AS repeated
        FROM (
            SELECT customer_id, min(kwh) AS lowest, max(kwh) AS highest
            FROM {rows} WHERE customer_id IN (SELECT unnest($1::VARCHAR[]))
            GROUP BY customer_id, start_utc, minutes, channel HAVING count(*) > 1
        )
        GROUP BY customer_id HAVING repeated >= {_FEW_REPEATED} AND 2 * differ > repeated
        ORDER BY differ DESC LIMIT 1
        """,
        [list(shared)],
    ).fetchall()
    for name, differ, repeated in found:
        first, second, *_ = (path.name for path in shared[name])
        expected = "a usage point of its own for each home, or implausible='accept' to join them"
        evidence = (
            f"{name!r} in {first} and {second}: {differ:,} of {repeated:,} intervals that they"
            " share have different energy"
        )
        raise InvalidFileError(shared[name][1], "UsagePoint", expected, evidence)


def _without_electricity(path: Path, kind: Kind, log: ProblemLog) -> InvalidFileError:
    """Return the error about a file in which nothing is a reading of electricity."""
    reasons = [reason for reason, _ in log.dropped.most_common(3)]
    gas = "commodity is not electricity", "service is not electricity", "unit is neither Wh nor W"
    if reasons and set(reasons) <= set(gas):
        expected = "electricity; request the electricity usage point instead"
        return NoUsableReadingError(path, str(kind), expected, "gas or water: " + reasons[0])
    return NoUsableReadingError(path, str(kind), "a reading of electricity", reasons or "none")


def _local_files(clocks: Mapping[Path, ClockEvidence], options: ReadOptions) -> list[Path]:
    """Return the Green Button files whose starts are local time written as UTC, each by itself."""
    local = [path for path, clock in clocks.items() if clock.is_local]
    if options.timezone is None:
        if local and len(local) < len(clocks):
            evidence = "local time written as UTC; the starts of other files are UTC"
            raise InvalidFileError(local[0], "IntervalBlock", "timezone=… of the files", evidence)
        return local  # of an unknown zone
    zone = options.timezone
    if known_zone("timezone", zone).utcoffset(_ANY_DAY) == dt.timedelta():
        return []
    for path, clock in clocks.items():
        unclear = clock.days_are_utc and not clock.is_local
        if unclear and options.implausible is not Implausible.ACCEPT:
            expected = (
                f"daily blocks that begin at midnight in {zone}, or implausible='accept' for UTC"
            )
            raise InvalidFileError(path, "IntervalBlock", expected, "blocks that begin at 0:00 UTC")
    return local


def single_scans(
    connection: duckdb.DuckDBPyConnection, opened: OpenedSource, options: ReadOptions
) -> dict[Path, Scan]:
    """Return a scan of each file of a plain table of several files; of some if there are many."""
    accepted = options.cumulative or options.implausible is Implausible.ACCEPT
    if opened.spans or accepted or len(opened.files) < 2:  # noqa: PLR2004 - nothing to compare
        return {}
    files = opened.files[:: 1 + len(opened.files) // MAX_COMPARED_FILES]
    if opened.kind == Kind.CSV:
        return {path: scan_csv([path], skip_lines=options.skip_lines) for path in files}
    return {path: scan_parquet(connection, [path]) for path in files}


def _known(
    database: ScratchDatabase,
    files: list[Path],
    known: Sequence[KnownFile],
    options: ReadOptions,
) -> OpenedSource:
    """Stage files of known formats."""
    log = ProblemLog(database.folder / "left_out.csv")
    with closing(log), duckdb_reads(files):
        staged = stage(database.connection, staged_parts(known), options, database.folder)
    log.dropped.update(staged.left_out)
    log.notes.update(staged.notes)
    log.staged += staged.problems
    scan = scan_parquet(database.connection, staged.paths)
    return OpenedSource(scan, files, log=log, layout=staged.layout, spans=staged.spans)


def _sectioned(
    database: ScratchDatabase,
    homes: Mapping[Path, str],
    options: ReadOptions,
) -> OpenedSource:
    """Stage files in sections."""
    target = database.folder / "sections.parquet"
    spans: list[FileSpan] = []
    rows = 0
    with pq.ParquetWriter(target, SECTIONS_SCHEMA) as writer:
        for path, home in homes.items():
            spans.append(FileSpan(path=path, first=rows + 1))
            before = rows
            for batch in section_batches(path, options.customer or "", home, rows_before=before):
                writer.write_batch(batch)
                rows = batch[ROW_COLUMN][-1].as_py()
    layout = FoundLayout(
        STAGED_TABLE, MeasuredIn.KWH, Stamp.START, (f"format: {SECTIONED}, by its headings",)
    )
    scan = scan_parquet(database.connection, [target])
    return OpenedSource(scan, list(homes), layout=layout, spans=spans)
