"""What the verbs of the ledger do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from wattveil.errors import InvalidFileError, InvalidParameterError, LedgerUnavailableError
from wattveil.publish.findings import Finding
from wattveil.serve.ledger.answer import SHELF, Shelf
from wattveil.serve.ledger.audit import audit_ledger, export_ledger
from wattveil.serve.ledger.engine import cause_of, connect, database_url
from wattveil.serve.ledger.ledger import Ledger
from wattveil.serve.ledger.witness import Witness


def audit(data: Path, database: str | None) -> list[Finding]:
    """Check a ledger with all that belongs to it; the server may run meanwhile."""
    shelf = Shelf(data / SHELF) if (data / SHELF).is_dir() else None
    with existing(data, database) as engine:
        return audit_ledger(engine, shelf=shelf, witness=Witness(data))


def export(data: Path, database: str | None, out: Path) -> int:
    """Write every entry to a new file; return how many."""
    with existing(data, database) as engine:
        return export_ledger(engine, out)


def accept(data: Path, database: str | None, *, by: str, reason: str) -> int:
    """Go on with a database that has lost entries; return how many books it concerns."""
    _check_no_password(database)
    return Ledger.accept(data, database, by=by, reason=reason)


@contextmanager
def existing(data: Path, database: str | None) -> Iterator[Engine]:
    """Connect to a ledger that exists, as it is."""
    _check_no_password(database)
    url = database_url(data, database)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise InvalidFileError(url.database, "file", "a ledger", "none")
    engine = connect(url)
    try:
        yield engine
    except DBAPIError as error:
        raise LedgerUnavailableError(cause_of(error)) from None
    finally:
        engine.dispose()


def _check_no_password(database: str | None) -> None:
    """Refuse a secret that every process of the machine could read."""
    if database is not None and make_url(database).password is not None:
        raise InvalidParameterError("database", "without a password; use PGPASSFILE", "one with")
