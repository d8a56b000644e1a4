"""Requests of one principal on a ledger to which others have added many charges."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert, literal, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tests.sample_ledgers import order, populate
from wattveil.errors import LedgerUnavailableError
from wattveil.server.ledger import ledger as ledger_module
from wattveil.server.ledger.accounts import Charge, Release, ReleaseState, count_pending
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import entry, principal, release
from wattveil.server.ordered_releases import find_ordered, share_release, visible_releases

CHEAP = Amounts(rho=1)
MANY = 3000
STEPS = 10
"""Instructions of SQLite between two counts."""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Return a ledger with charges of ann and bob; bob has shared some of his, once or twice."""
    with Ledger.open(tmp_path) as opened:
        populate(opened)
        for number in range(6):
            for name in ("ann", "bob"):
                paid = opened.charge(order(f"{name}{number}", price=CHEAP, principal=name))
                if number % 2 == 0:
                    opened.store(paid, Release(state=ReleaseState.FAILED))
                if name == "bob":
                    for reader in {1: ["ann"], 2: ["*"], 3: ["ann", "*"]}.get(number, []):
                        share(opened, paid, reader)
        yield opened


def share(ledger: Ledger, paid: Charge, reader: str) -> None:
    """Share a release of bob."""
    with ledger.reading() as connection:
        found = find_ordered(connection, f"{paid.journal_id}-{paid.seq}")
    assert found is not None
    share_release(ledger, found, reader=reader, by="bob")


def add_charges(ledger: Ledger) -> None:
    """Add many copies of the last charge, of bob, with releases; they are the latest of all."""
    with writing(ledger.engine).begin() as connection:
        numbers = select(literal(1).label("n")).cte(recursive=True)
        numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < MANY))
        last = ledger._high_water_mark.heads[1].seq
        changed: dict[str, Any] = {
            "seq": entry.c.seq + numbers.c.n,
            "at": text("'9999'"),
            "request_key": entry.c.request_key + "-" + numbers.c.n,
        }
        columns = [changed.get(column.name, column) for column in entry.columns]
        copies = select(*columns).select_from(entry.join(numbers, entry.c.seq == last))
        connection.execute(insert(entry).from_select(entry.columns.keys(), copies))
        added = select(entry.c.journal_id, entry.c.seq, literal("failed"), entry.c.at)
        stored = ["journal_id", "seq", "state", "stored_at"]
        connection.execute(insert(release).from_select(stored, added.where(entry.c.seq > last)))


def work(ledger: Ledger, before: str | None = None) -> tuple[list[list[Any]], list[int]]:
    """Return a list of ann's, and pending charges; and the work of each, and of a lock.

    It is counted in instructions of SQLite, whatever else the machine does.
    """
    steps = [0]

    def count() -> int:
        steps[-1] += 1
        return 0

    with ledger.reading() as connection:
        ann = connection.execute(select(principal.c.id).where(principal.c.name == "ann")).scalar()
        last = None if before is None else find_ordered(connection, before)
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(count, STEPS)
        seen = [one.id for one in visible_releases(connection, "ann", limit=4, before=last)]
        steps.append(0)
        pending = [count_pending(connection), count_pending(connection, ann)]
        steps.append(0)
        assert LedgerTransaction(connection).lock(1)
        driver.set_progress_handler(None, 0)
    return [seen, pending], steps


def test_work_does_not_grow_with_the_charges_of_others(ledger: Ledger) -> None:
    """Lists and counts are the same as before, and as much work."""
    first = {before: work(ledger, before) for before in (None, "1-11", "1-9")}
    add_charges(ledger)
    for before, (found, steps) in first.items():
        again, more = work(ledger, before)
        assert again == found
        for old, new in zip(steps, more, strict=True):
            assert new <= 1.5 * old + 10, (old, new)


def test_a_list_has_each_release_that_its_reader_may_see_once(ledger: Ledger) -> None:
    """Its own, and those shared with it or with all, the latest first, page by page."""
    own = [5, 7, 9, 11, 13, 15]
    shared = [8, 10, 12]  # the second, third and fourth of bob's
    with ledger.reading() as connection:
        kinds = connection.execute(select(entry.c.seq).where(entry.c.kind == "charge")).scalars()
        assert sorted(kinds) == list(range(5, 17))
        pages, last = [], None
        while page := visible_releases(connection, "ann", limit=4, before=last):
            pages.append([one.charge.seq for one in page])
            last = page[-1]
    expected = sorted(own + shared, reverse=True)
    assert pages == [expected[:4], expected[4:8], expected[8:]]


def test_pending_charges_are_those_with_a_plan(ledger: Ledger) -> None:
    """Counted from the plans, they are the charges without a release."""
    pending = ledger.pending()
    assert ledger.count_pending() == len(pending) == 6
    for charge in pending[:4]:
        ledger.store(charge, Release(state=ReleaseState.FAILED))
    assert ledger.count_pending() == len(ledger.pending()) == 2
    assert ledger.count_pending(pending[-1].principal_id) == 1


@pytest.mark.parametrize(
    ("error", "refused_seconds"),
    [
        (PoolTimeoutError("no connection is free"), 0.0),
        (OperationalError("select", {}, Exception("timeout")), 1.0),
    ],
)
def test_a_lack_of_connections_is_no_hanging_database(
    ledger: Ledger, error: Exception, refused_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who occupies all of them delays others, and does not have them refused."""
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(ledger_module, "time", clock)

    def read() -> None:
        with ledger.reading():
            clock.now += 5.0
            raise error

    with pytest.raises(LedgerUnavailableError):
        read()
    if refused_seconds:
        with pytest.raises(LedgerUnavailableError, match="a moment ago"):
            ledger.pending()
        clock.now += refused_seconds
    assert len(ledger.pending()) == 6
