"""Bounded totals: made from rows by `BlockSums` alone, and authenticated between processes."""

import copy
import hmac
import itertools
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import exact_integers, given_cells, given_features, public_names
from wattveil.engines.local import LocalRows
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms import contributions
from wattveil.privacy.mechanisms.contributions import (
    BlockSums,
    BoundedTotals,
    Query,
)
from wattveil.privacy.private_data import PrivateValue, exactly, row_function

QUERY = Query(tag="count", rho_units=1, n_cells=3)
SUM = Query(tag="sum", rho_units=1, n_cells=2, n_features=2)
CELLS = np.array([0, 2, 2, -1])
NOT_OWN = r"^these totals were not computed by this query, or were used before$"
OTHER_ARRAYS = r"^a row function returned other arrays than its queries require$"


def counts() -> BlockSums:
    """Return the sums of a count in three cells."""
    return BlockSums([QUERY], given_cells.bind())


@row_function
def three_parts(cells: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Return a cell, then a cell with features, then a cell."""
    features = np.full((len(cells), 2), [0.5, -0.25])
    return cells, np.zeros_like(cells), features, np.full_like(cells, 1)


def test_queries_are_answered_in_their_order() -> None:
    """A count, a sum and a count of one row function: each has its own integers."""
    queries = [QUERY, SUM, QUERY]
    first, second, third = exact_integers(queries, three_parts.bind(), CELLS)
    assert first.tolist() == [2**25, 0, 2 * 2**25]
    assert second.tolist() == [4 * 2**24, -4 * 2**23, 0, 0]
    assert third.tolist() == [0, 4 * 2**25, 0]


@row_function
def so_many(cells: NDArray[np.int64], *, n_arrays: int) -> tuple[NDArray[np.int64], ...]:
    """Return the cells so many times."""
    return (cells,) * n_arrays


@pytest.mark.parametrize("n_arrays", [3, 4, 10])
def test_too_many_arrays_are_refused(n_arrays: int) -> None:
    """Arrays that belong to no query are not dropped silently."""
    with pytest.raises(ValueError, match=OTHER_ARRAYS):
        exact_integers([QUERY, QUERY], so_many.bind(n_arrays=n_arrays), CELLS)
    assert len(exact_integers([QUERY, QUERY], so_many.bind(n_arrays=2), CELLS)) == 2


@pytest.mark.parametrize("n_arrays", [0, 1])
def test_too_few_arrays_are_refused(n_arrays: int) -> None:
    """A query without its array is not answered with zeros."""
    sums = BlockSums([QUERY, QUERY], so_many.bind(n_arrays=n_arrays))
    with pytest.raises(ValueError, match=OTHER_ARRAYS):
        LocalRows(CELLS).add_up(sums)
    with pytest.raises(ValueError, match=OTHER_ARRAYS):
        sums(CELLS)


@pytest.mark.parametrize("n_arrays", [2, 3, 5, 6])
def test_arrays_are_counted_over_all_queries(n_arrays: int) -> None:
    """A count takes one array and a sum two: of three queries, four arrays and no other number."""
    sums = BlockSums([QUERY, SUM, QUERY], so_many.bind(n_arrays=n_arrays))
    with pytest.raises(ValueError, match=OTHER_ARRAYS):
        sums(CELLS)


@dataclass(frozen=True, kw_only=True)
class Modest(Query):
    """A query that claims to need no noise."""

    def squared_sensitivity(self, neighbours: Neighbours) -> int:
        """Return less than it is."""
        assert neighbours in Neighbours
        return 1


NO_QUERIES: list[Any] = [
    [],
    (),
    [None],
    [QUERY, "count"],
    [Modest(tag="t", rho_units=1, n_cells=3)],
    [QUERY, Modest(tag="t", rho_units=1, n_cells=3)],
]


@pytest.mark.parametrize("number", range(len(NO_QUERIES)))
def test_sums_of_anything_but_queries_are_refused(number: int) -> None:
    """Without a query there is nothing to compute; a subclass could state another sensitivity."""
    with pytest.raises(TypeError, match=r"^at least one Query is needed$"):
        BlockSums(NO_QUERIES[number], given_cells.bind())


class Greedy:
    """Has the methods of sums, and keeps the rows that it is called with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, *columns: Any) -> None:  # noqa: ANN401 - arrays of any type
        """Keep the rows."""
        self.seen.append(columns)

    def total(self, parts: list[None]) -> list[Any]:
        """Return the rows."""
        assert parts
        return self.seen


