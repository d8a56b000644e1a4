"""Work of executors on rows of readings: shuffle them, inspect them, make profiles of them.

An executor writes rows to files of its own and then does what one machine does with any file. So
there is one set of rules. These functions are sent to executors; none of them runs on the driver,
except for the number of partitions.

A row that Spark sends by itself costs more than all that is done with it. So an executor sorts many
rows by partition and packs those of each as the bytes of a Parquet file; Spark sends the bytes, and
the receiving task has files to read.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, functions

from wattveil.compiled import stay_in_one_thread
from wattveil.errors import InvalidParameterError, NoUsableReadingError
from wattveil.profiles.build import build_profiles
from wattveil.profiles.profile_account import NO_USABLE_READING, ProfileAccount
from wattveil.profiles.profiles import ProfileRules
from wattveil.readings.formats.table import TableRows, add_midnights, find_rows
from wattveil.readings.formats.table_columns import FoundLayout
from wattveil.readings.options import MeasuredIn, ReadOptions
from wattveil.readings.plausibility import check_plausible
from wattveil.readings.readings import Readings, Source
from wattveil.readings.schema import SPACES
from wattveil.readings.sources import ScratchDatabase, scan_parquet
from wattveil.readings.sql_text import ident, paths

SHUFFLE_COLUMNS = "partition bigint, rows binary"

_NUMBERS_A_PARTITION = 40
_MAX_BYTES = 1 << 29  # Arrow and Java count the bytes of texts and blocks in 31 bits

Batches = Iterable[pa.RecordBatch]
OnPartition = Callable[[Batches], Iterator[pa.RecordBatch]]


def shuffle_partitions(session: SparkSession) -> int:
    """Return into how many partitions rows are sent; ``auto`` on some platforms."""
    name = "spark.sql.shuffle.partitions"
    found = str(session.conf.get(name))
    if not found.isdecimal():
        raise InvalidParameterError(name, "a whole number, set in the session", found)
    return int(found)


def partition_numbers(session: SparkSession, partitions: int) -> list[int]:
    """Return a number for each partition that Spark's hash sends there.

    Consecutive numbers would collide: some partitions would have several and others none. The work
    of one without a number goes to another; the partition of a customer affects time only.
    """
    place = functions.expr(f"pmod(hash(id), {partitions})")
    numbers = session.range(0, _NUMBERS_A_PARTITION * partitions, 1, 1)
    found = numbers.groupBy(place).agg(functions.min("id")).collect()
    return sorted(number for _, number in found)


def pack(customer: str, numbers: Sequence[int], *, max_bytes: int) -> OnPartition:
    """Return the function that packs rows by the customer that a column names.

    Blanks around a name do not count. Rows without a name go together.
    """

    def partition_of(name: object) -> int:
        text = str(name).strip(SPACES)
        return zlib.crc32(text.encode("utf-8", "surrogatepass")) % len(numbers)

    def packed(batches: Batches) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for batch in batches:
            held.append(batch)
            held_bytes += batch.nbytes
            if held_bytes >= min(max_bytes, _MAX_BYTES):
                yield _packed_by_partition(held, customer, partition_of, numbers)
                held, held_bytes = [], 0
        if held:
            yield _packed_by_partition(held, customer, partition_of, numbers)

    return packed


def unpack(batches: Batches, folder: Path) -> list[Path]:
    """Put every block into a file."""
    files: list[Path] = []
    for batch in batches:
        for rows in batch.column("rows"):
            files.append(folder / f"part-{len(files)}.parquet")
            files[-1].write_bytes(rows.as_buffer())
    return files


def _packed_by_partition(
    held: list[pa.RecordBatch],
    customer: str,
    partition_of: Callable[[object], int],
    numbers: Sequence[int],
) -> pa.RecordBatch:
    """Sort rows by partition, in the order in which they come, and pack each partition's."""
    table = pa.Table.from_batches(held).unify_dictionaries().combine_chunks()
    names = table[customer].combine_chunks()
    if not pa.types.is_dictionary(names.type):
        names = names.dictionary_encode()
    unnamed = len(names.dictionary)  # the code of rows without a name
    codes = names.indices.fill_null(unnamed).to_numpy()
    places = np.zeros(
        unnamed + 1, dtype=np.min_scalar_type(len(numbers))
    )  # NumPy sorts few bits fast
    places[:unnamed] = [partition_of(name) for name in names.dictionary.to_pylist()]
    edges = np.arange(len(numbers) + 1)
    rows = np.argsort(places[codes], kind="stable")
    first_row = np.searchsorted(places[codes[rows]], edges)
    # The names of a partition are a dictionary of their own, in which a name has its rank.
    listed = np.argsort(places[:unnamed], kind="stable")
    first_name = np.searchsorted(places[listed], edges)
    ranks = np.zeros(unnamed + 1, dtype=np.int32)
    ranks[listed] = np.arange(unnamed) - first_name[places[listed]]
    ranked, without = ranks[codes[rows]], codes[rows] == unnamed
    rest, column = table.take(pa.array(rows)), table.schema.get_field_index(customer)
    sent, blocks = [], []
    for place in np.flatnonzero(np.diff(first_row)).tolist():
        own = slice(first_row[place], first_row[place + 1])
        called = pa.DictionaryArray.from_arrays(
            pa.array(ranked[own], mask=without[own]),
            names.dictionary.take(pa.array(listed[slice(*first_name[place : place + 2])])),
        )
        part = rest.slice(own.start, own.stop - own.start).set_column(column, customer, called)
        sink = pa.BufferOutputStream()
        pq.write_table(part, sink, compression="zstd", store_schema=False)
        sent.append(numbers[place])
        blocks.append(sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays(
        [pa.array(sent, pa.int64()), pa.array(blocks, pa.binary())], ["partition", "rows"]
    )


METER, OWNER = "wattveil meter", "wattveil customer"
"""Columns that the list of meters adds: the meter as the list has it, and whose it is."""

ACCOUNT = "wattveil account"

_ROWS_A_GROUP = 1 << 17


@dataclass(frozen=True, kw_only=True)
class ReadingPlan:
    """Layout of the rows and rules of the profiles: found once, sent to all executors."""

    rows: TableRows
    unit: MeasuredIn
    lengths: tuple[int, ...]
    options: ReadOptions
    rules: ProfileRules
    memory_mb: int


def inspect_rows(
    found: FoundLayout, options: ReadOptions, memory_mb: int, name: str
) -> OnPartition:
    """Return the function that infers from a few rows how their fields are written."""

    def inspected_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        database = _database(memory_mb)
        if (part := _gather(batches, database)) is not None:
            scan = scan_parquet(database.connection, [part])
            rows = find_rows(database.connection, scan, found, options, name)
            check_plausible(database.connection, rows, rows.unit, options, name)
            seen = {
                "types": scan.types,
                "stamp": asdict(rows.stamp),
                "end_stamped": rows.end_stamped,
                "minutes": rows.minutes,
                "infers_minutes": rows.infers_minutes,
                "unit": rows.unit,
                "mark": rows.decimals.mark if rows.decimals else None,
                "assumptions": rows.assumptions,
                "qualities": dict(rows.qualities),
            }
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(seen)])], ["seen"])

    return inspected_rows


