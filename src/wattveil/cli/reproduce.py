"""The command `reproduce`: the figures of the paper, each with the corrected result."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from wattveil.errors import InvalidParameterError, MissingExtraError, one_of
from wattveil.lab.reproduce import FIGURES
from wattveil.lab.reproduce.figure import Reproduction
from wattveil.lab.reproduce.reproduction_page import PAGE, Run, to_json, write_figures
from wattveil.lab.reproduce.study import SIMULATED, Study
from wattveil.terminal import Console, counting_bar, plain, refusals

EPILOGS = {"reproduce": "Example: wattveil reproduce all --out figures"}
ALL = "all"


def reproduce(
    context: typer.Context,
    figures: Annotated[
        list[str] | None, typer.Argument(help="Names of figures (see --list), or all.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the page and the numbers.")] = Path(
        "figures"
    ),
    data: Annotated[
        str,
        typer.Option(
            help="Source of the load: simulated, london (WATTVEIL_DATA names the data folder), or a"
            " file made by `wattveil profiles`; results from your own file are private."
        ),
    ] = SIMULATED,
    fast: Annotated[
        bool, typer.Option("--fast", help="Fewer customers and repetitions: rougher figures.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Print the names of the figures and stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Reproduce the paper's figures: the paper's result, ours, and the cause of each difference."""
    console, errors = Console(), Console(stderr=True)
    if listing:
        _list(console, as_json=as_json)
        return
    with refusals(context):
        chosen = _chosen(figures or [ALL])
        study = Study(data=data, fast=fast)
        out.mkdir(parents=True, exist_ok=True)  # before minutes of work
        with counting_bar(quiet=as_json) as bar:
            runs = list(_runs(study, chosen, bar, errors))
        write_figures(study, runs, out)
    if as_json:
        typer.echo(json.dumps(to_json(study, runs), indent=2, ensure_ascii=False))
    else:
        _show(console, study, runs, out)


def _chosen(names: list[str]) -> list[Reproduction]:
    if ALL in names:
        return list(FIGURES.values())
    for name in names:
        if name not in FIGURES:
            raise InvalidParameterError("figures", f"all, or {one_of(FIGURES)}", name)
    return [figure for name, figure in FIGURES.items() if name in names]


def _runs(
    study: Study, chosen: list[Reproduction], bar: Progress, errors: Console
) -> Iterator[Run]:
    """Draw the figures in order; of several, skip those whose extra is not installed."""
    task = bar.add_task("drawing", total=len(chosen))
    for figure in chosen:
        bar.update(task, description=figure.name)
        start = time.perf_counter()
        try:
            outcome = figure.run(study)
        except MissingExtraError as error:
            if len(chosen) == 1:
                raise
            errors.print(f"[yellow]omitted:[/] {figure.name}: {plain(str(error))}")
            continue
        yield Run(figure, outcome, time.perf_counter() - start)
        bar.advance(task)


def _list(console: Console, *, as_json: bool) -> None:
    if as_json:
        listed = {name: figure.title for name, figure in FIGURES.items()}
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    table = Table("name", "figure", "in the paper")
    for name, figure in FIGURES.items():
        table.add_row(name, figure.title, figure.paper)
    console.print(table)


def _show(console: Console, study: Study, runs: list[Run], out: Path) -> None:
    for run in runs:
        console.print(f"[bold]{run.figure.title}[/] ({run.seconds:.1f} s)", highlight=False)
        console.print(f"  {plain(run.outcome.found)}", highlight=False)
    if study.customers.private:
        console.print(
            "[red]Private:[/] exact values without protection; do not publish.", highlight=False
        )
    console.print(f"[bold]Page:[/] {plain(str(out / PAGE))}", highlight=False)
