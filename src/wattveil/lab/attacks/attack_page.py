"""Pages of the attacks. Internal: they show real load curves."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from wattveil.arrays import Floats
from wattveil.lab.attacks.differencing import DifferencingAttack, Recovery, SolarAttack
from wattveil.lab.attacks.filter_attack import FilterAttack
from wattveil.lab.attacks.synthetic_attacks import CopyAttack
from wattveil.profiles import TimeGrid
from wattveil.web.charts import (
    BLUE,
    GREY,
    ORANGE,
    PALE,
    Line,
    ReportFigure,
    line_figure,
    new_figure,
    panel,
)
from wattveil.web.formatting import format_number
from wattveil.web.pages import write_internal_page

COPY_ROWS: Mapping[str, str] = {
    "values equal to a real reading": "copied",
    "slots with the real maximum": "maxima",
    "closest to a member (chance: 50 %)": "closest_is_member",
    "membership inference, AUC (chance: 50 %)": "membership_auc",
    "members found at 1 % false-positive rate": "tpr_at_1_percent",
    "members found at 0.1 % false-positive rate": "tpr_at_01_percent",
    "planted outliers reconstructed": "outliers_found",
}
"""Row titles of the fields of a `CopyAttack`."""


def write_differencing_page(found: DifferencingAttack, grid: TimeGrid, path: Path) -> None:
    """Write the page of the attack on an N/X rule."""
    last = found.recoveries[-1]
    facts = [
        (f"{last.customers:,}", "customers in the aggregate"),
        (format_number(last.error), "relative error of the recovered load"),
        (
            format_number(last.protected_error),
            f"the same from two means with epsilon {found.epsilon:g}",
        ),
    ]
    hours = np.arange(grid.columns) * grid.minutes / 60.0
    title = f"One customer, recovered under the {found.cells.rule} rule"
    figures = [recovery_figure(last, hours)]
    write_internal_page(path, "attacks", title=title, facts=facts, figures=figures)


def recovery_figure(found: Recovery, hours: Floats) -> ReportFigure:
    """Draw the true load, the load recovered from exact means, and that from DP means."""
    figure = line_figure(
        [
            Line("from two DP means", hours, found.protected_kw, GREY, "dot"),
            Line("true load", hours, found.true_kw, BLUE),
            Line("recovered from the published means", hours, found.recovered_kw, ORANGE, "dash"),
        ]
    )
    top = float(np.abs(found.true_kw).max())
    figure.update_yaxes(range=[-1.5 * top, 2.5 * top])  # larger noise is not shown
    title = f"One of {found.customers:,} customers, from two published means"
    return panel(title, figure, "hour", "kW")


def write_filter_page(found: FilterAttack, grid: TimeGrid, path: Path) -> None:
    """Draw the curve under white and under coloured noise, before and after the filter."""
    facts = [
        (f"{each.removed:.0%}", f"of the {colour} noise's power removed by the filter")
        for colour, each in found.found.items()
    ]
    figures, times = [], list(grid.labels)
    for colour, each in found.found.items():
        lines = [
            Line("released", times, each.released_kw, PALE),
            Line("filtered", times, each.filtered_kw, ORANGE),
            Line("exact", times, found.exact_kw, BLUE, "dash"),
        ]
        title = f"{colour.capitalize()} noise: {each.noise_kw:.2g} kW, {each.left_kw:.2g} kW after"
        figures.append(panel(title, line_figure(lines), "", "kW"))
    title = "A filter against white and coloured noise of equal guarantee"
    write_internal_page(path, "attacks", title=title, facts=facts, figures=figures)


def write_copy_page(found: Mapping[str, CopyAttack], path: Path) -> None:
    """Draw every share, with a bar per release."""
    figure = new_figure(height=520)
    colours = (GREY, ORANGE, BLUE)
    for (name, each), colour in zip(found.items(), colours, strict=False):
        figure.add_bar(
            y=list(COPY_ROWS),
            x=[getattr(each, field) for field in COPY_ROWS.values()],
            name=name,
            orientation="h",
            marker={"color": colour},
        )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(range=[0.0, 1.0], tickformat=".0%")
    write_internal_page(
        path,
        "attacks",
        title="Real customers among synthetic ones",
        facts=[(f"{each.copied:.1%}", f"readings copied: {name}") for name, each in found.items()],
        figures=[panel("Findings in each release", figure, "share")],
    )


def write_solar_page(found: SolarAttack, grid: TimeGrid, path: Path) -> None:
    """Draw the home, and its load as recovered from exact and from released averages."""
    figure = new_figure(height=480)
    times = list(grid.labels)
    for number, curve in enumerate(found.protected_kw):
        figure.add_scatter(
            x=times,
            y=curve,
            name="from two released averages",
            line={"color": PALE, "width": 1},
            showlegend=number == 0,
        )
    for name, curve, line in (
        ("the home", found.home_kw, {"color": BLUE, "width": 4}),
        ("from two exact averages", found.recovered_kw, {"color": ORANGE, "dash": "dot"}),
    ):
        figure.add_scatter(x=times, y=curve, name=name, line=line, mode="lines")
    top = float(np.abs(found.home_kw).max())
    figure.update_yaxes(range=[-4.0 * top, 4.0 * top])  # larger noise is not shown
    home, other = found.export_rates
    facts = [
        (f"{found.error_kw:.1g} kW", "error of the load recovered from two exact averages"),
        (f"{home:.0%}", "of released averages are classified as export"),
        (f"{other:.0%}", "the same for a home without panels"),
    ]
    write_internal_page(
        path,
        "attacks",
        title="Finding the home with solar panels",
        facts=facts,
        figures=[panel("One home, from two averages", figure, "", "kW")],
    )
