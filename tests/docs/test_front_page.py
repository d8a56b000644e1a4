"""What a newcomer sees first says nothing that the pages behind it do not."""

import re
import tomllib

import yaml

from tests.doc_pages import DOCS, REPOSITORY

README = (REPOSITORY / "README.md").read_text()
MAX_LINES = 110
"""Longer texts belong in docs/."""


def test_it_is_short() -> None:
    """A visitor decides within a minute."""
    assert len(README.splitlines()) <= MAX_LINES


def test_compared_losses_are_those_of_the_leaderboard() -> None:
    """A row of ratios in the README begins a row of docs/leaderboard.md, figure by figure."""
    ratio = r"\**[\d.]+\** \([\d.]+\)"
    rows = re.findall(rf"^\| [^|]+ \| {ratio} \| {ratio} \|$", README, flags=re.MULTILINE)
    assert len(rows) >= 6
    page = (DOCS / "leaderboard.md").read_text()
    assert [row for row in rows if f"\n{row}" not in page] == []


def test_commands_behind_figures_exist() -> None:
    """Every benchmark that the README names is there."""
    scripts = re.findall(r"python (benchmarks/\w+\.py)", README)
    assert scripts
    assert [script for script in scripts if not (REPOSITORY / script).exists()] == []


def test_the_citation_is_of_this_version() -> None:
    """CITATION.cff has what its format demands, and the version and licence of the package."""
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["version"] == project["version"]
    assert cited["license"] == project["license"]
    (paper,) = cited["references"]
    assert paper["doi"].startswith("10.")
    assert len(paper["authors"]) == 8
