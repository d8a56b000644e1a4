"""The server's side of its helper processes."""

import errno
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from wattveil.server.jobs.compute_pool import (
    ComputeProcess,
    ComputeProcessBusyError,
    ComputeProcessDiedError,
    ComputeProcessNotStartedError,
)
from wattveil.server.jobs.release_queue import RemoteQueue
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.processes.server_health import ServerHealth


def test_what_takes_too_much_memory_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A manifest of 3 GB, which needs no room on the disk."""
    (tmp_path / "manifest.json").touch()
    os.truncate(tmp_path / "manifest.json", 3 * 2**30)
    process = ComputeProcess(max_bytes=2**30)
    assert process.run_task({"do": "verify", "bundle": str(tmp_path)}) == {"done": False}
    assert process._process is not None
    assert process._process.poll() is not None
    process.stop()


def test_a_process_that_cannot_be_started_computes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the limit of processes of a service; a later task may start one."""
    process = ComputeProcess()
    monkeypatch.setattr(subprocess, "Popen", Mock(side_effect=BlockingIOError(errno.EAGAIN, "x")))
    with pytest.raises(ComputeProcessNotStartedError):
        process.run_task({})
    assert not process._turn.locked()
    process.stop()


def test_waiting_for_a_turn_ends() -> None:
    """Another task is under way; afterwards there is room again."""
    process = ComputeProcess()
    with process._turn, pytest.raises(ComputeProcessBusyError):
        process.run_task({}, wait_seconds=0.01)
    process.stop()
    with pytest.raises(ComputeProcessDiedError):
        process.run_task({}, wait_seconds=0.01)


def test_no_task_of_an_api_process_begins_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One waits for its turn, and one comes later: neither is waited for."""
    begun: list[object] = []

    def run_task(_: ComputeProcess, task: dict[str, Any]) -> dict[str, Any]:
        begun.append(task)
        return {}

    monkeypatch.setattr(ComputeProcess, "run_task", run_task)
    queue = RemoteQueue(Mock(Ledger), Mock(ServerHealth))
    assert queue.run_task({"number": 1}) == {}
    with ThreadPoolExecutor(1) as pool, queue._turn:
        waiting = pool.submit(queue.run_task, {"number": 2})
        queue.stop()
        queue._turn.release()
        try:
            with pytest.raises(ComputeProcessDiedError):
                waiting.result()
        finally:
            queue._turn.acquire()
    with pytest.raises(ComputeProcessDiedError):
        queue.run_task({"number": 3})
    assert begun == [{"number": 1}]


def test_what_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    """A bundle whose manifest never ends: others must not wait for it."""
    os.mkfifo(tmp_path / "manifest.json")
    process = ComputeProcess(max_seconds=0.5)
    try:
        with pytest.raises(ComputeProcessDiedError):
            process.run_task({"do": "verify", "bundle": str(tmp_path)})
    finally:
        process.stop()
