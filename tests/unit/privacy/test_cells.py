"""Private whole numbers: what is a cell and what is not, and what mechanisms make of them."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.counting import gaussian_histogram
from wattveil.errors import InvalidDataError
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.cells import check_cells
from wattveil.privacy.mechanisms.response import channel_response, response_channel
from wattveil.privacy.secret import Secret


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


def test_a_count_has_the_noise_of_one_customer(ample: Callable[..., Budget]) -> None:
    """One customer is one: the standard deviation of a count is 1 / sqrt(2 rho), not twice that."""
    counted = gaussian_histogram(
        Secret(np.array([0, 1])), n_cells=2, rho_units=10**15, budget=ample(), tag="t"
    )
    assert counted.value.std == pytest.approx(np.full(2, 1.0 / math.sqrt(2.0 * 1e-3)), rel=1e-6)


@pytest.mark.parametrize("label", [2, 3, -2])
def test_a_channel_takes_its_own_labels_alone(ample: Callable[..., Budget], label: int) -> None:
    """K is no label: its row of the channel is that of a customer without data."""
    channel = response_channel(n_labels=2, epsilon=0.5, neighbours=Neighbours.ZERO_OUT)
    with pytest.raises(InvalidDataError, match="labels between 0 and 1, or -1"):
        channel_response(Secret(np.array([0, label])), channel=channel, budget=ample(), tag="t")
