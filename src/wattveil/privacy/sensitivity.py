"""How much one customer can move a sum: clip, put on the integer grid, bound.

A region (`Ball`, `Box`, `Ellipsoid`, `OuterProductBall`) takes rows of real numbers to rows of
integers, in steps of a public grid. The bound it states holds for the integers, exactly: it is
checked in integer arithmetic, so no rounding of a float can exceed it.

Two rules make that enough for a proof (docs/proofs/integer-grid.md):

* rounding is towards zero, so a row inside the region stays inside;
* the integers of a row depend on that row alone, to the last bit: no BLAS, whose result for one
  row may change with the rows beside it. Adding or removing a row changes no other row.
"""

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from operator import mul

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.compiled import compiled
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy.guarantee import Neighbours

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GRID_BITS = 26
"""A region reaches between 2^25 and 2^26 steps: 10^11 customers fit into int64, sums of 10^8
customers are exact as float64, and noise of any sensible scale is far above one step."""


def refuse_non_finite(rows: FloatArray, row_ids: NDArray[np.generic] | None = None) -> FloatArray:
    """Return rows as a float64 matrix; refuse NaN and infinity before any clipping.

    NaN fails every comparison, so it would pass a clip untouched. The error names the offending
    rows and is for the house alone.
    """
    matrix = checks.numbers("rows", rows)
    checks.columns("rows", matrix)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad.size:
        ids = bad if row_ids is None else np.asarray(row_ids)[bad]
        raise InvalidDataError("every value is finite (no NaN, no infinity)", ids.tolist())
    return matrix


def one_hot_sensitivity(n_cells: int, neighbours: Neighbours) -> int:
    """Return how much one customer can move a table of counts, in L1 and in squared L2 alike.

    Zero-out takes 1 from one cell; replace-one also adds 1 to another, if there is another.
    """
    return 1 if neighbours is Neighbours.ZERO_OUT else min(n_cells, 2)


class Region(ABC):
    """Where one customer's contribution must lie."""

    step: float
    """Size of a grid step in the region's own coordinates, a power of two."""

    columns: int | None = None
    """How many columns a row must have; None takes any number."""

    def width(self, columns: int) -> int:
        """Return how many integers a row of so many columns becomes; refuse a wrong number."""
        if self.columns not in {None, columns}:
            raise InvalidParameterError("rows", f"of {self.columns} columns", columns)
        return columns

    @abstractmethod
    def to_grid(self, rows: FloatArray) -> IntArray:
        """Clip finite rows into the region and return them in whole steps."""

    @abstractmethod
    def squared_sensitivity(self, neighbours: Neighbours) -> int:
        """Return the largest squared distance, in steps, between sums over neighbours."""

    def from_grid(self, steps: FloatArray) -> FloatArray:
        """Return a vector in steps, or the columns of a matrix, in the data's coordinates."""
        return steps * self.step

    @property
    def step_std(self) -> FloatArray:
        """What noise of one step is in each of the data's coordinates; one number if the same."""
        return np.array(self.step)


@dataclass(frozen=True, kw_only=True)
class Ball(Region):
    """Rows of L2 norm at most ``radius``; longer ones are scaled back."""

    radius: float

    def __post_init__(self) -> None:
        """Refuse a radius that is not a size."""
        radius = checks.positive("radius", self.radius)
        self.__dict__.update(step=_step("radius", radius))

    @cached_property
    def radius_in_steps(self) -> int:
        """The radius on the grid, rounded down."""
        return math.floor(self.radius / self.step)  # exact: the step is a power of two

    def to_grid(self, rows: FloatArray) -> IntArray:
        """Scale to min(1, r / |x|), round towards zero to whole steps, check in integers."""
        steps = np.empty(rows.shape, dtype=np.int64)
        bound = self.radius_in_steps**2
        _clip_rows(np.ascontiguousarray(rows), self.radius, self.step, bound, steps)
        return steps

    def squared_sensitivity(self, neighbours: Neighbours) -> int:
        """Return r^2 when a row goes, (2 r)^2 when it is replaced."""
        return self.radius_in_steps**2 * (1 if neighbours is Neighbours.ZERO_OUT else 4)


