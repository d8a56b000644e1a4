"""Plans: waiting requests, and refusals with a retry time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from wattveil.products.request import ReleaseRequest
from wattveil.server.http.problems import Code, Problem
from wattveil.server.jobs import planner
from wattveil.server.jobs.compute_pool import ComputeProcess
from wattveil.server.jobs.planner import Planner
from wattveil.server.ledger.order import Order
from wattveil.server.ledger.pricing import order_release


def ordered(principal: str, epsilon: float) -> Order:
    """Return an order of a principal."""
    request = ReleaseRequest(epsilon=epsilon)
    return order_release(request, dataset="homes", principal=principal, key="quote")


def test_one_person_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests of one principal leave places for others; all are free afterwards."""
    going_on = threading.Event()

    def slow(_: ComputeProcess, task: dict[str, Any]) -> dict[str, Any]:
        going_on.wait()
        plan = {"epsilon": task["request"]["epsilon"]}
        return {"done": True, "broken": None, "plan": plan}

    monkeypatch.setattr(ComputeProcess, "run_task", slow)
    plans = Planner()

    def run_task(principal: str, number: int) -> object:
        return plans.plan(ordered(principal, 1.0 + number), {})["epsilon"]

    with ThreadPoolExecutor(planner._MAX_WAITING) as pool:
        try:
            mine = [
                pool.submit(run_task, "ann", number) for number in range(planner._MAX_PER_PRINCIPAL)
            ]
            while plans._waiting["ann"] < planner._MAX_PER_PRINCIPAL:
                time.sleep(0.001)
            with pytest.raises(Problem) as busy:
                run_task("ann", 50)
            assert busy.value.code is Code.BUSY
            others = pool.submit(run_task, "bob", 60)
            while not plans._waiting["bob"]:
                time.sleep(0.001)
        finally:
            going_on.set()
        assert [one.result() for one in (*mine, others)] == ["1.0", "2.0", "3.0", "4.0", "61.0"]
    assert run_task("ann", 50) == "51.0"
    assert not plans._waiting


def test_a_rule_that_a_request_breaks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan uses no rows, so the rule is public; nothing is remembered of the request."""
    broken = {"done": True, "broken": ["products", "of ['load']"]}
    monkeypatch.setattr(ComputeProcess, "run_task", lambda *_: dict(broken))
    plans, order = Planner(), ordered("ann", 1.0)
    with pytest.raises(Problem) as refused:
        plans.plan(order, {})
    assert refused.value.code is Code.INVALID_REQUEST
    assert refused.value.details["errors"] == [{"field": "products", "rule": "of ['load']"}]
    assert plans.known(order, {}) is None
