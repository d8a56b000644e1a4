"""Why a database cannot be used: a fixed list of causes, with the address and without a password.

For operators, on the command line and in the log. Analysts are told that the ledger is unavailable.
"""

import os

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

_REPEATABLE = ("40P01", "40001")
"""States of PostgreSQL after a deadlock, and after a conflict of two transactions."""

_PORT = "5432"

_BY_STATE = {
    "53100": "the disk is full",
    "53300": "too many connections: raise max_connections",
    "25006": "the database is read-only",
    "28000": "the role is unknown or not permitted",
    "28P01": "authentication failed: check the user and PGPASSFILE",
    "3D000": "no such database",
    "42501": "the role lacks a privilege",
    "57014": "the statement took too long",
    "57P01": "the database server was shut down",
    "57P02": "the database server ended abnormally",
    "57P03": "the database server is starting or stopping",
}
"""Causes by SQLSTATE; classes 08 and 57 have defaults."""

_BY_WORDS = (
    # SQLite
    ("database or disk is full", "the disk is full"),
    ("attempt to write a readonly database", "the database is read-only"),
    ("unable to open database file", "the database cannot be opened"),
    ("database is locked", "another process holds the database"),
    # libpq, before there is a session: it states no SQLSTATE then
    ("connection refused", "connection refused: nothing listens at this address"),
    ("no such file or directory", "connection refused: no socket at this address"),
    ("failed to resolve host", "host unknown"),
    ("could not translate host name", "host unknown"),
    ("password authentication failed", _BY_STATE["28P01"]),
    ("no password supplied", _BY_STATE["28P01"]),
    ("authentication failed", _BY_STATE["28P01"]),
    ("no pg_hba.conf entry", "not permitted by pg_hba.conf"),
    ("too many clients", _BY_STATE["53300"]),
    ("connection slots", _BY_STATE["53300"]),
    ("the database system is", _BY_STATE["57P03"]),
    ("ssl", "TLS failed: check sslmode and the certificate"),
    ("certificate", "TLS failed: check sslmode and the certificate"),
    ("no route to host", "the host cannot be reached"),
    ("network is unreachable", "the host cannot be reached"),
    ("timeout", "no response in time"),
    ("timed out", "no response in time"),
    ("server closed the connection", "the connection was lost"),
    ("connection is closed", "the connection was lost"),
    ("terminating connection", _BY_STATE["57P01"]),
)
"""Causes by words of a message, the first that occurs; not exhaustive, and of English messages."""


def cause_of(error: SQLAlchemyError, url: URL) -> str:
    """Return why the database failed and where it is, without the values of the statement."""
    if not isinstance(error, DBAPIError):
        return f"no connection to the database is free ({shown_address(url)})"
    return f"{_cause(error)} ({shown_address(url)})"


def _cause(error: DBAPIError) -> str:
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        lost = "the connection was lost" if state.startswith("08") else None
        return _BY_STATE.get(state) or lost or f"the database failed ({state})"
    said = str(error.orig).lower()
    if "does not exist" in said and 'database "' in said:
        return _BY_STATE["3D000"]
    if "does not exist" in said and 'role "' in said:
        return _BY_STATE["28000"]
    found = (cause for words, cause in _BY_WORDS if words in said)
    return next(found, f"the database failed ({type(error.orig).__name__})")


def shown_address(url: URL) -> str:
    """Return host, port and name of a database, as libpq finds them; never a password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)

    def option(name: str, given: object, variable: str, default: str) -> str:
        stated = url.query.get(name)
        stated = ",".join(stated) if isinstance(stated, tuple) else stated
        return str(given or stated or os.environ.get(variable) or default)

    if service := url.query.get("service") or os.environ.get("PGSERVICE"):
        return f"service {service}, database {url.database or 'of the service'}"
    host = option("host", url.host, "PGHOST", "local socket")
    port = option("port", url.port, "PGPORT", _PORT)
    name = option("dbname", url.database, "PGDATABASE", "of the user's name")
    return f"host {host}, port {port}, database {name}"


def is_rolled_back(error: Exception) -> bool:
    """Whether an error left nothing of its transaction: a broken constraint, or a deadlock."""
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return isinstance(error, IntegrityError) or state in _REPEATABLE
