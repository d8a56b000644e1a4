"""Every released number is a multiple of a public power of two: no float reveals its noise."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.statistical.harness import guarantee
from tests.statistical.releases import (
    instance_guarantee,
    label_budget,
    labels_through,
    noisy_answer,
    noisy_counts,
    noisy_modulo,
    noisy_sums,
)
from tests.statistical.transcripts import shape_transcript
from wattveil.arrays import Floats
from wattveil.privacy.guarantee import Budget, Neighbours
from wattveil.privacy.mechanisms.contributions import NO_DATA, STEP
from wattveil.privacy.mechanisms.gaussian import NoisyTotals
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid
from wattveil.privacy.mechanisms.response import response_channel

ROWS = np.random.default_rng(7).normal(size=(50, 300))  # values of all 53 bits
SHAPE = np.eye(300) + np.diag(np.full(299, 0.3), 1)


def on_grid(values: Floats, step: float) -> bool:
    """Whether each value is a whole number of steps, the step a power of two."""
    whole = values / step  # exact
    return math.frexp(step)[0] == 0.5 and bool((whole == np.rint(whole)).all())


def sum_of_rows() -> NoisyTotals:
    """Release the sum of the rows, some within the unit ball and some clipped."""
    return noisy_sums(ROWS * np.linspace(0.01, 1.0, 50)[:, None], Budget(guarantee()))


def sums_by_cells() -> NoisyTotals:
    """Release sums in five cells."""
    return noisy_sums(0.03 * ROWS, Budget(guarantee()), cells=np.arange(50) % 5, n_cells=5)


def histogram() -> NoisyTotals:
    """Release counts."""
    return noisy_counts(np.arange(50), 300, Budget(guarantee()))


@pytest.mark.parametrize("release", [sum_of_rows, sums_by_cells, histogram])
def test_sums_and_counts_are_on_the_grid(release: Callable[[], NoisyTotals]) -> None:
    """The value is the drawn integers times the step; a trace of continuous noise is detected."""
    released = release()
    assert released.steps.dtype == np.int64
    assert not released.steps.flags.writeable
    assert on_grid(released.value, STEP)
    assert (released.value.ravel() == released.steps * STEP).all()
    leaky = released.value + 1e-9 * np.random.default_rng(7).normal(size=released.value.shape)
    assert not on_grid(leaky, STEP)


def test_an_answer_is_a_function_of_the_grid() -> None:
    """The value is W times the drawn integers, bit for bit: nothing else enters."""
    released = noisy_answer(ROWS[0], Ellipsoid(shape=SHAPE), Budget(instance_guarantee()))
    assert released.steps.dtype == np.int64
    assert not released.steps.flags.writeable
    assert (released.value == SHAPE @ (released.steps * STEP)).all()


def test_randomised_labels_are_labels() -> None:
    """Every released label is one of 0..K-1, for customers without data too."""
    labels = np.where(np.arange(5_000) % 2, NO_DATA, 4)
    channel = response_channel(n_labels=5, epsilon=1.0, neighbours=Neighbours.ZERO_OUT)
    table = labels_through(channel, labels, label_budget(guarantee(epsilon=1.0, delta=0.0)))
    released = table.here()[1]
    assert released.dtype == np.int64
    assert set(released.tolist()) == set(range(5))
    kept = released.copy()
    released[:] = 0  # what a caller changes is its own copy
    assert np.array_equal(table.here()[1], kept)


def test_modulo_labels_are_labels() -> None:
    """Every released label is one of 0..K-1."""
    budget = label_budget(instance_guarantee(epsilon=1.0, delta=0.1))
    released = noisy_modulo(
        np.full(5_000, 4), np.arange(5_000), changed=2, n_labels=5, budget=budget
    )
    assert released.dtype == np.int64
    assert not released.flags.writeable
    assert set(released.tolist()) == set(range(5))


def test_a_load_shape_is_a_function_of_the_grid() -> None:
    """All numbers that load shapes are computed from are on the grid."""
    for totals in shape_transcript(np.abs(ROWS[:, :24]), clip_kw=1.3, epsilon=0.5, delta=0.2):
        assert on_grid(totals.value, STEP)
