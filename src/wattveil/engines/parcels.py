"""Rows on their way to the partition of their customer: packed, so that few and large ones travel.

A row that Spark sends by itself costs more than all that is done with it. So an executor sorts
many rows by partition and packs those of each as the bytes of a Parquet file; Spark sends the
bytes, and whoever gets them has files to read.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, functions

from wattveil.errors import InvalidParameterError
from wattveil.ingest.schema import SPACES

PARCELS = "partition bigint, rows binary"

_NUMBERS_A_PARTITION = 40
_MOST_BYTES = 1 << 29  # Arrow and Java count the bytes of texts and parcels in 31 bits

Batches = Iterable[pa.RecordBatch]
OnPartition = Callable[[Batches], Iterator[pa.RecordBatch]]


def shuffle_partitions(session: SparkSession) -> int:
    """Return into how many partitions rows are sent; some houses leave it to their Spark."""
    name = "spark.sql.shuffle.partitions"
    found = str(session.conf.get(name))
    if not found.isdecimal():
        raise InvalidParameterError(name, "a whole number, set in the session", found)
    return int(found)


def partition_numbers(session: SparkSession, partitions: int) -> list[int]:
    """Return a number for each partition that Spark's hash sends there.

    Numbers in a row would meet: some partitions would have several and others none. One that is
    not found is given the work of a neighbour; where a customer goes decides nothing but time.
    """
    place = functions.expr(f"pmod(hash(id), {partitions})")
    numbers = session.range(0, _NUMBERS_A_PARTITION * partitions, 1, 1)
    found = numbers.groupBy(place).agg(functions.min("id")).collect()
    return sorted(number for _, number in found)


def pack(customer: str, numbers: Sequence[int], *, most_bytes: int) -> OnPartition:
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
            if held_bytes >= min(most_bytes, _MOST_BYTES):
                yield _parcels(held, customer, partition_of, numbers)
                held, held_bytes = [], 0
        if held:
            yield _parcels(held, customer, partition_of, numbers)

    return packed


def unpack(batches: Batches, folder: Path) -> list[Path]:
    """Put every parcel into a file."""
    files: list[Path] = []
    for batch in batches:
        for rows in batch.column("rows"):
            files.append(folder / f"part-{len(files)}.parquet")
            files[-1].write_bytes(rows.as_buffer())
    return files


def _parcels(
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
    nobody = len(names.dictionary)  # the code of rows without a name
    codes = names.indices.fill_null(nobody).to_numpy()
    places = np.zeros(
        nobody + 1, dtype=np.min_scalar_type(len(numbers))
    )  # NumPy sorts few bits fast
    places[:nobody] = [partition_of(name) for name in names.dictionary.to_pylist()]
    edges = np.arange(len(numbers) + 1)
    rows = np.argsort(places[codes], kind="stable")
    first_row = np.searchsorted(places[codes[rows]], edges)
    # The names of a partition are a dictionary of their own, in which a name has its rank.
    listed = np.argsort(places[:nobody], kind="stable")
    first_name = np.searchsorted(places[listed], edges)
    ranks = np.zeros(nobody + 1, dtype=np.int32)
    ranks[listed] = np.arange(nobody) - first_name[places[listed]]
    ranked, without = ranks[codes[rows]], codes[rows] == nobody
    rest, column = table.take(pa.array(rows)), table.schema.get_field_index(customer)
    sent, parcels = [], []
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
        parcels.append(sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays(
        [pa.array(sent, pa.int64()), pa.array(parcels, pa.binary())], ["partition", "rows"]
    )
