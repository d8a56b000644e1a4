"""Bounded integer contributions of customers, and their sums.

A `Query` is for the number of customers in each cell or, with ``n_features``, for the sum of the
feature vectors of the customers in each cell. A row function returns the cell and the features of
each customer; this module clips, rounds and sums them, so that no caller can exceed the bound. Each
customer contributes to one cell of a query, or to none, in whole steps of 2^-25:

* to a count: the number 1, that is 2^25 steps;
* to a sum: its features, clipped to L2 norm 1 and rounded towards zero, of squared length at most
  2^50 steps. The bound is checked in integers, so no rounding of a float can exceed it.

Totals exist as `BoundedTotals` only, which only this module makes, from rows.
"""

import hmac
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.compiled import compiled
from wattveil.errors import InvalidDataError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.private_data import BoundRowFunction, PrivateValue, exactly

NO_DATA: Final = -1
"""The cell of a customer that contributes nothing (the zero-out neighbour)."""

UNIT: Final = 2**25
"""Steps in a contribution of length 1: sums of 10^11 customers fit into int64, and noise of any
sensible scale is far above one step."""

STEP: Final = 2.0**-25


@dataclass(frozen=True, kw_only=True)
class Query:
    """A noisy count, or a noisy sum of ``n_features`` numbers, for each of ``n_cells`` cells."""

    tag: str
    rho_units: int
    n_cells: int
    n_features: int | None = None

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name in ("n_cells", "n_features"):
            if (size := getattr(self, name)) is not None:
                # Python's own integers: they do not overflow when multiplied.
                object.__setattr__(self, name, checks.integer(name, size, minimum=1, maximum=2**24))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is released."""
        return (self.n_cells,) if self.n_features is None else (self.n_cells, self.n_features)

    def squared_sensitivity(self, neighbours: Neighbours) -> int:
        """Return the largest squared distance, in steps, between the totals of neighbours.

        Zero-out removes one contribution. Replace-one changes a count by UNIT in two cells, if
        there are two; a sum by two contributions in one cell, or by one in each of two cells.
        """
        if neighbours is Neighbours.ZERO_OUT:
            return UNIT**2
        return (min(self.n_cells, 2) if self.n_features is None else 4) * UNIT**2


_PERMIT: Final = object()


@final
class BoundedTotals(PrivateValue):
    """Sums of bounded integer contributions, made by `BlockSums` alone and used once."""

    __slots__ = ("_integers", "_key")

    def __init__(self, permit: object, key: bytes, integers: Ints) -> None:
        if permit is not _PERMIT:
            raise TypeError("bounded totals are computed from rows, by BlockSums")
        integers.setflags(write=False)
        self._key = key
        self._integers = integers


@final
class BlockSums:
    """The sums of some queries over blocks of customers, computed by an engine where the rows are.

    Calling it on a block returns the totals of the block; `total` adds them up. Between processes
    totals are sent as bytes with an authentication code, which shows that they were computed here.

    Formal guarantee
    ----------------
    Each customer of a block changes the integers of a query by one contribution whose squared
    length is at most 2^50, whatever the row function returns. Proof: docs/proofs/integer-grid.md.
    """

    def __init__(self, queries: Sequence[Query], work: BoundRowFunction[Any]) -> None:
        if not queries or any(type(query) is not Query for query in queries):
            raise TypeError("at least one Query is needed")
        self._queries = tuple(queries)
        self._work = exactly(work, BoundRowFunction)
        self._key = noise.fresh_bytes(32)
        self._ends = np.cumsum([math.prod(query.shape) for query in queries]).tolist()

    def __call__(self, *columns: Any) -> BoundedTotals:  # noqa: ANN401 - arrays of any type
        """Return the totals of a block of customers."""
        integers = np.zeros(self._ends[-1], dtype=np.int64)
        found = list(self._work(*columns))
        if len(found) != sum(len(query.shape) for query in self._queries):
            raise ValueError("a row function returned other arrays than its queries require")
        for query, part in zip(self._queries, np.split(integers, self._ends[:-1]), strict=True):
            cells = found.pop(0)
            features = None if query.n_features is None else found.pop(0)
            _add_contributions(part.reshape(query.n_cells, -1), cells, features)
        return BoundedTotals(_PERMIT, self._key, integers)

    def total(self, parts: Iterable[BoundedTotals]) -> BoundedTotals:
        """Return the sum of totals; it wraps at 2^63, like any int64."""
        whole = np.zeros(self._ends[-1], dtype=np.int64)
        for part in parts:
            whole += self._own(part)
        return BoundedTotals(_PERMIT, self._key, whole)

    def pack(self, totals: BoundedTotals) -> bytes:
        """Return totals as bytes, for another process."""
        body = self._own(totals).astype("<i8").tobytes()
        return hmac.digest(self._key, body, "sha256") + body

    def unpack(self, packed: bytes) -> BoundedTotals:
        """Read the bytes of `pack`, also from another process; refuse anything else."""
        code, body = packed[:32], packed[32:]
        whole = len(body) == 8 * self._ends[-1]
        if not (whole and hmac.compare_digest(code, hmac.digest(self._key, body, "sha256"))):
            raise ValueError("these totals were not computed by this query")
        integers = np.frombuffer(body, dtype="<i8").astype(np.int64)
        return BoundedTotals(_PERMIT, self._key, integers)

    def split(self, totals: BoundedTotals) -> list[Ints]:
        """Return the integers of each query: for the mechanism that adds the noise."""
        return np.split(self._own(totals), self._ends[:-1])

    def _own(self, totals: object) -> Ints:
        """Return the integers of totals that these sums made, once; refuse all others."""
        if not isinstance(totals, BoundedTotals) or totals._key != self._key:  # noqa: SLF001 - its maker
            raise TypeError("these totals were not computed by this query, or were used before")
        totals._key = b""  # noqa: SLF001 - a second use would count customers twice
        return totals._integers  # noqa: SLF001 - its maker


def _add_contributions(totals: Ints, cells: Ints, features: Floats | None) -> None:
    """Add each customer's bounded contribution to the totals of its cell.

    `BoundRowFunction` has checked that there is one entry per customer.
    """
    if cells.dtype != np.int64 or cells.ndim != 1:
        raise TypeError("cells are a vector of int64")
    own = np.ascontiguousarray(cells)
    if features is None:
        inside = _add_counts(own, totals)
    else:
        shape = (cells.size, totals.shape[1])
        if features.dtype != np.float64 or features.shape != shape:
            raise TypeError("features are a matrix of float64, as wide as the query")
        inside = _add_clipped(np.ascontiguousarray(features), own, totals)
    if not inside:  # for the data holder: an error that depends on rows must not reach an analyst
        raise InvalidDataError(f"cells between 0 and {len(totals) - 1}, or -1", [])


@compiled
def _add_counts(cells: Ints, totals: Ints) -> bool:
    """Add 1 to the total of each customer's cell; return whether all cells exist."""
    inside = True
    for i in range(cells.size):
        if 0 <= cells[i] < totals.shape[0]:
            totals[cells[i], 0] += UNIT
        elif cells[i] != NO_DATA:
            inside = False
    return inside


