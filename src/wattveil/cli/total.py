"""The command `total`: the privacy loss of several releases and series about the same customers."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from wattveil.bundle.replaced_data import inference_sentence, replace_one
from wattveil.bundle.total_loss import CountedRelease, TotalLoss, read_cost, total_loss
from wattveil.cli.option_groups import EXECUTION
from wattveil.terminal import Console, plain, refusals
from wattveil.web.formatting import format_count, format_factor, format_upper_bound

EPILOGS = {"total": "Example: wattveil total march june quarters --delta 1e-6"}

_ID_LETTERS, _DATE_LETTERS = 8, 10
_ASSUMED = (
    "The total is that of a customer who is in all of them, and an upper bound for every other"
    " customer. It holds if all budgets, or caps for the total and for labels, were fixed before"
    " results were seen. A series is counted in full, with all"
    " periods of its horizon. The manifests were checked for contradictions; files and signatures"
    " were not: verify each bundle with `wattveil verify` or `wattveil series verify`."
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

    Gaussian parts are composed exactly; labels add at most their epsilons. A series is counted in
    full, with all periods of its horizon. Releases of the instance tier are listed and not counted:
    it is not differential privacy; the exit code is 1 then, because the total is not complete. A
    manifest whose draws, charges and guarantee contradict each other is refused (exit code 1).
    Verify each bundle first.
    """
    with refusals(context):
        found = total_loss([read_cost(bundle) for bundle in bundles], delta=delta)
    if as_json:
        typer.echo(json.dumps(_record(found), indent=2))
    else:
        _show(Console(), found)
    if not found.is_complete:
        raise typer.Exit(1)


def _record(found: TotalLoss) -> dict[str, object]:
    return {
        "complete": found.is_complete,
        "epsilon": found.epsilon,
        "delta": found.guarantee.delta,
        "factor": format_factor(found.epsilon),
        "neighbours": found.guarantee.neighbours.value,
        "replace_one": _replace_one_record(found),
        "unit": found.guarantee.unit.value,
        "warnings": list(found.warnings),
        "counted": [one.to_json() for one in found.counted],
        "not_counted": [one.to_json() for one in found.not_counted],
    }


def _replace_one_record(found: TotalLoss) -> dict[str, float] | None:
    """Return the total for inferences about the value of data; None if no bound follows."""
    other = replace_one(found.guarantee)
    if other is None:
        return None
    return {"epsilon": other.epsilon, "delta": other.delta}


def _show(console: Console, found: TotalLoss) -> None:
    for warning in found.warnings:
        console.print(f"[bold red]Warning:[/] {plain(warning)}", highlight=False)
    head = ("release", "id", "date", "title", "kind", "epsilon", "delta", "of which labels")
    table = Table(*head, title="Releases about the same customers", title_justify="left")
    for one in (*found.counted, *found.not_counted):
        table.add_row(*_cells(one))
    console.print(table)
    for one in (*found.counted, *found.not_counted):
        console.print(f"  {one.release_id}  {plain(one.folder)}", highlight=False, soft_wrap=True)
    epsilon, delta = format_upper_bound(found.guarantee.epsilon, 4), f"{found.guarantee.delta:g}"
    number, results = format_count(len(found.counted), "release"), "any published result"
    if found.not_counted:
        named = len(found.counted) + len(found.not_counted)
        number = f"{len(found.counted)} of {format_count(named, 'release')}"
        results = "any result of the counted releases"
    console.print(f"Total of {number}: epsilon {epsilon} at delta {delta}.", highlight=False)
    console.print(
        f"Adding or removing all data of one {found.guarantee.unit.value} changes the probability"
        f" of {results} by a factor of at most {format_factor(found.epsilon)}, plus at most"
        f" {delta}. {inference_sentence(found.guarantee)}",
        highlight=False,
    )
    console.print(_ASSUMED, highlight=False)


def _cells(one: CountedRelease) -> tuple[str, ...]:
    is_counted = one.guarantee.tier.value == "global"
    labels = f"{one.cost.response_epsilon:g}" if one.cost.response_epsilon else "none"
    return (
        plain(one.folder),
        one.release_id[:_ID_LETTERS],
        one.published_at[:_DATE_LETTERS],
        plain(one.title),
        one.kind,
        f"{one.guarantee.epsilon:g}" if is_counted else "not counted",
        f"{one.guarantee.delta:g}",
        labels if is_counted else "not counted",
    )
