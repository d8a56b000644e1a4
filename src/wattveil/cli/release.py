"""The command `release`."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.parquet as pq
import typer
from rich.table import Table

from wattveil import checks
from wattveil.bundle import keys
from wattveil.bundle.bundle_files import MANIFEST, check_out, outside_bundle, read_manifest
from wattveil.bundle.card import NOT_ADDITIVE, choice_banners
from wattveil.bundle.label_texts import label_warnings
from wattveil.bundle.manifest import Manifest, planned_choices
from wattveil.bundle.plan import ReleasePlan, noise_warnings, plan_for_error, plan_release
from wattveil.bundle.produce import check_list, read_customer_list, release_bundle
from wattveil.bundle.released_groups import spelling_warnings
from wattveil.bundle.report import quality_rows
from wattveil.cli.model_options import model_options
from wattveil.cli.option_groups import EXECUTION, EngineName, Master, chosen_engine
from wattveil.cli.profile_facts import period_warnings, profile_facts
from wattveil.errors import InvalidFileError, InvalidParameterError, one_of
from wattveil.privacy.guarantee import Tier
from wattveil.products.product import PublicFacts, Work
from wattveil.products.public_estimate import rounding_notes
from wattveil.products.request import ReleaseRequest
from wattveil.products.ruled_load import rule_plan, rule_warnings
from wattveil.products.year_figures import PLAN_NOTE
from wattveil.profiles import Profiles, TimeGrid
from wattveil.terminal import Console, InvalidOption, plain, refusals, working
from wattveil.web.formatting import format_share

if TYPE_CHECKING:
    from wattveil.engines.spark.spark_engine import SparkEngine

EPILOGS = {
    "release": (
        "Example: wattveil release profiles.parquet --clusters 6 --epsilon 1 --delta 1e-6"
        " --clip-kw 10 --out bundle"
    )
}

_FIRST_TIME = " (the first time on a machine, compiling takes about half a minute of it)"


@model_options(
    fallbacks={"epsilon": checks.MAX_EPSILON},  # until --target-error is solved for
    common=("epsilon", "delta", "n_clusters", "clip_kw"),
    groups={"request": "Products"},
)
def release(
    context: typer.Context,
    profiles: Annotated[
        str | None,
        typer.Argument(
            help="Parquet file of `wattveil profiles`; private. May be omitted with --plan."
        ),
    ] = None,
    *,
    request: ReleaseRequest,
    out: Annotated[Path, typer.Option(help="New folder for the bundle.")] = Path("bundle"),
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Show privacy cost and expected errors, and exit. Without PROFILES, the columns of"
            " profiles are assumed to be the 24 hours of one average day.",
        ),
    ] = False,
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
        Path | None,
        typer.Option(
            help="Private key to sign with: `wattveil admin key`.", rich_help_panel=EXECUTION
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Skip the confirmation prompt; required in scripts.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
    engine: EngineName = "local",
    master: Master = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the plan or the result as JSON.", rich_help_panel=EXECUTION
        ),
    ] = False,
) -> None:
    """Publish statistics of load profiles under one privacy budget, in a verifiable folder."""
    console = Console(stderr=as_json)
    with refusals(context):
        _check_profiles(context, profiles, plan=plan)
        target_kw = _target_kw(context.params["epsilon"], target_error)
        spark = chosen_engine(engine, master)
        with _attributes_named(profiles):
            facts, write_bundle = (
                _assumed() if profiles is None else _opened(profiles, spark, request)
            )
        grid = TimeGrid() if facts is None else facts.grid
        show_rounding(console, context.params)
        signing = None if key is None else keys.read_key(key)
        listed = () if customer_list is None else read_customer_list(customer_list)
        if not plan:
            check_out(out)
            outside_bundle("out", out)
            check_list(request, listed)
            check_answer(yes=yes)
        _warn_before_planning(request, yes=yes)
        with working(console) as started:
            if target_kw is None:
                started("planning")
                planned = plan_release(request, grid)
            else:
                started("searching for epsilon")
                planned = plan_for_error(request, target_kw, grid)
        stated = None if facts is None else planned_choices(facts, planned, listed)
        if plan and as_json:
            typer.echo(json.dumps(_plan_record(planned, stated), indent=2))
        if not as_json:
            _show_before(console, context, planned, stated, unspent=plan or not yes)
        beside = rule_warnings(request, _requests_beside(out))
        unfit = period_warnings(stated, request)
        for warning in (*beside, *unfit, *_list_warnings(None if spark else profiles, listed)):
            console.print(f"[bold red]Warning:[/] {warning}", highlight=False)
        if plan:
            return
        if not yes:
            typer.confirm(_question(request, planned), abort=True, err=True)
        with working(console) as started:
            note = _FIRST_TIME if request.tier is Tier.INSTANCE else ""
            manifest = write_bundle(
                planned,
                out,
                key=signing,
                customer_list=listed,
                started=lambda part: started(part + note),
            )
    if as_json:
        typer.echo(json.dumps(_released(manifest, planned, out), indent=2))
        return
    console.print(f"[bold]Released[/] to {plain(str(out))}. {manifest['guarantee_text']}")
    spelling = spelling_warnings(out, request.levels, request.customers)
    for warning in (*choice_banners(manifest), *label_warnings(manifest), *map(plain, spelling)):
        console.print(f"[bold red]Warning:[/] {warning}", highlight=False)
    _show_achieved(console, manifest)
    console.print(f"  report  {plain(str(out / 'report.html'))}", highlight=False)
    by = "" if key is None else f" --key {plain(str(key))}.pub"
    console.print(f"  verify  wattveil verify {plain(str(out))}{by}", highlight=False)
    spent = planned.guarantee
    console.print(f"Spent: epsilon {spent.epsilon:g}, delta {spent.delta:g}", highlight=False)


def _show_before(
    console: Console,
    context: typer.Context,
    planned: ReleasePlan,
    stated: Mapping[str, Any] | None,
    *,
    unspent: bool,
) -> None:
    """Print the plan; where it ends there, or a question follows, also that nothing is spent."""
    show_plan(console, planned)
    if stated is not None:
        console.print(f"Profiles: {plain(profile_facts(stated['profiles']))}.", highlight=False)
        if (listed := stated["customer_list_sha256"]) is not None:
            console.print("SHA-256 of the customer list:", listed)
        console.print(
            "SHA-256 of these choices, `request_sha256` in the manifest:", stated["request_sha256"]
        )
    show_assumptions(
        console, context, planned.request, has_profiles=context.params["profiles"] is not None
    )
    if unspent:
        console.print("No budget has been spent.")


@contextmanager
def _attributes_named(path: str | None) -> Iterator[None]:
    """Name the remedy if groups are requested of profiles that have no attribute at all."""
    try:
        yield
    except InvalidParameterError as error:
        if error.field != "by" or not error.rule.endswith(one_of(())):
            raise
        told = (path, "attributes", f"the attribute {error.value}", None)
        remedy = "Build it with `wattveil profiles … --attributes FILE`"
        raise InvalidFileError(*told, problem="has no attributes", remedy=remedy) from None


def _show_achieved(console: Console, manifest: Manifest) -> None:
    """Print planned and achieved qualities, from the manifest alone."""
    rows = [row for row in quality_rows(manifest) if row.achieved]
    if not rows:
        return
    table = Table("product", "quantity", "planned", "achieved", title_justify="left")
    table.title = "Planned and achieved"
    for row in rows:
        table.add_row(*map(plain, row))
    console.print(table)


def _opened(
    path: str, spark: "SparkEngine | None", request: ReleaseRequest
) -> tuple[PublicFacts | None, Callable[..., Manifest]]:
    """Return the public facts of profiles, and the function that releases them as a bundle.

    The rows stay in that function: the code that chooses the plan holds none.
    """
    rows = Profiles.read_parquet(path) if spark is None else spark.read_profiles(path)
    if request.by is not None:  # a wrong name is refused before the plan, which takes a while
        _ = Work(profiles=rows, request=request).groups
    return PublicFacts.of(rows), lambda *public, **choices: release_bundle(rows, *public, **choices)


def _check_profiles(context: typer.Context, profiles: str | None, *, plan: bool) -> None:
    """Refuse a release without profiles; a plan does not need them."""
    if profiles is None and not plan:
        given: Any = next(one for one in context.command.params if one.name == "profiles")
        rule = "PROFILES is required: parquet file of `wattveil profiles`; private"
        raise InvalidOption(rule, ctx=context, param=given)


def _assumed() -> tuple[PublicFacts | None, Callable[..., Manifest]]:
    """Return that a plan without profiles has no facts, and what no plan calls."""
    return None, release_bundle


def _list_warnings(profiles: str | None, customer_list: Sequence[str]) -> Iterator[str]:
    """Yield a warning, for the data holder only, if a list names exactly who has readings."""
    if profiles is None or not customer_list:
        return
    ids = pq.read_table(profiles, columns=["customer_id"])["customer_id"].to_pylist()
    if {one.strip() for one in ids} == set(customer_list):
        yield (
            "private: the customer list names exactly the customers of the profiles. If it was made"
            " from them, it reveals who has readings, which the guarantee does not cover: use a"
            " list that is public for another reason, such as all customers of the region."
        )


def _plan_record(planned: ReleasePlan, stated: Mapping[str, Any] | None) -> dict[str, object]:
    """Return a plan as JSON values, with the request as the manifest will state it.

    There, the texts about a release are other fields, and options are those of its products.
    """
    summary, names = planned.summary, {product.name for product in planned.products}
    chosen = planned.request.as_plain()
    del chosen["about"]
    chosen["options"] = {name: one for name, one in chosen["options"].items() if name in names}
    warnings = [*summary.warnings, *_unbounded(planned.request)]
    shown = summary.model_copy(update={"warnings": warnings}).model_dump(mode="json")
    beside = ("profiles", "customer_list_sha256", "request_sha256")
    return {
        **shown,
        "request": chosen,
        **{name: None if stated is None else stated[name] for name in beside},
    }


def _requests_beside(out: Path) -> Iterator[dict[str, Any]]:
    """Yield the requests of bundles in the same folder, which may be about the same customers."""
    for path in sorted(out.absolute().parent.glob(f"*/{MANIFEST}")):
        with suppress(InvalidFileError):  # not a bundle: of no concern here
            request = read_manifest(path.parent).get("request")
            if isinstance(request, dict):
                yield request


def show_rounding(console: Console, given: Mapping[str, object]) -> None:
    """Print how the public estimates were rounded, by the name of their fields, if they were."""
    notes = rounding_notes(given)
    for note in notes:
        console.print(note, highlight=False)
    if notes:
        reason = "an exact one would reveal whether one customer is in the data"
        console.print(f"Estimates are published, and {reason}.", highlight=False)


def show_assumptions(
    console: Console,
    context: typer.Context,
    request: ReleaseRequest,
    *,
    has_profiles: bool = True,
) -> None:
    """Print the public estimates, and the columns of profiles, that were not given."""
    assumed = {
        "customers": f"--customers {request.customers:,}",
        "typical_kw": f"--typical-kw {request.typical_kw:g}",
        "roughness": f'--roughness "{request.roughness}"',
    }
    omitted = [text for name, text in assumed.items() if is_default(context, name)]
    if omitted:
        console.print(
            f"Assumed by default: {', '.join(omitted)}. Expected errors depend on"
            " these values; supply your own public estimates.",
            highlight=False,
        )
    if not has_profiles:
        console.print(
            "Assumed: profiles of 24 columns, the hours of one average day. Give PROFILES to plan"
            " for their columns.",
            highlight=False,
        )


def _unchecked(request: ReleaseRequest) -> str:
    """Return what the list of groups does not ensure."""
    return (
        f"Customers with another {request.by} are in no group. The list is not"
        " compared with the data: check its spelling."
    )


def _assumed_sizes(request: ReleaseRequest) -> str:
    """Return which sizes of groups the plan assumes; those of the data are private."""
    return (
        f"Assumed: groups of equal size, {request.customers_per_group:,} customers each. The error"
        " of a mean load is inversely proportional to the size of its group: at a quarter of that"
        " size it is about four times as large."
    )


def is_default(context: typer.Context, name: str) -> bool:
    """Whether an option was not given."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT"


