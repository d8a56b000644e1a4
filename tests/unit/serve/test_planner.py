"""Plans: who waits for them, and who is asked to come later."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from wattveil.publish.request import ReleaseRequest
from wattveil.serve import planner
from wattveil.serve.helpers import Helper
from wattveil.serve.planner import Planner
from wattveil.serve.problems import Code, Problem


def test_one_person_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many one asks for, others find a place; and everybody does when it is over."""
    going_on = threading.Event()

    def slow(_: Helper, task: dict[str, Any]) -> dict[str, Any]:
        going_on.wait()
        return {"done": True, "epsilon": task["request"]["epsilon"]}

    monkeypatch.setattr(Helper, "ask", slow)
    plans, request = Planner(), ReleaseRequest(epsilon=1.0, delta=1e-6)

    def ask(whose: str, number: int) -> object:
        return plans.plan(replace(request, epsilon=1.0 + number), {}, whose=whose)["epsilon"]

    with ThreadPoolExecutor(planner._MOST_WAITING) as pool:
        try:
            mine = [pool.submit(ask, "ann", number) for number in range(planner._MOST_OF_ONE)]
            while plans._waiting["ann"] < planner._MOST_OF_ONE:
                time.sleep(0.001)
            with pytest.raises(Problem) as busy:
                ask("ann", 50)
            assert busy.value.code is Code.BUSY
            others = pool.submit(ask, "bob", 60)
            while not plans._waiting["bob"]:
                time.sleep(0.001)
        finally:
            going_on.set()
        assert [one.result() for one in (*mine, others)] == ["1.0", "2.0", "3.0", "4.0", "61.0"]
    assert ask("ann", 50) == "51.0"
    assert not plans._waiting
