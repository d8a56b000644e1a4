"""Regions by hand: grids, bounds, the rows that attain them, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import sensitivity
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.gaussian import cell_sums
from wattveil.privacy.sensitivity import (
    Ball,
    Box,
    Ellipsoid,
    OuterProductBall,
    Region,
    one_hot_sensitivity,
    refuse_non_finite,
)

Floats = NDArray[np.float64]


def squared(vector: NDArray[np.int64]) -> int:
    """Return the squared length in Python's integers."""
    return sum(int(k) ** 2 for k in vector)


@pytest.mark.parametrize("radius", [1.0, 3.0, 0.1, 1e-200, 1e200, math.nextafter(2.0, 0.0)])
def test_step_is_a_power_of_two_and_the_radius_fits(radius: float) -> None:
    """The radius is between 2^25 and 2^26 steps, and the step is exact in binary."""
    ball = Ball(radius=radius)
    assert math.frexp(ball.step)[0] == 0.5
    assert 2**25 <= radius / ball.step < 2**26
    assert ball.radius_in_steps == math.floor(radius / ball.step)


# --- bounds are attained: no noise is wasted ------------------------------------------------------

SHAPE = np.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.3], [0.1, 0.0, 0.5]])

REGIONS: list[tuple[Region, list[float], list[float]]] = [
    (Ball(radius=3.7), [100.0, 0.0, 0.0], [-100.0, 0.0, 0.0]),
    (Ball(radius=3.7), [5.0, -6.0, 7.0], [-5.0, 6.0, -7.0]),
    (Box(low=(-1.0, 0.0, 2.0), high=(1.5, 3.0, 5.0)), [9.0, 9.0, 9.0], [-9.0, -9.0, -9.0]),
    (Ellipsoid(shape=SHAPE), [9.0, 1.0, 2.0], [-9.0, -1.0, -2.0]),
    (OuterProductBall(radius=1.3), [7.0, 0.0, 0.0], [0.0, 7.0, 0.0]),
    (OuterProductBall(radius=1.3), [1.0, 1.0, 1.0], [1.0, -1.0, 0.0]),
]


@pytest.mark.parametrize("number", range(len(REGIONS)))
def test_bounds_hold_and_are_attained_within_a_percent(number: int) -> None:
    """Some row reaches the zero-out bound, and some pair the replace-one bound."""
    region, one, other = REGIONS[number]
    rows = region.to_grid(np.array([one, other]))
    bound = region.squared_sensitivity(Neighbours.ZERO_OUT)
    assert 0.99**2 * bound <= squared(rows[0]) <= bound
    bound = region.squared_sensitivity(Neighbours.REPLACE_ONE)
    assert 0.99**2 * bound <= squared(rows[0] - rows[1]) <= bound


@pytest.mark.parametrize("neighbours", Neighbours)
def test_bounds_by_hand(neighbours: Neighbours) -> None:
    """Radius 3 and step 2^-24 give 3 * 2^24 steps; a box adds its sides; a ball doubles."""
    zero_out = neighbours is Neighbours.ZERO_OUT
    assert Ball(radius=3.0).squared_sensitivity(neighbours) == (3 * 2**24) ** 2 * (
        1 if zero_out else 4
    )
    box = Box(low=(-1.0, 0.5), high=(0.5, 3.0))  # step 2^-24
    corner, diagonal = 1 + 9, 1.5**2 + 2.5**2
    assert box.squared_sensitivity(neighbours) == (corner if zero_out else diagonal) * 4**24
    one_sided = Box(low=(2.0,), high=(3.0,))
    assert one_sided.squared_sensitivity(neighbours) == (9 if zero_out else 1) * 4**24
    negative = Box(low=(-3.0,), high=(-2.0,))
    assert negative.squared_sensitivity(neighbours) == (9 if zero_out else 1) * 4**24
    moments = OuterProductBall(radius=2.0)  # radius^2 = 4 in steps of 2^-23
    assert moments.squared_sensitivity(Neighbours.ZERO_OUT) == 4**25
    # 2 R^2 + 8 R 2^10 + 8 2^20 with R = 2^25: docs/proofs/second-moment.md
    assert moments.squared_sensitivity(Neighbours.REPLACE_ONE) == 2**51 + 2**38 + 2**23


