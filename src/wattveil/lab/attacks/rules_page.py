"""Page of `wattveil rules`: suppression by an N/X rule, its attack, and the DP alternative."""

from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure

from wattveil.lab.attacks.attack_page import recovery_figure
from wattveil.lab.attacks.differencing import RuleReport
from wattveil.web.charts import (
    BLUE,
    ORANGE,
    TWO_SIDED_95,
    add_band,
    new_figure,
    panel,
    use_log_axes,
)
from wattveil.web.formatting import format_share
from wattveil.web.pages import PageTable, write_internal_page


def write_rules_page(report: RuleReport, path: str | Path) -> None:
    """Write the page as one file."""
    found, guarantee = report.cells, report.released.guarantee
    facts = [
        (str(found.rule), "rule"),
        (f"{len(found.cells):,}", "cells"),
        *((format_share(share), name) for name, share in found.rates.items()),
        (f"{guarantee.epsilon:g}", "epsilon of the DP release"),
    ]
    under = f"Cells under the rule {found.rule} (dashed: its limits)"
    figures = [
        panel(under, _cells(report), "customers", "share of the largest, %"),
        *([] if report.recovery is None else [recovery_figure(report.recovery, report.hours)]),
        panel("Error of the DP mean", _errors(report), "customers", "error, % of the mean load"),
        panel("Cell with the most customers: exact and DP mean", _largest(report), "hour", "kW"),
    ]
    write_internal_page(
        path,
        "rules",
        title=f"The {found.rule} rule: suppression, and recovery by differencing",
        facts=facts,
        summary=report.summary,
        figures=figures,
        cells=_table(report),
    )


def _by_verdict(report: RuleReport, y: list[float]) -> Figure:
    """Draw a point per cell over its number of customers, coloured by publication."""
    figure = new_figure()
    cells = report.cells.cells
    for name, published, colour in (("published", True, BLUE), ("suppressed", False, ORANGE)):
        chosen = [place for place, cell in enumerate(cells) if cell.published is published]
        figure.add_scatter(
            x=[cells[place].customers for place in chosen],
            y=[y[place] for place in chosen],
            text=[cells[place].name for place in chosen],
            mode="markers",
            marker={"color": colour, "size": 8},
            name=name,
        )
    use_log_axes(figure, x=True)
    return figure


def _cells(report: RuleReport) -> Figure:
    rule = report.cells.rule
    figure = _by_verdict(report, [100.0 * cell.largest_share for cell in report.cells.cells])
    figure.add_vline(x=rule.min_customers, line_dash="dash")
    figure.add_hline(y=rule.max_share_percent, line_dash="dash")
    return figure


def _errors(report: RuleReport) -> Figure:
    figure = _by_verdict(report, (100.0 * report.errors).tolist())
    use_log_axes(figure, y=True)
    return figure


def _largest(report: RuleReport) -> Figure:
    """Draw the cell of the largest number of customers, with the released error band."""
    place = int(np.argmax([cell.customers for cell in report.cells.cells]))
    mean_kw, reach_kw = report.released.mean_kw[place], TWO_SIDED_95 * report.released.std_kw[place]
    figure, band = new_figure(), (mean_kw - reach_kw, mean_kw + reach_kw)
    add_band(figure, report.hours, *band, colour=ORANGE, name="95 % band")
    figure.add_scatter(x=report.hours, y=mean_kw, name="DP mean", line={"color": ORANGE})
    exact = report.exact_kw[place]
    figure.add_scatter(x=report.hours, y=exact, name="exact mean", line={"color": BLUE})
    return figure


def _table(report: RuleReport) -> PageTable:
    head = (
        *("cell", "customers", "share of the largest", "customers recovered"),
        *("error of the DP mean", "outcome of the rule"),
    )
    rows = [
        (
            cell.name,
            f"{cell.customers:,}",
            format_share(cell.largest_share),
            f"{cell.exposed:,}",
            format_share(error),
            cell.reason or "published",
        )
        for cell, error in zip(report.cells.cells, report.errors, strict=True)
    ]
    return PageTable("Cells", head, rows, text_columns=(0, len(head) - 1))
