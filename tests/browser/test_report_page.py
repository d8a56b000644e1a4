"""The report as people see it: in a real browser, on desktop and phone screens."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.sample_bundles import make_bundle

CHARTS = 3 + 2 + 3 + 2 + 1 + 1  # clusters, sizes and map, synthetic, load, shares, budget


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a release with every part."""
    out = tmp_path_factory.mktemp("browser") / "bundle"
    make_bundle(out)
    return out / "report.html"


def opened(browser: Browser, report: Path, *, width: int) -> tuple[Page, list[str]]:
    """Open the page at a width; return it with every complaint and every request but its own."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(report.as_uri())
    page.wait_for_function(f"() => document.querySelectorAll('.main-svg').length >= {CHARTS}")
    return page, [one for one in heard if one != report.as_uri()]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_renders_without_requests(browser: Browser, report: Path, width: int) -> None:
    """Every chart is drawn inside its place; no complaint, no request, nothing to the side."""
    page, heard = opened(browser, report, width=width)
    assert heard == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    places = page.evaluate(
        "[...document.querySelectorAll('[data-figure]')].map(chart => {"
        " const outer = chart.getBoundingClientRect();"
        " const inner = chart.querySelector('.main-svg').getBoundingClientRect();"
        " return [outer.width, inner.width, inner.height]; })"
    )
    assert len(places) == CHARTS
    for outer, inner, height in places:
        assert outer - 2 <= inner <= outer + 1
        assert height > 150
    assert page.locator("h1").inner_text() == "Load profiles of electricity customers"
    page.close()


def test_the_page_answers_prints_and_fetches_nothing(browser: Browser, report: Path) -> None:
    """A curve shows its number; paper works; the page itself forbids every way out."""
    page, _ = opened(browser, report, width=1280)
    chart = page.locator("[data-figure]").first.locator(".nsewdrag")
    shown = page.locator(".hoverlayer .hovertext").first
    size = chart.bounding_box()
    assert size is not None
    # Only near a curve, and noise decides where it is. Plotly answers a moment later.
    heights = range(4, int(size["height"]) - 4, 8)
    for pause, y in ((pause, y) for pause in (50, 500, 5_000) for y in heights):
        chart.hover(position={"x": size["width"] / 2, "y": y})
        page.wait_for_timeout(pause)
        if shown.is_visible():
            break
    assert ":" in (shown.text_content() or "")
    assert page.evaluate("fetch('data:text/plain,hello').then(() => false, () => true)")
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()
