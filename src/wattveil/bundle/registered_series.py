"""Series of a server: one period released from a file, if the private state is that of the ledger.

::

    HOME/series/    folder of the series, as `wattveil series init` makes it
    HOME/secrets/   key of its state, and its mark
    HOME/drawn-from the last period that was begun, with a keyed hash of its profiles and attributes
    HOME.lock       held by a period, the end of the series, or a backup
    HOME.closed     written before anything is deleted: no period begins after it
    HOME.*          any other is unfinished: of a first period, or of a restore
    ../series.unused/ID  from the opening of a series until its first state: there is none

A server stores a period in its ledger after it is computed here. So the folder has the stored
periods, or one more whose storing a crash prevented: that one is used, and not drawn again. Any
other folder is a copy of another time, and is refused. Nothing of a period is sent before it is
stored, so that one that was begun and not completed is drawn again.
"""

import errno
import fcntl
import json
import math
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.bundle.durable_files import copy_files, force_to_disk, write_note
from wattveil.bundle.published_series import (
    LoadSeries,
    check_signer,
    delete_state,
    write_statement,
)
from wattveil.bundle.registered_profiles import keyed_hash
from wattveil.bundle.series_bundle import Manifest, read_manifest
from wattveil.bundle.series_erasure import RECEIPTS
from wattveil.bundle.series_plans import plan_series
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_verify import CLOSED
from wattveil.engines.series_folder import SeriesFolder, period_folder
from wattveil.errors import (
    InvalidFileError,
    PeriodRefusedError,
    WattveilError,
)
from wattveil.profiles import Profiles
from wattveil.release.load_series import ReleasedSeries
from wattveil.release.series_noise import check_noise

SERIES, SECRETS = "series", "secrets"
_RESTORE = "restore the folder of series, or close the series"
_MAX_WAITING_SECONDS, _MAX_REQUEST_SECONDS = 1.0, 5.0
"""Time that a period, and an erasure or the end of a series, wait for another user of its folder.
A period returns to the queue then, so that it occupies no compute process. A request has waited for
such a process before, and proxies wait a minute."""
_POLL_SECONDS = 0.05
_DAMAGED = (OSError, LookupError, TypeError, ValueError, WattveilError)
"""Errors of files that are damaged or missing."""


def check_series(request: SeriesRequest) -> None:
    """Refuse, before anything is charged, a series whose noise could not be drawn."""
    check_noise(ReleasedSeries(design=request.design), period=0, recluster=False)


def expected_accuracy(request: SeriesRequest, *customers: int) -> list[dict[str, Any]]:
    """Return the expected errors of groups of so many customers; no data are used."""
    found: list[dict[str, Any]] = plan_series(request, *customers).to_arrow().to_pylist()
    return found


def erase_customers(
    home: Path, customer_ids: Collection[str], *, has_begun: bool, has_stored: bool
) -> int:
    """Delete what the private state holds of these customers, except their odometers.

    A period reads its file while it holds the lock. So one that has read these customers is
    completed first, and they are deleted from its state. Returns how many erasures there were:
    later periods exclude them then. A series without a state has no receipts, and 0 is returned.
    """
    if _may_be_elsewhere(home, has_begun=has_begun, has_stored=has_stored):
        raise PeriodRefusedError("its folder is missing", _RESTORE)
    # Without a lock no period has read a file. None is left where a disk may not be mounted.
    if not (home.exists() or _unfinished(home) or _lock(home).exists()):
        return 0
    with _held_soon(home):
        has_state = home.exists()
        if has_state:
            series = LoadSeries(home / SERIES, secrets=home / SECRETS)
            series.erase(customer_ids)
        elif not has_stored:
            note_unused(home)  # before what shows that the disk is mounted is deleted
        if not _delete_unfinished(home):
            problem = "an unfinished copy of its folder cannot be deleted"
            raise PeriodRefusedError(problem, "delete it")
        return _erasures(home) if has_state else 0


def _erasures(home: Path) -> int:
    """Return how many erasures the receipts of a series have."""
    path = home / SERIES / "private" / RECEIPTS
    records = json.loads(path.read_text("utf-8")) if path.exists() else []
    return sum("erased" in one for one in records)


