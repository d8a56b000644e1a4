"""One page that shows how synthetic customers behave on a feeder. Private: it stays in house."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure

from wattveil.grid.comparison import GridComparison
from wattveil.grid.observe import RANGE_A_PU, Observation
from wattveil.measures.page import (
    BLUE,
    ORANGE,
    curves,
    new_figure,
    ratio_figure,
    shares,
    verdict_table,
)
from wattveil.measures.verdicts import Verdict
from wattveil.profiles.page import Shown, figure_html, private_page

_BINS = 60
_LIMIT = "Distance from real over 95 % of real redraws: 1 is the limit"
_NUMBERS = {
    **{name: name for name in ("real", "synthetic", "distance", "noise", "ratio")},
    "control_ratio": "control",
}


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
            figure_html(ratio_figure(comparison.rows, _LIMIT), height="52rem"),
            verdict_table(comparison.rows, _NUMBERS),
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
    all_three = (comparison.real, comparison.synthetic, comparison.control)
    labels = list(comparison.setting.grid.labels)
    load_mw = [(labels, seen.feeder_kw / 1e3) for seen in all_three]
    diversity = curves(
        [
            (list(seen.groups), [group.admd_kw.mean() for group in seen.groups.values()])
            for seen in all_three
        ]
    )
    diversity.update_xaxes(type="log")
    beyond = "share of transformers beyond"
    along = "Voltage along the feeder: lowest and highest of the day"
    return [
        Shown("Voltage magnitude", histogram(all_three, "voltage_pu"), "pu", "share"),
        Shown("Voltage phase", histogram(all_three, "angle_deg"), "degree", "share"),
        Shown(along, _along_the_feeder(comparison), "ohm from the substation", "pu"),
        Shown("Load of the feeder", curves(load_mw), "", "MW"),
        Shown("After-diversity maximum demand", diversity, "homes", "kW a home"),
        Shown("Service transformers: peak loading", _overload(all_three), "of the rating", beyond),
    ]


def histogram(samples: Sequence[Observation], field: str) -> Figure:
    """Draw shares of all buses and hours, on the same bins for all."""
    values = [getattr(seen, field).ravel() for seen in samples]
    solved = [each[np.isfinite(each)] for each in values]
    return shares(solved, np.histogram_bin_edges(np.concatenate(solved), bins=_BINS))


def _along_the_feeder(comparison: GridComparison) -> Figure:
    figure = new_figure()
    for name, seen, colour in (
        ("real", comparison.real, BLUE),
        ("synthetic", comparison.synthetic, ORANGE),
    ):
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


def _overload(samples: Sequence[Observation]) -> Figure:
    """Draw how many transformers peak beyond a loading; nothing if there are none."""
    loadings = [
        np.empty(0) if seen.transformers is None else seen.transformers.peak_loading
        for seen in samples
    ]
    points = [(each, 1.0 - np.arange(each.size) / max(each.size, 1)) for each in loadings]
    figure = curves(points)
    figure.add_vline(x=1.0, line_dash="dash")
    figure.update_yaxes(type="log")
    return figure
