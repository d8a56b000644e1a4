"""One page that shows how synthetic customers behave on a feeder. Private: it stays in house."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure

from wattveil.grid.comparison import GridComparison, Row, Verdict
from wattveil.grid.observe import RANGE_A_PU, Observation
from wattveil.profiles.page import Shown, figure_html, private_page

_BLUE, _ORANGE, GREY = "#2563a8", "#d9730d", "#9aa5b1"
_COLOURS = {
    Verdict.INSIDE: "#2e7d32",
    Verdict.DETECTABLE: "#b3261e",
    Verdict.NO_PROOF: GREY,
}
_BINS = 60
_WHOLE = 1000.0  # from here on, no decimals
_SHOWN_RATIOS = (0.03, 30.0)
_NUMBERS = ("real", "synthetic", "distance", "noise", "ratio", "control")

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
    ]
    if len(comparison.class_names) > 1:
        facts.append((f"{comparison.class_mix_distance:.3f}", "distance of the class mixes"))
    body = "".join(
        [
            _failures(comparison),
            f'<div class="grid">{"".join(map(figure_html, _figures(comparison)))}</div>',
            figure_html(_ratios(comparison.rows), height="52rem"),
            _table(comparison.rows),
        ]
    )
    page = private_page("Real and synthetic customers on a feeder", facts, body)
    Path(path).write_text(page, encoding="utf-8")


def _failures(comparison: GridComparison) -> str:
    """Name the snapshots without solution; nothing if there are none."""
    if not comparison.synthetic_failures:
        return ""
    labels = comparison.setting.grid.labels
    listed = "".join(
        f"<li>{escape(labels[snapshot])}: {escape(said)}</li>"
        for snapshot, said in comparison.synthetic_failures.items()
    )
    return f"<h2>Synthetic customers: snapshots without solution</h2><ul>{listed}</ul>"


def _figures(comparison: GridComparison) -> list[Shown]:
    """Return the paper's histograms, and what a planner looks at beside them."""
    named: tuple[Named, ...] = (
        ("real", comparison.real, _BLUE),
        ("synthetic", comparison.synthetic, _ORANGE),
        ("centroids only", comparison.control, GREY),
    )
    labels = list(comparison.setting.grid.labels)
    load_mw = [(labels, seen.feeder_kw / 1e3) for _, seen, _ in named]
    diversity = _curves(
        named,
        [
            (list(seen.groups), [group.admd_kw.mean() for group in seen.groups.values()])
            for _, seen, _ in named
        ],
    )
    diversity.update_xaxes(type="log")
    beyond = "share of transformers beyond"
    along = "Voltage along the feeder: lowest and highest of the day"
    return [
        Shown("Voltage magnitude", histogram(named, "voltage_pu"), "pu", "share"),
        Shown("Voltage phase", histogram(named, "angle_deg"), "degree", "share"),
        Shown(along, _along_the_feeder(comparison, named[:2]), "ohm from the substation", "pu"),
        Shown("Load of the feeder", _curves(named, load_mw), "", "MW"),
        Shown("After-diversity maximum demand", diversity, "homes", "kW a home"),
        Shown("Service transformers: peak loading", _overload(named), "of the rating", beyond),
    ]


def _new_figure() -> Figure:
    figure = Figure()
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return figure


def _curves(named: Sequence[Named], points: Sequence[tuple[object, object]]) -> Figure:
    """Draw a line for each population; the control is dotted."""
    figure = _new_figure()
    for (name, _, colour), (x, y) in zip(named, points, strict=True):
        line = {"color": colour, "dash": "dot" if colour == GREY else "solid"}
        figure.add_scatter(x=x, y=y, name=name, line=line, mode="lines")
    return figure


def histogram(named: Sequence[Named], field: str) -> Figure:
    """Draw shares of all buses and hours, on the same bins for all."""
    samples = [getattr(seen, field).ravel() for _, seen, _ in named]
    solved = [values[np.isfinite(values)] for values in samples]
    edges = np.histogram_bin_edges(np.concatenate(solved), bins=_BINS)
    points = []
    for values in solved:
        share = np.histogram(values, bins=edges)[0] / max(values.size, 1)
        points.append((edges, np.append(share, share[-1])))  # to the right edge of the last bin
    figure = _curves(named, points)
    figure.update_traces(line_shape="hv")
    figure.data[0].fill = "tozeroy"
    return figure


def _along_the_feeder(comparison: GridComparison, named: Sequence[Named]) -> Figure:
    figure = _new_figure()
    for name, seen, colour in named:
        solved = seen.flow.voltage_pu[np.isfinite(seen.flow.loss_kw)]
        if not solved.size:
            continue
        for which, extreme, symbol in (
            ("lowest", solved.min(axis=0), "circle"),
            ("highest", solved.max(axis=0), "circle-open"),
        ):
            figure.add_scatter(
                x=comparison.setting.feeder.distance_ohm,
                y=extreme,
                mode="markers",
                marker={"color": colour, "size": 5, "symbol": symbol},
                name=f"{name}, {which}",
            )
    figure.add_hline(y=RANGE_A_PU[0], line_dash="dash")
    return figure


def _overload(named: Sequence[Named]) -> Figure:
    """Draw how many transformers peak beyond a loading; nothing if there are none."""
    loadings = [
        np.empty(0) if seen.transformers is None else seen.transformers.peak_loading
        for _, seen, _ in named
    ]
    points = [(each, 1.0 - np.arange(each.size) / max(each.size, 1)) for each in loadings]
    figure = _curves(named, points)
    figure.add_vline(x=1.0, line_dash="dash")
    figure.update_yaxes(type="log")
    return figure


def _ratios(rows: Sequence[Row]) -> Shown:
    """Draw every ratio; those beyond the frame stand at its edge, their number is in the hint."""
    figure = _new_figure()
    low, high = _SHOWN_RATIOS
    for name, ratios, colours, symbol in (
        ("centroids only", [row.control_ratio for row in rows], GREY, "x"),
        (
            "synthetic",
            [row.ratio for row in rows],
            [_COLOURS[row.verdict] for row in rows],
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
    return Shown(
        "Distance from real over 95 % of real redraws: 1 is the limit", figure, "ratio", ""
    )


def _table(rows: Sequence[Row]) -> str:
    numbers = "".join(f'<th class="number">{name}</th>' for name in _NUMBERS)
    head = f"<th>metric</th><th>unit</th>{numbers}<th>verdict</th>"
    lines = []
    for row in rows:
        values = (row.real, row.synthetic, row.distance, row.noise, row.ratio, row.control_ratio)
        cells = "".join(f'<td class="number">{shown(value)}</td>' for value in values)
        colour = _COLOURS[row.verdict]
        lines.append(
            f"<tr><td>{escape(row.metric)}</td><td>{escape(row.unit)}</td>{cells}"
            f'<td style="color: {colour}">{row.verdict.value}</td></tr>'
        )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<div class='scroll'>{table}</div>"


def shown(number: float) -> str:
    """Return a number as tables show it."""
    if math.isnan(number):
        return "none"
    if math.isinf(number):
        return "∞"
    return f"{number:,.0f}" if abs(number) >= _WHOLE else f"{number:.3g}"
