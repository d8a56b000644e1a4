"""One page that shows how like real customers synthetic ones are. Private: it stays in house."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure
from sklearn.decomposition import PCA

from wattveil.evaluation.comparison import Evaluation
from wattveil.evaluation.fidelity import slot_quantile
from wattveil.evaluation.fidelity_customers import GROUP_SIZES
from wattveil.evaluation.sample import Floats, Sample
from wattveil.measures.page import (
    COLOURS,
    POPULATIONS,
    curves,
    new_figure,
    ratio_figure,
    shares,
    verdict_table,
)
from wattveil.measures.verdicts import Verdict
from wattveil.profiles.page import Shown, figure_html, private_page

_POINTS = 600
_BINS = 50
_LIMIT = "Distance from real over 95 % of real halves: 1 is the limit"
_NUMBERS = {
    "score": "score",
    "noise": "noise",
    "control": "control",
    "ratio": "ratio",
    "control_ratio": "control ratio",
}


def write_evaluation_page(found: Evaluation, path: str | Path) -> None:
    """Write the page, with all it needs inside."""
    verdicts = [row.verdict for row in found.rows]
    facts = [
        (f"{found.customers:,}", "real customers"),
        (f"{found.synthetic_customers:,}", "synthetic customers"),
        *((str(verdicts.count(verdict)), verdict.value) for verdict in Verdict),
    ]
    measured = [row for row in found.rows if row.verdict in COLOURS]
    body = "".join(
        [
            _reading(found),
            f'<div class="grid">{"".join(map(figure_html, _figures(found)))}</div>',
            figure_html(ratio_figure(measured, _LIMIT), height="60rem"),
            verdict_table(found.rows, _NUMBERS),
        ]
    )
    page = private_page("How like the real customers are the synthetic ones?", facts, body)
    Path(path).write_text(page, encoding="utf-8")


def _reading(found: Evaluation) -> str:
    text = (
        f"The real customers were cut into halves {found.repeats} times. One half judges the other"
        " half, as many synthetic customers, and a control: the other half with every customer"
        " replaced by the centroid of its cluster. A ratio of 1 is what 95 % of real halves stay"
        " below. Where the control stays below it too, a pass proves nothing."
    )
    return f"<p>{escape(text)}</p>"


def _figures(found: Evaluation) -> list[Shown]:
    all_three = (found.real, found.synthetic, found.control)
    hours = np.arange(found.real.mean_kw.size) * found.real.layout.slot_hours
    profile = curves([(hours, sample.mean_kw) for sample in all_three])
    spread = curves([(hours, slot_quantile(sample.sorted_slots, 0.95)) for sample in all_three])
    middle = curves([(hours, slot_quantile(sample.sorted_slots, 0.5)) for sample in all_three])
    duration = curves(
        [
            (
                np.linspace(0.0, 100.0, sample.aggregate_kw.size),
                np.sort(sample.aggregate_kw)[::-1],
            )
            for sample in all_three
        ],
    )
    sizes = [homes for homes in GROUP_SIZES if homes <= len(found.real.load_kw)]
    diversity = curves(
        [
            (sizes, [float(sample.groups(homes).admd_kw.mean()) for homes in sizes])
            for sample in all_three
        ],
    )
    diversity.update_xaxes(type="log")
    return [
        Shown("Mean profile", profile, "hour", "kW"),
        Shown("Median profile", middle, "hour", "kW"),
        Shown("95 % profile", spread, "hour", "kW"),
        Shown("Load duration, mean of all customers", duration, "% of the time", "kW"),
        Shown("Energy a day", _shares(all_three, "energy_kwh"), "kWh", "share of customers"),
        Shown("Peak of a day", _shares(all_three, "day_peak_kw"), "kW", "share of days"),
        Shown("Steps from slot to slot", _shares(all_three, "ramps_kw"), "kW", "share of steps"),
        Shown("After-diversity maximum demand", diversity, "homes", "kW a home"),
        Shown("Two main directions of the real ones", _directions(all_three), "first", "second"),
    ]


def _shares(samples: Sequence[Sample], field: str) -> Figure:
    """Draw shares of values on the same bins for all; the farthest 1 % lie beyond."""
    values: list[Floats] = [getattr(sample, field) for sample in samples]
    low, high = np.quantile(values[0], [0.005, 0.995])
    return shares(values, np.linspace(low, max(high, low + 1e-9), _BINS + 1))


def _directions(samples: Sequence[Sample]) -> Figure:
    figure = new_figure()
    plane = PCA(2).fit(samples[0].few)
    for (name, colour), sample in zip(POPULATIONS.items(), samples, strict=True):
        points = plane.transform(sample.few[:_POINTS])
        marker = {"color": colour, "size": 4, "opacity": 0.6}
        figure.add_scatter(x=points[:, 0], y=points[:, 1], name=name, mode="markers", marker=marker)
    return figure
