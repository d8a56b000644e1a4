"""No draw is used twice: neither within a release nor in two releases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.statistical.harness import accepts, draws, guarantee, independence_p, refuses, table_p
from tests.statistical.releases import (
    instance_guarantee,
    label_budget,
    noisy_answer,
    noisy_counts,
    noisy_modulo,
    noisy_sums,
    randomised_response,
)
from wattveil.arrays import Floats, Ints
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid
from wattveil.privacy.noise import NoiseSource

WIDE = draws(10_000)
pytestmark = pytest.mark.usefixtures("cached_constants")
ELLIPSOID = Ellipsoid(shape=np.diag(np.full(100, 2.0)))

Sampler = Callable[[NoiseSource, float, int], Ints]


def of_sum() -> Floats:
    """The noise of a sum."""
    return noisy_sums(np.zeros((1, WIDE)), Budget(guarantee())).value.ravel()


def of_sums_by_cells() -> Floats:
    """The noise of sums in a hundred cells, cell after cell."""
    budget = Budget(guarantee())
    return noisy_sums(np.zeros((1, WIDE // 100)), budget, n_cells=100).value.ravel()


def of_histogram() -> Floats:
    """The noise of Gaussian counts."""
    return noisy_counts(np.zeros(0, dtype=np.int64), WIDE, Budget(guarantee())).value


def of_small_sums() -> Floats:
    """The noise of sums of a hundred features, release after release."""
    budget = Budget(guarantee())
    parts = [noisy_sums(np.zeros((1, 100)), budget).value[0] for _ in range(WIDE // 100)]
    return np.concatenate(parts)


def of_answer() -> Floats:
    """The noise of an answer, release after release."""
    budget = Budget(instance_guarantee())
    parts = [noisy_answer(np.zeros(100), ELLIPSOID, budget).value for _ in range(WIDE // 100)]
    return np.concatenate(parts)


NUMBERS: dict[str, Callable[[], Floats]] = {
    "sum": of_sum,
    "sums by cells": of_sums_by_cells,
    "small sums": of_small_sums,
    "histogram": of_histogram,
    "answer": of_answer,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_a_release_are_independent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adjacent numbers are independent; a draw that is used twice is detected."""
    right = NUMBERS[name]()
    accepts(independence_p(right[1:], right[:-1]))
    sampler = NoiseSource.discrete_gaussian

    def twice(source: NoiseSource, scale: float, size: int) -> Ints:
        return np.repeat(sampler(source, scale, (size + 1) // 2), 2)[:size]

    monkeypatch.setattr(NoiseSource, "discrete_gaussian", twice)
    wrong = NUMBERS[name]()
    refuses(independence_p(wrong[1:], wrong[:-1]))


@pytest.mark.parametrize("name", NUMBERS)
def test_releases_are_independent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second release draws anew; a source that restarts is detected, with flipped signs too."""
    first = NUMBERS[name]()
    accepts(independence_p(first, NUMBERS[name]()))
    monkeypatch.setattr(NoiseSource, "discrete_gaussian", same_again(NoiseSource.discrete_gaussian))
    first, second = NUMBERS[name](), NUMBERS[name]()
    refuses(independence_p(first, second))
    signs = np.where(np.arange(second.size) % 3 == 0, -1.0, 1.0)
    refuses(independence_p(first, signs * second))


def respond(size: int) -> Ints:
    """Labels by randomised response."""
    budget = label_budget(guarantee(epsilon=1.0, delta=0.0))
    return randomised_response(np.zeros(size, dtype=np.int64), 4, budget)


def modulo(size: int) -> Ints:
    """Labels with noise modulo K."""
    budget = label_budget(instance_guarantee(epsilon=1.0, delta=0.1))
    labels = np.zeros(size, dtype=np.int64)
    return noisy_modulo(labels, np.arange(size), changed=3, n_labels=4, budget=budget)


@pytest.mark.parametrize("release", [respond, modulo])
def test_labels_are_independent(
    release: Callable[[int], Ints], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are independent within and across releases; a shared word is detected."""
    first, second = release(draws(50_000)), release(draws(50_000))
    accepts(table_p(first[1:], first[:-1]))
    accepts(table_p(first, second))
    monkeypatch.setattr(noise, "uniform_below", every_word_twice(noise.uniform_below))
    shared = release(draws(50_000))
    refuses(table_p(shared[1:], shared[:-1]))


def every_word_twice(draw: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Return a sampler that gives each number to two adjacent customers."""

    def twice(*, size: int, **law: object) -> NDArray[Any]:
        return np.repeat(draw(size=(size + 1) // 2, **law), 2)[:size]

    return twice


def same_again(draw: Sampler) -> Sampler:
    """Return a sampler that restarts with every call."""
    drawn: dict[tuple[float, int], Ints] = {}

    def again(source: NoiseSource, scale: float, size: int) -> Ints:
        if (scale, size) not in drawn:
            drawn[scale, size] = draw(source, scale, size)
        return drawn[scale, size].copy()

    return again
