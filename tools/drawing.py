"""Figures as SVG, and screenshots, by the distribution's Chromium."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from urllib.parse import unquote

from playwright.sync_api import Browser, sync_playwright
from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

WIDTH, HEIGHT = 460, 300
COLUMNS = 2

Draw = Callable[[Figure], str]


def find_chromium() -> str | None:
    """Return the distribution's Chromium, None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser."""
    program = find_chromium()
    if program is None:
        sys.exit("Chromium is needed to draw the pictures; on Debian: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def drawing_in(browser: Browser) -> Draw:
    """Load Plotly; what is returned draws a figure as SVG."""
    tab, numbers = browser.new_page(), count()
    tab.add_script_tag(content=get_plotlyjs())

    def draw(figure: Figure) -> str:
        height = figure.layout.height or HEIGHT
        width = COLUMNS * WIDTH if height > HEIGHT else WIDTH
        url = tab.evaluate(
            "([figure, width, height]) => Plotly.toImage("
            "JSON.parse(figure), {format: 'svg', width, height})",
            [figure.to_json(), width, height],
        )
        return _lighter(unquote(url.split(",", 1)[1]), next(numbers))

    return draw


def _lighter(svg: str, number: int) -> str:
    """Shorten colours, and put a number where Plotly has a random name.

    The same figure is then the same file.
    """
    plain = r'style="(?:vector-effect: none; )?opacity: 1; stroke-width: 0(?:px)?;'
    svg = re.sub(plain + r' fill: (rgb\([^)]*\)); fill-opacity: 1;"', r'fill="\1"', svg)
    found = re.search(r'id="defs-(\w+)"', svg)
    return svg.replace(found[1], f"figure{number}") if found else svg
