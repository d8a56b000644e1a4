"""Page of `wattveil evaluate`: fidelity of synthetic customers. Internal: exact figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from plotly.graph_objects import Figure
from sklearn.decomposition import PCA

from wattveil.arrays import Floats
from wattveil.grid.grid_page import summary_table
from wattveil.grid.large_customers import NOBODY, SetAside
from wattveil.grid.planning_summary import PlanningRow, summary_text
from wattveil.lab.evaluation.customer_samples import Sample
from wattveil.lab.evaluation.fidelity_comparison import Evaluation
from wattveil.lab.evaluation.fidelity_metrics import GROUP_SIZES, slot_quantile
from wattveil.lab.evaluation.load_summary import more_customers
from wattveil.numerics.measures.verdicts import OUTCOMES, Verdict
from wattveil.web.charts import ReportFigure, new_figure, panel, use_log_axes
from wattveil.web.comparison_charts import (
    POPULATIONS,
    population_histogram,
    population_lines,
    ratio_chart,
    verdict_table,
)
from wattveil.web.formatting import format_interval, format_number, format_ratio
from wattveil.web.pages import write_internal_page

if TYPE_CHECKING:
    from wattveil.arrays import Floats

_POINTS = 600
_BINS = 50
_RATIOS = "Distance from real over the 95th percentile between real halves: 1 is the limit"
_COLUMNS = {
    "distance": lambda row: format_number(row.score),
    "95 % interval": lambda row: format_interval(row.low, row.high),
    "limit": lambda row: format_number(row.noise),
    "ratio": lambda row: format_ratio(row.ratio),
    "smallest detectable": lambda row: format_number(row.smallest_detectable),
    "control": lambda row: format_number(row.control),
}


def write_evaluation_page(
    found: Evaluation,
    path: str | Path,
    *,
    summary: Sequence[PlanningRow],
    margin: float,
    set_aside: SetAside = NOBODY,
    warnings: Sequence[str] = (),
    exclusions: Sequence[str] = (),
) -> None:
    """Write the page as one file.

    Parameters
    ----------
    found, path
        What is shown, and where.
    summary, margin
        Planner's summary, and the relative difference that it accepts.
    set_aside
        Very large customers that were not compared.
    warnings, exclusions
        Lines about the comparison, and about customers that were excluded because of gaps.
    """
    note = more_customers(summary, found.customers, found.synthetic_customers)
    measured = [row for row in found.rows if row.verdict in OUTCOMES]
    verdicts = [row.verdict for row in measured]
    facts = [
        (f"{found.customers:,}", "real customers"),
        (f"{found.synthetic_customers:,}", "synthetic customers"),
        *(
            (f"{verdicts.count(verdict)} of {len(measured)}", f"metrics: {verdict.value}")
            for verdict in Verdict
        ),
    ]
    write_internal_page(
        path,
        "evaluate",
        title="Fidelity of synthetic customers",
        facts=facts,
        repeats=found.repeats,
        sentence=" ".join(filter(None, (summary_text(summary, margin), note))),
        summary=summary_table(summary),
        set_aside=set_aside.sentence if any(set_aside[:2]) else "",
        warnings=warnings,
        exclusions=exclusions,
        figures=_figures(found),
        ratios=ratio_chart(found.rows, _RATIOS, OUTCOMES),
        verdicts=verdict_table(found.rows, _COLUMNS, OUTCOMES),
    )


def _figures(found: Evaluation) -> list[ReportFigure]:
    all_three = (found.real, found.synthetic, found.control)
    hours = np.arange(found.real.mean_kw.size) * found.real.layout.slot_hours
    profile = population_lines([(hours, sample.mean_kw) for sample in all_three])
    upper = population_lines(
        [(hours, slot_quantile(sample.sorted_slots, 0.95)) for sample in all_three]
    )
    median = population_lines(
        [(hours, slot_quantile(sample.sorted_slots, 0.5)) for sample in all_three]
    )
    duration = population_lines(
        [
            (
                np.linspace(0.0, 100.0, sample.aggregate_kw.size),
                np.sort(sample.aggregate_kw)[::-1],
            )
            for sample in all_three
        ],
    )
    sizes = [homes for homes in GROUP_SIZES if homes <= len(found.real.load_kw)]
    diversity = population_lines(
        [
            (sizes, [float(sample.groups(homes).admd_kw.mean()) for homes in sizes])
            for sample in all_three
        ],
    )
    use_log_axes(diversity, x=True)
    return [
        panel("Mean profile", profile, "hour", "kW"),
        panel("Median profile", median, "hour", "kW"),
        panel("95 % profile", upper, "hour", "kW"),
        panel("Load duration, mean of all customers", duration, "% of the time", "kW"),
        panel("Energy per day", _shares(all_three, "energy_kwh"), "kWh", "share of customers"),
        panel("Daily peak", _shares(all_three, "day_peak_kw"), "kW", "share of days"),
        panel("Changes between slots", _shares(all_three, "ramps_kw"), "kW", "share of steps"),
        panel("After-diversity maximum demand", diversity, "homes", "kW per home"),
        panel("Principal components of the real customers", _directions(all_three), "PC 1", "PC 2"),
    ]


def _shares(samples: Sequence[Sample], field: str) -> Figure:
    """Draw shares of values on the same bins for all; the farthest 1 % lie beyond."""
    values: list[Floats] = [getattr(sample, field) for sample in samples]
    low, high = np.quantile(values[0], [0.005, 0.995])
    return population_histogram(values, np.linspace(low, max(high, low + 1e-9), _BINS + 1))


def _directions(samples: Sequence[Sample]) -> Figure:
    figure = new_figure()
    plane = PCA(2).fit(samples[0].few)
    for (name, colour), sample in zip(POPULATIONS.items(), samples, strict=True):
        points = plane.transform(sample.few[:_POINTS])
        marker = {"color": colour, "size": 4, "opacity": 0.6}
        figure.add_scatter(x=points[:, 0], y=points[:, 1], name=name, mode="markers", marker=marker)
    return figure
