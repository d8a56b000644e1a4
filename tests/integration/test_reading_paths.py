"""The reading paths of docs/architecture.md: each call enters the modules that its path lists."""

import re
from pathlib import Path

import pytest

from tools import module_hops

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MAX_MODULES = {"profiles_from_readings": 9, "PrivateKMeans.fit": 12, "An order to a server": 10}


def stated_path(call: str) -> list[str]:
    """Return the modules that the page lists for a call."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^\*\*`?{re.escape(call)}.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return re.findall(r"`([a-z_/0-9]+\.py)`", found[0])


@pytest.mark.parametrize("call", MAX_MODULES)
def test_a_call_enters_the_modules_of_its_path(call: str, tmp_path: Path) -> None:
    """None is missing; the order is that of their first entry in the thread of the call."""
    stated = stated_path(call)
    entered = module_hops.CALLS[call](tmp_path)
    assert set(stated) <= set(entered)
    assert 0 < len(stated) <= MAX_MODULES[call]
    if call != "An order to a server":  # several threads work on it
        assert stated == [module for module in entered if module in stated]
