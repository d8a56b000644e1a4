"""The command `demo`: from simulated readings to a verified bundle.

The customers are simulated, so the output compares released values with the ground truth.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from wattveil.arrays import Floats
from wattveil.bundle import keys
from wattveil.bundle.bundle_files import MANIFEST, check_out, outside_bundle, read_table
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.verify.verify_bundle import VerificationReport, verify_bundle
from wattveil.cli.data import write_readings
from wattveil.cli.release import show_plan
from wattveil.products.plan_calibration import Roughness
from wattveil.products.request import About, ReleaseRequest
from wattveil.products.segment_figures import size_title
from wattveil.products.segments import segments
from wattveil.products.synthesis import read_model
from wattveil.products.tables import Table as ReleasedTable
from wattveil.profiles import Profiles, profiles_from_readings
from wattveil.readings import read_readings
from wattveil.simulate import HOMES_MIX
from wattveil.terminal import Console, plain, refusals, working
from wattveil.web.formatting import format_count, sparkline

EPILOGS = {"demo": "Example: wattveil demo --epsilon 0.5 --out my-demo"}

_DAYS, _FIRST_DAY, _ZONE = 21, date(2025, 3, 3), "Europe/London"
_CLIP_KW = 10.0
_PUBLIC_ESTIMATE = 1_000
"""Number of customers as the public would estimate it: not from the data, which are private."""
_SYNTHETIC = 10_000


def demo(
    context: typer.Context,
    *,
    customers: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How many customers to simulate.")
    ] = 1409,
    epsilon: Annotated[float, typer.Option(help="Privacy budget: smaller protects more.")] = 1.0,
    out: Annotated[Path, typer.Option(help="Folder for the bundle.")] = Path("wattveil-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Simulate customers, release statistics, draw synthetic customers, and verify the bundle."""
    console = Console(stderr=as_json, quiet=as_json)
    with refusals(context), tempfile.TemporaryDirectory() as folder:
        request = ReleaseRequest(
            epsilon=epsilon,
            delta=1e-6,
            clip_kw=_CLIP_KW,
            customers=_PUBLIC_ESTIMATE,
            roughness=Roughness.SINGLE_MONTH,  # three weeks
            about=About(
                title="Load of simulated customers",
                curator="Wattveil demo",
                region="simulated homes",
            ),
        )
        _make_room(out)
        with _step(
            console, 1, f"Simulated {format_count(customers, 'home')}: three weeks, every half hour"
        ):
            profiles = _profiles(Path(folder) / "readings.parquet", customers)
        with _step(console, 2, "Planned, from public numbers only"):
            plan = plan_release(request, profiles.grid)
        show_plan(console, plan)
        with _step(console, 3, "Released, and signed with a key made for this demo"):
            manifest = release_bundle(profiles, plan, out, key=keys.new_key())
        with _step(console, 4, f"Drew {_SYNTHETIC:,} synthetic customers, at no privacy cost"):
            synthetic, _ = read_model(out).sample(_SYNTHETIC, random_state=1)
        with _step(console, 5, "Verified, without access to the data"):
            verdict = verify_bundle(out)
        _show_checks(console, verdict, out)
        comparison = _compare_with_truth(out, profiles.load_kw, synthetic)
    if as_json:
        outcome = {
            "out": str(out),
            "sentence": manifest["guarantee_text"],
            "accepted": verdict.accepted,
            "comparison": comparison,
        }
        typer.echo(json.dumps(outcome, indent=2))
    else:
        _show(console, out, manifest, comparison)
    if not verdict.accepted:
        raise typer.Exit(1)


def _profiles(readings: Path, customers: int) -> Profiles:
    write_readings(
        readings,
        customers=customers,
        days=_DAYS,
        start=_FIRST_DAY,
        timezone=_ZONE,
        minutes=30,
        seed=1,
        missing=0.001,
        quiet=True,
        mix=HOMES_MIX,
    )
    period = (_FIRST_DAY, _FIRST_DAY + timedelta(days=_DAYS))
    found = read_readings([str(readings)], timezone=_ZONE, period=period)
    return profiles_from_readings(found, timezone=_ZONE)


