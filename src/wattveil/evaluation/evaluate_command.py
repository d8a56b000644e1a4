"""The verb `evaluate`: how like the real customers synthetic ones are."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from wattveil.evaluation.comparison import LEAST_REPEATS, Evaluation, evaluate_load
from wattveil.evaluation.evaluate_page import write_evaluation_page
from wattveil.evaluation.populations import Populations, read_populations
from wattveil.measures.verdicts import Verdict
from wattveil.profiles.text import shown
from wattveil.terminal import check_folders, counting_bar, refusals

EPILOG = "Example: wattveil evaluate profiles.parquet synthetic.parquet --page evaluation.html"

_COLOURS = {
    Verdict.INSIDE.value: "green",
    Verdict.DETECTABLE.value: "red",
    Verdict.NO_PROOF.value: "dim",
}


def evaluate(
    context: typer.Context,
    real: Annotated[Path, typer.Argument(help="Real profiles, or readings; private.")],
    synthetic: Annotated[Path, typer.Argument(help="Synthetic ones on the same grid or days.")],
    *,
    clusters: Annotated[int, typer.Option(help="Number of centroids of the control.")] = 6,
    repeats: Annotated[
        int, typer.Option(help="How often the real customers are cut into halves.")
    ] = LEAST_REPEATS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same halves.")] = 0,
    timezone: Annotated[
        str | None, typer.Option(help="Of readings: zone of the days, UTC unless given.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="HTML page with plots; private.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Measure how like the real customers synthetic ones are, beside chance and a control."""
    console = Console()
    with refusals(context):
        check_folders({"page": page})
        both = read_populations(real, synthetic, timezone=timezone)
        with counting_bar(quiet=as_json) as bar:
            task = bar.add_task("measuring", total=repeats)
            found = evaluate_load(
                both.real_kw,
                both.synthetic_kw,
                both.layout,
                n_clusters=clusters,
                repeats=repeats,
                seed=seed,
                advance=lambda: bar.advance(task),
            )
        if page is not None:
            write_evaluation_page(found, page)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        _show(console, found, both)


def _show(console: Console, found: Evaluation, both: Populations) -> None:
    days = "1 day" if both.layout.days == 1 else f"{both.layout.days} days"
    console.print(
        f"{found.customers:,} real and {found.synthetic_customers:,} synthetic customers,"
        f" {days} of {both.layout.slots_per_day} slots."
        " [red]Private:[/] exact, not protected.",
        highlight=False,
    )
    for name, count in zip(("real", "synthetic"), both.left_out, strict=True):
        if count:
            console.print(f"[yellow]{count:,} {name} customers have gaps[/] and are left out.")
    titles = ("metric", "score", "noise", "ratio", "control", "verdict")
    table = Table(*titles, box=SIMPLE, padding=0, show_edge=False)  # a terminal has 80 columns
    for column in table.columns[1:5]:
        column.justify, column.no_wrap = "right", True
    table.columns[5].max_width = len(Verdict.NO_PROOF)
    for row in found.rows:
        numbers = map(shown, (row.score, row.noise, row.ratio, row.control_ratio))
        colour = _COLOURS.get(row.verdict, "yellow")
        table.add_row(row.metric, *numbers, f"[{colour}]{row.verdict}[/]")
    console.print(table)
    console.print("noise: 95 % of the distances between two halves of the real customers.")
    console.print("ratio: score over noise. control: the same for cluster centroids of real ones.")
