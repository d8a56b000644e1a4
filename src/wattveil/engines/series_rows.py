"""Rows of one period beside the private state of a series, in the memory of this process.

Customers are identified by a keyed hash of their id, so the state contains no id. The state comes
in blocks, sorted by hash; each block is joined with the rows of the same range of hashes, handed to
the mechanism, and its new state is passed on before the next block is read. So memory holds the
rows of the period and one block of the state.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, final

import numpy as np

from wattveil.arrays import Texts
from wattveil.engines.local import LocalRows
from wattveil.errors import InvalidDataError, InvalidParameterError, UnknownCustomersWarning
from wattveil.privacy.mechanisms.period_sums import CustomerState, Names, PeriodRows, PeriodSums
from wattveil.privacy.mechanisms.response import pseudonyms
from wattveil.privacy.private_data import Rows

BLOCK_CUSTOMERS = 2**15
"""Customers in a block of state, at most: 24 features of 20 periods are 63 MB."""

Block = tuple[CustomerState, Names, tuple[Any, ...]]
Keep = Callable[[CustomerState], None]


class PeriodState(ABC):
    """Private state of a series while one period is computed; each kind of sums has a name."""

    @property
    @abstractmethod
    def names_key(self) -> bytes:
        """The key of customer names."""

    @abstractmethod
    def blocks(self, name: str) -> Iterator[CustomerState]:
        """Return the blocks that the last released period left."""

    @abstractmethod
    def keeping(self, name: str) -> AbstractContextManager[Keep]:
        """Return a function that keeps the new blocks, in order."""


@final
class MemoryState(PeriodState):
    """State in the memory of this process, for simulations and audits: it is lost with it."""

    def __init__(self, *, names_key: bytes) -> None:
        self._key = names_key
        self._blocks: dict[str, list[CustomerState]] = {}

    @property
    def names_key(self) -> bytes:
        """The key of customer names."""
        return self._key

    def blocks(self, name: str) -> Iterator[CustomerState]:
        """Return the blocks that the last released period left."""
        return iter(self._blocks.get(name, ()))

    @contextmanager
    def keeping(self, name: str) -> Iterator[Keep]:
        """Return a function that keeps the new blocks, in order."""
        kept: list[CustomerState] = []
        yield kept.append
        self._blocks[name] = kept


@final
class LocalPeriodRows(PeriodRows):
    """Rows of one period in memory, with the keyed hash of each customer's id, and a state.

    Nothing is computed before a mechanism, which has been charged, reads the rows.
    """

    __slots__ = ("_rows", "_sorted", "_state")

    def __init__(
        self, rows: Rows[*tuple[Any, ...]], customer_ids: Rows[Texts], state: PeriodState
    ) -> None:
        joined = rows.beside(customer_ids, field="customer_ids")
        if not isinstance(joined, LocalRows):
            raise InvalidParameterError("load_kw", "in memory for a series", type(rows).__name__)
        self._rows = joined
        self._state = state
        self._sorted: tuple[Names, tuple[Any, ...]] | None = None

    def advance(self, name: str, work: PeriodSums) -> None:
        """Call ``work`` on each block of state with its rows; without state, on blocks of rows."""
        rows = known = before = 0
        with self._state.keeping(name) as keep:
            for state, names, columns in self._joined(name, work.empty()):
                rows += names.size
                known += int(np.isin(names, state.names).sum())
                before += state.names.size
                for part in _split(work(state, names, *columns)):
                    keep(part)
        if before and 2 * known < rows:  # for the data holder: it depends on exact data
            text = "most customer ids of this period are new to the series: are ids written alike?"
            warnings.warn(text, UnknownCustomersWarning, stacklevel=2)

    def _joined(self, name: str, empty: CustomerState) -> Iterator[Block]:
        names, columns = self._in_order()
        blocks = self._state.blocks(name)
        state, first = next(blocks, None), 0
        while state is not None:
            following = next(blocks, None)
            last = names.size  # the last block takes all that follow
            if following is not None:
                last = int(np.searchsorted(names, state.names[-1], side="right"))
            yield state, names[first:last], tuple(column[first:last] for column in columns)
            state, first = following, last
        for begin in range(first, names.size, BLOCK_CUSTOMERS):
            part = slice(begin, begin + BLOCK_CUSTOMERS)
            yield empty, names[part], tuple(column[part] for column in columns)

    def _in_order(self) -> tuple[Names, tuple[Any, ...]]:
        """Return the sorted hashes and the columns beside them."""
        if self._sorted is None:
            *columns, ids = self._rows._joined()  # noqa: SLF001 - an engine of the same package
            names = customer_names(ids, key=self._state.names_key)
            order = np.argsort(names, kind="stable")
            names = names[order]
            if (names[1:] == names[:-1]).any():
                raise InvalidDataError("one row per customer id in a period", [])
            self._sorted = names, tuple(column[order] for column in columns)
        return self._sorted


def customer_names(ids: Iterable[object], *, key: bytes) -> Names:
    """Return HMAC-SHA256 of customer ids under the key of the series: 32 hexadecimal digits.

    An id is text, without the white space around it: the number 1001 may be "1001" in one period
    and "1001.0" in another, which would be two customers.
    """
    return pseudonyms(map(_id_text, ids), key=key).astype("S32")


def _id_text(customer: object) -> str:
    if not isinstance(customer, str):
        kind = type(customer).__name__
        raise InvalidDataError(f"customer_ids that are text, not {kind}", [])
    return customer.strip()


def without_records(state: CustomerState, names: Names) -> CustomerState:
    """Return the state without the contributions of these customers; their odometers stay."""
    kept = ~np.isin(state.names[state.owners], names)
    return replace(
        state, owners=state.owners[kept], cells=state.cells[kept], history=state.history[kept]
    )


def _split(state: CustomerState) -> Iterator[CustomerState]:
    """Divide a state into blocks of at most `BLOCK_CUSTOMERS` customers."""
    for begin in range(0, state.names.size, BLOCK_CUSTOMERS):
        end = min(begin + BLOCK_CUSTOMERS, state.names.size)
        first, last = np.searchsorted(state.owners, [begin, end])
        yield CustomerState(
            names=state.names[begin:end],
            used=state.used[begin:end],
            owners=state.owners[first:last] - begin,
            cells=state.cells[first:last],
            history=state.history[first:last],
        )
