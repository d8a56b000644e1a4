"""From what the caller names to files of one kind, and from files to something DuckDB can scan."""

import csv
import glob
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import duckdb
import pyarrow as pa

from wattveil.errors import InvalidFileError
from wattveil.ingest.sql import ident, literal, paths
from wattveil.ingest.streams import GZIP_MAGIC, ZSTD_MAGIC, open_binary

_HEAD_BYTES = 1 << 20
_DELIMITERS = ",;\t|"
_PARQUET_MAGIC = b"PAR1"
_READABLE = re.compile(r"\.(csv|txt|tsv|parquet|pq|xml|nem12)(\.(gz|zst|zstd))?$", re.IGNORECASE)
_EXCEL_FIRST = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|\0[^\0]\0[^\0]")
_NEM12 = re.compile(r"\s*(100,NEM12|200,)", re.IGNORECASE)


class Kind(StrEnum):
    """What a file is, told from its first bytes: utilities rename files."""

    CSV = "CSV"
    PARQUET = "Parquet"
    GREEN_BUTTON = "Green Button XML"
    NEM12 = "NEM12"


@dataclass(frozen=True)
class Scan:
    """Files that DuckDB reads as one table, in the order of the list."""

    sql: str
    types: dict[str, str]  # by column
    csv_call: str | None = None  # of a CSV file, the call that lacks columns
    order: tuple[str, ...] = ()  # columns that tell the order of appearance, if rows lost it

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return list(self.types)


def resolve(source: str | Path | Sequence[str | Path], passed_over: list[Path]) -> list[Path]:
    """Find the files: a path, a folder, a glob, or a list of any of these.

    Files of a folder whose names are not those of meter data are added to ``passed_over``. So are
    those in ``_temporary`` and the like: programs that write to lakes hide there what is not (or no
    longer) of the table, behind names that begin with ``_`` or a dot.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [path for part in source for path in resolve(part, passed_over)]
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        found = [file for file in inside if _is_meter_data(file.relative_to(path))]
        passed_over.extend(sorted(set(inside) - set(found)))
    else:
        names = sorted(glob.glob(str(source), recursive=True))  # noqa: PTH207 -- may be absolute
        found = [Path(name) for name in names if Path(name).is_file()]
    if not found:
        raise InvalidFileError(source, "source", "at least one file of readings", "none")
    return found


def _is_meter_data(path: Path) -> bool:
    """Tell from a name within a folder whether it is one of meter data."""
    hidden = any(part.startswith(("_", ".")) for part in path.parts)
    return not hidden and _READABLE.search(path.name) is not None


def kind_of(files: list[Path]) -> Kind:
    """Tell what the files are; they must all be the same."""
    first = _kind(files[0])
    for path in files[1:]:
        if (other := _kind(path)) is not first:
            raise InvalidFileError(path, "first bytes", f"{first}, as in {files[0]}", str(other))
    return first


def scan_csv(files: list[Path], *, skip_lines: int) -> Scan:
    """Describe CSV files with one header for all; every field stays text until it is checked."""
    delimiter, names = header_of(files[0], skip_lines)
    for path in files[1:]:
        if (header := header_of(path, skip_lines)) != (delimiter, names):
            found = header[0].join(header[1])
            raise InvalidFileError(
                path, f"line {skip_lines + 1}", f"the header of {files[0]}", found
            )
    magic = {_magic(path) for path in files}
    if len(magic) > 1:
        raise InvalidFileError(
            files[0], "source", "files compressed all in one way", "several ways"
        )
    compression = {GZIP_MAGIC: "gzip", ZSTD_MAGIC: "zstd"}.get(magic.pop(), "none")
    call = (
        f"read_csv({paths(files)}, auto_detect = false, header = true,"
        f" skip = {skip_lines}, delim = {literal(delimiter)}, quote = '\"', escape = '\"',"
        f" compression = '{compression}'"
    )
    types = dict.fromkeys(names, "VARCHAR")
    return Scan(f"{call}, columns = {_struct(types)})", types, csv_call=call)


def header_of(path: Path, skip_lines: int) -> tuple[str, list[str]]:
    """Read the delimiter and the column names of a CSV file."""
    lines = io.StringIO(_head(path), newline=None).read().split("\n")[skip_lines:]
    where = f"line {skip_lines + 1}"
    if not lines or not lines[0].strip():
        raise InvalidFileError(path, where, "a header with column names", "an empty line")
    if _EXCEL_FIRST.fullmatch(lines[0]):
        expected = f"column names, or skip_lines={skip_lines + 1}: Excel puts a line before them"
        raise InvalidFileError(path, where, expected, lines[0])
    delimiter = max(_DELIMITERS, key=lines[0].count)
    if delimiter not in lines[0]:
        raise InvalidFileError(path, where, "columns parted by , ; | or tab", lines[0][:200])
    names = [name.strip() for name in next(csv.reader([lines[0]], delimiter=delimiter))]
    lowered = [name.lower() for name in names]
    if "" in names or len(set(lowered)) < len(names):
        raise InvalidFileError(path, where, "column names that differ", lines[0][:200])
    return delimiter, names


def typed_csv(scan: Scan, types: dict[str, str]) -> str:
    """Write a scan of CSV files that fails on the first field that is not of its type."""
    return f"{scan.csv_call}, columns = {_struct({**scan.types, **types})})"


def scan_parquet(connection: duckdb.DuckDBPyConnection, files: list[Path]) -> Scan:
    """Describe Parquet files with one schema."""
    sql = f"read_parquet({paths(files)})"
    with duckdb_reads(files):
        described = connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()
    types = {str(row[0]): str(row[1]) for row in described}
    return Scan(sql, types)


def numbered(scan: Scan) -> str:
    """Write the scan with ``source_row``, the place of a row in the source.

    Numbered right on the scan: behind a filter or a join DuckDB does not keep the order.
    """
    columns = ", ".join(ident(name) for name in scan.names)
    order = "ORDER BY " + ", ".join(ident(name) for name in scan.order) if scan.order else ""
    return f"(SELECT {columns}, row_number() OVER ({order}) AS source_row FROM {scan.sql})"


@contextmanager
def duckdb_reads(files: Sequence[Path]) -> Iterator[None]:
    """Turn DuckDB's complaint about a file into ours."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise _as_file_error(str(error), files) from error


