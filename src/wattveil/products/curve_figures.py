"""Figures of released load curves, for the report sections of several products."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from plotly.graph_objects import Figure

from wattveil.arrays import Floats
from wattveil.products.tables import Table, curve_names
from wattveil.web.charts import TWO_SIDED_95, add_band, colour, label_times, new_figure


class Curve(NamedTuple):
    """A load curve of a cluster or group."""

    name: str
    number: int
    """Selects the colour: the same in every figure."""
    along: list[str]
    """Times of day, or ranks."""
    load: Floats
    std: Floats | None


def curves(table: Table) -> list[Curve]:
    """Return the curve of each cluster, of each group, or of each cluster of each group."""
    data = table.data.to_pydict()
    groups, clusters = data["group"], data.get("cluster")
    names = groups if clusters is None else cluster_names(groups, clusters)
    place = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    numbers = [place[group] for group in groups] if clusters is None else clusters
    along = data.get("time") or [str(rank) for rank in data["rank"]]
    load, std = curve_names(table)
    errors = data.get(std)
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows_of.setdefault(name, []).append(row)
    return [
        Curve(
            name=name,
            number=numbers[rows[0]],
            along=[along[row] for row in rows],
            load=np.array([data[load][row] for row in rows]),
            std=None if errors is None else np.array([errors[row] for row in rows]),
        )
        for name, rows in rows_of.items()
    ]


def cluster_names(groups: Sequence[str], clusters: Sequence[int]) -> list[str]:
    """Return the number of each cluster, after its group where there are several groups."""
    several = len(set(groups)) > 1
    pairs = zip(groups, clusters, strict=True)
    return [f"{group} {cluster}" if several else str(cluster) for group, cluster in pairs]


def add_curve(figure: Figure, curve: Curve, along: Sequence[float], *, name: str = "") -> None:
    """Draw a curve, with its 95 % band where standard errors are known."""
    if curve.std is not None:
        reach = TWO_SIDED_95 * curve.std
        low, high = curve.load - reach, curve.load + reach
        add_band(figure, along, low, high, colour=colour(curve.number))
    figure.add_scatter(
        x=list(along),
        y=curve.load,
        text=curve.along,
        name=name,
        mode="lines",
        line={"color": colour(curve.number), "width": 2.5},
        hovertemplate="%{text}: %{y:.3g}<extra></extra>",
    )


def curve_figure(curve: Curve, *, unit: str) -> Figure:
    """Return a figure of one load curve with its band."""
    figure = new_figure(height=230, legend=False)
    add_curve(figure, curve, range(len(curve.along)))
    label_times(figure, curve.along)
    figure.update_yaxes(title_text=unit, rangemode="tozero")
    return figure


def group_curves_figure(table: Table, *, unit: str, falling: bool = False) -> Figure:
    """Return a figure of the curves of all groups.

    Parameters
    ----------
    table
        Load by group and slot, or by group and rank.
    unit
        Title of the vertical axis.
    falling
        Whether the curves are duration curves, along ranks.
    """
    drawn = curves(table)
    figure = new_figure(height=340, legend=len(drawn) > 1)
    for curve in drawn:
        along: Sequence[float] = range(len(curve.along))
        if falling:
            along = [100.0 * (rank + 0.5) / len(along) for rank in along]
        add_curve(figure, curve, along, name=curve.name)
    if falling:
        figure.update_xaxes(title_text="% of the time at or above")
    else:
        label_times(figure, drawn[0].along)
    figure.update_yaxes(title_text=unit, rangemode="tozero")
    return figure