def note_unused(home: Path) -> None:
    """Note that a series has no private state, before its first period can begin.

    The note is not on the disk of the series, which may not be mounted. Without it, a state is
    presumed.
    """
    _unused(home).parent.mkdir(mode=0o700, exist_ok=True)
    _unused(home).touch(mode=0o600)
    force_to_disk(_unused(home).parent)


def note_new(home: Path) -> None:
    """Note that a series has no private state, unless a first period has just begun to make one."""
    note_unused(home)
    if home.exists() or _new(home).exists():
        forget_unused(home)


def is_unused(home: Path) -> bool:
    """Whether a series never had a private state, wherever its disk is."""
    return _unused(home).exists()


def forget_unused(home: Path) -> None:
    """Delete the note, durably: from now on there may be a state."""
    _unused(home).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        force_to_disk(_unused(home).parent)


def _may_be_elsewhere(home: Path, *, has_begun: bool, has_stored: bool) -> bool:
    """Whether the private state of a series may be on a disk that is not mounted.

    A series of which no period ``has_begun`` has no state. Nor has one that is unused: its periods
    have failed before it was made. A note is not believed if the ledger ``has_stored`` a period. A
    lock shows nothing: a period leaves it on an empty mount point too.
    """
    places = (home, _new(home), home, _closed(home))  # the second may be renamed to the third
    on_disk = any(path.exists() for path in places)
    return has_begun and not on_disk and (has_stored or not is_unused(home))


def publish_period(
    home: Path,
    request: SeriesRequest,
    out: Path,
    *,
    profiles: Path,
    period: str,
    fingerprint_key: bytes,
    others: Collection[str],
    stored: Mapping[str, Path],
    erasures: int,
    recluster: bool,
    key: Ed25519PrivateKey,
    published_at: datetime,
) -> str:
    """Write the bundle of a period to a new folder, durably; return the hash of its profiles.

    ``stored`` are the bundles of the periods that the ledger has stored, in their order, and
    ``erasures`` the number of those that were confirmed: a state that has fewer is an older copy,
    and would admit customers who were erased. A period that was drawn and not stored is used only
    for the file from which it was drawn. ``others`` are hashes of profiles of other people, whose
    budget would not be charged. The file is read once: the hash is that of the rows that are
    released.
    """
    try:
        with _held(home, seconds=_MAX_WAITING_SECONDS):  # before it reads: see `erase_customers`
            if _closed(home).exists():  # before anything of a customer is written
                raise PeriodRefusedError("the series is closed", "open another one")
            (fingerprint, content), add = _adding(profiles, fingerprint_key)
            if fingerprint in others:
                rule = "profiles of this data set"
                raise InvalidFileError(profiles, "content", rule, "of another")
            _publish(
                home,
                request,
                out,
                add=partial(
                    add,
                    period=period,
                    key=key,
                    again=True,
                    recluster=recluster,
                    published_at=published_at,
                ),
                period=period,
                content=content,
                stored=stored,
                erasures=erasures,
            )
    except FileNotFoundError as error:
        if error.filename is None or home not in Path(error.filename).parents:
            raise  # of a disk that is missing, perhaps for a moment
        raise PeriodRefusedError("files of it are missing", _RESTORE) from None
    for path in (*out.rglob("*"), out):
        force_to_disk(path)
    return fingerprint


def _publish(
    home: Path,
    request: SeriesRequest,
    out: Path,
    *,
    add: Callable[[LoadSeries], Path],
    period: str,
    content: str,
    stored: Mapping[str, Path],
    erasures: int,
) -> None:
    """Copy the bundle of a period that is committed, or add it first."""
    series = _opened(home, request, is_new=not stored)
    with SeriesFolder.open(series.folder, series.secrets):
        pass  # finishes or discards what a crash left
    found = [read_manifest(bundle) for bundle in series.bundles]
    due = [read_manifest(bundle) for bundle in stored.values()]
    if found[:-1] == due and found and found[-1]["label"] == period:
        _check_drawn_from(home, period, content)
        bundle = series.bundles[-1]
    elif found == due:
        if (known := _erasures(home)) < erasures:
            problem = f"it has {known} of {erasures} erasures (an older copy)"
            raise PeriodRefusedError(
                problem, "repeat each later erasure, then add the period again"
            )
        write_note(_drawn_from(home), f"{period} {content}")
        bundle = add(series)
    else:
        problem = "its periods are not those of the ledger (an older or another copy)"
        raise PeriodRefusedError(problem, _RESTORE)
    copy_files(bundle, out)


