"""Rows of one period beside the private state of a series, which is a table on this machine.

Customers are identified by a keyed hash of their id, so the state contains no id. The state comes
in blocks, sorted by hash; each block is joined with the rows of the same range of hashes, handed to
the mechanism, and its new state is passed on before the next block is read. So memory holds one
block of the state, and the rows of the period, or a part of them if another engine stores them.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from typing import Any, final

import numpy as np

from wattveil.arrays import Names
from wattveil.errors import InvalidDataError, UnknownCustomersWarning
from wattveil.privacy.mechanisms.period_sums import CustomerState, PeriodRows, PeriodSums
from wattveil.privacy.private_data import BoundRowFunction, Rows

BLOCK_CUSTOMERS = 2**15
"""Customers in a block of state, at most: 24 features of 20 periods are 63 MB."""
IN_MEMORY = (b"00", b"g")
ELSEWHERE = (*(f"{part:02x}".encode() for part in range(0, 256, 16)), b"g")
"""Where parts of the rows begin, and the end of the last one: names are hexadecimal digits."""

Block = tuple[CustomerState, Names, tuple[Any, ...]]
Keep = Callable[[CustomerState], None]
Within = Callable[..., BoundRowFunction[Any]]


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
class NamedPeriodRows(PeriodRows):
    """Rows of one period, whose last column has the name of each customer, and a state.

    The rows of an engine that stores them elsewhere come here in parts of increasing names.
    Nothing is computed before a mechanism, which has been charged, reads the rows.

    Parameters
    ----------
    rows : Rows
        Any number of columns, and the names.
    state : PeriodState
        The state that the last released period left.
    within : function of begin and end
        Row function that selects the customers whose name is in [begin, end), and puts the names
        first.
    """

    __slots__ = ("_rows", "_state", "_within")

    def __init__(self, rows: Rows[*tuple[Any, ...]], state: PeriodState, within: Within) -> None:
        self._rows = rows
        self._state = state
        self._within = within

    def advance(self, name: str, work: PeriodSums) -> None:
        """Call ``work`` on each block of state with its rows; without state, on blocks of rows."""
        rows = known = before = 0
        with self._state.keeping(name) as keep:
            for state, names, columns in self._joined(name, work.empty()):
                rows += names.size
                known += int(np.isin(names, state.names).sum())
                before += state.names.size
                new = work(state, names, *columns)
                for part in _split(new, range(BLOCK_CUSTOMERS, new.names.size, BLOCK_CUSTOMERS)):
                    keep(part)
        if before and 2 * known < rows:  # for the data holder: it depends on exact data
            text = "most customer ids of this period are new to the series: are ids written alike?"
            warnings.warn(text, UnknownCustomersWarning, stacklevel=2)

    def _joined(self, name: str, empty: CustomerState) -> Iterator[Block]:
        blocks = (own for own in self._state.blocks(name) if own.names.size)
        state = next(blocks, empty)
        for end, names, columns in self._parts():
            first = 0
            while state.names.size and state.names[0] < end:
                here, state = _split(state, [int(np.searchsorted(state.names, end))])
                state = state if state.names.size else next(blocks, empty)
                last = names.size  # the last block of a part takes all that follow in it
                if state.names.size and state.names[0] < end:
                    last = int(np.searchsorted(names, here.names[-1], side="right"))
                yield here, names[first:last], tuple(column[first:last] for column in columns)
                first = last
            for begin in range(first, names.size, BLOCK_CUSTOMERS):
                part = slice(begin, begin + BLOCK_CUSTOMERS)
                yield empty, names[part], tuple(column[part] for column in columns)

    def _parts(self) -> Iterator[tuple[bytes, Names, Sequence[Any]]]:
        """Return the end of each part, its sorted names and the columns beside them."""
        for begin, end in pairwise(IN_MEMORY if self._rows.computes_once else ELSEWHERE):
            part = self._rows.select(self._within(begin=begin, end=end))
            names, *columns = part._columns_in_order()  # noqa: SLF001 - an engine of the same package
            if (names[1:] == names[:-1]).any():
                raise InvalidDataError("one row per customer id in a period", [])
            yield end, names, columns


def without_records(state: CustomerState, names: Names) -> CustomerState:
    """Return the state without the contributions of these customers; their odometers stay."""
    kept = ~np.isin(state.names[state.owners], names)
    return replace(
        state, owners=state.owners[kept], cells=state.cells[kept], history=state.history[kept]
    )


def _split(state: CustomerState, places: Iterable[int]) -> Iterator[CustomerState]:
    """Divide a state before the customers at these places."""
    for begin, end in pairwise((0, *places, state.names.size)):
        first, last = np.searchsorted(state.owners, [begin, end])
        yield CustomerState(
            names=state.names[begin:end],
            used=state.used[begin:end],
            owners=state.owners[first:last] - begin,
            cells=state.cells[first:last],
            history=state.history[first:last],
        )
