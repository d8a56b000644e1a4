"""The pictures of a report, each from released tables alone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from pyarrow import compute

from wattveil.publish import columns
from wattveil.publish.manifest import Manifest
from wattveil.publish.tables import Table

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#5b4a9e", "#7a7a7a")
"""Told apart by everybody: after Okabe and Ito, with a darker yellow."""
_TWO_SIDED = 1.96
_INK = "#1c2733"
_MOST_NAMES = 12
"""More names than this on a map hide each other."""

Floats = NDArray[np.float64]


def colour(number: int) -> str:
    """Return the colour of a cluster or group, the same in every picture."""
    return COLOURS[number % len(COLOURS)]


class Curve(NamedTuple):
    """A load curve to be drawn."""

    name: str
    number: int
    """Which colour it has."""
    along: list[str]
    """Times of day, or ranks."""
    load: Floats
    std: Floats | None


def curves(table: Table) -> list[Curve]:
    """Return the curve of each cluster, of each group, or of each cluster of each group."""
    data = table.data.to_pydict()
    groups, clusters = data["group"], data.get("cluster")
    names = groups if clusters is None else _names(groups, clusters)
    numbers = _ranks(groups) if clusters is None else clusters
    along = data.get("time") or [str(rank) for rank in data["rank"]]
    load, std = columns.curve_names(table)
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


def one_curve(curve: Curve, *, unit: str) -> go.Figure:
    """Draw one load curve with its band."""
    figure = _figure(height=230)
    _add_curve(figure, curve, range(len(curve.along)), name="")
    _time_axis(figure, curve.along)
    figure.update_yaxes(title_text=unit, rangemode="tozero")
    return figure


def fan(curve: Curve, synthetic: Table) -> go.Figure:
    """Draw the spread of a cluster's synthetic customers around its load curve."""
    own = synthetic.data.filter(compute.equal(synthetic.data["cluster"], curve.number))
    load = own["load_kw"].to_numpy().reshape(-1, curve.load.size)
    figure, along = _figure(height=230), range(curve.load.size)
    for low, high, shade in ((5, 95, 0.15), (25, 75, 0.3)) if len(load) else ():
        lower, upper = np.percentile(load, (low, high), axis=0)
        _add_band(figure, along, (lower, upper), number=curve.number, opacity=shade)
    _add_curve(figure, curve._replace(std=None), along, name="")
    _time_axis(figure, curve.along)
    figure.update_yaxes(title_text="kW", rangemode="tozero")
    return figure


def overlaid(table: Table, *, unit: str, falling: bool = False) -> go.Figure:
    """Draw the curves of all groups in one picture; ``falling`` along ranks instead of times."""
    figure, drawn = _figure(height=340), curves(table)
    for curve in drawn:
        along: Sequence[float] = range(len(curve.along))
        if falling:
            along = [100.0 * (rank + 0.5) / len(along) for rank in along]
        _add_curve(figure, curve, along, name=curve.name)
    if falling:
        figure.update_xaxes(title_text="% of the time at or above")
    else:
        _time_axis(figure, drawn[0].along)
    figure.update_yaxes(title_text=unit, rangemode="tozero")
    figure.update_layout(showlegend=len(drawn) > 1)
    return figure


