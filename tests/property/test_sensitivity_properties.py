"""Whatever the rows, contributions obey the stated bound and depend on their own row alone.

The independent computation is in fractions: of a float row x it is the exact vector 2^25 x, or
2^25 x / |x| when |x| > 1, with |x| from an integer square root of 200 binary digits.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from tests.single_queries import exact_cell_sums, exact_integers, given_cells, given_features
from wattveil.arrays import Floats, Ints
from wattveil.engines.local import LocalRows
from wattveil.errors import InvalidDataError
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.contributions import BlockSums, BoundedTotals, Query

EXTREME = [
    *(0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.0**-25, 2.0**-26, 1e-9, 0.5, 1.0, -2.0),
    *(3e9, -3e9, 1e154, 1e300, -1e308, 1.7976931348623157e308),
    *(math.nan, math.inf, -math.inf, math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0)),
]
any_float = st.sampled_from(EXTREME) | st.floats()
modest = st.floats(-4.0, 4.0) | st.integers(-32, 32).map(lambda k: k / 8.0)
shapes = st.tuples(st.integers(1, 6), st.integers(1, 5))
any_rows = npst.arrays(np.float64, shapes, elements=any_float)
modest_rows = npst.arrays(np.float64, shapes, elements=modest)


def contributions(rows: Floats) -> list[list[int]]:
    """Return what each row adds: every customer is in a cell of its own."""
    steps = exact_cell_sums(rows, np.arange(len(rows)), n_cells=len(rows))
    return [[int(k) for k in row] for row in steps]


def exact_steps(row: list[float]) -> list[Fraction]:
    """Return the clipped row in steps, in exact arithmetic; zeros unless all of it is finite."""
    if not all(map(math.isfinite, row)):
        return [Fraction(0)] * len(row)
    entries = [Fraction(x) for x in row]
    squared = sum((x * x for x in entries), Fraction(0))
    length = Fraction(1)
    if squared > 1:
        length = Fraction(math.isqrt(math.floor(squared * 4**200)), 2**200)
    return [x * 2**25 / length for x in entries]


@settings(deadline=None, max_examples=400)
@given(rows=any_rows | modest_rows)
@example(rows=np.full((2, 3), -1e308))
@example(rows=np.array([[3e9, 4e9], [-3e9, 4e-9]]))
@example(rows=np.array([[math.nan, 1.0], [math.inf, 1.0], [1.0, 1.0]]))
def test_contributions_are_inside_the_unit_ball(rows: Floats) -> None:
    """Each row, and each pair, is within the stated distance, in Python's integers."""
    query = Query(tag="t", rho_units=1, n_cells=1, n_features=rows.shape[1])
    steps = contributions(rows)
    for row in steps:
        assert sum(k * k for k in row) <= 2**50
        assert sum(k * k for k in row) <= query.squared_sensitivity(Neighbours.ZERO_OUT)
        for other in steps:
            distance = sum((k - m) ** 2 for k, m in zip(row, other, strict=True))
            assert distance <= query.squared_sensitivity(Neighbours.REPLACE_ONE)


@settings(deadline=None, max_examples=400)
@given(rows=any_rows | modest_rows)
@example(rows=np.array([[3e9, 4e9], [-3e9, 4e-9]]))
@example(rows=np.array([[math.nan, 1.0], [math.inf, 1.0], [5e-324, -0.0]]))
def test_contributions_are_the_clipped_row_rounded_towards_zero(rows: Floats) -> None:
    """Within two steps of the exact vector, never beyond it by more than the error of floats."""
    slack = Fraction(1, 2**20)  # of a step: far above the error of a few float operations
    for row, steps in zip(rows.tolist(), contributions(rows), strict=True):
        for exact, step in zip(exact_steps(row), steps, strict=True):
            assert abs(step) <= abs(exact) + slack
            assert abs(exact - step) < 2 + slack
            assert step * exact >= 0


@settings(deadline=None, max_examples=200)
@given(rows=modest_rows)
def test_rows_inside_the_ball_lose_less_than_a_step(rows: Floats) -> None:
    """Nothing is clipped that need not be: a row of length at most 1 is only truncated."""
    short = rows / 16.0  # at most 4 sqrt(5) / 16 < 1
    slack = Fraction(1, 2**20)
    for row, steps in zip(short.tolist(), contributions(short), strict=True):
        for x, step in zip(row, steps, strict=True):
            exact = Fraction(x) * 2**25
            assert abs(step) <= abs(exact) + slack
            assert abs(exact - step) < 1 + slack


