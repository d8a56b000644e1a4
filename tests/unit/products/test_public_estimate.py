"""The public estimate of customers is rounded, and delta is compared with it."""

import math

import pytest

from wattveil.products.public_estimate import (
    MAX_CUSTOMERS,
    delta_warning,
    rounded_customers,
    rounding_note,
)

GRID = [step * 10**power for power in range(13) for step in (1, 2, 5)]


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


def test_rounding_is_reported_if_it_happened() -> None:
    """In one line, with both numbers."""
    assert rounding_note(1409) == "public estimate of customers: 1,409 rounded to 1,000"
    assert rounding_note(1000) is None


@pytest.mark.parametrize(
    ("delta", "customers", "warns"),
    [
        (1e-6, 1000, False),
        (0.999e-3, 1000, False),
        (1e-3, 1000, True),
        (2e-3, 1000, True),
        (1e-6, 10**6, True),
        (5e-3, 200, True),
    ],
)
def test_delta_at_or_above_one_over_customers_is_warned_of(
    delta: float, customers: int, *, warns: bool
) -> None:
    """At the border itself too."""
    assert (delta_warning(delta, customers) is not None) == warns


def test_the_warning_names_delta_estimate_and_rule() -> None:
    """The message names what to change."""
    text = delta_warning(0.01, 2000) or ""
    for words in ("delta = 0.01", "1/customers = 0.0005", "2,000 customers", "well below"):
        assert words in text
