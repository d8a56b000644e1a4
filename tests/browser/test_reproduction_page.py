"""The page of the paper's figures in a real browser, on desktop and phone screens."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from wattveil.lab.reproduce import FIGURES, Study
from wattveil.lab.reproduce.reproduction_page import PAGE, Run, write_figures

NAMES = ("label-set", "mixture-performance")
PANELS = 2 + 4


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two figures that need no customers."""
    folder, study = tmp_path_factory.mktemp("reproduction"), Study(fast=True)
    runs = [Run(FIGURES[name], FIGURES[name].run(study), 0.0) for name in NAMES]
    write_figures(study, runs, folder)
    return folder / PAGE


@pytest.mark.parametrize("width", [1280, 390])
def test_every_panel_is_drawn_in_its_place(browser: Browser, page_file: Path, width: int) -> None:
    """No complaint, no request, nothing to the side, and a picture in every panel."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(page_file.as_uri())
    page.wait_for_function(
        f"() => document.querySelectorAll('.plotly .main-svg').length >= {PANELS}"
    )
    assert [one for one in heard if one != page_file.as_uri()] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    widths = page.evaluate(
        "[...document.querySelectorAll('.js-plotly-plot')].map("
        "chart => chart.querySelector('.main-svg').getBoundingClientRect().width)"
    )
    assert len(widths) == PANELS
    assert all(200 < own <= width for own in widths)
    page.close()
