"""Queue of charges whose releases are computed: in this process, or in a worker process.

A server of one process computes with a `Worker` of its own. In a server of several, API processes
have a `RemoteQueue`: they charge, and one worker process finds the charges in the database
(`watch_charges`). Charges, and how many of a principal wait, are therefore those of the database,
whichever process admitted them.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from wattveil.errors import LedgerUnavailableError
from wattveil.server.jobs.compute_pool import (
    MAX_WAITING_SECONDS,
    ComputeProcess,
    ComputeProcessBusyError,
    ComputeProcessDiedError,
)
from wattveil.server.jobs.worker import MAX_WAITING_PER_PRINCIPAL, Worker
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.processes.server_health import ServerHealth

_POLL_SECONDS = 0.25
"""Pause between two queries for new charges: a twentieth of the tick at which releases appear."""


class ReleaseQueue(Protocol):
    """What requests need of the computation of releases."""

    @property
    def is_healthy(self) -> bool:
        """Whether releases are computed."""

    @property
    def queue_length(self) -> int:
        """Number of charges whose release is not stored; changes when one appears."""

    def place(self, principal_id: int) -> AbstractContextManager[bool]:
        """Hold a place for an order of a principal until it is queued; false if there is none."""

    def take(self, charge: Charge) -> None:
        """Queue a charge, unless it is queued."""

    def run_task(self, task: dict[str, Any]) -> dict[str, Any]:
        """Run another task in a process that reads rows."""

    def stop(self) -> None:
        """Stop at once: pending charges are computed at the next start."""


class RemoteQueue:
    """The queue of the worker process, as an API process sees it."""

    def __init__(self, ledger: Ledger, health: ServerHealth) -> None:
        self._ledger, self._health = ledger, health
        self._turn = threading.Lock()
        self._starting = threading.Lock()
        self._process: ComputeProcess | None = None
        self._stopped = False

    @property
    def is_healthy(self) -> bool:
        """Whether the worker process has reported a moment ago."""
        return self._health.has_worker

    @property
    def queue_length(self) -> int:
        """Number of charges whose release is not stored; changes when one appears."""
        return self._ledger.count_pending()

    @contextmanager
    def place(self, principal_id: int) -> Iterator[bool]:
        """Return whether there is a place for an order, by the charges of all processes.

        Orders that arrive at the same moment may together exceed the limit: no place is held.
        """
        yield self._ledger.count_pending(principal_id) < MAX_WAITING_PER_PRINCIPAL

    def take(self, charge: Charge) -> None:
        """Do nothing: the worker process finds the charge in the database."""

    def run_task(self, task: dict[str, Any]) -> dict[str, Any]:
        """Run a task in a process of its own, which ends with it; one at a time."""
        if not self._turn.acquire(timeout=MAX_WAITING_SECONDS):
            raise ComputeProcessBusyError
        try:
            with self._starting:
                if self._stopped:
                    raise ComputeProcessDiedError
                self._process = process = ComputeProcess()
            try:
                return process.run_task(task)
            finally:
                process.stop()
        finally:
            self._turn.release()

    def stop(self) -> None:
        """End a task that runs; those that wait do not begin."""
        with self._starting:
            self._stopped = True
            process = self._process
        if process is not None:
            process.stop()


def watch_charges(ledger: Ledger, worker: Worker, report: Callable[[], None]) -> None:
    """Give a worker the charges that other processes make, until it has ended.

    ``report`` is called each time: the worker lives, also while the database does not respond.
    """
    heads: dict[int, int] = {}
    while worker.is_healthy:
        try:
            found, heads = ledger.pending_since(heads)
        except LedgerUnavailableError:
            found = []
        for charge in found:
            worker.take(charge)
        report()
        time.sleep(_POLL_SECONDS)
