"""Gaussian mechanisms: exact without noise, the right scale of it, and always on the grid."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.counting import gaussian_histogram
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms import gaussian
from wattveil.privacy.mechanisms.gaussian import (
    NoisyVector,
    gaussian_answer,
    gaussian_sum,
)
from wattveil.privacy.mechanisms.moments import gaussian_second_moment
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball, Box, Ellipsoid, Region

Ample = Callable[..., Budget]
Draws = list[tuple[str, float, int]]
RHO = 10**16  # 0.01
SHAPE = np.array([[2.0, 0.5], [0.0, 1.0]])


def made_up_rows() -> NDArray[np.float64]:
    """Return rows inside every region used here."""
    return np.random.default_rng(7).uniform(-0.4, 0.4, size=(200, 2))


@pytest.mark.parametrize(
    "region",
    [Ball(radius=1.0), Box(low=(-1.0, -1.0), high=(0.5, 2.0)), Ellipsoid(shape=SHAPE)],
    ids=["ball", "box", "ellipsoid"],
)
def test_sum_without_noise_is_the_sum(ample: Ample, silent: NoiseSource, region: Region) -> None:
    """The value is the exact sum but for one grid step a customer."""
    rows = made_up_rows()
    with noise.rehearse(silent):
        released = gaussian_sum(
            Secret(rows), region=region, rho_units=RHO, budget=ample(), tag="sum"
        )
    error = 2.0 * region.step * len(rows) * float(np.abs(region.from_grid(np.eye(2))).sum())
    assert released.value.value == pytest.approx(
        rows.sum(axis=0), abs=max(error / region.step, 2.0 * len(rows) * region.step)
    )


def test_long_rows_count_with_the_radius(ample: Ample, silent: NoiseSource) -> None:
    """One customer of a thousand kW counts as one of the radius."""
    rows = np.array([[1000.0, 0.0], [0.25, 0.0]])
    with noise.rehearse(silent):
        released = gaussian_sum(
            Secret(rows), region=Ball(radius=1.0), rho_units=RHO, budget=ample(), tag="sum"
        )
    assert released.value.value.tolist() == [1.25, 0.0]


def test_sum_does_not_depend_on_the_chunks(
    ample: Ample, silent: NoiseSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven rows at once or all at once: the same integers."""
    totals = []
    for at_once in (7, 10_000):
        monkeypatch.setattr(gaussian, "_ROWS_AT_ONCE", at_once)
        with noise.rehearse(silent):
            released = gaussian_sum(
                Secret(made_up_rows()),
                region=Ball(radius=0.3),
                rho_units=RHO,
                budget=ample(),
                tag="sum",
            )
        totals.append(released.value.steps.tolist())
    assert totals[0] == totals[1]


def test_histogram_without_noise_counts(ample: Ample, silent: NoiseSource) -> None:
    """Counts are exact; a customer without data is in no cell; an empty cell counts 0."""
    cells = Secret(np.array([0, 2, 2, -1, 2, 0, -1]))
    with noise.rehearse(silent):
        released = gaussian_histogram(cells, n_cells=4, rho_units=RHO, budget=ample(), tag="n")
    assert released.value.value.tolist() == [2.0, 0.0, 3.0, 0.0]


def test_answer_without_noise_is_the_answer(ample: Ample, silent: NoiseSource) -> None:
    """A vector far outside the region of its differences is released as it is, rounded."""
    answer = np.array([12.5, -3.25])
    region = Ellipsoid(shape=SHAPE)
    with noise.rehearse(silent):
        released = gaussian_answer(
            Secret(answer), differences=region, rho_units=RHO, budget=ample(), tag="c"
        )
    assert released.value.value == pytest.approx(answer, abs=4.0 * region.step)


