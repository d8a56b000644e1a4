"""Readings from a query: DuckDB, SQLite or PostgreSQL, streamed into a Parquet file.

Rows of SQLite and PostgreSQL are passed on as text and read by the same strict rules as a CSV file.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.ingest.sql import literal

_FETCH_ROWS = 65_536
_SCHEMES = ("duckdb:///", "sqlite:///", "postgresql://", "postgres://")


class _Cursor(Protocol):
    @property
    def description(self) -> object: ...
    def fetchmany(self, size: int, /) -> list[tuple[object, ...]]: ...


def spill_query(database: str, query: str, target: Path) -> None:
    """Run a query and write its rows to a Parquet file."""
    scheme = next((known for known in _SCHEMES if database.startswith(known)), None)
    if scheme is None:
        shown = database.partition("://")[0]  # what follows may hold a password
        raise InvalidParameterError("source", f"one of {_SCHEMES} when sql is given", shown)
    try:
        if scheme == "duckdb:///":
            _spill_duckdb(database.removeprefix(scheme), query, target)
        elif scheme == "sqlite:///":
            _spill_sqlite(database.removeprefix(scheme), query, target)
        else:
            _spill_postgres(database, query, target)
    except (duckdb.Error, sqlite3.Error) as error:
        raise InvalidFileError(database, "query", "a query that runs", str(error)) from error


def _spill_duckdb(path: str, query: str, target: Path) -> None:
    with duckdb.connect(path, read_only=True) as connection:
        connection.execute(f"COPY ({query}) TO {literal(str(target))} (FORMAT parquet)")


def _spill_sqlite(path: str, query: str, target: Path) -> None:
    if not Path(path).is_file():
        raise InvalidFileError(path, "file", "a SQLite database", "none")
    # mode=ro: a reader must not be able to change the meter database.
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
        _spill(connection.execute(query), target)


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
        raise InvalidFileError(where, "query", "a query that runs", str(error)) from None


def _spill(cursor: _Cursor, target: Path) -> None:
    rows = cursor.fetchmany(_FETCH_ROWS)  # a server-side cursor knows its columns only then
    described = cursor.description
    names = [str(column[0]) for column in described] if isinstance(described, (list, tuple)) else []
    schema = pa.schema([(name, pa.string()) for name in names])
    with pq.ParquetWriter(target, schema) as writer:
        for part in _parts(cursor, rows):
            columns = [[_as_text(value) for value in column] for column in zip(*part, strict=True)]
            arrays = [pa.array(column, pa.string()) for column in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _parts(cursor: _Cursor, rows: list[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    while rows:
        yield rows
        rows = cursor.fetchmany(_FETCH_ROWS)


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return repr(value) if isinstance(value, float) else str(value)
