"""The command `total`: the privacy loss of several releases and series about the same customers."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wattveil.bundle.total_loss import CountedRelease, TotalLoss, read_cost, total_loss
from wattveil.cli.option_groups import EXECUTION
from wattveil.terminal import plain, refusals
from wattveil.web.formatting import format_count, format_upper_bound

EPILOGS = {"total": "Example: wattveil total march june quarters --delta 1e-6"}

_ASSUMED = (
    "The total holds for a customer who is in all of them, if budgets were fixed before results"
    " were seen. A series is counted in full, with all periods of its horizon. The manifests were"
    " checked for contradictions; files and signatures were not: verify each bundle with `wattveil"
    " verify` or `wattveil series verify`."
)


def total(
    context: typer.Context,
    bundles: Annotated[
        list[Path],
        typer.Argument(help="Folders of `wattveil release` and of series, about the same people."),
    ],
    *,
    delta: Annotated[
        float | None,
        typer.Option(help="Delta of the total; default: the largest of these releases."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the total as JSON.", rich_help_panel=EXECUTION)
    ] = False,
) -> None:
    """Compute the total epsilon of releases about the same customers, from their manifests.

    Gaussian parts are composed exactly, and the epsilons of labels are added. A series is counted
    in full, with all periods of its horizon. Releases of the instance tier are listed and not
    counted: it is not differential privacy. A manifest whose draws, charges and guarantee
    contradict each other is refused (exit code 1). Verify each bundle first.
    """
    with refusals(context):
        found = total_loss([read_cost(bundle) for bundle in bundles], delta=delta)
    if as_json:
        typer.echo(json.dumps(_record(found), indent=2))
    else:
        _show(Console(), found)


def _record(found: TotalLoss) -> dict[str, object]:
    return {
        "epsilon": found.guarantee.epsilon,
        "delta": found.guarantee.delta,
        "factor": _factor(found),
        "neighbours": found.guarantee.neighbours.value,
        "unit": found.guarantee.unit.value,
        "warnings": list(found.warnings),
        "counted": [one.to_json() for one in found.counted],
        "not_counted": [one.to_json() for one in found.not_counted],
    }


def _factor(found: TotalLoss) -> str:
    """Return e^epsilon, rounded up; above e^700 as a power, which no float holds."""
    epsilon = found.guarantee.epsilon
    largest = 700.0
    return format_upper_bound(math.exp(epsilon)) if epsilon < largest else f"e^{epsilon:g}"


def _show(console: Console, found: TotalLoss) -> None:
    head = ("release", "title", "kind", "epsilon", "delta", "of which labels")
    table = Table(*head, title="Releases about the same customers", title_justify="left")
    for one in (*found.counted, *found.not_counted):
        table.add_row(*_cells(one))
    console.print(table)
    epsilon, delta = format_upper_bound(found.guarantee.epsilon, 4), f"{found.guarantee.delta:g}"
    number = format_count(len(found.counted), "release")
    console.print(f"Total of {number}: epsilon {epsilon} at delta {delta}.", highlight=False)
    console.print(
        f"Adding or removing all data of one {found.guarantee.unit.value} changes the probability"
        f" of any published result by a factor of at most {_factor(found)}, plus at most {delta}."
        " For inferences about the value of the data, use twice the epsilon.",
        highlight=False,
    )
    for warning in found.warnings:
        console.print(f"[bold red]Warning:[/] {plain(warning)}", highlight=False)
    for one in found.not_counted:
        console.print(
            f"[yellow]Not counted:[/] {plain(one.folder)}, because the instance tier is not"
            " differential privacy. No total bounds what it adds.",
            highlight=False,
        )
    console.print(_ASSUMED, highlight=False)


def _cells(one: CountedRelease) -> tuple[str, ...]:
    is_counted = one.guarantee.tier.value == "global"
    labels = f"{one.cost.response_epsilon:g}" if one.cost.response_epsilon else "none"
    return (
        plain(one.folder),
        plain(one.title),
        one.kind,
        f"{one.guarantee.epsilon:g}" if is_counted else "not counted",
        f"{one.guarantee.delta:g}",
        labels if is_counted else "not counted",
    )
