"""Figures of released load curves, for the report sections of several products."""

from collections.abc import Sequence

import numpy as np
from plotly.graph_objects import Figure

from wattveil.products.tables import Table, curve_names
from wattveil.web.charts import label_times, new_figure
from wattveil.web.curves import Curve, add_curve, curves_figure


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
    return curves_figure(curves(table), unit=unit, falling=falling)
