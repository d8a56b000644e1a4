"""The writer of the ledger and its high-water mark, with faults of one job or of the disk."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import delete, func, insert, select

from tests.integration.conftest import Place
from tests.sample_ledgers import ALLOWANCE, broken, open_dataset, order, populate
from wattveil.errors import ChargeRefusedError, LedgerBehindError, LedgerUnavailableError
from wattveil.server.ledger import admission, high_water_mark
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.high_water_mark import HighWaterMark
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import refusal, reviewed_order

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
