"""Recognition of files: container, encoding and known format, from their first bytes.

This is the one place that decides what a file is. A file is Parquet, Green Button XML, NEM12 or a
table of text; a table of text is in a format of `known_formats.toml`, or its columns are found by
their names (`formats.table_columns`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.errors import InvalidFileError
from wattveil.readings.csv_files import find_header
from wattveil.readings.formats.file_columns import RAW, StagedPart
from wattveil.readings.formats.known_formats import (
    Header,
    Recognised,
    completed,
    recognise,
    recognise_columns,
)
from wattveil.readings.formats.meaning_checks import refuse_unit
from wattveil.readings.formats.sections import SECTIONED_HEAD
from wattveil.readings.formats.staging import refuse_known
from wattveil.readings.formats.table_columns import FoundLayout, LongTable
from wattveil.readings.formats.unknown_tables import recognise_table
from wattveil.readings.options import REPLACED_FORMAT, MeasuredIn, ReadOptions
from wattveil.readings.sources import Kind, Scan, compression_of, text_head
from wattveil.readings.sql_text import ident, literal, paths


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """A file in a known format."""

    path: Path
    found: Recognised
    encoding: str


def names_columns(options: ReadOptions) -> bool:
    """Return whether the caller states the columns, so that no format is looked for."""
    return bool(options.columns or options.layout or options.stamp_format or options.skip_lines)


def replaced_rules(path: Path, kind: Kind, options: ReadOptions) -> tuple[str, ...]:
    """Name the known format whose rules the stated columns replace.

    Such rules omit rows, for example daily totals between hourly readings. A format of common names
    is recognised by too little to tell, and a plain table has no rules.
    """
    given = {
        "layout": options.layout,
        "columns": options.columns,
        "stamp_format": options.stamp_format,
        "skip_lines": options.skip_lines,
    }
    if not any(given.values()) or kind not in {Kind.CSV, Kind.PARQUET}:
        return ()
    known = known_file(path, kind, one_home=options.customer is not None)
    if known is None or known.found.format.generic or known.found.format.direct:
        return ()
    stated = ", ".join(name for name, value in given.items() if value)
    return (f"{REPLACED_FORMAT}{known.found.format.name}; its rules are switched off by {stated}",)


def known_files(files: Sequence[Path], kind: Kind, options: ReadOptions) -> list[KnownFile]:
    """Return the files with their known formats; none if they are tables of unknown formats.

    Raises
    ------
    InvalidFileError
        A file is in a known format that holds no interval readings of electricity.
    """
    if names_columns(options) or kind not in {Kind.CSV, Kind.PARQUET}:
        return []
    found: list[KnownFile] = []
    for path in files:
        known = known_file(path, kind, one_home=options.customer is not None)
        if known is None:
            return []
        if known.found.format.refuse:
            raise refuse_known(known.found, path)
        found.append(known)
    return found


def known_file(path: Path, kind: Kind, *, one_home: bool = False) -> KnownFile | None:
    """Return a file with its known format, or None."""
    if kind is Kind.CSV:
        head, encoding = text_head(path)
        found = recognise(head, one_home=one_home)
        return None if found is None else KnownFile(path=path, found=found, encoding=encoding)
    header = Header(line=0, delimiter="", names=parquet_names(path))
    found = recognise_columns(header, one_home=one_home)
    return None if found is None else KnownFile(path=path, found=found, encoding="utf-8")


def unknown_files(files: Sequence[Path], kind: Kind, options: ReadOptions) -> list[KnownFile]:
    """Return files of one home each, or of columns named by times; none if they are neither."""
    if kind not in {Kind.CSV, Kind.PARQUET}:
        return []
    found = []
    for path in files:
        if kind is Kind.CSV:
            line, delimiter, names = find_header(path, options.skip_lines)
            header = Header(line=line, delimiter=delimiter, names=tuple(names))
        else:
            header = Header(line=0, delimiter="", names=parquet_names(path))
        table = recognise_table(header, options, path)
        if table is None:
            return []
        found.append(KnownFile(path=path, found=table, encoding=text_encoding(path, kind)))
    return found


def text_encoding(path: Path, kind: Kind) -> str:
    """Return the encoding of a text file."""
    return text_head(path)[1] if kind is Kind.CSV else "utf-8"


def direct_layout(files: Sequence[KnownFile]) -> FoundLayout | None:
    """Return the layout of a plain table with a known meaning, which is read where it is."""
    found = files[0].found
    alike = all(file.found.header == found.header for file in files)
    return _direct(found) if alike else None


def direct_columns(
    names: Sequence[str], options: ReadOptions, path: object = "header"
) -> FoundLayout | None:
    """Return the layout of a plain table with a known meaning from its column names."""
    if names_columns(options):
        return None
    found = recognise_columns(Header(line=0, delimiter="", names=tuple(names)))
    layout = None if found is None else _direct(found)
    if layout is not None:
        refuse_unit(layout, options, path)
    return layout


def _direct(found: Recognised) -> FoundLayout | None:
    if not found.format.direct:
        return None
    customer, stamp, value = (str(found.one(role)) for role in ("customer", "stamp", "delivered"))
    table = LongTable(customer=customer, stamp=(stamp,), value=value)
    unit = MeasuredIn(found.format.unit)
    assumptions = (
        f"format: {found.format.name}, by {found.evidence}",
        f"customer: column {customer!r}",
        f"value: column {value!r}",
        f"unit: {unit.value}",
    )
    zone = found.format.zone
    return FoundLayout(table, unit, found.format.end_stamped, assumptions, zone=zone)


def is_sectioned(path: Path) -> bool:
    """Return whether a text file has sections of ``start to end, usage``."""
    return SECTIONED_HEAD.search(text_head(path)[0][:20_000]) is not None


def parquet_names(path: Path) -> tuple[str, ...]:
    """Return the column names of a Parquet file."""
    try:
        return completed(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError) as error:
        said = str(error).split("\n", 1)[0][:300]
        raise InvalidFileError(path, "content", "a readable table", said) from error


def staged_parts(files: Sequence[KnownFile]) -> list[StagedPart]:
    """Gather files of one format and header, which are scanned together."""
    groups: dict[tuple[object, ...], list[KnownFile]] = {}
    for place, file in enumerate(files):
        header = file.found.header
        key: tuple[object, ...] = (
            file.found.format.name,
            header.names,
            header.line,
            header.delimiter,
            file.encoding,
            compression_of(file.path),
            place if file.found.format.letterhead else 0,
        )
        groups.setdefault(key, []).append(file)
    return [
        StagedPart(
            found=some[0].found,
            scan=_scan(some),
            files=[file.path for file in some],
        )
        for some in groups.values()
    ]


def _scan(files: Sequence[KnownFile]) -> Scan:
    """Write the scan of files with one header; its columns are prefixed, all of them texts."""
    header = files[0].found.header
    types = {RAW + name: "VARCHAR" for name in header.names}
    found = [file.path for file in files]
    if not header.delimiter:
        columns = ", ".join(
            f"{ident(name)}::VARCHAR AS {ident(RAW + name)}" for name in header.names
        )
        return Scan(
            f"(SELECT {columns}, filename FROM read_parquet({paths(found)}, filename = true))",
            types,
        )
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in types)
    sql = (
        f"read_csv({paths(found)}, auto_detect = false, header = {str(header.has_names).lower()},"
        f" skip = {header.line}, delim = {literal(header.delimiter)}, quote = '\"', escape = '\"',"
        f" compression = '{compression_of(found[0])}', columns = {{{columns}}},"
        f" null_padding = true, strict_mode = false, filename = true,"
        f" encoding = {literal(files[0].encoding)})"
    )
    return Scan(sql, types, lines_before=header.line + header.has_names)