@compiled
def _add_clipped(features: Floats, cells: Ints, totals: Ints) -> bool:
    """Clip each row to length 1 in whole steps and add it to its cell; return whether all exist.

    A row is scaled to min(1, |x|), rounded towards zero, and its squared length checked in
    integers. A row of zeros, or with NaN or infinity, contributes zeros.
    """
    n_cells, d = totals.shape
    direction = np.empty(d)
    steps = np.empty(d, np.int64)
    inside = True
    for i in range(cells.size):
        if not 0 <= cells[i] < n_cells:
            inside = inside and cells[i] == NO_DATA
            continue
        peak = 0.0
        for j in range(d):
            peak = max(peak, abs(features[i, j]))
        squared_length = 0.0
        for j in range(d):
            direction[j] = features[i, j] / peak  # no overflow at 1e300
            squared_length += direction[j] * direction[j]
        if not squared_length >= 1.0:  # zeros or not finite; otherwise the largest entry is 1
            continue
        length = math.sqrt(squared_length)
        scale = min(peak * length, 1.0) / length / STEP
        squares = 0
        for j in range(d):
            steps[j] = int(direction[j] * scale)
            squares += steps[j] * steps[j]
        while squares > UNIT * UNIT:  # outside by float rounding: shrink towards zero
            squares = 0
            for j in range(d):
                steps[j] = int(steps[j] * (1.0 - 2.0**-25))
                squares += steps[j] * steps[j]
        for j in range(d):
            totals[cells[i], j] += steps[j]
    return inside
