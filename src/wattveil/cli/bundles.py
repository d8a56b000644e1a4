"""The commands that read a bundle: `verify` and `synthesize`.

Both are post-processing of a release: they use no private data and spend no privacy budget.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.bundle import keys
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.series_bundle import VERSION as SERIES_VERSION
from wattveil.bundle.series_verify import verify_period
from wattveil.bundle.verify.verify_bundle import VerificationReport, verify_bundle
from wattveil.cli.data import chosen_engine
from wattveil.cli.option_groups import EXECUTION, EngineName, Master
from wattveil.errors import InvalidParameterError
from wattveil.numerics.synthesis.population_model import BATCH, n_batches
from wattveil.products.synthesis import read_model
from wattveil.profiles import Profiles, TimeGrid
from wattveil.terminal import plain, refusals, working

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark.spark_engine import SparkEngine

EPILOGS = {
    "verify": "Example: wattveil verify bundle --key utility.key.pub",
    "synthesize": (
        "Example: wattveil synthesize bundle --customers 100000 --out synthetic.parquet"
    ),
}

_MAX_CUSTOMERS = 10**9
_FIRST_SECOND = 978_307_200
"""2001-01-01 00:00 UTC, a Monday: an average day has no date, and Green Button needs one."""
_ESPI, _ATOM = "http://naesb.org/espi", "http://www.w3.org/2005/Atom"

Batch = tuple[list[str], Ints, Floats]
"""Ids, clusters and load of some customers."""
Batches = Iterator[Batch]


def verify(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    key: Annotated[Path | None, typer.Option(help="Public key that must have signed it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Recompute every claim of a bundle, without the data; exit with 1 if a check fails.

    Of a series, one period is checked by itself: `wattveil series verify` checks all of them.
    """
    with refusals(context), working(Console(stderr=True)) as started:
        trusted = None if key is None else keys.read_public_key(key)
        started("verifying")
        is_period = read_manifest(bundle).get("manifest_version") == SERIES_VERSION
        check = verify_period if is_period else verify_bundle
        report = check(bundle, trusted=trusted)
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        show_report(Console(), report)
    if not report.accepted:
        raise typer.Exit(1)


def show_report(console: Console, report: VerificationReport) -> None:
    """Print the outcome of every check, and the claims that cannot be checked."""
    table = Table("", "check", "seen", title="Verified without the data", title_justify="left")
    for finding in report.findings:
        mark = "[green]passed[/]" if finding.holds else "[red]FAILED[/]"
        table.add_row(mark, plain(finding.check), plain(finding.seen))
    for absent in report.absent:
        table.add_row("[yellow]absent[/]", plain(absent.check), plain(absent.seen))
    console.print(table)
    console.print("[bold]Not proved, to be taken on trust:[/]")
    for line in report.not_proved:
        console.print(f"  · {plain(line)}", highlight=False)
    broken = sum(not finding.holds for finding in report.findings)
    if broken:
        console.print(f"[red]{broken} of {len(report.findings)} checks failed.[/]")
    else:
        console.print(f"[green]All {len(report.findings)} checks passed.[/]")
    if report.absent:
        names = ", ".join(absent.check for absent in report.absent)
        console.print(f"[yellow]Absent, and not counted: {plain(names)}.[/]")
    for warning in report.warnings:
        console.print(f"[yellow]warning[/] {plain(warning)}", highlight=False)


def synthesize(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    customers: Annotated[int, typer.Option(help="Number of synthetic customers.")],
    out: Annotated[
        str, typer.Option(help="New .parquet, .csv, .dss (OpenDSS) or .xml (Green Button) file.")
    ],
    seed: Annotated[int, typer.Option(help="The same seed gives the same customers.")] = 1,
    engine: EngineName = "local",
    master: Master = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print a summary of the output as JSON.", rich_help_panel=EXECUTION
        ),
    ] = False,
) -> None:
    """Draw synthetic customers from the model of a bundle; no privacy budget is spent.

    With --engine spark, --out is a folder of Parquet files that executors write, at any address
    that Spark supports; --force replaces such a folder, and nothing that is of another kind.
    """
    console = Console(stderr=as_json)
    with refusals(context), working(console) as started:
        spark = chosen_engine(engine, master)
        started("drawing customers")
        write_customers(bundle, out, customers=customers, seed=seed, engine=spark, force=force)
    if as_json:
        typer.echo(json.dumps({"out": out, "customers": customers, "seed": seed}, indent=2))
    else:
        console.print(f"{customers:,} synthetic customers in {plain(out)}.")


