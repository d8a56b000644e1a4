"""Very large customers are set aside, so that they hide no difference."""

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.grid import Equivalence, compare_on_feeder, planning_summary
from wattveil.grid.large_customers import usual_customers
from wattveil.profiles import Profiles, TimeGrid

HOMES: Floats = np.random.default_rng(5).gamma(4.0, 0.15, (120, 24))


def profiles(load_kw: Floats) -> Profiles:
    """Return customers of two classes."""
    return Profiles(
        customer_ids=tuple(map(str, range(len(load_kw)))),
        load_kw=load_kw,
        grid=TimeGrid(),
        timezone="UTC",
        attributes={"class": tuple("ab"[row % 2] for row in range(len(load_kw)))},
    )


def with_factory(load_kw: Floats, factory_kw: float = 462.0) -> Floats:
    """Return the customers with the last one replaced by a factory."""
    return np.vstack([load_kw[:-1], np.full(24, factory_kw)])


def test_a_factory_hides_no_threefold_error() -> None:
    """Three times the load is different, whether or not a factory is among the real customers."""
    for real in (HOMES, with_factory(HOMES)):
        found = compare_on_feeder(
            profiles(real), profiles(3.0 * HOMES), feeder="ieee123", houses=150, redraws=20
        )
        peak = planning_summary(found)[0]
        assert peak.equivalence is Equivalence.DIFFERENT
        assert found.set_aside.real == (real is not HOMES)


def test_what_is_set_aside_is_stated() -> None:
    """Number and share of the energy; ids and attributes of the others stay with their rows."""
    real, synthetic, aside = usual_customers(profiles(with_factory(HOMES)), profiles(HOMES))
    assert (len(real), len(synthetic), aside.real, aside.synthetic) == (119, 120, 1, 0)
    whole = HOMES[:-1].sum() + 24 * 462.0
    assert aside.real_share == pytest.approx(24 * 462.0 / whole)
    assert np.array_equal(real.load_kw, HOMES[:-1])
    assert real.attributes["class"] == tuple("ab"[row % 2] for row in range(119))
    assert "1 real and 0 synthetic" in aside.sentence


def test_many_large_customers_are_no_exception() -> None:
    """Synthetic customers that are all too large are an error of the model, and stay."""
    real, synthetic, aside = usual_customers(profiles(HOMES), profiles(100.0 * HOMES))
    assert len(real) == len(synthetic) == 120
    assert not any(aside)


def test_customers_without_load_are_compared() -> None:
    """A median of 0 is no size."""
    nothing = profiles(np.zeros((3, 24)))
    assert not any(usual_customers(nothing, nothing)[2])


@pytest.mark.parametrize("empty", ["real", "synthetic"])
def test_no_customers_are_refused(empty: str) -> None:
    """The argument is named."""
    given = {"real": profiles(HOMES), "synthetic": profiles(HOMES)}
    given[empty] = profiles(HOMES[:0])
    with pytest.raises(InvalidParameterError) as refused:
        usual_customers(given["real"], given["synthetic"])
    assert refused.value.field == empty
