"""The commands of `wattveil series`: months or quarters under one budget."""

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from wattveil.bundle import keys
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.published_series import (
    UNSTATED_DAYS,
    LoadSeries,
)
from wattveil.bundle.series_plans import SegmentPrices, SeriesPlan
from wattveil.bundle.series_report import series_groups
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_result import SeriesResult
from wattveil.bundle.series_verify import CLOSED, verify_chain
from wattveil.cli.bundles import conclusion, show_report
from wattveil.cli.model_options import model_options
from wattveil.cli.option_groups import EXECUTION, EngineName, Master, chosen_engine
from wattveil.cli.release import check_answer, show_rounding
from wattveil.engines.local import DistributedProfiles
from wattveil.errors import (
    AlreadyExistsError,
    InvalidParameterError,
    UnstatedDaysWarning,
    WattveilWarning,
)
from wattveil.profiles import Profiles
from wattveil.release.segment_series import found_in
from wattveil.terminal import Console, plain, refusals, working
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.formatting import format_count, format_upper_bound

EPILOGS = {
    "init": (
        "Example: wattveil series init quarters --periods 20 --first 2026-Q1 --epsilon 2"
        " --delta 1e-6 --by class --levels home,shop"
    ),
    "plan": "Example: wattveil series plan quarters --group-customers 10000",
    "add": "Example: wattveil series add quarters profiles-2026-Q1.parquet --period 2026-Q1",
    "show": "Example: wattveil series show quarters",
    "erase": "Example: wattveil series erase quarters ids.txt",
    "close": "Example: wattveil series close quarters --reason 'end of the programme'",
    "verify": "Example: wattveil series verify quarters/periods --key utility.key.pub",
}

_UNSIGNED = (
    "--key is not given, so the period is published unsigned. Later periods cannot be signed, and"
    " no dossier of the series can be signed."
)
Folder = Annotated[Path, typer.Argument(help="Folder of the series.")]
Secrets = Annotated[
    Path | None,
    typer.Option(
        help="Folder with key and high-water mark; default: FOLDER.secrets.",
        rich_help_panel=EXECUTION,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=EXECUTION)
]


