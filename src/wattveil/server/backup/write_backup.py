"""Backup of a server while it runs: the ledger at one instant, bundles, and keys.

::

    BACKUP/backup.json    what it contains, with hashes; written last
    BACKUP/ledger.sqlite  every table, whichever database the server uses
    BACKUP/releases/      the bundles that this ledger names
    BACKUP/series/        private states of the series of this ledger, with their keys: private
    BACKUP/keys/          release.key, release.key.pub, fingerprint.key

The profiles are not part of it: the data owner has them. Nor is the high-water mark: a backup
cannot state that it is the newest.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version as installed_version
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import make_url

from wattveil.bundle.registered_series import copy_series, is_unused
from wattveil.errors import InvalidParameterError
from wattveil.server.datasets import all_datasets
from wattveil.server.ledger.database import (
    check_version,
    connect,
    existing_database,
    migrate,
    writing,
)
from wattveil.server.ledger.database_record import read_identity
from wattveil.server.ledger.fulfilment import BUNDLES_FOLDER, folder_sha256
from wattveil.server.ledger.journal import now
from wattveil.server.ledger.ledger_audit import at_one_instant
from wattveil.server.ledger.ledger_tables import NOT_COPIED, journal, metadata, release
from wattveil.server.ledger.reserved_series import series_ids, series_of
from wattveil.server.server_state import FINGERPRINT_KEY, SERIES_FOLDER, SIGNING_KEY

MANIFEST = "backup.json"
LEDGER = "ledger.sqlite"
KEYS_FOLDER = "keys"
UNUSED = "unused_series"
"""Field of the manifest: series that have no private state."""
FORMAT = 1
KEYS = (SIGNING_KEY, f"{SIGNING_KEY}.pub", FINGERPRINT_KEY)
_LAST = "backup.time"
"""File of the data folder: when the last backup was made, and how much it lacks."""
_IDENTITY = "ledger"
"""Field of the manifest that is the same in all backups of a server, and in those of no other: a
server that was restored from a backup has the same keys."""

_ROWS_AT_ONCE = 2_000


@dataclass(frozen=True)
class LastBackup:
    """What the metrics state about the last backup of a data folder."""

    made_at: float = 0.0
    """Unix time; 0 if there is none."""
    lacking: int = 0
    """Number of bundles and private states that are missing or damaged, and not contained."""


@dataclass(frozen=True, kw_only=True)
class BackupSummary:
    """What a backup contains."""

    out: Path
    entries: int
    """Number of entries of the ledger."""
    bundles: int
    """Number of bundles."""
    damaged: tuple[str, ...]
    """Bundles that the ledger names and that are missing or changed; they are not contained."""
    without_state: tuple[str, ...]
    """Open series whose private state is missing, although periods were begun."""
    removed: tuple[str, ...]
    """Older backups that were removed."""


def write_backup(
    folder: Path, database: str | None, out: Path, *, keep: int | None = None
) -> BackupSummary:
    """Write a backup of the server of a data folder to a new folder; the server may run.

    ``keep`` is the number of backups of this server to keep beside it, itself included. Older ones
    are removed once it is complete; none is if a bundle is damaged or the state of a series is
    missing, which they may contain.
    """
    if out.exists():
        raise InvalidParameterError("out", "a new folder", str(out))
    if out.resolve().is_relative_to(folder.resolve()):
        raise InvalidParameterError("out", "outside the data folder: lost with it", str(out))
    draft = out.with_name(f"{out.name}.partial")
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, draft, ignore_errors=True)  # what is left of a failure
        with existing_database(folder, database) as engine:
            check_version(engine)
            shutil.rmtree(draft, ignore_errors=True)  # of a backup that was interrupted
            draft.mkdir(mode=0o700)
            with at_one_instant(engine) as source:
                copy_to_file(source, draft / LEDGER)
                ledger_id = read_identity(source)
                columns = (journal.c.id, journal.c.head_seq, journal.c.head_sha256)
                heads = {str(row[0]): [row[1], row[2]] for row in source.execute(select(*columns))}
                named = select(release.c.payload_ref, release.c.payload_sha256)
                rows = source.execute(named.where(release.c.payload_ref.is_not(None))).all()
                series = series_ids(source)
                opened = [
                    one
                    for registered in all_datasets(source)
                    for one in series_of(source, registered.name)
                    if one.ended is None
                ]
        # Bundles never change, and those that the ledger names are complete.
        damaged = tuple(ref for ref, sha256 in rows if not _copy_bundle(folder, draft, ref, sha256))
        # A state may be newer than the ledger: a restore finds by the mark what is missing.
        unused = {one.id for one in opened if is_unused(folder / SERIES_FOLDER / one.id)}
        (draft / SERIES_FOLDER).mkdir(mode=0o700)
        copied = {
            number
            for number in series
            if copy_series(folder / SERIES_FOLDER / number, draft / SERIES_FOLDER / number)
        }
        without_state = tuple(
            f"{one.dataset}/{one.name}"
            for one in opened
            if one.periods and one.id not in copied | unused
        )
        (draft / KEYS_FOLDER).mkdir(mode=0o700)
        for name in KEYS:
            _copy_private(folder / name, draft / KEYS_FOLDER / name)
        content: dict[str, Any] = {
            "format": FORMAT,
            "wattveil": installed_version("wattveil"),
            "made_at": now(),
            _IDENTITY: ledger_id,
            "heads": heads,
            "damaged_bundles": list(damaged),
            # A period that is being computed may make the state after this backup.
            UNUSED: [one.id for one in opened if one.id in unused - copied and not one.pending],
            "files": {name: sha256_of(draft / name) for name in sorted(_files(draft))},
        }
        (draft / MANIFEST).write_text(json.dumps(content, indent=2) + "\n")
        os.sync()
        draft.rename(out)
    with suppress(OSError):  # the folder is read-only here: the alert states that there is no time
        _note_last(folder, f"{content['made_at']} {len(damaged) + len(without_state)}")
    return BackupSummary(
        out=out,
        entries=sum(seq for seq, _ in heads.values()),
        bundles=len(rows) - len(damaged),
        damaged=damaged,
        without_state=without_state,
        removed=() if keep is None or damaged or without_state else _remove_older(out, keep),
    )


def last_backup(folder: Path) -> LastBackup:
    """Return when the last backup of a data folder was made, and how much it lacks."""
    try:
        made_at, _, lacking = (folder / _LAST).read_text().partition(" ")
        # An earlier version has written the time alone.
        return LastBackup(datetime.fromisoformat(made_at).timestamp(), int(lacking or 0))
    except (OSError, ValueError):
        return LastBackup()


def _note_last(folder: Path, text: str) -> None:
    """Write the time and the number whole: a server may read them now."""
    draft = folder / f"{_LAST}.new"
    draft.write_text(text)
    draft.replace(folder / _LAST)


def _remove_older(out: Path, keep: int) -> tuple[str, ...]:
    """Remove the oldest backups of the same server beside a new one; return their names.

    One that claims to be made later than the new one, by another clock, is left alone. So is one of
    a server from which this one was restored, or that was restored from it, to practise.
    """
    own = json.loads((out / MANIFEST).read_text())
    made_at = str(own["made_at"])
    found = []
    for manifest in out.parent.glob(f"*/{MANIFEST}"):
        if manifest.parent.name == out.name or manifest.parent.is_symlink():
            continue
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(manifest.read_text())
            if content[_IDENTITY] == own[_IDENTITY] and str(content["made_at"]) <= made_at:
                found.append((str(content["made_at"]), manifest.parent))
    newest_first = sorted(found, reverse=True)
    older = [path for _, path in reversed(newest_first[keep - 1 :])]
    for path in older:
        shutil.rmtree(path)
    return tuple(path.name for path in older)


def copy_to_file(source: Connection, path: Path) -> None:
    """Copy every table to a new SQLite file."""
    engine = connect(make_url(f"sqlite:///{path.absolute()}"))
    try:
        migrate(engine)
        with writing(engine).begin() as target:
            copy_tables(source, target)
    finally:
        engine.dispose()
    path.chmod(0o600)


def copy_tables(source: Connection, target: Connection) -> None:
    """Copy the rows of every table, parents first; identity and sessions end with their server."""
    for table in metadata.sorted_tables:
        if table.info.get(NOT_COPIED):
            continue
        rows = source.execute(select(table)).mappings()
        counted = {"stored": 0} if table is journal else {}  # as its releases are copied
        for page in _pages({**row, **counted} for row in rows):
            target.execute(table.insert(), page)


def read_manifest(backup: Path) -> dict[str, Any]:
    """Return the manifest of a backup; refuse one whose files are not as it states."""
    try:
        content: dict[str, Any] = json.loads((backup / MANIFEST).read_text())
        stated = dict(content["files"])
        known_format = content["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidParameterError(
            "backup", "a folder that `wattveil admin backup` has completed", str(backup)
        ) from None
    if not known_format:
        raise InvalidParameterError("backup", f"of format {FORMAT}", content["format"])
    present = {*_files(backup)} - {MANIFEST}
    for name in sorted(present.symmetric_difference(stated)):
        raise InvalidParameterError("backup", "complete and without other files", name)
    for name, sha256 in stated.items():
        if sha256_of(backup / name) != sha256:
            raise InvalidParameterError("backup", "unchanged since it was made", name)
    return content


def sha256_of(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(folder: Path) -> Iterator[str]:
    """Yield the relative paths of all files of a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _copy_bundle(folder: Path, draft: Path, ref: str, sha256: str) -> bool:
    """Copy a bundle; return whether it is whole."""
    source, target = folder / BUNDLES_FOLDER / ref, draft / BUNDLES_FOLDER / ref
    if not source.is_dir():
        return False
    shutil.copytree(source, target)
    if folder_sha256(target) != sha256:
        shutil.rmtree(target)
        return False
    return True


def _copy_private(source: Path, target: Path) -> None:
    """Copy a key, for its owner alone."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(source.read_bytes())


def _pages(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while page := list(islice(rows, _ROWS_AT_ONCE)):
        yield page