@pytest.mark.parametrize(("cells", "expected"), [(1, (1, 1)), (2, (1, 2)), (100, (1, 2))])
def test_one_customer_in_a_table(cells: int, expected: tuple[int, int]) -> None:
    """Zero-out takes one from one cell; replace-one also adds one, if there is another cell."""
    for neighbours, bound in zip(Neighbours, expected, strict=True):
        assert one_hot_sensitivity(cells, neighbours) == bound


# --- rows -----------------------------------------------------------------------------------------


def test_long_rows_keep_their_direction() -> None:
    """A row outside the ball is scaled back, not bent."""
    ball = Ball(radius=1.0)
    rows = ball.from_grid(ball.to_grid(np.array([[30.0, 40.0], [3e300, -4e300]])).astype(float))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0.6, -0.8]]), abs=2.0 * ball.step)


@pytest.mark.parametrize(
    "region",
    [Ball(radius=3.0), Ellipsoid(shape=np.eye(2)), OuterProductBall(radius=3.0)],
    ids=["ball", "ellipsoid", "moments"],
)
def test_a_row_of_zeros_stays_zero(region: Region) -> None:
    """It has no direction to keep, and it moves no sum; the row beside it is not touched."""
    steps = region.to_grid(np.array([[0.0, 0.0], [-0.0, 0.0], [1.0, 0.0]]))
    assert not steps[:2].any()
    assert steps[2, 0] > 0


def test_box_clips_each_coordinate_by_itself() -> None:
    """One-sided bounds: what is below goes up to low, what is above down to high, zero to low."""
    box = Box(low=(2.0, -5.0), high=(3.0, -4.0))
    rows = np.array([[0.0, 0.0], [2.5, -4.5], [1e308, -1e308], [-1.0, 1.0]])
    clipped = box.from_grid(box.to_grid(rows).astype(float))
    assert clipped.tolist() == [[2.0, -4.0], [2.5, -4.5], [3.0, -5.0], [2.0, -4.0]]


def test_box_rounds_its_bounds_inwards() -> None:
    """Bounds between two grid points: no integer lies outside, also after rounding to zero."""
    box = Box(low=(1.0 / 3.0, -1.0), high=(2.0 / 3.0, -1.0 / 3.0))
    low, high = box.bounds_in_steps
    assert (low * box.step >= box.low).all()
    assert (high * box.step <= box.high).all()
    steps = box.to_grid(np.array([[-9.0, -9.0], [9.0, 9.0], [0.5, -0.5]]))
    assert (steps >= low).all()
    assert (steps <= high).all()


def test_whitening_and_back() -> None:
    """W^-1 takes the ellipsoid to the unit ball, and from_grid undoes it, row and matrix alike."""
    region = Ellipsoid(shape=SHAPE)
    assert region.whiten @ SHAPE == pytest.approx(np.eye(3), abs=1e-12)
    inside = SHAPE @ np.array([0.3, -0.4, 0.5])
    steps = region.to_grid(inside[np.newaxis, :])[0].astype(float)
    assert steps * region.step == pytest.approx([0.3, -0.4, 0.5], abs=2.0 * region.step)
    assert region.from_grid(steps) == pytest.approx(inside, abs=10.0 * region.step)
    assert region.from_grid(np.eye(3)) == pytest.approx(SHAPE * region.step, rel=1e-15)


def test_ellipsoid_of_a_scaled_identity_is_a_ball() -> None:
    """Two roads to the same integers when nothing is rounded: W = 4 I against radius 4."""
    rows = np.random.default_rng(1).normal(size=(50, 3)) * 5.0
    ball, ellipsoid = Ball(radius=4.0), Ellipsoid(shape=4.0 * np.eye(3))
    assert ball.to_grid(rows).tolist() == ellipsoid.to_grid(rows).tolist()


