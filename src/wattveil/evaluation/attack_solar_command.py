"""The verb `attack solar`."""

import json
from typing import Annotated

import typer
from rich.console import Console

from wattveil.evaluation.attack_data import attacked
from wattveil.evaluation.attack_options import PRIVATE, AsJson, Delta, Epsilon, OwnProfiles, Page
from wattveil.evaluation.attack_page import write_solar_page
from wattveil.evaluation.attack_solar import SolarAttack, solar_attack
from wattveil.terminal import check_folders, plain, refusals, working

EPILOG = "Example: wattveil attack solar profiles.parquet --page solar.html"


def solar(
    profiles: OwnProfiles = None,
    *,
    customer: Annotated[
        str | None, typer.Option(help="Whom to look for; who exports most, otherwise.")
    ] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    releases: Annotated[
        int, typer.Option(min=1, max=1000, help="Of each average, to see how often it errs.")
    ] = 20,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Find the one home with solar panels from an average with it and one without."""
    with refusals():
        check_folders({"page": page})
        rows = attacked(profiles)
        with working(Console(stderr=True, quiet=as_json)) as started:
            started("releasing averages")
            found = solar_attack(
                rows, customer=customer, epsilon=epsilon, delta=delta, releases=releases
            )
        if page is not None:
            write_solar_page(found, rows.grid, page)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        _show(Console(), found, customers=len(rows))


def _show(console: Console, found: SolarAttack, *, customers: int) -> None:
    home, other = found.said_solar
    noon = found.home_kw[found.sunny].mean()
    console.print(
        f"[bold]{plain(found.customer)}[/] is one of {customers:,} in the average, and exports"
        f" {-noon:.3g} kW where it does. {PRIVATE}",
        highlight=False,
    )
    console.print(f"  two exact averages     recover it to {found.error_kw:.1g} kW")
    spread = found.protected_kw[:, found.sunny].mean(axis=1).std()
    console.print(
        f"  two released averages  give {spread:,.0f} kW of noise: they look like export in"
        f" {home:.0%} of {len(found.protected_kw)} tries, and in {other:.0%} for a home without"
    )
