"""Plans for quotes, and checks of bundles: they cost time, and nothing else."""

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from wattveil.publish.request import ReleaseRequest
from wattveil.serve.helpers import Helper, HelperDiedError
from wattveil.serve.ledger.order import canonical_text
from wattveil.serve.ledger.pricing import canonical_request
from wattveil.serve.problems import Code, Problem

_REMEMBERED = 1000
_MOST_WAITING = 8
"""Plans take seconds: whoever would wait for more than these is asked to come later."""

_MOST_SECONDS = 300.0
"""For a plan or a check. A bundle that was made to take long must not end all quotes."""


class Planner:
    """One process that plans, and what it said before."""

    def __init__(self) -> None:
        self._helper = Helper(most_seconds=_MOST_SECONDS)
        self._room = threading.BoundedSemaphore(_MOST_WAITING)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def plan(self, request: ReleaseRequest, grid: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a release as JSON values; the same request has the same plan."""
        task = {"do": "plan", "request": canonical_request(request), "grid": grid}
        key = canonical_text("request", task)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                return known
        found = self._asked(task)  # what cannot be planned cannot be released
        with self._lock:
            self._known[key] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def verify(self, bundle: Path) -> dict[str, Any]:
        """Return the verdict on a bundle that somebody sent."""
        return self._asked({"do": "verify", "bundle": str(bundle)})

    def stop(self) -> None:
        """End the process."""
        self._helper.stop()

    def _asked(self, task: dict[str, Any]) -> dict[str, Any]:
        if not self._room.acquire(blocking=False):
            raise Problem(Code.BUSY)
        try:
            found = self._helper.ask(task)
        except HelperDiedError:
            raise Problem(Code.BUSY) from None
        finally:
            self._room.release()
        if not found.pop("done"):
            raise Problem(Code.INVALID_REQUEST, errors=[])
        return found
