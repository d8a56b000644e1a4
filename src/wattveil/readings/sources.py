"""Sources of readings: files, queries, and the scratch database that scans them.

Files are recognised by content, never by name: utilities rename files. Archives and XML are read by
code of our own, which bounds the memory that a broken or malicious file can take.
"""

import codecs
import gzip
import re
import sqlite3
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol, cast
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.readings.binary_files import binary_name
from wattveil.readings.scratch_folders import PREFIX, ScratchFolder
from wattveil.readings.sql_text import ident, literal, paths

_HEAD_BYTES = 1 << 20
_PARQUET_MAGIC = b"PAR1"
_HTML_BEGIN = 20  # characters
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_TRUNCATED = "It is the last line: the file may be truncated"
_LATIN_1 = "If it is Latin-1, convert it: iconv -f latin1 -t utf8 FILE > NEW"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|[^\0]\0[^\0]\0|\0[^\0]\0[^\0]")
_NEM12 = re.compile(r"\s*(100,NEM12|200,)", re.IGNORECASE)

EXPANDED = "expanded"  # folder of the scratch folder for the files of containers
CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 20
_FETCH_ROWS = 65_536
_SCHEMES = ("duckdb:///", "sqlite:///", "postgresql://", "postgres://")


class ScratchDatabase:
    """DuckDB connection with a temporary folder; both are removed with their owner.

    The folder is made ``within`` another, or where the system has temporary ones.
    """

    def __init__(self, memory_mb: int, *, within: str | None = None) -> None:
        folder = ScratchFolder(within)
        self.folder = folder.path
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET autoinstall_known_extensions = false")  # nothing is fetched
        self.connection.execute(f"SET memory_limit = '{memory_mb}MB'")
        self.connection.execute(f"SET temp_directory = {literal(str(self.folder / 'spill'))}")
        bar = self.connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
        if bar == [(True,)]:  # in a notebook without ipywidgets DuckDB fails to switch it off too
            self.connection.execute("SET enable_progress_bar = false")
        # DuckDB has no row count of a CSV file. Joins here are written big JOIN small.
        self.connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        self.close = weakref.finalize(self, _close, self.connection, folder)


def _close(connection: duckdb.DuckDBPyConnection, folder: ScratchFolder) -> None:
    connection.close()
    folder.remove()


class Kind(StrEnum):
    """Format of a file, recognised by its first bytes."""

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
    order: tuple[str, ...] = ()  # columns that give the order of appearance, if rows lost it
    lines_before: int | None = None  # of a text file, the lines above its first row

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return list(self.types)


def kind_of(files: list[Path]) -> Kind:
    """Return the format of the files; they must all have the same."""
    first = _kind(files[0])
    for path in files[1:]:
        if (other := _kind(path)) is not first:
            told = (path, "first bytes", f"{first}, as in {files[0]}", str(other))
            raise InvalidFileError(*told, remedy="Read files of different formats separately")
    return first


def scan_parquet(connection: duckdb.DuckDBPyConnection, files: list[Path]) -> Scan:
    """Describe Parquet files with one schema."""
    sql = f"read_parquet({paths(files)})"
    with duckdb_reads(files):
        described = connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()
    types = {str(row[0]): str(row[1]) for row in described}
    return Scan(sql, types)


def numbered(scan: Scan) -> str:
    """Write the scan with ``source_row``, the position of a row in the source.

    Numbered right on the scan: behind a filter or a join DuckDB does not keep the order.
    """
    columns = ", ".join(ident(name) for name in scan.names)
    order = "ORDER BY " + ", ".join(ident(name) for name in scan.order) if scan.order else ""
    return f"(SELECT {columns}, row_number() OVER ({order}) AS source_row FROM {scan.sql})"