def test_second_moment_without_noise(ample: Ample, silent: NoiseSource) -> None:
    """The matrix is the sum of outer products, symmetric."""
    rows = made_up_rows()
    with noise.rehearse(silent):
        released = gaussian_second_moment(
            Secret(rows), radius=1.0, rho_units=RHO, budget=ample(), tag="m"
        )
    assert released.value.value == pytest.approx(rows.T @ rows, abs=1e-5)
    assert np.array_equal(released.value.value, released.value.value.T)
    assert released.value.columns == 2


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("rho", [10**5, 10**13, 28014427209506479 // 3, 10**18])
def test_noise_scale_is_sensitivity_over_root_two_rho(
    ample: Ample, silent: NoiseSource, recorded: Draws, neighbours: Neighbours, rho: int
) -> None:
    """The scale asked for is the least float with sensitivity^2 <= 2 rho sigma^2, by hand."""
    replace = neighbours is Neighbours.REPLACE_ONE
    rows, budget = Secret(made_up_rows()), ample(neighbours)
    with noise.rehearse(silent):
        # radius 3 in steps of 2^-24; replace-one: the diameter
        gaussian_sum(rows, region=Ball(radius=3.0), rho_units=rho, budget=budget, tag="t")
        # box [-1, 0.5] x [-1, 2] in steps of 2^-24: corner 1 + 4, diagonal 2.25 + 9
        region = Box(low=(-1.0, -1.0), high=(0.5, 2.0))
        gaussian_sum(rows, region=region, rho_units=rho, budget=budget, tag="t")
        # unit ball in steps of 2^-25
        ellipsoid = Ellipsoid(shape=SHAPE)
        gaussian_sum(rows, region=ellipsoid, rho_units=rho, budget=budget, tag="t")
        # counts in steps of 2^-25: one cell, then four
        for n_cells in (1, 4):
            gaussian_histogram(
                Secret(np.zeros(3, dtype=np.int64)),
                n_cells=n_cells,
                rho_units=rho,
                budget=budget,
                tag="t",
            )
        # differences within the unit ball, and ceil(sqrt 2) steps for rounding: W inverts cleanly
        gaussian_answer(
            Secret(np.zeros(2)), differences=ellipsoid, rho_units=rho, budget=budget, tag="t"
        )
    expected = [
        9 * 4**24 * (4 if replace else 1),
        Fraction(45, 4) * 4**24 if replace else 5 * 4**24,
        4**25 * (4 if replace else 1),
        4**25,
        4**25 * (2 if replace else 1),
        ellipsoid.answer_sensitivity**2,
    ]
    assert 2**25 + 2 <= ellipsoid.answer_sensitivity <= 2**25 + 3
    assert [(kind, size) for kind, _, size in recorded] == [
        ("gaussian", size) for size in (2, 2, 2, 1, 4, 2)
    ]
    for squared, (_, sigma, _) in zip(expected, recorded, strict=True):
        paid = 2 * Fraction(rho, 10**18)
        assert squared <= paid * Fraction(sigma) ** 2
        assert squared > paid * Fraction(math.nextafter(sigma, 0.0)) ** 2


@pytest.mark.parametrize("neighbours", Neighbours)
def test_noise_scale_of_second_moments(
    ample: Ample, silent: NoiseSource, recorded: Draws, neighbours: Neighbours
) -> None:
    """radius^2 = 4 in steps of 2^-23; replace-one: sqrt 2 of it and a thousandth at most."""
    with noise.rehearse(silent):
        gaussian_second_moment(
            Secret(made_up_rows()), radius=2.0, rho_units=RHO, budget=ample(neighbours), tag="t"
        )
    ((kind, sigma, size),) = recorded
    assert (kind, size) == ("gaussian", 3)
    paid = 2 * Fraction(RHO, 10**18) * Fraction(sigma) ** 2
    if neighbours is Neighbours.ZERO_OUT:
        assert paid == pytest.approx(Fraction(4**25), rel=1e-12)
        assert paid >= 4**25
    else:
        assert 2 * 4**25 < paid < Fraction(2001, 1000) * 4**25


@pytest.mark.parametrize("neighbours", Neighbours)
def test_every_released_number_is_on_the_grid(ample: Ample, neighbours: Neighbours) -> None:
    """With real noise: whole steps, and values that are exact multiples of the step."""
    budget, rows = ample(neighbours), Secret(made_up_rows())
    vectors = [
        gaussian_sum(rows, region=Ball(radius=1.0), rho_units=RHO, budget=budget, tag="t").value,
        gaussian_sum(
            rows,
            region=Box(low=(0.0, 0.0), high=(1.0, 3.0)),
            rho_units=RHO,
            budget=budget,
            tag="t",
        ).value,
        gaussian_histogram(
            Secret(np.arange(6)), n_cells=6, rho_units=RHO, budget=budget, tag="t"
        ).value,
        gaussian_second_moment(
            rows, radius=1.0, rho_units=RHO, budget=budget, tag="t"
        ).value.triangle,
    ]
    for vector in vectors:
        assert vector.steps.dtype == np.int64
        assert (vector.value / vector.region.step == vector.steps).all()
        assert not vector.steps.flags.writeable


def test_covariance_is_known(ample: Ample, silent: NoiseSource) -> None:
    """In the data's coordinates the noise has covariance sigma^2 step^2 W W'."""
    region = Ellipsoid(shape=SHAPE)
    with noise.rehearse(silent):
        vector = gaussian_answer(
            Secret(np.zeros(2)), differences=region, rho_units=RHO, budget=ample(), tag="t"
        ).value
    sigma = vector.noise_scale * 2.0**-25
    assert sigma == pytest.approx(1.0 / math.sqrt(0.02), rel=1e-6)
    assert vector.covariance == pytest.approx(sigma**2 * SHAPE @ SHAPE.T, rel=1e-12)
    assert vector.std == pytest.approx(np.sqrt(np.diag(vector.covariance)), rel=1e-12)


def test_std_of_isotropic_noise_is_one_number() -> None:
    """In a ball every entry has the same standard deviation, in the data's units."""
    ball = Ball(radius=5.0)
    vector = NoisyVector(steps=np.arange(3), noise_scale=4096.0, region=ball)
    assert vector.std == pytest.approx([4096.0 * ball.step] * 3)
    assert vector.covariance == pytest.approx(np.eye(3) * (4096.0 * ball.step) ** 2)


def test_std_of_a_matrix_is_smaller_off_the_diagonal(ample: Ample, silent: NoiseSource) -> None:
    """Off-diagonal entries travel times sqrt 2, so their noise is divided by it."""
    with noise.rehearse(silent):
        matrix = gaussian_second_moment(
            Secret(made_up_rows()), radius=1.0, rho_units=RHO, budget=ample(), tag="m"
        ).value
    sigma = matrix.triangle.noise_scale * matrix.triangle.region.step
    half = sigma / math.sqrt(2.0)
    assert matrix.std == pytest.approx(np.array([[sigma, half], [half, sigma]]))


@pytest.mark.parametrize("customers", [0, 1])
def test_nobody_and_one_get_the_same_kind_of_answer(ample: Ample, customers: int) -> None:
    """An empty data set is a valid data set: noise around zero, same shape, same price."""
    budget = ample()
    rows = Secret(np.zeros((customers, 3)))
    total = gaussian_sum(rows, region=Ball(radius=1.0), rho_units=RHO, budget=budget, tag="t")
    count = gaussian_histogram(
        Secret(np.zeros(customers, dtype=np.int64)),
        n_cells=2,
        rho_units=RHO,
        budget=budget,
        tag="t",
    )
    moments = gaussian_second_moment(rows, radius=1.0, rho_units=RHO, budget=budget, tag="t")
    assert total.publish().value.shape == (3,)
    assert count.publish().value.shape == (2,)
    assert moments.publish().value.shape == (3, 3)
    assert (total.value.steps != 0).any()
    assert [spend.rho_units for spend in budget.spends] == [RHO] * 3


def test_spends_say_who_asked_and_for_what(ample: Ample) -> None:
    """Tag, mechanism, units and eta of each charge are on the record."""
    budget = ample()
    released = gaussian_sum(
        Secret(np.zeros((4, 9))), region=Ball(radius=1.0), rho_units=RHO, budget=budget, tag="load"
    )
    (spend,) = released.spends
    assert (spend.tag, spend.mechanism, spend.rho_units) == ("load", "gaussian_sum", RHO)
    assert (spend.response_epsilon, spend.response_delta) == (0.0, 0.0)
    # D = 9 draws of sigma = 2^25 / sqrt(0.02): (9 + (3 + 40 + 0.1414)^2) / (24 sigma^2)
    expected = (9 + (43 + math.sqrt(0.02)) ** 2) / (24 * 4**25 / 0.02)
    assert spend.eta == pytest.approx(expected, rel=1e-9, abs=0.0)  # 1e-15: no absolute slack


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "1", None])
def test_bad_rho_is_named(ample: Ample, bad: object) -> None:
    """The price is a whole number of units, at least one; nothing is recorded."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match="rho_units must be a whole number") as caught:
        gaussian_sum(
            Secret(np.zeros((2, 2))),
            region=Ball(radius=1.0),
            rho_units=bad,  # type: ignore[arg-type]  # wrong on purpose
            budget=budget,
            tag="t",
        )
    assert caught.value.value is bad
    assert budget.spends == ()


@pytest.mark.parametrize("bad", [0, -1, 1.0, True])
def test_bad_number_of_cells_is_named(ample: Ample, bad: object) -> None:
    """A table has at least one cell; nothing is recorded."""
    budget = ample()
    with pytest.raises(InvalidParameterError) as caught:
        gaussian_histogram(
            Secret(np.zeros(2, dtype=np.int64)),
            n_cells=bad,  # type: ignore[arg-type]  # wrong on purpose
            rho_units=RHO,
            budget=budget,
            tag="t",
        )
    assert (caught.value.field, caught.value.value) == ("n_cells", bad)
    assert budget.spends == ()


def test_too_little_noise_is_refused(ample: Ample) -> None:
    """Below 1,024 steps of noise the proof about the grid is not written; nothing is charged."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match="noise of 1024 grid steps") as caught:
        gaussian_sum(
            Secret(np.zeros((2, 2))),
            region=Ball(radius=1.0),
            rho_units=10**27,
            budget=budget,
            tag="t",
        )
    assert (caught.value.field, caught.value.value) == ("rho_units", 10**27)
    assert budget.spends == ()


