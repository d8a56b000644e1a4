"""Public estimates are rounded, and delta is compared with that of customers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattveil.products.public_estimate import (
    MAX_CUSTOMERS,
    MAX_TYPICAL_KW,
    MIN_TYPICAL_KW,
    rounded_customers,
    rounded_kw,
    rounding_notes,
)

GRID = [step * 10**power for power in range(13) for step in (1, 2, 5)]
R10 = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
KW_GRID = [float(f"{step}e{power}") for power in range(-7, 7) for step in R10]


@pytest.mark.parametrize(
    ("customers", "rounded"),
    [
        (1, 1),
        (3, 2),
        (4, 5),
        (7, 5),
        (8, 10),
        (9, 10),
        (999, 1000),
        (1409, 1000),
        (1414, 1000),
        (1415, 2000),
        (3162, 2000),
        (3163, 5000),
        (7071, 5000),
        (7072, 10_000),
        (MAX_CUSTOMERS, MAX_CUSTOMERS),
        (MAX_CUSTOMERS - 1, MAX_CUSTOMERS),
    ],
)
def test_an_estimate_is_rounded_to_the_nearest_step(customers: int, rounded: int) -> None:
    """Worked by hand: the borders are the square roots of 2, 10 and 50."""
    assert rounded_customers(customers) == rounded


def test_no_step_is_nearer_in_logarithms() -> None:
    """An independent computation: the minimum over all steps; steps stay what they are."""
    for customers in (*range(1, 3000), 123_456_789, *GRID):
        nearest = min(GRID, key=lambda step: abs(math.log(step) - math.log(customers)))
        assert rounded_customers(customers) == nearest
    assert [rounded_customers(step) for step in GRID] == GRID


@pytest.mark.parametrize(
    ("kw", "rounded"),
    [
        (0.5, 0.5),
        (0.5417, 0.5),
        (0.5612, 0.5),
        (0.5613, 0.63),
        (0.32, 0.315),
        (0.7, 0.63),
        (0.7099, 0.63),
        (0.71, 0.8),
        (0.8944, 0.8),
        (0.8945, 1.0),
        (1.118, 1.0),
        (1.1181, 1.25),
        (7.0, 6.3),
        (MIN_TYPICAL_KW, MIN_TYPICAL_KW),
        (1.1 * MIN_TYPICAL_KW, MIN_TYPICAL_KW),
        (MAX_TYPICAL_KW, MAX_TYPICAL_KW),
        (0.99 * MAX_TYPICAL_KW, MAX_TYPICAL_KW),
    ],
)
def test_a_size_is_rounded_to_the_nearest_preferred_number(kw: float, rounded: float) -> None:
    """Worked by hand: the borders are square roots of products of neighbours."""
    assert rounded_kw(kw) == rounded


@given(kw=st.floats(MIN_TYPICAL_KW, MAX_TYPICAL_KW))
def test_no_preferred_number_is_nearer(kw: float) -> None:
    """An independent computation in logarithms; a rounded number stays what it is, in bounds."""
    found = rounded_kw(kw)
    assert found in KW_GRID
    nearest = min(abs(math.log(step / kw)) for step in KW_GRID)
    assert abs(math.log(found / kw)) == pytest.approx(nearest, abs=1e-12)
    assert rounded_kw(found) == found
    assert MIN_TYPICAL_KW <= found <= MAX_TYPICAL_KW


def test_rounding_is_reported_if_it_happened() -> None:
    """In one line for each estimate, with both numbers."""
    customers = "public estimate of the number of customers: 1,409, rounded to 1,000"
    size = "public estimate of the median size: 0.5417 kW, rounded to 0.5 kW"
    assert rounding_notes({"customers": 1409, "typical_kw": 0.5417}) == [customers, size]
    assert rounding_notes({"customers": 1000, "typical_kw": 0.5417}) == [size]
    assert rounding_notes({"customers": 1409, "epsilon": 1.0}) == [customers]
    assert rounding_notes({"customers": 1000, "typical_kw": 0.5}) == []
