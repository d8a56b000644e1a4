"""The server's side of its helper processes."""

import os
from pathlib import Path

import pytest

from wattveil.serve.helpers import Helper, HelperBusyError, HelperDiedError


def test_what_takes_too_much_memory_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A statement of 3 GB, which needs no room on the disk."""
    (tmp_path / "manifest.json").touch()
    os.truncate(tmp_path / "manifest.json", 3 * 2**30)
    helper = Helper(most_bytes=2**30)
    assert helper.ask({"do": "verify", "bundle": str(tmp_path)}) == {"done": False}
    assert helper._process is not None
    assert helper._process.poll() is not None
    helper.stop()


def test_nobody_waits_for_ever_for_a_turn() -> None:
    """Another task is under way; afterwards there is room again."""
    helper = Helper()
    with helper._turn, pytest.raises(HelperBusyError):
        helper.ask({}, wait_seconds=0.01)
    helper.stop()
    with pytest.raises(HelperDiedError):
        helper.ask({}, wait_seconds=0.01)


def test_what_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    """A bundle whose statement never ends: others must not wait for it."""
    os.mkfifo(tmp_path / "manifest.json")
    helper = Helper(most_seconds=0.5)
    try:
        with pytest.raises(HelperDiedError):
            helper.ask({"do": "verify", "bundle": str(tmp_path)})
    finally:
        helper.stop()
