"""The frame of a page with figures: one with exact figures says on top that it stays in house."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}{aside}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 0; color: #1c2733; }}
.band {{ background: {colour}; color: #fff; padding: 0.6rem 1.5rem; font-weight: 600; }}
main {{ max-width: 72rem; margin: 1rem auto; padding: 0 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.4rem; margin: 0.5rem 0; }}
h2 {{ font-size: 1.05rem; margin: 1rem 0 0.3rem; }}
.facts {{ display: flex; flex-wrap: wrap; gap: 0.8rem 2rem; margin: 0.8rem 0; }}
.facts b {{ display: block; font-size: 1.5rem; }}
.grid {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
  gap: 0.5rem 2rem; }}
.grid > * {{ min-width: 0; }}
table {{ border-collapse: collapse; width: 100%; font-size: 0.9rem; }}
th {{ text-align: left; vertical-align: bottom; padding-right: 0.8rem; }}
td {{ border-top: 1px solid #dde3e9; padding: 0.25rem 0.8rem 0.25rem 0; vertical-align: top; }}
.scroll {{ overflow-x: auto; overflow-wrap: normal; }}
.scroll td:first-child {{ min-width: 10em; }}
.number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
</style>
<script>{plotly}</script>
</head>
<body>
<div class="band">{band}</div>
<main>
<h1>{title}</h1>
<div class="facts">{facts}</div>
{body}
</main>
<script>
// The first figures are drawn before the grid has its columns; they take their width from it again.
addEventListener("load", () => dispatchEvent(new Event("resize")));
</script>
</body>
</html>
"""

_PRIVATE = "PRIVATE: exact figures about customers, not protected. Do not publish."


class Shown(NamedTuple):
    """A figure with its titles."""

    title: str
    figure: Figure
    x_title: str
    y_title: str


def private_page(title: str, facts: Sequence[tuple[str, str]], body: str) -> str:
    """Return a page with all it needs inside: it asks for nothing from outside.

    Parameters
    ----------
    title
        What it is about.
    facts
        Numbers that stand large below the title, each with its name.
    body
        The rest, as HTML.
    """
    return _page(title, facts, body, aside=" (private)", colour="#b3261e", band=_PRIVATE)


def public_page(title: str, facts: Sequence[tuple[str, str]], body: str, *, band: str) -> str:
    """Return the same page with other words on top: why nothing in it is private."""
    return _page(title, facts, body, aside="", colour="#2e7d32", band=band)


def _page(
    title: str, facts: Sequence[tuple[str, str]], body: str, *, aside: str, colour: str, band: str
) -> str:
    large = "".join(f"<div><b>{escape(value)}</b>{escape(name)}</div>" for value, name in facts)
    return _PAGE.format(
        title=escape(title),
        aside=aside,
        colour=colour,
        band=escape(band),
        facts=large,
        body=body,
        plotly=get_plotlyjs(),
    )


def figure_html(shown: Shown, *, height: str = "19rem") -> str:
    """Return a section with a figure."""
    drawn = styled(shown).to_html(
        full_html=False,
        include_plotlyjs=False,  # once a page
        config={"displayModeBar": False, "responsive": True},
        default_height=height,
    )
    return f"<section><h2>{escape(shown.title)}</h2>{drawn}</section>"


def styled(shown: Shown) -> Figure:
    """Return the figure with the titles of its axes, in the style of every page."""
    figure = shown.figure
    figure.update_layout(template="plotly_white", margin={"l": 10, "r": 10, "t": 10, "b": 10})
    figure.update_xaxes(title_text=shown.x_title, automargin=True)
    figure.update_yaxes(title_text=shown.y_title, automargin=True)
    return figure
