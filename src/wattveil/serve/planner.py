"""Plans for quotes, and checks of bundles: they cost time, and nothing else."""

import threading
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

from wattveil.publish.request import ReleaseRequest
from wattveil.serve.helpers import Helper, HelperDiedError
from wattveil.serve.ledger.order import canonical_text
from wattveil.serve.ledger.pricing import canonical_request
from wattveil.serve.problems import Code, Problem, invalid

_REMEMBERED = 1000
_MOST_WAITING = 8
"""Plans take seconds: whoever would wait for more than these is asked to come later."""
_MOST_OF_ONE = 4
"""Of those that wait, of one person: others must find room."""

_MOST_SECONDS = 300.0
"""For a plan or a check."""

_MOST_BYTES = 2**30
"""Of memory for a check. About 0.45 GB are the software itself; a table of a few bytes may say of
itself that it has terabytes."""


class Planner:
    """One process that plans, and what it said before; and one for each bundle to be checked."""

    def __init__(self) -> None:
        self._plans = Helper(most_seconds=_MOST_SECONDS)
        self._checks = Helper(most_seconds=_MOST_SECONDS, most_bytes=_MOST_BYTES)
        self._waiting: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def plan(self, request: ReleaseRequest, grid: dict[str, Any], *, whose: str) -> dict[str, Any]:
        """Return the plan of a release as JSON values; the same request has the same plan."""
        task = {"do": "plan", "request": canonical_request(request), "grid": grid}
        key = canonical_text("request", task)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                return known
        found = self._asked(task, whose)  # what cannot be planned cannot be released
        with self._lock:
            self._known[key] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def verify(self, bundle: Path) -> dict[str, Any]:
        """Return the verdict on a bundle that somebody sent; quotes do not wait for it."""
        try:
            found = self._checks.ask({"do": "verify", "bundle": str(bundle)})
        except HelperDiedError:
            found = {"done": False}
        if not found.pop("done"):
            rule = f"one that is checked in {_MOST_SECONDS:g} s and {_MOST_BYTES // 2**20} MiB"
            raise invalid(("bundle", rule))
        return found

    def stop(self) -> None:
        """End the processes."""
        self._plans.stop()
        self._checks.stop()

    def _asked(self, task: dict[str, Any], whose: str) -> dict[str, Any]:
        with self._lock:
            if self._waiting.total() >= _MOST_WAITING or self._waiting[whose] >= _MOST_OF_ONE:
                raise Problem(Code.BUSY)
            self._waiting[whose] += 1
        try:
            found = self._plans.ask(task)
        except HelperDiedError:
            raise Problem(Code.BUSY) from None
        finally:
            with self._lock:
                self._waiting[whose] -= 1
                self._waiting += Counter()  # those who wait for nothing are forgotten
        if not found.pop("done"):
            raise Problem(Code.INVALID_REQUEST, errors=[])
        return found
