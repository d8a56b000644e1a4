"""The verb `attack filter`."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wattveil.evaluation.attack_data import attacked
from wattveil.evaluation.attack_filter import FilterAttack, filter_attack
from wattveil.evaluation.attack_options import PRIVATE, AsJson, Delta, Epsilon, OwnProfiles, Page
from wattveil.evaluation.attack_page import write_filter_page
from wattveil.terminal import check_folders, refusals, working

EPILOG = "Example: wattveil attack filter profiles.parquet --epsilon 1 --page filter.html"


def filter(  # noqa: A001 - the verb's name
    profiles: OwnProfiles = None,
    *,
    clusters: Annotated[int, typer.Option(help="Kinds of customers; the largest is shown.")] = 2,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Filter white and coloured noise of equal guarantee out of a load curve (instance tier)."""
    with refusals():
        check_folders({"page": page})
        rows = attacked(profiles)
        with working(Console(stderr=True, quiet=as_json)) as started:
            started("releasing twice")
            found = filter_attack(rows, n_clusters=clusters, epsilon=epsilon, delta=delta)
        if page is not None:
            write_filter_page(found, rows.grid, page)
    if as_json:
        curves = {str(colour): each.to_json() for colour, each in found.found.items()}
        said = {"private": True, "exact_kw": found.exact_kw.tolist(), **curves}
        typer.echo(json.dumps(said, indent=2))
    else:
        _show(Console(), found)


def _show(console: Console, found: FilterAttack) -> None:
    table = Table("noise", "before the filter, kW", "after, kW", "removed", "error left, kW")
    for colour, each in found.found.items():
        table.add_row(
            colour,
            f"{each.noise_kw:.3g}",
            f"{each.left_kw:.3g}",
            f"{each.removed:.0%} of the power",
            f"{each.filtered_error_kw:.3g}",
        )
    console.print(table)
    console.print(
        f"The load curve of the largest cluster, {found.exact_kw.mean():.3g} kW on average. What"
        " the filter removes protected nobody and cost accuracy. The promise, that of the instance"
        f" tier, stands either way. {PRIVATE}"
    )