def _check_drawn_from(home: Path, period: str, content: str) -> None:
    """Refuse another file than that of a committed draw, and any file if that one is unknown.

    The draw may have been made from a file that was withdrawn, and there must not be a second one.
    """
    note = _drawn_from(home)
    drawn, _, from_ = (note.read_text() if note.exists() else "").partition(" ")
    if drawn != period:
        problem = "this period was drawn by an earlier version, which did not state its file"
        raise PeriodRefusedError(f"{problem}, and is committed", "close the series")
    if from_ != content:
        problem = "this period was drawn from another file, and is committed"
        raise PeriodRefusedError(problem, "name that file, or close the series")


def _closed(home: Path) -> Path:
    """Return the file that states that a series is closed, whether it has a folder or not."""
    return home.with_name(f"{home.name}.closed")


def _unused(home: Path) -> Path:
    """Return the file that states that a series has no private state."""
    return home.parent.with_name(f"{home.parent.name}.unused") / home.name


def _lock(home: Path) -> Path:
    """Return the file that whoever uses a folder has locked."""
    return home.with_name(f"{home.name}.lock")


def _new(home: Path) -> Path:
    """Return the place where the folder of a series is made."""
    return home.with_name(f"{home.name}.new")


def _drawn_from(home: Path) -> Path:
    """Return the file that states the last period that was begun, and the hash of its profiles."""
    return home / "drawn-from"


def _adding(path: Path, key: bytes) -> tuple[list[str], Callable[..., Path]]:
    """Return keyed hashes of profiles, without and with attributes, and what adds them.

    Rows stay in that function.
    """
    profiles = Profiles.read_parquet(path)
    both = [keyed_hash(profiles, key, names=names) for names in ((), sorted(profiles.attributes))]
    return both, lambda to, **choices: to.add(profiles, **choices)


class ClosedSeries(NamedTuple):
    """What the end of a series on a server has reached."""

    is_deleted: bool
    """Whether nothing of its private state is left."""
    is_stated: bool
    """Whether its end is stated; a series without a period has no statement."""


def close_series(
    home: Path,
    reason: str,
    *,
    stored: Mapping[str, Path],
    lost: bool,
    has_begun: bool,
    key: Ed25519PrivateKey,
) -> ClosedSeries:
    """Delete the private state of a series, whatever is damaged, then state its end.

    The statement is about the periods that the ledger has ``stored``, and a period that was drawn
    and never sent is deleted. If entries of the ledger were ``lost``, others may have been
    published: then none is deleted, and the statement says that it may not be complete. The state
    of a series of which a period ``has_begun`` may be on a disk that is not mounted.
    """
    if _may_be_elsewhere(home, has_begun=has_begun, has_stored=lost or bool(stored)):
        return ClosedSeries(is_deleted=False, is_stated=not stored)
    with _held_soon(home):
        write_note(_closed(home), "")  # a period that waits for the lock must not begin
        is_deleted = _delete_unfinished(home)
        if not home.exists():  # it has no period, unless its folder was lost
            return ClosedSeries(is_deleted, is_stated=not stored)
        is_deleted &= _delete(home)
        _drawn_from(home).unlink(missing_ok=True)
        for folder in (home / SERIES, home):
            if folder.exists():
                force_to_disk(folder)  # a confirmed deletion survives a crash
        try:
            _state_end(home, reason, stored=stored, lost=lost, key=key)
        except _DAMAGED:
            return ClosedSeries(is_deleted, is_stated=False)
        return ClosedSeries(is_deleted, is_stated=True)


def unknown_series(folder: Path, known: Collection[str]) -> list[Path]:
    """Return the folders of series that a ledger does not know, and that hold private state."""
    homes = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        home
        for home in homes
        if home.name.partition(".")[0] not in known
        and ((home / SERIES / "private").exists() or (home / SECRETS).exists())
    ]


def delete_unknown(home: Path) -> bool:
    """Delete the private state of a series that the ledger has lost; whether nothing is left.

    No period can be published from it. Bundles stay: analysts may hold the same ones.
    """
    with _held(home):
        write_note(_closed(home), "")
        return _delete(home)


