"""Containers of meter data, expanded into the scratch folder before the files in them are read.

ZIP archives, bzip2, Excel workbooks, Arrow and Feather files, JSON records, DuckDB and SQLite files
are recognised by content. What they hold is written as plain CSV, XML or Parquet files, in bounded
memory and with a bound on the expanded size, and then goes the ordinary way. The path of a file in
its archive is kept with it, so that homes with one file each stay apart.
"""

import bz2
import re
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.archives import BROKEN_ZIP, UnsafeArchiveError, checked_members, member_chunks
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.readings.binary_files import is_prose
from wattveil.readings.file_names import is_meter_data
from wattveil.readings.sources import (
    CHUNK_BYTES,
    EXPANDED,
    GZIP_MAGIC,
    ZSTD_MAGIC,
    ScratchDatabase,
    check_room,
    chunks,
    closed_duckdb,
    duckdb_reads,
    open_binary,
    shown_path,
    spill_query,
)
from wattveil.readings.sql_text import ident, literal, paths
from wattveil.readings.workbooks import workbook_sheet

_GIB = 1 << 30
_MAX_RATIO = 100  # zeros of a year compress by less; what exceeds it and a GiB is refused
_MAX_MEMBERS = 100_000
_MAX_DEPTH = 3  # a workbook in a zip in a zip
_MIN_FREE_BYTES = 256 << 20
_SHOWN_NAMES = 10
_HEAD_BYTES, _NOTE_BYTES = 512, 1 << 16
_MAX_NAME = 150  # signs
_JSON_ROWS = 8_192


class _Container(StrEnum):
    """Container, recognised by its first bytes."""

    ZIP = "ZIP"
    XLSX = "XLSX"
    XLS = "XLS"
    BZIP2 = "bzip2"
    ARROW = "Arrow"
    JSON = "JSON"
    DUCKDB = "DuckDB"
    SQLITE = "SQLite"
    COMPRESSED = "gzip or zstd"  # of another container; of a text it is read as it is


_SIGNATURES = {
    b"BZh": _Container.BZIP2,
    b"ARROW1": _Container.ARROW,
    b"SQLite format 3\0": _Container.SQLITE,
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": _Container.XLS,
    b"PK\x03\x04": _Container.ZIP,
    b"PK\x05\x06": _Container.ZIP,  # an empty one
}
_OTHERS = {
    b"\x89HDF\r\n\x1a\n": ("HDF5", "Write the table as Parquet or CSV with pandas"),
    b"FEA1": ("Feather version 1", "Write it as version 2 with pyarrow.feather"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "Unpack it first"),
    b"Rar!\x1a\x07": ("RAR", "Unpack it first"),
    b"\xfd7zXZ\0": ("xz", "Unpack it with xz -d"),
    b"%PDF-": ("PDF", "Request the export as CSV"),
    b"Obj\x01": ("Avro", "Write the table as Parquet"),
    b"ORC": ("ORC", "Write the table as Parquet"),
}
_DUCKDB_AT, _DUCKDB_MAGIC = 8, b"DUCK"
_TAR_AT, _TAR_MAGIC = 257, b"ustar"
_SPREADSHEETS = {  # members that tell which program made an archive
    "xl/workbook.xml": _Container.XLSX,
}
_OTHER_SPREADSHEETS = {"xl/workbook.bin": "XLSB", "content.xml": "OpenDocument"}
_NOTES = {".txt"}
_DOCUMENTS = {*_NOTES, ".md", ".pdf", ".doc", ".docx", ".rtf", ".htm", ".html", ".png", ".jpg"}
_NESTED = re.compile(r"STRUCT|MAP|\[\]|UNION")
_UNSAFE_IN_NAME = re.compile(r"[^\w .,()=+@#&-]")


def expand(
    files: Mapping[Path, str],
    database: ScratchDatabase,
    *,
    table: str | None,
    passed_over: list[Path],
) -> dict[Path, str]:
    """Replace each container by the plain files in it; other files stay as they are.

    The result has the path of each file as its user knows it: ``a.zip/folder/b.csv``.

    Parameters
    ----------
    files
        Files, each with its path or address as the user knows it.
    database
        Its folder receives the expanded files.
    table
        Sheet of a workbook or table of a database to read where there are several.
    passed_over
        Receives the files that are not meter data, by their names, or texts without a table.
    """
    expansion = _Expansion(database, table, passed_over)
    found = [one for path, origin in files.items() for one in expansion.plain_files(path, origin)]
    if table is not None and not expansion.table_used:
        rule = "omitted unless the source is a workbook or a database file"
        raise InvalidParameterError("table", rule, table)
    data = [path for path in found if not _is_note(path)]
    if data:
        passed_over.extend(Path(expansion.origins[path]) for path in found if path not in data)
    return {path: expansion.origins[path] for path in expansion.alike(data or found)}