def write_customers(
    bundle: Path,
    out: str | Path,
    *,
    customers: int,
    seed: int,
    engine: "SparkEngine | None" = None,
    force: bool = False,
) -> None:
    """Write synthetic customers to a file, which appears under its name when it is complete."""
    path = Path(out)
    kinds = [*_WRITERS] if engine is None else [".parquet"]
    if path.suffix not in kinds:
        raise InvalidParameterError(
            "out", f"a file whose name ends in {' or '.join(kinds)}", str(out)
        )
    if engine is None:
        checks.local_path("out", path)
    if engine is None and path.exists() and not force:
        raise InvalidParameterError("out", "a new file unless --force is given", str(out))
    checks.integer("customers", customers, minimum=1, maximum=_MAX_CUSTOMERS)
    checks.integer("seed", seed, minimum=0)
    model, public = read_model(bundle), read_manifest(bundle)["profiles"]
    grid, timezone = TimeGrid.from_json(public["grid"]), public["timezone"]

    def batch(number: int) -> Batch:
        load_kw, clusters = model.batch(number, customers, random_state=seed)
        first = number * BATCH
        return [f"S{place:09}" for place in range(first, first + len(load_kw))], clusters, load_kw

    if engine is not None:
        engine.write_profiles(
            lambda number: _profiles(batch(number), grid, timezone),
            n_batches(customers),
            out,
            force=force,
        )
        return
    part = path.with_name(path.name + ".part")
    try:
        _WRITERS[path.suffix](part, map(batch, range(n_batches(customers))), grid, timezone)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _profiles(batch: Batch, grid: TimeGrid, timezone: str) -> Profiles:
    """Return a batch as `Profiles`, so that it is accepted wherever profiles are."""
    ids, clusters, load_kw = batch
    return Profiles(
        customer_ids=tuple(ids),
        load_kw=load_kw,
        grid=grid,
        timezone=timezone,
        attributes={"cluster": tuple(map(str, clusters.tolist()))},
        rules={"synthetic": True},
    )


def _write_parquet(path: Path, batches: Batches, grid: TimeGrid, timezone: str) -> None:
    """Write profiles."""
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            table = _profiles(batch, grid, timezone).to_arrow()
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _write_csv(path: Path, batches: Batches, grid: TimeGrid, _: str) -> None:
    """Write one row per customer and one column per slot."""
    loads = [(label, pa.float64()) for label in grid.labels]
    schema = pa.schema([("customer_id", pa.string()), ("cluster", pa.int64()), *loads])
    with pc.CSVWriter(path, schema) as writer:
        for ids, clusters, load_kw in batches:
            arrays = [pa.array(ids), pa.array(clusters), *(pa.array(slot) for slot in load_kw.T)]
            writer.write_table(pa.table(arrays, schema=schema))


def _write_dss(path: Path, batches: Batches, grid: TimeGrid, _: str) -> None:
    """Write OpenDSS LoadShapes in kW, each as long as the profile."""
    head = f"npts={grid.cells} interval={grid.minutes / 60:g} useactual=yes"
    with path.open("w", encoding="utf-8") as file:
        for ids, _clusters, load_kw in batches:
            for name, row in zip(ids, load_kw[:, : grid.cells], strict=True):
                mult = " ".join(f"{value:.4f}" for value in row)
                file.write(f"New LoadShape.{name} {head} mult=({mult})\n")


def _write_green_button(path: Path, batches: Batches, grid: TimeGrid, _: str) -> None:
    """Write a Green Button feed: net energy in whole Wh, one usage point per customer."""
    seconds, hours = 60 * grid.minutes, grid.minutes / 60.0
    with path.open("w", encoding="utf-8") as file:
        file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="{_ATOM}">\n')
        # uom 72: Wh; flowDirection 4: net, delivered less received.
        codes = f"<flowDirection>4</flowDirection><intervalLength>{seconds}</intervalLength>"
        codes += "<powerOfTenMultiplier>0</powerOfTenMultiplier><uom>72</uom>"
        file.write(
            _entry("ReadingType/1", "", f'<ReadingType xmlns="{_ESPI}">{codes}</ReadingType>')
        )
        for ids, _clusters, load_kw in batches:
            for name, row in zip(ids, load_kw[:, : grid.cells], strict=True):
                file.write(_customer(name, [round(1000.0 * hours * kw) for kw in row], seconds))
        file.write("</feed>\n")


def _customer(name: str, watt_hours: list[int], seconds: int) -> str:
    """Return a customer's entries: usage point, meter reading, one block of intervals."""
    point = f"UsagePoint/{name}"
    reading = f"{point}/MeterReading/1"
    intervals = "".join(
        f"<IntervalReading><timePeriod><duration>{seconds}</duration>"
        f"<start>{_FIRST_SECOND + place * seconds}</start></timePeriod>"
        f"<value>{value}</value></IntervalReading>"
        for place, value in enumerate(watt_hours)
    )
    whole = f"<duration>{seconds * len(watt_hours)}</duration><start>{_FIRST_SECOND}</start>"
    whole = f"<interval>{whole}</interval>"
    service = "<ServiceCategory><kind>0</kind></ServiceCategory>"
    return (
        _entry(
            point,
            f'<link rel="related" href="{point}/MeterReading"/>',
            f'<UsagePoint xmlns="{_ESPI}">{service}</UsagePoint>',
        )
        + _entry(
            reading,
            f'<link rel="up" href="{point}/MeterReading"/>'
            f'<link rel="related" href="{reading}/IntervalBlock"/>'
            '<link rel="related" href="ReadingType/1"/>',
            f'<MeterReading xmlns="{_ESPI}"/>',
        )
        + _entry(
            f"{reading}/IntervalBlock/1",
            f'<link rel="up" href="{reading}/IntervalBlock"/>',
            f'<IntervalBlock xmlns="{_ESPI}">{whole}{intervals}</IntervalBlock>',
        )
    )


def _entry(link: str, links: str, content: str) -> str:
    own = f'<link rel="self" href="{link}"/>'
    return f"<entry>{own}{links}<content>{content}</content></entry>\n"


_WRITERS: dict[str, Callable[[Path, Batches, TimeGrid, str], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".dss": _write_dss,
    ".xml": _write_green_button,
}
