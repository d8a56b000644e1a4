"""Private whole numbers: what is a cell and what is not."""

import numpy as np
import pytest

from wattveil.errors import InvalidDataError
from wattveil.privacy.mechanisms.cells import check_cells
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
