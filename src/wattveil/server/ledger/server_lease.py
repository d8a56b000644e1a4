"""Lease: one server uses a database, also where its data folder was copied.

The lock of a data folder does not know of a copy of the folder. A second server on the copy would
answer with releases of which it has no files. On PostgreSQL the lease is an advisory lock of a
session: it ends with the process that holds it, however that ends. On SQLite it is a lock of a file
beside the database.
"""

import fcntl
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from wattveil.errors import InvalidParameterError
from wattveil.server.ledger.database_errors import cause_of

_LOG = logging.getLogger(__name__)

_NUMBER = 0x77617476
"""Any fixed number, of a kind of lock; the other half of its name is the table of this ledger."""
_PATIENCE_SECONDS = 45.0
"""Time in which the lock of a server that was killed is released."""
_RETRY_SECONDS = 0.2
_CHECK_SECONDS = 2.0
_LOCK = text(
    f"SELECT pg_try_advisory_lock(({_NUMBER}::bigint << 32) | 'journal'::regclass::oid::bigint)"
)
_RULE = "a database that no other server uses: stop the server that uses it first"


class Lease(Protocol):
    """What requests need of a lease."""

    @property
    def is_held(self) -> bool:
        """Whether this server may accept orders."""


class ServerLease(Lease):
    """Exclusive use of a database by a server, until it is closed.

    If the connection to PostgreSQL is lost, the lease is taken again; meanwhile, and if another
    server has taken it, `is_held` is false and nothing may be ordered.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._file: IO[str] | None = None
        self._connection: Connection | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if engine.dialect.name == "sqlite":
            self._file = _locked_file(Path(str(engine.url.database)))
            return
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self._take():
            if time.monotonic() > until:
                raise InvalidParameterError("database", _RULE, "one that another server uses")
            time.sleep(_RETRY_SECONDS)
        self._thread = threading.Thread(target=self._keep, name="server-lease", daemon=True)
        self._thread.start()

    @property
    def is_held(self) -> bool:
        """Whether this server may accept orders."""
        return self._file is not None or self._connection is not None

    def close(self) -> None:
        """End the lease."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._file is not None:
            self._file.close()
        self._give_up()

    def _keep(self) -> None:
        while not self._closing.wait(_CHECK_SECONDS):
            try:
                if self._connection is None:
                    if self._take():
                        _LOG.warning("the lock of the database is held again")
                    else:
                        _LOG.error("another server uses the database: orders are refused")
                else:
                    self._connection.execute(text("SELECT 1"))
            except SQLAlchemyError as error:
                if self._connection is not None:
                    fields = {"cause": cause_of(error, self._engine.url)}
                    _LOG.error(
                        "the lock of the database is lost: orders are refused until it is held",
                        extra={"fields": fields},
                    )
                self._give_up()

    def _take(self) -> bool:
        """Open a connection that holds the lock; return whether the lock was free."""
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if connection.execute(_LOCK).scalar_one():
            self._connection = connection
            return True
        connection.close()
        return False

    def _give_up(self) -> None:
        """Close the session, and with it the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
                connection.close()


@contextmanager
def leased(engine: Engine) -> Iterator[None]:
    """Use a database as its only server; if another one uses it, the engine is disposed of."""
    try:
        lease = ServerLease(engine)
    except BaseException:
        engine.dispose()
        raise
    with closing(lease):
        yield


def _locked_file(database: Path) -> IO[str]:
    file = database.with_name(f"{database.name}.lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise InvalidParameterError("database", _RULE, "one that another server uses") from None
    return file
