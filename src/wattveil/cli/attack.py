"""The commands of `attack`, and `rules`: attacks on own profiles or simulated homes."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.box import SIMPLE
from rich.table import Table

from wattveil.cli.option_groups import AsJson, Report, check_private_files
from wattveil.lab.attacks.attack_page import (
    COPY_ROWS,
    write_copy_page,
    write_differencing_page,
    write_filter_page,
    write_solar_page,
)
from wattveil.lab.attacks.differencing import (
    DifferencingAttack,
    RuleReport,
    differencing_attack,
    report_rule,
)
from wattveil.lab.attacks.filter_attack import FilterAttack, filter_attack
from wattveil.lab.attacks.rules_page import write_rules_page
from wattveil.lab.attacks.solar_attack import SolarAttack, solar_attack
from wattveil.lab.attacks.synthetic_attacks import (
    CopyAttack,
    MemberSplit,
    copy_attack,
    copy_attack_on_file,
    demonstrated_releases,
)
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import LONDON_MIX, simulate_kwh
from wattveil.terminal import Console, plain, refusals, working
from wattveil.web.formatting import format_count, format_number, format_share, sparkline

EPILOGS = {
    "fifteen-fifteen": "Example: wattveil attack fifteen-fifteen profiles.parquet --by zip",
    "filter": "Example: wattveil attack filter profiles.parquet --epsilon 1 --report filter.html",
    "copy": "Example: wattveil attack copy profiles.parquet --synthetic synthetic.parquet",
    "solar": "Example: wattveil attack solar profiles.parquet --report solar.html",
    "rules": "Example: wattveil rules profiles.parquet --rule 15/15 --by zip --report rules.html",
}

OwnProfiles = Annotated[
    Path | None,
    typer.Argument(help="Profiles from `wattveil profiles`; simulated homes if omitted."),
]
Epsilon = Annotated[float, typer.Option(help="Epsilon of each release.")]
Delta = Annotated[float, typer.Option(help="Delta of each release.")]

_PRIVATE = "[red]Private:[/] exact values without protection; do not publish."
_CUSTOMERS, _DAYS, _MINUTES = 300, 14, 15
_FIRST_DAY, _ZONE = date(2025, 5, 5), "Europe/London"
_SHOWN_CELLS = 30


# --- fifteen-fifteen ------------------------------------------------------------------------------


def fifteen_fifteen(
    context: typer.Context,
    profiles: OwnProfiles = None,
    *,
    rule: Annotated[str, typer.Option(help="N/X, such as 15/15.")] = "15/15",
    by: Annotated[
        str | None, typer.Option(help="Attributes that define the cells: zip or zip,class.")
    ] = None,
    customer: Annotated[
        str | None,
        typer.Option(help="Customer to recover; the largest exposed customer if omitted."),
    ] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Recover a customer from two means that an N/X rule permits, for groups of any size."""
    with refusals(context):
        check_private_files({"report": report})
        rows = _own_or_simulated(profiles)
        found = differencing_attack(
            rows,
            rule=rule,
            by=None if by is None else by.split(","),
            customer=customer,
            epsilon=epsilon,
            delta=delta,
        )
        if report is not None:
            write_differencing_page(found, rows.grid, report)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        _show_differencing(Console(), found)


def _show_differencing(console: Console, found: DifferencingAttack) -> None:
    console.print(
        f"Customer {plain(found.customer)}, from two means that {found.cells.rule} permits."
        f" {_PRIVATE}",
        highlight=False,
    )
    table = Table(
        "customers in the mean", "relative error, exact means", "relative error, DP means"
    )
    for each in found.recoveries:
        table.add_row(f"{each.customers:,}", f"{each.error:.1e}", f"{each.protected_error:,.1f}")
    console.print(table)
    last = found.recoveries[-1]
    for name, curve in (
        ("true load", last.true_kw),
        ("recovered", last.recovered_kw),
        ("from DP means", last.protected_kw),
    ):
        console.print(f"{name:>20}  {sparkline(curve)}", highlight=False)
    console.print("Relative error: RMS error over RMS load. An estimate of 0 has an error of 1.")


# --- filter ---------------------------------------------------------------------------------------


