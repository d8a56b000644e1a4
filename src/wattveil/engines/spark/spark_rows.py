"""Customers in a Spark DataFrame: functions run in executors, totals come to the driver.

Rows come to the driver only if they are released, or for a series, beside its private state.

A task that is run twice, because a machine was lost or was slow, finds the same integers again, and
Spark takes those of one of them. Noise is drawn by the kernel, on the driver, once for each charge.
"""

import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from wattveil.arrays import Bools, Ints
from wattveil.compiled import stay_in_one_thread
from wattveil.engines.spark.spark_session import write_folder
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy.mechanisms.contributions import BlockSums, BoundedTotals
from wattveil.privacy.private_data import BoundRowFunction, Rows, exactly, kept_columns

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Other = TypeVar("Other")

_TYPES = {
    ("f", 1): "double",
    ("f", 2): "array<double>",
    ("i", 1): "bigint",
    ("O", 1): "string",
    ("S", 1): "binary",
}
_FEW_BYTES = 32_768
_ADDERS = 16
"""Number of tasks that add up larger partial sums before the driver does."""
_ROWS_PER_FILE = 1_000_000
_BROKEN_RULE = re.compile(r"InvalidDataError: the data violate the rule '(.*)'")


class SparkRows(Rows[*Columns]):
    """Customers in the columns of a DataFrame.

    Executors compute when a mechanism requests sums, or when released rows are read.

    Parameters
    ----------
    frame : DataFrame
        One row per customer. A column has one number or text per customer, or an array of numbers.
        Reading it twice must give the same rows: no `sample`, no `limit`.
    empty : arrays without rows
        The type of each column and the length of its arrays, which are public:
        ``SparkRows(frame.select("load_kw"), np.zeros((0, 24)))``.
    """

    computes_once = False

    def __init__(self, frame: DataFrame, *empty: *Columns) -> None:
        self._names = _plain_names(len(frame.columns))
        self._frame = self._table = frame.toDF(*self._names)
        self._empty: Any = empty
        self._parent: object = None

    @classmethod
    def columns_of(
        cls, frame: DataFrame, empty: Mapping[str, NDArray[Any]]
    ) -> "dict[str, SparkRows[Any]]":
        """Return columns of one table by name; they fit beside each other."""
        plain = _plain_names(len(empty))
        table = frame.select(*map(quoted, empty)).toDF(*plain)
        columns = [
            cls._of(table, table, [n], [one]) for n, one in zip(plain, empty.values(), strict=True)
        ]
        return dict(zip(empty, columns, strict=True))

    @classmethod
    def _of(
        cls, frame: DataFrame, table: DataFrame, names: Sequence[str], empty: Sequence[Any]
    ) -> "SparkRows[*tuple[Any, ...]]":
        """Return some columns of a frame, whose rows are those of a table, one for one."""
        rows: SparkRows[*tuple[Any, ...]] = SparkRows(frame, *empty)
        rows._frame, rows._table, rows._names = frame, table, [*names]
        return rows

    @property
    def width(self) -> int:
        """Number of values per customer in the first column."""
        return int(self._empty[0].shape[1])

    @property
    def _own_frame(self) -> DataFrame:
        """The columns as a DataFrame."""
        return self._frame.select(*self._names)

    def beside(self, other: Rows[Other], *, field: str) -> "SparkRows[*Columns, Other]":
        """Return the same customers with one more column, an unchanged one of the same table."""
        if not isinstance(other, SparkRows) or other._frame is not self._table:  # noqa: SLF001 - of our own kind
            raise InvalidParameterError(field, "a column of the same table", type(other).__name__)
        names, empty = [*self._names, *other._names], [*self._empty, *other._empty]  # noqa: SLF001 - same
        return self._of(self._frame, self._table, names, empty)

    def _has_repeats(self) -> bool:
        """Whether a value of the first column occurs twice, or is missing; executors count."""
        name = self._names[0]
        counted = self._own_frame.groupBy(name).count()
        return not counted.filter(f"count > 1 OR {name} IS NULL").isEmpty()

    def map(self, work: BoundRowFunction[tuple[Other]]) -> "SparkRows[Other]":
        """Apply a row function to the one column; keep every customer."""
        (name,), (empty,) = self._names, self._empty
        on_column = _on_block(exactly(work, BoundRowFunction), [empty])
        found: Any = work(empty)[0]

        def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            stay_in_one_thread()
            for batch in batches:
                place = batch.schema.get_field_index(name)
                yield batch.set_column(place, name, _column(on_column([batch.column(place)])[0]))

        kind = DataType.fromDDL(_TYPES[found.dtype.kind, found.ndim])
        others = self._frame.schema.fields
        fields = [StructField(name, kind) if one.name == name else one for one in others]
        frame = self._frame.mapInArrow(of_partition, StructType(fields))
        return self._of(frame, self._table, [name], [found])

    def select(self, work: BoundRowFunction[tuple[*Found, Bools]]) -> "SparkRows[*Found]":
        """Return what a row function computes of the customers it keeps; executors keep it."""
        return self._kept(exactly(work, BoundRowFunction), kept_columns)

    def _draw(self, work: Callable[..., tuple[*Found]]) -> "SparkRows[*Found]":
        """Let executors draw; a task that is repeated draws the same."""
        return self._kept(work, tuple)

    def _kept(
        self, work: Callable[..., Any], finish: Callable[[Any], tuple[*Found]]
    ) -> "SparkRows[*Found]":
        """Return what a function computes of each block; executors keep it."""
        on_block = _on_block(work, self._empty)
        found: Any = finish(work(*self._empty))
        names = _plain_names(len(found))

        def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            stay_in_one_thread()
            for batch in batches:
                found_here: Any = finish(on_block(batch.columns))
                arrays = [_column(column) for column in found_here]
                yield pa.RecordBatch.from_arrays(arrays, names)

        types = [_TYPES[array.dtype.kind, array.ndim] for array in found]
        schema = ", ".join(map(" ".join, zip(names, types, strict=True)))
        frame = self._own_frame.mapInArrow(of_partition, schema).persist()
        kept: SparkRows[*Found] = SparkRows(frame, *found)
        kept._parent = self  # what executors keep of it serves until they keep this
        weakref.finalize(kept, unpersist, frame).atexit = False
        return kept

    def add_up(self, work: BlockSums) -> BoundedTotals:
        """Return the total over all batches; executors add up and send authenticated bytes."""
        on_block = _on_block(exactly(work, BlockSums), self._empty)
        # Public numbers that the function finds when it needs them, such as eigenvectors, are found
        # here and travel with it: executors might find others in the last bits.
        size = len(work.pack(work(*self._empty)))

        def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            stay_in_one_thread()
            yield _packed(work, (on_block(batch.columns) for batch in batches))

        def of_totals(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            packed = (one for batch in batches for one in batch[0].to_pylist())
            yield _packed(work, map(work.unpack, packed))

        partial_sums = self._own_frame.mapInArrow(of_partition, "totals binary")
        if size > _FEW_BYTES:
            partial_sums = partial_sums.repartition(_ADDERS).mapInArrow(of_totals, "totals binary")
        with errors_of_executors():
            collected = partial_sums.collect()
        self._parent = None
        return work.total(work.unpack(bytes(row.totals)) for row in collected)

    def _columns_in_order(self) -> tuple[*Columns]:
        """Return the columns as arrays on the driver, sorted by the first."""
        with errors_of_executors():
            table = self._own_frame.toArrow().sort_by(self._names[0])
        columns = (column.combine_chunks() for column in table.columns)
        return tuple(map(_array, columns, self._empty))  # type: ignore[return-value]

    def _counted(self, n_values: int) -> Ints:
        """Count the values of the last column, in executors."""
        counts = np.zeros(n_values, dtype=np.int64)
        with errors_of_executors():
            for value, count in self._own_frame.groupBy(self._names[-1]).count().collect():
                counts[value] = count
        return counts

    def _write(self, path: str | Path, names: Sequence[str]) -> None:
        """Write the columns to a new folder, in executors; sort each file by the first column.

        In which of several files a customer is, its value in that column alone decides. Spark would
        draw their borders from a sample of the rows as they lie: the files that are written would
        reveal how customers were stored.
        """
        name = self._names[0]
        with errors_of_executors():
            partitions = 1 + self._own_frame.count() // _ROWS_PER_FILE
            frame = self._own_frame.repartition(partitions, name).sortWithinPartitions(name)
            write_folder(frame.toDF(*names), path)


@contextmanager
def errors_of_executors() -> Iterator[None]:
    """Convert a data error of an executor to the `InvalidDataError` it was."""
    try:
        yield
    except PythonException as error:
        found = _BROKEN_RULE.search(str(error))
        if found is None:
            raise
        rule = found[1]
    else:
        return
    raise InvalidDataError(rule, [])  # without the executor's traceback


@contextmanager
def _no_row_in_errors() -> Iterator[None]:
    """Reduce a data error to the violated rule, without values of a row, before it is sent."""
    try:
        yield
    except InvalidDataError as error:
        raise InvalidDataError(error.rule, []) from None


def _plain_names(columns: int) -> list[str]:
    """Return names in which PySpark sees no dots and quotes: it misreads those of others."""
    return [f"column_{place}" for place in range(columns)]


def quoted(name: str) -> str:
    """Write the name of a column as Spark takes it for one, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def _on_block(
    work: Callable[..., Any], empty: Sequence[NDArray[Any]]
) -> Callable[[Sequence[pa.Array]], Any]:
    """Return the function, to be called with Arrow columns."""

    def on_block(columns: Sequence[pa.Array]) -> Any:  # noqa: ANN401 - what the function returns
        with _no_row_in_errors():
            return work(*map(_array, columns, empty))

    return on_block


def _array(column: pa.Array, empty: NDArray[Any]) -> NDArray[Any]:
    """Return a column as an array of its own, of the type and width of an empty one."""
    if empty.ndim == 1:
        return _values(column, empty)
    width = empty.shape[1]
    lengths = pc.fill_null(pc.list_value_length(column), -1)
    if pc.any(pc.not_equal(lengths, width)).as_py():  # None without rows
        raise InvalidDataError(f"an array of {width} numbers for each customer", [])
    return _values(column.flatten(), empty).reshape(-1, width)  # null is NaN


def _values(column: pa.Array, empty: NDArray[Any]) -> NDArray[Any]:
    """Return values as an array of the type of an empty one."""
    try:
        return np.array(column.to_numpy(zero_copy_only=False), dtype=empty.dtype)
    except (TypeError, ValueError):  # NumPy quotes the value
        raise InvalidDataError(f"values that can be read as {empty.dtype}", []) from None


def _column(array: NDArray[Any]) -> pa.Array:
    """Return an array as a column of Arrow."""
    if array.ndim == 1:
        return pa.array(array, pa.string() if array.dtype.kind == "O" else None)
    ends = np.arange(len(array) + 1, dtype=np.int32) * np.int32(array.shape[1])
    return pa.ListArray.from_arrays(ends, np.ascontiguousarray(array).ravel())


def _packed(work: BlockSums, parts: Iterable[BoundedTotals]) -> pa.RecordBatch:
    """Return the sum of totals as one row of bytes."""
    return pa.RecordBatch.from_arrays([pa.array([work.pack(work.total(parts))])], ["totals"])


def unpersist(frame: DataFrame) -> None:
    """Free what executors keep, if there are any left: the session may have ended in any way."""
    with suppress(Exception):
        frame.unpersist()
