"""The verb `attack copy`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wattveil.evaluation.attack_copy import (
    CopyAttack,
    Halves,
    copy_attack,
    demonstrated_releases,
    given_release,
)
from wattveil.evaluation.attack_data import attacked
from wattveil.evaluation.attack_options import PRIVATE, AsJson, Delta, Epsilon, OwnProfiles, Page
from wattveil.evaluation.attack_page import COPY_ROWS, write_copy_page
from wattveil.evaluation.canaries import Lots
from wattveil.profiles import Profiles
from wattveil.terminal import check_folders, refusals, working

EPILOG = "Example: wattveil attack copy profiles.parquet --synthetic synthetic.parquet"


def copy(
    profiles: OwnProfiles = None,
    *,
    synthetic: Annotated[
        Path | None, typer.Option(help="Synthetic customers to look into; some are made unless.")
    ] = None,
    clusters: Annotated[int, typer.Option(help="Kinds of customers of the private release.")] = 6,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    seed: Annotated[int, typer.Option(help="Of who is a member and of planted outliers.")] = 0,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Look for real readings, members and planted outliers among synthetic customers."""
    with refusals():
        check_folders({"page": page})
        rows, lots = attacked(profiles), Lots(seed)
        with working(Console(stderr=True, quiet=as_json)) as started:
            if synthetic is not None:
                started("comparing")
                found = {"synthetic": given_release(rows, Profiles.read_parquet(synthetic))}
            else:
                halves = Halves.of(rows.load_kw, lots)
                releases = demonstrated_releases(
                    lots, epsilon=epsilon, delta=delta, n_clusters=clusters
                )
                found = {}
                for name, release in releases.items():
                    started(name)
                    found[name] = copy_attack(halves, release)
        if page is not None:
            write_copy_page(found, page)
    if as_json:
        said = {name: each.to_json() for name, each in found.items()}
        typer.echo(json.dumps({"private": True, "releases": said}, indent=2))
    else:
        _show(Console(), found)


def _show(console: Console, found: Mapping[str, CopyAttack]) -> None:
    table = Table("", *found)
    for column in table.columns[1:]:
        column.justify = "right"
    for label, field in COPY_ROWS.items():
        values = [getattr(each, field) for each in found.values()]
        if not any(value is None for value in values):
            table.add_row(label, *(f"{value:.1%}" for value in values))
    console.print(table)
    console.print(f"Lower bounds on what is wrong, no guarantee. {PRIVATE}")
