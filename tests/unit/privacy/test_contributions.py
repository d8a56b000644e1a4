"""Contributions of customers: clipped in integers, added to cells that exist, one per customer."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import exact_cell_sums, exact_integers, given_cells, given_features
from wattveil.arrays import Ints
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms import contributions
from wattveil.privacy.mechanisms.contributions import NO_DATA, STEP, UNIT, Query
from wattveil.privacy.private_data import row_function

Array = NDArray[Any]
COUNT = Query(tag="count", rho_units=1, n_cells=3)
SUM = Query(tag="sum", rho_units=1, n_cells=3, n_features=2)
ENTRIES = r"^a row function returns plain arrays with one entry per customer$"
MISSING_CELLS = [3, 4, -2, 2**31, 2**40, 2**63 - 1, -(2**63)]


def counted(cells: Ints) -> list[int]:
    """Return the exact integers of a count in three cells."""
    return [int(k) for k in exact_integers([COUNT], given_cells.bind(), cells)[0]]


def summed(cells: Array, query: Query) -> list[Ints]:
    """Return the exact integers of a count, or of a sum of ones, over customers in these cells."""
    if query is COUNT:
        return exact_integers([query], given_cells.bind(), cells)
    return exact_integers([query], given_features.bind(), np.ones((len(cells), 2)), cells)


def test_grid_is_the_one_of_the_proof() -> None:
    """2^25 steps of 2^-25 are exactly 1, and -1 is the cell of a customer without data."""
    assert (UNIT, STEP, NO_DATA) == (2**25, 2.0**-25, -1)


def test_a_count_adds_one_unit_to_one_cell() -> None:
    """Each customer adds 2^25 steps to its cell; a customer without data adds nothing."""
    assert counted(np.array([0, 2, 2, -1, 2, 0, -1])) == [2 * 2**25, 0, 3 * 2**25]
    assert counted(np.array([-1, -1])) == [0, 0, 0]
    assert counted(np.zeros(0, dtype=np.int64)) == [0, 0, 0]


HALF_DIAGONAL = math.isqrt(2**49)  # 2^25 / sqrt(2), rounded down


@pytest.mark.parametrize(
    ("features", "steps"),
    [
        ([1.0, 0.0], [2**25, 0]),
        ([0.25, -0.5], [2**23, -(2**24)]),
        ([3e9, 0.0], [2**25, 0]),
        ([0.0, -3e9], [0, -(2**25)]),
        ([30.0, -40.0], [20132659, -26843545]),  # 0.6 and 0.8 of 2^25, towards zero
        ([3e300, 4e300], [20132659, 26843545]),
        ([1e300, -1e300], [HALF_DIAGONAL, -HALF_DIAGONAL]),
        ([1.7e308, 1.7e308], [HALF_DIAGONAL, HALF_DIAGONAL]),
        ([1e308, 5e-324], [2**25, 0]),
        ([2.0**-25, -(2.0**-25)], [1, -1]),
        ([1.75 * 2.0**-25, -1.75 * 2.0**-25], [1, -1]),
        ([2.0**-26, -(2.0**-26)], [0, 0]),
        ([5e-324, -5e-324], [0, 0]),
        ([1e-310, 0.5], [0, 2**24]),
        ([0.0, -0.0], [0, 0]),
        ([math.nan, 1.0], [0, 0]),
        ([1.0, math.nan], [0, 0]),
        ([math.nan, math.nan], [0, 0]),
        ([math.inf, 1.0], [0, 0]),
        ([1.0, -math.inf], [0, 0]),
        ([math.inf, math.nan], [0, 0]),
        ([math.inf, math.inf], [0, 0]),
    ],
    ids=str,
)
def test_features_are_clipped_to_the_unit_ball(features: list[float], steps: list[int]) -> None:
    """Long rows keep their direction, short ones their length; not finite contributes zeros."""
    assert exact_cell_sums(np.array([features])).tolist() == [steps]


def test_rows_on_the_sphere_stay_inside_in_integers() -> None:
    """Where floats exceed length 1 the integer check decides: 20,000 rows at and just above it."""
    directions = np.random.default_rng(3).normal(size=(20_000, 7))
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    rows = directions / lengths * (1.0 + 1e-9)
    steps = exact_cell_sums(rows, np.arange(20_000), n_cells=20_000)
    squares = [sum(k * k for k in row) for row in steps.tolist()]
    assert min(squares) > 0.999999 * 2**50
    assert max(squares) <= 2**50


@pytest.mark.parametrize("longest", [1e-3, 0.9, 1.1, 1e12], ids=str)
def test_clipped_rows_are_the_exact_ones_rounded_towards_zero(longest: float) -> None:
    """Against fractions: steps of x / max(1, |x|), at most one step less, and hardly ever less."""
    rows = np.random.default_rng(8).normal(size=(300, 7))
    rows *= longest / np.linalg.norm(rows, axis=1, keepdims=True)
    steps = exact_cell_sums(rows, np.arange(300), n_cells=300)
    short = []
    for row, found in zip(rows.tolist(), steps.tolist(), strict=True):
        squared_length = max(sum(Fraction(x) ** 2 for x in row), Fraction(1))
        for x, k in zip(row, found, strict=True):
            exact = math.isqrt(math.floor(Fraction(x) ** 2 * 2**50 / squared_length))
            assert x * k >= 0.0
            short.append(exact - abs(k))
    assert set(short) <= {0, 1}
    assert sum(short) <= 3


def just_outside(n_features: int) -> Ints:
    """Return integers whose squared length is 2^50 + 1."""
    first = math.isqrt((2**50 - 10**9) // n_features)
    largest = [first - i * 37 % 1000 for i in range(n_features)]
    rest = 2**50 + 1 - sum(k * k for k in largest)
    for a, b in itertools.product(range(1000), repeat=2):  # every number is a sum of four squares
        left = rest - a * a - b * b
        for c in range(math.isqrt(left), math.isqrt(left) - 100, -1):
            d = math.isqrt(left - c * c)
            if a * a + b * b + c * c + d * d == rest:
                return np.array([*largest, a, b, c, d])
    raise AssertionError(rest)


def test_a_row_that_floats_leave_outside_is_moved_towards_zero() -> None:
    """Where rounded steps have a squared length above 2^50, each coordinate loses one step."""
    steps = just_outside(1000)
    generator = np.random.default_rng(3)
    found = 0
    for _ in range(50):
        row = generator.permutation(steps) * 8.0
        direction = row / row.max()
        length = math.sqrt(float(np.square(direction).cumsum()[-1]))  # one after the other
        scaled = [int(x) for x in direction * (1.0 / length / STEP)]
        if sum(k * k for k in scaled) > 2**50:
            found += 1
            expected = [max(k - 1, 0) for k in scaled]
            assert exact_cell_sums(row[np.newaxis]).tolist() == [expected]
    assert found > 5


def test_compiled_loop_is_the_plain_computation() -> None:
    """Machine code and the same lines run by Python agree to the last bit, on extreme rows too."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(200, 7)) * np.geomspace(1e-300, 1e300, 200)[:, None]
    rows[0] = 0.0
    rows[1] = 5e-324
    rows[2] = 1.7e308
    rows[3:6, 2] = (math.nan, math.inf, -math.inf)
    rows[6] = math.nan
    cells = generator.integers(-1, 4, size=200)
    loops: list[tuple[Any, tuple[Array, ...]]] = [
        (contributions._add_clipped, (rows, cells)),
        (contributions._add_counts, (cells,)),
    ]
    for compiled, columns in loops:
        fast, plain = np.zeros((2, 4, 7), dtype=np.int64)
        with np.errstate(all="ignore"):
            assert compiled.py_func(*columns, plain)
        assert compiled(*columns, fast)
        assert fast.tolist() == plain.tolist()
        assert fast.any()