def refuse_containers(files: Iterable[Path]) -> None:
    """Raise for a container, where files are read by other processes."""
    for path in files:
        kind = _container_of(path)
        if kind is not None:
            told = (path, "first bytes", "CSV or Parquet files on Spark", str(kind))
            raise InvalidFileError(*told, remedy="Expand the container first")


@contextmanager
def named_by_origin() -> Iterator[None]:
    """Name files in errors by their container, not by the scratch folder: ``a.zip/b.csv``."""
    try:
        yield
    except InvalidFileError as error:
        path = shown_path(error.path)
        if path == str(error.path):
            raise
        raise error.renamed(path) from error.__cause__


class _Expansion:
    """The expanded files of one source, and how much of the disk they may take."""

    def __init__(
        self, database: ScratchDatabase, table: str | None, passed_over: list[Path]
    ) -> None:
        self.table_used = False
        self._database = database
        self._table = table
        self._passed_over = passed_over
        self._root = database.folder / EXPANDED
        self.origins: dict[Path, str] = {}  # of files, as the user knows them
        self._allowed = 0
        self._containers = 0

    def plain_files(self, path: Path, origin: str) -> list[Path]:
        """Return the plain files that a file of the user holds."""
        self.origins[path] = origin
        self._allowed = max(_GIB, _MAX_RATIO * _size(path))
        return self._plain(path, depth=0)

    def alike(self, files: list[Path]) -> list[Path]:
        """Decompress text files where some are compressed and some are not."""
        compressed = [_compressed(path) for path in files]
        if len(set(compressed)) < 2:  # noqa: PLR2004 -- all alike
            return files
        return [
            self._decompress(path) if kind else path
            for path, kind in zip(files, compressed, strict=True)
        ]

    def _plain(self, path: Path, *, depth: int) -> list[Path]:
        kind = _container_of(path)
        if kind is None:
            return [path]
        if depth == _MAX_DEPTH:
            expected = f"at most {_MAX_DEPTH} levels of nested containers"
            raise InvalidFileError(path, "content", expected, str(kind))
        inner: list[Path]
        match kind:
            case _Container.ZIP:
                inner = self._unzip(path)
            case _Container.BZIP2 | _Container.COMPRESSED:
                inner = [self._decompress(path)]
            case _Container.XLSX | _Container.XLS:
                return [self._sheet(path)]
            case _Container.ARROW:
                return [self._arrow(path)]
            case _Container.JSON:
                return [self._json(path)]
            case _Container.DUCKDB | _Container.SQLITE:
                return [self._database_table(path, kind)]
        return [one for part in inner for one in self._plain(part, depth=depth + 1)]

    def _target(self, container: Path, name: str, member: str = "") -> Path:
        """Return the path of an expanded file, in a folder with the name of its container."""
        self._containers += 1
        folder = self._root / str(self._containers) / container.name
        folder.mkdir(parents=True)
        target = folder / name
        origin = self.origins[container]
        self.origins[target] = f"{origin}/{member}" if member else origin
        return target

    def _write(
        self, container: Path, name: str, content: Iterable[bytes], member: str = ""
    ) -> Path:
        """Write an expanded file, within what the disk and the size of the container allow."""
        target = self._target(container, name, member)
        free = shutil.disk_usage(target.parent).free - _MIN_FREE_BYTES
        with target.open("wb") as file:
            for chunk in content:
                self._allowed -= len(chunk)
                free -= len(chunk)
                if self._allowed < 0:
                    expected = f"at most 1 GiB or {_MAX_RATIO} times its size when expanded"
                    raise InvalidFileError(container, "content", expected, "more")
                if free < 0:
                    expected = f"content that fits in {target.parent.parent}"
                    raise InvalidFileError(container, "content", expected, "more")
                file.write(chunk)
        return target

    def _unzip(self, path: Path) -> list[Path]:
        """Expand the members of an archive that are meter data, by their names."""
        try:
            with zipfile.ZipFile(path) as archive:
                members = checked_members(
                    archive, max_files=_MAX_MEMBERS, max_bytes=max(self._allowed, 0)
                )
                chosen = [one for one in members if _is_meter_data(one)]
                others = [one for one in members if _may_be_data(one)]
                if len(others) == 1 and all(_is_note_by_name(one) for one in chosen):
                    chosen += others  # nothing else can be meant
                self._passed_over.extend(
                    path / one.filename for one in members if one not in chosen
                )
                if not chosen:
                    shown = [one.filename for one in members[:_SHOWN_NAMES]]
                    expected = "an archive with files of readings"
                    raise InvalidFileError(path, "names", expected, shown)
                return [
                    self._write(
                        path,
                        _UNSAFE_IN_NAME.sub("_", member.name)[-_MAX_NAME:],
                        member_chunks(archive, one),
                        str(member),
                    )
                    for one in chosen
                    for member in [_member_path(one)]
                ]
        except UnsafeArchiveError as broken:
            raise InvalidFileError(
                path, "ZIP", f"an archive with {broken}", "a different archive"
            ) from broken
        except BROKEN_ZIP as error:
            if isinstance(error, InvalidFileError):
                raise
            raise InvalidFileError(path, "ZIP", "a complete archive", str(error)) from error

    def _decompress(self, path: Path) -> Path:
        """Expand a compressed file; its name loses the ending of the compression."""
        name = re.sub(r"\.(bz2|gz|zst|zstd)$", "", path.name, flags=re.IGNORECASE)
        content = _bzip2_chunks(path) if _starts(path, b"BZh") else chunks(path)
        return self._write(path, name, content)

    def _sheet(self, path: Path) -> Path:
        """Expand the sheet of readings of a workbook as CSV."""
        self.table_used = True
        return self._write(path, f"{path.stem}.csv", workbook_sheet(path, self._table))

    def _arrow(self, path: Path) -> Path:
        target = self._target(path, f"{path.stem}.parquet")
        try:
            with (
                pa.memory_map(str(path)) as mapped,
                pa.ipc.open_file(mapped) as reader,
                pq.ParquetWriter(target, reader.schema) as writer,
            ):
                room = self._room(target)
                for number in range(reader.num_record_batches):
                    batch = reader.get_batch(number)
                    batch.validate(full=True)  # offsets outside their buffers would end the process
                    writer.write_batch(batch)
                    check_room(target, room)
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise InvalidFileError(path, "Arrow", "a complete file", str(error)[:300]) from error
        return target

    def _room(self, target: Path) -> int:
        """Return how many bytes a file may take."""
        free = shutil.disk_usage(target.parent).free - _MIN_FREE_BYTES
        return max(min(self._allowed, free), 0)

    def _json(self, path: Path) -> Path:
        """Expand flat records as texts: numbers keep their digits, stamps are not guessed."""
        scan = f"read_json({paths([path])}, sample_size = -1)"
        target = self._target(path, f"{path.stem}.parquet")
        with duckdb_reads([path]):
            try:
                described = self._database.connection.execute(f"DESCRIBE FROM {scan}").fetchall()
            except duckdb.InvalidInputException as error:
                told = (path, "JSON", "one flat record per line, or a list of them", None)
                problem = "is neither a text table nor valid JSON"
                raise InvalidFileError(*told, problem=problem) from error
            nested = [str(name) for name, kind, *_ in described if _NESTED.search(str(kind))]
            if nested or [str(row[0]) for row in described] == ["json"]:
                expected = "one flat record per line, or a list of them"
                raise InvalidFileError(path, "JSON", expected, nested[:_SHOWN_NAMES] or "a list")
            columns = ", ".join(f"{literal(str(row[0]))}: 'VARCHAR'" for row in described)
            texts = f"read_json({paths([path])}, columns = {{{columns}}})"
            reader = self._database.connection.execute(f"FROM {texts}").to_arrow_reader(_JSON_ROWS)
            with pq.ParquetWriter(target, reader.schema) as writer:
                for batch in reader:
                    self._allowed -= batch.nbytes
                    if self._allowed < 0:  # records of different names make a table of them all
                        expected = f"at most 1 GiB or {_MAX_RATIO} times its size as a table"
                        raise InvalidFileError(path, "content", expected, "more")
                    writer.write_batch(batch)
        return target

    def _database_table(self, path: Path, kind: _Container) -> Path:
        """Expand the one table of a database file."""
        self.table_used = True
        tables = _tables_of(path, kind)
        if self._table is not None:
            if self._table not in tables:
                expected = f"a table {self._table!r}"
                raise InvalidFileError(path, "tables", expected, list(tables)[:_SHOWN_NAMES])
            chosen = self._table
        else:
            stored = [name for name, is_view in tables.items() if not is_view]
            if len(stored) != 1:
                expected = "a single table of readings, or table=…, or a query with sql=…"
                raise InvalidFileError(path, "tables", expected, list(tables)[:_SHOWN_NAMES])
            chosen = stored[0]
        target = self._target(path, f"{path.stem}.parquet")
        address = f"{kind.lower()}:///{path}"
        try:
            query = f"SELECT * FROM {ident(chosen)}"
            spill_query(address, query, target, max_bytes=self._room(target))
        except UnicodeDecodeError as error:  # SQLite promises texts and does not check them
            raise InvalidFileError(path, "content", "texts in UTF-8", str(error)) from error
        return target


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise InvalidFileError(path, "file", "a readable file", str(error)) from error