def test_ellipsoid_takes_rows_beyond_overflow() -> None:
    """A finite row of any size ends inside the ball."""
    region = Ellipsoid(shape=SHAPE)
    rows = region.to_grid(np.array([[1e308, -1e308, 1e308], [1e308, 1e-308, 0.0]]))
    for row in rows:
        assert 0 < squared(row) <= region.squared_sensitivity(Neighbours.ZERO_OUT)
    thin = Ellipsoid(shape=0.01 * np.eye(2))  # whitening alone would overflow, on either side
    steps = thin.to_grid(np.array([[1e308, 0.0], [-1e308, 0.0]]))
    assert steps.tolist() == [[2**25, 0], [-(2**25), 0]]


def test_ellipsoid_is_kept_in_double_precision() -> None:
    """A matrix of whole numbers is taken, and what is inverted and multiplied is float64."""
    whole = np.array([[2, 0], [0, 1]])
    assert Ellipsoid(shape=whole).shape.dtype == np.float64


def test_answers_are_rounded_and_not_clipped() -> None:
    """An answer may be far outside the region; it is whitened and rounded to the nearest step."""
    region = Ellipsoid(shape=SHAPE)
    answer = np.array([30.0, -20.0, 10.0])
    steps = region.round_answer(answer)
    assert region.from_grid(steps.astype(float)) == pytest.approx(answer, abs=4.0 * region.step)
    far = region.round_answer(np.array([1e300, 1e300, -1e300]))
    assert np.abs(far).max() == 2**61


def test_answers_that_differ_within_the_region_stay_close() -> None:
    """Long answers, a thin ellipsoid: the stated distance holds in integers, without waste."""
    generator = np.random.default_rng(2)
    turn, _ = np.linalg.qr(generator.normal(size=(2, 2)))
    shape = turn * np.array([1.0, 1e-8])
    region = Ellipsoid(shape=shape)
    (a, b), (c, d) = ([Fraction(entry) for entry in row] for row in shape.tolist())
    farthest = 0
    for _ in range(500):
        answer, direction = generator.normal(size=(2, 2))
        other = answer * 1e4 + shape @ (direction / np.linalg.norm(direction) * (1.0 - 1e-5))
        x, y = (Fraction(v) - Fraction(w) for v, w in zip(other, answer * 1e4, strict=True))
        whitened = ((d * x - b * y) / (a * d - b * c), (a * y - c * x) / (a * d - b * c))
        if whitened[0] ** 2 + whitened[1] ** 2 <= 1:  # exactly inside the region
            moved = squared(region.round_answer(other) - region.round_answer(answer * 1e4))
            farthest = max(farthest, moved)
    assert 0.99 * region.answer_sensitivity**2 <= farthest <= region.answer_sensitivity**2
    assert region.answer_sensitivity < 1.00001 * 2**25


@pytest.mark.parametrize(("numbers", "root"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4)])
def test_distance_of_answers_by_hand(numbers: int, root: int) -> None:
    """W = I: 2^25 steps, one for the floats of the inverse, and sqrt(D) rounded up for rounding."""
    assert Ellipsoid(shape=np.eye(numbers)).answer_sensitivity == 2**25 + 1 + root


@pytest.mark.parametrize("unit", [1.0, 2.0**9, 2.0**-9])
def test_distance_of_answers_pays_for_a_thin_ellipsoid(unit: float) -> None:
    """diag(1, 2^-27) inverts exactly; 1.01 D 2^-52 |A||W| 2^25 = 2.02 steps, whatever the unit."""
    thin = Ellipsoid(shape=unit * np.diag([1.0, 2.0**-27]))
    assert thin.answer_sensitivity == 2**25 + 3 + 2


def test_triangle_keeps_the_frobenius_product() -> None:
    """The inner product of two triangles is that of the two matrices, (x'y)^2."""
    region = OuterProductBall(radius=3.0)
    x, y = np.array([1.0, -0.5, 2.0]), np.array([0.5, 1.5, 1.0])
    first, second = region.from_grid(region.to_grid(np.array([x, y])).astype(float))
    assert first @ second == pytest.approx(float(x @ y) ** 2, rel=1e-6)
    assert first @ second == pytest.approx(
        float(np.trace(np.outer(x, x) @ np.outer(y, y))), rel=1e-6
    )
    assert first @ first == pytest.approx(float(x @ x) ** 2, rel=1e-6)


