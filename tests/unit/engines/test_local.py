"""Customers in memory: blocks, whole numbers, and nothing to be seen."""

import copy
import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from wattveil.compiled import over_spans
from wattveil.engines.local import LocalRows, as_rows
from wattveil.engines.rows import text_column

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@pytest.fixture
def load_kw() -> Floats:
    """Return as many customers as fill several blocks, the last one not full."""
    return np.random.default_rng(1).normal(size=(1999, 3))


def test_sums_are_those_of_all_customers(load_kw: Floats) -> None:
    """Blocks and threads change nothing; nobody adds nothing."""

    def steps(rows: Floats) -> Integers:
        return np.asarray(np.trunc(rows * 2**20).astype(np.int64).sum(axis=0))

    assert LocalRows(load_kw).add_up(steps, size=3).tolist() == steps(load_kw).tolist()
    assert LocalRows(load_kw[:0]).add_up(steps, size=3).tolist() == [0, 0, 0]


def test_sums_wrap_like_integers() -> None:
    """Two blocks at the end of int64 wrap around; no error tells of it."""
    rows = LocalRows(np.zeros((512, 1)))
    total = rows.add_up(lambda _: np.array([2**62 + 1]), size=1)
    assert total.tolist() == [2 * (2**62 + 1) - 2**64]


def test_a_map_keeps_the_order_and_may_leave_out(load_kw: Floats) -> None:
    """Columns stay side by side."""

    def positive(rows: Floats, places: Integers) -> tuple[Integers, Floats]:
        kept = rows[:, 0] > 0.0
        return places[kept], rows[kept, :2]

    mapped = LocalRows(load_kw, np.arange(len(load_kw))).map(positive)
    places, rows = mapped.columns
    assert places.tolist() == np.flatnonzero(load_kw[:, 0] > 0.0).tolist()
    assert np.array_equal(rows, load_kw[places, :2])


def test_sums_of_a_map_are_those_of_its_columns(load_kw: Floats) -> None:
    """In blocks as they were made, mapped once more, or joined: the same whole numbers."""

    def steps(rows: Floats) -> Integers:
        return np.asarray(np.trunc(rows * 2**20).astype(np.int64).sum(axis=0))

    def smaller(rows: Floats) -> tuple[Floats]:
        return (0.5 * rows[rows[:, 1] < 1.0, :2],)

    mapped = LocalRows(load_kw).map(smaller).map(smaller)
    expected = 0.25 * load_kw[(load_kw[:, 1] < 1.0), :2]
    assert mapped.width == 2
    assert mapped.add_up(steps, size=2).tolist() == steps(expected).tolist()
    assert np.array_equal(mapped.columns[0], expected)
    assert mapped.add_up(steps, size=2).tolist() == steps(expected).tolist()


def test_a_map_holds_what_it_makes_once() -> None:
    """Beside the rows there is their image, and hardly more."""
    rows = LocalRows(np.ones((100_000, 24)))
    tracemalloc.start()
    mapped = rows.map(lambda load_kw: (2.0 * load_kw,))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * 100_000 * 24 * 8
    assert mapped.width == 24


def test_rows_of_an_engine_stay_where_they_are(load_kw: Floats) -> None:
    """Only what is no `Rows` is read."""
    rows = LocalRows(load_kw)
    assert as_rows(rows, lambda _: pytest.fail("read again")) is rows
    read = as_rows([[1, 2]], lambda data: np.asarray(data, dtype=np.float64))
    assert read.width == 2


def test_rows_say_nothing_and_do_not_travel(load_kw: Floats) -> None:
    """Neither print nor pickle nor copy shows a customer, or how many there are."""
    rows = LocalRows(load_kw)
    assert repr(rows) == "Rows(…)"
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        copy.copy(rows)


def test_spans_of_a_span_are_the_same_spans(load_kw: Floats) -> None:
    """A function that goes over spans itself gives the same inside a block."""

    def nested(_: int, first: int, last: int) -> list[tuple[int, int]]:
        inner = over_spans(last - first, lambda _, a, b: (first + a, first + b))
        return [(a, b) for a, b in inner if b > a]

    spans = [span for spans in over_spans(len(load_kw) * 100, nested) for span in spans]
    assert spans[0][0] == 0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    assert spans[-1][1] == len(load_kw) * 100


def test_rows_are_put_in_order_and_written(tmp_path: Path) -> None:
    """By the first column, the others with it; the file has the names that were given."""
    rows = LocalRows(text_column(["b", "c", "a"]), np.array([2, 3, 1])).in_order()
    rows.write_parquet(tmp_path / "rows.parquet", ["name", "number"])
    written = pq.read_table(tmp_path / "rows.parquet").to_pydict()
    assert written == {"name": ["a", "b", "c"], "number": [1, 2, 3]}
