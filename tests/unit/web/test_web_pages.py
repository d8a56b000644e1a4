"""Pages: escaping, standalone and served form, tables, facts and banners."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from wattveil.web.charts import ReportFigure, new_figure
from wattveil.web.formatting import format_count, format_number, format_share
from wattveil.web.pages import (
    _ENVIRONMENT,
    STATIC,
    PageTable,
    TableCell,
    asset,
    by_caption,
    render,
    render_file,
    static_address,
    subscripts,
    write_internal_page,
)

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;{{ 7*7 }}"


def attack_page(path: Path, *, simulated: bool = False) -> str:
    """Write a page in which every value is hostile, and return it."""
    figure = new_figure()
    figure.add_scatter(x=[0, 1], y=[1, 2], name=HOSTILE, text=[HOSTILE, HOSTILE])
    shown = ReportFigure(HOSTILE, figure, caption=HOSTILE, alt=HOSTILE)
    facts = [(HOSTILE, HOSTILE)]
    write_internal_page(
        path, "filter", title=HOSTILE, facts=facts, figures=[shown], simulated=simulated
    )
    return path.read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Collects the tags and attributes of a page as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag."""
        self.found.append((tag, dict(attrs)))


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """A title, name, caption or figure with markup adds no tag and no attribute."""
    page = attack_page(tmp_path / "page.html")
    tags = Tags(page).found
    assert [tag for tag, _ in tags].count("script") == 2  # Plotly and ours
    assert not [tag for tag, _ in tags if tag == "img"]
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
    assert "49" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    figures = [json.loads(own["data-figure"] or "") for _, own in tags if "data-figure" in own]
    assert [figure["data"][0]["name"] for figure in figures] == [HOSTILE]
    assert HOSTILE in unescape(page)


def test_hostile_names_in_a_drawing_stay_text() -> None:
    """Names, titles of axes, labels, readings, flags and tables of a figure drawn as SVG."""
    figure = new_figure()
    figure.add_scatter(x=[0, 1], y=[1, 2], name=HOSTILE, text=[HOSTILE] * 2, mode="lines")
    figure.add_bar(x=[1], y=[HOSTILE], orientation="h", text=[HOSTILE], name=HOSTILE)
    figure.add_scatter(x=[0], y=[1], text=[HOSTILE], mode="markers+text")
    figure.update_xaxes(title_text=HOSTILE, tickvals=[0], ticktext=[HOSTILE])
    figure.update_yaxes(title_text=HOSTILE)
    shown = ReportFigure(
        HOSTILE,
        figure,
        caption=HOSTILE,
        alt=HOSTILE,
        flags=(TableCell(HOSTILE, passed=True),),
        table=PageTable(HOSTILE, (HOSTILE,), [(HOSTILE,)]),
    )
    macros = _ENVIRONMENT.get_template("macros.html").module
    page = str(vars(macros)["drawn_charts"]([shown]))
    tags = Tags(page).found
    assert not {"script", "img"} & {tag for tag, _ in tags}
    assert not any(name.startswith(("on", "style")) for _, own in tags for name in own)
    assert unescape(page).count(HOSTILE) >= 12


def test_a_hostile_table_stays_text() -> None:
    """Cells, heads and titles are escaped, with an outcome and without."""
    table = PageTable(HOSTILE, (HOSTILE,), [(HOSTILE,), (TableCell(HOSTILE, passed=True),)])
    page = render_file(
        "internal/audit.html",
        methods="",
        title="",
        facts=[],
        simulated=False,
        bounds=ReportFigure("", new_figure()),
        rows=table,
    )
    assert [tag for tag, _ in Tags(page).found].count("script") == 2
    assert "onerror=alert(2)&gt;" in page


def test_a_file_makes_no_request(tmp_path: Path) -> None:
    """Stylesheet and scripts are inside, and the page forbids every other source."""
    page = attack_page(tmp_path / "page.html")
    assert "default-src 'none'" in page
    linked = [own for _, own in Tags(page).found if {"src", "href"} & own.keys()]
    assert linked == [{"rel": "icon", "href": "data:,"}]
    assert asset("wattveil.css") in page
    assert asset("charts.js") in page


def test_a_served_page_links_to_its_files() -> None:
    """The server's pages hold no script, and name files that exist."""
    shown = {"principal": None, "refusal": None, "ended": False, "provider": False, "to": "/"}
    page = render("server/sign_in.html", **shown)
    assert "<style" not in page
    assert "<script>" not in page
    assert f'href="{static_address("wattveil.css")}"' in page
    templates = STATIC.with_name("templates") / "server"
    text = "".join(path.read_text(encoding="utf-8") for path in templates.glob("*.html"))
    named = re.findall(r"static_address\(\"([\w.]+)\"\)", text)
    assert len(named) >= 4
    for name in named:
        assert asset(name)
        assert re.fullmatch(r"/static/\w+\.[0-9a-f]{12}\.(js|css)", static_address(name))
    assert "/static/" not in text