def test_exactly_enough_noise_is_a_matter_of_the_budget(ample: Ample) -> None:
    """A radius of 2^25 steps at rho = 2^29 draws noise of 1,024 steps: only the price is wrong."""
    budget = ample()
    with pytest.raises(BudgetExceededError):
        gaussian_sum(
            Secret(np.zeros((2, 2))),
            region=Ball(radius=1.0),
            rho_units=2**29 * 10**18,
            budget=budget,
            tag="t",
        )
    assert budget.spends == ()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 2), (3, 0)])
def test_wrong_shape_is_refused(ample: Ample, shape: tuple[int, ...]) -> None:
    """Rows are a matrix; what else is said names the field and the axes, not the data."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match="rows must be a matrix"):
        gaussian_sum(
            Secret(np.zeros(shape)),
            region=Ball(radius=1.0),
            rho_units=RHO,
            budget=budget,
            tag="t",
        )
    assert budget.spends == ()


def test_an_answer_is_one_vector(ample: Ample) -> None:
    """A matrix is not an answer: its first row alone would leave."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match=r"rows must be a matrix .* got rows='3 axes'"):
        gaussian_answer(
            Secret(np.zeros((3, 2))),
            differences=Ellipsoid(shape=SHAPE),
            rho_units=RHO,
            budget=budget,
            tag="t",
        )
    assert budget.spends == ()


def test_wrong_number_of_columns_is_refused(ample: Ample) -> None:
    """A box and an ellipsoid fit their own columns only."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match="rows must be of 1 columns, got rows=2"):
        gaussian_sum(
            Secret(np.zeros((3, 2))),
            region=Box(low=(0.0,), high=(1.0,)),
            rho_units=RHO,
            budget=budget,
            tag="t",
        )
    with pytest.raises(InvalidParameterError, match="rows must be of 2 columns, got rows=3"):
        gaussian_answer(
            Secret(np.zeros(3)),
            differences=Ellipsoid(shape=SHAPE),
            rho_units=RHO,
            budget=budget,
            tag="t",
        )
    assert budget.spends == ()
