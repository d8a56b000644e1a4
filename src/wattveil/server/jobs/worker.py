"""Worker: computes the releases of charges, one after the other, whatever crashes.

It holds no rows. A compute process writes a bundle; this thread stores it, by the steps of
`ledger.fulfilment`. A process that dies is replaced and the release computed again, which is sound
because nothing of the first draw was sent (I3). The duration of a computation may depend on rows,
so a release is stored at the next tick of a slow clock.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from wattveil.server.jobs.compute_pool import ComputeProcess, ComputeProcessDiedError
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.fulfilment import BundleStore, finish
from wattveil.server.ledger.ledger import Ledger

_LOG = logging.getLogger(__name__)

MAX_WAITING = 200
"""Maximum waiting charges; further orders are refused as busy, before anything is charged."""

_TRIES = 3
"""Attempts per charge: if the process dies each time, the release is stored as failed."""

_PAUSE_SECONDS = 2.0
"""Pause before a failed write is repeated."""

_MAX_WAITING_SECONDS = 50.0
"""Maximum wait for the release that is being computed; proxies wait 60."""

Task = Callable[[Charge, Path], dict[str, object]]
"""Returns the task of a charge for the compute process: write a bundle to a path."""


class Worker:
    """Computes and stores releases, in a thread of its own."""

    def __init__(
        self, ledger: Ledger, bundles: BundleStore, task: Task, *, tick_seconds: float
    ) -> None:
        self._ledger, self._bundles, self._task = ledger, bundles, task
        self._tick_seconds = tick_seconds
        self._process = ComputeProcess()
        self._waiting: SimpleQueue[Charge | None] = SimpleQueue()
        self._known: dict[tuple[int, int], dict[str, Any] | None] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Remove unfinished bundles, queue pending charges, and start the thread."""
        self._bundles.clear(self._ledger.payloads())
        for charge in self._ledger.pending():
            self.take(charge)
        self._thread.start()

    @property
    def is_healthy(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def is_full(self) -> bool:
        """Whether further orders must be refused."""
        return len(self._known) >= MAX_WAITING

    @property
    def queue_length(self) -> int:
        """Number of charges whose release is not stored; changes when one appears."""
        return len(self._known)

    def take(self, charge: Charge, plan: dict[str, Any] | None = None) -> None:
        """Queue a charge, unless it is queued.

        ``plan`` is the split that the order was priced with. After a restart it is not known.
        """
        place = (charge.journal_id, charge.drawn_seq)
        with self._lock:
            if place in self._known:
                return
            self._known[place] = plan
        self._waiting.put(charge)

    def run_task(self, task: dict[str, Any]) -> dict[str, Any]:
        """Run another task in the process that reads rows, between two releases."""
        return self._process.run_task(task, wait_seconds=_MAX_WAITING_SECONDS)

    def stop(self) -> None:
        """Stop at once: pending charges are computed at the next start."""
        self._stopping.set()
        self._waiting.put(None)
        self._process.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (charge := self._waiting.get()) is not None and not self._stopping.is_set():
            try:
                if self._ledger.release_of(charge) is None:
                    finish(self._ledger, self._bundles, charge, self._compute)
            except _Stopped:
                return
            except (Exception, _TemporaryFailure) as error:  # noqa: BLE001 - disk or ledger may recover
                _LOG.error("storing failed: %s", type(error).__name__)
                self._waiting.put(charge)  # still charged, still pending
                self._stopping.wait(_PAUSE_SECONDS)
                continue
            with self._lock:
                self._known.pop((charge.journal_id, charge.drawn_seq), None)

    def _compute(self, charge: Charge, draft: Path) -> None:
        started = time.monotonic()
        try:
            if not self._computed(charge, draft):
                raise RuntimeError("the computation failed")
        finally:
            # Wait for the next tick, also after a failure.
            spent = time.monotonic() - started
            self._stopping.wait(-spent % self._tick_seconds)

    def _computed(self, charge: Charge, draft: Path) -> bool:
        place = (charge.journal_id, charge.drawn_seq)
        for _ in range(_TRIES):
            try:
                task = self._task(charge, draft)
                result = self._process.run_task({**task, "plan": self._known.get(place)})
            except ComputeProcessDiedError:
                if self._stopping.is_set():
                    raise _Stopped from None
                continue
            if result.get("temporary"):
                shutil.rmtree(draft, ignore_errors=True)
                raise _TemporaryFailure
            if result.get("beyond_price"):
                _LOG.error(
                    "release %d-%d: beyond what was paid", charge.journal_id, charge.drawn_seq
                )
            return result["done"] is True
        return False


class _Stopped(BaseException):
    """The server stops: the outcome is unknown, and nothing is stored."""


class _TemporaryFailure(BaseException):
    """A disk is full or missing: the charge stays pending, and nothing is stored."""
