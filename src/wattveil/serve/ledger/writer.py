"""One thread that writes: what waits while a commit reaches the disk shares the next one."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from wattveil.errors import LedgerUnavailableError, WattveilError
from wattveil.serve.ledger.charges import Charge
from wattveil.serve.ledger.desk import Place, charge_all
from wattveil.serve.ledger.engine import cause_of, writing
from wattveil.serve.ledger.journal import Session
from wattveil.serve.ledger.order import Order
from wattveil.serve.ledger.witness import Witness

T = TypeVar("T")

_MOST_AT_ONCE = 256
"""Jobs that share a commit: more would wait longer than the commit takes."""

_GATHER_SECONDS = 0.002
"""About what a commit takes: waiting that long doubles what shares the next one."""


@dataclass(frozen=True)
class _Job:
    book_id: int
    work: Callable[[Session], Any] | None = None
    order: tuple[Place, Order] | None = None
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Runs what writes, and answers each caller when its part is durable.

    A job that raises one of our errors has refused: what it wrote is undone, the others go on. Any
    other error undoes the whole transaction, and every job in it fails.
    """

    def __init__(self, engine: Engine, witness: Witness) -> None:
        self._engine = writing(engine)
        self._witness = witness
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = threading.Lock()
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def charge(self, place: Place, order: Order) -> Charge:
        """Decide about an order, together with those that wait; return the charge once durable."""
        paid: Charge = self._wait(_Job(place.book_id, order=(place, order)))
        return paid

    def run(self, work: Callable[[Session], T], *, book_id: int = 0) -> T:
        """Run anything else, which touches one book at most; return its result once durable."""
        result: T = self._wait(_Job(book_id, work=work))
        return result

    def close(self) -> None:
        """Finish what is waiting, and stop."""
        with self._closing:
            self.closed = True
            self._waiting.put(None)
        self._thread.join()

    def _wait(self, job: _Job) -> Any:  # noqa: ANN401 - the callers know
        with self._closing:
            if self.closed:
                raise LedgerUnavailableError("it is closed")
            self._waiting.put(job)
        return job.done.result()

    def _run(self) -> None:
        going_on, crowded = True, False
        while going_on:
            if crowded:  # those who were just answered ask again: let them join
                time.sleep(_GATHER_SECONDS)
            jobs, going_on = self._take()
            crowded = len(jobs) > 1
            if jobs:
                self._commit(jobs)

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for a job, and take all that wait with it; whether more may come."""
        jobs: list[_Job] = []
        job = self._waiting.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == _MOST_AT_ONCE:
                return jobs, True
            try:
                job = self._waiting.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False

    def _commit(self, jobs: list[_Job]) -> None:
        # Every process locks books in the same order, so none waits for one that waits for it.
        jobs.sort(key=lambda job: (job.book_id, job.work is not None))
        try:
            with self._engine.begin() as connection:
                session = Session(connection, seen=self._witness.heads)
                outcomes = _outcomes(session, jobs)
                session.write_heads()
            self._witness.record(session.heads, session.stored)
        except Exception as error:  # noqa: BLE001 - it is handed to those who wait
            outcomes = [_shown(error)] * len(jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, Exception):
                job.done.set_exception(outcome)
            else:
                job.done.set_result(outcome)


def _outcomes(session: Session, jobs: Sequence[_Job]) -> list[object]:
    """Run jobs in order: the orders of a book together, anything else by itself."""
    outcomes: list[object] = []
    for (book_id, _), group in groupby(jobs, key=lambda job: (job.book_id, job.work is not None)):
        members = list(group)
        orders = [job.order for job in members if job.order is not None]
        if orders:
            outcomes += charge_all(session, book_id, orders)
        outcomes += [_attempt(session, job.work) for job in members if job.work is not None]
    return outcomes


def _attempt(session: Session, work: Callable[[Session], object]) -> object:
    """Run a job by itself: its refusal undoes what it did, and nothing else."""
    heads, stored = dict(session.heads), dict(session.stored)
    try:
        with session.connection.begin_nested():
            return work(session)
    except WattveilError as refusal:
        session.heads.clear()
        session.heads.update(heads)
        session.stored.clear()
        session.stored.update(stored)
        return refusal


def _shown(error: Exception) -> Exception:
    """Return what those who wait are told."""
    if isinstance(error, DBAPIError):
        return LedgerUnavailableError(cause_of(error))
    if isinstance(error, OSError):  # the database has it: the same key will find it
        return LedgerUnavailableError("the file of heads cannot be written")
    return error
