"""Coordinates and sizes of rows in public bases, each against a direct computation in NumPy."""

import math

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.load_basis import Calendar, public_basis, public_calendar
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.release.rows.load_features import (
    any_group_cell,
    calendar_coordinates,
    comparable_rows,
    first_columns,
    first_coordinates,
    group_cells,
    group_coordinates,
    group_size_cells,
    one_cell,
    project_rows,
    size_cells,
)

PLACES = np.array([1, 0, NO_DATA, 1])


@pytest.fixture
def rows() -> Floats:
    """Return rows of very different sizes; rows 7 and 8 are not finite, 9 is zero, 10 is huge."""
    scales = np.geomspace(1e-3, 1e4, 300)[:, None]
    found: Floats = np.random.default_rng(0).normal(size=(300, 24)) * scales
    found[7, 3] = math.nan
    found[8, 0] = -math.inf
    found[9] = 0.0
    found[10] = 1e200
    return found


def test_projection_by_matrix_product(rows: Floats) -> None:
    """Finite rows have the coordinates of a matrix product, saturated at 1e9; others have none."""
    basis = public_basis(24)[:9]
    finite = np.isfinite(rows).all(axis=1)
    expected = np.clip(rows[finite], -1e9, 1e9) @ basis.T
    found, has_data = project_rows(rows, basis=basis, normalise=False, longest=math.inf)
    assert found.shape == (300, 9)
    assert np.array_equal(has_data, finite)
    assert found[has_data] == pytest.approx(expected, rel=1e-12, abs=1e-9 * np.abs(expected).max())


def test_projection_clips_and_normalises(rows: Floats) -> None:
    """Longer rows are clipped to the bound; normalised rows have unit L2 norm, zero rows none."""
    basis = public_basis(24)
    clipped, has_data = project_rows(rows, basis=basis, normalise=False, longest=5.0)
    lengths = np.linalg.norm(np.clip(rows[has_data], -1e9, 1e9), axis=1)
    assert np.linalg.norm(clipped[has_data], axis=1) == pytest.approx(np.minimum(lengths, 5.0))
    unit, has_data = project_rows(rows, basis=basis, normalise=True, longest=math.inf)
    assert np.flatnonzero(~has_data).tolist() == [7, 8, 9]
    assert np.linalg.norm(unit[has_data], axis=1) == pytest.approx(np.ones(297))


def test_comparable_rows_follow_the_rule_of_the_projection(rows: Floats) -> None:
    """Clipped or normalised as in `project_rows`; rows without data are NaN, so have no label."""
    (clipped,) = comparable_rows(rows, normalise=False, longest=5.0)
    assert np.flatnonzero(np.isnan(clipped).all(axis=1)).tolist() == [7, 8]
    again, has_data = project_rows(rows, basis=np.eye(24), normalise=False, longest=5.0)
    assert np.array_equal(clipped[has_data], again[has_data])
    (unit,) = comparable_rows(rows, normalise=True, longest=5.0)
    assert np.flatnonzero(np.isnan(unit).all(axis=1)).tolist() == [7, 8, 9]


def test_first_columns_are_copies() -> None:
    """What is returned shares no memory with the rows, and every customer stays."""
    rows = np.arange(12.0).reshape(3, 4)
    (columns,) = first_columns(rows, columns=2)
    coordinates, stays = first_coordinates(rows, columns=2)
    assert columns.tolist() == coordinates.tolist() == rows[:, :2].tolist()
    assert stays.tolist() == [True] * 3
    for found in (columns, coordinates):
        assert not np.shares_memory(found, rows)


def test_size_cells_by_digitize() -> None:
    """The length of the first coordinates, between the bounds that NumPy finds."""
    rows = np.random.default_rng(2).normal(size=(1000, 9))
    edges = np.array([0.5, 1.0, 1.5])
    expected = np.digitize(np.linalg.norm(rows[:, :4], axis=1), edges)
    assert np.array_equal(size_cells(rows, edges=edges, coordinates=4)[0], expected)
    labels = np.arange(1000)  # further columns make no difference
    assert np.array_equal(size_cells(rows, labels, edges=edges, coordinates=4)[0], expected)