@settings(deadline=None, max_examples=150)
@given(rows=any_rows | modest_rows, data=st.data())
def test_a_contribution_depends_on_its_own_row_alone(rows: Floats, data: st.DataObject) -> None:
    """Permuted, alone, repeated, in Fortran order or with gaps: each row has the same integers."""
    steps = np.array(contributions(rows))
    order = data.draw(st.permutations(range(len(rows))))
    gaps = np.full((2 * len(rows), 2 * rows.shape[1]), np.pi)
    gaps[::2, ::2] = rows
    for other, expected in (
        (rows[list(order)], steps[list(order)]),
        (rows[: order[0] + 1], steps[: order[0] + 1]),
        (rows[order[0] : order[0] + 1], steps[order[0] : order[0] + 1]),
        (np.vstack([rows, rows]), np.vstack([steps, steps])),
        (np.asfortranarray(rows), steps),
        (gaps[::2, ::2], steps),
    ):
        assert contributions(other) == expected.tolist()


@settings(deadline=None, max_examples=60)
@given(number=st.integers(0, 2**32 - 1), customers=st.integers(2, 40))
def test_long_rows_alone_or_together(number: int, customers: int) -> None:
    """Also of 300 features, and on the very points of the grid: the same integers."""
    rows = np.random.default_rng(number).integers(-8, 9, size=(customers, 300)) / 16.0
    alone = [contributions(rows[i : i + 1])[0] for i in range(customers)]
    assert contributions(rows) == alone


@settings(deadline=None, max_examples=60)
@given(rows=any_rows, data=st.data())
def test_blocks_of_any_partition_add_up(rows: Floats, data: st.DataObject) -> None:
    """However customers are divided into blocks, the totals are those of Python's integers."""
    n_cells = data.draw(st.integers(1, 4))
    cell = st.integers(-1, n_cells - 1)
    cells = data.draw(npst.arrays(np.int64, len(rows), elements=cell))
    expected = np.zeros((n_cells, rows.shape[1]), dtype=np.int64)
    for own, steps in zip(cells, contributions(rows), strict=True):
        if own >= 0:
            expected[own] += steps
    query = Query(tag="t", rho_units=1, n_cells=n_cells, n_features=rows.shape[1])
    sums = BlockSums([query], given_features.bind())
    cut = data.draw(st.integers(0, len(rows)))

    def parts() -> list[BoundedTotals]:  # totals are used once
        return [sums(rows[:cut], cells[:cut]), sums(rows[cut:], cells[cut:])]

    packed = [sums.unpack(sums.pack(part)) for part in parts()]
    for totals in (sums.total(parts()), sums.total(packed), LocalRows(rows, cells).add_up(sums)):
        assert np.array_equal(sums.split(totals)[0].reshape(query.shape), expected)


@settings(deadline=None, max_examples=150)
@given(
    n_cells=st.integers(1, 5),
    cells=npst.arrays(np.int64, st.integers(1, 8), elements=st.integers(-(2**63), 2**63 - 1)),
    small=st.booleans(),
)
def test_cells_are_counted_or_refused(n_cells: int, cells: Ints, small: bool) -> None:  # noqa: FBT001
    """Any int64: counted exactly if all are -1 … n - 1, and refused otherwise."""
    own = cells % 8 - 2 if small else cells
    query = Query(tag="t", rho_units=1, n_cells=n_cells)
    if all(-1 <= cell < n_cells for cell in own.tolist()):
        found = exact_integers([query], given_cells.bind(), own)[0].tolist()
        assert found == [own.tolist().count(cell) * 2**25 for cell in range(n_cells)]
    else:
        with pytest.raises(InvalidDataError, match="cells between 0 and"):
            exact_integers([query], given_cells.bind(), own)


def array_of(kind: Any, shape: tuple[int, ...]) -> NDArray[Any]:  # noqa: ANN401 - any dtype
    """Return ones of a type and shape."""
    return np.ones(shape, dtype=kind)


@settings(deadline=None, max_examples=200)
@given(
    cell_kind=st.sampled_from([np.int64, np.int32, np.float64, np.uint8, np.bool_]),
    kind=st.sampled_from([np.float64, np.float32, np.int64, np.complex128]),
    lengths=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    width=st.integers(0, 4),
)
def test_arrays_of_another_kind_are_refused_or_right(
    cell_kind: Any,  # noqa: ANN401 - a dtype
    kind: Any,  # noqa: ANN401 - a dtype
    lengths: tuple[int, int],
    width: int,
) -> None:
    """Any type, length and width: the right totals, or an error."""
    features, cells = array_of(kind, (lengths[0], width)), array_of(cell_kind, lengths[1:])
    query = Query(tag="t", rho_units=1, n_cells=2, n_features=2)
    is_right = (cell_kind, kind, width) == (np.int64, np.float64, 2) and len(set(lengths)) == 1
    if is_right:
        (found,) = exact_integers([query], given_features.bind(), features, cells)
        assert found.tolist() == [0, 0, *[lengths[0] * math.isqrt(2**49)] * 2]
    else:
        with pytest.raises((TypeError, ValueError)):
            exact_integers([query], given_features.bind(), features, cells)
