"""Answers that are not sums: whitened, rounded, with noise of the shape of their differences."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Tier
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid, NoisyAnswer, gaussian_answer
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import Released, Secret

Ample = Callable[..., Budget]
Draws = list[tuple[str, float, int]]
RHO = 10**16  # 0.01
STEP = 2.0**-25
SHAPE = np.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.3], [0.1, 0.0, 0.5]])


def squared(vector: NDArray[np.int64]) -> int:
    """Return the squared length in Python's integers."""
    return sum(int(k) ** 2 for k in vector)


def release(
    budget: Budget,
    answer: Any,  # noqa: ANN401 - also wrong on purpose
    *,
    shape: Floats = SHAPE,
    rho: int = RHO,
) -> Released[NoisyAnswer]:
    """Release an answer."""
    return gaussian_answer(
        Secret(answer),
        differences=Ellipsoid(shape=shape),
        rho_units=rho,
        budget=budget,
        tag="centroid",
    )


# --- the mechanism --------------------------------------------------------------------------------


def test_answer_without_noise_is_the_answer(ample: Ample, silent: NoiseSource) -> None:
    """A vector far outside the ellipsoid of its differences is released as it is, rounded."""
    answer = np.array([12.5, -3.25, 700.0])
    with noise.simulate(silent):
        released = release(ample(tier=Tier.INSTANCE), answer)
    assert released.value.value == pytest.approx(answer, abs=4.0 * STEP)
    assert released.simulated


def test_answer_is_charged_and_drawn_at_its_price(
    ample: Ample, silent: NoiseSource, recorded: Draws
) -> None:
    """One charge; the scale is the smallest float with sensitivity^2 <= 2 rho sigma^2."""
    budget = ample(tier=Tier.INSTANCE)
    with noise.simulate(silent):
        released = release(budget, np.zeros(3))
    (spend,) = budget.spends
    assert released.spends == (spend,)
    assert (spend.tag, spend.mechanism, spend.rho_units) == ("centroid", "gaussian_answer", RHO)
    ((kind, sigma, size),) = recorded
    assert (kind, size, sigma) == ("gaussian", 3, released.value.noise_scale)
    sensitivity = Ellipsoid(shape=SHAPE).answer_sensitivity
    assert sensitivity**2 <= Fraction(2, 100) * Fraction(sigma) ** 2
    assert sensitivity**2 > Fraction(2, 100) * Fraction(math.nextafter(sigma, 0.0)) ** 2
    assert spend.drawn == {"numbers": 3, "squared": sensitivity**2, "scale": sigma, "step": STEP}


def test_covariance_is_known(ample: Ample, silent: NoiseSource) -> None:
    """In the coordinates of the data the noise has covariance sigma^2 step^2 W W'."""
    with noise.simulate(silent):
        answer = release(ample(tier=Tier.INSTANCE), np.zeros(3)).value
    sigma = answer.noise_scale * STEP
    assert sigma == pytest.approx(1.0 / math.sqrt(0.02), rel=1e-6)
    assert answer.covariance == pytest.approx(sigma**2 * SHAPE @ SHAPE.T, rel=1e-12)


def test_steps_are_whole_and_cannot_be_changed(ample: Ample) -> None:
    """With real noise: int64, read-only, publishable; the value is W times steps."""
    answer = release(ample(tier=Tier.INSTANCE), np.zeros(3)).publish()
    assert answer.steps.dtype == np.int64
    assert not answer.steps.flags.writeable
    assert answer.value == pytest.approx(SHAPE @ (answer.steps * STEP), rel=1e-15)


def test_global_tier_is_refused(ample: Ample) -> None:
    """Its noise depends on the data at hand, so it is not differential privacy: nothing charged."""
    budget = ample(tier=Tier.GLOBAL)
    with pytest.raises(
        InvalidParameterError, match="tier must be instance for an answer"
    ) as caught:
        release(budget, np.zeros(3))
    assert (caught.value.field, caught.value.value) == ("tier", "global")
    assert budget.spends == ()


@pytest.mark.parametrize(
    ("answer", "axes"), [(np.zeros((3, 3)), 2), (np.zeros(2), 1), (np.zeros(4), 1), (0.0, 0)]
)
def test_an_answer_is_one_vector(ample: Ample, answer: object, axes: int) -> None:
    """A matrix, or a vector of another length, is refused after the charge, without its values."""
    budget = ample(tier=Tier.INSTANCE)
    with pytest.raises(InvalidParameterError, match="answer must be a vector of 3 numbers") as e:
        release(budget, answer)
    assert (e.value.field, e.value.value) == ("answer", f"{axes} axes")
    assert len(budget.spends) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_answer_is_finite(ample: Ample, bad: float) -> None:
    """Whether it is, is private: it is found out after the charge."""
    budget = ample(tier=Tier.INSTANCE)
    with pytest.raises(InvalidDataError) as caught:
        release(budget, np.array([0.0, bad, 1.0]))
    assert caught.value.rule == "every value is finite (no NaN, no infinity)"
    assert caught.value.row_ids == ()
    assert len(budget.spends) == 1


@pytest.mark.parametrize("answer", [["meter 4711"], [1j]], ids=["text", "complex"])
def test_an_answer_that_is_no_numbers_is_refused_unquoted(ample: Ample, answer: object) -> None:
    """The error says which argument, and quotes no entry of it."""
    with pytest.raises(InvalidDataError, match="'answer is an array of real numbers'") as caught:
        release(ample(tier=Tier.INSTANCE), np.array(answer))
    assert "4711" not in str(caught.value)


# --- ellipsoids -----------------------------------------------------------------------------------