@pytest.mark.parametrize("columns", [1, 2, 24])
def test_widths(columns: int) -> None:
    """A ball keeps the columns; second moments need the upper triangle."""
    assert Ball(radius=1.0).width(columns) == columns
    assert OuterProductBall(radius=1.0).width(columns) == columns * (columns + 1) / 2


def test_widths_of_fixed_regions() -> None:
    """A box and an ellipsoid know their columns and refuse others."""
    for region in (Box(low=(0.0,) * 3, high=(1.0,) * 3), Ellipsoid(shape=np.eye(3))):
        assert region.width(3) == 3
        with pytest.raises(InvalidParameterError, match="rows must be of 3 columns, got rows=4"):
            region.width(4)


def test_triangle_is_limited() -> None:
    """2^20 numbers is what the replace-one bound allows for."""
    region = OuterProductBall(radius=1.0)
    assert region.width(1447) <= 2**20
    with pytest.raises(InvalidParameterError, match="rows must be of at most 1,447 columns"):
        region.width(1448)


def test_a_float_that_rounds_out_is_pulled_back_in() -> None:
    """Rows on the sphere whose floats overshoot: the integer check has the last word."""
    ball = Ball(radius=1.0)
    angles = np.random.default_rng(3).normal(size=(20_000, 7))
    rows = angles / np.linalg.norm(angles, axis=1, keepdims=True) * (1.0 + 1e-9)
    steps = ball.to_grid(rows)
    lengths = np.square(steps).sum(axis=1)
    assert int(lengths.max()) <= ball.radius_in_steps**2
    exact = Ball(radius=math.sqrt(2.0))
    diagonal = exact.to_grid(np.full((1, 2), 5.0))
    assert squared(diagonal[0]) <= exact.radius_in_steps**2


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_rows_are_refused_by_id(bad: float) -> None:
    """Every offending row is named: by position, or by the house's own ids."""
    rows = np.ones((5, 2))
    rows[1, 0] = rows[4, 1] = bad
    with pytest.raises(InvalidDataError, match="every value is finite") as caught:
        refuse_non_finite(rows)
    assert caught.value.row_ids == (1, 4)
    ids = np.array(["a", "b", "c", "d", "e"])
    with pytest.raises(InvalidDataError, match="b, e") as caught:
        refuse_non_finite(rows, ids)
    assert caught.value.row_ids == ("b", "e")


def test_finite_rows_come_back_as_they_are() -> None:
    """Values stay, whatever the layout; whole numbers become floats; nobody is nobody."""
    rows = np.arange(12.0).reshape(3, 4)
    for same in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2]):
        assert np.array_equal(refuse_non_finite(same), rows)
    assert refuse_non_finite(np.zeros((0, 3))).shape == (0, 3)
    assert refuse_non_finite(np.array([[1, 2]])).dtype == np.float64


@pytest.mark.parametrize("shape", [(), (3,), (3, 0), (2, 2, 2)])
def test_what_is_not_a_matrix_is_refused(shape: tuple[int, ...]) -> None:
    """A matrix has two axes and at least one column; the error says how many axes came."""
    with pytest.raises(InvalidParameterError, match=f"rows must be .* got rows='{len(shape)} axes"):
        refuse_non_finite(np.zeros(shape))


@pytest.mark.parametrize("rows", [[["meter 4711"]], [[1j]]], ids=["text", "complex"])
def test_rows_that_are_no_numbers_are_refused_unquoted(rows: list[list[object]]) -> None:
    """The error in house says which argument, and quotes no cell of it."""
    with pytest.raises(InvalidDataError, match="'rows is an array of real numbers'") as caught:
        refuse_non_finite(np.array(rows))
    assert caught.value.row_ids == ()


@pytest.mark.parametrize("reach", [1e-250, 1e250, 1e-300, 1e300])
def test_sizes_near_the_ends_of_the_floats_are_refused(reach: float) -> None:
    """The ends themselves are outside, for a radius and for the bounds of a box."""
    rule = "must be of a size between 1e-250 and 1e250, got"
    with pytest.raises(InvalidParameterError, match=f"^radius {rule}"):
        Ball(radius=reach)
    with pytest.raises(InvalidParameterError, match=f"^low, high {rule}"):
        Box(low=(0.0,), high=(reach,))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 1e251, 1e-251, "1", True])
