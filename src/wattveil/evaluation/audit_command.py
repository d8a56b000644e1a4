"""The verb `audit`: lower bounds on epsilon beside what a release claims."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from wattveil import checks
from wattveil.evaluation.audit import AuditRow, audit_release
from wattveil.evaluation.audit_canaries import ONE_RUN
from wattveil.evaluation.audit_page import write_audit_page
from wattveil.privacy.guarantee import Tier
from wattveil.profiles import Grid, Profiles
from wattveil.publish.command import TierName, part_weights, public_levels
from wattveil.publish.request import ReleaseRequest
from wattveil.simulate import simulate_load_kw
from wattveil.terminal import check_folders, counting_bar, refusals

EPILOG = "Example: wattveil audit --epsilon 1 --delta 1e-6 --runs 100 --page audit.html"

_HOMES = 30
"""Simulated customers beside the canary, if no profiles are given: few, so that it is quick."""


def audit(
    context: typer.Context,
    profiles: Annotated[
        Path | None,
        typer.Argument(help="Customers beside the canary; simulated homes unless given."),
    ] = None,
    *,
    epsilon: Annotated[float, typer.Option(help="What the release claims.")] = 1.0,
    delta: Annotated[
        float, typer.Option(help="What it may miss by; an audit sees most at a large one.")
    ] = 1e-6,
    clusters: Annotated[int, typer.Option(help="Number of kinds of customers.")] = 6,
    clip_kw: Annotated[float | None, typer.Option(help="Public bound on customers.")] = None,
    tier: TierName = "global",
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Cluster shapes, whatever the size.")
    ] = False,
    by: Annotated[str | None, typer.Option(help="Public attribute to release by.")] = None,
    levels: Annotated[str | None, typer.Option(help="Its public values: single,couple,pv.")] = None,
    clusters_by_group: Annotated[
        bool, typer.Option("--clusters-by-group", help="Cluster each group by itself.")
    ] = False,
    label_epsilon: Annotated[
        float | None, typer.Option(help="Part of epsilon for one label a customer.")
    ] = None,
    share: Annotated[
        list[str] | None, typer.Option(help="part=weight; 0 leaves a part out; may be repeated.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Releases in each of the two worlds.")] = 40,
    canaries: Annotated[int, typer.Option(help="Of the single runs.")] = 1000,
    confidence: Annotated[float, typer.Option(help="That no line overstates.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the canaries' coins; noise has none.")] = 0,
    page: Annotated[Path | None, typer.Option(help="HTML page with a plot; private.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Attack releases with planted customers; exit with 1 if a claim is shown to be false."""
    with refusals(context):
        check_folders({"page": page})
        request = ReleaseRequest(
            epsilon=epsilon,
            delta=delta,
            n_clusters=clusters,
            clip_kw=clip_kw,
            tier=checks.enum_value("tier", tier, Tier),
            normalise=normalise,
            by=by,
            levels=public_levels(levels),
            clusters_by_group=clusters_by_group,
            label_epsilon=label_epsilon,
            weights=part_weights(share or []),
        )
        rows = _simulated() if profiles is None else Profiles.read_parquet(profiles)
        with counting_bar(quiet=as_json) as bar:
            task = bar.add_task("releasing", total=2 * runs + len(ONE_RUN))
            found = audit_release(
                request,
                rows,
                runs=runs,
                canaries=canaries,
                confidence=confidence,
                seed=seed,
                advance=lambda: bar.advance(task),
            )
        if page is not None:
            write_audit_page(found, page, confidence=confidence)
    if as_json:
        audits = [row.to_json() for row in found]
        said = {"private": True, "confidence": confidence, "audits": audits}
        typer.echo(json.dumps(said, indent=2))
    else:
        _show(Console(), found, confidence)
    if any(row.broken for row in found):
        raise typer.Exit(1)


def _simulated() -> Profiles:
    return Profiles(
        customer_ids=tuple(f"home {number}" for number in range(_HOMES)),
        load_kw=np.array(simulate_load_kw(customers=_HOMES)),
        grid=Grid(),
        timezone="Europe/London",
    )


def _show(console: Console, rows: Sequence[AuditRow], confidence: float) -> None:
    table = Table("part", "claimed", "at least", "verdict", "seen")
    for row in rows:
        colour = "red" if row.broken else "yellow" if row.found.refutes else "green"
        table.add_row(
            row.name,
            f"{row.found.claim.epsilon:.3g}",
            f"{row.found.epsilon:.3g}",
            f"[{colour}]{row.verdict}[/]",
            row.found.evidence,
        )
    console.print(table)
    console.print(
        f"Epsilon, claimed and at least as shown, at the claimed delta; all lines together hold"
        f" with confidence {confidence:g}. A bound below the claim is no proof of it."
        " [red]Private:[/] in house only."
    )
