"""The command `compare`: mechanisms and baselines on the same real customers."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from wattveil.cli.option_groups import EXECUTION, STATISTICS, AsJson, check_private_files
from wattveil.errors import InvalidParameterError
from wattveil.lab.baselines.baseline_comparison import (
    MECHANISMS,
    BaselineComparison,
    ComparisonSetting,
    compare_mechanisms,
)
from wattveil.lab.baselines.baseline_summary import BaselineRow, summarise, to_json, write_csv
from wattveil.lab.baselines.baselines_page import format_quartiles, write_comparison_page
from wattveil.profiles.profiles import Profiles
from wattveil.terminal import Console, counting_bar, plain, refusals

EPILOGS = {
    "compare": "Example: wattveil compare profiles.parquet --epsilon 0.1,0.3,1,3,10 --repeats 10",
}

_RUNS, _TABLE, _PAGE = "runs.jsonl", "comparison.csv", "comparison.html"


def compare(
    context: typer.Context,
    profiles: Annotated[Path, typer.Argument(help="Real profiles; private.")],
    *,
    epsilon: Annotated[
        str, typer.Option(help="Epsilon of the centroids; released labels cost the same again.")
    ] = "0.1,0.3,1,3,10",
    clusters: Annotated[int, typer.Option(help="Number of clusters.")] = 6,
    mechanism: Annotated[
        str | None,
        typer.Option(help=f"Some of {', '.join(MECHANISMS)}; all that can run if omitted."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs of each mechanism at each epsilon.")] = 10,
    out: Annotated[
        Path,
        typer.Option(
            help=f"Folder for {_RUNS}, {_TABLE} and {_PAGE}; private. An interrupted run resumes."
        ),
    ] = Path("comparison"),
    delta: Annotated[
        float,
        typer.Option(help="Delta of mechanisms that have one.", rich_help_panel=STATISTICS),
    ] = 1e-6,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of the baselines; Wattveil's own noise has none.",
            rich_help_panel=STATISTICS,
        ),
    ] = 0,
    jobs: Annotated[
        int,
        typer.Option(
            help="Number of processes; one per processor if omitted.",
            show_default=False,
            rich_help_panel=EXECUTION,
        ),
    ] = os.cpu_count() or 1,
    as_json: AsJson = False,
) -> None:
    """Run all mechanisms and baselines on the same customers: loss, time and actual guarantee."""
    console = Console()
    with refusals(context):
        setting = ComparisonSetting(
            mechanisms=None
            if mechanism is None
            else tuple(name.strip() for name in mechanism.split(",")),
            epsilons=_numbers(epsilon),
            delta=delta,
            n_clusters=clusters,
            repeats=repeats,
            seed=seed,
        )
        check_private_files({"out": out})
        out.mkdir(exist_ok=True)
        load_kw = Profiles.read_parquet(profiles).load_kw
        with counting_bar(quiet=as_json) as bar:
            task = bar.add_task("reading", total=None)
            found = compare_mechanisms(
                load_kw,
                setting,
                path=out / _RUNS,
                jobs=jobs,
                advance=lambda what, done, total: bar.update(
                    task, description=what, completed=done, total=total
                ),
            )
        rows = summarise(found)
        write_csv(found, rows, out / _TABLE)
        write_comparison_page(found, rows, out / _PAGE)
    if as_json:
        typer.echo(json.dumps(to_json(found, rows), indent=2))
    else:
        _show_comparison(console, found, rows)
        console.print(f"Wrote {plain(str(out))}: {_RUNS}, {_TABLE}, {_PAGE}.", highlight=False)


_LIMIT_ROWS = {"one_draw": "limit A", "no_small_clusters": "limit B", "bound": "bound"}


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidParameterError("epsilon", "numbers separated by commas", text) from error


def _show_comparison(
    console: Console, comparison: BaselineComparison, rows: list[BaselineRow]
) -> None:
    """Print one table for nearest centroids and one for released labels."""
    setting = comparison.setting
    middle = sorted(setting.epsilons)[len(setting.epsilons) // 2]
    console.print("[red]Private:[/] exact losses on these customers, not protected.")
    for reason in comparison.left_out:
        console.print(f"Omitted: {plain(reason)}", highlight=False)
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
        table.add_column(f"actual at ε = {middle:g}")
        for name in comparison.mechanisms:
            mine = [row for row in rows if row.mechanism == name]
            if getattr(mine[0], field) is None:
                continue
            at_middle = next(row for row in mine if row.epsilon == middle)
            table.add_row(
                name,
                # Two lines per cell: five epsilons fit on a screen.
                *(format_quartiles(getattr(row, field)).replace(" (", "\n(") for row in mine),
                f"{at_middle.cpu_seconds:.2f}",
                getattr(at_middle, has)
                if at_middle.keeps_its_claim
                else f"[red]{getattr(at_middle, has)}[/]",
            )
        if field == "nearest":
            for limit, name in _LIMIT_ROWS.items():
                table.add_row(
                    name, *(f"{getattr(one, limit):.3g}" for one in comparison.limits), "", ""
                )
        if table.row_count:
            console.print(table)
    console.print("A, B and bound estimate the unavoidable loss of private methods (see the page).")
    console.print(
        "Red: the claim does not hold. Baselines use bounds computed from the data without noise.",
        highlight=False,
    )
