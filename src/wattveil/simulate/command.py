"""The verb ``wattveil simulate``: readings of made-up customers, written to Parquet."""

import json
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console

from wattveil.simulate.population import BLOCK
from wattveil.simulate.readings import READINGS_SCHEMA, simulate_attributes, simulate_readings
from wattveil.terminal import counting_bar, refusals

EPILOG = "Example: wattveil simulate --customers 1409 --days 28 --out readings.parquet"


def simulate(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Parquet file for the readings.")],
    customers: Annotated[int, typer.Option(help="How many customers.")] = 1409,
    days: Annotated[int, typer.Option(help="How many local days.")] = 28,
    start: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="First local day.")
    ] = datetime(2025, 3, 3),  # noqa: DTZ001 - a local day has no time zone of its own
    timezone: Annotated[str, typer.Option(help="Where the customers live.")] = "Europe/London",
    minutes: Annotated[int, typer.Option(help="Length of a reading: 15, 30 or 60.")] = 30,
    seed: Annotated[int, typer.Option(help="The same seed gives the same customers.")] = 1,
    missing: Annotated[float, typer.Option(help="Share of reads that are lost.")] = 0.001,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write interval readings of made-up customers, and a table of who they are beside them."""
    with refusals(context):
        written = write_readings(
            out,
            customers=customers,
            days=days,
            start=start.date(),
            timezone=timezone,
            minutes=minutes,
            seed=seed,
            missing=missing,
            quiet=as_json,
        )
    if as_json:
        typer.echo(json.dumps(written, indent=2))
        return
    console = Console()
    console.print(f"[bold]Simulated[/] {customers:,} customers, {written['readings']:,} readings.")
    console.print(f"  readings    {written['path']}\n  attributes  {written['attributes']}")


def write_readings(
    out: Path,
    *,
    customers: int,
    days: int,
    start: date,
    timezone: str,
    minutes: int,
    seed: int,
    missing: float,
    quiet: bool,
    mix: Mapping[str, float] | None = None,
) -> dict[str, object]:
    """Write readings batch by batch, and the attributes to ``<name>.attributes.parquet``.

    The file appears under its name when it is complete, never before.
    """
    batches = simulate_readings(
        customers=customers,
        days=days,
        start=start,
        timezone=timezone,
        minutes=minutes,
        seed=seed,
        missing=missing,
        mix=mix,
    )
    part = out.with_name(out.name + ".part")
    told = {"timezone": timezone, "seed": seed, "minutes": minutes, "start": str(start)}
    schema = READINGS_SCHEMA.with_metadata({"wattveil.simulation": json.dumps(told)})
    readings = 0
    with (
        counting_bar(quiet=quiet) as progress,
        pq.ParquetWriter(part, schema, compression="zstd") as writer,
    ):
        task = progress.add_task("simulating customers", total=customers)
        for batch in batches:
            writer.write_table(
                pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
            )
            readings += batch.num_rows
            progress.advance(task, min(BLOCK, customers))
        progress.update(task, completed=customers)
    attributes = out.with_name(out.stem + ".attributes.parquet")
    pq.write_table(simulate_attributes(customers=customers, mix=mix, seed=seed), attributes)
    part.replace(out)
    return {
        "path": str(out),
        "attributes": str(attributes),
        "customers": customers,
        "readings": readings,
        **told,
    }
