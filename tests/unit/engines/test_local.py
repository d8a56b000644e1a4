"""Rows in memory: exact sums over blocks, work that is postponed and done once, no way to read."""

import copy
import gc
import itertools
import pickle
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from tests.example_row_functions import (
    adding,
    by_sign_sums,
    counting,
    everyone,
    halved,
    of_even,
    of_positive,
)
from wattveil.arrays import Floats, Ints
from wattveil.compiled import over_spans
from wattveil.engines.local import LocalRows, as_rows, listed_rows, text_column
from wattveil.errors import InvalidParameterError, SimulatedNoiseError
from wattveil.privacy.mechanisms.contributions import UNIT, BlockSums, Query
from wattveil.privacy.private_data import Released, ReleasedRows, Rows, row_function

CUSTOMERS = 1999


@pytest.fixture
def load_kw() -> Floats:
    """Return as many customers as fill several blocks, the last one not full."""
    return np.random.default_rng(1).normal(size=(CUSTOMERS, 3))


@pytest.fixture
def seen() -> list[int]:
    """Return the sizes of the blocks that `watched` was run on."""
    return []


@pytest.fixture
def watched(seen: list[int]) -> Callable[..., Any]:
    """Return a row function that doubles the load, and records the size of each block."""

    @row_function
    def doubled(load_kw: Floats) -> tuple[Floats]:
        seen.append(len(load_kw))
        return (2.0 * load_kw,)

    return doubled.bind


