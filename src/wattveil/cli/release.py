"""The verb `release`."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from wattveil import checks
from wattveil.bundle import keys
from wattveil.bundle.bundle_files import check_out
from wattveil.bundle.deployment_registry import registry_record
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.plan import ReleasePlan, plan_for_error, plan_release
from wattveil.bundle.produce import check_list, read_customer_list, release_bundle
from wattveil.cli.data import ENGINE_HELP, MASTER_HELP, chosen_engine
from wattveil.cli.model_options import model_options
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Tier
from wattveil.products.product import Work
from wattveil.products.public_estimate import rounding_notes
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles, TimeGrid
from wattveil.terminal import plain, refusals, working

if TYPE_CHECKING:
    from wattveil.engines.spark.spark_engine import SparkEngine

EPILOGS = {
    "release": (
        "Example: wattveil release profiles.parquet --clusters 6 --epsilon 1 --delta 1e-6"
        " --clip-kw 10 --out bundle"
    )
}

_FIRST_TIME = " (the first time on a machine, compiling takes about half a minute of it)"


@model_options(fallbacks={"epsilon": checks.MAX_EPSILON})  # until --target-error is solved for
def release(
    context: typer.Context,
    profiles: Annotated[str, typer.Argument(help="Parquet of `wattveil profiles`; private.")],
    *,
    out: Annotated[Path, typer.Option(help="New folder for the bundle.")] = Path("bundle"),
    request: ReleaseRequest,
    target_error: Annotated[
        str | None,
        typer.Option(
            help="Instead of --epsilon: the error to reach, such as 0.1kW.",
            rich_help_panel="Privacy budget",
        ),
    ] = None,
    customer_list: Annotated[
        Path | None,
        typer.Option(
            help="With labels: the public list of all customers, one id per line.",
            rich_help_panel="Labels",
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Private key to sign with: `wattveil admin key`.")
    ] = None,
    registry: Annotated[
        Path | None, typer.Option(help="YAML file for the OpenDP registry of deployments.")
    ] = None,
    engine: Annotated[str, typer.Option(help=ENGINE_HELP)] = "local",
    master: Annotated[str | None, typer.Option(help=MASTER_HELP)] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show cost and expected errors, and stop.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation; needed in scripts.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print plan or result as JSON.")] = False,
) -> None:
    """Release load profiles under one privacy budget, as a folder that anyone can check."""
    console = Console(stderr=as_json)
    with refusals(context):
        grid, write_bundle = _opened(profiles, chosen_engine(engine, master), request)
        epsilon = context.params["epsilon"]
        if (epsilon is None) == (target_error is None):
            raise InvalidParameterError("epsilon, target_error", "given, one of them", epsilon)
        show_rounding(console, context.params)
        signing = None if key is None else keys.read_key(key)
        listed = () if customer_list is None else read_customer_list(customer_list)
        if not plan:
            _check_places(out, registry, request.tier)
            check_list(request, listed)
            _check_answer(yes=yes)
        with working(console) as started:
            if target_error is None:
                started("planning")
                planned = plan_release(request, grid)
            else:
                started("looking for epsilon")
                planned = plan_for_error(request, _kilowatts(target_error), grid)
        if plan and as_json:
            typer.echo(planned.summary.model_dump_json(indent=2))
        if not as_json:
            show_plan(console, planned)
        if plan:
            return
        if not yes:
            typer.confirm("Spend this budget?", abort=True, err=True)
        with working(console) as started:
            note = _FIRST_TIME if request.tier is Tier.INSTANCE else ""
            manifest = write_bundle(
                planned,
                out,
                key=signing,
                customer_list=listed,
                started=lambda part: started(part + note),
            )
        if registry is not None:
            registry.write_text(registry_record(manifest), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(_released(manifest, request, out), indent=2))
        return
    console.print(f"[bold]Released[/] to {plain(str(out))}. {manifest['guarantee_text']}")
    console.print(f"  look at  {plain(str(out / 'report.html'))}", highlight=False)
    console.print(f"  check    wattveil verify {plain(str(out))}", highlight=False)


def _opened(
    path: str, spark: "SparkEngine | None", request: ReleaseRequest
) -> tuple[TimeGrid, Callable[..., Manifest]]:
    """Return the columns of profiles, and the function that releases them as a bundle.

    The rows stay in that function: the code that chooses the plan holds none.
    """
    rows = Profiles.read_parquet(path) if spark is None else spark.read_profiles(path)
    if request.by is not None:  # a wrong name is refused before the plan, which takes a while
        _ = Work(profiles=rows, request=request).groups
    return rows.grid, lambda *public, **choices: release_bundle(rows, *public, **choices)


def show_rounding(console: Console, given: Mapping[str, object]) -> None:
    """Print how the public estimates were rounded, by the name of their fields, if they were."""
    for note in rounding_notes(given):
        console.print(note, highlight=False)


def show_plan(console: Console, plan: ReleasePlan) -> None:
    """Print the split of the budget over products and their expected errors."""
    guarantee = plan.guarantee
    table = Table(
        "product",
        "standalone epsilon",
        "share of budget",
        "expected, about",
        title=f"Plan: epsilon {guarantee.epsilon} and delta {guarantee.delta} in total",
        title_justify="left",
    )
    for product in plan.products:
        grant = plan.allotments[product.name]
        share = f"{plan.rho_share(product.name):.0%}"
        if grant.grant.response_epsilon:
            share = "set aside"
        expected = "\n".join(f"{one.quantity} {one}" for one in plan.expected[product.name])
        table.add_row(product.name, repr(grant.guarantee.epsilon), share, expected)
    console.print(table)
    console.print(
        f"From public numbers alone, for {plan.request.customers:,} customers (--customers) of"
        f" about {plan.request.typical_kw:g} kW. Nothing is spent yet."
    )
    for warning in plan.request.warnings:
        console.print(f"[yellow]warning[/] {warning}", highlight=False)


def _check_answer(*, yes: bool) -> None:
    """Refuse, before the plan is computed, a release that could not be confirmed after it."""
    if not yes and not _can_ask():
        raise InvalidParameterError("yes", "given without a terminal", yes)


def _can_ask() -> bool:
    """Whether there is a person who could answer; what else is piped does not matter."""
    return sys.stdin is not None and sys.stdin.isatty()


def _released(manifest: Manifest, request: ReleaseRequest, out: Path) -> dict[str, object]:
    return {
        "out": str(out),
        "release_id": manifest["release_id"],
        "guarantee": manifest["guarantee"],
        "sentence": manifest["guarantee_text"],
        "files": [entry["path"] for entry in manifest["payload"]],
        "signed": "signature" in manifest,
        "warnings": list(request.warnings),
    }


def _check_places(out: Path, registry: Path | None, tier: Tier) -> None:
    """Refuse before the work what could not be written after it."""
    check_out(out)
    if registry is None:
        return
    if tier is Tier.INSTANCE:
        raise InvalidParameterError("registry", "for the global tier only", tier.value)
    if registry.exists() or not registry.absolute().parent.is_dir():
        raise InvalidParameterError("registry", "a new file in a folder that exists", str(registry))


def _kilowatts(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?kW", text)
    if found is None:
        raise InvalidParameterError("target_error", "a number of kW, such as 0.1kW", text)
    return float(found[1])
