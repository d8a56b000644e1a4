"""Customers in a Spark DataFrame: functions run in executors, whole numbers come to the driver.

A task that is run twice, because a machine was lost or was slow, finds the same integers again, and
Spark takes those of one of them. Noise is drawn by the kernel, on the driver, once for each charge.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVarTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from wattveil.compiled import stay_in_one_thread
from wattveil.engines.rows import Rows
from wattveil.errors import InvalidDataError

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")

_TYPES = {("f", 1): "double", ("f", 2): "array<double>", ("i", 1): "bigint"}
_FEW_NUMBERS = 4096
_ADDERS = 16
"""Partial sums of more than a few numbers are added up by so many tasks before the driver does."""


class SparkRows(Rows[*Columns]):
    """Customers in the columns of a DataFrame.

    Parameters
    ----------
    frame : DataFrame
        One row a customer. A column has one number a customer, or an array of them. Reading it
        twice must give the same rows: no `sample`, no `limit`.
    nobody : arrays without rows
        The type of each column and the length of its arrays, which are public:
        ``SparkRows(frame.select("load_kw"), np.zeros((0, 24)))``.
    """

    def __init__(self, frame: DataFrame, *nobody: *Columns) -> None:
        self._frame = frame
        self._nobody: Any = nobody

    @property
    def width(self) -> int:
        """How many numbers a customer has in the first column."""
        return int(self._nobody[0].shape[1])

    def map(self, work: Callable[[*Columns], tuple[*Found]]) -> "SparkRows[*Found]":
        """Return what a function makes of the customers; executors keep it."""
        on_batch = _on_batch(work, self._nobody)
        found: Any = work(*self._nobody)
        names = [f"column_{place}" for place in range(len(found))]

        def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            stay_in_one_thread()
            for batch in batches:
                arrays = [_column(array) for array in on_batch(batch)]
                yield pa.RecordBatch.from_arrays(arrays, names)

        types = [_TYPES[array.dtype.kind, array.ndim] for array in found]
        schema = ", ".join(map(" ".join, zip(names, types, strict=True)))
        frame = self._frame.mapInArrow(of_partition, schema).persist()
        mapped: SparkRows[*Found] = SparkRows(frame, *found)
        weakref.finalize(mapped, _forget, frame).atexit = False
        return mapped

    def add_up(
        self, work: Callable[[*Columns], NDArray[np.int64]], *, size: int
    ) -> NDArray[np.int64]:
        """Return the sum over all blocks of what a function returns of each."""
        on_batch = _on_batch(work, self._nobody)

        def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            stay_in_one_thread()
            yield _sum(map(on_batch, batches), size)

        def of_sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield _sum((_integers(one) for batch in batches for one in batch[0].to_pylist()), size)

        partial_sums = self._frame.mapInArrow(of_partition, "totals binary")
        if size > _FEW_NUMBERS:
            partial_sums = partial_sums.repartition(_ADDERS).mapInArrow(of_sums, "totals binary")
        return sum((_integers(row.totals) for row in partial_sums.collect()), _zeros(size))


def _on_batch(
    work: Callable[..., Any], nobody: Sequence[NDArray[Any]]
) -> Callable[[pa.RecordBatch], Any]:
    """Return the function for a batch of Arrow."""

    def on_batch(batch: pa.RecordBatch) -> Any:  # noqa: ANN401 - what the function returns
        return work(*map(_array, batch.columns, nobody))

    return on_batch


def _array(column: pa.Array, nobody: NDArray[Any]) -> NDArray[Any]:
    """Return a column as an array of its own, of the type and width of an empty one."""
    if nobody.ndim == 1:
        return np.array(column.to_numpy(zero_copy_only=False), dtype=nobody.dtype)
    width = nobody.shape[1]
    lengths = pc.fill_null(pc.list_value_length(column), -1)
    if not pc.all(pc.equal(lengths, width)).as_py():
        raise InvalidDataError(f"an array of {width} numbers for each customer", [])
    flat = column.flatten().to_numpy(zero_copy_only=False)  # null is NaN
    return np.array(flat, dtype=nobody.dtype).reshape(-1, width)


def _column(array: NDArray[Any]) -> pa.Array:
    """Return an array as a column of Arrow."""
    if array.ndim == 1:
        return pa.array(array)
    ends = np.arange(len(array) + 1, dtype=np.int32) * np.int32(array.shape[1])
    return pa.ListArray.from_arrays(ends, np.ascontiguousarray(array).ravel())


def _sum(parts: Iterable[NDArray[np.int64]], size: int) -> pa.RecordBatch:
    """Return the sum of integers as one row, their bytes."""
    total = sum(parts, _zeros(size))
    return pa.RecordBatch.from_arrays([pa.array([total.astype("<i8").tobytes()])], ["totals"])


def _integers(totals: bytes) -> NDArray[np.int64]:
    return np.frombuffer(totals, dtype="<i8")


def _zeros(size: int) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


def _forget(frame: DataFrame) -> None:
    """Free what executors keep, if there are any left: the session may have ended in any way."""
    with suppress(Exception):
        frame.unpersist()