def test_no_row_raises_a_floating_point_event() -> None:
    """With every floating-point event set to raise, extreme rows raise none."""
    rows = np.array([[1e-300, 1.0], [1e308, -1e308], [0.0, 5e-324], [math.nan, 1.0]])
    with np.errstate(all="raise"):
        assert exact_cell_sums(rows).shape == (1, 2)


# --- one row at a time ----------------------------------------------------------------------------


def test_contribution_depends_on_its_own_row_alone() -> None:
    """Together, alone, in another order, in any partition: the same integers to the last bit."""
    generator = np.random.default_rng(4)
    rows = generator.normal(size=(500, 3)) * np.geomspace(1e-9, 3e9, 500)[:, None]
    rows[[3, 100]] = 0.0  # zeros, and what is not finite, end nothing for those who follow
    rows[[5, 200, 400], [0, 1, 2]] = (math.nan, math.inf, -math.inf)
    cells = generator.integers(-1, 4, size=500)
    cells[[3, 5, 100, 200, 400]] = 1
    whole = exact_cell_sums(rows, cells, n_cells=4)
    alone = [exact_cell_sums(rows[i : i + 1], cells[i : i + 1], n_cells=4) for i in range(500)]
    assert np.array_equal(np.add.reduce(alone), whole)
    parts = np.array_split(generator.permutation(500), 7)
    summed = [exact_cell_sums(rows[part], cells[part], n_cells=4) for part in parts]
    assert np.array_equal(np.add.reduce(summed), whole)
    for cell in range(4):
        assert np.array_equal(exact_cell_sums(rows[cells == cell])[0], whole[cell])


