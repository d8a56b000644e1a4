"""The writer of the ledger and its high-water mark, with faults of one job or of the disk."""

import fcntl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import delete, func, insert, select

from tests.integration.conftest import Place
from tests.sample_ledgers import ALLOWANCE, broken, open_dataset, order, populate
from wattveil.errors import ChargeRefusedError, LedgerBehindError, LedgerUnavailableError
from wattveil.server.ledger import admission, high_water_mark, writer
from wattveil.server.ledger.accounts import Charge, Release, ReleaseState
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.high_water_mark import HighWaterMark
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import refusal, reviewed_order
from wattveil.server.ledger.writer import Writer

CHEAP = Amounts(rho=1)


def of_no_session(transaction: LedgerTransaction) -> None:
    """Insert a row that the database refuses: its session does not exist."""
    row = {"session_id": 999_999, "key": uuid4().hex, "dataset": "homes", "content": "{}"}
    transaction.connection.execute(insert(reviewed_order).values(row))


def written_together(ledger: Ledger, *jobs: Callable[[], object]) -> list[Future[object]]:
    """Run jobs that all wait while the writer is busy, so that it takes them at once."""
    busy, free = threading.Event(), threading.Event()

    def hold(_: LedgerTransaction) -> None:
        busy.set()
        assert free.wait(timeout=600)

    with ThreadPoolExecutor(len(jobs) + 1) as pool:
        pool.submit(ledger.write, hold)
        assert busy.wait(timeout=600)
        found = [pool.submit(job) for job in jobs]
        while ledger._writer._waiting.qsize() < len(jobs):
            free.wait(timeout=0.01)
        free.set()
    return found


