"""The chart style of every page: colours, fonts, grid, and constructors of figures.

Every figure begins with `new_figure`, so that the report, the internal pages and the server show
the same style. A figure goes into a page as a `ReportFigure`; the templates draw it.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from plotly.graph_objects import Figure, layout

from wattveil.arrays import Floats

if TYPE_CHECKING:
    from wattveil.web.pages import PageTable, TableCell

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#5b4a9e", "#7a7a7a")
"""Distinguishable with colour-vision deficiency: after Okabe and Ito, with a darker yellow."""
BLUE, ORANGE, GREEN, PINK, BROWN, SKY, VIOLET, GREY = COLOURS
PALE = "#c9d1d9"
PASS, FAIL, UNDECIDED = "#2e7d32", "#b3261e", GREY
"""Colours of the outcome of a test, which is also given as text."""
INK, _GRID = "#1c2733", "#dfe5ea"

_MIN_TICKS, _MAX_TICKS = 2, 12

TWO_SIDED_95 = 1.96
"""Standard errors on either side of an estimate that a 95 % band covers."""
BANDS = f"Bands are 95 % intervals (± {TWO_SIDED_95} standard errors, SE)"
"""Begins what every caption says of bands."""

_AXIS = {
    "automargin": True,
    "gridcolor": _GRID,
    "linecolor": _GRID,
    "zerolinecolor": _GRID,
    "title": {"standoff": 8},
}


class ReportFigure(NamedTuple):
    """A figure as a page shows it."""

    title: str
    figure: Figure
    caption: str = ""
    """What the figure shows and how to read it; may be empty."""
    alt: str = ""
    """Text for readers who do not see the figure; the title if empty."""
    flags: Sequence["TableCell"] = ()
    """What holds or does not hold for what the figure shows, in words."""
    is_faded: bool = False
    """Whether the figure is drawn pale, because noise may explain what it shows."""
    is_supported: bool = True
    """False: noise may explain it, so that a report shows it in a closed part of the page."""
    table: "PageTable | None" = None
    """The numbers of the figure, or of it and those after it that have its caption."""


def new_figure(*, height: int = 300, legend: bool = True) -> Figure:
    """Return an empty figure in the style of all pages.

    Parameters
    ----------
    height
        In pixels; the width is that of the place in the page.
    legend
        Whether traces are named above the plot.
    """
    return Figure(layout={"template": _template(), "height": height, "showlegend": legend})


@cache
def _template() -> layout.Template:
    """Return the style; it is made when the first figure is, since most processes draw none."""
    return layout.Template(
        layout={
            "colorway": COLOURS,
            "dragmode": False,  # a finger on a phone scrolls the page
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
            "hovermode": "closest",
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "margin": {"l": 10, "r": 12, "t": 14, "b": 10},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "shapedefaults": {"line": {"color": GREY, "width": 1.5}},  # limits, on either ground
            "xaxis": _AXIS,
            "yaxis": _AXIS,
        }
    )


def panel(title: str, figure: Figure, x_title: str = "", y_title: str = "") -> ReportFigure:
    """Return a figure with the titles of its axes."""
    figure.update_xaxes(title_text=x_title)
    figure.update_yaxes(title_text=y_title)
    return ReportFigure(title, figure)


def colour(number: int) -> str:
    """Return the colour of a cluster or group, the same in every figure."""
    return COLOURS[number % len(COLOURS)]


def outcome_colour(passed: bool | None) -> str:  # noqa: FBT001 - the outcome is the argument
    """Return the colour of a test that passed, failed or is undecided (None)."""
    return UNDECIDED if passed is None else PASS if passed else FAIL


class Line(NamedTuple):
    """A line and its style."""

    name: str
    x: ArrayLike
    y: ArrayLike
    colour: str
    dash: str = "solid"


def line_figure(
    lines: Sequence[Line], *, log_x: bool = False, log_y: bool = False, height: int = 300
) -> Figure:
    """Return a figure of lines."""
    figure = new_figure(height=height)
    for line in lines:
        style = {"color": line.colour, "dash": line.dash}
        figure.add_scatter(x=line.x, y=line.y, name=line.name, line=style, mode="lines")
    if log_x:
        figure.update_xaxes(type="log", dtick=1, exponentformat="power")
    if log_y:
        figure.update_yaxes(type="log", exponentformat="power")
    return figure


def use_log_axes(figure: Figure, *, x: bool = False, y: bool = False) -> None:
    """Make axes logarithmic, with labelled ticks at 1, 2 and 5 times powers of ten.

    By default Plotly labels the ticks between powers of ten with their first digit only.
    """
    for name, update, wanted in (("x", figure.update_xaxes, x), ("y", figure.update_yaxes, y)):
        if wanted:
            seen = [np.asarray(getattr(trace, name), dtype=float) for trace in figure.data]
            update(type="log", tickvals=_log_ticks(np.concatenate([[], *seen])))


def _log_ticks(values: Floats) -> list[float] | None:
    """Return the ticks between the positive values; None, for those of Plotly, if too few."""
    seen = values[np.isfinite(values) & (values > 0.0)]
    if not seen.size:
        return None
    low, high = float(seen.min()), float(seen.max())
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) > _MAX_TICKS:
        return [float(f"1e{power}") for power in powers]
    return inside if len(inside) >= _MIN_TICKS else None


def add_band(
    figure: Figure,
    x: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    colour: str,
    opacity: float = 0.2,
    name: str = "",
    group: str | None = None,
) -> None:
    """Shade the area between two curves.

    Parameters
    ----------
    name
        Name in the legend; empty: the band is not listed.
    group
        Traces of one group are hidden and shown together.
    """
    along = np.asarray(x)
    figure.add_scatter(
        x=np.concatenate([along, along[::-1]]).tolist(),
        y=np.concatenate([np.asarray(high), np.asarray(low)[::-1]]),
        fill="toself",
        fillcolor=colour,
        opacity=opacity,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        name=name,
        showlegend=bool(name),
        legendgroup=group,
    )


def label_times(figure: Figure, times: Sequence[str]) -> None:
    """Label a few hours of one day, or the first slot of each day type or season.

    Parameters
    ----------
    times
        Label of each slot, such as ``07:30`` or ``winter weekday 07:30``; slots are numbered from 0
        on the x axis.
    """
    parts = [time.rpartition(" ")[0] for time in times]
    starts = [place for place, part in enumerate(parts) if place == 0 or part != parts[place - 1]]
    if len(starts) == 1:
        starts = list(range(0, len(times), max(len(times) // 4, 1)))
        names = [times[start] for start in starts]
    else:
        names = [parts[start] for start in starts]
    figure.update_xaxes(tickvals=starts, ticktext=names, tickangle=0, ticks="outside", ticklen=6)
