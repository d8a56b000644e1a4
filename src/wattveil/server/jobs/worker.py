"""Worker: computes the releases of charges, a few at a time, whatever crashes.

Principals take turns.
It holds no rows. A compute process writes a bundle; this thread stores it, by the steps of
`ledger.fulfilment`. A process that dies is replaced and the release computed again, which is sound
because nothing of the first draw was sent (I3). The duration of a computation may depend on rows,
so a release is stored at the next tick of a slow clock.
"""

import errno
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from wattveil.errors import LedgerUnavailableError
from wattveil.server.jobs.compute_pool import (
    MAX_WAITING_SECONDS,
    ComputeProcess,
    ComputeProcessDiedError,
    ComputeProcessNotStartedError,
)
from wattveil.server.jobs.fair_queue import FairQueue
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.fulfilment import BundleStore, finish, remove_bundle
from wattveil.server.ledger.ledger import Ledger

_LOG = logging.getLogger(__name__)

MAX_WAITING_PER_PRINCIPAL = 20
"""Maximum waiting charges of a principal; further orders of this principal are refused as busy,
before anything is charged. Orders of others are not: principals are admitted one by one."""

_TRIES = 3
"""Attempts per charge: if the process dies each time, the release is stored as failed."""

_PAUSE_SECONDS = 2.0
"""Pause before a failed write is repeated."""
_IN_USE = errno.errorcode[errno.EAGAIN]
"""What a compute process reports if the folder of a series is in use."""

_STOP_SECONDS = 60.0
"""Time for a thread that is storing a release."""

Task = Callable[[Charge, Path], dict[str, object]]
"""Returns the task of a charge for the compute process: write a bundle to a path."""


class Worker:
    """Computes and stores releases, with one thread for each of its compute processes."""

    def __init__(
        self,
        ledger: Ledger,
        bundles: BundleStore,
        task: Task,
        *,
        tick_seconds: float,
        processes: int = 1,
    ) -> None:
        self._ledger, self._bundles, self._task = ledger, bundles, task
        self._tick_seconds = tick_seconds
        self._processes = [ComputeProcess() for _ in range(processes)]
        self._waiting: FairQueue[Charge] = FairQueue()
        self._load: Counter[int] = Counter()
        self._held: Counter[int] = Counter()
        self._known: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(process,), name="worker", daemon=True)
            for process in self._processes
        ]

    def start(self) -> None:
        """Remove unfinished bundles, queue pending charges, and start the threads."""
        self._bundles.clear(self._ledger.payloads())
        for charge in self._ledger.pending():
            self.take(charge)
        for thread in self._threads:
            thread.start()

    @property
    def is_healthy(self) -> bool:
        """Whether the threads run, and the ledger can be written."""
        return all(one.is_alive() for one in self._threads) and not self._ledger.is_closed

    @contextmanager
    def place(self, principal_id: int) -> Iterator[bool]:
        """Hold a place for an order of a principal; false if there is none."""
        with self._lock:
            taken = self._load[principal_id] + self._held[principal_id]
            is_free = taken < MAX_WAITING_PER_PRINCIPAL
            self._held[principal_id] += is_free
        try:
            yield is_free
        finally:
            with self._lock:
                self._held[principal_id] -= is_free

    @property
    def queue_length(self) -> int:
        """Number of charges whose release is not stored; changes when one appears."""
        return len(self._known)

    def take(self, charge: Charge) -> None:
        """Queue a charge, unless it is queued."""
        place = (charge.journal_id, charge.drawn_seq)
        with self._lock:
            if place in self._known:
                return
            self._known.add(place)
            self._load[charge.principal_id] += 1
        self._waiting.put(charge.principal_id, charge)

    def run_task(self, task: dict[str, Any]) -> dict[str, Any]:
        """Run another task in a process that reads rows, between two releases."""
        return self._processes[0].run_task(task, wait_seconds=MAX_WAITING_SECONDS)

    def stop(self) -> None:
        """Stop at once: pending charges are computed at the next start."""
        self._stopping.set()
        self._waiting.close()
        for process in self._processes:
            process.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_STOP_SECONDS)  # it may hang, as a disk does; it ends with the process

    def _run(self, process: ComputeProcess) -> None:
        while (charge := self._waiting.get()) is not None and not self._stopping.is_set():
            try:
                finish(self._ledger, self._bundles, charge, partial(self._compute, process))
            except _Stopped:
                return
            except (Exception, _TemporaryFailure) as error:  # noqa: BLE001 - disk or ledger may recover
                fields = {"release": f"{charge.journal_id}-{charge.drawn_seq}"}
                in_use = isinstance(error, _FolderInUse)  # it has waited for it already
                level = logging.INFO if in_use else logging.ERROR
                _LOG.log(level, "storing failed: %s", _cause(error), extra={"fields": fields})
                self._waiting.put(charge.principal_id, charge)  # still charged, still pending
                self._stopping.wait(0.0 if in_use else _PAUSE_SECONDS)
                continue
            with self._lock:
                self._known.discard((charge.journal_id, charge.drawn_seq))
                self._load[charge.principal_id] -= 1

    def _compute(self, process: ComputeProcess, charge: Charge, draft: Path) -> str | None:
        started = time.monotonic()
        is_due = True
        try:
            result = self._computed(process, charge, draft)
            if not result["done"]:
                raise RuntimeError("the computation failed")
            return result.get("fingerprint")
        except _FolderInUse:
            is_due = False  # no row was read: others need not wait
            raise
        finally:
            # Wait for the next tick, also after a failure.
            spent = time.monotonic() - started
            self._stopping.wait(-spent % self._tick_seconds if is_due else 0.0)

    def _computed(self, process: ComputeProcess, charge: Charge, draft: Path) -> dict[str, Any]:
        try:
            self._bundles.clear_drafts(charge)  # no other thread has this charge
            task = self._task(charge, draft)
        except Exception as error:  # noqa: BLE001 - the ledger may recover
            # Nothing was computed, so the release has not failed: the charge stays pending.
            raise _TemporaryFailure(_cause(error)) from None
        for _ in range(_TRIES):
            try:
                result = process.run_task(task)
            except ComputeProcessNotStartedError:
                raise _TemporaryFailure("no compute process can be started") from None
            except ComputeProcessDiedError:
                if self._stopping.is_set():
                    raise _Stopped from None
                continue
            if (failure := result.get("temporary")) is not None:
                remove_bundle(draft)
                raise (_FolderInUse if failure == _IN_USE else _TemporaryFailure)(failure)
            if (refused := result.get("refused")) is not None:
                _LOG.error("release %d-%d: %s", charge.journal_id, charge.drawn_seq, refused)
            return result
        _LOG.error("a compute process died in each of %d attempts", _TRIES)
        return {"done": False}


class _Stopped(BaseException):
    """The server stops: the outcome is unknown, and nothing is stored."""


class _TemporaryFailure(BaseException):
    """A disk is full or missing: the charge stays pending, and nothing is stored."""

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(cause)


class _FolderInUse(_TemporaryFailure):
    """A period has waited for the folder of its series, which a backup or an erasure uses."""


def _cause(error: BaseException) -> str:
    """Return why a release is not stored, for the log: of fixed lists, never the text of an error.

    An error of the operating system has its name, such as ENOSPC.
    """
    if isinstance(error, _TemporaryFailure | LedgerUnavailableError):
        return error.cause
    number = error.errno if isinstance(error, OSError) else None
    return (
        type(error).__name__
        if number is None
        else errno.errorcode.get(number, type(error).__name__)
    )