@model_options(common=("epsilon", "delta", "periods", "first"))
def init(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="New folder for the series.")],
    *,
    request: SeriesRequest,
    secrets: Secrets = None,
    encrypt: Annotated[
        bool,
        typer.Option(
            "--encrypt", help="Encrypt the private state on disk.", rich_help_panel=EXECUTION
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Begin a series: fix horizon, calendar, groups and budget. Nothing is released."""
    with refusals(context):
        if folder.exists():
            text = f"{folder} already exists; a series is never overwritten"
            raise AlreadyExistsError("folder", "", str(folder), text=text)
        show_rounding(Console(stderr=as_json), context.params)
        series = LoadSeries.begin(folder, request, secrets=secrets, encrypt=encrypt)
    if as_json:
        typer.echo(json.dumps({"series": series.series_id, "folder": str(folder)}))
        return
    console = Console()
    horizon = format_count(request.periods, "period")
    console.print(f"Series of {horizon} from {plain(request.first)} in {folder}.")
    console.print(
        f"Store {plain(str(series.secrets))} separately from the series folder and its backups."
    )
    _show_plan(console, series.plan())


def plan(
    context: typer.Context,
    folder: Folder,
    *,
    group_customers: Annotated[
        list[int] | None, typer.Option(help="Public number of customers of a group; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the expected error and the smallest change that could be seen; nothing is spent."""
    with refusals(context):
        series = LoadSeries(folder)
        found = series.plan(*(group_customers or ()))
        prices = series.segment_prices() if series.request.segments else None
    if as_json:
        typer.echo(json.dumps(found.to_arrow().to_pylist()))
        return
    _show_plan(Console(), found)
    if prices is not None:
        _show_prices(Console(), prices)


def add(
    context: typer.Context,
    folder: Folder,
    profiles: Annotated[
        str,
        typer.Argument(
            help="Parquet file (on Spark, folder) of `wattveil profiles` for the period; private."
        ),
    ],
    *,
    period: Annotated[
        str,
        typer.Option(
            help="Name of the period, such as 2026-Q3. Periods between the last and this one are"
            " skipped permanently."
        ),
    ],
    secrets: Secrets = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="Private key to sign with: `wattveil admin key`. Without it in the first period,"
            " no later period and no dossier can be signed."
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="After a crash: draw the period again. You state that nothing of it was seen or"
            " copied.",
        ),
    ] = False,
    recluster: Annotated[
        bool,
        typer.Option(
            "--recluster",
            help="Find the segments anew in this period: a public decision, priced by"
            " `wattveil series plan`.",
        ),
    ] = False,
    returned: Annotated[
        Path | None,
        typer.Option(
            help="File with the ids of customers who were erased and have returned, one per line;"
            " it is recorded privately. Any other erased customer is excluded."
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
    as_json: AsJson = False,
) -> None:
    """Release the next period: one bundle, whose privacy cost the series has reserved."""
    console = Console(stderr=True)
    with refusals(context):
        series = LoadSeries(folder, secrets=secrets)
        signing = None if key is None else keys.read_key(key)
        check_answer(yes=yes)
        spark = chosen_engine(engine, master)
        with working(console) as started:
            started("reading the profiles")
            customers = Profiles.read_parquet(profiles, engine=spark)
            _check_profiles(series.request.design.attributes, customers)
        warned = [] if customers.period is not None else [UNSTATED_DAYS]
        skipped = _skipped(series, period)
        is_first_unsigned = signing is None and not series.bundles
        warned += [f"This skips {', '.join(skipped)} permanently."] if skipped else []
        warned += [_UNSIGNED] if is_first_unsigned else []
        for warning in warned:
            console.print(f"[bold red]Warning:[/] {warning}", highlight=False)
        if not yes:
            question = _question(series.request, period, skipped, is_unsigned=is_first_unsigned)
            typer.confirm(question, abort=True, err=True)
        with working(console) as started, warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always", WattveilWarning)
            warnings.simplefilter("ignore", UnstatedDaysWarning)  # printed before the question
            started("releasing the period")
            if returned is not None:
                series.readmit(_ids(returned))
            bundle = series.add(
                customers, period=period, key=signing, again=again, recluster=recluster
            )
            result = series.result()
    private = [str(one.message) for one in noted if issubclass(one.category, WattveilWarning)]
    for warning in private:
        console.print(f"[bold red]Warning:[/] {warning}", highlight=False)
    if as_json:
        record = {"bundle": str(bundle), "period": result.periods[-1]}
        found = {"warnings": [*warned, result.clipping_warning], "private_warnings": private}
        typer.echo(json.dumps({**record, **_spent(result, bundle), **found}))
    else:
        _show_result(Console(), result, bundle)
        Console().print(f"Published: {plain(str(bundle))}")


def _ids(path: Path) -> list[str]:
    """Return the customer ids of a file, one per line."""
    return [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]


def _skipped(series: LoadSeries, period: str) -> list[str]:
    """Return the periods that cannot be released any more once this one is."""
    request, bundles = series.request, series.bundles
    last = request.period_of(read_manifest(bundles[-1])["label"]) if bundles else -1
    return [request.label(place) for place in range(last + 1, request.period_of(period))]


def _question(
    request: SeriesRequest, period: str, skipped: Sequence[str], *, is_unsigned: bool
) -> str:
    """Return the question before the budget of a period is spent."""
    total = f"epsilon {request.epsilon!r} at delta {request.delta!r} in total"
    decisions = [f"skip {', '.join(skipped)} permanently"] if skipped else []
    decisions += ["publish unsigned"] if is_unsigned else []
    decisions += [f"spend the budget of period {period}"]
    *before, last = decisions
    text = f"{', '.join(before)} and {last}" if before else last
    return f"{text[0].upper()}{text[1:]} (the series has {total})?"


def _check_profiles(needed: tuple[str, ...], customers: Profiles | DistributedProfiles) -> None:
    """Refuse, before the series is opened, profiles without a customer or without an attribute.

    Whether there is a customer depends on exact data: the refusal is for the data holder. Spark
    does not count them.
    """
    if not isinstance(customers, DistributedProfiles) and not len(customers):
        raise InvalidParameterError("profiles", "of at least one customer", 0)
    if missing := [name for name in needed if name not in customers.attributes]:
        rule = f"profiles that have the attribute {missing[0]} (`wattveil profiles --attributes`)"
        raise InvalidParameterError("profiles", rule, [*customers.attributes])


def show(context: typer.Context, folder: Folder, *, as_json: AsJson = False) -> None:
    """Show the level of each group in every period, trends with bands, and the remaining budget."""
    with refusals(context):
        series = LoadSeries(folder)
        result = series.result()
    if as_json:
        found = {name: result.to_arrow(name).to_pylist() for name in result.tables}
        typer.echo(json.dumps(found))
        return
    _show_result(Console(), result, series.bundles[-1])
    if series.closed is not None:
        Console().print(f"[yellow]Closed:[/] {plain(series.closed)}")


def erase(
    context: typer.Context,
    folder: Folder,
    ids: Annotated[Path, typer.Argument(help="Customer ids, one per line.")],
    *,
    secrets: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Delete customers from the private state, and exclude them from later periods.

    Keyed hashes and used allowances are kept.

    The counts and the receipt are private: they tell who is a customer. The exit status is 1 if no
    id was found.
    """
    with refusals(context):
        found = LoadSeries(folder, secrets=secrets).erase(_ids(ids))
    if as_json:
        typer.echo(json.dumps({**asdict(found), "receipt": str(found.receipt)}))
    else:
        parts = [f"{format_count(found.erased, 'id')} erased"]
        parts += [f"{found.already_erased} already erased"] if found.already_erased else []
        parts += [f"{found.not_found} not found"] if found.not_found else []
        typer.echo(f"{'; '.join(parts)}. Private receipt: {found.receipt}")
    if not found.erased + found.already_erased:
        raise typer.Exit(1)


def close(
    context: typer.Context,
    folder: Folder,
    *,
    reason: Annotated[str, typer.Option(help="Public reason.")],
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    secrets: Secrets = None,
    key: Annotated[
        Path | None, typer.Option(help="Private key to sign the statement with.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """End the series and delete its private state and secrets; it can never be continued."""
    with refusals(context):
        series = LoadSeries(folder, secrets=secrets)
        if not yes:
            typer.confirm("Delete the private state for ever?", abort=True)
        found = series.close(reason, key=None if key is None else keys.read_key(key))
    deleted, left = ([str(path) for path in paths] for paths in found)
    stated = series.closed or reason
    if as_json:
        typer.echo(json.dumps({"closed": stated, "deleted": deleted, "left": left}))
    else:
        _show_closed(series, stated, deleted, left)
    if left:
        raise typer.Exit(1)


def _show_closed(series: LoadSeries, reason: str, deleted: list[str], left: list[str]) -> None:
    console = Console(soft_wrap=True)
    console.print(f"Closed: {plain(reason)}", highlight=False)
    if deleted:
        console.print(f"Deleted: {plain(', '.join(deleted))}.", highlight=False)
    if left:
        console.print(
            f"[red]Not deleted:[/] {plain(', '.join(left))}. Delete what is in them, or close the"
            " series again.",
            highlight=False,
        )
    if str(series.secrets) not in {*deleted, *left}:
        console.print(
            f"[yellow]No secrets were deleted:[/] {plain(str(series.secrets))} is not there."
            " Delete the folder that you named with --secrets.",
            highlight=False,
        )
    console.print(
        "Delete your copies and backups of these folders as well: they contain private data. The"
        f" bundles in {plain(str(series.folder / 'periods'))} are public and stay.",
        highlight=False,
    )


def verify(
    context: typer.Context,
    bundles: Annotated[
        Path, typer.Argument(help="Folder with the bundles of all periods, or of a series.")
    ],
    *,
    key: Annotated[Path | None, typer.Option(help="Public key that must have signed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check all periods of a series without the data: costs, chain, centres and every table."""
    with refusals(context), working(Console(stderr=True)) as started:
        trusted = None if key is None else keys.read_public_key(key)
        within = bundles / "periods" if (bundles / "periods").is_dir() else bundles
        if not within.is_dir():
            raise InvalidParameterError("bundles", "a folder of bundles", str(bundles))
        started("verifying")
        # Beside the bundles, or beside their folder as in the folder of a series.
        closing = within / CLOSED if (within / CLOSED).exists() else within.parent / CLOSED
        periods = sorted(path for path in within.iterdir() if path.is_dir())
        report = verify_chain(periods, trusted=trusted, closing=closing)
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        stated = ""
        if report.accepted:
            newest = read_manifest(periods[-1])
            stated = conclusion(newest, is_key_given=key is not None)
        show_report(Console(), report, stated=stated)
    if not report.accepted:
        raise typer.Exit(1)


def _show_plan(console: Console, found: SeriesPlan) -> None:
    head = ("customers of a group", "standard error of an hour", "smallest visible change")
    table = Table(*head, title="Expected, from public numbers", title_justify="left")
    for row in found.to_arrow().to_pylist():
        slope = row["visible_kw_per_year"]
        seen = f"{slope:.4f} kW per year" if math.isfinite(slope) else "no trend below two years"
        table.add_row(f"{row['customers']:,}", f"{100.0 * row['level_error']:.1f} %", seen)
    console.print(table)
    console.print(
        "The error is that of one hour of the group's mean day in the last period, in % of the"
        " typical load (--typical-kw). The ± printed by `wattveil series add` is"
        f" {TWO_SIDED_95:.2f} standard errors, in kW, for the added period.",
        highlight=False,
    )


def _show_prices(console: Console, found: SegmentPrices) -> None:
    head = ("decision", "cost of the period", "left after it", "refining steps later")
    table = Table(*head, title=f"Segments, {found.period}", title_justify="left")
    for row in found.to_arrow().to_pylist():
        without = "found in each period" if row["again"] == 1 else "segments are kept"
        steps = str(row["steps"]) if row["steps"] else f"none: {without}"
        table.add_row(
            row["decision"], f"{100.0 * row['share']:.1f} %", f"{100.0 * row['left']:.1f} %", steps
        )
    console.print(table)
    listed = ", ".join(found.planned)
    console.print(
        f"Periods that find the segments, by the plan: {plain(listed)}. All others follow them.",
        highlight=False,
    )


def _number(customers: float, error: float) -> str:
    """Return a number of customers with its band; one that contains 0 states no number."""
    if customers <= error:
        return f"below {customers + error:.0f}, not distinguishable from 0"
    return f"{customers:.0f} ± {error:.0f}"


def _show_segments(console: Console, result: SeriesResult) -> None:
    found = result.segments
    table = Table("segment", "customers", "drift in radii", title_justify="left")
    table.title = f"Segments, found in {found.found_in}"
    table.caption = (
        "± is 1.96 standard errors, which covered 92 to 98 % in tests, and 93 to 98 % in the"
        " period that found the segments"
    )
    mean, std = (part[:, -1] for part in found.sizes)
    for place, drift in enumerate(found.drift[:, -1]):
        size = _number(mean[place], TWO_SIDED_95 * std[place])
        table.add_row(str(place), size, f"{drift:.2f}")
    console.print(table)


def _show_result(console: Console, result: SeriesResult, newest: Path) -> None:
    design = result.released.design
    label = result.periods[-1]
    table = Table(
        "group", "period", "mean load", "customers", "change per year", title_justify="left"
    )
    table.title = f"{label}, period {len(result.periods)} of {design.horizon}"
    table.caption = (
        "± is 1.96 standard errors. For the mean load, it refers to one hour of the mean day. Such"
        " intervals are approximate: in tests on homes, they contained the true value in 92 to"
        " 98 % of cases (change per year: 93 to 100 %)."
    )
    mean, std = result.load_kw.mean(axis=2), result.std_kw
    customers, errors = result.customers()
    trends = result.trends().get("mean")
    for place, group in enumerate(series_groups(result)):
        change = "available after two years"
        if trends is not None:
            change = f"{trends.slope[place]:+.4f} ± {TWO_SIDED_95 * trends.std[place]:.4f} kW"
        for at, period in enumerate(result.periods):
            error = TWO_SIDED_95 * float((std[place, at] ** 2).mean() ** 0.5)
            load = f"{mean[place, at]:.3f} ± {error:.3f} kW"
            number = _number(customers[place, at], TWO_SIDED_95 * errors[place, at])
            newest_one = at == len(result.periods) - 1  # the change is that up to now
            name = plain(group) if at == 0 else ""
            shown = f"{period} (skipped)" if period in result.skipped else period
            table.add_row(name, plain(shown), load, number, change if newest_one else "")
    console.print(table)
    console.print(f"[yellow]Note:[/] {result.clipping_warning}", highlight=False)
    if design.n_segments:
        _show_segments(console, result)
    spent = _spent(result, newest)
    console.print(
        f"Spent so far: epsilon {format_upper_bound(spent['accrued_epsilon'], 4)} of"
        f" {spent['epsilon']:g}. Left for later periods:"
        f" {100.0 * spent['rho_left']:.0f} % of the privacy cost (rho).",
        highlight=False,
    )


def _spent(result: SeriesResult, newest: Path) -> dict[str, float]:
    """Return what the series has cost so far, of how much, and the share of rho that is left."""
    design = result.released.design
    spent = design.accrued_units(result.released.released[-1], found_in(result.released.segments))
    return {
        "accrued_epsilon": float(read_manifest(newest)["accrued"]["epsilon"]),
        "epsilon": design.guarantee.epsilon,
        "delta": design.guarantee.delta,
        "rho_left": 1.0 - spent / sum(design.rho_units.values()),
    }
