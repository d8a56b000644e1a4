"""How curves look in every figure: the paper's are dashed, the honest ones solid."""

from collections.abc import Sequence
from typing import NamedTuple

from numpy.typing import ArrayLike
from plotly.graph_objects import Figure

from wattveil.publish.figures import COLOURS

BLUE, ORANGE, GREEN, PINK, BROWN, SKY, VIOLET, GREY = COLOURS


class Line(NamedTuple):
    """A curve and how it looks."""

    name: str
    x: ArrayLike
    y: ArrayLike
    colour: str
    dash: str = "solid"


def new_figure() -> Figure:
    """Return an empty figure with its legend above."""
    figure = Figure()
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return figure


def curves(lines: Sequence[Line], *, log_x: bool = False, log_y: bool = False) -> Figure:
    """Draw curves."""
    figure = new_figure()
    for line in lines:
        style = {"color": line.colour, "dash": line.dash}
        figure.add_scatter(x=line.x, y=line.y, name=line.name, line=style, mode="lines")
    if log_x:
        figure.update_xaxes(type="log", dtick=1, exponentformat="power")
    if log_y:
        figure.update_yaxes(type="log", exponentformat="power")
    return figure


def add_band(
    figure: Figure, x: ArrayLike, low: ArrayLike, high: ArrayLike, *, name: str, colour: str
) -> None:
    """Shade what lies between two curves."""
    invisible = {"width": 0}
    figure.add_scatter(x=x, y=low, line=invisible, showlegend=False, hoverinfo="skip")
    figure.add_scatter(
        x=x,
        y=high,
        line=invisible,
        fill="tonexty",
        fillcolor=_translucent(colour),
        name=name,
        hoverinfo="skip",
    )


def _translucent(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.25)"
