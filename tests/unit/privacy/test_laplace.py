"""Discrete Laplace counts: exact without noise, scale = sensitivity / epsilon rounded up."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.cells import check_cells, count_cells
from wattveil.privacy.mechanisms.laplace import laplace_histogram
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Secret

Ample = Callable[..., Budget]
Draws = list[tuple[str, float, int]]
CELLS = np.array([0, 2, 2, -1, 2, 0, -1])


def test_counts_without_noise_are_exact(ample: Ample, silent: NoiseSource) -> None:
    """Whole customers; no data falls into no cell."""
    with noise.rehearse(silent):
        counts = laplace_histogram(Secret(CELLS), n_cells=4, epsilon=1.0, budget=ample(), tag="t")
    assert counts.value.tolist() == [2, 0, 3, 0]
    assert counts.value.dtype == np.int64
    assert not counts.value.flags.writeable


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 7.0])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_scale_is_sensitivity_over_epsilon_rounded_up(
    ample: Ample,
    silent: NoiseSource,
    recorded: Draws,
    neighbours: Neighbours,
    epsilon: float,
) -> None:
    """In exact arithmetic b epsilon >= sensitivity, and the float before b falls short."""
    with noise.rehearse(silent):
        laplace_histogram(
            Secret(CELLS), n_cells=3, epsilon=epsilon, budget=ample(neighbours), tag="t"
        )
    ((kind, scale, size),) = recorded
    assert (kind, size) == ("laplace", 3)
    sensitivity = 1 if neighbours is Neighbours.ZERO_OUT else 2
    assert Fraction(scale) * Fraction(epsilon) >= sensitivity
    assert Fraction(math.nextafter(scale, 0.0)) * Fraction(epsilon) < sensitivity


def test_one_cell_cannot_be_replaced(ample: Ample, silent: NoiseSource, recorded: Draws) -> None:
    """With a single cell a replaced customer stays in it: sensitivity 1 under both relations."""
    with noise.rehearse(silent):
        laplace_histogram(
            Secret(np.zeros(3, dtype=np.int64)),
            n_cells=1,
            epsilon=1.0,
            budget=ample(Neighbours.REPLACE_ONE),
            tag="t",
        )
    assert recorded == [("laplace", 1.0, 1)]


def test_nobody_is_counted_with_noise(ample: Ample) -> None:
    """An empty data set gives as many noisy counts as any other."""
    released = laplace_histogram(
        Secret(np.zeros(0, dtype=np.int64)), n_cells=50, epsilon=0.1, budget=ample(), tag="t"
    )
    assert released.publish().shape == (50,)
    assert (released.value != 0).any()


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("epsilon", math.nan),
        ("epsilon", "1"),
        ("epsilon", True),
        ("n_cells", 0),
        ("n_cells", 2.0),
        ("n_cells", True),
    ],
)
def test_bad_arguments_are_named(ample: Ample, field: str, bad: object) -> None:
    """Refused by name before anything is charged."""
    budget = ample()
    arguments: dict[str, object] = {"n_cells": 3, "epsilon": 1.0, field: bad}
    with pytest.raises(InvalidParameterError, match=f"{field} must be") as caught:
        laplace_histogram(Secret(CELLS), budget=budget, tag="t", **arguments)  # type: ignore[arg-type]
    assert caught.value.value is bad
    assert budget.spends == ()


# --- cells ----------------------------------------------------------------------------------------


def test_cells_out_of_range_are_refused_by_position() -> None:
    """Only -1 .. n - 1 are cells; the positions of the others are for the house."""
    with pytest.raises(InvalidDataError, match="cells between 0 and 2, or -1") as caught:
        check_cells(Secret(np.array([0, 3, -1, -2, 2])), 3)
    assert caught.value.row_ids == (1, 3)


@pytest.mark.parametrize(
    "cells", [np.array([0.5]), np.array([np.nan]), np.array([[0, 1]]), np.array(0)], ids=range(4)
)
def test_cells_are_a_vector_of_whole_numbers(cells: np.typing.NDArray[np.int64]) -> None:
    """Fractions, missing values and matrices are not cells; which it was stays in the house."""
    with pytest.raises(InvalidDataError, match="labels is a vector of whole numbers"):
        check_cells(Secret(cells), 3, field="labels")


def test_cells_are_copied() -> None:
    """What comes back can be changed without touching the private original."""
    original = np.array([0, 1, 2])
    check_cells(Secret(original), 3)[0] = 2
    assert original.tolist() == [0, 1, 2]
    assert check_cells(Secret(original.astype(np.uint8)), 3).dtype == np.int64


def test_count_by_hand() -> None:
    """Four points by hand."""
    assert count_cells(Secret(np.array([1, 1, -1, 0])), 3).tolist() == [1, 2, 0]
