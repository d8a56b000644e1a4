"""Series in the ledger: a running database that lost a release, and content of other journals."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest
from sqlalchemy import text

from tests.integration.conftest import Place
from tests.integration.test_ledger_crashes import UNFREEZE
from tests.sample_ledgers import ALLOWANCE, LARGER, broken, open_dataset, order, populate, whole
from wattveil.bundle.series_request import SeriesRequest
from wattveil.errors import InvalidParameterError, LedgerBehindError
from wattveil.server.ledger import accounts
from wattveil.server.ledger.accounts import Charge, Release, ReleaseState
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.database import lock_fingerprints, writing
from wattveil.server.ledger.high_water_mark import HighWaterMark
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import release
from wattveil.server.ledger.reserved_series import find_series, fingerprints_of_others

REQUEST = SeriesRequest(epsilon=0.5, delta=5e-7, periods=8, first="2026-Q1", timezone="UTC")
CHEAP = Amounts(rho=1)


def period_of(ledger: Ledger, dataset: str, label: str = "2026-Q1") -> Charge:
    """Open a series on a data set, unless it is open, and begin a period of it."""
    ledger.reserve_series(dataset, "quarters", REQUEST, by="owner", uid=uuid.uuid4().hex)
    return ledger.begin_period(
        dataset, "quarters", label, file="q.parquet", recluster=False, by="owner"
    )


def published(name: str, *, fingerprint: str | None = None) -> Release:
    """Return the outcome of a computation."""
    return Release(state=ReleaseState.OK, payload_ref=name, fingerprint=fingerprint)


@pytest.mark.parametrize("lost", ["a release", "the period"])
def test_the_end_of_a_series_does_not_hide_a_lost_release(place: Place, lost: str) -> None:
    """The pending period, stored as failed, would make up the number of releases (I4)."""
    with place.open() as ledger:
        populate(ledger)
        pending = period_of(ledger, "homes")
        paid = ledger.charge(order("a", price=CHEAP)) if lost == "a release" else pending
        ledger.store(paid, published("sent"))
        with writing(ledger.engine).begin() as connection:
            connection.execute(text(UNFREEZE[connection.dialect.name]))
            connection.execute(release.delete().where(release.c.seq == paid.seq))
        with pytest.raises(LedgerBehindError, match="had 1 releases, and the database holds 0"):
            ledger.end_series("homes", "quarters", reason="over", by="owner")
        with ledger.reading() as connection:
            found = find_series(connection, "homes", "quarters")
        assert found is not None
        assert found.ended is None
    with pytest.raises(LedgerBehindError, match="had 1 releases"):
        place.open()


def test_periods_of_one_content_are_published_from_one_budget(ledger: Ledger) -> None:
    """Both are computed at once: the one that is stored later fails."""
    open_dataset(ledger, "other", allowance=ALLOWANCE)
    first, second = period_of(ledger, "homes"), period_of(ledger, "other")
    content = {"fingerprint": "hmac:q1"}
    assert ledger.store(first, published("first", **content)).state is ReleaseState.OK
    assert ledger.store(second, published("second", **content)).state is ReleaseState.FAILED
    again = period_of(ledger, "homes", "2026-Q2")
    assert ledger.store(again, published("again", **content)).state is ReleaseState.OK
    assert broken(ledger) == []


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)  # SQLite has one writer at a time
@pytest.mark.parametrize("then", ["a period", "a data set", "a linked data set"])
def test_content_is_compared_with_what_is_about_to_be_stored(place: Place, then: str) -> None:
    """Another process has not committed yet: the comparison waits for it."""
    with place.open() as ledger, ThreadPoolExecutor(1) as other:
        populate(ledger)
        open_dataset(ledger, "other", allowance=ALLOWANCE)
        first, second = period_of(ledger, "homes"), period_of(ledger, "other")

        def store() -> object:
            return ledger.store(second, published("second", fingerprint="hmac:q1")).state

        def register() -> object:
            about = {"allowance": ALLOWANCE} if then == "a data set" else {"linked_to": "other"}
            open_dataset(ledger, "copy", fingerprint="hmac:q1", **about)
            return None

        with writing(ledger.engine).begin() as connection:
            lock_fingerprints(connection)
            held = LedgerTransaction(connection)
            accounts.store(held, first, published("first", fingerprint="hmac:q1"))
            outcome = other.submit(store if then == "a period" else register)
            waiting = text(
                "SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database"
                " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
            )
            while not outcome.done() and connection.execute(waiting).first() is None:
                sleep(0.01)
        if then == "a period":
            assert outcome.result() is ReleaseState.FAILED
        else:
            with pytest.raises(InvalidParameterError, match="period of a series"):
                outcome.result()
        ledger.confirm(first)
        assert broken(ledger) == []


def test_content_of_lost_periods_is_known_after_the_loss(tmp_path: Path) -> None:
    """It is no new data set with a whole budget, and no period of other people."""
    database = tmp_path / "ledger.sqlite"
    with Ledger.open(tmp_path) as ledger:
        populate(ledger)
        open_dataset(ledger, "other", allowance=ALLOWANCE)
    backup = database.read_bytes()
    with Ledger.open(tmp_path) as ledger:
        for label, content in (("2026-Q1", "hmac:q1"), ("2026-Q2", "hmac:q2")):
            charge = period_of(ledger, "homes", label)
            ledger.store(charge, published(label, fingerprint=content))
    for _ in range(2):  # the same backup again: what was accepted is lost with it
        database.write_bytes(backup)
        with pytest.raises(LedgerBehindError):
            Ledger.open(tmp_path)
        assert Ledger.accept(tmp_path, by="owner", reason="the disk was lost") == 1
    with Ledger.open(tmp_path) as ledger:
        elsewhere = period_of(ledger, "other")
        with ledger.reading() as connection:
            found = find_series(connection, "other", "quarters")
            assert found is not None
            assert {"hmac:q1", "hmac:q2"} <= {*fingerprints_of_others(connection, found)}
        stored = ledger.store(elsewhere, published("x", fingerprint="hmac:q1"))
        assert stored.state is ReleaseState.FAILED
        open_dataset(ledger, "copy", allowance=ALLOWANCE, fingerprint="hmac:q1")
        assert whole(ledger, "copy").left == Amounts()
        # Linked, it shares the budget that paid for the period, and that is raised as any other.
        ledger.set_budget("homes", LARGER, by="owner", reason="known", lost=ALLOWANCE)
        left = whole(ledger).left
        assert left != Amounts()
        open_dataset(ledger, "linked", linked_to="homes", fingerprint="hmac:q2")
        assert whole(ledger).left == left
        assert broken(ledger) == []


def test_content_of_a_period_that_a_running_database_lost_is_refused(tmp_path: Path) -> None:
    """A new data set has a new journal, of which no head is known."""
    with Ledger.open(tmp_path) as ledger:
        populate(ledger)
        HighWaterMark(tmp_path).record({}, {}, {"period:hmac:q1": "homes"})
        with pytest.raises(LedgerBehindError):
            open_dataset(ledger, "copy", allowance=ALLOWANCE, fingerprint="hmac:q1")


def test_a_period_with_content_that_a_running_database_lost_is_not_stored(place: Place) -> None:
    """A data set, or a period of one, that only the high-water mark knows: another budget paid.

    Content of the same people, and what the database has, is stored.
    """
    with place.open() as ledger:
        populate(ledger)
        pending = period_of(ledger, "homes")
        lost = {"hmac:set": "other", "period:hmac:period": "other"}
        HighWaterMark(place.folder).record({}, {}, {**lost, "period:hmac:own": "homes"})
        for content in ("hmac:set", "hmac:period"):
            with pytest.raises(LedgerBehindError, match="data sets"):
                ledger.store(pending, published("x", fingerprint=content))
            with pytest.raises(LedgerBehindError, match="data sets"):
                open_dataset(ledger, "copy", linked_to="homes", fingerprint=content)
        assert ledger.release_of(pending) is None
        open_dataset(ledger, "linked", linked_to="homes", fingerprint="hmac:own")
        stored = ledger.store(pending, published("x", fingerprint="hmac:own"))
        assert stored.state is ReleaseState.OK
        assert broken(ledger) == []
