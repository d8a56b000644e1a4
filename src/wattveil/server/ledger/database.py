"""Connections whose commits are durable, migrations (Alembic), and append-only triggers."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from wattveil.errors import (
    InvalidFileError,
    InvalidParameterError,
    LedgerBehindError,
    LedgerUnavailableError,
    MissingExtraError,
)
from wattveil.server.ledger.database_errors import cause_of
from wattveil.server.ledger.database_record import (
    FILE,
    check_database,
    check_identity,
    check_no_other,
    record_database,
    without_secrets,
)
from wattveil.server.ledger.high_water_mark import HighWaterMark

_WAIT_SECONDS = 30
"""Time that SQLite waits for another process, such as an administrator's command."""

MAX_SECONDS = 5.0
"""Time that PostgreSQL has for a statement of a server."""
_POOL_SIZE = 10
_POOL_SECONDS = 30.0
_KEEPALIVE_SECONDS = 10
_ACTIVE = 1
"""State of a connection of libpq whose statement has not ended."""


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


def connect(url: URL, *, is_limited: bool = False) -> Engine:
    """Return an engine whose commits are on disk when they return.

    If it is limited, PostgreSQL has `MAX_SECONDS` to accept a connection, and for each statement:
    one that hangs gives an error. Commands that read a whole ledger have no limit.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _WAIT_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            pool_size=_POOL_SIZE,
            pool_timeout=MAX_SECONDS if is_limited else _POOL_SECONDS,
        )
    except ImportError as error:
        raise MissingExtraError("PostgreSQL", "postgres") from error
    event.listen(engine, "connect", _prepare_postgresql)
    if is_limited:
        event.listen(engine, "do_connect", _connect_in_time)
    return engine


def writing(engine: Engine) -> Engine:
    """Return the engine for transactions that write: on SQLite they take the lock at once."""
    return engine.execution_options(wattveil_writes=True)


def _prepare_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("wattveil_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _connect_in_time(
    _: object, __: object, given: list[Any], options: dict[str, Any]
) -> DBAPIConnection:
    """Connect to PostgreSQL; each wait for it is limited, on this side of the connection.

    A limit on its own side would not end the wait for a database that hangs.
    """
    import psycopg  # noqa: PLC0415 - needs the extra

    class TimedConnection(psycopg.Connection[Any]):
        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ANN401 - psycopg's own
            try:
                return super().wait(
                    gen, interval, timeout=MAX_SECONDS if timeout is None else timeout
                )
            except psycopg.OperationalError:
                if not self.closed and self.pgconn.transaction_status == _ACTIVE:
                    self.pgconn.finish()  # its answer may still come: it is not used again
                raise

    limits = {
        "connect_timeout": max(1, math.ceil(MAX_SECONDS)),
        "keepalives_idle": _KEEPALIVE_SECONDS,
        "keepalives_interval": _KEEPALIVE_SECONDS,
        "keepalives_count": 2,
    }
    made: Any = TimedConnection.connect(*given, **{**limits, **options})
    return made  # type: ignore[no-any-return]


def _prepare_postgresql(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # Whatever the default of the server is: a charge must survive a power failure.
    cursor = connection.cursor()
    cursor.execute("SET synchronous_commit TO on")
    # The session of a server that is gone, and with it its locks, ends soon.
    cursor.execute(f"SET tcp_keepalives_idle TO {_KEEPALIVE_SECONDS}")
    cursor.execute(f"SET tcp_keepalives_interval TO {_KEEPALIVE_SECONDS}")
    cursor.execute("SET tcp_keepalives_count TO 2")
    cursor.execute("SET idle_in_transaction_session_timeout TO '60s'")
    cursor.close()
    connection.commit()


_LOCK = 0x77617474
"""Any fixed number: two servers that start at the same time migrate one after the other."""
_LOCK_OF_FINGERPRINTS = 0x77617475
"""Another one: a period and a data set of the same content are stored one after the other."""


def migrate(engine: Engine) -> None:
    """Migrate a database to this version; create the tables of a new one."""
    config = _config()
    scripts = ScriptDirectory.from_config(config)
    if version(engine) == scripts.get_current_head():
        return
    with writing(engine).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError:
            found = MigrationContext.configure(connection).get_current_revision()
            rule = f"of version {scripts.get_current_head()} or a version that it upgrades"
            raise InvalidParameterError("database", rule, found) from None


def lock_fingerprints(connection: Connection) -> None:
    """Compare fingerprints alone until the transaction ends; SQLite has one writer anyway.

    Those of other journals are compared, which other transactions may be about to add. It is taken
    before the lock of any journal, so that it causes no deadlock.
    """
    if connection.dialect.name == "postgresql":
        number = {"number": _LOCK_OF_FINGERPRINTS}
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), number)


def newest_version() -> str | None:
    """Return the version of the tables that this software writes."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    return config