def sizes(table: Table) -> go.Figure:
    """Draw how many customers each cluster has, with what the noise leaves open."""
    data = table.data.to_pydict()
    names = [f"cluster {name}" for name in _names(data["group"], data["cluster"])]
    std = data.get("customers_std")
    figure = _figure(height=80 + 34 * len(names))
    figure.add_bar(
        y=names,
        x=data["customers"],
        orientation="h",
        marker_color=[colour(cluster) for cluster in data["cluster"]],
        error_x=None
        if std is None
        else {"array": [_TWO_SIDED * one for one in std], "color": _INK, "thickness": 1.2},
        hovertemplate="%{y}: %{x:,.0f} customers<extra></extra>",
    )
    figure.update_xaxes(title_text="customers", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


def cluster_map(centroids: Table, counted: Table | None) -> go.Figure:
    """Draw the clusters in the plane in which they differ most: principal axes of the centroids."""
    found = curves(centroids)
    loads = np.array([curve.load for curve in found])
    centred = loads - loads.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    axes *= np.sign(largest)[:, None]  # an axis has no direction of its own: the same anywhere
    places = np.zeros((len(found), 2))
    places[:, : len(axes)] = centred @ axes.T
    weights = np.ones(len(found))
    if counted is not None:
        weights = np.maximum(np.array(counted.data["customers"].to_pylist()), 0.0)
    figure = _figure(height=380)
    figure.add_scatter(
        x=places[:, 0],
        y=places[:, 1],
        mode="markers+text" if len(found) <= _MOST_NAMES else "markers",
        text=[curve.name for curve in found],
        textposition="top center",
        marker={
            "size": 14.0 + 46.0 * np.sqrt(weights / max(weights.max(), 1e-9)),
            "color": [colour(curve.number) for curve in found],
            "opacity": 0.75,
            "line": {"width": 1, "color": "#fff"},
        },
        hovertemplate="cluster %{text}<extra></extra>",
    )
    for axis in (figure.update_xaxes, figure.update_yaxes):
        axis(showticklabels=False, zeroline=False)
    figure.update_xaxes(title_text="main difference")
    figure.update_yaxes(title_text="second difference")
    figure.update_layout(margin={"l": 40, "r": 30, "t": 40, "b": 40})
    return figure


def shares(table: Table) -> go.Figure:
    """Draw of which clusters each group is made."""
    data = table.data.to_pydict()
    groups = list(dict.fromkeys(data["group"]))
    figure = _figure(height=190 + 36 * len(groups))
    for cluster in sorted(set(data["cluster"])):
        rows = [row for row, other in enumerate(data["cluster"]) if other == cluster]
        figure.add_bar(
            y=[data["group"][row] for row in rows],
            x=[100.0 * data["share"][row] for row in rows],
            customdata=[196.0 * data["share_std"][row] for row in rows],
            name=f"cluster {cluster}",
            orientation="h",
            marker_color=colour(cluster),
            hovertemplate="%{y}, cluster "
            + str(cluster)
            + ": %{x:.1f} ± %{customdata:.1f} %<extra></extra>",
        )
    below = {"orientation": "h", "y": -0.05, "yanchor": "top", "traceorder": "normal"}
    figure.update_layout(barmode="stack", showlegend=True, legend=below)
    figure.update_xaxes(title_text="% of the group", range=[0, 100], side="top")
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


def budget(statement: Manifest) -> go.Figure:
    """Draw where the Gaussian budget went: parts, and the draws of each."""
    labels, parents, values, colours = [], [], [], []
    gaussian = [part for part in statement["parts"] if int(part["grant"]["rho_units"])]
    for number, part in enumerate(gaussian):
        labels.append(part["name"])
        parents.append("")
        values.append(0.0)
        colours.append(colour(number))
        for mechanism in part["runs"][0]["mechanisms"]:
            labels.append(mechanism["tag"])
            parents.append(part["name"])
            values.append(int(mechanism["rho_units"]) * 1e-18)
            colours.append(colour(number))
    figure = _figure(height=360)
    figure.add_treemap(
        ids=[
            f"{above}/{own}" if above else own for above, own in zip(parents, labels, strict=True)
        ],
        labels=labels,
        parents=parents,
        values=values,
        marker={"colors": colours, "line": {"width": 1, "color": "#fff"}},
        branchvalues="remainder",
        textinfo="label+percent root",
        hovertemplate="%{label}: rho %{value:.3g}<extra></extra>",
        tiling={"pad": 2},
    )
    figure.update_layout(
        margin={"l": 0, "r": 0, "t": 10, "b": 0}, uniformtext={"minsize": 9, "mode": "hide"}
    )
    return figure


def _figure(*, height: int) -> go.Figure:
    layout: dict[str, Any] = {
        "template": "plotly_white",
        "height": height,
        "margin": {"l": 52, "r": 12, "t": 14, "b": 44},
        "showlegend": False,
        "legend": {"orientation": "h", "y": 1.12},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": _INK},
        "dragmode": False,  # a finger on a phone scrolls the page
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }
    return go.Figure(layout=layout)


def _names(groups: list[str], clusters: list[int]) -> list[str]:
    """Name clusters by number, and by group where there are several."""
    several = len(set(groups)) > 1
    pairs = zip(groups, clusters, strict=True)
    return [f"{group} {cluster}" if several else str(cluster) for group, cluster in pairs]


def _ranks(groups: list[str]) -> list[int]:
    """Return the place of each group among all, in the order in which they come."""
    place = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return [place[group] for group in groups]


def _add_curve(figure: go.Figure, curve: Curve, along: Sequence[float], *, name: str) -> None:
    if curve.std is not None:
        reach = _TWO_SIDED * curve.std
        band = curve.load - reach, curve.load + reach
        _add_band(figure, along, band, number=curve.number, opacity=0.2)
    figure.add_scatter(
        x=list(along),
        y=curve.load,
        text=curve.along,
        name=name,
        mode="lines",
        line={"color": colour(curve.number), "width": 2.5},
        hovertemplate="%{text}: %{y:.3g}<extra></extra>",
    )


def _add_band(
    figure: go.Figure,
    along: Sequence[float],
    band: tuple[Floats, Floats],
    *,
    number: int,
    opacity: float,
) -> None:
    figure.add_scatter(
        x=[*along, *reversed(along)],
        y=np.concatenate([band[1], band[0][::-1]]),
        fill="toself",
        fillcolor=colour(number),
        opacity=opacity,
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )


def _time_axis(figure: go.Figure, times: list[str]) -> None:
    """Name a few hours of one day, or the days or seasons where there are several."""
    kinds = [time.rpartition(" ")[0] for time in times]
    starts = [place for place, kind in enumerate(kinds) if place == 0 or kind != kinds[place - 1]]
    if len(starts) == 1:
        starts = list(range(0, len(times), max(len(times) // 4, 1)))
        names = [times[start] for start in starts]
    else:
        names = [kinds[start] for start in starts]
    figure.update_xaxes(tickvals=starts, ticktext=names, tickangle=0, ticks="outside", ticklen=6)