def _struct(types: dict[str, str]) -> str:
    return "{" + ", ".join(f"{literal(name)}: '{kind}'" for name, kind in types.items()) + "}"


def _as_file_error(message: str, files: Sequence[Path]) -> InvalidFileError:
    named = re.search(r"^\s*file = (.+)$", message, re.MULTILINE)
    path: object = named[1] if named else files[0] if len(files) == 1 else "one of the files"
    line = re.search(r"CSV Error on Line: (\d+)", message)
    where = f"line {line[1]}" if line else "content"
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    original = re.search(r"Original Line: (.*)", message)
    text = original[1][:200] if original else ""
    if columns:
        return InvalidFileError(path, where, f"{columns[1]} columns", f"{columns[2]}: {text}")
    if "unterminated quote" in message:
        return InvalidFileError(path, where, "a closing quote", text)
    if "unicode" in message.lower():
        return InvalidFileError(path, where, "UTF-8 text", text)
    return InvalidFileError(path, where, "a readable table", message.split("\n", 1)[0][:300])


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise InvalidFileError(path, "file", "a readable file", str(error)) from error
    return next(
        (magic for magic in (GZIP_MAGIC, ZSTD_MAGIC, _PARQUET_MAGIC) if start.startswith(magic)),
        b"",
    )


def _head(path: Path) -> str:
    """Return the beginning of a text file, decompressed."""
    try:
        with open_binary(path) as stream:
            start = stream.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", "a whole compressed file", str(error)) from error
    if _UTF_16.match(start):
        expected = "UTF-8 text; iconv -f UTF-16 -t UTF-8 makes it"
        raise InvalidFileError(path, "first bytes", expected, "UTF-16")
    return start.decode("utf-8-sig", errors="replace")


def _kind(path: Path) -> Kind:
    if _magic(path) == _PARQUET_MAGIC:
        return Kind.PARQUET
    start = _head(path).lstrip()
    if not start:
        raise InvalidFileError(path, "line 1", "a header or a first record", "an empty file")
    if start.startswith("<"):
        return Kind.GREEN_BUTTON
    return Kind.NEM12 if _NEM12.match(start) else Kind.CSV
