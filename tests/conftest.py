"""What every test shares: its folder is its marker, and what makes many runs affordable."""

from pathlib import Path

import pytest

from tests.many_runs import draw_in_blocks, remember_constants

_TESTS = Path(__file__).parent
_MARKED_FOLDERS = ("browser", "statistical")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test of a marked folder, so that `-m "not statistical"` needs no decorator.

    Thousands of runs of the same lines need not be traced: every line is covered by other tests.
    """
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in _MARKED_FOLDERS:
            item.add_marker(folder)
        if folder == "statistical":
            item.add_marker("no_cover")


@pytest.fixture
def constants_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute once what is the same in every run: no noise, nothing that differs between runs."""
    remember_constants(monkeypatch)


@pytest.fixture
def many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute constants once, and draw the system's noise in blocks.

    A block comes from the same sampler with the same scale, and each number is handed out once: a
    run has the law it would have without. That calls are independent is tested without this.
    """
    remember_constants(monkeypatch)
    draw_in_blocks(monkeypatch)
