"""Documentation is run: every block of every page, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattveil.cli import app

pytestmark = pytest.mark.no_cover  # the tests of each verb cover its lines

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who types a block gets what the page says; its claims are asserted in it."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|console)\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, str(page), "exec"), {})  # noqa: S102 - our own documentation
        else:
            for line in block.splitlines():
                command, *arguments = shlex.split(line)
                assert command == "wattveil"
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_links_point_somewhere(page: Path) -> None:
    """Every relative link leads to a file of the repository."""
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
