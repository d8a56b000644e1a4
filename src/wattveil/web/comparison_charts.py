"""Charts and tables that compare synthetic customers with real ones and with a control."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from plotly.graph_objects import Figure

from wattveil.web.charts import (
    BLUE,
    GREY,
    ORANGE,
    Line,
    ReportFigure,
    line_figure,
    new_figure,
    outcome_colour,
    panel,
)
from wattveil.web.pages import PageTable, TableCell

POPULATIONS = {"real": BLUE, "synthetic": ORANGE, "centroids only": GREY}
_SHOWN_RATIOS = (0.03, 30.0)
_ROW_PX, _FRAME_PX = 24, 90
_NAME_PX = 11
"""Names of metrics are long, and a phone is narrow."""

Outcomes = Mapping[str, bool | None]
"""Whether each verdict is a pass; None if it is undecided. A verdict that is not listed was not
measured."""


class ComparedMetric(Protocol):
    """A metric of synthetic customers, relative to the variability of real ones."""

    @property
    def metric(self) -> str: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def low(self) -> float: ...  # noqa: D102
    @property
    def high(self) -> float: ...  # noqa: D102
    @property
    def noise(self) -> float: ...  # noqa: D102
    @property
    def smallest_detectable(self) -> float: ...  # noqa: D102
    @property
    def ratio(self) -> float: ...  # noqa: D102
    @property
    def control_ratio(self) -> float: ...  # noqa: D102
    @property
    def verdict(self) -> str: ...  # noqa: D102


def population_lines(points: Sequence[tuple[object, object]]) -> Figure:
    """Draw a line for each of `POPULATIONS`; the control is dotted."""
    lines = [
        Line(name, np.asarray(x), np.asarray(y), colour, "dot" if colour == GREY else "solid")
        for (name, colour), (x, y) in zip(POPULATIONS.items(), points, strict=True)
    ]
    return line_figure(lines)


def population_histogram(
    samples: Sequence[NDArray[np.float64]], edges: NDArray[np.float64]
) -> Figure:
    """Draw the share of each population's values in every bin."""
    points = []
    for values in samples:
        share = np.histogram(values, bins=edges)[0] / max(values.size, 1)
        points.append((edges, np.append(share, share[-1])))  # to the right edge of the last bin
    figure = population_lines(points)
    figure.update_traces(line_shape="hv")
    figure.data[0].fill = "tozeroy"
    return figure


def ratio_chart(rows: Sequence[ComparedMetric], title: str, outcomes: Outcomes) -> ReportFigure:
    """Draw the ratio of every metric that was measured, with its interval, and the control's.

    Ratios outside the axis stand at its end; hovering shows their value.
    """
    measured = [row for row in rows if row.verdict in outcomes]
    figure = new_figure(height=_FRAME_PX + _ROW_PX * len(measured))
    low, high = _SHOWN_RATIOS

    def shown(ratio: float) -> float:
        return min(max(ratio, low), high)

    for name, ratios, colours, symbol in (
        ("centroids only", [row.control_ratio for row in measured], GREY, "x"),
        (
            "synthetic",
            [row.ratio for row in measured],
            [outcome_colour(outcomes[row.verdict]) for row in measured],
            "circle",
        ),
    ):
        figure.add_scatter(
            x=[shown(ratio) for ratio in ratios],
            y=[row.metric for row in measured],
            mode="markers",
            marker={"color": colours, "size": 9, "symbol": symbol},
            text=[f"{ratio:.2f}" for ratio in ratios],
            name=name,
        )
    figure.data[-1].error_x = {
        "array": [shown(_over(row, row.high)) - shown(row.ratio) for row in measured],
        "arrayminus": [shown(row.ratio) - shown(_over(row, row.low)) for row in measured],
        "symmetric": False,
        "thickness": 1,
    }
    figure.add_vline(x=1.0, line_dash="dash")
    figure.update_xaxes(type="log", dtick=1)
    figure.update_yaxes(autorange="reversed", dtick=1, tickfont={"size": _NAME_PX})
    return panel(title, figure, "ratio")


def _over(row: ComparedMetric, end: float) -> float:
    """Return an end of the interval over the noise; that of the ratio where there is no noise."""
    return end / row.noise if row.noise > 0.0 else row.ratio


def verdict_table(
    rows: Sequence[ComparedMetric],
    columns: Mapping[str, Callable[[Any], str]],
    outcomes: Outcomes,
    *,
    named: tuple[str, str] = ("metric", "unit"),
    parts: Callable[[Any], Sequence[str]] = lambda row: (row.metric, row.unit),
) -> PageTable:
    """Return a table with a row per metric.

    Parameters
    ----------
    columns
        Title of a column, and what it shows of a row.
    named, parts
        Titles of the first two columns, and what they show of a row.
    """
    head = (*named, *columns, "verdict")
    cells: list[tuple[str | TableCell, ...]] = [
        (
            *parts(row)[:2],
            *(shown(row) for shown in columns.values()),
            TableCell(str(row.verdict), outcomes.get(row.verdict)),
        )
        for row in rows
    ]
    return PageTable("", head, cells, text_columns=(0, 1, len(head) - 1))
