"""A clock that a test sets, for one module alone.

A replaced `time.monotonic` is the clock of every thread of the process: the event loop of a server
that other tests share then computes, once, that its next timer is due in an hour, and neither ticks
nor stops.
"""

import time
from dataclasses import dataclass
from types import ModuleType

import pytest


@dataclass
class FakeClock:
    """Stands for the module `time`; `sleep` advances it."""

    now: float

    def monotonic(self) -> float:
        """Return the time that was set."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def __getattr__(self, name: str) -> object:
        """Return what else the module has."""
        return getattr(time, name)


def fake_clock(patch: pytest.MonkeyPatch, module: ModuleType, now: float = 0.0) -> FakeClock:
    """Return the clock that a module reads while the patch lasts."""
    clock = FakeClock(now)
    patch.setattr(module, "time", clock)
    return clock
