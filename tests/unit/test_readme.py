"""The README is the first thing a newcomer runs, so it is run here too."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattveil.cli import app

pytestmark = pytest.mark.no_cover  # the tests of each verb cover its lines

README = Path(__file__).parents[2] / "README.md"


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The Python example in the README runs as it stands and prints the promise."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(README), "exec"), {})  # noqa: S102 - our own documentation
    assert "differentially private" in capsys.readouterr().out


def test_the_commands_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who types the README's commands, one after the other, gets to a checked bundle."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if "bin/wattveil" in line]
    assert len(lines) == 5
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
        assert result.exit_code == 0, result.output
    assert (tmp_path / "bundle" / "report.html").exists()


def test_links_point_somewhere() -> None:
    """Every relative link in the README leads to a file of the repository."""
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_commands_exist() -> None:
    """Every `make` target that the README names is in the Makefile."""
    named = set(re.findall(r"make ([a-z]+)", README.read_text()))
    makefile = (README.parent / "Makefile").read_text()
    assert {
        target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    } == set()
