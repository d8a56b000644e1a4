"""Simulated customers: public, repeatable, and shaped like load."""

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.simulate import simulate_load_kw


def test_same_number_same_customers() -> None:
    """The data are public, so they may be repeatable; another number gives other customers."""
    assert np.array_equal(simulate_load_kw(customers=50), simulate_load_kw(customers=50, seed=1))
    assert not np.array_equal(
        simulate_load_kw(customers=50), simulate_load_kw(customers=50, seed=2)
    )


def test_loads_are_positive_and_vary_over_the_day() -> None:
    """One row a customer, 24 hours, finite and above 0; the evening is above the small hours."""
    load_kw = simulate_load_kw(customers=1000)
    assert load_kw.shape == (1000, 24)
    assert np.isfinite(load_kw).all()
    assert (load_kw > 0.0).all()
    day = load_kw.mean(axis=0)
    assert day[19] > 1.5 * day[4]


@pytest.mark.parametrize("customers", [0, -3])
def test_nobody_is_refused(customers: int) -> None:
    """There is at least one customer; the error names field, rule and value."""
    with pytest.raises(InvalidParameterError, match=f"customers must be .* 1 and .*={customers}"):
        simulate_load_kw(customers=customers)
