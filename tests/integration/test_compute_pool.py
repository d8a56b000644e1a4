"""The server's side of its helper processes."""

import os
from pathlib import Path

import pytest

from wattveil.server.jobs.compute_pool import (
    ComputeProcess,
    ComputeProcessBusyError,
    ComputeProcessDiedError,
)


def test_what_takes_too_much_memory_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A manifest of 3 GB, which needs no room on the disk."""
    (tmp_path / "manifest.json").touch()
    os.truncate(tmp_path / "manifest.json", 3 * 2**30)
    process = ComputeProcess(max_bytes=2**30)
    assert process.run_task({"do": "verify", "bundle": str(tmp_path)}) == {"done": False}
    assert process._process is not None
    assert process._process.poll() is not None
    process.stop()


def test_waiting_for_a_turn_ends() -> None:
    """Another task is under way; afterwards there is room again."""
    process = ComputeProcess()
    with process._turn, pytest.raises(ComputeProcessBusyError):
        process.run_task({}, wait_seconds=0.01)
    process.stop()
    with pytest.raises(ComputeProcessDiedError):
        process.run_task({}, wait_seconds=0.01)


def test_what_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    """A bundle whose manifest never ends: others must not wait for it."""
    os.mkfifo(tmp_path / "manifest.json")
    process = ComputeProcess(max_seconds=0.5)
    try:
        with pytest.raises(ComputeProcessDiedError):
            process.run_task({"do": "verify", "bundle": str(tmp_path)})
    finally:
        process.stop()
