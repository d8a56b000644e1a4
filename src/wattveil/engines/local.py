"""Customers in the memory of this process."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.compiled import in_threads, over_spans
from wattveil.errors import InvalidParameterError
from wattveil.privacy.mechanisms.contributions import BlockSums, BoundedTotals, checked_sums
from wattveil.privacy.private_rows import (
    BoundRowFunction,
    IntArray,
    Mask,
    Rows,
    checked_work,
    kept_columns,
)

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Other = TypeVar("Other")
_Result = TypeVar("_Result")
_Block = tuple[Any, ...]
_Blocks = list[_Block]


class LocalRows(Rows[*Columns]):
    """Customers in arrays of the same length, one per column.

    `map` and `select` only record the function: it runs when a mechanism, which has been charged,
    requests sums. Its results are kept in the blocks in which they were computed.
    """

    computes_once = True

    def __init__(self, *columns: *Columns) -> None:
        arrays: _Block = tuple(columns)
        self._empty: _Block = tuple(array[:0] for array in arrays)
        self._n_rows: int | None = len(arrays[0])
        self._blocks: Callable[[], _Blocks] | _Blocks = [arrays]

    @classmethod
    def _later(cls, blocks: Callable[[], _Blocks], empty: _Block, n_rows: int | None) -> Any:  # noqa: ANN401 - of other columns
        """Return rows that are computed when they are needed."""
        rows: LocalRows[*tuple[Any, ...]] = LocalRows(*empty)
        rows._blocks, rows._n_rows = blocks, n_rows
        return rows

    @property
    def width(self) -> int:
        """How many numbers a customer has in the first column."""
        return int(self._empty[0].shape[1])

    def beside(self, other: Rows[Other], *, field: str) -> "LocalRows[*Columns, Other]":
        """Return the same customers with one more column."""
        if not isinstance(other, LocalRows):
            raise InvalidParameterError(field, "in memory, as the load is", type(other).__name__)
        same = self._n_rows is not None and self._n_rows == other._n_rows  # noqa: SLF001 - of our kind
        if not same:  # the number is not quoted
            rule = "one value for each customer"
            raise InvalidParameterError(field, rule, "another number of them")
        empty = (*self._empty, *other._empty)  # noqa: SLF001 - of our kind

        def both() -> _Blocks:
            return [(*self._joined(), *other._joined())]  # noqa: SLF001 - of our kind

        return self._later(both, empty, self._n_rows)  # type: ignore[no-any-return]

    def _has_repeats(self) -> bool:
        """Whether a value of the first column occurs twice or is missing."""
        values = set(self._joined()[0])
        return len(values) != self._n_rows or None in values

    def map(self, work: BoundRowFunction[tuple[Other]]) -> "LocalRows[Other]":
        """Apply a row function to the one column, once it is needed."""
        found: Any = checked_work(work)(*self._empty)

        def computed() -> _Blocks:
            return self._over_blocks(lambda *block: _contiguous(work(*block)))

        return self._later(computed, tuple(found), self._n_rows)  # type: ignore[no-any-return]

    def select(self, work: BoundRowFunction[tuple[*Found, Mask]]) -> "LocalRows[*Found]":
        """Apply a row function and keep the customers it selects, once they are needed."""

        def kept(*block: Any) -> _Block:  # noqa: ANN401 - arrays of any type
            return kept_columns(_contiguous(work(*block)))

        checked_work(work)
        empty = kept(*self._empty)
        return self._later(partial(self._over_blocks, kept), empty, None)  # type: ignore[no-any-return]

    def add_up(self, work: BlockSums) -> BoundedTotals:
        """Return the total over all blocks."""
        return checked_sums(work).total(self._over_blocks(work))

    def _draw(self, work: Callable[..., tuple[*Found]]) -> "LocalRows[*Found]":
        """Draw at once, for all customers together."""
        return LocalRows(*work(*self._joined()))

    def _columns_in_order(self) -> tuple[*Columns]:
        columns = self._joined()
        order = np.argsort(columns[0], kind="stable")
        found: Any = tuple(column[order] for column in columns)
        return found  # type: ignore[no-any-return]

    def _counted(self, n_values: int) -> IntArray:
        return np.bincount(self._joined()[-1], minlength=n_values)

    def _write(self, path: str | Path, names: Sequence[str]) -> None:
        columns: Any = self._columns_in_order()
        pq.write_table(pa.table([*map(pa.array, columns)], names=list(names)), path)

    def _computed(self) -> _Blocks:
        """Return the blocks; compute them the first time."""
        if not isinstance(self._blocks, list):
            self._blocks = self._blocks()
        return self._blocks

    def _joined(self) -> _Block:
        """Return each column as one array."""
        blocks = self._computed()
        if len(blocks) > 1:
            self._blocks = blocks = [tuple(map(np.concatenate, zip(*blocks, strict=True)))]
        return blocks[0]

    def _over_blocks(self, work: Callable[..., _Result]) -> list[_Result]:
        """Call a function for blocks that contain each customer once, in threads."""
        blocks = self._computed()
        if len(blocks) > 1:
            return in_threads(lambda block: work(*block), blocks)
        (columns,) = blocks

        def of_span(_: int, first: int, last: int) -> _Result:
            return work(*(column[first:last] for column in columns))

        return over_spans(len(columns[0]), of_span)


def _contiguous(found: Any) -> _Block:  # noqa: ANN401 - arrays of any type
    return tuple(map(np.ascontiguousarray, found))
