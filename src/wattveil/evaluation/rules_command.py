"""The verb `rules`: what an N/X rule hides, how it is undone, and what the DP answer costs."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from wattveil.evaluation.rules_page import write_rules_page
from wattveil.evaluation.rules_report import RuleReport, report_rule
from wattveil.profiles import Profiles
from wattveil.terminal import check_folders, plain, refusals

EPILOG = "Example: wattveil rules profiles.parquet --rule 15/15 --by zip --page rules.html"

_SHOWN_CELLS = 30


def rules(
    context: typer.Context,
    profiles: Annotated[Path, typer.Argument(help="Made by `wattveil profiles`; private.")],
    *,
    by: Annotated[str, typer.Option(help="Attributes that make the cells: zip or zip,class.")],
    rule: Annotated[
        str, typer.Option(help="N/X: 15/15, 100/15, 6/40, 4/50 or your own.")
    ] = "15/15",
    epsilon: Annotated[float, typer.Option(help="Budget of the DP answer.")] = 1.0,
    delta: Annotated[float, typer.Option(help="What its promise may miss by.")] = 1e-6,
    page: Annotated[Path | None, typer.Option(help="HTML page with pictures; private.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it all as JSON.")] = False,
) -> None:
    """Show what an N/X rule publishes, who can be recovered from it, and the DP answer."""
    with refusals(context):
        check_folders({"page": page})
        report = report_rule(
            Profiles.read_parquet(profiles),
            rule=rule,
            by=by.split(","),
            epsilon=epsilon,
            delta=delta,
        )
        if page is not None:
            write_rules_page(report, page)
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        _show(Console(), report)


def _show(console: Console, report: RuleReport) -> None:
    found = report.found
    console.print(
        f"Rule {found.rule} on {len(found.cells):,} cells. [red]Private:[/] exact, not protected.",
        highlight=False,
    )
    table = Table("cell", "customers", "largest", "rule", "recovered", "DP error", box=SIMPLE)
    for column in (table.columns[1], table.columns[2], *table.columns[4:]):
        column.justify = "right"
    for cell, error in list(zip(found.cells, report.errors, strict=True))[:_SHOWN_CELLS]:
        said = "[green]published[/]" if cell.published else f"[yellow]{cell.reason}[/]"
        table.add_row(
            plain(cell.name),
            f"{cell.customers:,}",
            f"{cell.largest_share:.1%}",
            said,
            f"{cell.exposed:,}",
            f"{error:.1%}",
        )
    console.print(table)
    if len(found.cells) > _SHOWN_CELLS:
        console.print(f"{len(found.cells) - _SHOWN_CELLS:,} more cells are on the page.")
    for name, share in found.rates.items():
        console.print(f"  {name:<24}{share:>7.1%}", highlight=False)
    for line in report.summary:
        console.print(line, highlight=False)
