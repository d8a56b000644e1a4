"""The command `audit`: empirical lower bounds on epsilon, a record of them, or a replay."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.table import Table

from wattveil.bundle.bundle_files import read_complete_manifest
from wattveil.bundle.keys import read_key
from wattveil.bundle.manifest import request_of
from wattveil.bundle.plan import requested_products
from wattveil.cli.model_options import leaves, model_options
from wattveil.cli.option_groups import EXECUTION, STATISTICS, Report, check_private_files
from wattveil.cli.release import is_default
from wattveil.errors import InvalidParameterError
from wattveil.lab.audit.audit_page import write_audit_page
from wattveil.lab.audit.canaries import ONE_RUN
from wattveil.lab.audit.intruder_record import check_recordable, intruder_record, write_record
from wattveil.lab.audit.release_audit import METHODS, AuditRow, audit_release
from wattveil.lab.audit.replay_audit import ReplayAudit, hostile_rows, replay_release
from wattveil.products.request import NOT_STATED, ReleaseRequest
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import simulate_load_kw
from wattveil.terminal import Console, counting_bar, plain, refusals
from wattveil.web.formatting import format_count

EPILOGS = {
    "audit": (
        "Example: wattveil audit profiles.parquet --bundle bundle --runs 100 --record audit.json"
        " --key utility.key --tester NAME"
    )
}

RECORD = "Record for a dossier"
_HOMES, _RECORDED_HOMES = 30, 100
"""Number of simulated customers without profiles: few, to keep the audit fast; for a record, enough
to be split into members and others."""
_MAX_FAULTS = 10


@model_options(
    defaults={"epsilon": 1.0},
    omit=("about", "customers", "typical_kw", "roughness"),
    common=("epsilon", "delta", "n_clusters", "clip_kw"),
    groups={"request": "Products"},
)
def audit(
    context: typer.Context,
    profiles: Annotated[
        Path | None,
        typer.Argument(help="Customers besides the canary; simulated homes if omitted."),
    ] = None,
    *,
    request: ReleaseRequest,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a release. All choices (epsilon, products, groups and so on) are read"
            " from its manifest, and must not be given again."
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(help="Number of releases with, and as many without, the canary.")
    ] = 100,
    report: Report = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="New JSON file: signed record of the audit and of further attacks, for"
            " `wattveil dossier`. Internal, unless all customers are simulated.",
            rich_help_panel=RECORD,
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="With --record: private key that signs it.", rich_help_panel=RECORD),
    ] = None,
    tester: Annotated[
        str, typer.Option(help="With --record: who made the test.", rich_help_panel=RECORD)
    ] = NOT_STATED,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Replay the release with one customer changed instead; compare exact integers.",
        ),
    ] = False,
    removals: Annotated[
        int,
        typer.Option(
            help="With --replay: real customers removed, one at a time.",
            rich_help_panel=STATISTICS,
        ),
    ] = 10,
    canaries: Annotated[
        int,
        typer.Option(help="Number of canaries in each one-run audit.", rich_help_panel=STATISTICS),
    ] = 1000,
    confidence: Annotated[
        float,
        typer.Option(help="Joint confidence of all lower bounds.", rich_help_panel=STATISTICS),
    ] = 0.95,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of the canary assignment; with --replay, of the noise.",
            rich_help_panel=STATISTICS,
        ),
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table as JSON.", rich_help_panel=EXECUTION)
    ] = False,
) -> None:
    """Audit releases with planted canary customers; exit with 1 if a claim is refuted.

    A record for a dossier is made after `wattveil release`, before its bundle is published.
    """
    with refusals(context):
        release_id = None
        if bundle is not None:
            request, release_id = _released(context, bundle)
        files = {"report": report, "record": record}
        check_private_files(files)
        for name, path in files.items():
            if replay and path is not None:
                rule = f"omitted with --replay, which writes no {name}"
                raise InvalidParameterError(name, rule, str(path))
        signing = _signing_key(request, record, key)
        homes = _HOMES if record is None else _RECORDED_HOMES
        rows = _simulated(homes) if profiles is None else Profiles.read_parquet(profiles)
        if replay:
            _replay(request, rows, removals=removals, seed=seed, as_json=as_json)
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
        if report is not None:
            write_audit_page(found, report, confidence=confidence)
        if record is not None and signing is not None:
            made = intruder_record(
                request,
                rows,
                found,
                simulated=profiles is None,
                tester=tester,
                confidence=confidence,
                seed=seed,
                release_id=release_id,
            )
            write_record(made, record, signing)
    written = {name: str(path) for name, path in files.items() if path is not None}
    if as_json:
        audits = [row.to_json() for row in found]
        answer = {"private": True, "confidence": confidence, "audits": audits, **written}
        typer.echo(json.dumps(answer, indent=2))
    else:
        whose = format_count(len(rows), "simulated customer" if profiles is None else "customer")
        _show(Console(), found, confidence)
        _show_choices(
            Console(),
            request,
            f"{format_count(runs, 'release')} with and {runs} without the canary; {whose}",
        )
        for name, place in written.items():
            typer.echo(f"  {name}  {place}")
    if any(row.broken for row in found):
        raise typer.Exit(1)


def _released(context: typer.Context, bundle: Path) -> tuple[ReleaseRequest, str]:
    """Return request and id of a release; a choice that is given beside it is refused."""
    manifest = read_complete_manifest(bundle)
    for name, _ in leaves(ReleaseRequest):
        if name in context.params and not is_default(context, name):
            rule = "omitted with --bundle, whose manifest states it"
            raise InvalidParameterError(name, rule, context.params[name])
    return request_of(manifest), manifest["release_id"]


def _signing_key(
    request: ReleaseRequest, record: Path | None, key: Path | None
) -> Ed25519PrivateKey | None:
    """Return the key of a record; refuse, before the work, what could not be written after it."""
    if record is None:
        if key is not None:
            raise InvalidParameterError("key", "omitted without --record", str(key))
        return None
    check_recordable(request)
    if record.exists():
        raise InvalidParameterError("record", "a new file: a record is not changed", str(record))
    if key is None:
        rule = "given with --record: `wattveil admin key` creates one"
        raise InvalidParameterError("key", rule, None)
    return read_key(key)


def _replay(
    request: ReleaseRequest, profiles: Profiles, *, removals: int, seed: int, as_json: bool
) -> None:
    """Replay, print the results, and exit with 1 if a ratio exceeds 1 or a value leaked."""
    with counting_bar(quiet=as_json) as bar:
        releases = 1 + len(hostile_rows(profiles.load_kw)) + min(removals, len(profiles))
        task = bar.add_task("replaying", total=releases)
        found = replay_release(
            request, profiles, removals=removals, seed=seed, advance=lambda: bar.advance(task)
        )
    if as_json:
        parts = [part.to_json() for part in found.parts]
        faults = [str(fault) for fault in found.faults]
        answer = {
            "private": True,
            "seed": seed,
            "replays": found.replays,
            "parts": parts,
            "faults": faults,
            "holds": found.holds,
        }
        typer.echo(json.dumps(answer, indent=2))
    else:
        _show_replay(Console(), found, seed)
    if not found.holds:
        raise typer.Exit(1)


def _simulated(homes: int) -> Profiles:
    return Profiles(
        customer_ids=tuple(f"home {number}" for number in range(homes)),
        load_kw=np.array(simulate_load_kw(customers=homes)),
        grid=TimeGrid(),
        timezone="Europe/London",
    )


def _show(console: Console, rows: Sequence[AuditRow], confidence: float) -> None:
    table = Table("part", "claimed epsilon", "lower bound", "verdict", "evidence")
    for row in rows:
        colour = "red" if row.broken else "yellow" if row.found.refutes else "green"
        table.add_row(
            row.name,
            f"{row.found.claim.epsilon:.3g}",
            f"{row.found.epsilon:.3g}",
            f"[{colour}]{row.verdict}{' (weak)' if row.is_weak else ''}[/]",
            row.found.evidence,
        )
    console.print(table)
    if any(row.is_weak for row in rows):
        console.print(
            "[yellow]Weak:[/] even a perfect attack would have shown less than twice the claimed"
            " epsilon. Repeat the audit with more --runs (paired) or --canaries (one run).",
            highlight=False,
        )
    console.print(
        f"Empirical lower bounds on epsilon at the claimed delta; all rows hold jointly with"
        f" confidence {confidence:g}. A bound below the claim does not prove the claim."
        " [red]Private:[/] internal use only."
    )
    console.print(METHODS, highlight=False)


def _show_choices(console: Console, request: ReleaseRequest, sample: str) -> None:
    """Print what was audited: the choices of the release that the audit repeated."""
    products = ", ".join(one.name for one in requested_products(request))
    groups = f", by {request.by}: {', '.join(request.levels)}" if request.by else ""
    console.print(
        plain(
            f"Audited: {products} at epsilon {request.epsilon:g} and delta {request.delta:g},"
            f" {request.tier.value} tier{groups}; {request.clipping}; {sample}."
        ),
        highlight=False,
    )


def _show_replay(console: Console, found: ReplayAudit, seed: int) -> None:
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
        f"{format_count(found.replays, 'replay')}, each with one customer changed; repeat with"
        f" --seed {seed}."
        " A ratio is the squared change of a query's exact integers over its squared sensitivity;"
        " it is exact, and must not exceed 1. The sampler of the noise is not audited here."
        " [red]Private:[/] internal use only."
    )