def test_rows_are_added_up_by_sums_only() -> None:
    """Anything else that is called with private rows could return them: it is not called."""
    greedy: Any = Greedy()
    with pytest.raises(TypeError, match=r"^the kernel accepts a BlockSums only$"):
        LocalRows(CELLS).add_up(greedy)
    assert greedy.seen == []
    others: list[Any] = [greedy, given_cells.bind(), None, counts]
    for work in others:
        with pytest.raises(TypeError, match=r"^the kernel accepts a BlockSums only$"):
            exactly(work, BlockSums)
    sums = counts()
    assert exactly(sums, BlockSums) is sums


@pytest.mark.parametrize("work", [lambda cells: (cells,), given_cells, None, len])
def test_only_bound_row_functions_are_accepted(work: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """A plain function, or a row function that is not bound, computes no contributions."""
    with pytest.raises(TypeError, match=r"^the kernel accepts a BoundRowFunction only$"):
        BlockSums([QUERY], work)


# --- totals of other classes ----------------------------------------------------------------------


@pytest.mark.parametrize("permit", [None, object(), True, "permit", 0])
def test_totals_cannot_be_constructed(permit: object) -> None:
    """The constructor refuses everyone but `BlockSums`, also with the right key."""
    with pytest.raises(TypeError, match=r"^bounded totals are computed from rows, by BlockSums$"):
        BoundedTotals(permit, counts()._key, np.zeros(3, dtype=np.int64))


def made_totals() -> list[BoundedTotals]:
    """Return totals of a block, of all blocks, and from another process."""
    sums = counts()
    whole = sums.total([sums(CELLS), sums(CELLS)])
    return [sums(CELLS), whole, sums.unpack(sums.pack(sums(CELLS)))]


@pytest.mark.parametrize("number", range(3))
def test_totals_are_private(number: int) -> None:
    """They show nothing, and have no public attribute, order, truth value or hash."""
    totals = made_totals()[number]
    assert isinstance(totals, PrivateValue)
    assert repr(totals) == str(totals) == f"{totals}" == "BoundedTotals(…)"
    assert public_names(totals) == set()
    for compare, other in itertools.product((operator.eq, operator.ne), (totals, 0, None)):
        with pytest.raises(TypeError, match=r"^a private value cannot be compared$"):
            compare(totals, other)
    with pytest.raises(TypeError, match=r"^a private value has no truth value$"):
        bool(totals)
    with pytest.raises(TypeError, match="unhashable"):
        hash(totals)
    with pytest.raises(TypeError):
        vars(totals)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(
    "leave", [copy.copy, copy.deepcopy, *(partial(pickle.dumps, protocol=p) for p in range(6))]
)
def test_totals_cannot_be_pickled_or_copied(number: int, leave: Callable[[object], object]) -> None:
    """Between processes they travel through `pack` alone."""
    with pytest.raises(TypeError, match=r"^a private value cannot be pickled or copied$"):
        leave(made_totals()[number])


@pytest.mark.parametrize("number", range(3))
def test_integers_of_totals_are_read_only(number: int) -> None:
    """Totals cannot be changed after they were computed, neither whole nor by query."""
    totals = made_totals()[number]
    assert not totals._integers.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        totals._integers[0] = 1
    sums = counts()
    (integers,) = sums.split(sums(CELLS))
    with pytest.raises(ValueError, match="read-only"):
        integers += 1


def test_totals_of_other_sums_are_refused() -> None:
    """The same queries and rows, but computed by other sums; and plain arrays."""
    mine, other = counts(), counts()
    packed, integers = mine.pack(mine(CELLS)), mine(CELLS)._integers
    foreign: list[Any] = [other(CELLS), integers, packed, None, [0, 0, 0]]
    for totals in foreign:
        for use in (mine.split, mine.pack, lambda part: mine.total([mine(CELLS), part])):
            with pytest.raises(TypeError, match=NOT_OWN):
                use(totals)
    assert mine.split(mine.total([mine(CELLS)]))[0].tolist() == [2**25, 0, 2 * 2**25]


def test_totals_add_up() -> None:
    """The sum over blocks is the sum of the integers; of no block it is zero."""
    sums = counts()
    whole = sums.total([sums(CELLS[:1]), sums(CELLS[1:3]), sums(CELLS[3:]), sums(CELLS[:0])])
    assert sums.split(whole)[0].tolist() == [2**25, 0, 2 * 2**25]
    assert sums.split(sums.total([]))[0].tolist() == [0, 0, 0]


def test_totals_wrap_at_the_end_of_int64() -> None:
    """2^62 twice is -2^63: a function of the true sum modulo 2^64, without an error."""
    sums = counts()

    def halves(count: int) -> list[BoundedTotals]:
        integers = [np.array([2**62, -(2**62), 1]) for _ in range(count)]
        return [BoundedTotals(contributions._PERMIT, sums._key, own) for own in integers]

    assert sums.split(sums.total(halves(2)))[0].tolist() == [-(2**63), -(2**63), 2]
    assert sums.split(sums.total(halves(3)))[0].tolist() == [-(2**62), 2**62, 3]


def test_totals_are_used_once() -> None:
    """Adding up a block three times would triple the contribution of each of its customers."""
    sums = counts()
    uses: list[Callable[[BoundedTotals], object]] = [
        sums.split,
        sums.pack,
        lambda totals: sums.total([totals]),
    ]
    for first, second in itertools.product(uses, uses):
        block = sums(CELLS)
        first(block)
        with pytest.raises(TypeError, match=NOT_OWN):
            second(block)
    block = sums(CELLS)
    with pytest.raises(TypeError, match=NOT_OWN):
        sums.total([block, block, block])


# --- between processes ----------------------------------------------------------------------------


def test_packed_totals_are_a_code_and_the_integers() -> None:
    """32 bytes of HMAC-SHA256, then the integers in little-endian order."""
    sums = counts()
    packed = sums.pack(sums(CELLS))
    body = b"".join(k.to_bytes(8, "little", signed=True) for k in (2**25, 0, 2 * 2**25))
    assert packed == hmac.digest(sums._key, body, "sha256") + body


def test_totals_come_back_from_another_process() -> None:
    """A pickled copy of the sums computes and packs; the original unpacks, and the reverse."""
    sums = BlockSums([QUERY, SUM, QUERY], three_parts.bind())
    there = pickle.loads(pickle.dumps(sums))  # noqa: S301 - of the line itself
    expected = [part.tolist() for part in sums.split(sums(CELLS))]
    for one, other in ((sums, there), (there, sums)):
        packed = other.pack(other(CELLS))
        assert [part.tolist() for part in one.split(one.unpack(packed))] == expected
        doubled = one.total([one.unpack(packed), one(CELLS)])
        assert [part.tolist() for part in one.split(doubled)] == [
            [2 * k for k in part] for part in expected
        ]


def test_any_flipped_bit_is_refused() -> None:
    """Of the code and of the integers, one bit at a time."""
    sums = counts()
    packed = sums.pack(sums(CELLS))
    assert len(packed) == 32 + 24
    for place, bit in itertools.product(range(len(packed)), range(8)):
        changed = bytearray(packed)
        changed[place] ^= 1 << bit
        with pytest.raises(ValueError, match=r"^these totals were not computed by this query$"):
            sums.unpack(bytes(changed))


def test_totals_of_another_length_are_refused() -> None:
    """Truncated, extended, empty; also where the code is right for the bytes that are there."""
    sums = counts()
    packed = sums.pack(sums(CELLS))
    for other in (packed[:-1], packed[:-8], packed[:32], b"", packed + b"\0" * 8, packed[1:]):
        with pytest.raises(ValueError, match=r"^these totals were not computed by this query$"):
            sums.unpack(other)
    for length in (0, 8, 16, 23, 25, 32):
        body = b"\0" * length
        with pytest.raises(ValueError, match=r"^these totals were not computed by this query$"):
            sums.unpack(hmac.digest(sums._key, body, "sha256") + body)


def test_packed_totals_of_another_query_are_refused() -> None:
    """Each `BlockSums` has its own key, whatever its queries are."""
    sums = counts()
    for other in (counts(), BlockSums([SUM], given_features.bind())):
        columns = (CELLS,) if len(other._queries[0].shape) == 1 else (np.ones((4, 2)), CELLS % 2)
        with pytest.raises(ValueError, match=r"^these totals were not computed by this query$"):
            sums.unpack(other.pack(other(*columns)))


def test_keys_are_fresh() -> None:
    """32 random bytes for each computation."""
    keys = {counts()._key for _ in range(50)}
    assert len(keys) == 50
    assert {len(key) for key in keys} == {32}
