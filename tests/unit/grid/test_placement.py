"""Placement: numbers of houses, classes, and the load of a bus."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattveil.errors import InvalidParameterError
from wattveil.grid.feeders import Feeder, read_feeder
from wattveil.grid.placement import CustomerSampler, Placement, Scaling, _apportion, place_houses

MEAN_KW = np.array([[0.5, 1.0, 0.4], [1.0, 3.0, 2.0]])
SHARE = np.array([0.75, 0.25])


def placed(feeder: Feeder, scaling: Scaling, houses: int | None = None) -> Placement:
    """Place houses of two classes."""
    return place_houses(
        feeder,
        mean_kw=MEAN_KW,
        share=SHARE,
        scaling=scaling,
        houses=houses,
        sampler=CustomerSampler(1),
    )


def test_houses_carry_the_nominal_load() -> None:
    """As many houses as bring their expected peak to the nominal load, by the load of each bus."""
    feeder = read_feeder("case141")
    placement = placed(feeder, Scaling.HOUSES)
    peak_of_a_house = 0.75 * 1.0 + 0.25 * 3.0
    assert placement.houses == round(feeder.nominal_kw.sum() / peak_of_a_house)
    assert placement.factor == 1.0
    count = np.bincount(placement.bus, minlength=feeder.buses)
    exact = placement.houses * feeder.nominal_kw / feeder.nominal_kw.sum()
    assert np.abs(count - exact).max() < 1.0
    assert np.bincount(placement.wanted_class) == pytest.approx(placement.houses * SHARE, abs=1.0)
    assert (np.diff(placement.bus) >= 0).all()
    # classes are mixed over buses, not laid out one after the other
    first_half = placement.wanted_class[: placement.houses // 2].mean()
    assert 0.15 < first_half < 0.35


def test_factor_and_literal_put_one_house_at_each_bus() -> None:
    """The factor brings the expected peak to the nominal load; literal leaves kW alone."""
    feeder = read_feeder("ieee123")
    by_factor, literal = placed(feeder, Scaling.FACTOR), placed(feeder, Scaling.LITERAL)
    assert by_factor.bus.tolist() == literal.bus.tolist() == list(range(123))
    count = np.bincount(by_factor.wanted_class)
    assert by_factor.factor * (count @ MEAN_KW).max() == pytest.approx(3490.0)
    assert literal.factor == 1.0


def test_bus_load_is_the_sum_of_its_houses() -> None:
    """By a naive loop; a bus without houses has no load."""
    bus = np.array([1, 1, 1, 3, 3])
    placement = Placement(bus=bus, wanted_class=np.zeros(5, np.int64), factor=2.0, buses=5)
    customers_kw = np.arange(20.0).reshape(5, 4)
    load = np.zeros((4, 5))
    for house in range(5):
        for hour in range(4):
            load[hour, bus[house]] += 2.0 * customers_kw[house, hour]
    assert placement.bus_load_kw(customers_kw).tolist() == load.tolist()


@given(st.integers(1, 5000), st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30))
def test_seats_are_apportioned(seats: int, weights: list[float]) -> None:
    """Every seat is given, no count is off by one, and no weight means no seat."""
    weight = np.array(weights)
    if weight.sum() < 1e-6:
        return
    given_out = _apportion(seats, weight)
    assert given_out.sum() == seats
    assert np.abs(given_out - seats * weight / weight.sum()).max() < 1.0
    assert not given_out[weight == 0.0].any()


def test_sampler_draws_from_the_class() -> None:
    """A house gets a customer of its class, each equally likely; the seed repeats the draw."""
    classes = np.array([2, 0, 1, 0, 2, 2])
    wanted = np.tile([0, 1, 2], 20_000)
    rows = CustomerSampler(5).customers(classes, wanted)
    assert (classes[rows] == wanted).all()
    assert np.bincount(rows)[[1, 3]] == pytest.approx([10_000, 10_000], abs=400)
    assert (CustomerSampler(5).customers(classes, wanted) == rows).all()
    assert (CustomerSampler(6).customers(classes, wanted) != rows).any()


def test_bad_numbers_are_refused(four_buses: Feeder) -> None:
    """Houses belong to one way of scaling, and there must be a load to scale by."""
    with pytest.raises(InvalidParameterError, match="houses must be omitted unless"):
        placed(four_buses, Scaling.LITERAL, houses=7)
    with pytest.raises(InvalidParameterError, match="houses must be a whole number of at least 1"):
        placed(four_buses, Scaling.HOUSES, houses=0)
    with pytest.raises(InvalidParameterError, match="scaling must be 'literal' where the real"):
        place_houses(
            four_buses,
            mean_kw=-MEAN_KW,
            share=SHARE,
            scaling=Scaling.HOUSES,
            houses=None,
            sampler=CustomerSampler(1),
        )