def _make_room(out: Path) -> None:
    """Remove the bundle of an earlier demo, and nothing else."""
    if (out / MANIFEST).is_file() and (out / "report.html").is_file():
        shutil.rmtree(out)
    check_out(out)
    outside_bundle("out", out)


def _compare_with_truth(bundle: Path, load_kw: Floats, synthetic: Floats) -> list[dict[str, str]]:
    """Return released values beside the ground truth of the simulation."""
    shape, groups = read_table(bundle, "load_shapes"), read_table(bundle, "groups")
    released, std = (shape[name].to_numpy() for name in ("load_kw", "std_kw"))
    true = load_kw.mean(axis=0)
    peak = int(np.argmax(released))
    counted, error = (float(groups[name][0].as_py()) for name in ("customers", "customers_std"))
    facts = [
        ("customers", f"{counted:,.0f} ± {1.96 * error:,.0f}", f"{len(load_kw):,}"),
        ("hour of the peak", f"{peak}:00", f"{int(np.argmax(true))}:00"),
        (
            "load at the peak, kW",
            f"{released[peak]:.2f} ± {1.96 * std[peak]:.2f}",
            f"{true[peak]:.2f}",
        ),
        ("energy per day, kWh", f"{released.sum():.1f}", f"{true.sum():.1f}"),
        (
            "90th percentile of peaks, kW",
            f"{np.percentile(synthetic.max(axis=1), 90):.1f} (synthetic)",
            f"{np.percentile(load_kw.max(axis=1), 90):.1f}",
        ),
    ]
    return [{"quantity": name, "released": got, "truth": truth} for name, got, truth in facts]


def _show_checks(console: Console, verdict: VerificationReport, out: Path) -> None:
    """Print the checks of the whole release, and every check that failed."""
    for finding in verdict.findings:
        if finding.check.startswith("the release") or not finding.holds:
            console.print(f"   {finding.check}: {finding.seen}", highlight=False)
    holding = sum(finding.holds for finding in verdict.findings)
    listed = f"wattveil verify {plain(str(out))}"
    console.print(f"   {holding} of {len(verdict.findings)} checks passed. To list them: {listed}")


def _show(
    console: Console, out: Path, manifest: Manifest, comparison: list[dict[str, str]]
) -> None:
    table = Table(
        "quantity",
        "released",
        "true",
        title="Released values and ground truth (simulation only)",
        title_justify="left",
    )
    for fact in comparison:
        table.add_row(*fact.values())
    console.print(table)
    console.print("Customer segments: load over the day, mean load, size (95 % interval)")
    centroids, sizes = (
        ReleasedTable(name=name, text="", columns=(), data=read_table(out, name))
        for name in ("centroids", "cluster_sizes")
    )
    for one in segments(centroids, sizes):  # as in the report: supported ones first, then by size
        load, mark = one.curve.load, "" if one.is_supported else " (may be noise)"
        text = f"  {sparkline(load)}  {load.mean():5.2f} kW  {size_title(one)}{mark}"
        console.print(text, highlight=False, soft_wrap=True)
    console.print("  0     6     12    18   hour")
    console.print(f"\n[bold]Privacy guarantee.[/] {manifest['guarantee_text']}")
    console.print(
        f"[bold]Report, to open in a browser:[/] {plain(str(out / 'report.html'))}", highlight=False
    )


@contextmanager
def _step(console: Console, number: int, done: str) -> Iterator[None]:
    """Show the progress of a step, and its duration when it is done."""
    start = time.perf_counter()
    with working(console) as started:
        started(f"step {number} of 5")
        yield
    console.print(f"[bold]{number}. {done}[/] ({time.perf_counter() - start:.1f} s)")
