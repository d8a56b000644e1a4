"""Customers in the memory of this process."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from wattveil.compiled import in_threads, over_spans
from wattveil.engines.rows import Rows
from wattveil.errors import InvalidParameterError

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Column = TypeVar("Column")
Other = TypeVar("Other")
_Result = TypeVar("_Result")


class LocalRows(Rows[*Columns]):
    """Customers in arrays, one a column, of the same length.

    What `map` makes stays in the blocks in which it was made: joined, it would be there twice for a
    moment. Sums do not need it joined; what does asks for `columns`.
    """

    def __init__(self, *columns: *Columns) -> None:
        self._blocks: list[Any] = [columns]

    @property
    def columns(self) -> tuple[*Columns]:
        """The columns, each in one array."""
        if len(self._blocks) > 1:
            joined = (np.concatenate(parts) for parts in zip(*self._blocks, strict=True))
            self._blocks = [tuple(joined)]
        columns: tuple[*Columns] = self._blocks[0]
        return columns

    @property
    def _arrays(self) -> Any:  # noqa: ANN401 - arrays of any kind
        return self.columns

    @property
    def width(self) -> int:
        """How many numbers a customer has in the first column."""
        return int(self._blocks[0][0].shape[1])

    def beside(self, other: Rows[Other], *, field: str) -> "LocalRows[*Columns, Other]":
        """Return the same customers with one more column."""
        if not isinstance(other, LocalRows):
            raise InvalidParameterError(field, "in memory, as the load is", type(other).__name__)
        (column,) = other.columns
        if len(column) != len(self._arrays[0]):  # how many there are is not said
            rule = "one value for each customer"
            raise InvalidParameterError(field, rule, "another number of them")
        return LocalRows(*self.columns, column)

    def has_repeats(self) -> bool:
        """Whether a value of the first column occurs twice."""
        return len(set(self._arrays[0])) != len(self._arrays[0])

    def each(self: "LocalRows[Column]", work: Callable[[Column], Other]) -> "LocalRows[Other]":
        """Return what a function makes of the one column; every customer stays."""
        return self.map(lambda column: (work(column),))

    def map(self, work: Callable[[*Columns], tuple[*Found]]) -> "LocalRows[*Found]":
        """Return what a function makes of the customers; it may leave some out."""

        def whole(*columns: *Columns) -> tuple[Any, ...]:  # compiled loops are for whole rows
            return tuple(map(np.ascontiguousarray, work(*columns)))

        blocks = self._over_blocks(whole)
        found: LocalRows[*Found] = LocalRows(*blocks[0])
        found._blocks = blocks
        return found

    def add_up(
        self, work: Callable[[*Columns], NDArray[np.int64]], *, size: int
    ) -> NDArray[np.int64]:
        """Return the sum over all blocks of what a function returns of each."""
        return sum(self._over_blocks(work), np.zeros(size, dtype=np.int64))

    def in_order(self) -> "LocalRows[*Columns]":
        """Return the customers sorted by the first column."""
        order = np.argsort(self._arrays[0], kind="stable")
        return LocalRows(*(column[order] for column in self._arrays))

    def here(self) -> tuple[*Columns]:
        """Return the columns."""
        return self.columns

    def write_parquet(self, path: str | Path, names: Sequence[str]) -> None:
        """Write the columns to a file."""
        pq.write_table(pa.table([*map(pa.array, self._arrays)], names=list(names)), path)

    def _over_blocks(self, work: Callable[[*Columns], _Result]) -> list[_Result]:
        """Call a function for blocks of customers, in threads."""
        if len(self._blocks) > 1:
            return in_threads(lambda block: work(*block), self._blocks)

        def of_span(_: int, first: int, last: int) -> _Result:
            block: Any = [column[first:last] for column in self._arrays]
            return work(*block)

        return over_spans(len(self._arrays[0]), of_span)


def as_rows(data: object | Rows[Column], read: Callable[[Any], Column]) -> Rows[Column]:
    """Return customers where they are: an engine's as they come, others read into memory."""
    return data if isinstance(data, Rows) else LocalRows(read(data))