def filter(  # noqa: A001 - the name of the command
    context: typer.Context,
    profiles: OwnProfiles = None,
    *,
    clusters: Annotated[
        int, typer.Option(help="Number of clusters; the largest one is shown.")
    ] = 2,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Filter white and coloured noise of equal guarantee out of a load curve (instance tier)."""
    with refusals(context):
        check_private_files({"report": report})
        rows = _own_or_simulated(profiles)
        with working(Console(stderr=True, quiet=as_json)) as started:
            started("releasing twice")
            found = filter_attack(rows, n_clusters=clusters, epsilon=epsilon, delta=delta)
        if report is not None:
            write_filter_page(found, rows.grid, report)
    if as_json:
        curves = {str(colour): each.to_json() for colour, each in found.found.items()}
        answer = {"private": True, "exact_kw": found.exact_kw.tolist(), **curves}
        typer.echo(json.dumps(answer, indent=2))
    else:
        _show_filter(Console(), found)


def _show_filter(console: Console, found: FilterAttack) -> None:
    table = Table(
        "noise", "RMS before the filter, kW", "RMS after, kW", "removed", "remaining error, kW"
    )
    for colour, each in found.found.items():
        table.add_row(
            colour,
            format_number(each.noise_kw),
            format_number(each.left_kw),
            f"{format_share(each.removed, 0)} of the power",
            format_number(each.filtered_error_kw),
        )
    console.print(table)
    console.print(
        f"Load curve of the largest cluster, {format_number(found.exact_kw.mean())} kW on average."
        " Noise that the filter removes costs accuracy without adding protection. The guarantee of"
        f" the instance tier is the same with and without the filter. {_PRIVATE}"
    )


# --- copy -----------------------------------------------------------------------------------------


def copy(
    context: typer.Context,
    profiles: OwnProfiles = None,
    *,
    synthetic: Annotated[
        Path | None,
        typer.Option(help="Synthetic customers to attack; three releases are made if omitted."),
    ] = None,
    clusters: Annotated[int, typer.Option(help="Number of clusters of the DP release.")] = 6,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    seed: Annotated[int, typer.Option(help="Seed of the member split and planted outliers.")] = 0,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Search synthetic customers for copied readings, members and planted outliers."""
    with refusals(context):
        check_private_files({"report": report})
        rows, assignment = _own_or_simulated(profiles), RandomAssignment(seed)
        with working(Console(stderr=True, quiet=as_json)) as started:
            if synthetic is not None:
                started("comparing")
                found = {"synthetic": copy_attack_on_file(rows, Profiles.read_parquet(synthetic))}
            else:
                split = MemberSplit.of(rows.load_kw, assignment)
                releases = demonstrated_releases(
                    assignment, epsilon=epsilon, delta=delta, n_clusters=clusters
                )
                found = {}
                for name, release in releases.items():
                    started(name)
                    found[name] = copy_attack(split, release)
        if report is not None:
            write_copy_page(found, report)
    if as_json:
        answer = {name: each.to_json() for name, each in found.items()}
        typer.echo(json.dumps({"private": True, "releases": answer}, indent=2))
    else:
        _show_copies(Console(), found)


def _show_copies(console: Console, found: Mapping[str, CopyAttack]) -> None:
    table = Table("", *found)
    for column in table.columns[1:]:
        column.justify = "right"
    for label, field in COPY_ROWS.items():
        values = [getattr(each, field) for each in found.values()]
        if not any(value is None for value in values):
            table.add_row(label, *map(format_share, values))
    console.print(table)
    console.print(f"Empirical lower bounds on leakage, not a guarantee. {_PRIVATE}")


# --- solar ----------------------------------------------------------------------------------------


def solar(
    context: typer.Context,
    profiles: OwnProfiles = None,
    *,
    customer: Annotated[
        str | None, typer.Option(help="Home to find; the one that exports most if omitted.")
    ] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    releases: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of releases of each average.")
    ] = 20,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Find a home with solar panels from an average that includes it and one that does not."""
    with refusals(context):
        check_private_files({"report": report})
        rows = _own_or_simulated(profiles)
        with working(Console(stderr=True, quiet=as_json)) as started:
            started("releasing averages")
            found = solar_attack(
                rows, customer=customer, epsilon=epsilon, delta=delta, releases=releases
            )
        if report is not None:
            write_solar_page(found, rows.grid, report)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        _show_solar(Console(), found, customers=len(rows))


def _show_solar(console: Console, found: SolarAttack, *, customers: int) -> None:
    home, control = found.export_rates
    export_kw = -found.home_kw[found.sunny].mean()
    console.print(
        f"[bold]{plain(found.customer)}[/] is one of {customers:,} customers in the average and"
        f" exports {format_number(export_kw)} kW in its export slots. {_PRIVATE}",
        highlight=False,
    )
    noise_kw = found.protected_kw[:, found.sunny].mean(axis=1).std()
    console.print(f"  two exact averages     recover the load to {found.error_kw:.1g} kW")
    tries = format_count(len(found.protected_kw), "try")
    console.print(
        f"  two released averages  have {noise_kw:,.0f} kW of noise: they indicate export in"
        f" {format_share(home, 0)} of {tries}, and in {format_share(control, 0)} for a home without"
        " panels"
    )


# --- rules ----------------------------------------------------------------------------------------


def rules(
    context: typer.Context,
    profiles: Annotated[Path, typer.Argument(help="Profiles from `wattveil profiles`; private.")],
    *,
    by: Annotated[str, typer.Option(help="Attributes that define the cells: zip or zip,class.")],
    rule: Annotated[str, typer.Option(help="N/X, such as 15/15, 100/15, 6/40 or 4/50.")] = "15/15",
    epsilon: Annotated[float, typer.Option(help="Epsilon of the DP means of all cells.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Delta of the DP means.")] = 1e-6,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Show what an N/X rule publishes, which customers it exposes, and the DP alternative."""
    with refusals(context):
        check_private_files({"report": report})
        found = report_rule(
            Profiles.read_parquet(profiles),
            rule=rule,
            by=by.split(","),
            epsilon=epsilon,
            delta=delta,
        )
        if report is not None:
            write_rules_page(found, report)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        _show_rule(Console(), found)


def _show_rule(console: Console, report: RuleReport) -> None:
    found = report.cells
    console.print(
        f"Rule {found.rule} on {format_count(len(found.cells), 'cell')}. {_PRIVATE}",
        highlight=False,
    )
    table = Table("cell", "customers", "largest", "rule", "recovered", "DP error", box=SIMPLE)
    for column in (table.columns[1], table.columns[2], *table.columns[4:]):
        column.justify = "right"
    for cell, error in list(zip(found.cells, report.errors, strict=True))[:_SHOWN_CELLS]:
        verdict = "[green]published[/]" if cell.published else f"[yellow]{cell.reason}[/]"
        table.add_row(
            plain(cell.name),
            f"{cell.customers:,}",
            format_share(cell.largest_share),
            verdict,
            f"{cell.exposed:,}",
            format_share(error),
        )
    console.print(table)
    if len(found.cells) > _SHOWN_CELLS:
        console.print(f"{len(found.cells) - _SHOWN_CELLS:,} more cells are on the page.")
    for name, share in found.rates.items():
        console.print(f"  {name:<24}{format_share(share):>8}", highlight=False)
    for line in report.summary:
        console.print(line, highlight=False)


# --- customers ------------------------------------------------------------------------------------


def _own_or_simulated(profiles: Path | None) -> Profiles:
    """Read profiles; without a file, simulate 300 homes of which the last has solar panels."""
    if profiles is not None:
        return Profiles.read_parquet(profiles)
    mixes = (LONDON_MIX, _CUSTOMERS - 1), ({"pv": 1.0}, 1)
    kwh = np.vstack(
        [
            simulate_kwh(
                customers=customers,
                days=_DAYS,
                start=_FIRST_DAY,
                timezone=_ZONE,
                minutes=_MINUTES,
                mix=mix,
                seed=1,
            )
            for mix, customers in mixes
        ]
    )
    mean_kwh = kwh.reshape(_CUSTOMERS, _DAYS, -1).mean(axis=1)
    names = (f"home {number}" for number in range(1, _CUSTOMERS))
    return Profiles(
        customer_ids=(*names, "home with panels"),
        load_kw=mean_kwh * (60.0 / _MINUTES),
        grid=TimeGrid(minutes=_MINUTES),
        timezone=_ZONE,
    )