def _delete(home: Path) -> bool:
    """Delete the private state, alone if its lock can be found; return whether nothing is left."""
    with ExitStack() as alone:
        with suppress(*_DAMAGED):
            series = LoadSeries(home / SERIES, secrets=home / SECRETS)
            alone.enter_context(SeriesFolder.closing(series.secrets, series=series.series_id))
        return not delete_state(home / SERIES, home / SECRETS).left


def _delete_unfinished(home: Path) -> bool:
    """Delete unfinished copies of the folder of a series; return whether none is left."""
    found = _unfinished(home)
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
    if found:
        force_to_disk(home.parent)
    return not any(path.exists() for path in found)


def _unfinished(home: Path) -> list[Path]:
    """Return unfinished copies of the folder of a series: of a first period, or of a restore."""
    kept = {_lock(home), _closed(home)}
    return [path for path in home.parent.glob(f"{home.name}.*") if path not in kept]


def _state_end(
    home: Path, reason: str, *, stored: Mapping[str, Path], lost: bool, key: Ed25519PrivateKey
) -> None:
    """Write the statement, unless it is there; delete what was never sent."""
    series = LoadSeries(home / SERIES, secrets=home / SECRETS)
    if series.closed is not None:
        return
    places = {
        period_folder(series.folder, series.request.period_of(label)): bundle
        for label, bundle in stored.items()
    }
    manifests = [_readable(bundle, own) for own, bundle in places.items()]
    check_signer(manifests, key)
    write_statement(series, reason, manifests, key=key, is_complete=not lost)
    for own in (series.folder / "periods").glob("*"):
        if own not in places and not lost:
            shutil.rmtree(own)


def _readable(bundle: Path, copy: Path) -> Manifest:
    """Return the manifest of a bundle, or that of its copy."""
    try:
        return read_manifest(bundle)
    except _DAMAGED:
        return read_manifest(copy)


def closing_statement(home: Path) -> bytes | None:
    """Return the signed statement of the end of a series."""
    path = home / SERIES / CLOSED
    return path.read_bytes() if path.is_file() else None


def copy_series(home: Path, target: Path) -> bool:
    """Copy the folder of a series while no period is computed; return whether there is one."""
    if not home.exists():
        return False
    with _held(home):
        shutil.copytree(home, target)
    return True


@contextmanager
def _held(home: Path, *, seconds: float = math.inf) -> Iterator[None]:
    """Wait for other users of a folder on this server: periods, the end, a backup.

    After so many seconds there is a `BlockingIOError`: a holder that hangs, with its disk, must not
    stop what has nothing to do with this series.
    """
    home.parent.mkdir(mode=0o700, exist_ok=True)
    until = time.monotonic() + seconds
    with _lock(home).open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_POLL_SECONDS)
        yield


@contextmanager
def _held_soon(home: Path) -> Iterator[None]:
    """Wait for other users of a folder as long as a request may; then refuse."""
    try:
        with _held(home, seconds=_MAX_REQUEST_SECONDS):
            yield
    except BlockingIOError:
        problem = "a period is being computed, or a backup is being made"
        raise PeriodRefusedError(problem, "try again later") from None


def _opened(home: Path, request: SeriesRequest, *, is_new: bool) -> LoadSeries:
    """Return the series of a folder, which is made, whole or not at all, for the first period."""
    if not home.exists():
        if not is_new:
            raise PeriodRefusedError("its folder is missing", _RESTORE)
        new = _new(home)
        if not (new.exists() or is_unused(home)):  # a period has made one, and was not stored
            raise FileNotFoundError(errno.ENOENT, "the disk of its folder is missing", str(home))
        new.mkdir(mode=0o700, exist_ok=True)
        for unfinished in new.iterdir():
            shutil.rmtree(unfinished)
        force_to_disk(home.parent)
        forget_unused(home)  # after the folder is made: one of the two is always there
        LoadSeries.begin(new / SERIES, request, secrets=new / SECRETS)
        new.rename(home)
        force_to_disk(home.parent)
    forget_unused(home)  # which a restore may have left
    series = LoadSeries(home / SERIES, secrets=home / SECRETS)
    if series.request != request:
        raise PeriodRefusedError("it has other choices", _RESTORE)
    return series
