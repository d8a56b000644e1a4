"""Rounding to a known side: checked in exact rational arithmetic."""

import math
from fractions import Fraction

import pytest

from wattveil.privacy import accounting

FLOATS = [0.0, 5e-324, 2.2250738585072014e-308, 1e-3, 0.1, 1.0, 1.5, 3.0, 2.0**53, 1e300]


@pytest.mark.parametrize("value", FLOATS)
def test_up_is_the_very_next_float(value: float) -> None:
    """Between a float and `up` of it there is no other."""
    above = accounting.up(value)
    assert above > value
    assert math.nextafter(above, -math.inf) == value


@pytest.mark.parametrize(
    "value",
    [Fraction(1, 3), Fraction(2, 3), Fraction(-1, 3), Fraction(10**40, 7), Fraction(1, 10**310)],
)
def test_fraction_up_is_the_least_float_above(value: Fraction) -> None:
    """The float is not below the fraction, and the float before it is."""
    rounded = accounting.fraction_up(value)
    assert Fraction(rounded) >= value
    assert Fraction(math.nextafter(rounded, -math.inf)) < value


@pytest.mark.parametrize("value", FLOATS)
def test_a_float_is_not_rounded(value: float) -> None:
    """What is a float already stays."""
    assert accounting.fraction_up(Fraction(value)) == value


def test_sum_up_is_not_below_the_exact_sum() -> None:
    """0.1 + 0.2 + … in exact arithmetic, where naive floats lose the small parts."""
    parts = [0.1, 0.2, 1e16, 1e-20, 1e-300]
    exact = sum(map(Fraction, parts))
    rounded = accounting.sum_up(*parts)
    assert Fraction(rounded) >= exact > Fraction(math.nextafter(rounded, -math.inf))
    assert accounting.sum_up() == 0.0


@pytest.mark.parametrize("border", [0, 1, 17, 998, 999])
def test_last_accepted_finds_the_border(border: int) -> None:
    """The bisection stops at the last integer that passes, wherever it is."""
    assert accounting.last_accepted(lambda i: i <= border, 0, 1000) == border


def test_ends_are_taken_on_trust() -> None:
    """The low end counts as accepted and the high end as refused, without a call."""
    assert accounting.last_accepted(lambda _: False, 3, 10) == 3
    assert accounting.last_accepted(lambda _: True, 3, 10) == 9
    assert accounting.last_accepted(lambda _: pytest.fail("called"), 3, 4) == 3


@pytest.mark.parametrize("border", FLOATS[:-1])
def test_float_bisection_is_exact(border: float) -> None:
    """The border between floats is found to the last ulp, from both sides, subnormals included."""
    after = accounting.up(border)
    assert accounting.largest_float(lambda x: x <= border, low=0.0, high=1e300) == border
    assert accounting.smallest_float(lambda x: x > border, low=0.0, high=1e300) == after
