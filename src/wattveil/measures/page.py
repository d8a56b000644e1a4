"""Pictures and tables that pages on synthetic customers share."""

from collections.abc import Sequence
from html import escape
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from plotly.graph_objects import Figure

from wattveil.measures.verdicts import Verdict
from wattveil.profiles.page import Shown
from wattveil.profiles.text import shown

BLUE, ORANGE, GREY = "#2563a8", "#d9730d", "#9aa5b1"
POPULATIONS = {"real": BLUE, "synthetic": ORANGE, "centroids only": GREY}
COLOURS: dict[str, str] = {
    Verdict.INSIDE: "#2e7d32",
    Verdict.DETECTABLE: "#b3261e",
    Verdict.NO_PROOF: GREY,
}
_SHOWN_RATIOS = (0.03, 30.0)


class Judged(Protocol):
    """A row of a table with verdicts."""

    @property
    def metric(self) -> str: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def ratio(self) -> float: ...  # noqa: D102
    @property
    def control_ratio(self) -> float: ...  # noqa: D102
    @property
    def verdict(self) -> str: ...  # noqa: D102


def new_figure() -> Figure:
    """Return an empty figure with its legend on top."""
    figure = Figure()
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return figure


def curves(points: Sequence[tuple[object, object]]) -> Figure:
    """Draw a line for each of `POPULATIONS`; the control is dotted."""
    figure = new_figure()
    for (name, colour), (x, y) in zip(POPULATIONS.items(), points, strict=True):
        line = {"color": colour, "dash": "dot" if colour == GREY else "solid"}
        figure.add_scatter(x=x, y=y, name=name, line=line, mode="lines")
    return figure


def shares(samples: Sequence[NDArray[np.float64]], edges: NDArray[np.float64]) -> Figure:
    """Draw the share of each population's values in every bin."""
    points = []
    for values in samples:
        share = np.histogram(values, bins=edges)[0] / max(values.size, 1)
        points.append((edges, np.append(share, share[-1])))  # to the right edge of the last bin
    figure = curves(points)
    figure.update_traces(line_shape="hv")
    figure.data[0].fill = "tozeroy"
    return figure


def ratio_figure(rows: Sequence[Judged], title: str) -> Shown:
    """Draw every ratio; those beyond the frame stand at its edge, their number is in the hint."""
    figure = new_figure()
    low, high = _SHOWN_RATIOS
    for name, ratios, colours, symbol in (
        ("centroids only", [row.control_ratio for row in rows], GREY, "x"),
        (
            "synthetic",
            [row.ratio for row in rows],
            [COLOURS[row.verdict] for row in rows],
            "circle",
        ),
    ):
        figure.add_scatter(
            x=[min(max(ratio, low), high) for ratio in ratios],
            y=[row.metric for row in rows],
            mode="markers",
            marker={"color": colours, "size": 9, "symbol": symbol},
            text=[f"{ratio:.2f}" for ratio in ratios],
            name=name,
        )
    figure.add_vline(x=1.0, line_dash="dash")
    figure.update_xaxes(type="log")
    figure.update_yaxes(autorange="reversed", dtick=1)
    return Shown(title, figure, "ratio", "")


def verdict_table(rows: Sequence[Judged], columns: dict[str, str]) -> str:
    """Return the rows as an HTML table.

    Parameters
    ----------
    columns
        Attribute of a row and its title, for the numbers.
    """
    titles = "".join(f'<th class="number">{title}</th>' for title in columns.values())
    head = f"<th>metric</th><th>unit</th>{titles}<th>verdict</th>"
    lines = []
    for row in rows:
        values = (shown(getattr(row, name)) for name in columns)
        cells = "".join(f'<td class="number">{value}</td>' for value in values)
        colour = COLOURS.get(row.verdict, "inherit")
        lines.append(
            f"<tr><td>{escape(row.metric)}</td><td>{escape(row.unit)}</td>{cells}"
            f'<td style="color: {colour}">{escape(str(row.verdict))}</td></tr>'
        )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<div class='scroll'>{table}</div>"
