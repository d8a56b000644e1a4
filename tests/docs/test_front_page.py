"""What a newcomer sees first says nothing that the pages behind it do not."""

import re
import tomllib

import yaml

from tests.doc_pages import DOCS, REPOSITORY

README = (REPOSITORY / "README.md").read_text()
MAX_LINES = 110
"""Longer texts belong in docs/."""

COMPARED = {
    "**Wattveil, global tier**": "global",
    "leave-one-out noise (Ravi et al. 2022)": "paper",
    "Gaussian DP-Lloyd, non-private bounds": "gaussian-lloyd",
    "diffprivlib 0.6, non-private bounds": "diffprivlib",
    "one private mean profile, no clusters": "mean",
}


def test_it_is_short() -> None:
    """A visitor decides within a minute."""
    assert len(README.splitlines()) <= MAX_LINES


def test_compared_losses_are_those_of_the_benchmark() -> None:
    """A loss in the README is one of docs/baselines.md at ε = 1, rounded."""
    simulated, london = (DOCS / "baselines.md").read_text().split("**London**")
    for label, mechanism in COMPARED.items():
        row = rf"^\| {re.escape(label)} \| \**([\d.]+)\** \| \**([\d.]+)\** \|"
        said = re.search(row, README, flags=re.MULTILINE)
        assert said is not None, label
        for page, shown in zip((simulated, london), said.groups(), strict=True):
            third = rf"^\| `{mechanism}` \|(?: [^|]* \|){{2}} ([\d.]+) "  # after ε = 0.1 and 0.3
            measured = re.search(third, page, flags=re.MULTILINE)
            assert measured is not None, mechanism
            digits = len(shown.partition(".")[2])
            assert f"{float(measured[1]):.{digits}f}" == shown, label


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