def test_a_job_that_breaks_a_constraint_fails_alone(ledger: Ledger) -> None:
    """Neither a charge nor another job in the same batch fails with it."""
    charged, refused, other = written_together(
        ledger,
        lambda: ledger.charge(order("beside", price=CHEAP)),
        lambda: ledger.write(of_no_session),
        lambda: ledger.write(lambda _: "done"),
    )
    assert isinstance(charged.result(), Charge)
    assert other.result() == "done"
    with pytest.raises(LedgerUnavailableError):
        refused.result()
    assert broken(ledger) == []


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_refusals_wait_for_no_other_process(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one removes old refusals, and may itself wait for a journal: that is no deadlock."""
    monkeypatch.setattr(admission, "KEPT_REFUSALS", 1)

    def refused(key: str) -> None:
        with pytest.raises(ChargeRefusedError):
            ledger.charge(order(key, price=ALLOWANCE.caps + CHEAP))

    refused("first")
    with writing(ledger.engine).begin() as other:
        other.execute(delete(refusal))
        refused("second")
        refused("third")
    refused("fourth")
    with ledger.reading() as connection:
        assert connection.execute(select(func.count()).select_from(refusal)).scalar_one() == 1


def test_a_data_set_that_a_running_database_lost_is_refused(place: Place) -> None:
    """Another process registered it; the database was then replaced by an older one."""
    with place.open() as ledger:
        populate(ledger)
        open_dataset(ledger, "first", allowance=ALLOWANCE, fingerprint="a" * 64)
        HighWaterMark(place.folder).record({}, {}, {"b" * 64: "lost"})
        with pytest.raises(LedgerBehindError):
            open_dataset(ledger, "again", allowance=ALLOWANCE, fingerprint="b" * 64)
        open_dataset(ledger, "other", allowance=ALLOWANCE, fingerprint="c" * 64)


def test_a_charge_is_in_the_mark_before_it_is_computed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that charged could not record it: a worker does, or computes nothing."""

    def full(_: Path) -> None:
        raise OSError("no space left on the device")

    with place.open() as ledger:
        populate(ledger)
        with monkeypatch.context() as patch:
            patch.setattr(high_water_mark, "_locked", full)
            with pytest.raises(LedgerUnavailableError):
                ledger.charge(order("unrecorded", price=CHEAP))
            (pending,) = ledger.pending()
            with pytest.raises(LedgerUnavailableError):
                ledger.confirm(pending)
            seen = HighWaterMark(place.folder).heads[pending.journal_id].seq
            assert seen < pending.seq
        ledger.confirm(pending)
        assert HighWaterMark(place.folder).heads[pending.journal_id].seq == pending.seq


def test_what_could_not_be_recorded_is_recorded_without_a_further_request(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer repeats it by itself; until then a release is not one that may be sent."""
    full = threading.Event()
    append = high_water_mark._append

    def appending(path: Path, lines: str) -> None:
        if full.is_set():
            raise OSError("no space left on the device")
        append(path, lines)

    monkeypatch.setattr(high_water_mark, "_append", appending)
    monkeypatch.setattr(writer, "_RETRY_SECONDS", 0.01)
    with place.open() as ledger:
        populate(ledger)
        first, second = (ledger.charge(order(key, price=CHEAP)) for key in ("a", "b"))
        earlier = ledger.store(first, Release(state=ReleaseState.FAILED))
        full.set()
        with pytest.raises(LedgerUnavailableError):
            ledger.store(second, Release(state=ReleaseState.FAILED))
        stored = ledger.release_of(second)
        assert stored is not None
        assert (earlier.number, stored.number) == (1, 2)
        assert ledger.is_recorded(1, earlier.number)
        assert not ledger.is_recorded(1, stored.number)
        other = HighWaterMark(place.folder)  # as another process sees it
        assert (other.has_release(1, 1), other.has_release(1, 2)) == (True, False)
        with pytest.raises(LedgerUnavailableError):
            ledger.check_recorded(grace_seconds=0.0)
        with pytest.raises(LedgerUnavailableError, match="high-water mark"):
            Ledger.open(place.folder, place.database, is_shared=True)  # would record it
        full.clear()
        while not ledger.is_recorded(1, stored.number):
            time.sleep(0.01)
        assert other.has_release(1, 2)
        ledger.check_recorded(grace_seconds=0.0)


@pytest.mark.parametrize(("where", "number"), [("_next", 1), ("_commit", 2)])
def test_nobody_waits_for_a_writer_that_has_ended(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
    number: int,
) -> None:
    """There was no memory left: jobs that it had taken, and those that wait, fail; so do later."""
    original, calls = getattr(Writer, where), list[object]()

    def failing(self: Writer, *given: object) -> object:
        calls.append(given)
        if len(calls) == number:  # after the job that the others wait for
            raise MemoryError
        return original(self, *given)

    with place.open() as ledger:
        populate(ledger)
        monkeypatch.setattr(Writer, where, failing)
        jobs = (lambda: ledger.write(lambda _: "done"),) * 2
        for one in written_together(ledger, *jobs):
            with pytest.raises(LedgerUnavailableError, match="ended"):
                one.result()
        with pytest.raises(LedgerUnavailableError, match="closed"):
            ledger.write(lambda _: "done")
        with pytest.raises(LedgerUnavailableError), ledger.reading():
            pass  # as the readiness check does
        assert ledger.is_closed
    assert "the writer of the ledger has ended: MemoryError" in caplog.text


def test_the_end_does_not_wait_for_a_job_that_hangs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not respond: the process ends, as if it were killed."""
    monkeypatch.setattr(writer, "_CLOSE_SECONDS", 0.01)
    ledger, free, busy = place.open(), threading.Event(), threading.Event()

    def hang(_: LedgerTransaction) -> None:
        busy.set()
        assert free.wait(timeout=600)

    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(ledger.write, hang)
        assert busy.wait(timeout=600)
        with pytest.raises(LedgerUnavailableError, match="does not end"):
            ledger.close()
        free.set()
        hanging.result()
    monkeypatch.setattr(writer, "_CLOSE_SECONDS", 600.0)
    ledger.close()


def test_a_mark_that_another_process_has_locked_stops_neither_readers_nor_the_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing is refused, and so is a start; afterwards the same order finds its charge."""
    monkeypatch.setattr(high_water_mark, "_LOCK_SECONDS", 0.0)
    ledger = place.open()
    populate(ledger)
    with ledger._high_water_mark.path.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(LedgerUnavailableError, match="high-water mark"):
            ledger.charge(order("a", price=CHEAP))
        with pytest.raises(BlockingIOError):
            ledger.check_recorded(grace_seconds=0.0)
        (charged,) = ledger.pending()
        with pytest.raises(LedgerUnavailableError, match="high-water mark"):
            ledger.close()
        fcntl.flock(reader, fcntl.LOCK_EX)
        with pytest.raises(LedgerUnavailableError, match="high-water mark"):
            place.open()
    with place.open() as again:
        assert again.charge(order("a", price=CHEAP)) == charged
