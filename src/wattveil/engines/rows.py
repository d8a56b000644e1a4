"""`Rows`: customers in some place, one entry a customer in each of a few columns."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")


class Rows(ABC, Generic[*Columns]):
    """Customers in some place: private, and seen through `map` and `add_up` alone.

    A function gets one array for each column, the first axis of which is the customers of a block.
    How customers are divided into blocks is up to the engine, and a block may be empty; so what is
    returned of a customer must depend on that customer and on public numbers alone.
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers a customer has in the first column: a public fact."""

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

    def __repr__(self) -> str:
        """Say nothing: not the values, not the number of customers."""
        return "Rows(…)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse pickling and copying: a function must not take customers to another machine."""
        raise TypeError("rows of customers cannot be pickled or copied")