def find_lengths(rows: TableRows, memory_mb: int) -> OnPartition:
    """Return the function that finds the interval lengths in a column of them."""

    def lengths_of(batches: Batches) -> Iterator[pa.RecordBatch]:
        database = _database(memory_mb)
        if (part := _gather(batches, database)) is not None:
            found = database.connection.sql(_read_from(rows, [part]).lengths_sql())
            yield from found.to_arrow_table().to_batches()

    return lengths_of


def make_profiles(plan: ReadingPlan) -> OnPartition:
    """Return the function that makes profiles of all rows of some customers, which come in blocks.

    It yields one row per customer, and one more with the account in place of a customer.
    """

    def profiles_of(batches: Batches) -> Iterator[pa.RecordBatch]:
        stay_in_one_thread()
        database = _database(plan.memory_mb)
        parts = unpack(batches, database.folder)
        if not parts:
            return
        readings = _readings(database, parts, plan)
        try:
            build = build_profiles(readings, plan.rules)
        except NoUsableReadingError:
            yield _account_row(_all_dropped(readings), usable=False)
            return
        profiles = build.profiles.to_arrow("profiles").combine_chunks()
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


def _database(memory_mb: int) -> ScratchDatabase:
    # A task that is killed cleans nothing up. Spark does, in folders of its own.
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    database = ScratchDatabase(memory_mb, within=folders[os.getpid() % len(folders)] or None)
    database.connection.execute("SET threads = 1")  # a task of Spark has one core
    return database


def _gather(batches: Batches, database: ScratchDatabase) -> Path | None:
    """Put rows into a file; None if there are none."""
    coming = iter(batches)
    first = next((batch for batch in coming if batch.num_rows), None)
    if first is None:
        return None
    path = database.folder / "part.parquet"
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


def _read_from(rows: TableRows, parts: list[Path]) -> TableRows:
    return replace(rows, scan=replace(rows.scan, sql=f"read_parquet({paths(parts)})"))


def _readings(database: ScratchDatabase, parts: list[Path], plan: ReadingPlan) -> Readings:
    """Open the rows of a partition as `read_readings` opens files."""
    rows = _read_from(plan.rows, parts)
    if rows.has_days:
        add_midnights(database.connection, plan.options.timezone or "UTC")
    if plan.options.meters is not None:
        names = f"{ident(METER)} AS meter_id, {ident(OWNER)} AS customer_id"
        listed = database.connection.read_parquet([str(part) for part in parts]).project(names)
        listed.filter("meter_id IS NOT NULL").distinct().create("meters")
    source = Source(
        files=tuple(parts), rows=rows, unit=plan.unit, options=plan.options, lengths=plan.lengths
    )
    return Readings(database, source)


def _all_dropped(readings: Readings) -> ProfileAccount:
    customers = readings.customers_in()
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