# --- cells that do not exist ----------------------------------------------------------------------


@pytest.mark.parametrize("cell", MISSING_CELLS)
@pytest.mark.parametrize("query", [COUNT, SUM], ids=["count", "sum"])
def test_cells_out_of_range_are_refused(query: Query, cell: int) -> None:
    """Only -1, 0, …, n - 1 are cells, wherever the other one is in the block."""
    for place in range(3):
        cells = np.array([0, -1, 2])
        cells[place] = cell
        with pytest.raises(InvalidDataError, match="cells between 0 and 2, or -1") as caught:
            summed(cells, query)
        assert caught.value.row_ids == ()


@pytest.mark.parametrize("n_missing", [2, 3, 4, 5])
@pytest.mark.parametrize("query", [COUNT, SUM], ids=["count", "sum"])
def test_several_cells_out_of_range_are_refused(query: Query, n_missing: int) -> None:
    """An even number of them is no better than one; customers after them change nothing."""
    cells = np.array([3] * n_missing + [-1, 0, 2])
    for order in (cells, cells[::-1]):
        with pytest.raises(InvalidDataError, match="cells between 0 and 2, or -1"):
            summed(np.array(order), query)


@pytest.mark.parametrize("cell", MISSING_CELLS)
def test_cells_out_of_range_write_nowhere(cell: int) -> None:
    """The memory before and after the totals stays as it was, and so do the other totals."""
    cells = np.array([1, cell, 1])
    loops: list[tuple[Any, int]] = [(contributions._add_counts, 1), (contributions._add_clipped, 2)]
    for add, width in loops:
        memory = np.full((3000, width), 7)
        totals = memory[1000:1003]
        totals[:] = 0
        columns = (cells,) if width == 1 else (np.full((3, 2), [1.0, 0.0]), cells)
        assert add(*columns, totals) is False
        assert totals[:, 0].tolist() == [0, 2 * 2**25, 0]
        assert (memory[:1000] == 7).all()
        assert (memory[1003:] == 7).all()


# --- shapes and types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cells",
    [
        np.zeros(4, dtype=np.int32),
        np.zeros(4, dtype=np.uint64),
        np.zeros(4),
        np.zeros(4, dtype=np.bool_),
        np.zeros(4, dtype=np.object_),
        np.zeros(4, dtype=">i8"),
        np.zeros((4, 1), dtype=np.int64),
        np.zeros((4, 2), dtype=np.int64),
    ],
    ids=["int32", "uint64", "float64", "bool", "object", "big-endian", "matrix", "wide matrix"],
)
@pytest.mark.parametrize("query", [COUNT, SUM], ids=["count", "sum"])
def test_cells_are_a_vector_of_int64(query: Query, cells: Array) -> None:
    """Any other type or shape is refused, not converted."""
    with pytest.raises(TypeError, match=r"^cells are a vector of int64$"):
        summed(cells, query)