@dataclass(frozen=True, kw_only=True)
class Box(Region):
    """Rows between ``low`` and ``high``, coordinate by coordinate."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse a box without an inside."""
        reach = max(abs(checks.finite("low, high", end)) for end in (*self.low, *self.high, 0.0))
        pairs = list(itertools.zip_longest(self.low, self.high, fillvalue=math.nan))
        if not pairs or not all(low < high for low, high in pairs):
            rule = "of one length, with low < high"
            raise InvalidParameterError("low, high", rule, (self.low, self.high))
        self.__dict__.update(step=_step("low, high", reach), columns=len(self.low))

    @cached_property
    def bounds_in_steps(self) -> tuple[IntArray, IntArray]:
        """The bounds on the grid, rounded inwards."""
        low = np.ceil(np.array(self.low) / self.step).astype(np.int64)
        return low, np.floor(np.array(self.high) / self.step).astype(np.int64)

    def to_grid(self, rows: FloatArray) -> IntArray:
        """Clip each value to its bounds, then towards zero to whole steps."""
        steps = np.trunc(np.clip(rows, self.low, self.high) / self.step).astype(np.int64)
        return np.clip(steps, *self.bounds_in_steps)

    def squared_sensitivity(self, neighbours: Neighbours) -> int:
        """Return the squared longest corner when a row goes, diagonal when it is replaced."""
        pairs = zip(*(bound.tolist() for bound in self.bounds_in_steps), strict=True)
        if neighbours is Neighbours.ZERO_OUT:  # in Python's integers: exact
            return sum(max(low * low, high * high) for low, high in pairs)
        return sum((high - low) ** 2 for low, high in pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ellipsoid(Region):
    """Rows x with |W^-1 x| <= 1 for a public matrix W: noise takes the colour of W W'.

    Clipping and noise happen in the whitened coordinates W^-1 x, where the region is the unit ball
    and the noise isotropic; un-whitening the noisy sum is post-processing.
    """

    shape: FloatArray

    def __post_init__(self) -> None:
        """Refuse a matrix that cannot be inverted with care."""
        if self.shape.ndim != 2 or len(set(self.shape.shape)) != 1:  # noqa: PLR2004 - a matrix
            raise InvalidParameterError("shape", "a square matrix", self.shape.shape)
        own = np.array(self.shape, dtype=np.float64)  # nobody else's array: it must not change
        own.setflags(write=False)
        finite = np.isfinite(own).all()
        axes = np.linalg.svd(own, compute_uv=False) if finite else np.array([math.inf])
        # Within 1e-100 and 1e100 nothing overflows; a ratio of 1e10 leaves 6 digits to the inverse.
        if not 1e-100 < axes[-1] <= axes[0] < min(1e100, 1e10 * axes[-1]):  # noqa: PLR2004 - see rule
            rule = "finite and of condition number below 1e10, semi-axes between 1e-100 and 1e100"
            raise InvalidParameterError("shape", rule, f"semi-axes {axes[-1]:.1e} to {axes[0]:.1e}")
        self.__dict__.update(shape=own, step=_UNIT_BALL.step, columns=len(own))

    @cached_property
    def whiten(self) -> FloatArray:
        """W^-1."""
        return np.asarray(np.linalg.inv(self.shape), dtype=np.float64)

    def to_grid(self, rows: FloatArray) -> IntArray:
        """Whiten row by row, then clip to the unit ball."""
        # Past 1e150 the product could overflow; such a row is clipped to the ball all the same.
        saturated = np.clip(rows, -1e150, 1e150)
        whitened = np.zeros_like(saturated)
        for column, weights in enumerate(self.whiten.T):  # a fixed order of additions per row
            whitened += saturated[:, column : column + 1] * weights
        return _UNIT_BALL.to_grid(whitened)

    def round_answer(self, vector: FloatArray) -> IntArray:
        """Return an answer whitened and rounded to whole steps, not clipped to the region."""
        # In fractions: a float product errs by more than a step when the answer is long.
        answer = [Fraction(entry) / Fraction(self.step) for entry in vector.tolist()]
        steps = [round(sum(map(mul, map(Fraction, row), answer))) for row in self.whiten.tolist()]
        return np.array([min(max(step, -_FARTHEST_STEP), _FARTHEST_STEP) for step in steps])

    @cached_property
    def answer_sensitivity(self) -> int:
        """How far apart, in steps, two rounded answers can be that differ within the region.

        With A the computed inverse |A W u| <= 1 + |A W - I|; the second term of ``error`` bounds
        what this product itself loses. Rounding moves each answer by at most sqrt(D)/2 steps.
        """
        numbers = len(self.shape)
        error = float(np.linalg.norm(self.whiten @ self.shape - np.eye(numbers)))
        sizes = float(np.linalg.norm(self.whiten) * np.linalg.norm(self.shape))
        longest = 1.0 + 1.01 * (error + numbers * 2.0**-52 * sizes)
        return math.ceil(_UNIT_BALL.radius_in_steps * longest) + math.isqrt(numbers - 1) + 1

    def from_grid(self, steps: FloatArray) -> FloatArray:
        """Un-whiten: W (k step)."""
        return self.shape @ (steps * self.step)

    @property
    def step_std(self) -> FloatArray:
        """The length of each row of W, times the step of the whitened coordinates."""
        return np.asarray(self.step * np.linalg.norm(self.shape, axis=1))

    def squared_sensitivity(self, neighbours: Neighbours) -> int:
        """Return that of the unit ball."""
        return _UNIT_BALL.squared_sensitivity(neighbours)


@dataclass(frozen=True, kw_only=True)
class OuterProductBall(Region):
    """The second moments x x' of rows of L2 norm at most ``radius``.

    A symmetric matrix travels as its upper triangle with off-diagonal entries times sqrt 2, which
    keeps the Frobenius norm: |x x'|_F = |x|^2 <= radius^2.
    """

    radius: float
    _square: Ball = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a radius that is not a size."""
        radius = checks.positive("radius", self.radius)
        self.__dict__.update(_square=Ball(radius=radius * radius))
        self.__dict__.update(step=self._square.step)

    def width(self, columns: int) -> int:
        """One integer an entry of the upper triangle."""
        numbers = columns * (columns + 1) // 2
        if numbers > _TRIANGLE_ROOT**2:
            raise InvalidParameterError("rows", "of at most 1,447 columns", columns)
        return numbers

    def to_grid(self, rows: FloatArray) -> IntArray:
        """Clip x to the radius, then x x' as a scaled upper triangle."""
        clip = Ball(radius=self.radius)
        clipped = clip.from_grid(clip.to_grid(rows).astype(np.float64))
        first, second = np.triu_indices(rows.shape[1])
        weights = np.where(first == second, 1.0, math.sqrt(2.0))
        return self._square.to_grid(clipped[:, first] * clipped[:, second] * weights)

    def squared_sensitivity(self, neighbours: Neighbours) -> int:
        """Return r^4 when a row goes; when replaced, 2 r^4 and what the grid can add.

        |x x' - y y'|^2 = |x|^4 + |y|^4 - 2 (x'y)^2 <= 2 r^4, but rounding to the grid can make the
        inner product of the two triangles slightly negative: by under 2 steps a coordinate.
        """
        reach = self._square.radius_in_steps
        if neighbours is Neighbours.ZERO_OUT:
            return reach**2
        return 2 * reach**2 + 8 * reach * _TRIANGLE_ROOT + 8 * _TRIANGLE_ROOT**2


_FARTHEST_STEP = 2**61
"""Answers saturate here: no data can overflow int64, and it moves no two answers apart."""

_TRIANGLE_ROOT = 2**10
"""Square root of the most numbers in a triangle (2^20, a matrix of 1,447 columns)."""


def _step(field: str, reach: float) -> float:
    """Return the power of two that puts ``reach`` between 2^25 and 2^26 steps, exactly."""
    if not 1e-250 < reach < 1e250:  # noqa: PLR2004 - far from the ends of float64
        raise InvalidParameterError(field, "of a size between 1e-250 and 1e250", reach)
    return math.ldexp(1.0, math.frexp(reach)[1] - GRID_BITS)


_UNIT_BALL = Ball(radius=1.0)


@compiled
def _clip_rows(
    rows: FloatArray, radius: float, step: float, squared_radius: int, steps: IntArray
) -> None:
    """Scale each row to min(radius, |x|), round towards zero to whole steps, check in integers.

    A row with NaN or infinity becomes zeros.
    """
    direction = np.empty(rows.shape[1])
    for i in range(rows.shape[0]):
        peak = 0.0
        for j in range(rows.shape[1]):
            peak = max(peak, abs(rows[i, j]))
        squared_length = 0.0
        for j in range(rows.shape[1]):
            direction[j] = rows[i, j] / peak  # no overflow at 1e300
            squared_length += direction[j] * direction[j]
        if not squared_length >= 1.0:  # zeros, or not numbers: the largest of others is 1
            steps[i] = 0
            continue
        length = math.sqrt(squared_length)
        scale = min(peak * length, radius) / length / step
        squares = 0
        for j in range(rows.shape[1]):
            steps[i, j] = int(direction[j] * scale)
            squares += steps[i, j] * steps[i, j]
        while squares > squared_radius:  # float rounding left it outside: back, towards zero
            squares = 0
            for j in range(rows.shape[1]):
                steps[i, j] = int(steps[i, j] * (1.0 - 2.0**-25))
                squares += steps[i, j] * steps[i, j]
