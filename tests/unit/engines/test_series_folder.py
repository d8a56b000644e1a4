"""Private state of a series on disk: round trip, tampering, rollback, copies, crashes."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.series_periods import period_rows
from tests.single_queries import given_features
from wattveil.engines import series_folder
from wattveil.engines.local import LocalRows, value_column
from wattveil.engines.series_folder import PendingPeriod, SeriesFolder, period_folder
from wattveil.engines.series_rows import without_records
from wattveil.engines.series_state import StateKey
from wattveil.errors import InvalidFileError, InvalidParameterError, SeriesStateError
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.privacy.guarantee import Budget, global_guarantee
from wattveil.privacy.mechanisms.contributions import UNIT
from wattveil.privacy.mechanisms.period_sums import CustomerState, PeriodQuery, release_period

PERIODS = 4


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def encrypted(request: pytest.FixtureRequest) -> bool:
    """Whether the state is encrypted."""
    return bool(request.param)


def created(tmp_path: Path, *, encrypted: bool = False) -> tuple[Path, Path]:
    """Return the folder and the secrets of a new series."""
    root, secrets = tmp_path / "series", tmp_path / "secrets"
    SeriesFolder.create(
        root,
        secrets,
        b'{"public": true}',
        series="s",
        declaration_sha256="d",
        manifest_sha256="d",
        encrypted=encrypted,
    )
    return root, secrets


def add(root: Path, secrets: Path, *, customers: int = 3, again: bool = False) -> None:
    """Release the next period of a small series."""
    with SeriesFolder.open(root, secrets) as folder:
        period = len(folder.head.released)
        pending = folder.begin(period, again=again)
        draw(pending, period, customers=customers)
        commit(pending, period)


def draw(pending: PendingPeriod, period: int, *, customers: int = 3) -> None:
    """Draw the sums of a period from its customers."""
    budget = Budget(global_guarantee(epsilon=1.0, delta=1e-6))
    budgeted(budget, period)
    features = np.full((customers, 2), 1.0 + period)
    rows = LocalRows(features, np.zeros(customers, dtype=np.int64))
    ids = LocalRows(value_column([f"household {i}" for i in range(customers)]))
    beside = period_rows(rows, ids, pending)
    release_period(beside, given_features.bind(), query(budget, period), budget)


def commit(pending: PendingPeriod, period: int) -> None:
    """Write a bundle and make the period final."""
    (pending.bundle / "tables").mkdir(parents=True)
    (pending.bundle / "tables" / "sums.csv").write_text(str(period))
    (pending.bundle / "manifest.json").write_text(str(period))
    pending.commit(manifest_sha256=f"m{period}")


def query(budget: Budget, period: int) -> PeriodQuery:
    """Return the query of a period."""
    allowances = tuple(UNIT**2 * (t + 1) // PERIODS for t in range(PERIODS))
    return PeriodQuery(
        tag="load",
        rho_units=budget.rho_units,
        allowances=allowances,
        period=period,
        feedback=np.full(period + 1, 2.0),
        n_cells=1,
        n_features=2,
    )


def budgeted(budget: Budget, period: int) -> None:
    """Charge for all earlier periods."""
    for earlier in range(period):
        nothing = LocalRows(np.zeros((0, 2)), np.zeros(0, dtype=np.int64))
        rows = period_rows(
            nothing, LocalRows(value_column([])), MemoryState(names_key=b"any key at all")
        )
        release_period(rows, given_features.bind(), query(budget, earlier), budget)


def state(root: Path, secrets: Path) -> list[CustomerState]:
    """Return the current state."""
    with SeriesFolder.open(root, secrets) as folder:
        return list(folder.state("load"))


def released(root: Path, secrets: Path) -> tuple[int, ...]:
    """Return the periods that were released."""
    with SeriesFolder.open(root, secrets) as folder:
        return folder.head.released


def test_a_state_comes_back_as_it_was(tmp_path: Path, *, encrypted: bool) -> None:
    """Names, odometers, cells and contributions; and no id is on disk."""
    places = created(tmp_path, encrypted=encrypted)
    assert state(*places) == []
    for period in range(3):
        add(*places, customers=3 + period)
        (own,) = state(*places)
        assert own.names.size == 3 + period
        assert own.history.shape == (3 + period, period + 1, 2)
        assert (own.used == np.square(own.history.astype(np.int64)).sum(axis=(1, 2))).all()
        assert period_folder(places[0], period).is_dir()
    content = b"".join(file.read_bytes() for file in places[0].rglob("*") if file.is_file())
    assert b"household" not in content
    assert (b"history" in content) is not encrypted


def test_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    """The state and the secrets cannot be read by others."""
    root, secrets = created(tmp_path)
    for path in (root / "private", secrets, secrets / "series.key", secrets / "series.mark"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", ["head.json", "load.state"])
def test_a_changed_state_is_refused(tmp_path: Path, place: str, *, encrypted: bool) -> None:
    """One bit of the head or of a state file."""
    root, secrets = created(tmp_path, encrypted=encrypted)
    add(root, secrets)
    (file,) = (root / "private").rglob(place)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(SeriesStateError, match="restore the newest copy"):
        state(root, secrets)


def test_a_state_that_is_rolled_back_is_refused(tmp_path: Path) -> None:
    """The whole private folder, or the whole series, from a copy of the period before."""
    root, secrets = created(tmp_path)
    add(root, secrets)
    shutil.copytree(root, tmp_path / "copy")
    add(root, secrets)
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "copy", root)
    with pytest.raises(SeriesStateError, match="not that of the last released period"):
        add(root, secrets)


def test_a_copy_of_a_series_cannot_continue(tmp_path: Path) -> None:
    """Once one of two copies has released a period, the other one is refused."""
    root, secrets = created(tmp_path)
    add(root, secrets)
    copy = shutil.copytree(root, tmp_path / "copy")
    add(root, secrets)
    with pytest.raises(SeriesStateError, match="not that of the last released period"):
        add(copy, secrets)
    with pytest.raises(SeriesStateError, match=r"series\.key is missing"):
        add(copy, tmp_path / "nowhere")


def test_an_old_state_file_in_place_of_the_new_one_is_refused(tmp_path: Path) -> None:
    """Its digest is not the one of the head."""
    root, secrets = created(tmp_path)
    add(root, secrets)
    (old,) = (root / "private").rglob("load.state")
    content = old.read_bytes()
    add(root, secrets)
    (new,) = (root / "private").rglob("load.state")
    new.write_bytes(content)
    with pytest.raises(SeriesStateError, match=r"load.state was changed"):
        add(root, secrets)
    new.unlink()
    with pytest.raises(SeriesStateError, match=r"load.state is missing"):
        add(root, secrets, again=True)
    assert released(root, secrets) == (0, 1)


def damages(root: Path, secrets: Path) -> dict[str, Callable[[], object]]:
    """Return what may happen to key, mark and head."""
    other = secrets.parent / "other"
    return {
        "mark missing": (secrets / "series.mark").unlink,
        "mark of another series": lambda: (
            created(other.parent / "x"),
            shutil.copy(other.parent / "x" / "secrets" / "series.mark", secrets),
        ),
        "mark cut": lambda: (secrets / "series.mark").write_text("{"),
        "mark a list": lambda: (secrets / "series.mark").write_text("[]"),
        "key missing": (secrets / "series.key").unlink,
        "key of another series": lambda: (secrets / "series.key").write_text(
            StateKey.draw().to_hex()
        ),
        "key cut": lambda: (secrets / "series.key").write_text("abcd"),
        "key no number": lambda: (secrets / "series.key").write_text("zz"),
        "head missing": (root / "private" / "head.json").unlink,
    }


@pytest.mark.parametrize("damage", damages(Path(), Path()))
def test_damaged_secrets_are_refused(tmp_path: Path, damage: str) -> None:
    """With a way out in the text, and never the key."""
    (tmp_path / "x").mkdir()
    root, secrets = created(tmp_path)
    add(root, secrets)
    key = (secrets / "series.key").read_text()
    damages(root, secrets)[damage]()
    with pytest.raises(SeriesStateError, match=r"restore|closed") as refused:
        add(root, secrets)
    assert key not in str(refused.value)


def test_another_key_does_not_decrypt(tmp_path: Path) -> None:
    """The file is the one of the head, and the key of the series another one."""
    root, secrets = created(tmp_path, encrypted=True)
    add(root, secrets)
    with SeriesFolder.open(root, secrets) as folder:
        folder.key = StateKey.draw()
        with pytest.raises(SeriesStateError, match="another key"):
            list(folder.state("load"))


def test_a_series_is_used_by_one_process(tmp_path: Path) -> None:
    """A second one is refused, and told to wait."""
    places = created(tmp_path)
    with SeriesFolder.open(*places), pytest.raises(SeriesStateError, match="another process"):
        add(*places)
    add(*places)


def test_places_that_exist_are_refused(tmp_path: Path) -> None:
    """Neither a series nor a key is overwritten."""
    created(tmp_path)
    with pytest.raises(InvalidParameterError, match="folder must be a new folder"):
        created(tmp_path)
    shutil.rmtree(tmp_path / "series")
    with pytest.raises(InvalidParameterError, match="secrets must be a new folder"):
        created(tmp_path)
    with (
        pytest.raises(InvalidFileError, match="series init"),
        SeriesFolder.open(tmp_path, tmp_path / "secrets"),
    ):
        pass


def test_erasure_keeps_the_odometer(tmp_path: Path) -> None:
    """The contributions of a customer go, its hash and what it has used stay."""
    root, secrets = created(tmp_path)
    add(root, secrets)
    (before,) = state(root, secrets)
    with SeriesFolder.open(root, secrets) as folder:
        pending = folder.begin(None)
        with pending.keeping("load") as keep:
            for block in pending.blocks("load"):
                keep(without_records(block, before.names[:1]))
        pending.commit(manifest_sha256=folder.head.manifest_sha256)
    (after,) = state(root, secrets)
    assert (after.names == before.names).all()
    assert (after.used == before.used).all()
    assert after.owners.tolist() == [1, 2]
    assert released(root, secrets) == (0,)
    add(root, secrets)


def test_copies_of_a_folder_release_a_period_once(tmp_path: Path) -> None:
    """With one secrets folder: copies exclude each other, and the mark is never overwritten."""
    root, secrets = created(tmp_path)
    copy = shutil.copytree(root, tmp_path / "copy")
    with SeriesFolder.open(root, secrets), pytest.raises(SeriesStateError, match="another process"):
        add(copy, secrets)
    with SeriesFolder.open(root, secrets) as folder:
        late = folder.begin(0)
        draw(late, 0)
    add(copy, secrets, again=True)
    with pytest.raises(SeriesStateError, match="not that of the last released period"):
        commit(late, 0)
    with pytest.raises(SeriesStateError, match="not that of the last released period"):
        folder.begin(0, again=True)
    assert released(copy, secrets) == (0,)


def test_a_period_is_drawn_once(tmp_path: Path) -> None:
    """Also if nothing was committed, the period is skipped, or the state changed in between."""
    root, secrets = created(tmp_path)
    add(root, secrets)
    with SeriesFolder.open(root, secrets) as folder:
        draw(folder.begin(1), 1)
        for period in (1, 2):
            with pytest.raises(SeriesStateError, match=r"period 2 was begun .* --again"):
                folder.begin(period)
        pending = folder.begin(None)
        with pytest.raises(SeriesStateError, match="no period was begun"):
            draw(pending, 1)
        pending = folder.begin(None)
        with pending.keeping("load") as keep:
            for block in pending.blocks("load"):
                keep(block)
        pending.commit(manifest_sha256=folder.head.manifest_sha256)
    with pytest.raises(SeriesStateError, match="period 2 was begun"):
        add(root, secrets)
    add(root, secrets, again=True)
    add(root, secrets)
    assert released(root, secrets) == (0, 1, 2)


def test_no_kind_of_sums_loses_its_state(tmp_path: Path) -> None:
    """Without it every customer would start afresh."""
    root, secrets = created(tmp_path)
    add(root, secrets)
    with SeriesFolder.open(root, secrets) as folder:
        with pytest.raises(SeriesStateError, match="no state of customers"):
            folder.state("customers")
        pending = folder.begin(None)
        with pending.keeping("customers"):
            pass
        with pytest.raises(SeriesStateError, match=r"would lack \['load'\]"):
            pending.commit(manifest_sha256="m")


@pytest.mark.parametrize("name", ["../load", "a/b", "", ".", "-x", "x" * 61, "a\0", "a\n"])
def test_kinds_of_sums_are_names_of_files(tmp_path: Path, name: str) -> None:
    """Nothing is written elsewhere."""
    root, secrets = created(tmp_path)
    with SeriesFolder.open(root, secrets) as folder:
        pending = folder.begin(0)
        with pytest.raises(InvalidParameterError, match="tag must be"), pending.keeping(name):
            pass
        for fine in ("load", "car=yes", "Heizung=Wärme-pumpe 2"):
            with pending.keeping(fine):
                pass


def test_everything_is_on_disk_before_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file and folder of the pending period, and the folder that names it."""
    root, secrets = created(tmp_path)
    forced: set[int] = set()
    due: set[int] = set()
    sync, write_mark = os.fsync, series_folder._write_mark

    def noting(handle: int) -> None:
        forced.add(os.fstat(handle).st_ino)
        sync(handle)

    def marking(*arguments: Any) -> None:  # noqa: ANN401 - those of the function
        pending = root / "private" / "pending"
        if (pending / "head.json").exists():
            due.update(path.stat().st_ino for path in (*pending.rglob("*"), pending.parent))
            assert due <= forced
        write_mark(*arguments)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(series_folder, "_write_mark", marking)
    add(root, secrets)
    assert len(due) == 8


