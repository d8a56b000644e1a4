"""Workers killed at every step, many concurrent clients: no charge is lost or doubled.

A handful in `make test`; `make soak` sets WATTVEIL_KILLS and WATTVEIL_CLIENT_SECONDS.
"""

import errno
import os
import shutil
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from tests.integration.conftest import Place, Workers
from tests.sample_ledgers import (
    ALLOWANCE,
    broken,
    full_disk,
    order,
    populate,
    read_only,
    share_of,
    whole,
)
from wattveil.errors import (
    ChargeRefusedError,
    InvalidParameterError,
    LedgerBehindError,
    LedgerUnavailableError,
)
from wattveil.privacy.guarantee import Tier
from wattveil.server.ledger.accounts import Release, ReleaseState
from wattveil.server.ledger.amounts import Allowance, Amounts
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.database_record import FILE
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import entry, release

KILLS = int(os.environ.get("WATTVEIL_KILLS", "8"))
CLIENT_SECONDS = float(os.environ.get("WATTVEIL_CLIENT_SECONDS", "1.5"))
CLIENTS = 32
UNFREEZE = {
    "sqlite": "DROP TRIGGER release_no_delete",
    "postgresql": "DROP TRIGGER release_no_delete ON release",
}


def test_a_killed_worker_leaves_no_answer_unpaid_and_none_twice(
    place: Place, workers: Workers
) -> None:
    """Killed at each step in turn and repeated: one charge, one release, the same bytes."""
    with place.open() as ledger:
        populate(ledger)
    where = {"folder": str(place.folder), "database": place.database}
    answers: dict[str, str] = {}
    (whole_run,) = workers({**where, "key": "whole", "kill_at": None})
    steps = whole_run["steps"]
    assert steps > 20
    for number in range(KILLS):
        # Spread over all steps; with more kills than steps every one has its turns.
        at = 1 + (number * steps // KILLS if steps > KILLS else number % steps)
        key = f"key-{number}"
        task = {**where, "key": key}
        (killed,) = workers({**task, "kill_at": at})
        (again,) = workers({**task, "kill_at": None})
        assert (killed["ended"], again["ended"]) == (-signal.SIGKILL, 0), at
        assert killed.get("sent", again["sent"]) == again["sent"]
        answers[key] = again["sent"]
    assert len(set(answers.values())) == KILLS
    with place.open() as ledger, ledger.engine.connect() as connection:
        charged = select(func.count()).select_from(entry).where(entry.c.kind == "charge")
        stored = select(func.count()).select_from(release)
        assert connection.execute(charged).scalar_one() == KILLS + 1
        assert connection.execute(stored).scalar_one() == KILLS + 1
        assert whole(ledger).spent == Amounts(rho=1000 * (KILLS + 1))
        assert broken(ledger) == []


def test_many_clients_at_a_tight_cap(place: Place, workers: Workers) -> None:
    """With any number of concurrent clients and processes: overspent 0, doubled 0, lost 0.

    The cap is raised meanwhile, a little at a time, so that it is tight all the time. SQLite
    has one server process, as it would; PostgreSQL two.
    """
    price = share_of(10)
    servers = 1 if place.database is None else 2
    with place.open() as ledger:
        populate(ledger)
    tasks = []
    for number in range(servers):
        folder = place.folder / str(number)
        folder.mkdir()
        shutil.copy(place.folder / "ledger.heads", folder)
        tasks.append(
            {
                "folder": str(folder),
                "database": place.database or f"sqlite:///{place.folder / FILE}",
                "worker": number,
                "clients": CLIENTS // servers,
                "seconds": CLIENT_SECONDS,
                "price": price.values,
            }
        )
    with ThreadPoolExecutor(1) as pool, place.open() as ledger:
        running = pool.submit(workers, *tasks)
        epsilon = ALLOWANCE.epsilon
        while not running.done():
            time.sleep(0.2)
            epsilon += 0.02
            larger = Allowance(epsilon=epsilon, delta=1e-6, label_epsilon=0.25)
            for principal in (None, "ann"):
                ledger.set_budget("homes", larger, by="owner", reason="more", principal=principal)
    said = running.result()
    assert [one["ended"] for one in said] == [0] * servers
    accepted = [(key, seq) for one in said for key, seq in one["accepted"]]
    keys = dict(accepted)
    assert sum(one["refused"] for one in said) > 0
    with place.open() as ledger:
        assert len(set(accepted)) == len(keys) == len(set(keys.values()))  # none was charged twice
        with ledger.engine.connect() as connection:
            rows = select(entry.c.request_key, entry.c.seq).where(entry.c.kind == "charge")
            assert dict(tuple(row) for row in connection.execute(rows)) == keys  # none was lost
        account = whole(ledger)
        assert account.spent == Amounts(*(len(keys) * value for value in price.values))
        assert account.spent.fits(account.caps)
        assert broken(ledger) == []


def test_an_old_backup_does_not_start(tmp_path: Path) -> None:
    """A database that was put back is refused; once accepted, what it may have lost is spent."""
    with Ledger.open(tmp_path) as ledger:
        populate(ledger)
        pending = ledger.charge(order("a", price=share_of(10)))
        with (
            closing(sqlite3.connect(tmp_path / FILE)) as source,
            closing(sqlite3.connect(tmp_path / "backup")) as target,
        ):
            source.backup(target)
        ledger.charge(order("b", price=share_of(10)))
        ledger.store(pending, Release(state=ReleaseState.FAILED))
    for stale in tmp_path.glob(f"{FILE}-*"):
        stale.unlink()
    shutil.copy(tmp_path / "backup", tmp_path / FILE)
    with pytest.raises(
        LedgerBehindError, match="journal 1 had 6 entries, and the database holds 5"
    ):
        Ledger.open(tmp_path)
    with pytest.raises(InvalidParameterError, match="an administrator"):
        Ledger.accept(tmp_path, by="ann", reason="the disk was lost")
    with pytest.raises(LedgerBehindError):  # what was not accepted is not forgotten
        Ledger.open(tmp_path)
    assert Ledger.accept(tmp_path, by="owner", reason="the disk was lost") == 1
    with Ledger.open(tmp_path) as ledger:
        for account in ledger.accounts("homes", "ann", Tier.GLOBAL):
            assert account is not None
            assert account.left == Amounts()
        # Its release is lost, and may have left: a second draw would be one too many.
        assert ledger.release_of(pending) == Release(state=ReleaseState.FAILED)
        assert ledger.pending() == []
        with pytest.raises(ChargeRefusedError, match="data set's budget"):
            ledger.charge(order("b", price=share_of(10)))
        assert broken(ledger) == []


def test_a_backup_that_lacks_a_release_does_not_start(place: Place) -> None:
    """No entry is lost, so no head; but the charge would be drawn for a second time (I4)."""
    with place.open() as ledger:
        populate(ledger)
        kept, lost = ledger.charge(order("a")), ledger.charge(order("b"))
        for paid in (kept, lost):
            ledger.store(paid, Release(state=ReleaseState.FAILED))
        heads = ledger._high_water_mark.path.read_text()
    assert heads.count("1 stored") == 2
    assert place.folder.joinpath("ledger.heads").read_text().count("1 stored 2") == 1
    place.open().close()
    with place.open() as ledger, writing(ledger.engine).begin() as connection:
        connection.execute(text(UNFREEZE[connection.dialect.name]))
        connection.execute(release.delete().where(release.c.seq == lost.seq))
    for by in ("ann", "nobody"):
        with pytest.raises(LedgerBehindError, match="had 2 releases, and the database holds 1"):
            place.open()
        with pytest.raises(InvalidParameterError, match="an administrator"):
            Ledger.accept(place.folder, place.database, by=by, reason="restored")
    assert Ledger.accept(place.folder, place.database, by="owner", reason="restored") == 1
    with place.open() as ledger:
        assert ledger.release_of(lost) == Release(state=ReleaseState.FAILED)
        assert whole(ledger).left == Amounts()
        assert broken(ledger) == []


def test_a_database_without_its_heads_does_not_start(place: Place) -> None:
    """It cannot be shown to be the newest; an empty one, and one with its heads, start."""
    with place.open() as ledger:
        populate(ledger)
    heads = place.folder / "ledger.heads"
    kept = heads.read_text()
    heads.unlink()
    with pytest.raises(LedgerBehindError):
        place.open()
    heads.write_text(kept + "\n1 4")  # a line cut short counts for nothing
    place.open().close()


def test_a_ledger_that_goes_back_while_it_runs_is_noticed(place: Place) -> None:
    """A failover to a replica that had fallen behind: the next charge is refused."""
    with place.open() as ledger:
        populate(ledger)
        ledger.charge(order("a"))
        ledger._high_water_mark.heads[1] = ledger._high_water_mark.heads[1]._replace(seq=99)
        with pytest.raises(LedgerBehindError, match="had 99 entries"):
            ledger.charge(order("b"))


def test_a_release_that_a_running_database_lost_is_not_drawn_again(place: Place) -> None:
    """No entry is lost, so the heads agree: every writer counts the releases (I4)."""
    with place.open() as ledger:
        populate(ledger)
        lost, pending = ledger.charge(order("a")), ledger.charge(order("b"))
        ledger.store(lost, Release(state=ReleaseState.FAILED))
        ledger.confirm(pending)
        with writing(ledger.engine).begin() as connection:
            connection.execute(text(UNFREEZE[connection.dialect.name]))
            connection.execute(release.delete().where(release.c.seq == lost.seq))
        assert ledger.release_of(lost) is None
        for write in (
            lambda: ledger.charge(order("a")),
            lambda: ledger.confirm(lost),
            lambda: ledger.confirm(pending),
            # Of a computation that had begun: stored, it would hide that one is lost.
            lambda: ledger.store(pending, Release(state=ReleaseState.FAILED)),
            lambda: ledger.close_dataset("homes", by="owner", reason="over"),
        ):
            with pytest.raises(LedgerBehindError, match="had 1 releases, and the database holds 0"):
                write()


@pytest.mark.parametrize("then", ["crash", "close", "next"])
def test_a_release_that_was_not_recorded_is_recorded_later(
    place: Place, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """It is committed, and may be sent: a restore with the mark must not draw it again (I4)."""
    with place.open() as ledger:
        populate(ledger)
        paid = ledger.charge(order("a"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    ledger = place.open()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(ledger._high_water_mark, "record", full)
            with pytest.raises(LedgerUnavailableError, match="high-water mark"):
                ledger.store(paid, Release(state=ReleaseState.FAILED))
            assert ledger.release_of(paid) == Release(state=ReleaseState.FAILED)
            assert "1 stored 1\n" not in (place.folder / "ledger.heads").read_text()
        if then == "next":
            ledger.confirm(paid)  # as any other transaction on the journal
        elif then == "crash":
            place.open().close()
        else:
            ledger.close()
        assert "1 stored 1\n" in (place.folder / "ledger.heads").read_text()
    finally:
        if then != "close":
            ledger.close()


def test_a_full_disk_is_a_refusal(place: Place) -> None:
    """Nothing is charged, the message says why, and the ledger goes on once there is room."""
    with place.open() as ledger:
        populate(ledger)
        with full_disk(ledger.engine):
            for _ in range(2):
                with pytest.raises(LedgerUnavailableError, match="the disk is full"):
                    ledger.charge(order("a", request="x" * 100_000))
        assert whole(ledger).spent == Amounts()
        ledger.charge(order("a", request="x" * 100_000))
        assert whole(ledger).spent == share_of(4)
        assert broken(ledger) == []


def test_a_read_only_database_is_a_refusal(place: Place) -> None:
    """Nothing is charged, and the message says why."""
    with place.open() as ledger:
        populate(ledger)
        with read_only(ledger.engine):
            with pytest.raises(LedgerUnavailableError, match="the database is read-only"):
                ledger.charge(order("a"))
            assert whole(ledger).spent == Amounts()
        ledger.charge(order("a"))


def test_a_database_that_is_gone_is_a_refusal(tmp_path: Path) -> None:
    """A server that cannot be reached, and a folder that is none, are said so at the start."""
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    with pytest.raises(LedgerUnavailableError, match="connection refused: no socket"):
        Ledger.open(tmp_path, f"postgresql://nobody@/none?host={tmp_path}")
    with pytest.raises(ValueError, match="a folder that exists"):
        Ledger.open(tmp_path / "none")
    with pytest.raises(ValueError, match="postgresql://"):
        Ledger.open(tmp_path, "mysql://somewhere/else")
    with pytest.raises(ValueError, match="postgresql://"):
        Ledger.open(tmp_path, "nonsense")


def test_heads_that_cannot_be_written_are_a_refusal(place: Place) -> None:
    """The charge is in the database; nothing is answered, and the same order finds it."""
    with place.open() as ledger:
        populate(ledger)
        path = ledger._high_water_mark.path
        ledger._high_water_mark.path = place.folder / "none" / "heads"
        with pytest.raises(LedgerUnavailableError, match="high-water mark"):
            ledger.charge(order("a"))
        ledger._high_water_mark.path = path
        ledger.charge(order("a"))
        assert whole(ledger).spent == share_of(4)
