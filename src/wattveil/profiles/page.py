"""The frame of a page with exact figures: it says on top that it stays in house."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from wattveil.errors import MissingExtraError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title} (private)</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 0; color: #1c2733; }}
.band {{ background: #b3261e; color: #fff; padding: 0.6rem 1.5rem; font-weight: 600; }}
main {{ max-width: 72rem; margin: 1rem auto; padding: 0 1.5rem; }}
h1 {{ font-size: 1.4rem; margin: 0.5rem 0; }}
ul {{ margin: 0.3rem 0; padding-left: 1.2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.2rem 0.8rem; text-align: left; border-bottom: 1px solid #dde3ea; }}
th, td:last-child {{ white-space: nowrap; }}
td.number {{ text-align: right; }}
.facts {{ display: flex; flex-wrap: wrap; gap: 2rem; margin: 0.8rem 0; }}
.facts b {{ display: block; font-size: 1.5rem; }}
</style>
</head>
<body>
<div class="band">PRIVATE: exact figures about customers, not protected. Do not publish.</div>
<main>
<h1>{title}</h1>
<div class="facts">{facts}</div>
{body}
</main>
</body>
</html>
"""


def private_page(title: str, facts: Iterable[tuple[str, str]], body: str) -> str:
    """Return a page.

    Parameters
    ----------
    title
        What it is about.
    facts
        Numbers that stand large below the title, each with its name.
    body
        The rest, as HTML.
    """
    large = "".join(f"<div><b>{escape(value)}</b>{escape(name)}</div>" for value, name in facts)
    return _PAGE.format(title=escape(title), facts=large, body=body)


def figure_html(figure: "Figure") -> str:
    """Return a figure with all it needs inside: the page asks for nothing from outside."""
    text: str = figure.to_html(full_html=False, include_plotlyjs=True)
    return text


def require_plots(feature: str) -> None:
    """Refuse at once where a page could not be drawn in the end."""
    try:
        import plotly  # noqa: F401, PLC0415 -- an extra, needed only for pages
    except ImportError as error:
        raise MissingExtraError(feature, "plots") from error
