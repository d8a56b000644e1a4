"""Pages: the one template environment, for files on disk and for the server.

A page is a template and values. Values are escaped where they enter the page; nothing else writes
HTML. A *standalone* page contains its stylesheet and scripts and forbids every request, so that it
can be opened offline. A served page links to the files under ``/static``.

Examples
--------
>>> from wattveil.web.pages import render
>>> words = {"heading": "<b>", "text": ""}
>>> "&lt;b&gt;" in render("server/problem.html", principal=None, words=words, number=None)
True
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

from wattveil.web.budget_texts import SHARE_OF_BUDGET, label_budget
from wattveil.web.charts import ReportFigure
from wattveil.web.formatting import format_number, format_share
from wattveil.web.quality_terms import explained
from wattveil.web.svg_charts import series_colour, svg_chart

STATIC = Path(__file__).with_name("static")
MAIN = '<main id="content">'
"""Begins the part of a page that differs from page to page; ``</main>`` ends it."""


class TableCell(NamedTuple):
    """A cell of a table with an outcome: passed, failed, or None for neither."""

    text: str
    passed: bool | None

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class PageTable(NamedTuple):
    """A table as a page shows it."""

    title: str
    head: Sequence[str]
    """Titles of the columns; may be empty."""
    rows: Sequence[Sequence[str | TableCell]]
    text_columns: Sequence[int] = (0,)
    """Columns that hold text; the others are aligned to the right, as numbers are."""


def render(template: str, **values: object) -> str:
    """Return a page of the server, or a part of one, as HTML."""
    return _ENVIRONMENT.get_template(template).render(values, standalone=False)


def render_file(template: str, **values: object) -> str:
    """Return a page as HTML that needs no other file and makes no request."""
    return _ENVIRONMENT.get_template(template).render(values, standalone=True)


def write_internal_page(
    path: str | Path,
    template: str,
    *,
    title: str,
    facts: Sequence[tuple[str, str]],
    simulated: bool = False,
    **values: object,
) -> None:
    """Write a page with exact figures; its banner forbids publication.

    Parameters
    ----------
    template
        Name of a template in ``templates/internal``, without its ending.
    facts
        Numbers below the title, each with its name.
    simulated
        Whether all customers on the page are simulated. Only then may it be published, and the
        banner states it.
    values
        Further variables of the template.
    """
    page = render_file(
        f"internal/{template}.html", title=title, facts=facts, simulated=simulated, **values
    )
    Path(path).write_text(page, encoding="utf-8")


@cache
def asset(name: str) -> str:
    """Return the text of a stylesheet or script of the package, or of Plotly's script."""
    if name == "plotly.js":
        text: str = get_plotlyjs()
        return text
    return (STATIC / name).read_text(encoding="utf-8")


@cache
def static_address(name: str) -> str:
    """Return the address of a file on a server: it has a hash of the content, which never changes.

    A browser keeps such a file for good, and fetches another address after an upgrade.
    """
    stem, _, ending = name.rpartition(".")
    digest = hashlib.sha256(asset(name).encode()).hexdigest()[:12]
    return f"/static/{stem}.{digest}.{ending}"


def figure_json(figure: Figure) -> str:
    """Return a figure as JSON, for a ``data-figure`` attribute.

    Every figure enters a page through this function. It returns plain text, which the environment
    escapes like any other value: a name in a figure cannot end the attribute.
    """
    text: str = figure.to_json()
    return text


def by_caption(figures: Iterable[ReportFigure]) -> Iterator[tuple[str, list[ReportFigure]]]:
    """Yield each caption with the consecutive figures that share it."""
    for caption, group in groupby(figures, key=lambda one: one.caption):
        yield caption, list(group)


def subscripts(text: str) -> list[tuple[str, str]]:
    """Split a text such as ``ε_c`` into pairs of plain text and the subscript that follows it."""
    parts = [*re.split(r"(?<=[εδΔxn])_(\w)", text), ""]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _utc_text(at: str) -> str:
    """Return a time, an ISO text in UTC, to the minute.

    >>> _utc_text("2026-07-01T09:30:12.345678+00:00")
    '2026-07-01 09:30 UTC'
    """
    return f"{at[:16].replace('T', ' ')} UTC"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("wattveil.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "by_caption": by_caption,
        "explained": explained,
        "figure_json": figure_json,
        "number": format_number,
        "share": format_share,
        "utc": _utc_text,
        "subscripts": subscripts,
        "series_colour": series_colour,
        "svg": svg_chart,
    }
    environment.filters.update(filters)
    environment.globals["asset"] = asset
    environment.globals["label_budget"] = label_budget
    environment.globals["share_of_budget"] = SHARE_OF_BUDGET
    environment.globals["static_address"] = static_address
    return environment


_ENVIRONMENT = _environment()