def test_bad_radius_is_named(bad: object) -> None:
    """A radius is a positive number of a sensible size."""
    with pytest.raises(InvalidParameterError, match="radius must be") as caught:
        Ball(radius=bad)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.value is bad


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", True])
def test_bad_radius_of_moments_is_named(bad: object) -> None:
    """The same for second moments."""
    with pytest.raises(InvalidParameterError, match="radius must be") as caught:
        OuterProductBall(radius=bad)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.value is bad


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ((), ()),
        ((0.0,), (0.0,)),
        ((1.0,), (0.0,)),
        ((0.0,), (1.0, 2.0)),
        ((0.0, math.nan), (1.0, 1.0)),
        ((-math.inf,), (0.0,)),
        ((0.0, 3.0), (1.0, 2.0)),
    ],
)
def test_box_without_an_inside_is_refused(low: tuple[float, ...], high: tuple[float, ...]) -> None:
    """Bounds are finite, of one length, the lower one below."""
    with pytest.raises(InvalidParameterError, match=r"low, high must be (a finite|of one length)"):
        Box(low=low, high=high)


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        (np.ones(3), "a square matrix"),
        (np.ones((2, 3)), "a square matrix"),
        (np.zeros((2, 2)), "condition number below 1e10"),
        (np.ones((2, 2)), "condition number below 1e10"),
        (np.diag([1.0, 1e-11]), "condition number below 1e10"),
        (np.diag([1.0, 1e-10]), "condition number below 1e10"),
        (np.eye(2) * 1e-101, "semi-axes between 1e-100 and 1e100"),
        (np.eye(2) * 1e-100, "semi-axes between 1e-100 and 1e100"),
        (np.eye(2) * 1e101, "semi-axes between 1e-100 and 1e100"),
        (np.array([[1.0, math.nan], [0.0, 1.0]]), "finite"),
        (np.array([[1.0, math.inf], [0.0, 1.0]]), "finite"),
    ],
    ids=range(11),
)
def test_shape_that_cannot_be_inverted_is_refused(shape: Floats, rule: str) -> None:
    """A flat or broken ellipsoid is refused, with the reason."""
    with pytest.raises(InvalidParameterError, match="shape must be") as caught:
        Ellipsoid(shape=shape)
    assert rule in str(caught.value)


@pytest.mark.parametrize("radius", [1.0, 0.3, 7.5])
def test_compiled_clipping_is_the_plain_computation(radius: float) -> None:
    """Machine code and the same lines run by Python agree to the last bit, on odd rows too."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(200, 7)) * np.geomspace(1e-300, 1e300, 200)[:, None]
    rows[0] = 0.0
    rows[1] = 5e-324
    rows[2] = 1.7e308
    rows[3:6, 2] = (math.nan, math.inf, -math.inf)
    rows[6] = math.nan
    ball = Ball(radius=radius)
    plain = np.empty(rows.shape, dtype=np.int64)
    with np.errstate(all="ignore"):
        sensitivity._clip_rows.py_func(  # type: ignore[attr-defined]
            rows, radius, ball.step, ball.radius_in_steps**2, plain
        )
    assert np.array_equal(ball.to_grid(rows), plain)
    assert np.array_equal(ball.to_grid(np.asfortranarray(rows)), plain)
    assert not plain[[0, 3, 4, 5, 6]].any()  # no number is 0, not a long loop or a giant


def test_sums_by_cell_add_up_block_by_block() -> None:
    """Any partition of the customers gives the same integers; no data is added nowhere."""
    generator = np.random.default_rng(4)
    rows, cells = generator.normal(size=(500, 3)), generator.integers(-1, 4, size=500)
    ball = Ball(radius=1.0)
    whole = cell_sums(rows, cells, region=ball, n_cells=4)
    parts = [
        cell_sums(rows[part], cells[part], region=ball, n_cells=4)
        for part in np.array_split(generator.permutation(500), 7)
    ]
    assert np.array_equal(np.add.reduce(parts), whole)
    for cell in range(4):
        assert np.array_equal(ball.to_grid(rows[cells == cell]).sum(axis=0), whole[cell])
