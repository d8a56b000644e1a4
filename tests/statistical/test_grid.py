"""Every released number is a whole multiple of a public power of two: no float leaks its noise."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.counting import gaussian_histogram
from tests.responding import randomised_response
from tests.statistical.harness import promise
from tests.statistical.transcripts import shape_transcript
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Tier
from wattveil.privacy.mechanisms.cells import NO_DATA
from wattveil.privacy.mechanisms.gaussian import (
    NoisyVector,
    gaussian_answer,
    gaussian_sum,
)
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.moments import gaussian_second_moment
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball, Box, Ellipsoid, FloatArray, Region

ROWS = Secret(np.random.default_rng(7).normal(size=(50, 300)))  # values of all 53 bits
SHAPE = np.eye(300) + np.diag(np.full(299, 0.3), 1)


def on_grid(values: FloatArray, step: float) -> bool:
    """Whether each value is a whole number of steps, the step a power of two."""
    whole = values / step  # exact
    return math.frexp(step)[0] == 0.5 and bool((whole == np.rint(whole)).all())


def of_sum(region: Region) -> NoisyVector:
    """Release the sum of the rows."""
    budget = Budget(promise())
    return gaussian_sum(
        ROWS, region=region, rho_units=budget.rho_units, budget=budget, tag="sum"
    ).value


def of_histogram() -> NoisyVector:
    """Release counts."""
    budget = Budget(promise())
    return gaussian_histogram(
        Secret(np.arange(50)), n_cells=300, rho_units=budget.rho_units, budget=budget, tag="cells"
    ).value


def of_moment() -> NoisyVector:
    """Release a second moment, as drawn."""
    budget = Budget(promise())
    return gaussian_second_moment(
        Secret(ROWS.reveal()[:, :20]),
        radius=3.7,
        rho_units=budget.rho_units,
        budget=budget,
        tag="second moment",
    ).value.triangle


@pytest.mark.parametrize(
    "release",
    [
        lambda: of_sum(Ball(radius=3.7)),
        lambda: of_sum(Box(low=(-0.3,) * 300, high=(1.7,) * 300)),
        of_histogram,
        of_moment,
    ],
    ids=["ball", "box", "histogram", "second moment"],
)
def test_sums_and_counts_are_on_the_grid(release: Callable[[], NoisyVector]) -> None:
    """The value is the drawn integers times the step; a trace of continuous noise is seen."""
    released = release()
    assert released.steps.dtype == np.int64
    assert not released.steps.flags.writeable
    assert on_grid(released.value, released.region.step)
    assert (released.value == released.steps * released.region.step).all()
    leaky = released.value + 1e-9 * np.random.default_rng(7).normal(size=released.value.size)
    assert not on_grid(leaky, released.region.step)


@pytest.mark.parametrize("kind", ["sum", "answer"])
def test_coloured_numbers_are_a_function_of_the_grid(kind: str) -> None:
    """The value is W times the drawn integers, bit for bit: nothing else enters."""
    region = Ellipsoid(shape=SHAPE)
    budget = Budget(promise())
    if kind == "sum":
        released = of_sum(region)
    else:
        released = gaussian_answer(
            Secret(ROWS.reveal()[0]),
            differences=region,
            rho_units=budget.rho_units,
            budget=budget,
            tag="answer",
        ).value
    assert released.steps.dtype == np.int64
    assert (released.value == SHAPE @ (released.steps * region.step)).all()


def test_second_moment_is_a_function_of_the_grid() -> None:
    """Each entry is its drawn integer times the step, off the diagonal over sqrt 2."""
    budget = Budget(promise())
    released = gaussian_second_moment(
        Secret(np.ones((3, 2))), radius=1.0, rho_units=budget.rho_units, budget=budget, tag="m"
    ).value
    first, cross, second = released.triangle.steps * released.triangle.region.step
    half = cross / math.sqrt(2.0)
    assert released.value.tolist() == [[first, half], [half, second]]


def test_labels_are_labels() -> None:
    """Every released label is one of 0..K-1, for customers without data too."""
    labels = Secret(np.where(np.arange(5_000) % 2, NO_DATA, 4))
    budget = Budget(promise(epsilon=1.0, delta=0.0), response_epsilon=1.0)
    response = randomised_response(labels, n_labels=5, epsilon=1.0, budget=budget, tag="l").value
    claim = promise(epsilon=1.0, delta=0.1, tier=Tier.INSTANCE)
    modulo = modulo_labels(
        Secret(np.full(5_000, 4)),
        unstable=Secret(np.arange(5_000)),
        changed=2,
        n_labels=5,
        epsilon=1.0,
        delta=0.1,
        budget=Budget(claim, response_epsilon=1.0, response_delta=0.1),
        tag="l",
    ).value
    for released in (response, modulo):
        assert released.dtype == np.int64
        assert not released.flags.writeable
        assert set(released.tolist()) == set(range(5))


def test_a_quantile_is_the_middle_of_a_cell() -> None:
    """After m steps one of 2^m points comes out, whatever the values."""
    budget = Budget(promise())
    for values in ([0.1234567], [], [0.3, 0.3, -5.0, 1e300]):
        released = noisy_quantile(
            Secret(np.array(values)),
            quantile=0.3,
            interval=(0.0, 1.0),
            n_steps=6,
            rho_units=budget.share(0.2),
            budget=budget,
            tag="quantile",
        ).value
        assert released * 128 in range(1, 128, 2)


def test_a_load_shape_is_a_function_of_the_grid() -> None:
    """Whatever load shapes are computed from is on the grid of its ask."""
    load_kw = np.abs(ROWS.reveal()[:, :24])
    for vector in shape_transcript(load_kw, clip_kw=1.3, epsilon=0.5, delta=0.2):
        assert on_grid(vector.value, vector.region.step)
