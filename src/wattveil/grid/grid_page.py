"""Page of `wattveil grid`: synthetic customers on a feeder. Internal: exact figures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure

from wattveil.grid.experiment import GridComparison
from wattveil.grid.observation import RANGE_A_PU, Observation
from wattveil.grid.planning_summary import (
    DEFAULT_MARGIN,
    Equivalence,
    PlanningRow,
    format_difference,
    format_equivalence,
    is_zero_throughout,
    light_load,
    metric_parts,
    planning_summary,
    summary_notes,
    summary_text,
)
from wattveil.numerics.measures.fidelity_measures import ratio_to_noise
from wattveil.numerics.measures.verdicts import OUTCOMES, Verdict
from wattveil.web.charts import BLUE, ORANGE, ReportFigure, new_figure, panel, use_log_axes
from wattveil.web.comparison_charts import (
    population_histogram,
    population_lines,
    ratio_chart,
    verdict_table,
)
from wattveil.web.formatting import format_interval, format_number, format_ratio
from wattveil.web.pages import PageTable, TableCell, write_internal_page

_BINS = 60
_RATIOS = "Distance from real over the 95th percentile of resampled real customers: 1 is the limit"
_COLUMNS = {
    "compared by": lambda row: metric_parts(row)[2],
    "real": lambda row: format_number(row.real),
    "synthetic": lambda row: format_number(row.synthetic),
    "difference, 95 % interval": lambda row: format_interval(
        row.difference_low, row.difference_high
    ),
    "ratio": lambda row: format_ratio(row.ratio),
    "smallest detectable ratio": lambda row: format_number(
        ratio_to_noise(row.smallest_detectable, row.noise)
    ),
    "control": lambda row: format_number(row.control_ratio),
}
_HEADLINE = "A5 peak"


def write_grid_page(
    comparison: GridComparison,
    path: str | Path,
    *,
    margin: float = DEFAULT_MARGIN,
    warning: str = "",
) -> None:
    """Write the page as one file.

    Parameters
    ----------
    comparison, path
        What is shown, and where.
    margin
        Relative difference that the summary accepts.
    warning
        About the two files; empty if there is none.
    """
    summary = planning_summary(comparison, margin=margin)
    setting, rows = comparison.setting, comparison.rows
    peak = next(row for row in rows if row.metric == _HEADLINE)
    ends = (peak.difference_low, peak.difference_high)
    low, high = (f"{100.0 * end / peak.real:+.1f}" for end in ends)
    error = "peak load, synthetic against real; 95 % interval"
    measured = [row for row in rows if not is_zero_throughout(row)]
    facts = [
        (setting.feeder.name, f"feeder, {setting.feeder.buses} buses"),
        (f"{setting.placement.houses:,}", "houses"),
        (f"{setting.power_factor:.3f}", "power factor"),
        (f"{100.0 * (peak.synthetic / peak.real - 1.0):+.1f} % ({low} to {high})", error),
        *(
            (
                f"{sum(row.equivalence is one for row in summary)} of {len(summary)}",
                f"quantities {one.value}, margin ±{100.0 * margin:g} %",
            )
            for one in (Equivalence.EQUIVALENT, Equivalence.DIFFERENT)
        ),
    ]
    if len(comparison.class_names) > 1:
        facts.append((f"{comparison.class_mix_distance:.3f}", "distance of the class mixes"))
    labels = setting.grid.labels
    write_internal_page(
        path,
        "grid",
        title="Real and synthetic customers on a feeder",
        facts=facts,
        failures=[
            (labels[snapshot], reason) for snapshot, reason in comparison.synthetic_failures.items()
        ],
        figures=_figures(comparison),
        ratios=ratio_chart(measured, _RATIOS, OUTCOMES),
        sentence=summary_text(summary, margin),
        set_aside=comparison.set_aside.sentence if any(comparison.set_aside[:2]) else "",
        light_load=light_load(comparison),
        warning=warning,
        summary=summary_table(summary),
        notes=summary_notes(comparison),
        verdicts=verdict_table(
            measured, _COLUMNS, OUTCOMES, named=("metric", "value shown"), parts=metric_parts
        ),
        counts=[
            f"{sum(row.verdict is verdict for row in measured)} {verdict.value}"
            for verdict in Verdict
        ],
        zero=[row.metric for row in rows if is_zero_throughout(row)],
    )


def summary_table(summary: Sequence[PlanningRow]) -> PageTable:
    """Return the planner's summary as a table of a page."""
    passed = {
        Equivalence.EQUIVALENT: True,
        Equivalence.DIFFERENT: False,
        Equivalence.INCONCLUSIVE: None,
    }
    head = ("quantity", "unit", "real", "synthetic", "difference (95 % interval)", "verdict")
    cells: list[tuple[str | TableCell, ...]] = [
        (
            row.quantity,
            row.unit,
            format_number(row.real),
            format_number(row.synthetic),
            format_difference(row),
            TableCell(format_equivalence(row), passed[row.equivalence]),
        )
        for row in summary
    ]
    return PageTable("", head, cells, text_columns=(0, 1, len(head) - 1))


def _figures(comparison: GridComparison) -> list[ReportFigure]:
    """Return the paper's histograms, and figures for planning."""
    all_three = (comparison.real, comparison.synthetic, comparison.control)
    labels = list(comparison.setting.grid.labels)
    load_mw = [(labels, seen.feeder_kw / 1e3) for seen in all_three]
    diversity = population_lines(
        [
            (list(seen.groups), [group.admd_kw.mean() for group in seen.groups.values()])
            for seen in all_three
        ]
    )
    use_log_axes(diversity, x=True)
    beyond = "share of transformers above"
    rating = "peak loading, per unit of rating"
    along = "Voltage along the feeder: lowest and highest of the day"
    return [
        panel("Voltage magnitude", histogram(all_three, "voltage_pu"), "pu", "share"),
        panel("Voltage angle", histogram(all_three, "angle_deg"), "degrees", "share"),
        panel(along, _along_the_feeder(comparison), "impedance from the substation, Ω", "pu"),
        panel("Load of the feeder", population_lines(load_mw), "", "MW"),
        panel("After-diversity maximum demand", diversity, "homes", "kW per home"),
        panel("Service transformers: peak loading", _overload(all_three), rating, beyond),
    ]


def histogram(samples: Sequence[Observation], field: str) -> Figure:
    """Draw shares of all buses and hours, on the same bins for all."""
    values = [getattr(seen, field).ravel() for seen in samples]
    solved = [each[np.isfinite(each)] for each in values]
    return population_histogram(solved, np.histogram_bin_edges(np.concatenate(solved), bins=_BINS))


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
    figure = population_lines(points)
    figure.add_vline(x=1.0, line_dash="dash")
    figure.update_yaxes(type="log", dtick=1)  # decades
    return figure
