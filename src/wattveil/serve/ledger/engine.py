"""Connections that keep what was committed, and the words for a database that cannot be written."""

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from wattveil.errors import InvalidParameterError, MissingExtraError

FILE = "ledger.sqlite"
"""The database of a data folder, unless another one is named."""

_WAIT_SECONDS = 30
"""How long SQLite waits for another process: that is an administrator's command, never long."""

_CAUSES = {
    "53100": "the disk is full",
    "25006": "the database is read-only",
    "database or disk is full": "the disk is full",
    "attempt to write a readonly database": "the database is read-only",
    "unable to open database file": "the database cannot be opened",
    "database is locked": "another process holds the database",
}


def database_url(folder: Path, database: str | None) -> URL:
    """Return the address of a ledger: the named database, or the file in its data folder."""
    if database is None:
        return make_url(f"sqlite:///{folder.absolute() / FILE}")
    try:
        url = make_url(database)
    except ArgumentError:
        url = None
    if url is None or url.drivername not in ("postgresql", "postgresql+psycopg", "sqlite"):
        rule = "an address that begins with postgresql:// or sqlite:///"
        raise InvalidParameterError("database", rule, database if url is None else url.drivername)
    return url.set(drivername="postgresql+psycopg") if "postgresql" in url.drivername else url


def connect(url: URL) -> Engine:
    """Return an engine whose commits are on disk when they return."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _WAIT_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = create_engine(url, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ImportError as error:
        raise MissingExtraError("PostgreSQL", "postgres") from error
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def writing(engine: Engine) -> Engine:
    """Return the engine for transactions that write: on SQLite they take the lock at once."""
    return engine.execution_options(wattveil_writes=True)


def cause_of(error: DBAPIError) -> str:
    """Say why the database refused, in words that hold nothing of what was written."""
    state = getattr(error.orig, "sqlstate", None)
    said = state or str(error.orig)
    kind = type(error.orig).__name__ if error.orig is not None else "unknown"
    return _CAUSES.get(said, f"the database failed ({state or kind})")


def _prepare_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("wattveil_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare_postgresql(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # Whatever the server's default is: a charge that a power cut takes back was never charged.
    cursor = connection.cursor()
    cursor.execute("SET synchronous_commit TO on")
    cursor.close()
    connection.commit()
