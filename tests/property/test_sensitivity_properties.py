"""Whatever the rows, the integers obey the stated bound and depend on their own row alone."""

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.sensitivity import (
    Ball,
    Box,
    Ellipsoid,
    OuterProductBall,
    Region,
    refuse_non_finite,
)

Floats = NDArray[np.float64]

COLUMNS = 3
EXTREME = [0.0, -0.0, 5e-324, -1e-310, 1e300, -1e308, 1.7e308, 1.0, 0.5, -2.0, 1e-9]

values = st.sampled_from(EXTREME) | st.floats(allow_nan=False, allow_infinity=False)
modest = st.floats(-4.0, 4.0) | st.integers(-32, 32).map(lambda k: k / 8.0)
rows_of = npst.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(COLUMNS)), elements=values)
modest_rows = npst.arrays(
    np.float64, st.tuples(st.integers(1, 6), st.just(COLUMNS)), elements=modest
)

REGIONS: list[Region] = [
    Ball(radius=1.0),
    Ball(radius=math.nextafter(2.0, 0.0)),
    Ball(radius=1e-200),
    Ball(radius=1e240),
    Box(low=(-1.0, 0.25, -7.0), high=(1.0, 3.0, -0.1)),
    Box(low=(0.1, -1e-9, 2.0), high=(1e6, 1e-9, 2.1)),
    Ellipsoid(shape=np.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.3], [0.1, 0.0, 0.5]])),
    Ellipsoid(shape=np.diag([1e5, 1.0, 1e-3])),
    OuterProductBall(radius=1.0),
    OuterProductBall(radius=0.7),
    OuterProductBall(radius=1e60),
]
regions = st.sampled_from(REGIONS)


@settings(deadline=None, max_examples=250)
@given(region=regions, rows=rows_of | modest_rows)
@example(region=REGIONS[8], rows=np.eye(3))
@example(region=REGIONS[0], rows=np.full((2, 3), -1e308))
def test_integers_obey_the_bound(region: Region, rows: Floats) -> None:
    """Each row, and each pair of rows, is within the stated distance, in Python's integers."""
    grid = [[int(k) for k in row] for row in region.to_grid(refuse_non_finite(rows))]
    zero_out = region.squared_sensitivity(Neighbours.ZERO_OUT)
    replace_one = region.squared_sensitivity(Neighbours.REPLACE_ONE)
    for row in grid:
        assert sum(k * k for k in row) <= zero_out
        for other in grid:
            assert sum((k - m) ** 2 for k, m in zip(row, other, strict=True)) <= replace_one


@settings(deadline=None, max_examples=150)
@given(region=regions, rows=rows_of | modest_rows, data=st.data())
def test_integers_of_a_row_depend_on_that_row_alone(
    region: Region, rows: Floats, data: st.DataObject
) -> None:
    """Permuted, alone, repeated, in Fortran order or with gaps: each row has the same integers."""
    grid = region.to_grid(refuse_non_finite(rows))
    order = data.draw(st.permutations(range(len(rows))))
    gaps = np.full((2 * len(rows), 2 * COLUMNS), np.pi)
    gaps[::2, ::2] = rows
    for other, expected in (
        (rows[list(order)], grid[list(order)]),
        (rows[: order[0] + 1], grid[: order[0] + 1]),
        (rows[order[0] : order[0] + 1], grid[order[0] : order[0] + 1]),
        (np.vstack([rows, rows]), np.vstack([grid, grid])),
        (np.asfortranarray(rows), grid),
        (gaps[::2, ::2], grid),
    ):
        assert np.array_equal(region.to_grid(refuse_non_finite(other)), expected)


@settings(deadline=None, max_examples=100)
@given(number=st.integers(0, 2**32 - 1), customers=st.integers(2, 40))
def test_long_rows_alone_or_together(number: int, customers: int) -> None:
    """Also where numpy adds in blocks, and on the very points of the grid: rows stay apart."""
    whole = np.random.default_rng(number).integers(-8, 9, size=(customers, 40))
    rows = refuse_non_finite(whole / 16.0)
    long_row_regions = (
        Ball(radius=2.0),
        Ellipsoid(shape=np.eye(40) + 0.01),
        OuterProductBall(radius=4.0),
    )
    for region in long_row_regions:
        alone = [region.to_grid(rows[i : i + 1])[0] for i in range(customers)]
        assert np.array_equal(region.to_grid(rows), np.array(alone))


@settings(deadline=None, max_examples=100)
@given(rows=modest_rows, radius=st.floats(7.0, 1e6))
def test_rows_inside_a_ball_move_by_one_step_at_most(rows: Floats, radius: float) -> None:
    """Nothing is clipped that need not be: rounding towards zero takes one step at most."""
    ball = Ball(radius=radius)  # |row| <= 4 sqrt(3) < 7
    steps = ball.to_grid(rows)
    exact = rows / ball.step
    assert (np.abs(steps) <= np.abs(exact) + 1e-7).all()
    assert (np.abs(exact - steps) <= 1.0 + 1e-7).all()


@settings(deadline=None, max_examples=100)
@given(rows=modest_rows)
def test_rows_inside_a_box_move_by_less_than_a_step(rows: Floats) -> None:
    """Division by a power of two is exact, so a box only truncates, towards zero."""
    box = Box(low=(-4.0,) * COLUMNS, high=(4.0,) * COLUMNS)
    steps = box.to_grid(rows)
    exact = rows / box.step
    assert (np.abs(exact - steps) < 1.0).all()
    assert (np.abs(steps) <= np.abs(exact)).all()


@settings(deadline=None, max_examples=100)
@given(rows=rows_of, region=regions)
def test_clipping_twice_is_clipping_once_up_to_a_step(rows: Floats, region: Region) -> None:
    """What came out of a ball or a box is inside it: it stays, but for the rounding."""
    if isinstance(region, Ellipsoid | OuterProductBall):
        return
    once = region.to_grid(refuse_non_finite(rows))
    twice = region.to_grid(region.from_grid(once.astype(np.float64)))
    assert (np.abs(once - twice) <= 3).all()
