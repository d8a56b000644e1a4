"""Documentation is run: every Python block of every page, in the order of the page."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_blocks_run(page: Path) -> None:
    """A reader who types a block gets what the page says; its claims are asserted in it."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, str(page), "exec"), {})  # noqa: S102 - our own documentation


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_links_point_somewhere(page: Path) -> None:
    """Every relative link leads to a file of the repository."""
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
