"""No draw is used twice: not within a release, not in two releases."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.counting import gaussian_histogram
from tests.responding import randomised_response
from tests.statistical.harness import (
    accepts,
    draws,
    independence_p,
    promise,
    refuses,
    renew,
    table_p,
)
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Tier
from wattveil.privacy.mechanisms.gaussian import (
    gaussian_answer,
    gaussian_sum,
)
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.moments import gaussian_second_moment
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball, Box, Ellipsoid, FloatArray, IntArray, Region

WIDE = draws(10_000)
pytestmark = pytest.mark.usefixtures("constants_once")
ELLIPSOID = Ellipsoid(shape=np.diag(np.full(100, 2.0)))
BUDGET = Budget(promise())
NOBODY = Secret(np.zeros(0, dtype=np.int64))


def of_sum(region: Region, columns: int) -> FloatArray:
    """The noise of a sum."""
    budget = renew(BUDGET)
    return gaussian_sum(
        Secret(np.zeros((1, columns))),
        region=region,
        rho_units=budget.rho_units,
        budget=budget,
        tag="sum",
    ).value.value


def of_histogram() -> FloatArray:
    """The noise of Gaussian counts."""
    budget = Budget(promise())
    return gaussian_histogram(
        NOBODY, n_cells=WIDE, rho_units=budget.rho_units, budget=budget, tag="cells"
    ).value.value


def of_moment() -> FloatArray:
    """The noise of a second moment, above the diagonal."""
    budget = Budget(promise())
    columns = math.isqrt(2 * WIDE)
    matrix = gaussian_second_moment(
        Secret(np.zeros((1, columns))),
        radius=1.0,
        rho_units=budget.rho_units,
        budget=budget,
        tag="second moment",
    ).value.value
    return matrix[np.triu_indices(columns, 1)]


def of_answer() -> FloatArray:
    """The noise of an answer, release after release."""
    budget = Budget(promise())
    parts = [
        gaussian_answer(
            Secret(np.zeros(100)),
            differences=ELLIPSOID,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="answer",
        ).value.value
        for _ in range(WIDE // 100)
    ]
    return np.concatenate(parts)


NUMBERS: dict[str, Callable[[], FloatArray]] = {
    "ball": lambda: of_sum(Ball(radius=1.0), WIDE),
    "box": lambda: of_sum(Box(low=(-1.0,) * WIDE, high=(1.0,) * WIDE), WIDE),
    "ellipsoid": lambda: np.concatenate([of_sum(ELLIPSOID, 100) for _ in range(WIDE // 100)]),
    "histogram": of_histogram,
    "second moment": of_moment,
    "answer": of_answer,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_a_release_are_independent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring numbers know nothing of each other; a draw used twice is seen."""
    right = NUMBERS[name]()
    accepts(independence_p(right[1:], right[:-1]))
    for law in ("discrete_gaussian", "discrete_laplace"):
        monkeypatch.setattr(noise, law, every_draw_twice(getattr(noise, law)))
    wrong = NUMBERS[name]()
    refuses(independence_p(wrong[1:], wrong[:-1]))


@pytest.mark.parametrize("name", NUMBERS)
def test_releases_are_independent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second release draws anew; a source that starts over is seen, also with flipped signs."""
    first = NUMBERS[name]()
    accepts(independence_p(first, NUMBERS[name]()))
    for law in ("discrete_gaussian", "discrete_laplace"):
        monkeypatch.setattr(noise, law, same_again(getattr(noise, law)))
    first, second = NUMBERS[name](), NUMBERS[name]()
    refuses(independence_p(first, second))
    signs = np.where(np.arange(second.size) % 3 == 0, -1.0, 1.0)
    refuses(independence_p(first, signs * second))


def respond(size: int) -> IntArray:
    """Labels by randomised response."""
    budget = Budget(promise(epsilon=1.0, delta=0.0), response_epsilon=1.0)
    return randomised_response(
        Secret(np.zeros(size, dtype=np.int64)),
        n_labels=4,
        epsilon=1.0,
        budget=budget,
        tag="labels",
    ).value


def modulo(size: int) -> IntArray:
    """Labels with noise modulo K."""
    claim = promise(epsilon=1.0, delta=0.1, tier=Tier.INSTANCE)
    return modulo_labels(
        Secret(np.zeros(size, dtype=np.int64)),
        unstable=Secret(np.arange(size)),
        changed=3,
        n_labels=4,
        epsilon=1.0,
        delta=0.1,
        budget=Budget(claim, response_epsilon=1.0, response_delta=0.1),
        tag="labels",
    ).value


@pytest.mark.parametrize("release", [respond, modulo])
def test_labels_are_independent(
    release: Callable[[int], IntArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels know nothing of each other within and across releases; a shared word is seen."""
    first, second = release(draws(50_000)), release(draws(50_000))
    accepts(table_p(first[1:], first[:-1]))
    accepts(table_p(first, second))
    monkeypatch.setattr(noise, "uniform_below", every_draw_twice(noise.uniform_below))
    shared = release(draws(50_000))
    refuses(table_p(shared[1:], shared[:-1]))


def every_draw_twice(draw: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Return a source that gives each number to two neighbours."""

    def twice(*, size: int, **law: object) -> NDArray[Any]:
        return np.repeat(draw(size=(size + 1) // 2, **law), 2)[:size]

    return twice


def same_again(draw: Callable[..., IntArray]) -> Callable[..., IntArray]:
    """Return a source that starts over with every call."""
    drawn: dict[str, IntArray] = {}

    def again(*, size: int, **law: object) -> IntArray:
        key = f"{size} {law}"
        if key not in drawn:
            drawn[key] = draw(size=size, **law)
        return drawn[key].copy()

    return again
