"""What an executor does with rows of readings: look at them, or make profiles of them.

It puts the rows into files of its own and then does what one machine does with any file. So there
is one set of rules. These functions are sent to executors; none of them runs on the driver.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.compiled import stay_in_one_thread
from wattveil.engines.parcels import Batches, OnPartition, unpack
from wattveil.errors import NoUsableReadingError
from wattveil.ingest.layouts import Found
from wattveil.ingest.options import MeasuredIn, ReadOptions
from wattveil.ingest.readings import Readings, Source, Workshop
from wattveil.ingest.rows import Rows, add_midnights, find_rows
from wattveil.ingest.sources import scan_parquet
from wattveil.ingest.sql import ident, paths
from wattveil.profiles.account import ProfileAccount, ProfileRules
from wattveil.profiles.build import NO_USABLE_READING, build_by_rules

METER, OWNER = "wattveil meter", "wattveil customer"
"""Columns that the list of meters adds: the meter as the list has it, and whose it is."""

ACCOUNT = "wattveil account"

_ROWS_A_GROUP = 1 << 17


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the rows are, and what to make of them: found out once, sent to all executors."""

    rows: Rows
    unit: MeasuredIn
    lengths: tuple[int, ...]
    options: ReadOptions
    rules: ProfileRules
    memory_mb: int


def look(found: Found, options: ReadOptions, memory_mb: int, name: str) -> OnPartition:
    """Return the function that tells from a few rows how their fields are written."""

    def look_at(batches: Batches) -> Iterator[pa.RecordBatch]:
        workshop = _workshop(memory_mb)
        if (part := _gather(batches, workshop)) is not None:
            scan = scan_parquet(workshop.connection, [part])
            rows = find_rows(workshop.connection, scan, found, options, name)
            seen = {
                "types": scan.types,
                "stamp": asdict(rows.stamp),
                "minutes": rows.minutes,
                "mark": rows.decimals.mark if rows.decimals else None,
                "guesses": rows.guesses,
            }
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(seen)])], ["seen"])

    return look_at


def find_lengths(rows: Rows, memory_mb: int) -> OnPartition:
    """Return the function that finds the interval lengths in a column of them."""

    def lengths_of(batches: Batches) -> Iterator[pa.RecordBatch]:
        workshop = _workshop(memory_mb)
        if (part := _gather(batches, workshop)) is not None:
            found = workshop.connection.sql(_read_from(rows, [part]).lengths_sql())
            yield from found.to_arrow_table().to_batches()

    return lengths_of


def make_profiles(plan: Plan) -> OnPartition:
    """Return the function that makes profiles of all rows of some customers, which come in parcels.

    It yields a row a customer, and one more that has the account in place of a customer.
    """

    def profiles_of(batches: Batches) -> Iterator[pa.RecordBatch]:
        stay_in_one_thread()
        workshop = _workshop(plan.memory_mb)
        parts = unpack(batches, workshop.folder)
        if not parts:
            return
        readings = _readings(workshop, parts, plan)
        try:
            build = build_by_rules(readings, plan.rules)
        except NoUsableReadingError:
            yield _account_row(_all_dropped(readings), usable=False)
            return
        profiles = build.profiles.to_arrow().combine_chunks()
        loads = profiles["load_kw"].cast(pa.list_(pa.float64()))
        table = profiles.set_column(1, "load_kw", loads).replace_schema_metadata()
        if build.profiles.estimated_share is None:
            table = table.append_column("estimated_share", pa.nulls(len(table), pa.float64()))
        table = table.append_column(ACCOUNT, pa.nulls(len(table), pa.string()))
        yield from table.to_batches()
        yield _account_row(build.account, usable=True)

    return profiles_of


PROFILE_COLUMNS = (
    f"customer_id string, load_kw array<double>, estimated_share double, `{ACCOUNT}` string"
)


def _workshop(memory_mb: int) -> Workshop:
    # A task that is killed cleans nothing up. Spark does, in folders of its own.
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    workshop = Workshop(memory_mb, within=folders[os.getpid() % len(folders)] or None)
    workshop.connection.execute("SET threads = 1")  # Spark gives a task one core
    return workshop


def _gather(batches: Batches, workshop: Workshop) -> Path | None:
    """Put rows into a file; None if there are none."""
    coming = iter(batches)
    first = next((batch for batch in coming if batch.num_rows), None)
    if first is None:
        return None
    path = workshop.folder / "part.parquet"
    with pq.ParquetWriter(path, first.schema) as writer:
        held, rows = [first], first.num_rows
        for batch in coming:
            held.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS_A_GROUP:
                writer.write_table(pa.Table.from_batches(held))
                held, rows = [], 0
        writer.write_table(pa.Table.from_batches(held, first.schema))
    return path


def _read_from(rows: Rows, parts: list[Path]) -> Rows:
    return replace(rows, scan=replace(rows.scan, sql=f"read_parquet({paths(parts)})"))


def _readings(workshop: Workshop, parts: list[Path], plan: Plan) -> Readings:
    """Open the rows of a partition as `read_readings` opens files."""
    rows = _read_from(plan.rows, parts)
    if rows.has_days:
        add_midnights(workshop.connection, plan.options.timezone or "UTC")
    if plan.options.meters is not None:
        names = f"{ident(METER)} AS meter_id, {ident(OWNER)} AS customer_id"
        listed = workshop.connection.read_parquet([str(part) for part in parts]).project(names)
        listed.filter("meter_id IS NOT NULL").distinct().create("meters")
    source = Source(
        files=tuple(parts), rows=rows, unit=plan.unit, options=plan.options, lengths=plan.lengths
    )
    return Readings(workshop, source)


def _all_dropped(readings: Readings) -> ProfileAccount:
    customers = readings.settled().customers
    return ProfileAccount(
        readings=readings.report,
        straddling=0,
        unfit=0,
        profiles=0,
        customers_dropped={NO_USABLE_READING: customers} if customers else {},
    )


def _account_row(account: ProfileAccount, *, usable: bool) -> pa.RecordBatch:
    record = {"profiles": account.profiles, "usable": usable, "account": account.to_json()}
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(1, pa.string()),
            pa.nulls(1, pa.list_(pa.float64())),
            pa.nulls(1, pa.float64()),
            pa.array([json.dumps(record)]),
        ],
        ["customer_id", "load_kw", "estimated_share", ACCOUNT],
    )
