"""Plugin of pytest: which tests are slow, in seconds of processor time.

`tests/slow_tests.txt` lists the functions whose cases together take more than a second. They carry
the marker ``slow``: `make test-fast` leaves them out. ``pytest --list-slow tests/unit
tests/property`` prints the tests above the limit. Processor time includes that of child processes,
and depends less than wall-clock time on what else the machine does.
"""

import os
from collections import Counter
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("slow_tests.txt")
_SLOW_SECONDS = 1.0
_PROPERTY = "processor_seconds"


@cache
def slow_tests() -> frozenset[str]:
    """Return the names of the listed functions."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def function_of(nodeid: str) -> str:
    """Return the name of a test without its case."""
    return nodeid.partition("[")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addoption(
        "--list-slow",
        action="store_true",
        help=f"list the tests whose cases together take over {_SLOW_SECONDS:g} s of processor time",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of the list."""
    if function_of(item.nodeid) in slow_tests():
        item.add_marker("slow")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Record the processor time of a test; what its fixtures need is shared."""
    before = os.times()
    try:
        return (yield)
    finally:
        seconds = sum(os.times()[:4]) - sum(before[:4])
        item.user_properties.append((_PROPERTY, seconds))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the list; processes of pytest-xdist report to the first."""
    if not config.getoption("--list-slow"):
        return
    seconds: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            seconds[function_of(report.nodeid)] += dict(report.user_properties).get(_PROPERTY, 0.0)
    terminalreporter.section(f"over {_SLOW_SECONDS:g} s of processor time")
    for name, total in sorted(seconds.items()):
        if total > _SLOW_SECONDS:
            terminalreporter.write_line(f"{name}  # {total:.1f}")
