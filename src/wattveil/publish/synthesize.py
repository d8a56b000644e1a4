"""The verb `synthesize`: as many customers as you like from a bundle, in memory that stays small.

Free: what is drawn from a released model tells nothing more about anybody.
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

from wattveil import checks
from wattveil.clustering.geometry import Floats
from wattveil.engines.choice import ENGINE_HELP, MASTER_HELP, chosen_engine
from wattveil.errors import InvalidParameterError
from wattveil.privacy.private_rows import IntArray
from wattveil.profiles import Grid, Profiles
from wattveil.publish.bundle import read_manifest
from wattveil.publish.synthetic import read_model
from wattveil.synthesis.model import BATCH, n_batches
from wattveil.terminal import plain, refusals, working

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark_engine import SparkEngine

EPILOG = "Example: wattveil synthesize bundle --customers 100000 --out synthetic.parquet"

_MOST_CUSTOMERS = 10**9
_FIRST_SECOND = 978_307_200
"""2001-01-01 00:00 UTC, a Monday: an average day has no date, and Green Button needs one."""
_ESPI, _ATOM = "http://naesb.org/espi", "http://www.w3.org/2005/Atom"

Batch = tuple[list[str], IntArray, Floats]
"""Ids, clusters and load of some customers."""
Batches = Iterator[Batch]


def synthesize(
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    customers: Annotated[int, typer.Option(help="How many.")],
    out: Annotated[
        str, typer.Option(help="New .parquet, .csv, .dss (OpenDSS) or .xml (Green Button) file.")
    ],
    seed: Annotated[int, typer.Option(help="The same seed gives the same customers.")] = 1,
    engine: Annotated[str, typer.Option(help=ENGINE_HELP)] = "local",
    master: Annotated[str | None, typer.Option(help=MASTER_HELP)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Draw synthetic customers from the model of a bundle: free, they are nobody.

    With --engine spark, --out is a folder of Parquet files that executors write, at any address
    that Spark knows; --force replaces such a folder, and nothing that is of another kind.
    """
    console = Console(stderr=as_json)
    with refusals(), working(console) as started:
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
    """Write so many customers; the file appears under its name when it is complete."""
    path = Path(out)
    kinds = [*_WRITERS] if engine is None else [".parquet"]
    if path.suffix not in kinds:
        raise InvalidParameterError("out", f"a file that ends in one of {kinds}", str(out))
    if engine is None:
        checks.local_path("out", path)
    if engine is None and path.exists() and not force:
        raise InvalidParameterError("out", "a new file unless --force is given", str(out))
    checks.integer("customers", customers, least=1, most=_MOST_CUSTOMERS)
    model, public = read_model(bundle), read_manifest(bundle)["public_inputs"]
    grid, timezone = Grid.from_json(public["grid"]), public["timezone"]

    def batch(number: int) -> Batch:
        load_kw, clusters = model.batch(number, customers, seed=seed)
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


def _profiles(batch: Batch, grid: Grid, timezone: str) -> Profiles:
    """Return some customers as `wattveil profiles` would: whatever takes those takes these."""
    ids, clusters, load_kw = batch
    return Profiles(
        customer_ids=tuple(ids),
        load_kw=load_kw,
        grid=grid,
        timezone=timezone,
        attributes={"cluster": tuple(map(str, clusters.tolist()))},
        rules={"synthetic": True},
    )


def _write_parquet(path: Path, batches: Batches, grid: Grid, timezone: str) -> None:
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


def _write_csv(path: Path, batches: Batches, grid: Grid, _: str) -> None:
    """Write one row a customer and one column a slot."""
    loads = [(label, pa.float64()) for label in grid.labels]
    schema = pa.schema([("customer_id", pa.string()), ("cluster", pa.int64()), *loads])
    with pc.CSVWriter(path, schema) as writer:
        for ids, clusters, load_kw in batches:
            arrays = [pa.array(ids), pa.array(clusters), *(pa.array(slot) for slot in load_kw.T)]
            writer.write_table(pa.table(arrays, schema=schema))


def _write_dss(path: Path, batches: Batches, grid: Grid, _: str) -> None:
    """Write OpenDSS LoadShapes in kW, each as long as the profile."""
    head = f"npts={grid.cells} interval={grid.minutes / 60:g} useactual=yes"
    with path.open("w", encoding="utf-8") as file:
        for ids, _clusters, load_kw in batches:
            for name, row in zip(ids, load_kw[:, : grid.cells], strict=True):
                mult = " ".join(f"{value:.4f}" for value in row)
                file.write(f"New LoadShape.{name} {head} mult=({mult})\n")


def _write_green_button(path: Path, batches: Batches, grid: Grid, _: str) -> None:
    """Write a Green Button feed: net energy in whole Wh, one usage point a customer."""
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


_WRITERS: dict[str, Callable[[Path, Batches, Grid, str], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".dss": _write_dss,
    ".xml": _write_green_button,
}