def _head(path: Path, size: int = _HEAD_BYTES) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise InvalidFileError(path, "file", "a readable file", str(error)) from error


def _starts(path: Path, magic: bytes) -> bool:
    return _head(path).startswith(magic)


def _compressed(path: Path) -> bytes:
    """Return the signature of a compressed text, or nothing."""
    head = _head(path)
    return next((magic for magic in (GZIP_MAGIC, ZSTD_MAGIC) if head.startswith(magic)), b"")


def _container_of(path: Path) -> _Container | None:
    """Return the container that a file is; None for a file that is read as it is."""
    head = _head(path)
    found = _recognised(path, head)
    if found is _Container.ZIP:
        return _spreadsheet(path) or found
    if found is None and _compressed(path):
        try:
            with open_binary(path) as stream:
                inner = stream.read(_HEAD_BYTES)
        except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException):
            return None  # broken: the reader of the file says where
        return _Container.COMPRESSED if _recognised(path, inner) else None
    return found


def _recognised(path: Path, head: bytes) -> _Container | None:
    for magic, kind in _SIGNATURES.items():
        if head.startswith(magic):
            return kind
    for magic, (name, remedy) in _OTHERS.items():
        if head.startswith(magic):
            raise _unread(path, name, remedy)
    if head[_TAR_AT:].startswith(_TAR_MAGIC):
        raise _unread(path, "tar", "Unpack it with tar -xf")
    if head[_DUCKDB_AT:].startswith(_DUCKDB_MAGIC):
        return _Container.DUCKDB
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return _Container.JSON if text[:1] in {b"{", b"["} else None


