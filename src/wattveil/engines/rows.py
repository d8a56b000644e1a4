"""`Rows`: customers in some place, one entry a customer in each of a few columns."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, NoReturn, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Column = TypeVar("Column")
Other = TypeVar("Other")

Texts = NDArray[np.object_]
"""Ids, or values of an attribute: strings, None where there is none."""


class Rows(ABC, Generic[*Columns]):
    """Customers in some place: private, and worked on where they are.

    A function gets one array for each column, the first axis of which is the customers of a block.
    How customers are divided into blocks is up to the engine, and a block may be empty; so what is
    returned of a customer must depend on that customer and on public numbers alone.
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers a customer has in the first column: a public fact."""

    @abstractmethod
    def beside(self, other: "Rows[Other]", *, field: str) -> "Rows[*Columns, Other]":
        """Return the same customers with one more column, of rows from the same table.

        ``field`` is what an error calls the other rows if they are about others.
        """

    @abstractmethod
    def has_repeats(self) -> bool:
        """Whether a value of the first column occurs twice, or is missing: the house may know."""

    @abstractmethod
    def each(self: "Rows[Column]", work: Callable[[Column], Other]) -> "Rows[Other]":
        """Return what a function makes of the one column; every customer stays.

        So columns of the same table still fit beside it, which `map` does not promise.
        """

    @abstractmethod
    def map(self, work: Callable[[*Columns], tuple[*Found]]) -> "Rows[*Found]":
        """Return what a function makes of the customers; it may leave some out."""

    @abstractmethod
    def add_up(
        self, work: Callable[[*Columns], NDArray[np.int64]], *, size: int
    ) -> NDArray[np.int64]:
        """Return the sum over all blocks of what a function returns of each: ``size`` integers.

        Sums wrap at 2^63, like any int64.
        """

    @abstractmethod
    def in_order(self) -> "Rows[*Columns]":
        """Return the customers sorted by the first column: the order then tells no more than it."""

    @abstractmethod
    def here(self) -> tuple[*Columns]:
        """Return the columns as arrays of this process: for what is released, never for data."""

    @abstractmethod
    def write_parquet(self, path: str | Path, names: Sequence[str]) -> None:
        """Write the columns under these names, from where they are: a new file, or a folder."""

    def __repr__(self) -> str:
        """Say nothing: not the values, not the number of customers."""
        return "Rows(…)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse pickling and copying: a function must not take customers to another machine."""
        raise TypeError("rows of customers cannot be pickled or copied")


def text_column(values: Iterable[object]) -> Texts:
    """Return values as a column of strings."""
    return np.array([str(value) for value in values], dtype=np.object_)
