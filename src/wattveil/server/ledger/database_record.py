"""Record of the database that a data folder belongs to.

A command that is given another database than its server uses would find no entries there, and the
high-water mark of the folder would show all of them as lost. Accepting that loss would count every
budget as spent. So the folder records the address of its database, without a password, and another
kind or name of database is refused before it is opened. Another host is refused only if the ledger
there lacks entries: after a failover the host changes, and it may be written in several ways. The
second line of the record is the identity of the ledger, which no other database has.
"""

import os
from pathlib import Path

from sqlalchemy import Connection, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from wattveil.errors import InvalidFileError, InvalidParameterError, LedgerUnavailableError
from wattveil.server.ledger import high_water_mark
from wattveil.server.ledger.ledger_tables import ledger_identity

RECORD = "ledger.database"
FILE = "ledger.sqlite"
"""The database of a data folder, unless another one is named."""
_OF_FOLDER = URL.create("sqlite")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
"""Parameters of libpq that are secrets; they may stand in the query of an address."""


def check_database(folder: Path, url: URL, *, is_exact: bool = False) -> None:
    """Refuse a database that is not the one of a data folder.

    A folder without a record is one of an earlier version: a high-water mark without the database
    file shows that its database is another one, or is lost.

    Parameters
    ----------
    folder, url
        Data folder, and address of the database to open.
    is_exact
        Whether another host is refused as well.
    """
    own, recorded = _recorded(folder, url), read_record(folder)
    if recorded is None:
        missing = own == _OF_FOLDER and not Path(url.database or "").is_file()
        if missing and (folder / high_water_mark.FILE).exists():
            rule = (
                f"the one of the server: {folder} has a high-water mark, but no ledger.sqlite. If"
                " that file was the ledger and is lost, restore a backup"
            )
            raise InvalidParameterError("database", rule, None)
    elif own != recorded and (is_exact or _name(own) != _name(recorded)):
        which = "omitted: the ledger" if recorded == _OF_FOLDER else f"{recorded}: the ledger"
        rule = (
            f"{which} of the server of {folder} is there. If it was moved to another database,"
            f" delete {folder / RECORD} first"
        )
        raise InvalidParameterError("database", rule, None if own == _OF_FOLDER else str(own))


def read_identity(connection: Connection) -> str:
    """Return the identity of a ledger: random, and another one after each restore of a backup."""
    found = connection.execute(select(ledger_identity.c.identity)).scalar_one_or_none()
    if found is None:
        raise LedgerUnavailableError("its table of the identity is empty: restore a backup")
    return str(found)


def has_identity(connection: Connection) -> bool:
    """Whether the tables are of a version that gives a ledger an identity."""
    return inspect(connection).has_table(ledger_identity.name)


def check_identity(folder: Path, connection: Connection | None) -> None:
    """Refuse a ledger that is not the recorded one of a data folder, whatever its address.

    One without a connection is new: it fits a folder that has recorded none.
    """
    if _lines(folder)[1:] != ([] if connection is None else [read_identity(connection)]):
        rule = (
            f"the data folder of the server of this database: its {RECORD} has the identity of the"
            " ledger. After an upgrade or a move of the database, start the server once"
        )
        raise InvalidParameterError("data", rule, str(folder))


def check_no_other(folder: Path, connection: Connection) -> None:
    """Refuse to start with another ledger than the recorded one; a folder may have recorded none.

    It has the address and every entry of the recorded one, but was copied or restored separately.
    Called before its tables are migrated, too: one of an earlier version has no identity.
    """
    recorded = _lines(folder)[1:]
    if recorded and recorded != ([read_identity(connection)] if has_identity(connection) else []):
        rule = (
            f"the ledger that {folder / RECORD} has recorded: this one has another identity. If it"
            " was put there on purpose, delete that file first"
        )
        raise InvalidParameterError("database", rule, "another ledger")


def record_database(folder: Path, url: URL, connection: Connection) -> None:
    """Record the database of a data folder, and the identity of its ledger."""
    place = folder / RECORD
    text = f"{_recorded(folder, url)}\n{read_identity(connection)}\n"
    if place.exists() and place.read_text() == text:
        return
    draft = folder / f"{RECORD}.new"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / RECORD)


def read_record(folder: Path) -> URL | None:
    """Return the address of the database of a folder; None if none is recorded."""
    if not (folder / RECORD).exists():
        return None
    text = "".join(_lines(folder)[:1])
    try:
        return without_secrets(make_url(text))  # which an earlier version recorded
    except ArgumentError:
        raise InvalidFileError(folder / RECORD, "file", "the address of a database", text) from None


def _lines(folder: Path) -> list[str]:
    """Return the address and the identity, as far as they are recorded."""
    try:
        return (folder / RECORD).read_text().splitlines()
    except FileNotFoundError:
        return []


def without_secrets(url: URL) -> URL:
    """Return an address without its password and the secrets that its query contains."""
    # `URL.set` takes None for an argument that is not given.
    return url.difference_update_query(_SECRETS)._replace(password=None)


def _recorded(folder: Path, url: URL) -> URL:
    """Return an address as it is recorded: as an operator writes it, without a password."""
    if url.get_backend_name() != _OF_FOLDER.drivername:
        return without_secrets(url).set(drivername="postgresql")
    named = Path(url.database or "").absolute()
    is_own = named == folder.absolute() / FILE  # which moves with its folder
    return _OF_FOLDER if is_own else _OF_FOLDER.set(database=str(named))


def _name(url: URL) -> tuple[str, str | None]:
    return url.drivername, url.database
