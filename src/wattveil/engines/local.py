"""Customers in the memory of this process."""

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattveil.compiled import over_spans
from wattveil.engines.rows import Rows

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
_Result = TypeVar("_Result")
_Array = TypeVar("_Array")


class LocalRows(Rows[*Columns]):
    """Customers in arrays, one a column, of the same length."""

    def __init__(self, *columns: *Columns) -> None:
        self.columns = columns
        self._arrays: Any = columns

    @property
    def width(self) -> int:
        """How many numbers a customer has in the first column."""
        return int(self._arrays[0].shape[1])

    def map(self, work: Callable[[*Columns], tuple[*Found]]) -> "LocalRows[*Found]":
        """Return what a function makes of the customers; it may leave some out."""
        blocks = self._over_blocks(work)
        found: Any = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        return LocalRows(*found)

    def add_up(
        self, work: Callable[[*Columns], NDArray[np.int64]], *, size: int
    ) -> NDArray[np.int64]:
        """Return the sum over all blocks of what a function returns of each."""
        return sum(self._over_blocks(work), np.zeros(size, dtype=np.int64))

    def _over_blocks(self, work: Callable[[*Columns], _Result]) -> list[_Result]:
        """Call a function for blocks of customers, in threads."""

        def of_span(_: int, first: int, last: int) -> _Result:
            block: Any = [column[first:last] for column in self._arrays]
            return work(*block)

        return over_spans(len(self._arrays[0]), of_span)


def as_rows(data: ArrayLike | Rows[_Array], read: Callable[[ArrayLike], _Array]) -> Rows[_Array]:
    """Return customers where they are: an engine's as they come, others read into memory."""
    return data if isinstance(data, Rows) else LocalRows(read(data))
