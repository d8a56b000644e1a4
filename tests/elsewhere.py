"""An engine in this process that is not the local one: blocks of a few, each run more than once.

What a task returns is thrown away and computed again, as when machines are lost or slow.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

from wattveil.engines.rows import Rows
from wattveil.errors import InvalidParameterError

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Column = TypeVar("Column")
Other = TypeVar("Other")

_BLOCK = 7


class ElsewhereRows(Rows[*Columns]):
    """Customers in arrays of which nobody is told."""

    def __init__(self, *columns: *Columns) -> None:
        self._columns: Any = columns

    @property
    def width(self) -> int:
        """How many numbers a customer has in the first column."""
        return int(self._columns[0].shape[1])

    def beside(self, other: Rows[Other], *, field: str) -> "ElsewhereRows[*Columns, Other]":
        """Return the same customers with one more column."""
        if not isinstance(other, ElsewhereRows):
            raise InvalidParameterError(field, "elsewhere too", "here")
        both: Any = [*self._columns, *other._columns]
        return ElsewhereRows(*both)

    def has_repeats(self) -> bool:
        """Whether a value of the first column occurs twice."""
        return len(set(self._columns[0])) != len(self._columns[0])

    def each(self: "ElsewhereRows[Column]", work: Callable[[Column], Other]) -> Rows[Other]:
        """Return what a function makes of the one column."""
        return self.map(lambda column: (work(column),))

    def map(self, work: Callable[[*Columns], tuple[*Found]]) -> "ElsewhereRows[*Found]":
        """Return what a function makes of the customers, run twice."""
        made = [[self._run(work, first) for first in self._firsts()] for _ in range(2)]
        for once, again in zip(*made, strict=True):
            for one, other in zip(once, again, strict=True):
                assert one.tolist() == other.tolist() or one.dtype.kind == "f"
        columns: Any = [np.concatenate(parts) for parts in zip(*made[1], strict=True)]
        return ElsewhereRows(*columns)

    def add_up(
        self, work: Callable[[*Columns], NDArray[np.int64]], *, size: int
    ) -> NDArray[np.int64]:
        """Return the sum over all blocks, last first."""
        parts = [self._run(work, first) for first in reversed(self._firsts())]
        return sum(parts, np.zeros(size, dtype=np.int64))

    def in_order(self) -> "ElsewhereRows[*Columns]":
        """Return the customers sorted by the first column."""
        order = np.argsort(self._columns[0], kind="stable")
        return ElsewhereRows(*(column[order] for column in self._columns))

    def here(self) -> tuple[*Columns]:
        """Return the columns."""
        found: tuple[*Columns] = self._columns
        return found

    def write_parquet(self, path: str | Path, names: Sequence[str]) -> None:
        """Refuse: what is elsewhere cannot be written here."""
        raise NotImplementedError

    def _firsts(self) -> list[int]:
        return [0, *range(_BLOCK, len(self._columns[0]), _BLOCK)]

    def _run(self, work: Callable[..., Any], first: int) -> Any:  # noqa: ANN401 - its result
        return work(*(column[first : first + _BLOCK] for column in self._columns))