def test_the_banner_depends_on_the_customers(tmp_path: Path) -> None:
    """Exact figures carry a warning; only pages of simulated customers are marked public."""
    internal = attack_page(tmp_path / "page.html")
    assert '<p class="banner">INTERNAL: exact figures, not for publication</p>' in internal
    assert "(internal)</title>" in internal
    simulated = attack_page(tmp_path / "page.html", simulated=True)
    assert "INTERNAL: exact" not in simulated
    assert "(internal)</title>" not in simulated
    assert "Simulated customers only: this page may be published." in simulated


def test_a_missing_value_is_an_error() -> None:
    """A template that lacks a value fails instead of leaving a gap."""
    with pytest.raises(UndefinedError, match="words"):
        render("server/problem.html", principal=None)


def test_the_same_values_give_the_same_page(tmp_path: Path) -> None:
    """`verify` renders a report again and compares by the letter."""
    assert attack_page(tmp_path / "one.html") == attack_page(tmp_path / "two.html")


def test_figures_with_one_caption_stand_together() -> None:
    """Captions are shown once for the consecutive figures that share them."""
    figures = [ReportFigure(title, None, caption) for title, caption in ("aA", "bA", "cB", "dA")]
    grouped = [(caption, "".join(one.title for one in own)) for caption, own in by_caption(figures)]
    assert grouped == [("A", "ab"), ("B", "c"), ("A", "d")]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("plain", [("plain", "")]),
        ("ε_c and δ_l", [("ε", "c"), (" and δ", "l"), ("", "")]),
        ("snake_case", [("snake_case", "")]),
        ("", [("", "")]),
    ],
)
def test_subscripts_of_the_paper(text: str, pairs: list[tuple[str, str]]) -> None:
    """An underscore after a symbol of the paper makes a subscript; others stay."""
    assert subscripts(text) == pairs


def test_a_table_marks_pass_and_fail() -> None:
    """An outcome has its class; a cell without one is plain; numbers are aligned to the right."""
    table = PageTable(
        "T",
        ("a", "b"),
        [("x", TableCell("yes", passed=True)), ("y", TableCell("no", passed=False))],
    )
    page = render_file(
        "internal/audit.html",
        methods="",
        title="",
        facts=[],
        simulated=False,
        bounds=ReportFigure("", new_figure()),
        rows=table,
    )
    assert '<tr><td>x</td><td class="number"><span class="pass">yes</span></td></tr>' in page
    assert '<tr><td>y</td><td class="number"><span class="fail">no</span></td></tr>' in page
    assert '<th>a</th><th class="number">b</th>' in page


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (float("nan"), "none"),
        (float("inf"), "∞"),
        (float("-inf"), "-∞"),
        (1234.5, "1,234"),
        (0.123456, "0.123"),
        (999.4, "999"),
    ],
)
def test_numbers_of_tables(number: float, text: str) -> None:
    """Three significant digits, whole from 1,000 on, text for values that are not numbers."""
    assert format_number(number) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 7, "0.00 %"),
        (1, 10**6, "< 0.01 %"),
        (1, 20_000, "0.01 %"),
        (1, 8, "12.50 %"),
        (10**6 - 1, 10**6, "> 99.99 %"),
        (7, 7, "100.00 %"),
    ],
)
def test_small_counts_are_never_zero_percent(part: int, whole: int, text: str) -> None:
    """Only none is 0 %, and only all is 100 %."""
    assert format_share(part / whole, 2) == text


def test_a_share_of_nothing_is_no_number() -> None:
    """As other numbers that are none."""
    assert format_share(float("nan")) == "none"


@given(
    number=st.floats(min_value=1e-6, max_value=1e9),
    digits=st.integers(min_value=2, max_value=5),
    sign=st.sampled_from([1.0, -1.0]),
)
def test_loads_have_no_exponent_and_enough_digits(number: float, digits: int, sign: float) -> None:
    """From a milliwatt to a terawatt, in plain digits, within half of the last one."""
    text = format_number(sign * number, digits)
    assert set(text) <= set("-0123456789.,")
    assert float(text.replace(",", "")) == pytest.approx(
        sign * number, rel=0.5 * 10.0 ** (1 - digits)
    )


def test_counts_have_a_plural_unless_one() -> None:
    """Also nouns that end in y."""
    assert [format_count(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert format_count(1000, "entry") == "1,000 entries"