class Killed(BaseException):
    """The process ends here."""


def dying(monkeypatch: pytest.MonkeyPatch, last: int) -> list[str]:
    """Let the process end at one of the calls that change the disk; return their names."""
    calls: list[str] = []

    def guarded(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if len(calls) == last:
                raise Killed
            calls.append(name)
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(os, "fsync", guarded("fsync", os.fsync))
    monkeypatch.setattr(Path, "replace", guarded("replace", Path.replace))
    monkeypatch.setattr(series_folder, "_write", guarded("write", series_folder._write))
    monkeypatch.setattr(shutil, "rmtree", guarded("rmtree", shutil.rmtree))
    monkeypatch.setattr(shutil, "copyfile", guarded("copy", shutil.copyfile))
    return calls


STEPS = 34


def test_every_step_is_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A period changes the disk in fewer steps than are tested below."""
    places = created(tmp_path)
    add(*places)
    with monkeypatch.context() as patched:
        calls = dying(patched, 1000)
        add(*places)
    assert 10 < len(calls) < STEPS


@pytest.mark.parametrize("last", range(STEPS))
def test_a_crash_at_any_step_loses_no_agreement(
    tmp_path: Path, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards a period is released with its state and its bundle, or not at all."""
    root, secrets = created(tmp_path)
    add(root, secrets)
    before = state(root, secrets)[0].used
    with monkeypatch.context() as patched, suppress(Killed):
        dying(patched, last)
        add(root, secrets)
    periods = released(root, secrets)
    (own,) = state(root, secrets)
    assert own.history.shape[1] == len(periods)
    assert sorted(path.name for path in (root / "periods").iterdir()) == [
        f"{period + 1:03}" for period in periods
    ]
    assert periods in {(0,), (0, 1)}
    assert (own.used > before).any() if len(periods) == 2 else (own.used == before).all()
    assert not (root / "private" / "pending").exists()
    assert len(list((root / "private").glob("state-*"))) == 1
    add(root, secrets, again=True)
    assert released(root, secrets) == (*periods, len(periods))
