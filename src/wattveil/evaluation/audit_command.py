"""The command `audit`: lower bounds on epsilon beside the claim, or a replay of the release."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.evaluation.audit import AuditRow, audit_release
from wattveil.evaluation.audit_canaries import ONE_RUN
from wattveil.evaluation.audit_page import write_audit_page
from wattveil.evaluation.replay_audit import Neighbour, ReplayAudit, hostile_rows, replay_audit
from wattveil.privacy.guarantee import Tier
from wattveil.profiles import Grid, Profiles
from wattveil.publish.command import TierName, part_weights, public_levels
from wattveil.publish.plan import ReleasePlan, split_budget, wanted_parts
from wattveil.publish.produce import release_parts
from wattveil.publish.request import ReleaseRequest
from wattveil.simulate import simulate_load_kw
from wattveil.terminal import check_folders, counting_bar, plain, refusals

EPILOG = "Example: wattveil audit --epsilon 1 --delta 1e-6 --runs 100 --page audit.html"

_HOMES = 30
"""Simulated customers beside the canary, if no profiles are given: few, so that it is quick."""
_ADDED = "hostile customer"
_MAX_FAULTS = 10


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
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Instead: replay the release with one customer changed; compare exact integers.",
        ),
    ] = False,
    removals: Annotated[
        int, typer.Option(help="With --replay: real customers removed, one at a time.")
    ] = 10,
) -> None:
    """Attack releases with planted customers; exit with 1 if a claim is shown to be false."""
    with refusals(context):
        check_folders({"page": page})
        if replay and page is not None:
            raise InvalidParameterError("page", "left out with --replay, which has none", str(page))
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
        if replay:
            _replay(request, rows, removals=removals, as_json=as_json)
            return
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


def replay_release(
    request: ReleaseRequest,
    profiles: Profiles,
    *,
    removals: int = 10,
    advance: Callable[[], None] = lambda: None,
) -> ReplayAudit:
    """Replay a whole release: with each hostile customer added, and with real customers removed.

    Parameters
    ----------
    request
        A release of the global tier.
    profiles
        The data holder's own customers.
    removals
        How many real customers are removed, one at a time, evenly spread over the file.
    advance
        Is called after every release.
    """
    checks.integer("removals", removals, least=0)
    if request.tier is not Tier.GLOBAL:
        rule = "global: the instance tier is not differential privacy and is not replayed"
        raise InvalidParameterError("tier", rule, request.tier.value)
    if request.label_epsilon is not None:  # so that labels can be matched with customers
        request = replace(request, real_ids=True)
    plan = ReleasePlan(
        request=request,
        parts=wanted_parts(request),
        allotments=split_budget(request),
        expected={},
    )
    listed = (*profiles.customer_ids, _ADDED) if request.label_epsilon is not None else ()

    def release(customers: Profiles) -> object:
        released = release_parts(customers, plan, customer_list=listed)
        advance()
        return released

    return replay_audit(release, profiles, _neighbours(profiles, request, removals))


def _replay(request: ReleaseRequest, profiles: Profiles, *, removals: int, as_json: bool) -> None:
    """Replay, print what was found, and exit with 1 if a ratio exceeds 1 or a value leaked."""
    with counting_bar(quiet=as_json) as bar:
        releases = 1 + len(hostile_rows(profiles.load_kw)) + min(removals, len(profiles))
        task = bar.add_task("replaying", total=releases)
        found = replay_release(
            request, profiles, removals=removals, advance=lambda: bar.advance(task)
        )
    if as_json:
        parts = [part.to_json() for part in found.parts]
        faults = [str(fault) for fault in found.faults]
        said = {"private": True, "replays": found.replays, "parts": parts, "faults": faults}
        typer.echo(json.dumps({**said, "holds": found.holds}, indent=2))
    else:
        _show_replay(Console(), found)
    if not found.holds:
        raise typer.Exit(1)


def _neighbours(
    profiles: Profiles, request: ReleaseRequest, removals: int
) -> Iterator[Neighbour[Profiles]]:
    """Yield profiles with each hostile customer before the others, then with one removed."""
    level = request.levels[0] if request.levels else None
    for name, row in hostile_rows(profiles.load_kw).items():
        added = replace(
            profiles,
            customer_ids=(_ADDED, *profiles.customer_ids),
            load_kw=np.vstack([row, profiles.load_kw]),
            attributes={own: (level, *values) for own, values in profiles.attributes.items()},
            estimated_share=None,
        )
        yield Neighbour(name=f"{name} added", data=added, customer_id=_ADDED)
    for number, place in enumerate(_spread(len(profiles), removals), start=1):
        kept = [row for row in range(len(profiles)) if row != place]
        removed = replace(
            profiles,
            customer_ids=tuple(profiles.customer_ids[row] for row in kept),
            load_kw=profiles.load_kw[kept],
            attributes={
                own: tuple(values[row] for row in kept)
                for own, values in profiles.attributes.items()
            },
            estimated_share=None,
        )
        own_id = profiles.customer_ids[place]
        yield Neighbour(name=f"removal {number}", data=removed, customer_id=own_id)


def _spread(customers: int, count: int) -> list[int]:
    """Return up to so many row numbers, evenly spread, the first and the last among them."""
    return sorted(set(np.linspace(0, customers - 1, min(count, customers)).astype(int).tolist()))


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


def _show_replay(console: Console, found: ReplayAudit) -> None:
    table = Table("part", "queries", "worst ratio", "of its budget", "verdict")
    for part in found.parts:
        colour = "green" if part.holds else "red"
        table.add_row(
            part.part,
            str(len(part.queries)),
            f"{float(part.worst_ratio):.6f}",
            f"{float(part.budget_ratio):.6f}",
            f"[{colour}]{part.verdict}[/]",
        )
    console.print(table)
    for fault in found.faults[:_MAX_FAULTS]:
        console.print(f"[red]Fault:[/] {plain(str(fault))}")
    if len(found.faults) > _MAX_FAULTS:
        console.print(f"[red]{len(found.faults)} faults[/] in all; --json prints each.")
    console.print(
        f"{found.replays} replays, each with one customer changed. A ratio is the squared change of"
        " a query's exact integers over its squared sensitivity; it is exact, and must not exceed"
        " 1. The sampler of the noise is not audited here. [red]Private:[/] internal use only."
    )
