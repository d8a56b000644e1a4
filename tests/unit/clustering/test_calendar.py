"""Public coordinates of a day and of many days."""

import numpy as np
import pytest

from wattveil.clustering.calendar import Calendar, public_calendar


@pytest.mark.parametrize(("days", "slots", "r"), [(1, 24, 24), (14, 24, 100), (365, 24, 96)])
def test_projection_is_the_inner_product(days: int, slots: int, r: int) -> None:
    """Compiled sums against matrix products; the mean of all slots is coordinate 0."""
    calendar = Calendar(n_days=days, n_slots=slots, n_coordinates=r)
    rows = np.random.default_rng(1).gamma(2.0, 0.3, size=(5, days * slots))
    coloured, sizes = calendar.project(rows[1:4])
    expected = rows[1:4] @ calendar.weights.T / (days * slots)
    assert coloured * calendar.colour == pytest.approx(expected, abs=1e-12)
    assert sizes == pytest.approx(np.linalg.norm(coloured, axis=1))
    constant = calendar.project(np.full((1, days * slots), 2.0))[0][0]
    assert constant[0] == pytest.approx(2.0, rel=0.02)  # the smoothest curve is all but constant


def test_weights_are_orthonormal() -> None:
    """So the mean square over slots is the sum of squared coordinates."""
    weights = Calendar(n_days=28, n_slots=24, n_coordinates=200).weights
    assert weights @ weights.T / weights.shape[1] == pytest.approx(np.eye(200), abs=1e-10)


def test_a_row_with_gaps_has_no_coordinates_and_giants_saturate() -> None:
    """NaN gives zeros; 1e300 gives finite numbers."""
    rows = np.ones((2, 24))
    rows[0, 3], rows[1] = np.nan, 1e300
    coordinates, sizes = public_calendar(24, n_days=1, signal=0.0).project(rows)
    assert not coordinates[0].any()
    assert np.isfinite(coordinates).all()
    assert np.isfinite(sizes).all()


def test_coordinates_grow_with_the_signal() -> None:
    """A day is asked for whole; of a year as much as the signal can carry."""
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
