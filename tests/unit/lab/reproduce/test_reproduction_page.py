"""docs/reproduction.md and the tool that builds it."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.build_reproduction import TITLE, on_london, page, picture, table
from tools.drawing import HEIGHT, WIDTH
from wattveil.lab.reproduce import FIGURES, Outcome, Study
from wattveil.lab.reproduce.reproduction_page import Run
from wattveil.web.charts import new_figure, panel
from wattveil.web.pages import PageTable

DOCS = Path(__file__).parents[4] / "docs"


def some_run() -> Run:
    """Return a figure that was not drawn."""
    outcome = Outcome(
        numbers={},
        panels=[],
        found="found words",
        differs="other words",
        tables=[PageTable("of things", ["a", "b"], [["1", "2"]])],
    )
    return Run(FIGURES["filtering"], outcome, 61.0)


def test_the_page_shows_every_figure() -> None:
    """Each figure has its section, in order, and its picture, which is an SVG."""
    text = (DOCS / "reproduction.md").read_text()
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert titles[: len(FIGURES)] == [figure.title for figure in FIGURES.values()]
    for name, figure in FIGURES.items():
        assert f"](reproduction/{name}.svg)" in text
        assert f"**The paper.** {figure.paper}" in text
        root = ET.parse(DOCS / "reproduction" / f"{name}.svg").getroot()  # noqa: S314 - our own file
        assert root.tag.endswith("svg")


def test_texts_and_tables_are_on_the_page() -> None:
    """Texts, tables and times on the page are those of the run."""
    text = page(Study(fast=True), [some_run()])
    for words in ("found words", "other words", "| a | b |", "| 1 | 2 |", "took 61 seconds"):
        assert words in text
    assert table(PageTable("", ["x"], [["y"]])) == "| x |\n| --- |\n| y |"


def test_london_is_shown_only_if_it_was_run() -> None:
    """Without the data folder there is no such section."""
    assert on_london([]) == ""
    assert "found words" in on_london([some_run()])


def test_panels_stand_side_by_side() -> None:
    """Two panels fill a row, a third starts the next, a tall one has a row of its own."""
    small, tall = (panel(f"{n} & co", new_figure()) for n in ("small", "tall"))
    tall.figure.update_layout(height=900)
    drawn = picture([small, small, small, tall], lambda _: '<svg class="inner"></svg>')
    root = ET.fromstring(drawn)  # noqa: S314 - made here
    inner = [(own.get("x"), own.get("y")) for own in root if own.get("class") == "inner"]
    row = HEIGHT + TITLE
    places = [(0, TITLE), (WIDTH, TITLE), (0, row + TITLE), (0, 2 * row + TITLE)]
    assert inner == [(str(x), str(y)) for x, y in places]
    assert root.get("height") == str(2 * row + 900 + TITLE)
    assert "small &amp; co" in drawn