def test_whitening_takes_the_ellipsoid_to_the_unit_ball() -> None:
    """W^-1 W = I."""
    assert Ellipsoid(shape=SHAPE).whiten @ SHAPE == pytest.approx(np.eye(3), abs=1e-12)


def test_answers_are_rounded_to_the_nearest_step() -> None:
    """In whitened coordinates; ties go to the even step, and nothing is clipped."""
    region = Ellipsoid(shape=np.diag([2.0, 1.0]))
    steps = region.round_answer(np.array([2.0 * STEP * 100.75, -STEP * 3.25]))
    assert steps.tolist() == [101, -3]
    assert region.round_answer(np.array([STEP, STEP * 1.5])).tolist() == [0, 2]
    assert region.round_answer(np.array([3000.0, -7.0])).tolist() == [1500 * 2**25, -7 * 2**25]


def test_answers_saturate_before_int64_overflows() -> None:
    """Beyond 2^61 steps an answer stays at 2^61: no data can wrap, and none moves apart."""
    region = Ellipsoid(shape=np.eye(3))
    far = region.round_answer(np.array([1e300, -1e300, 2.0**35]))
    assert far.tolist() == [2**61, -(2**61), 2**60]
    assert far.dtype == np.int64


def test_answers_that_differ_within_the_ellipsoid_stay_close() -> None:
    """Long answers, a thin ellipsoid: the stated distance holds in integers, and is attained."""
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
        if whitened[0] ** 2 + whitened[1] ** 2 <= 1:  # exactly inside the ellipsoid
            moved = squared(region.round_answer(other) - region.round_answer(answer * 1e4))
            farthest = max(farthest, moved)
    assert 0.99 * region.answer_sensitivity**2 <= farthest <= region.answer_sensitivity**2
    assert region.answer_sensitivity < 1.00001 * 2**25


@pytest.mark.parametrize(("numbers", "root"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4)])
def test_distance_of_answers_by_hand(numbers: int, root: int) -> None:
    """W = I: 2^25 steps, one for the floats of the inverse, and sqrt(D) rounded up for rounding."""
    assert Ellipsoid(shape=np.eye(numbers)).answer_sensitivity == 2**25 + 1 + root


@pytest.mark.parametrize("unit", [1.0, 2.0**9, 2.0**-9])
def test_distance_of_answers_covers_a_thin_ellipsoid(unit: float) -> None:
    """diag(1, 2^-27) inverts exactly; 1.01 D 2^-52 |A||W| 2^25 = 2.02 steps, in any unit."""
    thin = Ellipsoid(shape=unit * np.diag([1.0, 2.0**-27]))
    assert thin.answer_sensitivity == 2**25 + 3 + 2


@pytest.mark.parametrize("off", [1e-3, -1e-3, 0.25])
def test_distance_of_answers_covers_an_inverse_that_is_off(off: float) -> None:
    """Should the computed inverse not be the inverse, what it is off by is paid for."""
    region = Ellipsoid(shape=SHAPE)
    vars(region)["whiten"] = np.linalg.inv(SHAPE) * (1.0 + off)
    norm = abs(off) * math.sqrt(3.0)  # of A W - I
    assert region.answer_sensitivity == pytest.approx(2**25 * (1.0 + 1.01 * norm), rel=1e-6)


def test_ellipsoid_is_kept_in_double_precision() -> None:
    """A matrix of whole numbers is accepted; what is inverted and multiplied is float64."""
    whole = np.array([[2, 0], [0, 1]])
    assert Ellipsoid(shape=whole).shape.dtype == np.float64


def test_ellipsoid_keeps_its_own_shape() -> None:
    """Writing to the matrix that it was made from changes nothing in it."""
    shape = np.eye(2)
    region = Ellipsoid(shape=shape)
    shape *= 10.0
    assert np.array_equal(region.shape, np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        region.shape[0, 0] = 2.0


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        (np.ones(3), "a square matrix"),
        (np.ones((2, 3)), "a square matrix"),
        (np.ones((2, 2, 2)), "a square matrix"),
        (np.zeros((2, 2)), "condition number below 1e10"),
        (np.ones((2, 2)), "condition number below 1e10"),
        (np.diag([1.0, 1e-11]), "condition number below 1e10"),
        (np.diag([1.0, 1e-10]), "condition number below 1e10"),
        (np.eye(2) * 1e-101, "semi-axes between 1e-100 and 1e100"),
        (np.eye(2) * 1e-100, "semi-axes between 1e-100 and 1e100"),
        (np.eye(2) * 1e100, "semi-axes between 1e-100 and 1e100"),
        (np.array([[1.0, math.nan], [0.0, 1.0]]), "finite"),
        (np.array([[1.0, math.inf], [0.0, 1.0]]), "finite"),
    ],
    ids=range(12),
)
def test_shape_that_cannot_be_inverted_is_refused(shape: Floats, rule: str) -> None:
    """A flat or broken ellipsoid is refused, with the reason."""
    with pytest.raises(InvalidParameterError, match="shape must be") as caught:
        Ellipsoid(shape=shape)
    assert rule in caught.value.rule
    assert caught.value.rule in (
        "a square matrix",
        "finite and of condition number below 1e10, semi-axes between 1e-100 and 1e100",
    )
    assert caught.value.field == "shape"


def test_error_about_a_shape_states_it() -> None:
    """The size of what is no square matrix, and the semi-axes of what cannot be inverted."""
    with pytest.raises(InvalidParameterError) as caught:
        Ellipsoid(shape=np.ones((2, 3)))
    assert caught.value.value == (2, 3)
    with pytest.raises(InvalidParameterError) as caught:
        Ellipsoid(shape=np.diag([2.0, 1e-11]))
    assert caught.value.value == "semi-axes 1.0e-11 to 2.0e+00"
