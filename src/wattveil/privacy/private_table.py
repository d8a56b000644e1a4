"""Private rows bound to a budget, and the operations that a release can perform on them.

A public release function puts its rows and its budget into a `PrivateTable` and passes on nothing
else. Code that holds the table can apply row functions and release noisy numbers, which are charged
to that budget first. It cannot read a row, and it cannot release anything without a charge. So the
code that chooses the queries and processes the answers is not part of the trusted base: it is
post-processing, whatever it does.
"""

from typing import Any, Generic, TypeVar, TypeVarTuple, final

from wattveil.privacy.budget import Budget
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import release_sums
from wattveil.privacy.private_rows import BoundRowFunction, FloatArray, Mask, Rows
from wattveil.privacy.secret import PrivateValue

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Other = TypeVar("Other")

Noisy = tuple[FloatArray, float]
"""Released numbers, and the standard deviation of the noise of each."""


@final
class PrivateTable(PrivateValue, Generic[*Columns]):
    """Private rows, and the budget to which every release from them is charged.

    Formal guarantee
    ----------------
    The caller ensures that one customer has at most one row, and that what is passed to `release`,
    row functions included, is public or was released before. Then everything that the methods
    return satisfies the guarantee of the budget. Proof: docs/proofs/adaptive-transcript.md.
    """

    __slots__ = ("_budget", "_rows")

    def __init__(self, rows: Rows[*Columns], budget: Budget) -> None:
        self._rows = rows
        self._budget = budget

    @property
    def width(self) -> int:
        """The number of values per customer in the first column: public."""
        return self._rows.width

    def map(self, work: BoundRowFunction[tuple[Other]]) -> "PrivateTable[Other]":
        """Apply a row function to the one column; return a table under the same budget."""
        return PrivateTable(self._rows.map(work), self._budget)

    def select(self, work: BoundRowFunction[tuple[*Found, Mask]]) -> "PrivateTable[*Found]":
        """Apply a row function and keep the customers it selects, under the same budget."""
        return PrivateTable(self._rows.select(work), self._budget)

    def release(self, work: BoundRowFunction[Any], *queries: Query) -> list[Noisy]:
        """Charge, then release a noisy count or sum for each query: see `release_sums`."""
        released = [one.publish() for one in release_sums(self._rows, work, queries, self._budget)]
        return [(one.value, one.std) for one in released]
