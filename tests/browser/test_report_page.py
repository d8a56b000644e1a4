"""The report as people see it: in a real browser, on desktop and phone screens, and on paper."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.sample_bundles import make_bundle

CHARTS = 3 + 2 + 3 + 2 + 1 + 1  # clusters, sizes and map, synthetic, load, shares, budget
MAX_BYTES = 1_500_000
CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = rgb => rgb.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim()) continue;
    if (!element.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(element);
    const ink = parse(element.ownerSVGElement ? style.fill : style.color);
    const [dim, bright] = [luminance(ink), luminance(ground(element))].sort((a, b) => a - b);
    const ratio = (bright + 0.05) / (dim + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim()}`);
  }
  return low;
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a release with every part."""
    out = tmp_path_factory.mktemp("browser") / "bundle"
    make_bundle(out)
    return out / "report.html"


def opened(
    browser: Browser, report: Path, *, width: int, dark: bool = False
) -> tuple[Page, list[str]]:
    """Open the page at a width; return it with every complaint and every request but its own."""
    page = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
    )
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(report.as_uri())
    return page, [one for one in heard if one != report.as_uri()]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_renders_without_requests(browser: Browser, report: Path, width: int) -> None:
    """Every chart fills its place; no complaint, no request, no script, nothing to the side."""
    page, heard = opened(browser, report, width=width)
    assert heard == []
    assert report.stat().st_size <= MAX_BYTES
    assert page.locator("script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('.unsupported').forEach(one => one.open = true)")
    places = page.evaluate(
        "[...document.querySelectorAll('.plot')].map(chart => {"
        " const outer = chart.getBoundingClientRect();"
        " const inner = chart.querySelector('svg.wide').getBoundingClientRect();"
        " return [outer.width, inner.width, inner.right - outer.right, inner.height]; })"
    )
    assert len(places) == CHARTS
    for outer, inner, beyond, height in places:
        assert outer - 180 <= inner <= outer
        assert abs(beyond) <= 1
        assert height > 60
    outside = page.evaluate(
        "[...document.querySelectorAll('.plot text')].filter(text => {"
        " const box = text.getBoundingClientRect();"
        " return box.left < 0 || box.right > innerWidth; }).map(text => text.textContent)"
    )
    assert outside == []
    for text in page.locator("summary").all():
        text.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").inner_text() == "Load profiles of electricity customers"
    page.close()


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible(browser: Browser, report: Path, *, dark: bool) -> None:
    """Headings in order, contrast of 4.5, a text and a table for every chart, keyboard alone."""
    page, _ = opened(browser, report, width=1280, dark=dark)
    for text in page.locator("summary").all():
        text.click()
    levels = [
        int(tag[1])
        for tag in page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4')].map(one => one.tagName)"
        )
    ]
    assert levels[0] == levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert page.evaluate(CONTRAST) == []
    labels = page.evaluate("[...document.querySelectorAll('[role=img]')].map(one => one.ariaLabel)")
    assert len(labels) == CHARTS
    assert len(set(labels)) == CHARTS
    assert all(re.search(r"\d", label) for label in labels)
    groups = page.locator("section > .charts")
    tables = page.locator(":is(.charts, .unsupported) + details.data table")
    assert groups.count() == tables.count() - 2  # two of two
    page.close()


def test_numbers_open_by_keyboard(browser: Browser, report: Path) -> None:
    """Tab reaches the numbers behind the first charts, Enter opens them, and focus is visible."""
    page, _ = opened(browser, report, width=1280)
    table = page.locator("details.data table").first
    assert not table.is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert table.is_visible()
    assert table.locator("tbody tr").count() == 24
    page.close()


def test_the_theme_changes_figures_too(browser: Browser, report: Path) -> None:
    """Page and curves have other colours in the dark, and paper is light."""
    colours = []
    for dark in (False, True):
        page, _ = opened(browser, report, width=1280, dark=dark)
        shown = (
            "[document.body, document.querySelector('polyline')].map(one => getComputedStyle(one))"
        )
        colours.append(page.evaluate(f"{shown}.map(style => style.backgroundColor + style.stroke)"))
        page.emulate_media(media="print")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        page.close()
    light, dark_ones = colours
    assert all(one != other for one, other in zip(light, dark_ones, strict=True))


def test_the_page_answers_prints_and_fetches_nothing(browser: Browser, report: Path) -> None:
    """A curve shows its number; paper has all limits; the page itself forbids every way out."""
    page, _ = opened(browser, report, width=1280)
    strips = page.locator(".plot").first.locator(".reading")
    strip = strips.nth(12)
    assert not strip.locator("text").is_visible()
    strip.locator("rect").hover()
    assert strip.locator("text").is_visible()
    assert re.match(r"12:00, kW per customerhome .*\d ± .*\d", strip.text_content() or "")
    assert page.evaluate("fetch('data:text/plain,hello').then(() => false, () => true)")
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 7
    page.emulate_media(media="print")
    assert page.locator("details.data").first.is_hidden()
    page.close()