@pytest.mark.parametrize(
    "features",
    [
        np.ones((4, 2), dtype=np.float32),
        np.ones((4, 2), dtype=np.int64),
        np.ones((4, 2), dtype=">f8"),
        np.ones((4, 2), dtype=np.object_),
        np.ones((4, 1)),
        np.ones((4, 3)),
        np.ones((4, 0)),
        np.ones(4),
        np.ones((4, 2, 1)),
    ],
    ids=["float32", "int64", "big-endian", "object", "narrow", "wide", "empty", "vector", "cube"],
)
def test_features_are_a_matrix_of_float64_as_wide_as_the_query(features: Array) -> None:
    """Any other type or shape is refused, not converted."""
    rule = r"^features are a matrix of float64, as wide as the query$"
    with pytest.raises(TypeError, match=rule):
        exact_integers([SUM], given_features.bind(), features, np.zeros(4, dtype=np.int64))


@row_function
def resized(_: Array, *, n_cells: int, n_features: int | None) -> tuple[NDArray[Any], ...]:
    """Return so many cells and so many rows of features, whatever the number of customers."""
    cells = np.zeros(n_cells, dtype=np.int64)
    return (cells,) if n_features is None else (cells, np.ones((n_features, 2)))


@pytest.mark.parametrize(
    ("n_cells", "n_features"),
    [(3, None), (5, None), (0, None), (400, None), (3, 4), (5, 4), (4, 3), (4, 5), (3, 3), (8, 8)],
)
def test_one_entry_per_customer(n_cells: int, n_features: int | None) -> None:
    """Fewer or more cells, or features, than the four customers of the block are refused."""
    query = COUNT if n_features is None else SUM
    work = resized.bind(n_cells=n_cells, n_features=n_features)
    with pytest.raises(ValueError, match=ENTRIES):
        exact_integers([query], work, np.ones(4))
    right = resized.bind(n_cells=4, n_features=None if n_features is None else 4)
    assert exact_integers([query], right, np.ones(4))[0][0] > 0


VIEWS: list[Callable[[Array], Array]] = [
    np.asfortranarray,
    lambda array: np.repeat(np.repeat(array, 3, axis=0), 2, axis=-1)[::3, ..., ::2],
    lambda array: np.ascontiguousarray(array[::-1])[::-1],
    lambda array: np.ascontiguousarray(array[..., ::-1])[..., ::-1],
    lambda array: np.ascontiguousarray(array.T).T,
]


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_memory_layout_changes_nothing(number: int) -> None:
    """Fortran order, gaps between entries and reversed axes give the same integers."""
    generator = np.random.default_rng(5)
    features, cells = generator.normal(size=(50, 4)), generator.integers(-1, 3, size=50)
    spread = np.repeat(cells, 2)[::2]
    assert not spread.flags.c_contiguous
    view = VIEWS[number](features)
    assert np.array_equal(view, features)
    assert not view.flags.c_contiguous
    expected = exact_cell_sums(features, cells, n_cells=3)
    assert np.array_equal(exact_cell_sums(view, spread, n_cells=3), expected)
    assert counted(spread) == counted(cells)


def test_columns_are_not_changed() -> None:
    """What a row function returned, and so what it was computed from, is only read."""
    features, cells = np.full((4, 2), 3e9), np.array([0, 1, 2, -1])
    exact_cell_sums(features, cells, n_cells=3)
    assert (features == 3e9).all()
    assert cells.tolist() == [0, 1, 2, -1]


# --- queries --------------------------------------------------------------------------------------


def test_shape_of_a_query() -> None:
    """A count is a vector of cells; a sum has a row per cell."""
    assert COUNT.shape == (3,)
    assert SUM.shape == (3, 2)
    assert Query(tag="t", rho_units=1, n_cells=1, n_features=1).shape == (1, 1)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "2", 2**24 + 1, 2**63])