@pytest.fixture
def watched_selection(seen: list[int]) -> Callable[..., Any]:
    """Return a row function that keeps positive rows, and records the size of each block."""

    @row_function
    def positive(load_kw: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        seen.append(len(load_kw))
        return load_kw, load_kw[:, 0] > 0.0

    return positive.bind


def totals(rows: Rows[*tuple[Any, ...]], work: BlockSums) -> list[list[int]]:
    """Return the exact integers of each query."""
    return [part.tolist() for part in work.split(rows.add_up(work))]


def released(rows: Rows[*tuple[Any, ...]], *, simulated: bool = False) -> ReleasedRows[Any, Any]:
    """Return rows as a mechanism releases them."""
    value: Any = rows
    return ReleasedRows(Released(value=value, spends=(), simulated=simulated))


# --- sums -----------------------------------------------------------------------------------------


def test_sums_are_those_of_all_customers(load_kw: Floats) -> None:
    """Blocks and threads change no integer; without customers all integers are 0."""
    work = by_sign_sums(3)
    in_one_block = [part.tolist() for part in work.split(work(load_kw))]
    assert totals(LocalRows(load_kw), work) == in_one_block
    positive = int((load_kw[:, 0] > 0.0).sum())
    assert in_one_block[0] == [UNIT * (CUSTOMERS - positive), UNIT * positive]
    assert totals(LocalRows(load_kw[:0]), work) == [[0] * 2, [0] * 6]


def test_sums_are_of_clipped_features(load_kw: Floats) -> None:
    """Each customer adds its load, clipped to L2 norm 1, in whole steps: by NumPy."""
    lengths = np.linalg.norm(load_kw, axis=1)
    clipped = load_kw / np.maximum(lengths, 1.0)[:, None]
    (found,) = totals(LocalRows(load_kw), adding(3))
    assert np.abs(np.array(found) / UNIT - clipped.sum(axis=0)).max() < 2.0 * CUSTOMERS / UNIT


def test_order_of_customers_changes_no_integer(load_kw: Floats) -> None:
    """Sums of integers are exact."""
    shuffled = np.random.default_rng(0).permutation(load_kw)
    work = by_sign_sums(3)
    assert totals(LocalRows(shuffled), work) == totals(LocalRows(load_kw), work)


# --- map, select, beside --------------------------------------------------------------------------


def test_a_selection_keeps_the_order_of_those_who_stay(load_kw: Floats) -> None:
    """Columns stay side by side; the mask itself is dropped."""
    selected = LocalRows(load_kw).select(of_positive.bind(columns=2))
    rows, negative = selected._joined()
    kept = load_kw[load_kw[:, 0] > 0.0, :2]
    assert np.array_equal(rows, kept)
    assert negative.tolist() == (kept < 0.0).sum(axis=1).tolist()
    assert selected.width == 2


def test_a_selection_of_all_and_of_none(load_kw: Floats) -> None:
    """A mask that keeps everyone, and one that keeps no customer."""
    numbers = np.arange(CUSTOMERS)
    all_even = LocalRows(load_kw, 2 * numbers).select(of_even.bind())
    assert totals(all_even, counting()) == [[UNIT * CUSTOMERS]]
    all_odd = LocalRows(load_kw, 2 * numbers + 1).select(of_even.bind())
    assert totals(all_odd, counting()) == [[0]]
    assert all_odd.width == 3


def test_sums_of_a_selection_are_those_of_its_columns(load_kw: Floats) -> None:
    """In the blocks in which it was made, selected again, or joined: the same integers."""
    numbers = np.arange(CUSTOMERS)
    selected = LocalRows(load_kw, numbers).select(of_even.bind()).select(of_even.bind())
    expected = totals(LocalRows(load_kw[::2]), adding(3))
    assert totals(selected, adding(3)) == expected
    assert len(selected._computed()) > 1
    assert np.array_equal(selected._joined()[0], load_kw[::2])
    assert len(selected._computed()) == 1
    assert totals(selected, adding(3)) == expected


def test_a_mapped_column_fits_beside_others(load_kw: Floats) -> None:
    """`map` keeps every customer: columns of the same table still belong to the same rows."""
    numbers = LocalRows(np.arange(CUSTOMERS))
    mapped = LocalRows(load_kw).map(halved.bind())
    beside = mapped.beside(numbers, field="numbers")
    assert beside.width == 3
    rows, places = beside._joined()
    assert np.array_equal(rows, 0.5 * load_kw)
    assert places.tolist() == list(range(CUSTOMERS))
    expected = totals(LocalRows(0.5 * load_kw[::2]), adding(3))
    assert totals(beside.select(of_even.bind()), adding(3)) == expected
    other_way: Any = LocalRows(load_kw).beside(mapped, field="load")
    assert np.array_equal(other_way._joined()[1], 0.5 * load_kw)


def test_nothing_fits_beside_a_selection(load_kw: Floats) -> None:
    """How many stay is private, and which row is whose is unknown; the error has no number."""
    selected = LocalRows(load_kw).select(of_positive.bind(columns=2))
    numbers = LocalRows(np.arange(CUSTOMERS))
    pairs: list[tuple[Any, Any]] = [(selected, numbers), (numbers, selected), (selected, selected)]
    for one, other in pairs:
        with pytest.raises(InvalidParameterError, match="names must be one value") as refused:
            one.beside(other, field="names")
        assert not any(character.isdigit() for character in str(refused.value))


# --- laziness -------------------------------------------------------------------------------------


def test_a_map_runs_when_sums_are_needed_and_once(
    load_kw: Floats, seen: list[int], watched: Callable[..., Any]
) -> None:
    """Before `add_up` the function sees no customer; afterwards what it made is kept."""
    mapped = LocalRows(load_kw).map(watched())
    again = mapped.map(halved.bind())
    assert again.width == 3
    assert sum(seen) == 0
    work = by_sign_sums(3)
    first = totals(again, work)
    assert sum(seen) == CUSTOMERS
    assert first == totals(LocalRows(load_kw), work)
    assert totals(again, work) == first
    totals(mapped, work)
    assert sum(seen) == CUSTOMERS


def test_a_selection_runs_when_sums_are_needed_and_once(
    load_kw: Floats, seen: list[int], watched_selection: Callable[..., Any]
) -> None:
    """Before `add_up` the function sees no customer; afterwards what it made is kept."""
    selected = LocalRows(load_kw).select(watched_selection())
    beyond = selected.map(halved.bind())
    assert sum(seen) == 0
    expected = totals(LocalRows(load_kw[load_kw[:, 0] > 0.0]), counting())
    for rows in (beyond, selected, beyond):
        assert totals(rows, counting()) == expected
    assert sum(seen) == CUSTOMERS


def test_columns_side_by_side_are_joined_when_sums_are_needed(
    load_kw: Floats, seen: list[int], watched: Callable[..., Any]
) -> None:
    """`beside` runs no function either."""
    mapped = LocalRows(load_kw).map(watched())
    beside = mapped.beside(LocalRows(np.arange(CUSTOMERS)), field="numbers")
    assert sum(seen) == 0
    assert totals(beside, counting()) == [[UNIT * CUSTOMERS]]
    assert sum(seen) == CUSTOMERS


def test_rows_of_a_public_list(load_kw: Floats) -> None:
    """One row for each customer on the list, in its order; NaN without a row."""
    ids = ("c", "a", "b")
    rows = listed_rows(load_kw[:3], ids, customer_list=("a", "x", "c"))
    beside: Any = rows.beside(LocalRows(np.arange(3)), field="numbers")
    found, _ = beside._joined()
    expected = np.array([load_kw[1], np.full(3, np.nan), load_kw[0]])
    assert np.array_equal(found, expected, equal_nan=True)


def test_parents_are_freed_once_they_are_not_needed(load_kw: Floats) -> None:
    """Computed rows hold no reference to the rows that they were computed from."""
    parent = LocalRows(load_kw.copy())
    kept = weakref.ref(parent)
    mapped = parent.map(halved.bind())
    selected = mapped.select(of_positive.bind(columns=2))
    middle = weakref.ref(mapped)
    del parent, mapped
    gc.collect()
    assert kept() is not None
    assert middle() is not None
    totals(selected, counting())
    gc.collect()
    assert kept() is None
    assert middle() is None


def test_a_map_holds_what_it_makes_once() -> None:
    """Beside the rows there is what was computed, and hardly more."""
    rows = LocalRows(np.ones((100_000, 24)))
    work = counting()
    totals(rows, work)  # compiled
    tracemalloc.start()
    mapped = rows.map(halved.bind())
    mapped.add_up(work)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * 100_000 * 24 * 8
    assert mapped.width == 24


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plain",
    [lambda load_kw: (load_kw,), halved, np.square, None],
    ids=["lambda", "unbound", "ufunc", "none"],
)
def test_plain_callables_are_refused(load_kw: Floats, plain: Any) -> None:  # noqa: ANN401
    """Only a bound row function reads rows: not a lambda, nor one without its parameters."""
    rows = LocalRows(load_kw)
    with pytest.raises(TypeError, match="the kernel accepts a BoundRowFunction only"):
        rows.map(plain)
    with pytest.raises(TypeError, match="the kernel accepts a BoundRowFunction only"):
        rows.select(plain)
    with pytest.raises(TypeError, match="the kernel accepts a BoundRowFunction only"):
        BlockSums([Query(tag="count", rho_units=1, n_cells=1)], plain)


