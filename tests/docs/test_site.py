"""The site is built as `make docs` builds it: offline, strictly, whole."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.doc_pages import DOCS, REPOSITORY

OUTSIDE = re.compile(r"<(?:script|img|iframe)[^>]* src=\"https?:|<link[^>]* href=\"https?:|@import")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def test_the_site_is_whole_and_strict(tmp_path: Path) -> None:
    """The one link that leads nowhere, planted here, stops the build; all else is as it should be.

    Every page becomes one, generated ones are filled, and nothing is fetched from other hosts.
    """
    shutil.copytree(DOCS, tmp_path / "docs")
    (tmp_path / "docs" / "planted.md").write_text("# A page\n\n[a link](nowhere.md)\n")
    built = build(tmp_path)
    said = COLOURS.sub("", built.stdout + built.stderr)
    assert built.returncode != 0
    assert "1 issue found" in said, said
    assert "nowhere.md" in said

    site = tmp_path / "site"
    made = {str(path.relative_to(site)): path.read_text() for path in site.rglob("*.html")}
    names = {str(page.relative_to(DOCS).with_suffix(".html")) for page in DOCS.rglob("*.md")}
    assert {name.replace("README", "index") for name in names} <= set(made)
    assert [name for name, text in made.items() if OUTSIDE.search(text)] == []
    assert [name for name, text in made.items() if "<!-- generated:" in text] == []
    for name, words in {
        "api": "wattveil.LoadShapes",
        "command-line": "--clusters-by-group",
        "http": "/v1/datasets/{dataset}/quotes",
        "manifest": "squared_sensitivity_steps",
    }.items():
        assert words in made[f"reference/{name}.html"]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages in a folder with the settings of the repository."""
    (folder / "mkdocs.yml").write_bytes((REPOSITORY / "mkdocs.yml").read_bytes())
    (folder / "src").symlink_to(REPOSITORY / "src")
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
