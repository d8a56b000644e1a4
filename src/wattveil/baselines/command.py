"""The verb `compare`: all mechanisms and rivals on one's own customers."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wattveil.baselines.comparison import Comparison, Setting, compare_mechanisms
from wattveil.baselines.mechanisms import MECHANISMS
from wattveil.baselines.page import shown, write_comparison_page
from wattveil.baselines.summary import Row, summarise, to_json, write_csv
from wattveil.errors import InvalidParameterError
from wattveil.profiles.table import Profiles
from wattveil.terminal import check_folders, counting_bar, plain, refusals

EPILOG = "Example: wattveil compare profiles.parquet --epsilon 0.1,0.3,1,3,10 --repeats 10"

_CELLS, _TABLE, _PAGE = "cells.jsonl", "comparison.csv", "comparison.html"


def compare(
    context: typer.Context,
    profiles: Annotated[Path, typer.Argument(help="Made by `wattveil profiles`.")],
    *,
    epsilon: Annotated[
        str, typer.Option(help="Budgets of the centroids; labels cost as much again.")
    ] = "0.1,0.3,1,3,10",
    delta: Annotated[float, typer.Option(help="Of those that have one.")] = 1e-6,
    clusters: Annotated[int, typer.Option(help="Number of clusters.")] = 6,
    mechanism: Annotated[
        str | None,
        typer.Option(help=f"Some of {', '.join(MECHANISMS)}; all that run here unless given."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each mechanism at each epsilon.")] = 10,
    seed: Annotated[int, typer.Option(help="Of the rivals; Wattveil's own noise has no seed.")] = 0,
    jobs: Annotated[
        int, typer.Option(help="Processes; one a processor unless given.", show_default=False)
    ] = os.cpu_count() or 1,
    out: Annotated[
        Path,
        typer.Option(
            help=f"Folder of {_CELLS}, {_TABLE} and {_PAGE}; private. A run goes on there."
        ),
    ] = Path("comparison"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Run all mechanisms and rivals on the same customers: loss, time, and what each guarantees."""
    console = Console()
    with refusals(context):
        setting = Setting(
            mechanisms=None
            if mechanism is None
            else tuple(name.strip() for name in mechanism.split(",")),
            epsilons=_numbers(epsilon),
            delta=delta,
            n_clusters=clusters,
            repeats=repeats,
            seed=seed,
        )
        check_folders({"out": out})
        out.mkdir(exist_ok=True)
        load_kw = Profiles.read_parquet(profiles).load_kw
        with counting_bar(quiet=as_json) as bar:
            task = bar.add_task("reading", total=None)
            found = compare_mechanisms(
                load_kw,
                setting,
                cells=out / _CELLS,
                jobs=jobs,
                advance=lambda what, done, total: bar.update(
                    task, description=what, completed=done, total=total
                ),
            )
        rows = summarise(found)
        write_csv(rows, out / _TABLE)
        write_comparison_page(found, rows, out / _PAGE)
    if as_json:
        typer.echo(json.dumps(to_json(found, rows), indent=2))
    else:
        _show(console, found, rows)
        console.print(f"Wrote {plain(str(out))}: {_CELLS}, {_TABLE}, {_PAGE}.", highlight=False)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidParameterError("epsilon", "numbers with commas between", text) from error


def _show(console: Console, comparison: Comparison, rows: list[Row]) -> None:
    """Print a table for each way to assign customers."""
    setting = comparison.setting
    middle = sorted(setting.epsilons)[len(setting.epsilons) // 2]
    console.print("[red]Private:[/] exact losses on these customers, not protected.")
    for reason in comparison.left_out:
        console.print(f"Left out: {plain(reason)}", highlight=False)
    for field, title in (("nearest", "nearest centroid"), ("labels", "released labels")):
        has = "true" if field == "nearest" else "true_with_labels"
        table = Table(
            title=f"DP accuracy loss, {title}: median (quartiles) of {setting.repeats}",
            title_justify="left",
        )
        table.add_column("mechanism", no_wrap=True)
        for value in setting.epsilons:
            table.add_column(f"ε = {value:g}", justify="right", overflow="fold")
        table.add_column("CPU s", justify="right")
        table.add_column(f"really has at ε = {middle:g}")
        for name in comparison.mechanisms:
            mine = [row for row in rows if row.mechanism == name]
            if getattr(mine[0], field) is None:
                continue
            at_middle = next(row for row in mine if row.epsilon == middle)
            table.add_row(
                name,
                # Two lines a cell: five epsilons fit on a screen.
                *(shown(getattr(row, field)).replace(" (", "\n(") for row in mine),
                f"{at_middle.cpu_seconds:.2f}",
                getattr(at_middle, has)
                if at_middle.keeps_its_claim
                else f"[red]{getattr(at_middle, has)}[/]",
            )
        if table.row_count:
            console.print(table)
    console.print(
        "In red: less than claimed. Rivals get bounds taken from the data for free.",
        highlight=False,
    )