def test_other_totals_are_refused(load_kw: Floats) -> None:
    """A function that is no `BlockSums` adds nothing up; totals of other queries are refused."""
    rows, work = LocalRows(load_kw), counting()
    with pytest.raises(TypeError, match="the kernel accepts a BlockSums only"):
        rows.add_up(everyone.bind())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not computed by this query"):
        counting().split(rows.add_up(work))


def test_another_number_of_entries_is_refused(load_kw: Floats) -> None:
    """A function that repeats a customer fails when it runs, and is no sum."""

    @row_function
    def repeated(load_kw: Floats) -> tuple[Floats]:
        return (np.repeat(load_kw, 2, axis=0),)

    mapped = LocalRows(load_kw).map(repeated.bind())
    with pytest.raises(ValueError, match="plain arrays with one entry per customer"):
        mapped.add_up(counting())


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.object_])
def test_a_mask_is_a_vector_of_truth_values(load_kw: Floats, kind: type) -> None:
    """Places instead of a mask could take a customer twice."""

    @row_function
    def by_place(load_kw: Floats) -> tuple[Floats, Any]:
        return load_kw, np.zeros(len(load_kw), dtype=kind)

    @row_function
    def by_matrix(load_kw: Floats) -> tuple[Floats, Any]:
        return load_kw, np.isfinite(load_kw)

    for function in (by_place, by_matrix):
        with pytest.raises(TypeError, match="a vector of truth values"):
            LocalRows(load_kw).select(function.bind()).add_up(counting())


