"""The worker: charges that are paid become releases, one after the other, whatever crashes.

It holds no rows. A helper process computes; this thread stores what it left, by the steps of
`ledger.answer`. A helper that dies is replaced and the charge computed anew, which is sound because
nothing of the first draw left (I3). How long a computation takes may depend on rows, so a release
is stored on the next tick of a slow clock.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from wattveil.serve.helpers import Helper, HelperDiedError
from wattveil.serve.ledger.answer import Shelf, finish
from wattveil.serve.ledger.charges import Charge
from wattveil.serve.ledger.ledger import Ledger

_LOG = logging.getLogger(__name__)

MOST_WAITING = 200
"""Charges that may wait; whoever comes then is asked to come later, before anything is spent."""

_TRIES = 3
"""A helper that dies so often at one charge will not finish it: it ends as failed."""

_PAUSE_SECONDS = 2.0
"""Before a ledger that could not be written is tried again."""

_MOST_WAITING_SECONDS = 50.0
"""For the release that is being computed when something else is asked for; proxies wait 60."""

Task = Callable[[Charge, Path], dict[str, object]]
"""What the helper is told to do for a charge: leave a bundle at a path."""


class Worker:
    """Computes and stores, in a thread of its own."""

    def __init__(self, ledger: Ledger, shelf: Shelf, task: Task, *, tick_seconds: float) -> None:
        self._ledger, self._shelf, self._task = ledger, shelf, task
        self._tick_seconds = tick_seconds
        self._helper = Helper()
        self._waiting: SimpleQueue[Charge | None] = SimpleQueue()
        self._known: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Clear away what a crash left, take up what it left undone, and go on."""
        self._shelf.clear(self._ledger.payloads())
        for paid in self._ledger.pending():
            self.take(paid)
        self._thread.start()

    @property
    def is_well(self) -> bool:
        """Whether charges become releases."""
        return self._thread.is_alive()

    @property
    def is_full(self) -> bool:
        """Whether too much is waiting already."""
        return len(self._known) >= MOST_WAITING

    def take(self, paid: Charge) -> None:
        """Compute for a charge, unless that is under way."""
        place = (paid.book_id, paid.drawn_seq)
        with self._lock:
            if place in self._known:
                return
            self._known.add(place)
        self._waiting.put(paid)

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Have the process that reads rows do something else, between two releases."""
        return self._helper.ask(task, wait_seconds=_MOST_WAITING_SECONDS)

    def stop(self) -> None:
        """Stop at once: what is not stored is computed at the next start."""
        self._stopping.set()
        self._waiting.put(None)
        self._helper.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (paid := self._waiting.get()) is not None and not self._stopping.is_set():
            try:
                if self._ledger.release_of(paid) is None:
                    finish(self._ledger, self._shelf, paid, self._compute)
            except _Stopped:
                return
            except (Exception, _NotNow) as error:  # noqa: BLE001 - disk or ledger may come back
                _LOG.error("storing failed: %s", type(error).__name__)
                self._waiting.put(paid)  # still paid, still to be done
                self._stopping.wait(_PAUSE_SECONDS)
                continue
            with self._lock:
                self._known.discard((paid.book_id, paid.drawn_seq))

    def _compute(self, paid: Charge, draft: Path) -> None:
        started = time.monotonic()
        try:
            if not self._asked(paid, draft):
                raise RuntimeError("the computation failed")
        finally:
            # Until the next tick, whether it failed or not.
            spent = time.monotonic() - started
            self._stopping.wait(-spent % self._tick_seconds)

    def _asked(self, paid: Charge, draft: Path) -> bool:
        for _ in range(_TRIES):
            try:
                said = self._helper.ask(self._task(paid, draft))
            except HelperDiedError:
                if self._stopping.is_set():
                    raise _Stopped from None
                continue
            if said.get("not_now"):
                shutil.rmtree(draft, ignore_errors=True)
                raise _NotNow
            if said.get("beyond_price"):
                _LOG.error("release %d-%d: beyond what was paid", paid.book_id, paid.drawn_seq)
            return said["done"] is True
        return False


class _Stopped(BaseException):
    """The server stops: nothing is known of the computation, so nothing is stored about it."""


class _NotNow(BaseException):
    """A disk is full or not there: the charge is still to be computed, and nothing is stored."""
