"""Public coordinates of a day and of many days."""

import numpy as np
import pytest

from wattveil.numerics.load_basis import Calendar, public_calendar


def test_weights_are_orthonormal() -> None:
    """So the mean square over slots is the sum of squared coordinates."""
    weights = Calendar(n_days=28, n_slots=24, n_coordinates=200).weights
    assert weights @ weights.T / weights.shape[1] == pytest.approx(np.eye(200), abs=1e-10)


def test_coordinates_grow_with_the_signal() -> None:
    """All coordinates of a day; of a year as many as the signal supports."""
    assert public_calendar(24, n_days=1, signal=-5.0).n_coordinates == 24
    assert public_calendar(8760, n_days=365, signal=10.0).n_coordinates == 96
    assert public_calendar(8760, n_days=365, signal=500.5).n_coordinates == 500
    assert public_calendar(8760, n_days=365, signal=1e9).n_coordinates == 8760


def test_blocks_are_numbered_from_the_level() -> None:
    """Block 0 is the level alone; a year has blocks for seasons, weeks and hours."""
    day = Calendar(n_days=1, n_slots=24, n_coordinates=24).blocks
    assert day.tolist() == [0] + [1] * 23
    year = Calendar(n_days=365, n_slots=24, n_coordinates=400).blocks
    assert np.flatnonzero(year == 0).tolist() == [0]
    assert set(year.tolist()) == set(range(int(year.max()) + 1))
    assert year.max() > 10
