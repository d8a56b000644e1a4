"""Processes that end when the process of the tests ends, even if it is killed.

A guard process waits on a pipe. The system closes the pipe when the process of the tests ends,
whatever ended it, and the guard then signals every process group that is still registered.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_GUARD = """
import os, sys
left = {}
for line in sys.stdin:
    group, number = line.split()
    if number == "0":
        left.pop(group, None)
    else:
        left[group] = int(number)
for group, number in left.items():
    try:
        os.killpg(int(group), number)
    except ProcessLookupError:
        pass
"""


@contextmanager
def guarded(process: "subprocess.Popen[Any]") -> Iterator[None]:
    """Kill the group of a process if this process ends before the block does."""
    guard(process.pid)
    try:
        yield
    finally:
        unguard(process.pid)


def guard(group: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal a process group when this process ends, unless `unguard` comes first."""
    _tell(group, number)


def unguard(group: int) -> None:
    """Leave a process group alone, which ended or is about to."""
    _tell(group, 0)


def _tell(group: int, number: int) -> None:
    stdin = _guard(os.getpid()).stdin
    assert stdin is not None
    stdin.write(f"{group} {number}\n")
    stdin.flush()


@cache
def _guard(owner: int) -> "subprocess.Popen[str]":  # noqa: ARG001 - a fork needs a guard of its own
    # A session of its own: Ctrl-C in a terminal must not end the guard first.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
