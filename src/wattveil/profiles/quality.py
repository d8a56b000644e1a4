"""One page that shows how good the data are. Every number on it is exact: it stays in house."""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wattveil.profiles.build import ProfileBuild
from wattveil.profiles.page import figure_html, private_page, require_plots

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_BLUE, _GREY, _RED = "#2563a8", "#9aa5b1", "#b3261e"
_SHADES = ((5, 95, "rgba(37, 99, 168, 0.15)"), (25, 75, "rgba(37, 99, 168, 0.30)"))


def write_quality_page(build: ProfileBuild, path: str | Path) -> None:
    """Write the page, with all it needs inside."""
    report, profiles = build.cells.report, build.profiles
    facts = [
        (f"{report.rows_in:,}", "readings"),
        (f"{report.rows_out / max(report.rows_in, 1):.2%}", "of them used"),
        (f"{build.customers_in:,}", "customers"),
        (f"{len(profiles):,}", "profiles"),
        (f"{profiles.grid.columns}", f"columns, {profiles.timezone}"),
    ]
    rules = [*report.guesses, *(f"{name}: {value}" for name, value in profiles.rules.items())]
    listed = "".join(f"<li>{escape(rule)}</li>" for rule in rules)
    body = f"{figure_html(_figure(build))}\n<h2>Rules and guesses</h2>\n<ul>{listed}</ul>"
    page = private_page("Data quality: readings to profiles", facts, body)
    Path(path).write_text(page, encoding="utf-8")


def _figure(build: ProfileBuild) -> "Figure":
    require_plots("the quality page")
    from plotly.subplots import make_subplots  # noqa: PLC0415 -- an extra, needed only here

    titles = (
        "Readings not used, by reason",
        "Customers by days with readings",
        "Missing readings, by cell of the grid",
        "Load of customers: median, quartiles, 5 % and 95 %",
        "Customers left out, by reason",
        "Customers by mean load",
    )
    figure = make_subplots(rows=3, cols=2, subplot_titles=titles, vertical_spacing=0.11)
    report, labels = build.cells.report, build.profiles.grid.labels
    lost = {**report.dropped, **report.merged}
    figure.add_bar(
        x=list(lost.values()), y=list(lost), orientation="h", marker_color=_RED, row=1, col=1
    )
    figure.add_histogram(x=build.averages.days, nbinsx=60, marker_color=_BLUE, row=1, col=2)
    figure.add_bar(x=labels, y=_missing_share(build), marker_color=_GREY, row=2, col=1)
    _add_loads(figure, build)
    figure.add_bar(
        x=list(build.dropped.values()),
        y=list(build.dropped),
        orientation="h",
        marker_color=_RED,
        row=3,
        col=1,
    )
    mean_kw = build.profiles.load_kw.mean(axis=1)
    figure.add_histogram(x=mean_kw, nbinsx=60, marker_color=_BLUE, row=3, col=2)
    figure.update_layout(height=1050, showlegend=False, template="plotly_white", margin={"l": 40})
    for row, col, title in ((1, 1, "readings"), (1, 2, "days"), (3, 1, "customers"), (3, 2, "kW")):
        figure.update_xaxes(title_text=title, row=row, col=col)
    figure.update_yaxes(title_text="kW", row=2, col=2)
    figure.update_yaxes(tickformat=".1%", row=2, col=1)
    figure.update_yaxes(automargin=True)
    return figure


def _missing_share(build: ProfileBuild) -> list[float]:
    """Compare each cell with the fullest one of its customer and kind of day."""
    grid, rows = build.profiles.grid, build.averages.rows
    if not rows.size:
        return []
    fullest = rows.reshape(rows.shape[0], -1, grid.slots).max(axis=2, keepdims=True)
    expected = np.broadcast_to(fullest, (rows.shape[0], grid.cells // grid.slots, grid.slots))
    share = 1 - rows.sum(axis=0) / np.maximum(expected.reshape(rows.shape).sum(axis=0), 1)
    return [float(value) for value in share]


def _add_loads(figure: "Figure", build: ProfileBuild) -> None:
    load_kw, labels = build.profiles.load_kw, list(build.profiles.grid.labels)
    if not len(build.profiles):
        return
    for low, high, colour in _SHADES:
        lower, upper = np.percentile(load_kw, (low, high), axis=0)
        figure.add_scatter(
            x=labels + labels[::-1],
            y=np.concatenate([upper, lower[::-1]]),
            fill="toself",
            fillcolor=colour,
            line={"width": 0},
            hoverinfo="skip",
            row=2,
            col=2,
        )
    median = np.median(load_kw, axis=0)
    figure.add_scatter(x=labels, y=median, line={"color": _BLUE, "width": 2}, row=2, col=2)