def test_rows_of_an_engine_stay_where_they_are(load_kw: Floats) -> None:
    """Only what is not `Rows` is read."""
    rows = LocalRows(load_kw)
    assert as_rows(rows, lambda _: pytest.fail("read again")) is rows
    read = as_rows([[1, 2]], lambda data: np.asarray(data, dtype=np.float64))
    assert read.width == 2


def test_rows_reveal_nothing_and_are_not_copied(load_kw: Floats) -> None:
    """Neither print nor pickle nor copy nor comparison shows a customer, or how many there are."""
    for rows in (LocalRows(load_kw), LocalRows(load_kw).map(halved.bind())):
        assert repr(rows) == "LocalRows(…)"
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                duplicate(rows)
        with pytest.raises(TypeError, match="cannot be compared"):
            _ = rows == rows  # noqa: PLR0124
        with pytest.raises(TypeError, match="no truth value"):
            bool(rows)
        with pytest.raises(TypeError):
            hash(rows)
        with pytest.raises(TypeError):
            len(rows)  # type: ignore[arg-type]


def test_spans_of_a_span_are_the_same_spans(load_kw: Floats) -> None:
    """A function that itself goes over spans gives the same inside a block."""

    def nested(_: int, first: int, last: int) -> list[tuple[int, int]]:
        inner = over_spans(last - first, lambda _, a, b: (first + a, first + b))
        return [(a, b) for a, b in inner if b > a]

    spans = [span for spans in over_spans(len(load_kw) * 100, nested) for span in spans]
    assert spans[0][0] == 0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    assert spans[-1][1] == len(load_kw) * 100


# --- released rows --------------------------------------------------------------------------------


def test_released_rows_are_in_order_counted_and_written(tmp_path: Path) -> None:
    """Sorted by the first column; the file has the names that were given."""
    table = released(LocalRows(text_column(["b", "c", "a"]), np.array([2, 0, 2])))
    names, labels = table.here()
    assert (names.tolist(), labels.tolist()) == (["a", "b", "c"], [2, 2, 0])
    assert table.counted(4).tolist() == [1, 0, 2, 0]
    table.write_parquet(tmp_path / "rows.parquet", ["name", "number"])
    written = pq.read_table(tmp_path / "rows.parquet").to_pydict()
    assert written == {"name": ["a", "b", "c"], "number": [2, 2, 0]}


def test_released_rows_are_those_of_a_selection(load_kw: Floats) -> None:
    """Rows in several blocks are joined before they are sorted."""
    names = text_column(f"{number:04}" for number in range(CUSTOMERS))[::-1]

    @row_function
    def named(load_kw: Floats, names: NDArray[np.object_]) -> tuple[Any, Ints, Any]:
        kept = load_kw[:, 0] > 0.0
        return names, kept.astype(np.int64), kept

    rows = LocalRows(load_kw).beside(LocalRows(names), field="names").select(named.bind())
    found, ones = released(rows).here()
    assert found.tolist() == sorted(names[load_kw[:, 0] > 0.0])
    assert released(rows).counted(2).tolist() == [0, ones.size]


def test_released_rows_with_simulated_noise_are_refused(load_kw: Floats) -> None:
    """What an injected source drew cannot be published."""
    with pytest.raises(SimulatedNoiseError):
        released(LocalRows(load_kw), simulated=True)
