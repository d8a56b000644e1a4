"""Bands of mean load: what clipped customers of another curve add to them."""

from dataclasses import replace

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.numerics.groups.group_means import expected_means, filter_means
from wattveil.numerics.groups.group_sizes import GroupSizes, expected_counts, read_sizes
from wattveil.numerics.load_basis import Calendar

CALENDAR = Calendar(n_days=1, n_slots=24, n_coordinates=24)
EDGES = np.geomspace(0.04, 40.0, 16)
ONE_CUSTOMER, NO_NOISE = 0.8, 1e-9


def sizes_of(customers: float) -> GroupSizes:
    """Return what counts without noise say of one group of homes."""
    number = np.array([customers])
    counts = expected_counts(number, EDGES, typical_kw=0.5, log_std=0.6)
    return read_sizes((counts, 1.0), (number, 1.0), EDGES, sums_std=1.0, within=(0.0, np.inf))


def band_kw(sizes: GroupSizes) -> Floats:
    """Return the standard error in each slot of a flat mean, without noise."""
    sums = np.zeros((1, 24))
    sums[0, 0] = 0.8 * sizes.typical[0] * sizes.customers[0] / sizes.radii[0]
    means = filter_means(sums, NO_NOISE, sizes=sizes, calendar=CALENDAR)
    band: Floats = means.in_kw(CALENDAR)[1][0]
    return band


def test_a_band_has_room_for_one_clipped_customer_of_another_curve() -> None:
    """Also without noise; it is narrower with more customers."""
    sizes = sizes_of(500.0)
    exact = replace(sizes, correction=np.ones(1), correction_error=np.zeros(1))
    known = replace(exact, customers_std=np.zeros(1))
    of_one = sizes.radii[0] / sizes.customers[0]
    curves = np.square(CALENDAR.weights[1:] * CALENDAR.expected[1:, None]).sum(axis=0)
    assert band_kw(known) == pytest.approx(ONE_CUSTOMER * of_one * np.sqrt(curves), rel=0.01)
    many = replace(known, customers=10.0 * known.customers)
    assert band_kw(many) == pytest.approx(0.1 * band_kw(known), rel=0.01)


def test_a_band_grows_with_the_load_put_back() -> None:
    """More clipped load of unknown curve, a wider band in every slot."""
    sizes = replace(sizes_of(500.0), correction_error=np.zeros(1), customers_std=np.zeros(1))
    little, much = (replace(sizes, correction=np.array([c])) for c in (1.01, 1.2))
    assert (band_kw(much) > 2.0 * band_kw(little)).all()


def test_a_plan_takes_all_customers_to_be_alike() -> None:
    """Its error without noise is that of the numbers and of the correction alone."""
    sizes = replace(sizes_of(500.0), customers_std=np.zeros(1))
    planned = expected_means(NO_NOISE, sizes=sizes, calendar=CALENDAR)
    released = filter_means(np.ones((1, 24)), NO_NOISE, sizes=sizes, calendar=CALENDAR)
    assert planned.variance[0, 1:].max() < 1e-6 * released.variance[0, 1:].max()
