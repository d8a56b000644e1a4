"""One page that shows how synthetic customers behave on a feeder. Private: it stays in house."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wattveil.grid.comparison import GridComparison, Row, Verdict
from wattveil.grid.network import Floats
from wattveil.grid.observe import RANGE_A_PU, Observation
from wattveil.profiles.page import figure_html, private_page, require_plots

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_BLUE, _ORANGE, _GREY = "#2563a8", "#d9730d", "#9aa5b1"
_COLOURS = {
    Verdict.INSIDE: "#2e7d32",
    Verdict.DETECTABLE: "#b3261e",
    Verdict.NO_PROOF: _GREY,
}
_BINS = 60
_WHOLE = 1000.0  # from here on, no decimals
_SHOWN_RATIOS = (0.03, 30.0)
_COLUMNS = ("metric", "unit", "real", "synthetic", "distance", "noise", "ratio", "control", "")

Named = tuple[str, Observation, str]


def write_grid_page(comparison: GridComparison, path: str | Path) -> None:
    """Write the page, with all it needs inside."""
    setting = comparison.setting
    counts = dict.fromkeys(Verdict, 0)
    for row in comparison.rows:
        counts[row.verdict] += 1
    facts = [
        (setting.feeder.name, f"feeder, {setting.feeder.buses} buses"),
        (f"{setting.placement.houses:,}", "houses"),
        (f"{setting.power_factor:.3f}", "power factor"),
        *((str(count), verdict.value) for verdict, count in counts.items()),
        (f"{comparison.class_mix_distance:.3f}", "distance of the class mixes"),
    ]
    body = f"{figure_html(_figure(comparison))}{failures_html(comparison)}{_table(comparison.rows)}"
    page = private_page("Real and synthetic customers on a feeder", facts, body)
    Path(path).write_text(page, encoding="utf-8")


def failures_html(comparison: GridComparison) -> str:
    """Name the snapshots without solution; nothing if there are none."""
    if not comparison.synthetic_failures:
        return ""
    labels = comparison.setting.grid.labels
    listed = "".join(
        f"<li>{escape(labels[snapshot])}: {escape(said)}</li>"
        for snapshot, said in comparison.synthetic_failures.items()
    )
    return f"<h2>Synthetic customers: snapshots without solution</h2><ul>{listed}</ul>"


def _figure(comparison: GridComparison) -> "Figure":
    require_plots("the grid page")
    from plotly.subplots import make_subplots  # noqa: PLC0415 -- an extra, needed only here

    titles = (
        "Voltage magnitude, all buses and hours",
        "Voltage phase, all buses and hours",
        "Voltage along the feeder: lowest and highest of the day",
        "Load of the feeder",
        "After-diversity maximum demand",
        "Service transformers: peak loading",
        "Distance from real / 95 % of real redraws (1 is the limit)",
    )
    figure = make_subplots(
        rows=4,
        cols=2,
        subplot_titles=titles,
        specs=[[{}, {}], [{}, {}], [{}, {}], [{"colspan": 2}, None]],
        row_heights=[0.19, 0.19, 0.19, 0.43],
        vertical_spacing=0.06,
    )
    named: tuple[Named, ...] = (
        ("real", comparison.real, _BLUE),
        ("synthetic", comparison.synthetic, _ORANGE),
        ("centroids only", comparison.control, _GREY),
    )
    _add_histograms(figure, named)
    _add_along_the_feeder(figure, comparison, named[:2])
    labels = list(comparison.setting.grid.labels)
    for name, seen, colour in named:
        line = {"color": colour, "dash": "dot" if colour == _GREY else "solid"}
        shown = {"name": name, "line": line, "mode": "lines", "showlegend": False}
        figure.add_scatter(x=labels, y=seen.feeder_kw / 1e3, row=2, col=2, **shown)
        sizes = list(seen.groups)
        mean_kw = [group.admd_kw.mean() for group in seen.groups.values()]
        figure.add_scatter(x=sizes, y=mean_kw, row=3, col=1, **shown)
        if seen.transformers is not None:
            loading = seen.transformers.peak_loading
            beyond = 1.0 - np.arange(loading.size) / loading.size
            figure.add_scatter(x=loading, y=beyond, row=3, col=2, **shown)
    figure.add_vline(x=1.0, line_dash="dash", row=3, col=2)
    _add_ratios(figure, comparison.rows)
    figure.update_layout(
        height=2000,
        template="plotly_white",
        barmode="overlay",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    for row, col, x_title, y_title in (
        (1, 1, "pu", "share"),
        (1, 2, "degree", "share"),
        (2, 1, "ohm from the substation", "pu"),
        (2, 2, "", "MW"),
        (3, 1, "homes", "kW a home"),
        (3, 2, "of the rating", "share of transformers beyond"),
        (4, 1, "ratio", ""),
    ):
        figure.update_xaxes(title_text=x_title, row=row, col=col)
        figure.update_yaxes(title_text=y_title, row=row, col=col)
    figure.update_xaxes(type="log", row=3, col=1)
    figure.update_yaxes(type="log", row=3, col=2)
    figure.update_xaxes(type="log", row=4, col=1)
    return figure


def _add_histograms(figure: "Figure", named: Sequence[Named]) -> None:
    """Draw the paper's histograms, on the same bins for all."""
    samples = [
        [seen.voltage_pu.ravel() for _, seen, _ in named],
        [seen.angle_deg.ravel() for _, seen, _ in named],
    ]
    for column, sample in enumerate(samples, start=1):
        together = np.concatenate(sample)
        edges = np.histogram_bin_edges(together[np.isfinite(together)], bins=_BINS)
        for (name, _, colour), values in zip(named, sample, strict=True):
            figure.add_scatter(
                x=edges,
                y=_shares(values, edges),
                line={
                    "shape": "hv",
                    "color": colour,
                    "dash": "dot" if colour == _GREY else "solid",
                },
                fill="tozeroy" if colour == _BLUE else None,
                mode="lines",
                name=name,
                showlegend=column == 1,
                row=1,
                col=column,
            )


