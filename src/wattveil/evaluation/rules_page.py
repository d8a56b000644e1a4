"""One page on an N/X rule: what it hides, how it is undone, what the DP answer is worth."""

from html import escape
from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure

from wattveil.evaluation.differencing import recovery_figure
from wattveil.evaluation.rules_report import RuleReport
from wattveil.measures.page import BLUE, ORANGE, new_figure
from wattveil.profiles.page import Shown, figure_html, private_page


def write_rules_page(report: RuleReport, path: str | Path) -> None:
    """Write the page, with all it needs inside."""
    found, guarantee = report.found, report.released.guarantee
    facts = [
        (str(found.rule), "rule"),
        (f"{len(found.cells):,}", "cells"),
        *((f"{share:.1%}", name) for name, share in found.rates.items()),
        (f"{guarantee.epsilon:g}", "epsilon of the DP answer"),
    ]
    shown = [
        Shown("Cells under the rule", _cells(report), "customers", "share of the largest, %"),
        *([] if report.recovery is None else [recovery_figure(report.recovery, report.hours)]),
        Shown("Error of the DP mean", _errors(report), "customers", "% of the mean load"),
        Shown("The largest cell: exact and DP mean", _largest(report), "hour", "kW"),
    ]
    body = "".join(
        [
            "".join(f"<p>{escape(line)}</p>" for line in report.summary),
            f'<div class="grid">{"".join(map(figure_html, shown))}</div>',
            _table(report),
        ]
    )
    title = f"What the {found.rule} rule hides, and what undoes it"
    Path(path).write_text(private_page(title, facts, body), encoding="utf-8")


def _by_verdict(report: RuleReport, y: list[float]) -> Figure:
    """Draw a point a cell over its number of customers, published and suppressed apart."""
    figure = new_figure()
    cells = report.found.cells
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
    figure.update_xaxes(type="log")
    return figure


def _cells(report: RuleReport) -> Figure:
    rule = report.found.rule
    figure = _by_verdict(report, [100.0 * cell.largest_share for cell in report.found.cells])
    figure.add_vline(x=rule.least_customers, line_dash="dash")
    figure.add_hline(y=rule.largest_percent, line_dash="dash")
    return figure


def _errors(report: RuleReport) -> Figure:
    figure = _by_verdict(report, (100.0 * report.errors).tolist())
    figure.update_yaxes(type="log")
    return figure


def _largest(report: RuleReport) -> Figure:
    """Draw the cell of most customers, with the error band that the release states itself."""
    place = int(np.argmax([cell.customers for cell in report.found.cells]))
    mean_kw, std_kw = report.released.mean_kw[place], 1.96 * report.released.std_kw[place]
    figure = new_figure()
    band = np.concatenate([mean_kw + std_kw, (mean_kw - std_kw)[::-1]])
    around = np.concatenate([report.hours, report.hours[::-1]])
    figure.add_scatter(
        x=around, y=band, fill="toself", line={"width": 0}, name="95 % band", opacity=0.3
    )
    figure.add_scatter(x=report.hours, y=mean_kw, name="DP mean", line={"color": ORANGE})
    exact = report.exact_kw[place]
    figure.add_scatter(x=report.hours, y=exact, name="exact mean", line={"color": BLUE})
    return figure


def _table(report: RuleReport) -> str:
    titles = ("customers", "largest share", "recovered", "error of the DP mean")
    numbers = "".join(f'<th class="number">{title}</th>' for title in titles)
    lines = []
    for cell, error in zip(report.found.cells, report.errors, strict=True):
        values = (
            f"{cell.customers:,}",
            f"{cell.largest_share:.1%}",
            f"{cell.exposed:,}",
            f"{error:.1%}",
        )
        cells = "".join(f'<td class="number">{value}</td>' for value in values)
        said = escape(cell.reason or "published")
        lines.append(f"<tr><td>{escape(cell.name)}</td>{cells}<td>{said}</td></tr>")
    head = f"<tr><th>cell</th>{numbers}<th>rule</th></tr>"
    return (
        f"<div class='scroll'><table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
        "</div>"
    )