def version(engine: Engine) -> str | None:
    """Return the version of the tables; None for a new database."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def check_version(engine: Engine) -> None:
    """Refuse tables of another version than this software writes."""
    if (found := version(engine)) != (newest := newest_version()):
        rule = f"of version {newest}: start this version of the server once"
        raise InvalidParameterError("database", rule, found)


def is_empty(engine: Engine) -> bool:
    """Whether a database has no tables of a ledger; the file of SQLite is not created by this."""
    if engine.dialect.name == "sqlite" and not Path(engine.url.database or "").is_file():
        return True
    return version(engine) is None


def forbid(table: str, change: str, why: str, *, when: str = "", sqlite: bool) -> None:
    """Create a trigger that refuses a change of a table, always or ``when`` a condition holds."""
    name = f"{table}_no_{change.lower()}"
    condition = f"WHEN ({when})" if when else ""
    if sqlite:
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {change} ON {table} {condition}"
            f" BEGIN SELECT RAISE(ABORT, '{why}'); END"
        )
        return
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{why}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {change} ON {table}"
        f" FOR EACH ROW {condition} EXECUTE FUNCTION {name}()"
    )
    if change == "DELETE":
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )


@contextmanager
def existing_database(folder: Path, database: str | None) -> Iterator[Engine]:
    """Connect to the database of a ledger that exists, without migration."""
    check_no_password(database)
    url = database_url(folder, database)
    check_database(folder, url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        if database is not None:
            raise InvalidFileError(url.database, "file", "the ledger of a server", None)
        expected = (
            f"the ledger of a server, which the first `wattveil serve --data {folder}` creates;"
            " that command also prints the first token"
        )
        raise InvalidFileError(folder, FILE, expected, None)
    engine = connect(url)
    try:
        yield engine
    except DBAPIError as error:
        raise LedgerUnavailableError(cause_of(error, url)) from None
    finally:
        engine.dispose()


def check_no_password(database: str | None) -> None:
    """Refuse a password on the command line: every process of the machine could read it."""
    if database is None:
        return
    url = database_url(Path(), database)
    if url != without_secrets(url):
        raise InvalidParameterError("database", "without a password; use PGPASSFILE", "one with")


def prepare_database(folder: Path, engine: Engine) -> None:
    """Create the tables of an empty database for a new data folder; refuse another version.

    An empty database belongs to no server, but the folder may belong to another database.
    """
    if is_empty(engine):
        if not folder.is_dir():
            raise InvalidParameterError("data", "a folder that exists", str(folder))
        check_not_empty(folder, engine)
        check_identity(folder, None)
        migrate(engine)
        with engine.connect() as connection:
            record_database(folder, engine.url, connection)
    check_version(engine)


def check_not_empty(folder: Path, engine: Engine) -> None:
    """Refuse an empty database whose ledger had entries, before tables are created in it.

    A restore needs an empty database: a server that is started before it must not prevent it.
    """
    heads = HighWaterMark(folder).heads
    if heads and is_empty(engine):
        check_database(folder, engine.url, is_exact=True)
        journal_id, head = next(iter(heads.items()))
        raise LedgerBehindError(journal_id, head.seq, 0)


def open_database(
    folder: Path, database: str | None, *, is_exact: bool = False
) -> tuple[Engine, HighWaterMark]:
    """Connect to the database of a data folder, migrate its tables, and read the mark."""
    if not folder.is_dir():
        raise InvalidParameterError("data", "a folder that exists", str(folder))
    url = database_url(folder, database)
    check_database(folder, url, is_exact=is_exact)
    unlimited, engine = connect(url), connect(url, is_limited=True)
    try:
        check_not_empty(folder, unlimited)
        if not is_exact and version(unlimited) not in {None, newest_version()}:
            with unlimited.connect() as connection:
                check_no_other(folder, connection)  # before the tables of another are changed
        migrate(unlimited)
        return engine, HighWaterMark(folder)
    except BaseException as error:
        engine.dispose()
        if isinstance(error, DBAPIError):
            raise LedgerUnavailableError(cause_of(error, url)) from None
        if isinstance(error, BlockingIOError):
            raise LedgerUnavailableError("the high-water mark is locked") from None
        raise
    finally:
        unlimited.dispose()