def _shares(values: Floats, edges: Floats) -> Floats:
    """Return the share of values in each bin; the last is drawn to its right edge."""
    count = np.histogram(values[np.isfinite(values)], bins=edges)[0]
    return np.append(count, count[-1]) / max(values.size, 1)


def _add_along_the_feeder(
    figure: "Figure", comparison: GridComparison, named: Sequence[Named]
) -> None:
    distance = comparison.setting.feeder.distance_ohm
    order = np.argsort(distance)
    for name, seen, colour in named:
        solved = seen.flow.voltage_pu[np.isfinite(seen.flow.loss_kw)]
        if not solved.size:
            continue
        for extreme, symbol in (
            (solved.min(axis=0), "circle"),
            (solved.max(axis=0), "circle-open"),
        ):
            figure.add_scatter(
                x=distance[order],
                y=extreme[order],
                mode="markers",
                marker={"color": colour, "size": 5, "symbol": symbol},
                name=name,
                showlegend=False,
                row=2,
                col=1,
            )
    figure.add_hline(y=RANGE_A_PU[0], line_dash="dash", row=2, col=1)


def _add_ratios(figure: "Figure", rows: Sequence[Row]) -> None:
    names = [row.metric for row in reversed(rows)]
    low, high = _SHOWN_RATIOS
    for label, ratios, colours, symbol in (
        ("centroids only", [row.control_ratio for row in rows], [_GREY] * len(rows), "x"),
        (
            "synthetic",
            [row.ratio for row in rows],
            [_COLOURS[row.verdict] for row in rows],
            "circle",
        ),
    ):
        figure.add_scatter(
            x=[min(max(ratio, low), high) for ratio in reversed(ratios)],
            y=names,
            mode="markers",
            marker={"color": colours[::-1], "size": 9, "symbol": symbol},
            text=[f"{ratio:.2f}" for ratio in reversed(ratios)],
            name=label,
            showlegend=False,
            row=4,
            col=1,
        )
    figure.add_vline(x=1.0, line_dash="dash", row=4, col=1)


def _table(rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    lines = []
    for row in rows:
        numbers = (row.real, row.synthetic, row.distance, row.noise, row.ratio, row.control_ratio)
        cells = "".join(f'<td class="number">{shown(number)}</td>' for number in numbers)
        colour = _COLOURS[row.verdict]
        lines.append(
            f"<tr><td>{escape(row.metric)}</td><td>{escape(row.unit)}</td>{cells}"
            f'<td style="color: {colour}">{row.verdict.value}</td></tr>'
        )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def shown(number: float) -> str:
    """Return a number as tables show it."""
    if math.isnan(number):
        return "none"
    if math.isinf(number):
        return "∞"
    return f"{number:,.0f}" if abs(number) >= _WHOLE else f"{number:.3g}"
