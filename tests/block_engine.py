"""Engine in this process with small blocks, whose tasks are run twice, as on a cluster.

What a task returns is discarded once and computed again, as when machines are lost or slow. Totals
are sent as bytes, last block first.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import numpy as np

from wattveil.arrays import Bools, Ints
from wattveil.errors import InvalidParameterError
from wattveil.privacy.mechanisms.contributions import BlockSums, BoundedTotals
from wattveil.privacy.private_data import BoundRowFunction, Rows

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Other = TypeVar("Other")

_BLOCK = 7


class BlockRows(Rows[*Columns]):
    """Customers in arrays that only this class can read."""

    computes_once = False

    def __init__(self, *columns: *Columns) -> None:
        self._columns: Any = columns

    @property
    def width(self) -> int:
        """How many numbers a customer has in the first column."""
        return int(self._columns[0].shape[1])

    def beside(self, other: Rows[Other], *, field: str) -> "BlockRows[*Columns, Other]":
        """Return the same customers with one more column."""
        if not isinstance(other, BlockRows):
            raise InvalidParameterError(field, "of the same engine", "of another")
        both: Any = [*self._columns, *other._columns]
        return BlockRows(*both)

    def _has_repeats(self) -> bool:
        """Whether a value of the first column occurs twice."""
        return len(set(self._columns[0])) != len(self._columns[0])

    def map(self, work: BoundRowFunction[tuple[Other]]) -> "BlockRows[Other]":
        """Return the one column as a row function changes it, run twice."""
        mapped: Any = BlockRows(*self._twice(work))
        return mapped  # type: ignore[no-any-return]

    def select(self, work: BoundRowFunction[tuple[*Found, Bools]]) -> "BlockRows[*Found]":
        """Return what a row function computes of the customers it keeps, run twice."""
        *found, mask = self._twice(work)
        selected: Any = BlockRows(*(column[mask] for column in found))
        return selected  # type: ignore[no-any-return]

    def add_up(self, work: BlockSums) -> BoundedTotals:
        """Return the total over all blocks, each sent as bytes, the last one first."""
        packed = [work.pack(work(*block)) for block in reversed(self._blocks())]
        again = [work.pack(work(*block)) for block in reversed(self._blocks())]
        assert packed == again
        return work.total(map(work.unpack, again))

    def _draw(self, work: Callable[..., tuple[*Found]]) -> "BlockRows[*Found]":
        """Draw block by block; a task that is repeated draws the same."""
        drawn: Any = BlockRows(*self._twice(work))
        return drawn  # type: ignore[no-any-return]

    def _columns_in_order(self) -> tuple[*Columns]:
        order = np.argsort(self._columns[0], kind="stable")
        found: Any = tuple(column[order] for column in self._columns)
        return found  # type: ignore[no-any-return]

    def _counted(self, n_values: int) -> Ints:
        return np.bincount(self._columns[-1], minlength=n_values)

    def _write(self, path: str | Path, names: Sequence[str]) -> None:
        raise NotImplementedError

    def _blocks(self) -> list[tuple[Any, ...]]:
        """Return blocks of a few customers; the first is there without customers too."""
        firsts = [0, *range(_BLOCK, len(self._columns[0]), _BLOCK)]
        return [
            tuple(column[first : first + _BLOCK] for column in self._columns) for first in firsts
        ]

    def _twice(self, work: Callable[..., Any]) -> list[Any]:
        """Run a function on all blocks, twice; return the second results, which are the first."""
        once, again = ([work(*block) for block in self._blocks()] for _ in range(2))
        for first, second in zip(once, again, strict=True):
            for one, other in zip(first, second, strict=True):
                equal_nan = one.dtype.kind == "f"
                assert np.array_equal(one, other, equal_nan=equal_nan)
        return [np.concatenate(parts) for parts in zip(*again, strict=True)]
