"""Pages of the demonstrations. Private: real load curves are in them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from wattveil.evaluation.attack_copy import CopyAttack
from wattveil.evaluation.attack_filter import FilterAttack
from wattveil.evaluation.attack_solar import SolarAttack
from wattveil.measures.page import BLUE, GREY, ORANGE, new_figure
from wattveil.profiles import Grid
from wattveil.profiles.page import Shown, figure_html, private_page

_PALE = "#c9d1d9"

COPY_ROWS: Mapping[str, str] = {
    "values that are a real reading": "copied",
    "slots with the real maximum": "maxima",
    "closest to a member (half is nothing)": "closest_is_member",
    "members told from others, AUC (half is nothing)": "membership_auc",
    "members found, 1 in 100 wrong": "tpr_at_1_percent",
    "members found, 1 in 1,000 wrong": "tpr_at_01_percent",
    "planted outliers found again": "outliers_found",
}
"""Names of the figures of a `CopyAttack`, as tables show them."""


def write_filter_page(found: FilterAttack, grid: Grid, path: Path) -> None:
    """Draw the curve under white and under coloured noise, before and after the filter."""
    facts = [
        (f"{each.removed:.0%}", f"of the {colour} noise's power removed by the filter")
        for colour, each in found.found.items()
    ]
    sections = []
    for colour, each in found.found.items():
        figure = new_figure()
        for name, curve, line in (
            ("released", each.released_kw, {"color": _PALE}),
            ("filtered", each.filtered_kw, {"color": ORANGE}),
            ("exact", found.exact_kw, {"color": BLUE, "dash": "dash"}),
        ):
            figure.add_scatter(x=list(grid.labels), y=curve, name=name, line=line, mode="lines")
        title = f"{colour.capitalize()} noise: {each.noise_kw:.2g} kW, {each.left_kw:.2g} kW after"
        sections.append(figure_html(Shown(title, figure, "", "kW")))
    body = f'<div class="grid">{"".join(sections)}</div>'
    title = "A filter against white and coloured noise of equal guarantee"
    path.write_text(private_page(title, facts, body), encoding="utf-8")


def write_copy_page(found: Mapping[str, CopyAttack], path: Path) -> None:
    """Draw every share, a group of bars for each."""
    figure = new_figure()
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
    body = figure_html(Shown("What is found in each release", figure, "share", ""), height="32rem")
    facts = [(f"{each.copied:.1%}", f"readings copied: {name}") for name, each in found.items()]
    page = private_page("Real customers among synthetic ones", facts, body)
    path.write_text(page, encoding="utf-8")


def write_solar_page(found: SolarAttack, grid: Grid, path: Path) -> None:
    """Draw the home, what exact averages give, and what released ones give."""
    figure = new_figure()
    times = list(grid.labels)
    for number, curve in enumerate(found.protected_kw):
        figure.add_scatter(
            x=times,
            y=curve,
            name="from two released averages",
            line={"color": _PALE, "width": 1},
            showlegend=number == 0,
        )
    for name, curve, line in (
        ("the home", found.home_kw, {"color": BLUE, "width": 4}),
        ("from two exact averages", found.recovered_kw, {"color": ORANGE, "dash": "dot"}),
    ):
        figure.add_scatter(x=times, y=curve, name=name, line=line, mode="lines")
    top = float(np.abs(found.home_kw).max())
    figure.update_yaxes(range=[-4.0 * top, 4.0 * top])  # noise that is larger leaves the frame
    home, other = found.said_solar
    facts = [
        (f"{found.error_kw:.1g} kW", "error of what two exact averages give"),
        (f"{home:.0%}", "of released averages look like export"),
        (f"{other:.0%}", "do so for a home without panels"),
    ]
    body = figure_html(Shown("One home, from two averages", figure, "", "kW"), height="30rem")
    page = private_page("Finding the home with solar panels", facts, body)
    path.write_text(page, encoding="utf-8")
