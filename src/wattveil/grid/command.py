"""The verb `grid`: real and synthetic customers on the same feeder."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wattveil.grid.comparison import GridComparison
from wattveil.grid.experiment import DRAWS, PAPER_POWER_FACTOR, compare_on_feeder
from wattveil.grid.page import write_grid_page
from wattveil.measures.verdicts import Verdict
from wattveil.profiles.table import Profiles
from wattveil.profiles.text import shown
from wattveil.terminal import check_folders, counting_bar, plain, refusals

EPILOG = (
    "Example: wattveil grid profiles.parquet synthetic.parquet --feeder case141 --report grid.html"
)

_COLOURS = {Verdict.INSIDE: "green", Verdict.DETECTABLE: "red", Verdict.NO_PROOF: "dim"}


def grid(
    context: typer.Context,
    profiles: Annotated[Path, typer.Argument(help="Real profiles, made by `wattveil profiles`.")],
    synthetic: Annotated[Path, typer.Argument(help="Synthetic profiles on the same grid.")],
    *,
    feeder: Annotated[
        str,
        typer.Option(help="case141, ieee123, a folder of buses.csv and branches.csv, or case.m."),
    ] = "case141",
    by: Annotated[
        str | None, typer.Option(help="Attribute of both that names the class; its mix is kept.")
    ] = None,
    clusters: Annotated[int, typer.Option(help="Number of centroids of the control.")] = 6,
    scaling: Annotated[str, typer.Option(help="houses, factor or literal.")] = "houses",
    houses: Annotated[
        int | None, typer.Option(help="How many; as many as carry the nominal load otherwise.")
    ] = None,
    power_factor: Annotated[
        float, typer.Option(help="Of all customers; the paper's unless given.", show_default=False)
    ] = PAPER_POWER_FACTOR,
    transformer_kva: Annotated[float, typer.Option(help="Rating of a transformer.")] = 25.0,
    transformer_homes: Annotated[int, typer.Option(help="Homes that it feeds.")] = 8,
    redraws: Annotated[int, typer.Option(help="Draws of real customers for the noise.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 0,
    report: Annotated[Path | None, typer.Option(help="HTML page with plots; private.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Run the same feeder with real and with synthetic customers, and say where they differ."""
    console = Console()
    with refusals(context):
        check_folders({"report": report})
        with counting_bar(quiet=as_json) as bar:
            task = bar.add_task("drawing", total=redraws + 2 * DRAWS + 1)
            comparison = compare_on_feeder(
                Profiles.read_parquet(profiles),
                Profiles.read_parquet(synthetic),
                feeder=feeder,
                by=by,
                n_clusters=clusters,
                scaling=scaling,
                houses=houses,
                power_factor=power_factor,
                transformer_kva=transformer_kva,
                transformer_homes=transformer_homes,
                redraws=redraws,
                seed=seed,
                advance=lambda: bar.advance(task),
            )
        if report is not None:
            write_grid_page(comparison, report)
    if as_json:
        typer.echo(json.dumps(comparison.to_json(), indent=2))
    else:
        _show(console, comparison)


def _show(console: Console, comparison: GridComparison) -> None:
    setting = comparison.setting
    console.print(
        f"{setting.feeder.name}: {setting.placement.houses:,} houses on {setting.feeder.buses}"
        " buses. [red]Private:[/] exact, not protected.",
        highlight=False,
    )
    if len(comparison.class_names) > 1:
        apart = f"{comparison.class_mix_distance:.3f}"
        console.print(f"{len(comparison.class_names)} classes; their mixes are {apart} apart.")
    for snapshot, said in comparison.synthetic_failures.items():
        when = setting.grid.labels[snapshot]
        console.print(f"[red]no solution[/] for the synthetic customers at {when}: {plain(said)}")
    table = Table("metric", "unit", "real", "synthetic", "ratio", "control", "verdict")
    for column in table.columns[2:6]:
        column.justify = "right"
    for row in comparison.rows:
        numbers = (row.real, row.synthetic, row.ratio, row.control_ratio)
        colour = _COLOURS[row.verdict]
        table.add_row(
            row.metric, row.unit, *map(shown, numbers), f"[{colour}]{row.verdict.value}[/]"
        )
    console.print(table)
    console.print("ratio: distance from the real customers over that of 95 % of redrawn real ones.")
    console.print("control: the same for houses that follow cluster centroids of real ones alone.")