def show_plan(console: Console, plan: ReleasePlan) -> None:
    """Print the split of the budget over products and their expected errors."""
    guarantee = plan.guarantee
    is_global = guarantee.tier is Tier.GLOBAL
    tier = "" if is_global else " (instance tier, not differential privacy)"
    table = Table(
        "product",
        "standalone epsilon",
        "share of budget",
        "expected (approximate)",
        title=f"Plan{tier}: epsilon {guarantee.epsilon} and delta {guarantee.delta} in total",
        title_justify="left",
    )
    for product in plan.products:
        grant = plan.allotments[product.name]
        share = format_share(plan.rho_share(product.name), 0)
        if grant.grant.response_epsilon:
            share = "set aside"
        expected = "\n".join(f"{one.quantity} {one}" for one in plan.expected[product.name])
        table.add_row(product.name, repr(grant.guarantee.epsilon), share, expected)
    console.print(table)
    if sum(plan.rho_share(product.name) > 0.0 for product in plan.products) > 1:
        console.print(NOT_ADDITIVE, highlight=False)
    console.print(
        f"Computed from public numbers only, for {plan.request.customers:,} customers of about"
        f" {plan.request.typical_kw:g} kW; {plan.request.clipping}."
    )
    if plan.request.levels:
        console.print(
            f"{_groups(plan.request)}. {plain(_unchecked(plan.request))}", highlight=False
        )
        console.print(_assumed_sizes(plan.request), highlight=False)
    if "years" in plan.expected:
        console.print(PLAN_NOTE, highlight=False)
    if rule := rule_plan(plan.request):
        console.print(plain(rule), highlight=False)
    for warning in (*plan.request.warnings, *_unbounded(plan.request), *noise_warnings(plan)):
        console.print(f"[bold red]Warning:[/] {warning}", highlight=False)


