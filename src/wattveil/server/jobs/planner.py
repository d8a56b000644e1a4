"""Planner: plans of quotes, and verification of uploaded bundles, in compute processes.

Principals take turns, so that many requests of one delay another by one task at most.
"""

import threading
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

from wattveil.bundle.plan import allotments_to_json
from wattveil.server.http.problems import Code, Problem, invalid
from wattveil.server.jobs.compute_pool import (
    MAX_WAITING_SECONDS,
    ComputeProcess,
    ComputeProcessDiedError,
)
from wattveil.server.jobs.fair_queue import FairTurn
from wattveil.server.ledger.order import Order, canonical_text

_REMEMBERED = 1000
_MAX_WAITING = 8
"""Plans take seconds: whoever would wait for more than these is asked to come later."""
_MAX_PER_PRINCIPAL = 4
"""Of those that wait, of one person: others must find room."""

_MAX_SECONDS = 300.0
"""For a plan or a check."""

_MAX_BYTES = 2**30
"""Of memory for a check. About 0.45 GB are the software itself; a table of a few bytes may say of
itself that it has terabytes."""


class Planner:
    """One process that plans, and what it said before; and one for each bundle to be checked."""

    def __init__(self) -> None:
        self._plans = ComputeProcess(max_seconds=_MAX_SECONDS)
        self._checks = ComputeProcess(max_seconds=_MAX_SECONDS, max_bytes=_MAX_BYTES)
        self._turn_of_plans, self._turn_of_checks = FairTurn(), FairTurn()
        self._stopped = False
        self._waiting: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def plan(self, order: Order, grid: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of an ordered release as JSON values; the same request has one plan."""
        if (known := self.known(order, grid)) is not None:
            return known
        task = {
            "do": "plan",
            "request": order.request,
            "grid": grid,
            "allotments": allotments_to_json(order.allotments),
        }
        key = _key(order, grid)
        found = self._asked(task, order.principal)  # what cannot be planned cannot be released
        with self._lock:
            self._known[key] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def known(self, order: Order, grid: dict[str, Any]) -> dict[str, Any] | None:
        """Return the plan that was made for an earlier quote, if there is one."""
        with self._lock:
            return self._known.get(_key(order, grid))

    def verify(self, bundle: Path, principal: str) -> dict[str, Any]:
        """Return the verdict on a bundle that a principal sent; quotes do not wait for it."""
        with self._turn_of_checks.held(principal, wait_seconds=MAX_WAITING_SECONDS) as has_turn:
            if not has_turn:
                raise Problem(Code.BUSY)
            try:
                found = self._checks.run_task({"do": "verify", "bundle": str(bundle)})
            except ComputeProcessDiedError:
                if self._stopped:
                    raise Problem(Code.BUSY) from None
                found = {"done": False}
        if not found.pop("done"):
            rule = f"one that is checked in {_MAX_SECONDS:g} s and {_MAX_BYTES // 2**20} MiB"
            raise invalid(("bundle", rule))
        return found

    def stop(self) -> None:
        """End the processes; requests that wait for them are refused as busy."""
        self._stopped = True
        self._plans.stop()
        self._checks.stop()

    def _asked(self, task: dict[str, Any], principal: str) -> dict[str, Any]:
        with self._lock:
            if (
                self._waiting.total() >= _MAX_WAITING
                or self._waiting[principal] >= _MAX_PER_PRINCIPAL
            ):
                raise Problem(Code.BUSY)
            self._waiting[principal] += 1
        try:
            with self._turn_of_plans.held(principal, wait_seconds=MAX_WAITING_SECONDS) as has_turn:
                if not has_turn:
                    raise Problem(Code.BUSY)
                found = self._plans.run_task(task)
        except ComputeProcessDiedError:
            raise Problem(Code.BUSY) from None
        finally:
            with self._lock:
                self._waiting[principal] -= 1
                self._waiting += Counter()  # drop zero counts
        if not found["done"]:
            raise Problem(Code.INVALID_REQUEST, errors=[])
        if found["broken"] is not None:
            field, rule = found["broken"]
            raise invalid((field, rule))
        plan: dict[str, Any] = found["plan"]
        return plan


def _key(order: Order, grid: dict[str, Any]) -> str:
    return order.request_text + canonical_text("grid", grid)
