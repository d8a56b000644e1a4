"""Plans: waiting requests, and refusals with a retry time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from wattveil.products.request import ReleaseRequest
from wattveil.server.http.problems import Code, Problem
from wattveil.server.jobs import planner
from wattveil.server.jobs.compute_pool import ComputeProcess, ComputeProcessDiedError
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


@pytest.mark.parametrize("work", ["plan", "verify"])
def test_a_principal_waits_for_one_task_of_another(
    monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Ann has a task that runs and three that wait when bob comes: his is the next."""
    begun: list[str] = []
    first, going_on = threading.Event(), threading.Event()
    plans = Planner()
    turn = plans._turn_of_plans if work == "plan" else plans._turn_of_checks

    def run_task(_: ComputeProcess, task: dict[str, Any]) -> dict[str, Any]:
        begun.append(task["request"]["epsilon"] if work == "plan" else Path(task["bundle"]).name)
        first.set()
        going_on.wait()
        return {"done": True, "broken": None, "plan": {}}

    monkeypatch.setattr(ComputeProcess, "run_task", run_task)
    monkeypatch.setattr(planner, "MAX_WAITING_SECONDS", 600.0)

    def ask(principal: str, number: float) -> None:
        if work == "plan":
            plans.plan(ordered(principal, number), {})
        else:
            plans.verify(Path(str(number)), principal)

    def waiting() -> int:
        return sum(map(len, turn._lines._lines.values()))

    with ThreadPoolExecutor(5) as pool:
        try:
            asked = [pool.submit(ask, "ann", 1.0)]
            assert first.wait(600)
            for place, (principal, number) in enumerate(
                [("ann", 2.0), ("ann", 3.0), ("ann", 4.0), ("bob", 5.0)]
            ):
                asked.append(pool.submit(ask, principal, number))
                while waiting() <= place:
                    time.sleep(0.001)
            monkeypatch.setattr(planner, "MAX_WAITING_SECONDS", 0.0)
            with pytest.raises(Problem) as busy:
                ask("carol", 6.0)
            assert busy.value.code is Code.BUSY
        finally:
            going_on.set()
        for one in asked:
            one.result()
    assert begun == ["1.0", "5.0", "2.0", "3.0", "4.0"]
    ask("ann", 7.0)  # the turn is free again


def test_a_check_that_the_end_of_the_server_interrupts_says_nothing_of_the_bundle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not refused as one that takes too long."""

    def died(*_: object) -> None:
        raise ComputeProcessDiedError

    monkeypatch.setattr(ComputeProcess, "run_task", died)
    plans = Planner()
    with pytest.raises(Problem) as refused:
        plans.verify(Path("bundle"), "ann")
    assert refused.value.code is Code.INVALID_REQUEST
    plans.stop()
    with pytest.raises(Problem) as refused:
        plans.verify(Path("bundle"), "ann")
    assert refused.value.code is Code.BUSY


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
