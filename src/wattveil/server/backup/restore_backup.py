"""Restore of a backup. It never forgets a charge: what may have been lost counts as spent.

A backup is older than the server that was lost. The high-water mark of that server states what was
charged and registered until its end; if the backup lacks nothing of it, nothing is lost. Otherwise,
and if the mark is lost as well, an administrator must accept the loss, with a reason: then all
remaining amounts of the data sets concerned count as spent (`Ledger.accept`).

Nothing is overwritten. Everything is checked before anything is written, and the database is
written last: after an interruption the server does not start, and the restore can be repeated.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from wattveil.bundle.registered_series import forget_unused, note_unused
from wattveil.errors import (
    InvalidFileError,
    InvalidParameterError,
    LedgerBehindError,
    LedgerUnavailableError,
)
from wattveil.server.auth.principals import LOCAL_OPERATOR, PrincipalAction
from wattveil.server.backup.write_backup import (
    KEYS,
    KEYS_FOLDER,
    LEDGER,
    UNUSED,
    copy_tables,
    read_manifest,
)
from wattveil.server.datasets import FOLDER
from wattveil.server.ledger import high_water_mark
from wattveil.server.ledger.administration import admin_id
from wattveil.server.ledger.database import (
    check_no_password,
    connect,
    database_url,
    migrate,
    version,
    writing,
)
from wattveil.server.ledger.database_errors import cause_of, shown_address
from wattveil.server.ledger.database_record import FILE, record_database
from wattveil.server.ledger.fulfilment import BUNDLES_FOLDER, folder_sha256
from wattveil.server.ledger.high_water_mark import HighWaterMark
from wattveil.server.ledger.journal import now
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_audit import audit_connection
from wattveil.server.ledger.ledger_tables import (
    UNKNOWN_DATASET,
    metadata,
    principal_event,
    registration,
    release,
    token,
)
from wattveil.server.server_state import SERIES_FOLDER, held, is_held


@dataclass(frozen=True, kw_only=True)
class AcceptedLoss:
    """Decision of an administrator that lost charges count as spent."""

    by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RestoreSummary:
    """What was restored."""

    made_at: str
    """Time of the backup."""
    journals_lost: int
    """Journals whose remaining amounts count as spent."""
    tokens_revoked: int
    """Tokens that were valid in the backup."""
    missing_profiles: tuple[str, ...]
    """Profile files and lists that the data folder lacks; the data owner has them."""
    missing_bundles: tuple[str, ...]
    """Bundles that were missing already when the backup was made."""


def restore_backup(
    backup: Path,
    folder: Path,
    database: str | None,
    *,
    mark: Path | None = None,
    loss: AcceptedLoss | None = None,
) -> RestoreSummary:
    """Restore a backup into a data folder without a ledger.

    Parameters
    ----------
    backup
        Folder of `write_backup`.
    folder
        Data folder; an existing one keeps its high-water mark, keys and profiles.
    database
        Address of an empty PostgreSQL database; None: the file of the data folder.
    mark
        High-water mark of the lost server as it was at its end, if the folder has none.
    loss
        Needed if charges are lost, or if this is unknown because there is no high-water mark.
    """
    check_no_password(database)
    manifest = read_manifest(backup)
    folder.mkdir(mode=0o700, exist_ok=True)
    with (
        held(folder),
        tempfile.TemporaryDirectory(dir=folder, prefix="restore-") as scratch,
        _opened_copy(backup / LEDGER, Path(scratch)) as source,
    ):
        _check_new(folder, database)
        _check_keys(backup, folder)
        bundles = _checked_bundles(source, backup, manifest["damaged_bundles"])
        seen = _found_mark(folder, mark)
        lost = seen is None or _is_behind(seen, source, loss)
        if lost:
            _check_loss(source, loss)
        if mark is not None:
            shutil.copyfile(mark, folder / high_water_mark.FILE)
        if seen is None:  # until the loss is accepted, the server does not start
            HighWaterMark(folder).record({}, {}, {UNKNOWN_DATASET: UNKNOWN_DATASET})
        _put_keys(backup, folder)
        _put_bundles(backup, folder, bundles)
        _put_series(backup, folder)
        for number in manifest.get(UNUSED, []) if not lost else []:  # earlier versions: unknown
            note_unused(folder / SERIES_FOLDER / number)
        revoked = _put_tables(source, folder, database)
        named = source.execute(select(registration.c.profiles_file)).scalars()
        lists = source.execute(select(registration.c.customer_list_file)).scalars()
        files = sorted({*named, *(one for one in lists if one is not None)})
    journals = 0
    if lost and loss is not None:
        journals = Ledger.accept(folder, database, by=loss.by, reason=loss.reason)
    return RestoreSummary(
        made_at=manifest["made_at"],
        journals_lost=journals,
        tokens_revoked=revoked,
        missing_profiles=tuple(one for one in files if not (folder / FOLDER / one).is_file()),
        missing_bundles=tuple(manifest["damaged_bundles"]),
    )


@contextmanager
def _opened_copy(ledger: Path, scratch: Path) -> Iterator[Connection]:
    """Open a copy of the ledger of a backup, migrated to this version and checked."""
    copy = scratch / LEDGER
    shutil.copyfile(ledger, copy)
    engine = connect(make_url(f"sqlite:///{copy.absolute()}"))
    try:
        migrate(engine)
        with engine.connect() as connection:
            for finding in audit_connection(connection):
                if not finding.holds:
                    raise InvalidFileError(ledger, finding.check, "a sound ledger", finding.seen)
            yield connection
    finally:
        engine.dispose()


def _check_new(folder: Path, database: str | None) -> None:
    """Refuse to overwrite a ledger: it may be the only one with the last charges."""
    if database is None:
        # SQLite would apply the log of an earlier database to the restored one.
        for name in (FILE, *(FILE + ending for ending in ("-wal", "-shm", "-journal"))):
            if (folder / name).exists():
                rule = f"a folder without {name}: move {FILE} and all files beside it whose names"
                rule += " begin so away together, they may have charges that no backup has"
                raise InvalidParameterError("data", rule, str(folder))
        return
    engine = connect(database_url(folder, database))
    try:
        if version(engine) is not None:
            rule = (
                "an empty database: this one has the tables of a ledger. Rename it, as it may have"
            )
            rule += " charges that no backup has, and create a new one of its name"
            raise InvalidParameterError("database", rule, shown_address(engine.url))
    except DBAPIError as error:
        raise LedgerUnavailableError(cause_of(error, engine.url)) from None
    finally:
        engine.dispose()


def _check_keys(backup: Path, folder: Path) -> None:
    for name in KEYS:
        own = folder / name
        if own.exists() and own.read_bytes() != (backup / KEYS_FOLDER / name).read_bytes():
            rule = f"a folder without {name}, or with that of the backup"
            raise InvalidParameterError("data", rule, str(own))


def _checked_bundles(source: Connection, backup: Path, damaged: list[str]) -> list[str]:
    """Return the names of the bundles of a ledger; refuse a backup that lacks one."""
    columns = (release.c.payload_ref, release.c.payload_sha256)
    rows = source.execute(select(*columns).where(release.c.payload_ref.is_not(None))).all()
    for ref, sha256 in rows:
        place = backup / BUNDLES_FOLDER / ref
        if ref not in damaged and (not place.is_dir() or folder_sha256(place) != sha256):
            raise InvalidParameterError(
                "backup", "complete: its ledger lists a bundle that it lacks", ref
            )
    return [ref for ref, _ in rows if ref not in damaged]


def _found_mark(folder: Path, mark: Path | None) -> HighWaterMark | None:
    """Return the high-water mark of the lost server; None if there is none."""
    own = folder / high_water_mark.FILE
    if mark is None:
        found = HighWaterMark(folder)
        return None if found.is_new else found
    if own.exists():
        rule = f"omitted: {own} is the mark of this folder"
        raise InvalidParameterError("high_water_mark", rule, str(mark))
    if not mark.is_file():
        raise InvalidParameterError("high_water_mark", "a file", str(mark))
    if is_held(mark.resolve().parent):
        rule = "that of a server that was stopped: one that runs may still charge"
        raise InvalidParameterError("high_water_mark", rule, str(mark))
    found = HighWaterMark(mark.parent, name=mark.name)
    if found.is_new:
        raise InvalidParameterError("high_water_mark", "the mark of a ledger", str(mark))
    return found


def _is_behind(mark: HighWaterMark, source: Connection, loss: AcceptedLoss | None) -> bool:
    """Return whether a backup lacks something; refuse it unless that is accepted."""
    behind = mark.behind(source)
    if behind and loss is None:
        first = next(iter(behind.values()))
        remedy = (
            "Use a newer backup; if there is none, repeat `wattveil admin restore` with --by … and"
            " --reason …, which treats the remaining budget as spent"
        )
        raise LedgerBehindError(
            first.journal, first.seen, first.found, what=first.what, remedy=remedy
        )
    return bool(behind)


def _check_loss(source: Connection, loss: AcceptedLoss | None) -> None:
    if loss is None:
        rule = (
            "given: without it, charges since the backup are unknown. If it is lost, give --by and"
            " --reason, and all remaining budget counts as spent"
        )
        raise InvalidParameterError("high_water_mark", rule, None)
    admin_id(source, loss.by)
    if not loss.reason.strip():
        raise InvalidParameterError("reason", "given", loss.reason)


def _put_keys(backup: Path, folder: Path) -> None:
    for name in KEYS:
        if not (folder / name).exists():
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes((backup / KEYS_FOLDER / name).read_bytes())


def _put_bundles(backup: Path, folder: Path, bundles: list[str]) -> None:
    """Copy bundles; one that is present is replaced: it may be damaged, and never changes."""
    (folder / BUNDLES_FOLDER).mkdir(mode=0o700, exist_ok=True)
    for ref in bundles:
        target = folder / BUNDLES_FOLDER / ref
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(backup / BUNDLES_FOLDER / ref, target)


def _put_series(backup: Path, folder: Path) -> None:
    """Copy the private states of series; one that is present is newer, or the same."""
    (folder / SERIES_FOLDER).mkdir(mode=0o700, exist_ok=True)
    for home in (backup / SERIES_FOLDER).glob("*"):
        place = folder / SERIES_FOLDER / home.name
        if not place.exists():
            draft = place.with_name(f"{home.name}.restoring")
            shutil.rmtree(draft, ignore_errors=True)  # of a restore that was interrupted
            shutil.copytree(home, draft)
            draft.rename(place)
        forget_unused(place)


def _put_tables(source: Connection, folder: Path, database: str | None) -> int:
    """Record and write the database; return how many tokens were revoked.

    Its identity is a new one: the server that was backed up may still exist. Revocations since the
    backup are lost, so no token of the backup is valid.
    """
    draft = folder / f"{FILE}.restoring"
    if database is None:
        for leftover in folder.glob(f"{draft.name}*"):
            leftover.unlink()
        engine = connect(make_url(f"sqlite:///{draft.absolute()}"))
    else:
        engine = connect(database_url(folder, database))
    try:
        with _empty_tables(engine) as target:
            copy_tables(source, target)
            if engine.dialect.name == "postgresql":
                _advance_sequences(target)
            revoked = _revoke_tokens(target)
            record_database(folder, database_url(folder, database), target)
    except DBAPIError as error:
        raise LedgerUnavailableError(cause_of(error, engine.url)) from None
    finally:
        engine.dispose()
    if database is None:
        draft.rename(folder / FILE)
    return revoked


@contextmanager
def _empty_tables(engine: Engine) -> Iterator[Connection]:
    migrate(engine)
    with writing(engine).begin() as connection:
        yield connection


def _revoke_tokens(target: Connection) -> int:
    valid = token.c.revoked_at.is_(None)
    owners = target.execute(select(token.c.principal_id).where(valid).distinct()).scalars().all()
    revoked = target.execute(update(token).where(valid).values(revoked_at=now())).rowcount
    for owner in owners:
        event: dict[str, Any] = {
            "at": now(),
            "by": LOCAL_OPERATOR,
            "action": PrincipalAction.REVOKED.value,
            "principal_id": owner,
        }
        target.execute(insert(principal_event), event)
    return int(revoked)


def _advance_sequences(target: Connection) -> None:
    """Have PostgreSQL number further rows after those that were copied."""
    for table in metadata.sorted_tables:
        if "id" in table.c:
            last = target.execute(select(func.max(table.c.id))).scalar()
            if last is not None:
                name = {"table": table.name, "last": last}
                target.execute(
                    text("SELECT setval(pg_get_serial_sequence(:table, 'id'), :last)"), name
                )