def _unread(path: Path, name: str, remedy: str) -> InvalidFileError:
    """Return the error about a file of a kind that is not read."""
    told = (path, "first bytes", "meter data", name)
    return InvalidFileError(*told, problem=f"is {name}, which cannot be read", remedy=remedy)


def _spreadsheet(path: Path) -> _Container | None:
    """Tell a workbook from another archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except BROKEN_ZIP as error:
        raise InvalidFileError(path, "ZIP", "a complete archive", str(error)) from error
    for name, program in _OTHER_SPREADSHEETS.items():
        if name in names:
            raise _unread(path, program, "Save the sheet as XLSX or CSV")
    return next((kind for name, kind in _SPREADSHEETS.items() if name in names), None)


def _is_meter_data(member: zipfile.ZipInfo) -> bool:
    return is_meter_data(Path(_member_path(member)))


def _may_be_data(member: zipfile.ZipInfo) -> bool:
    """Return whether a file with any name may be meter data: it is no document, nor hidden."""
    path = _member_path(member)
    hidden = any(part.startswith(("_", ".")) for part in path.parts)
    return not hidden and path.suffix.lower() not in _DOCUMENTS


def _is_note_by_name(member: zipfile.ZipInfo) -> bool:
    return _member_path(member).suffix.lower() in _NOTES


def _is_note(path: Path) -> bool:
    """Return whether a plain file is a text without a table."""
    return path.suffix.lower() in _NOTES and is_prose(_head(path, _NOTE_BYTES))


def _member_path(member: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(member.filename.replace("\\", "/"))


def _bzip2_chunks(path: Path) -> Iterator[bytes]:
    done = 0
    try:
        with bz2.open(path, "rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                done += len(chunk)
                yield chunk
    except (OSError, EOFError, ValueError) as error:
        where = f"byte {done} after decompression"
        raise InvalidFileError(path, where, "a complete compressed file", str(error)) from error


def _tables_of(path: Path, kind: _Container) -> dict[str, bool]:
    """Return the tables of a database file, and which of them are views."""
    try:
        if kind is _Container.DUCKDB:
            query = "SELECT table_name, table_type = 'VIEW' FROM information_schema.tables"
            with closed_duckdb(path) as connection:
                found = connection.execute(f"{query} ORDER BY 1").fetchall()
        else:
            query = (
                "SELECT name, type = 'view' FROM sqlite_master"
                " WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
            )
            address = f"file:{quote(str(path))}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as connection:
                found = connection.execute(f"{query} ORDER BY 1").fetchall()
    except (duckdb.Error, sqlite3.Error, UnicodeDecodeError) as error:
        said = str(error).split("\n", 1)[0]
        raise InvalidFileError(path, str(kind), "a complete database file", said) from error
    return {str(name): bool(is_view) for name, is_view in found}
