"""Series of a server: one period released from a file, if the private state is that of the ledger.

::

    HOME/series/    folder of the series, as `wattveil series init` makes it
    HOME/secrets/   key of its state, and its mark
    HOME/drawn-from the last period that was begun, with a keyed hash of its profiles

A server stores a period in its ledger after it is computed here. So the folder has the stored
periods, or one more whose storing a crash prevented: that one is used, and not drawn again. Any
other folder is a copy of another time, and is refused. Nothing of a period is sent before it is
stored, so that one that was begun and not completed is drawn again.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.bundle.published_series import LoadSeries
from wattveil.bundle.series_bundle import read_manifest
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_verify import CLOSED
from wattveil.engines.series_folder import SeriesFolder, period_folder
from wattveil.errors import SeriesStateError
from wattveil.profiles import Profiles
from wattveil.release.load_series import ReleasedSeries
from wattveil.release.series_noise import check_noise

SERIES, SECRETS = "series", "secrets"


def check_series(request: SeriesRequest) -> None:
    """Refuse, before anything is charged, a series whose noise could not be drawn."""
    check_noise(ReleasedSeries(design=request.design), period=0, recluster=False)


def publish_period(
    home: Path,
    request: SeriesRequest,
    out: Path,
    *,
    profiles: Path,
    period: str,
    fingerprint: str,
    stored: Mapping[str, Path],
    recluster: bool,
    key: Ed25519PrivateKey,
    published_at: datetime,
) -> None:
    """Write the bundle of a period to a new folder, durably.

    ``stored`` are the bundles of the periods that the ledger has stored, in their order. A period
    that was drawn and not stored is used only for the file from which it was drawn.
    """
    with _held(home):
        series = _opened(home, request, is_new=not stored)
        with SeriesFolder.open(series.folder, series.secrets):
            pass  # finishes or discards what a crash left
        found = [read_manifest(bundle) for bundle in series.bundles]
        due = [read_manifest(bundle) for bundle in stored.values()]
        if found[:-1] == due and found and found[-1]["label"] == period:
            bundle = series.bundles[-1]
            note = _drawn_from(home)
            if not note.exists() or note.read_text() != f"{period} {fingerprint}":
                problem = "this period was drawn from another file, and is committed"
                raise SeriesStateError(problem, "name that file, or close the series")
        elif found == due:
            _note(_drawn_from(home), f"{period} {fingerprint}")
            add = _adding(series, profiles)
            bundle = add(
                period=period,
                key=key,
                again=True,
                recluster=recluster,
                published_at=published_at,
            )
        else:
            problem = "its periods are not those of the ledger (an older or another copy)"
            raise SeriesStateError(problem, "restore the folder of series, or close the series")
        _copy_files(bundle, out)
    for path in (*out.rglob("*"), out):
        _force_to_disk(path)


def _drawn_from(home: Path) -> Path:
    """Return the file that states the last period that was begun, and the hash of its profiles."""
    return home / "drawn-from"


def _note(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    _force_to_disk(new)
    new.replace(path)
    _force_to_disk(path.parent)


def _adding(series: LoadSeries, path: Path) -> Callable[..., Path]:
    """Return the function that adds the profiles of a file to a series; rows stay in it."""
    profiles = Profiles.read_parquet(path)
    return lambda **choices: series.add(profiles, **choices)


def close_series(
    home: Path, reason: str, *, stored: Mapping[str, Path], key: Ed25519PrivateKey
) -> bool:
    """Delete the private state of a series, and state its end; return whether nothing is left.

    The statement is about the periods that the ledger has ``stored``: one that was drawn and never
    sent is deleted, and a copy here that is damaged is replaced.
    """
    if not home.exists():  # it has no period
        return True
    with _held(home):
        series = LoadSeries(home / SERIES, secrets=home / SECRETS)
        if series.closed is None:
            _keep_stored(series, stored)
        _drawn_from(home).unlink(missing_ok=True)
        return not series.close(reason, key=key).left


def _keep_stored(series: LoadSeries, stored: Mapping[str, Path]) -> None:
    """Have the folder of a series contain the stored periods, and no other."""
    (series.folder / "periods").mkdir(exist_ok=True)
    places = {
        period_folder(series.folder, series.request.period_of(label)): bundle
        for label, bundle in stored.items()
    }
    for own in set(series.bundles) - places.keys():
        shutil.rmtree(own)
    for own, bundle in places.items():
        if bundle.is_dir() and _manifest_bytes(own) != _manifest_bytes(bundle):
            shutil.rmtree(own, ignore_errors=True)
            _copy_files(bundle, own)


def _manifest_bytes(bundle: Path) -> bytes:
    path = bundle / "manifest.json"
    return path.read_bytes() if path.is_file() else b""


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
def _held(home: Path) -> Iterator[None]:
    """Wait for other users of a folder on this server: periods, the end, a backup."""
    home.parent.mkdir(mode=0o700, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _opened(home: Path, request: SeriesRequest, *, is_new: bool) -> LoadSeries:
    """Return the series of a folder, which is made, whole or not at all, for the first period."""
    if not home.exists():
        if not is_new:
            raise SeriesStateError("its folder is missing", "restore it, or close the series")
        new = home.with_name(f"{home.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700, parents=True)
        LoadSeries.begin(new / SERIES, request, secrets=new / SECRETS)
        new.rename(home)
        _force_to_disk(home.parent)
    series = LoadSeries(home / SERIES, secrets=home / SECRETS)
    if series.request != request:
        raise SeriesStateError("it has other choices", "restore the folder of series")
    return series


def _copy_files(source: Path, target: Path) -> None:
    """Copy a folder; an error keeps its number, which `shutil.copytree` would drop."""
    target.mkdir()
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        else:
            shutil.copyfile(path, copy)


def _force_to_disk(path: Path) -> None:
    """Force a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
