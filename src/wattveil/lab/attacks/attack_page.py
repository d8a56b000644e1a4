"""Pages of the attacks. Internal: they show real load curves."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from wattveil.arrays import Floats
from wattveil.lab.attacks.differencing import RELEASES, DifferencingAttack, Recovery
from wattveil.lab.attacks.filter_attack import FilterAttack
from wattveil.lab.attacks.solar_attack import SolarAttack
from wattveil.lab.attacks.synthetic_attacks import CopyAttack
from wattveil.numerics.measures.verdicts import median_interval, share_interval
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
from wattveil.web.formatting import (
    format_interval,
    format_number,
    format_share,
    format_share_interval,
)
from wattveil.web.pages import PageTable, write_internal_page

_TIME_LABELS = 8  # of the hours of a day; all of them would overlap on a telephone
_MAX_EXPONENT = 700.0  # above, e to its power is no float
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
    interval = format_interval(*median_interval(last.protected_errors))
    named = f"relative error of the attack on two means with epsilon {found.epsilon:g} each"
    facts = [
        (f"{last.customers:,}", "customers in the aggregate"),
        (format_number(last.protected_error), f"{named}: median; 95 % interval {interval}"),
        ("1", "relative error of guessing 0, without any data"),
        (format_number(last.error), "relative error from two exact means, which the rule permits"),
    ]
    hours = np.arange(grid.columns) * grid.minutes / 60.0
    title = f"One customer, recovered under the {found.cells.rule} rule"
    figures = [recovery_figure(last, hours)]
    write_internal_page(
        path, "differencing", title=title, facts=facts, figures=figures, releases=RELEASES
    )


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
        (format_share(each.removed, 0), f"of the {colour} noise's power removed by the filter")
        for colour, each in found.found.items()
    ]
    figures, times = [], list(grid.labels)
    for colour, each in found.found.items():
        lines = [
            Line("released", times, each.released_kw, PALE),
            Line("filtered", times, each.filtered_kw, ORANGE),
            Line("exact", times, found.exact_kw, BLUE, "dash"),
        ]
        before, after = map(format_number, (each.noise_kw, each.left_kw))
        title = f"{colour.capitalize()} noise: {before} kW, {after} kW after filtering"
        figure = line_figure(lines)
        figure.update_xaxes(nticks=_TIME_LABELS)
        figures.append(panel(title, figure, "", "kW"))
    title = "A filter against white and coloured noise of equal guarantee"
    write_internal_page(path, "filter", title=title, facts=facts, figures=figures)


def write_copy_page(found: Mapping[str, CopyAttack], path: Path) -> None:
    """Draw every share, with a bar per release, and list them with their intervals."""
    shown = {
        label: field
        for label, field in COPY_ROWS.items()
        if all(getattr(each, field) is not None for each in found.values())
    }
    figure = new_figure(height=170 + 50 * len(shown))
    colours = (GREY, ORANGE, BLUE)
    for (name, each), colour in zip(found.items(), colours, strict=False):
        figure.add_bar(
            y=list(shown),
            x=[getattr(each, field) for field in shown.values()],
            name=name,
            orientation="h",
            marker={"color": colour},
        )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(range=[0.0, 1.0], tickformat=".0%")
    rows = [
        (label, *(_copy_cell(each, field) for each in found.values()))
        for label, field in shown.items()
    ]
    facts = [
        (_copy_cell(each, "copied"), f"readings copied: {name}") for name, each in found.items()
    ]
    facts += [
        (_copy_cell(each, "membership_auc"), f"membership inference, AUC: {name}")
        for name, each in found.items()
        if each.membership_auc is not None
    ]
    write_internal_page(
        path,
        "copies",
        title="Real customers among synthetic ones",
        facts=facts,
        figures=[panel("Findings in each release", figure, "share")],
        rows=PageTable("", ("", *found), rows),
    )


def _copy_cell(each: CopyAttack, field: str) -> str:
    """Return a share with its interval; a count of all values of a release has none."""
    share, interval = getattr(each, field), each.intervals.get(field)
    return f"{100.0 * share:.3g} %" if interval is None else format_share_interval(share, *interval)


def write_solar_page(found: SolarAttack, grid: TimeGrid, path: Path) -> None:
    """Draw the attack on released averages first, and that on unprotected ones for comparison."""
    releases, (hits, false_hits) = len(found.protected_kw), found.exports_found
    home, other = found.export_rates
    median_kw = float(np.median(found.protected_error_kw))
    low, high = median_interval(found.protected_error_kw)
    facts = [
        (
            f"{format_number(median_kw)} kW",
            f"released: median error of the attack; 95 % interval {format_interval(low, high)}",
        ),
        (f"{format_number(_typical_kw(found))} kW", "typical load of the home, for comparison"),
        (
            format_share_interval(home, *share_interval(hits, releases)),
            "released: the attack finds export; 95 % Clopper-Pearson interval",
        ),
        (
            format_share_interval(other, *share_interval(false_hits, releases)),
            "released: the same for a home without panels",
        ),
    ]
    write_internal_page(
        path,
        "solar",
        title="Differencing attack on a home with solar panels",
        facts=facts,
        epsilon=found.epsilon,
        customers=found.customers,
        releases=releases,
        factor=math.exp(found.epsilon) if found.epsilon < _MAX_EXPONENT else math.inf,
        hidden=low > _typical_kw(found),
        exact_error=f"{found.error_kw:.1g}",
        protected=_solar_figure(found, grid, protected=True),
        unprotected=_solar_figure(found, grid, protected=False),
    )


def _typical_kw(found: SolarAttack) -> float:
    """Return the root-mean-square load of the home."""
    return float(np.sqrt(np.square(found.home_kw).mean()))


def _solar_figure(found: SolarAttack, grid: TimeGrid, *, protected: bool) -> ReportFigure:
    """Draw the home, and what the attack makes of released or of unprotected averages."""
    figure, times = new_figure(height=380), list(grid.labels)
    if protected:
        for number, curve in enumerate(found.protected_kw):
            figure.add_scatter(
                x=times,
                y=curve,
                name="attack on two released averages",
                line={"color": PALE, "width": 1},
                showlegend=number == 0,
            )
    lines: list[tuple[str, Floats, dict[str, object]]] = [
        ("the home", found.home_kw, {"color": BLUE, "width": 4})
    ]
    if not protected:
        dotted: dict[str, object] = {"color": ORANGE, "dash": "dot"}
        lines.append(("attack on two unprotected averages", found.recovered_kw, dotted))
    for name, curve, line in lines:
        figure.add_scatter(x=times, y=curve, name=name, line=line, mode="lines")
    reach = 1.1 * float(np.abs(found.protected_kw if protected else found.home_kw).max())
    figure.update_yaxes(range=[-reach, reach])
    figure.update_xaxes(nticks=_TIME_LABELS)
    title = "The home, and guesses from released averages"
    if not protected:
        title = "The home, and the guess from unprotected averages, which are never released"
    return panel(title, figure, "", "kW")