@pytest.mark.parametrize("field", ["n_cells", "n_features"])
def test_bad_sizes_are_named(field: str, bad: object) -> None:
    """A query has at least one cell and, if it is for a sum, at least one feature."""
    sizes: dict[str, object] = {"n_cells": 1, field: bad}
    with pytest.raises(InvalidParameterError, match="a whole number of at least 1") as caught:
        Query(tag="t", rho_units=1, **sizes)  # type: ignore[arg-type]  # wrong on purpose
    assert (caught.value.field, caught.value.value) == (field, bad)
    sizes[field] = 2**24
    assert 2**24 in Query(tag="t", rho_units=1, **sizes).shape  # type: ignore[arg-type]  # same


def test_squared_sensitivity_by_hand() -> None:
    """Zero-out: one contribution. Replace-one: two cells of a count, a diameter of a sum.

    A count in one cell moves by one contribution: the other customer is there, or is not.
    """
    alone = Query(tag="count", rho_units=1, n_cells=1)
    assert alone.squared_sensitivity(Neighbours.ZERO_OUT) == 2**50
    assert alone.squared_sensitivity(Neighbours.REPLACE_ONE) == 2**50
    assert COUNT.squared_sensitivity(Neighbours.ZERO_OUT) == 2**50
    assert COUNT.squared_sensitivity(Neighbours.REPLACE_ONE) == 2 * 2**50
    assert SUM.squared_sensitivity(Neighbours.ZERO_OUT) == 2**50
    assert SUM.squared_sensitivity(Neighbours.REPLACE_ONE) == 4 * 2**50


def contributions_of(query: Query, unit: int) -> list[tuple[int, ...]]:
    """Return all that one customer may add to the totals of a query, on a grid of ``unit``."""
    width = query.n_features or 1
    vectors: list[tuple[int, ...]] = [(unit,)]
    if query.n_features is not None:
        everything = itertools.product(range(-unit, unit + 1), repeat=width)
        vectors = [v for v in everything if sum(k * k for k in v) <= unit * unit]
    found = [(0,) * (query.n_cells * width)]
    for cell, vector in itertools.product(range(query.n_cells), vectors):
        totals = [0] * (query.n_cells * width)
        totals[cell * width : (cell + 1) * width] = vector
        found.append(tuple(totals))
    return found


@pytest.mark.parametrize("unit", [1, 2, 3])
@pytest.mark.parametrize("n_features", [None, 1, 2, 3])
@pytest.mark.parametrize("n_cells", [1, 2, 3])
def test_squared_sensitivity_by_brute_force(
    monkeypatch: pytest.MonkeyPatch, n_cells: int, n_features: int | None, unit: int
) -> None:
    """On a coarse grid, over all contributions: the stated distance is the largest one."""
    monkeypatch.setattr(contributions, "UNIT", unit)
    query = Query(tag="t", rho_units=1, n_cells=n_cells, n_features=n_features)
    all_of_them = np.array(contributions_of(query, unit))
    # Zero-out compares with the first, which adds nothing; replace-one all pairs.
    zero_out = int(np.square(all_of_them - all_of_them[0]).sum(axis=1).max())
    differences = all_of_them[:, np.newaxis] - all_of_them
    replace_one = int(np.square(differences).sum(axis=2).max())
    assert query.squared_sensitivity(Neighbours.ZERO_OUT) == zero_out
    assert query.squared_sensitivity(Neighbours.REPLACE_ONE) == replace_one


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
def test_sizes_are_pythons_own_integers(kind: type[np.integer[Any]]) -> None:
    """With NumPy's integers 2 * 2^50 of int8 would overflow, and the noise would be too small."""
    sizes: dict[str, Any] = {"n_cells": kind(100), "n_features": kind(100)}
    query = Query(tag="t", rho_units=1, **sizes)
    assert (type(query.n_cells), type(query.n_features)) == (int, int)
    assert query.shape == (100, 100)
    assert math.prod(query.shape) == 10_000
    assert query.squared_sensitivity(Neighbours.REPLACE_ONE) == 4 * 2**50
    for n_cells in (1, 2, 100):
        count = Query(tag="t", rho_units=1, n_cells=kind(n_cells))  # type: ignore[arg-type]  # same
        squared = count.squared_sensitivity(Neighbours.REPLACE_ONE)
        assert (squared, type(squared)) == (min(n_cells, 2) * 2**50, int)
        assert count.n_features is None