def test_cells_that_need_no_load() -> None:
    """One cell for all rows; the group of a customer; one cell for all customers of any group."""
    load = np.ones((4, 2))
    assert one_cell(load)[0].tolist() == [0] * 4
    assert group_cells(load, PLACES)[0].tolist() == PLACES.tolist()
    assert any_group_cell(load, PLACES)[0].tolist() == [0, 0, NO_DATA, 0]


def test_cells_of_groups_and_sizes() -> None:
    """Group by group, size by size; without a group there is no cell."""
    load = np.array([[0.1] * 24, [0.5] * 24, [0.5] * 24, [7.0] * 24])
    calendar = Calendar(n_days=1, n_slots=24, n_coordinates=24)
    edges = np.array([0.3, 1.0])
    (cells,) = group_size_cells(load, PLACES, edges=edges, curves=calendar.curves)
    assert cells.tolist() == [3 + 0, 0 + 1, NO_DATA, 3 + 2]


def test_coordinates_are_in_units_of_the_radius_of_the_group() -> None:
    """Z / a of the calendar, divided by the radius of the customer's own group."""
    load = np.random.default_rng(3).gamma(2.0, 0.3, size=(4, 24))
    calendar = Calendar(n_days=1, n_slots=24, n_coordinates=24)
    radii = np.array([2.0, 5.0])
    cells, features = group_coordinates(load, PLACES, radii=radii, curves=calendar.curves)
    assert cells.tolist() == PLACES.tolist()
    for place, own in zip([0, 1, 3], [5.0, 2.0, 5.0], strict=True):
        expected = calendar_coordinates(load[place : place + 1], calendar.curves)[0][0] / own
        assert np.array_equal(features[place], expected)


@pytest.mark.parametrize(("days", "slots", "r"), [(1, 24, 24), (14, 24, 100), (365, 24, 96)])
def test_calendar_coordinates_are_inner_products(days: int, slots: int, r: int) -> None:
    """Compiled sums against matrix products; the mean of all slots is coordinate 0."""
    calendar = Calendar(n_days=days, n_slots=slots, n_coordinates=r)
    rows = np.random.default_rng(1).gamma(2.0, 0.3, size=(5, days * slots))
    weighted, sizes = calendar_coordinates(rows[1:4], calendar.curves)
    expected = rows[1:4] @ calendar.weights.T / (days * slots)
    assert weighted * calendar.colour == pytest.approx(expected, abs=1e-12)
    assert sizes == pytest.approx(np.linalg.norm(weighted, axis=1))
    constant = calendar_coordinates(np.full((1, days * slots), 2.0), calendar.curves)[0][0]
    assert constant[0] == pytest.approx(2.0, rel=0.02)  # the smoothest curve is all but constant


def test_missing_values_have_no_coordinates_and_huge_ones_saturate() -> None:
    """NaN gives zeros; 1e300 gives finite numbers."""
    rows = np.ones((2, 24))
    rows[0, 3], rows[1] = np.nan, 1e300
    curves = public_calendar(24, n_days=1, signal=0.0).curves
    coordinates, sizes = calendar_coordinates(rows, curves)
    assert not coordinates[0].any()
    assert np.isfinite(coordinates).all()
    assert np.isfinite(sizes).all()


def test_rows_of_another_width_are_refused() -> None:
    """Compiled loops check no bounds: the width is checked before them."""
    curves = Calendar(n_days=1, n_slots=24, n_coordinates=24).curves
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 24 columns"):
        calendar_coordinates(np.ones((2, 25)), curves)
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 24 columns"):
        project_rows(np.ones((2, 23)), basis=public_basis(24), normalise=True, longest=1.0)
