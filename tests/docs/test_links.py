"""Links, pictures and navigation: no broken link, no page outside the menu, no stray picture."""

import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.doc_pages import DOCS, PAGES, REPOSITORY, broken_links, name_of, parse
from tools.build_figures import IMAGES, PICTURES, PROFILES
from wattveil.lab.reproduce import FIGURES

SECTIONS = ["Tutorial", "How-to guides", "Reference", "Explanation"]
MAX_BYTES = 1_000_000
FEWEST_WORDS = 4
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_point_somewhere(page: Path) -> None:
    """Every relative link and picture is a file of the repository, every anchor a heading in it."""
    assert broken_links(page.read_text(), page.parent) == []


def test_a_broken_link_is_found() -> None:
    """A page, a picture and an anchor that are not there are named; what is there is not."""
    text = (
        "# A title, with words\n\n[a](nowhere.md) [b](ledger.md#nowhere) [c](#nowhere)"
        " ![d](nowhere.png) [e](ledger.md) [f](#a-title-with-words) `[g](nowhere.md)`"
        ' <img src="nowhere.svg"> [h](reference/http.md#request-and-response-bodies) [i](https://example.org/x)'
    )
    expected = ["nowhere.md", "ledger.md#nowhere", "#nowhere", "nowhere.png", "nowhere.svg"]
    assert broken_links(text, DOCS) == expected


def mute_pictures(text: str) -> list[str]:
    """Return the pictures of a page whose words do not say what they show."""
    found = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text)
    return [target for words, target in found if len(words.split()) < FEWEST_WORDS]


def test_pictures_have_words_for_those_who_do_not_see_them() -> None:
    """Every picture says in words what it shows; one that does not, planted here, is found."""
    assert mute_pictures("![](a.png) ![Figure](b.png) ![a curve with its band](c.png)") == [
        "a.png",
        "b.png",
    ]
    assert [name_of(page) for page in PAGES if mute_pictures(page.read_text())] == []


def test_every_page_is_in_one_of_four_parts() -> None:
    """The menu of the site lists every page of docs once, and no page that is not there."""
    menu = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"]
    assert [next(iter(section)) for section in menu] == SECTIONS
    listed = pages_in(menu)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def pages_in(menu: Any) -> list[str]:  # noqa: ANN401 - as YAML has it
    """Return the pages of a menu."""
    if isinstance(menu, str):
        return [menu]
    inner = menu.values() if isinstance(menu, dict) else menu
    return [page for one in inner for page in pages_in(one)]


def test_every_picture_has_a_builder() -> None:
    """`make figures`, `reproduction` and `leaderboard` build each picture of docs, no others."""
    built = {IMAGES / name for name in PICTURES} | {IMAGES / "leaderboard.svg"}
    built |= {DOCS / "reproduction" / f"{name}.svg" for name in FIGURES}
    assert {path for path in DOCS.rglob("*.*") if path.suffix not in {".md", ".css"}} == built


@pytest.mark.parametrize("command", sorted({*PICTURES.values(), *PROFILES}))
def test_the_commands_behind_pictures_exist(command: str) -> None:
    """The program reads the command that a picture shows the outcome of."""
    parse(shlex.split(command)[1:])


def test_pictures_are_small_and_whole() -> None:
    """The repository stays small; a picture is what its name says."""
    assert sum(path.stat().st_size for path in IMAGES.iterdir()) < MAX_BYTES
    for path in IMAGES.iterdir():
        if path.suffix == ".svg":
            assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314 - our own file
        else:
            assert path.read_bytes().startswith(PNG)