def _unbounded(request: ReleaseRequest) -> list[str]:
    """Return a warning of a release without public bound, before anything is spent."""
    if request.tier is not Tier.GLOBAL or request.clip_kw is not None:
        return []
    chosen = request.clipping.partition(": ")[2]
    text = (
        f"--clip-kw is not given, so {chosen}, which is inaccurate if a few very large"
        " customers have most of the load."
    )
    return [text]


def _groups(request: ReleaseRequest) -> str:
    """Return the groups of a request in words."""
    names, number = plain(", ".join(request.levels)), len(request.levels)
    return f"{number} group{'' if number == 1 else 's'} by {plain(str(request.by))}: {names}"


def _question(request: ReleaseRequest, plan: ReleasePlan) -> str:
    """Return the question before a budget is spent: how much, and on which groups."""
    guarantee = plan.guarantee
    spend = f"Spend epsilon {guarantee.epsilon!r} at delta {guarantee.delta!r}"
    if request.real_ids:
        spend = f"Publish real customer ids, and s{spend[1:]}"
    return f"{spend} on {_groups(request)}?" if request.levels else f"{spend}?"


def check_answer(*, yes: bool) -> None:
    """Refuse, before anything is computed, a release that could not be confirmed after it."""
    if not yes and not _can_ask():
        rule = "given where no terminal is available to confirm the cost"
        raise InvalidParameterError("yes", rule, yes)


