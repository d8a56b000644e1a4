"""Opening of sources: files of any known kind, or a query, as something that DuckDB scans."""

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wattveil.errors import InvalidFileError, NoUsableReadingError
from wattveil.readings import schema
from wattveil.readings.batches import ProblemLog
from wattveil.readings.containers import expand
from wattveil.readings.csv_files import scan_csv
from wattveil.readings.formats.file_columns import add_homes
from wattveil.readings.formats.green_button import green_button_batches
from wattveil.readings.formats.green_button_catalogue import STARTS_ARE_UTC, ClockEvidence
from wattveil.readings.formats.nem12 import nem12_batches
from wattveil.readings.formats.sections import SCHEMA as SECTIONS_SCHEMA
from wattveil.readings.formats.sections import SECTIONED, section_batches
from wattveil.readings.formats.staging import STAGED_TABLE, stage
from wattveil.readings.formats.table_columns import FoundLayout
from wattveil.readings.home_names import home_names, numbered_files, refuse_copies
from wattveil.readings.options import NAMED_BY_FILE, Implausible, MeasuredIn, ReadOptions, Stamp
from wattveil.readings.recognition import (
    KnownFile,
    direct_layout,
    is_sectioned,
    known_files,
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
    resolve,
    scan_parquet,
    spill_query,
)
from wattveil.readings.timestamps import known_zone

_ANY_DAY = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - a local time
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
        scan = scan_csv(files, skip_lines=options.skip_lines)
        return OpenedSource(scan, files, layout=layout, kind=str(kind))
    if kind is Kind.PARQUET:
        scan = scan_parquet(database.connection, files)
        return OpenedSource(scan, files, layout=layout, kind=str(kind))
    return _streamed(database, homes, kind, options)


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
    clocks: list[ClockEvidence] = []
    places: dict[str, list[Path]] = {}
    rows = 0
    with closing(log), pq.ParquetWriter(target, schema.READINGS_SCHEMA) as writer:
        for path, home in homes.items():
            batches = (
                green_button_batches(path, problems=log, clocks=clocks, home=home)
                if kind is Kind.GREEN_BUTTON
                else nem12_batches(path, problems=log)
            )
            for batch in batches:
                rows += batch.num_rows
                writer.write_batch(batch)
                for name in pc.unique(batch["customer_id"]).to_pylist():
                    found = places.setdefault(name, [])
                    found += [path] if path not in found else []
    if not rows:
        raise _without_electricity(files[0], kind, log)
    scan = scan_parquet(database.connection, [target])
    shared = {name: some for name, some in places.items() if len(some) > 1}
    if shared and kind is Kind.GREEN_BUTTON:
        log.notes["usage point in several files, read as one customer"] += len(shared)
        if options.implausible is not Implausible.ACCEPT:
            _refuse_other_homes(database, scan.sql, shared)
    if _is_local(files[0], clocks, options):
        scan = replace(scan, sql=_LOCAL_START.format(scan=scan.sql))
        scan = replace(scan, types={**scan.types, "start_utc": "TIMESTAMP"})
        del log.notes[STARTS_ARE_UTC]
        log.notes["start read as local time, as block titles or offsets indicate"] += rows
    spans = [FileSpan(path=files[0], first=1, unit=READING)]
    return OpenedSource(scan, files, log=log, kind=str(kind), spans=spans)


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


def _is_local(path: Path, clocks: Sequence[ClockEvidence], options: ReadOptions) -> bool:
    """Return whether the starts of Green Button files are local time written as UTC."""
    zone = options.timezone or "UTC"
    if options.timezone is None and any(clock.is_local for clock in clocks):
        return all(clock.is_local for clock in clocks)  # of an unknown zone
    if not clocks or known_zone("timezone", zone).utcoffset(_ANY_DAY) == dt.timedelta():
        return False
    if all(clock.is_local for clock in clocks):
        return True
    if any(clock.is_local or clock.days_are_utc for clock in clocks):
        if options.implausible is Implausible.ACCEPT:
            return False
        expected = f"daily blocks that begin at midnight in {zone}, or implausible='accept' for UTC"
        raise InvalidFileError(path, "IntervalBlock", expected, "blocks that begin at 0:00 UTC")
    return False


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