@contextmanager
def duckdb_reads(files: Sequence[Path]) -> Iterator[None]:
    """Convert an error of DuckDB about a file to `InvalidFileError`."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise _as_file_error(str(error), files) from error


def shown_path(path: object) -> str:
    """Name a file as its user knows it: one expanded from a container as ``a.zip/b.csv``."""
    return re.sub(rf"^.*/{PREFIX}\w+/{EXPANDED}/\d+/", "", str(path))


def _as_file_error(message: str, files: Sequence[Path]) -> InvalidFileError:
    named = re.search(r"^\s*file = (.+)$", message, re.MULTILINE)
    path: object = files[0] if len(files) == 1 else "one of the files"
    if named:
        path = shown_path(named[1])
    line = re.search(r"CSV Error on Line: (\d+)", message)
    where = f"line {line[1]}" if line else "content"
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    original = re.search(r"Original Line: (.*)", message)
    text = original[1][:200] if original else ""
    if columns:
        expected = f"{columns[1]} columns"
        problem = f", {where}: expected {expected}; found {columns[2]}: {text!r}"
        remedy = ""
        if named and line and int(columns[2]) < int(columns[1]):
            remedy = _TRUNCATED if _is_last_line(Path(named[1]), int(line[1])) else ""
        return InvalidFileError(path, where, expected, columns[2], problem=problem, remedy=remedy)
    if "unterminated quote" in message:
        return InvalidFileError(path, where, "a closing quote", text)
    if "unicode" in message.lower():
        return not_utf_8(path, *_undecoded(Path(named[1]) if named else files[0]))
    mixed = next(filter(_mixes_line_ends, files), None) if "state machine" in message else None
    if mixed is not None:
        told = (mixed, "line ends", "LF or CRLF at the end of all lines", "both")
        problem = "has lines that end in LF and lines that end in CRLF"
        remedy = "Convert it: tr -d '\\r' < FILE > NEW"
        return InvalidFileError(*told, problem=problem, remedy=remedy)
    return InvalidFileError(path, where, "a readable table", message.split("\n", 1)[0][:300])


def _is_last_line(path: Path, number: int) -> bool:
    """Return whether only blank lines follow a line of a text file."""
    return not any(later > number and line.strip() for later, line in lines(path))


def _mixes_line_ends(path: Path) -> bool:
    """Return whether the beginning of a text file has lines of both kinds."""
    start = _start(path)
    return 0 < start.count(b"\r\n") < start.count(b"\n")


def _undecoded(path: Path) -> tuple[str, str]:
    """Return number and text of the first line that is not UTF-8; of none, that it is the file."""
    for number, line in lines(path):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return f"line {number}", line.decode("utf-8", errors="replace")[:200]
    return "content", ""


def not_utf_8(path: object, where: str, text: str) -> InvalidFileError:
    """Return the error about a text in another encoding."""
    problem = "is not UTF-8" if where == "content" else f"is not UTF-8 ({where}: {text!r})"
    return InvalidFileError(path, where, "UTF-8 text", text, problem=problem, remedy=_LATIN_1)


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


def compression_of(path: Path) -> str:
    """Return how a text file is compressed, as DuckDB names it."""
    return {GZIP_MAGIC: "gzip", ZSTD_MAGIC: "zstd"}.get(_magic(path), "none")


def text_head(path: Path) -> tuple[str, str]:
    """Return the beginning of a text file, decompressed, and its encoding."""
    start = _start(path)
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(start), "utf-8"
    except UnicodeDecodeError:
        return start.decode("latin-1"), "latin-1"


def head_of(path: Path) -> str:
    """Return the beginning of a text file, with signs for bytes that are not UTF-8."""
    return _start(path).decode("utf-8-sig", errors="replace")


def _start(path: Path) -> bytes:
    try:
        with open_binary(path) as stream:
            start = stream.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", "a complete compressed file", str(error)) from error
    if _UTF_16.match(start):
        problem, remedy = "is UTF-16, not UTF-8", "Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"
        told = (path, "first bytes", "UTF-8 text", "UTF-16")
        raise InvalidFileError(*told, problem=problem, remedy=remedy)
    return start


def _kind(path: Path) -> Kind:
    if _magic(path) == _PARQUET_MAGIC:
        return Kind.PARQUET
    _refuse_binary(path)
    start = head_of(path).lstrip()
    if not start:
        told = (path, "line 1", "a header or a first record", None)
        raise InvalidFileError(*told, problem="is empty")
    if start[:_HTML_BEGIN].lower().startswith(("<!doctype html", "<html")):
        raise InvalidFileError(path, "line 1", "meter data", "an HTML page")
    if start.startswith("<"):
        return Kind.GREEN_BUTTON
    return Kind.NEM12 if _NEM12.match(start) else Kind.CSV


def _refuse_binary(path: Path) -> None:
    """Reject a binary file by its name; what is read elsewhere does not come here."""
    if (name := binary_name(_start(path))) is not None:
        remedy = "Save its table as CSV or Parquet"
        told = (path, "first bytes", "a CSV or Parquet file", name)
        raise InvalidFileError(*told, problem=f"is {name}, which cannot be read", remedy=remedy)


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading; gzip and zstd are decompressed on the way."""
    with path.open("rb") as file:
        magic = file.read(len(ZSTD_MAGIC))
    if magic.startswith(GZIP_MAGIC):
        return cast("BinaryIO", gzip.open(path, "rb"))
    if magic == ZSTD_MAGIC:
        return cast("BinaryIO", pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    return path.open("rb")


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the content in chunks of at most `CHUNK_BYTES`; reject a broken compressed file."""
    done = 0
    with open_binary(path) as stream:
        while True:
            try:
                chunk = stream.read(CHUNK_BYTES)
            except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
                where = f"byte {done} after decompression"
                raise InvalidFileError(
                    path, where, "a complete compressed file", str(error)
                ) from error
            if not chunk:
                return
            done += len(chunk)
            yield chunk


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line without its end, numbered from 1.

    The length of a line is limited, so that a file without line ends cannot fill the memory.
    """
    number, rest = 0, b""
    for chunk in chunks(path):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield number, line.removesuffix(b"\r")
        if len(rest) > MAX_LINE_BYTES:
            expected = f"a line of at most {MAX_LINE_BYTES} bytes"
            raise InvalidFileError(path, f"line {number + 1}", expected, rest[:40])
    if rest:
        yield number + 1, rest.removesuffix(b"\r")


class _Cursor(Protocol):
    @property
    def description(self) -> object: ...
    def fetchmany(self, size: int, /) -> list[tuple[object, ...]]: ...


def spill_query(database: str, query: str, target: Path, *, max_bytes: int | None = None) -> None:
    """Run a query and write its rows to a Parquet file.

    Parameters
    ----------
    max_bytes
        Of a file that holds the database, and may be of anybody: it reads no other file, and its
        rows take at most this many bytes. None for a database of the custodian.
    """
    scheme = next((known for known in _SCHEMES if database.startswith(known)), None)
    if scheme is None:
        shown = database.partition("://")[0]  # what follows may hold a password
        raise InvalidParameterError("source", f"one of {_SCHEMES} when sql is given", shown)
    try:
        if scheme == "duckdb:///":
            _spill_duckdb(database.removeprefix(scheme), query, target, max_bytes)
        elif scheme == "sqlite:///":
            _spill_sqlite(database.removeprefix(scheme), query, target, max_bytes)
        else:
            _spill_postgres(database, query, target)
    except (duckdb.Error, sqlite3.Error) as error:
        said = str(error).split("\n", 1)[0]
        raise InvalidFileError(database, "query", "a valid query", said) from error


def closed_duckdb(path: str | Path) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file that cannot reach other files, the network or extensions.

    A view in it could name any file that the custodian may read.
    """
    return duckdb.connect(
        str(path),
        read_only=True,
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "lock_configuration": "true",
        },
    )


def check_room(target: Path, max_bytes: int | None) -> None:
    """Refuse to write on when a file has taken the space that it may."""
    if max_bytes is not None and target.stat().st_size > max_bytes:
        expected = f"readings that expand to at most {max_bytes:,} bytes"
        raise InvalidFileError(target, "size", expected, "more")


def _spill_duckdb(path: str, query: str, target: Path, max_bytes: int | None) -> None:
    if max_bytes is not None:
        with closed_duckdb(path) as connection:
            reader = connection.execute(query).to_arrow_reader(_FETCH_ROWS)
            with pq.ParquetWriter(target, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    check_room(target, max_bytes)
        return
    with duckdb.connect(path, read_only=True) as connection:
        connection.execute(f"COPY ({query}) TO {literal(str(target))} (FORMAT parquet)")


def _spill_sqlite(path: str, query: str, target: Path, max_bytes: int | None) -> None:
    if not Path(path).is_file():
        raise InvalidFileError(path, "file", "a SQLite database", None)
    # mode=ro: a reader must not be able to change the meter database.
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
        _spill(connection.execute(query), target, max_bytes)


def _spill_postgres(database: str, query: str, target: Path) -> None:
    try:
        import psycopg  # noqa: PLC0415 -- an extra, needed only here
    except ImportError as error:
        raise MissingExtraError("PostgreSQL", "postgres") from error
    try:
        with psycopg.connect(database) as connection, connection.cursor("wattveil") as cursor:
            cursor.execute(query)
            _spill(cursor, target)
    except psycopg.Error as error:
        where = database.rsplit("@", maxsplit=1)[-1]  # the part before it may hold a password
        raise InvalidFileError(where, "query", "a valid query", str(error)) from None


def _spill(cursor: _Cursor, target: Path, max_bytes: int | None = None) -> None:
    rows = cursor.fetchmany(_FETCH_ROWS)  # a server-side cursor has its columns only then
    described = cursor.description
    names = [str(column[0]) for column in described] if isinstance(described, (list, tuple)) else []
    schema = pa.schema([(name, pa.string()) for name in names])
    with pq.ParquetWriter(target, schema) as writer:
        for part in _parts(cursor, rows):
            columns = [[_as_text(value) for value in column] for column in zip(*part, strict=True)]
            arrays = [pa.array(column, pa.string()) for column in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            check_room(target, max_bytes)


def _parts(cursor: _Cursor, rows: list[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    while rows:
        yield rows
        rows = cursor.fetchmany(_FETCH_ROWS)


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return repr(value) if isinstance(value, float) else str(value)


def read_texts(path: Path) -> pa.Table:
    """Read a CSV or Parquet table of moderate size; fields of a CSV file are texts."""
    with duckdb_reads([path]), duckdb.connect() as connection:
        return connection.sql(f"SELECT * FROM {_texts(path)}").to_arrow_table()


def _texts(path: Path) -> str:
    if _magic(path) == _PARQUET_MAGIC:
        return f"read_parquet({paths([path])})"
    _refuse_binary(path)
    options = f"all_varchar = true, header = true, compression = '{compression_of(path)}'"
    return f"read_csv({paths([path])}, {options})"


def add_meters(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Make the table of meters; reject a meter of two customers."""
    with duckdb_reads([path]):
        described = connection.execute(f"DESCRIBE SELECT * FROM {_texts(path)}").fetchall()
        names = [str(row[0]) for row in described]
        if not {"meter_id", "customer_id"} <= set(names):
            raise InvalidFileError(path, "header", "columns meter_id and customer_id", names)
        connection.execute(f"""
            CREATE OR REPLACE TABLE meters AS
            SELECT DISTINCT trim(meter_id::VARCHAR) AS meter_id,
                            trim(customer_id::VARCHAR) AS customer_id
            FROM {_texts(path)}
            WHERE meter_id IS NOT NULL AND customer_id IS NOT NULL
        """)
    twice = connection.execute(
        "SELECT meter_id FROM meters GROUP BY meter_id HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    ).fetchall()
    if twice:
        expected = "each meter with one customer"
        raise InvalidFileError(path, "meter_id", expected, f"{twice[0][0]} with several")
