"""Group commit: one writer thread; jobs that wait during a commit share the next one."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from wattveil.errors import LedgerUnavailableError, WattveilError
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.admission import OrderIds, charge_all
from wattveil.server.ledger.database import lock_fingerprints, writing
from wattveil.server.ledger.database_errors import cause_of, is_rolled_back
from wattveil.server.ledger.high_water_mark import HighWaterMark
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.order import Order

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_BATCH = 256
"""Maximum jobs per commit: more would wait longer than the commit takes."""

_TRIES = 3
"""Attempts of a job whose transaction the database rolled back, for example after a deadlock."""

_GATHER_SECONDS = 0.002
"""About the duration of a commit: waiting that long doubles the jobs per commit."""

_RETRY_SECONDS = 1.0
"""Pause before what the high-water mark could not record is written again."""

_CLOSE_SECONDS = 60.0
"""Time for the last jobs: twice what SQLite waits for another process."""


@dataclass(frozen=True)
class _Job:
    journal_id: int
    work: Callable[[LedgerTransaction], Any] | None = None
    order: tuple[OrderIds, Order] | None = None
    compares: bool = False
    """Whether it compares fingerprints with those of other journals."""
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Runs write jobs, and returns to each caller when its job is durable.

    A job that raises a `WattveilError` is rolled back alone. If the database rolls a transaction
    back for one job, its jobs are repeated one by one. After any other error every job in it fails.
    """

    def __init__(self, engine: Engine, high_water_mark: HighWaterMark) -> None:
        self._engine = writing(engine)
        self._high_water_mark = high_water_mark
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = threading.Lock()
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def charge(self, ids: OrderIds, order: Order) -> Charge:
        """Decide about an order, together with waiting ones; return the charge once durable."""
        charge: Charge = self._wait(_Job(ids.journal_id, order=(ids, order)))
        return charge

    def run(
        self,
        work: Callable[[LedgerTransaction], T],
        *,
        journal_id: int = 0,
        compares: bool = False,
    ) -> T:
        """Run another job, which touches one journal at most; return its result once durable.

        ``compares``: it compares fingerprints with those of other journals, alone.
        """
        result: T = self._wait(_Job(journal_id, work=work, compares=compares))
        return result

    def close(self) -> None:
        """Finish waiting jobs, and stop; a job that hangs is not waited for without limit."""
        with self._closing:
            self.closed = True
            self._waiting.put(None)
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            raise LedgerUnavailableError("its writer does not end")

    def _wait(self, job: _Job) -> Any:  # noqa: ANN401 - the callers know
        with self._closing:
            if self.closed:
                raise LedgerUnavailableError("it is closed")
            self._waiting.put(job)
        return job.done.result()

    def _run(self) -> None:
        jobs: list[_Job] = []
        going_on = True
        try:
            while going_on:
                if len(jobs) > 1:  # callers of the last commit often send again: gather them
                    time.sleep(_GATHER_SECONDS)
                jobs.clear()
                going_on = self._take(jobs)
                self._commit(jobs)
        except BaseException as error:  # noqa: BLE001 - whoever waits would wait for ever
            _LOG.critical("the writer of the ledger has ended: %s", type(error).__name__)
            self._end(jobs)

    def _end(self, jobs: list[_Job]) -> None:
        """Refuse all further jobs, and fail those that wait."""
        with self._closing:
            self.closed = True
        with suppress(Empty):
            while True:
                jobs += filter(None, [self._waiting.get_nowait()])
        for job in jobs:
            if not job.done.done():
                job.done.set_exception(LedgerUnavailableError("its writer has ended"))

    def _take(self, jobs: list[_Job]) -> bool:
        """Wait for a job, and take all waiting jobs; return whether more may come."""
        job = self._next()
        while job is not None:
            jobs.append(job)
            if len(jobs) == _MAX_BATCH:
                return True
            try:
                job = self._waiting.get_nowait()
            except Empty:
                return True
        return False

    def _next(self) -> _Job | None:
        """Wait for a job; meanwhile, write what the high-water mark could not record."""
        while self._high_water_mark.is_due:
            try:
                return self._waiting.get(timeout=_RETRY_SECONDS)
            except Empty:
                with suppress(OSError):
                    self._high_water_mark.record({}, {}, {})
        return self._waiting.get()

    def _commit(self, jobs: list[_Job]) -> None:
        # Every process locks journals in the same order, so they cause no deadlock. Jobs without a
        # journal, on sessions or people, lock other rows: they cannot fail a charge.
        jobs.sort(key=lambda job: (job.journal_id, job.work is not None))
        for _, together in groupby(jobs, key=lambda job: job.journal_id == 0):
            members = list(together)
            outcomes = self._committed(members)
            for job, outcome in zip(members, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    job.done.set_exception(outcome)
                else:
                    job.done.set_result(outcome)

    def _committed(self, jobs: list[_Job], tries: int = _TRIES) -> list[object]:
        """Commit jobs together; if the database rolled them back for one of them, one by one."""
        try:
            return self._in_transaction(jobs)
        except Exception as error:  # noqa: BLE001 - it is raised to the callers
            if not is_rolled_back(error) or tries == 1:
                return [_shown(error, self._engine)] * len(jobs)
        return [outcome for job in jobs for outcome in self._committed([job], tries - 1)]

    def _in_transaction(self, jobs: list[_Job]) -> list[object]:
        mark = self._high_water_mark
        mark.refresh()  # what other processes have made durable
        with self._engine.begin() as connection:
            if any(job.compares for job in jobs):
                lock_fingerprints(connection)
            transaction = LedgerTransaction(
                connection,
                seen=mark.heads,
                seen_stored=mark.stored,
                known_datasets=mark.datasets,
            )
            outcomes = _outcomes(transaction, jobs)
            transaction.write_heads()
        mark.record(transaction.heads, transaction.stored, transaction.registered)
        return outcomes


def _outcomes(transaction: LedgerTransaction, jobs: Sequence[_Job]) -> list[object]:
    """Run jobs in order: the orders of a journal together, other jobs one by one."""
    outcomes: list[object] = []
    for (journal_id, _), group in groupby(
        jobs, key=lambda job: (job.journal_id, job.work is not None)
    ):
        members = list(group)
        orders = [job.order for job in members if job.order is not None]
        if orders:
            outcomes += charge_all(transaction, journal_id, orders)
        outcomes += [_attempt(transaction, job.work) for job in members if job.work is not None]
    return outcomes


def _attempt(transaction: LedgerTransaction, work: Callable[[LedgerTransaction], object]) -> object:
    """Run one job in a savepoint: its refusal rolls back that job alone."""
    heads, stored = dict(transaction.heads), dict(transaction.stored)
    registered = dict(transaction.registered)
    try:
        with transaction.connection.begin_nested():
            return work(transaction)
    except WattveilError as refusal:
        transaction.heads.clear()
        transaction.heads.update(heads)
        transaction.stored.clear()
        transaction.stored.update(stored)
        transaction.registered.clear()
        transaction.registered.update(registered)
        return refusal


def _shown(error: Exception, engine: Engine) -> Exception:
    """Return the error that is raised to the callers."""
    if isinstance(error, DBAPIError | PoolTimeoutError):
        return LedgerUnavailableError(cause_of(error, engine.url))
    if isinstance(error, OSError):  # the charge is durable: the same key finds it
        return LedgerUnavailableError("the high-water mark cannot be written")
    return error
