"""What every test shares: the folder a test lives in is its marker."""

from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_MARKED_FOLDERS = ("browser", "statistical")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test of a marked folder, so that `-m "not statistical"` needs no decorator."""
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in _MARKED_FOLDERS:
            item.add_marker(folder)