def _warn_before_planning(request: ReleaseRequest, *, yes: bool) -> None:
    """Print warnings before minutes of work, and let a person stop there.

    They follow from public numbers: one from the true number of customers would be a reason to
    choose another number of clusters, which is published.
    """
    for warning in request.accuracy_warnings:
        console = Console(stderr=True, soft_wrap=True)
        console.print(f"[bold red]Warning:[/] --clusters: {warning}", highlight=False)
        if not yes and _can_ask():
            typer.confirm("Continue?", abort=True, err=True)


def _can_ask() -> bool:
    """Whether there is a person who could answer; what else is piped does not matter."""
    return sys.stdin is not None and sys.stdin.isatty()


def _released(manifest: Manifest, plan: ReleasePlan, out: Path) -> dict[str, object]:
    request = plan.request
    return {
        "out": str(out),
        "release_id": manifest["release_id"],
        "guarantee": manifest["guarantee"],
        "sentence": manifest["guarantee_text"],
        "files": [entry["path"] for entry in manifest["payload"]],
        "signed": "signature" in manifest,
        "warnings": [
            *request.warnings,
            *_unbounded(request),
            *([_unchecked(request)] if request.levels else []),
            *noise_warnings(plan),
            *label_warnings(manifest),
            *spelling_warnings(out, request.levels, request.customers),
        ],
    }


def _target_kw(epsilon: float | None, target_error: str | None) -> float | None:
    """Return the error to reach, in kW; None with --epsilon. One of the two must be given."""
    if target_error is None:
        if epsilon is None:
            rule = "given: the total privacy budget, such as 1.0; or --target-error, such as 0.1kW"
            raise InvalidParameterError("epsilon", rule, epsilon)
        return None
    if epsilon is not None:
        rule = "omitted with --epsilon, which it determines"
        raise InvalidParameterError("target_error", rule, target_error)
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?kW", target_error)
    if found is None:
        raise InvalidParameterError("target_error", "a number of kW, such as 0.1kW", target_error)
    return float(found[1])
