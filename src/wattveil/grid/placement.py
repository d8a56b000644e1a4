"""Placement of houses on buses, of customers in houses, and the scaling of their load.

The paper puts one house at each bus and does not state a scale: with single homes in kW the feeder
is idle, and any data would pass. Random assignment here is no noise and nothing is released.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.grid.feeders import Feeder


class CustomerSampler:
    """Samples customers with replacement; the same seed gives the same samples.

    Parameters
    ----------
    seed
        Makes an experiment repeatable; it protects nothing.
    """

    def __init__(self, seed: int | tuple[int, ...]) -> None:
        self._generator = np.random.default_rng(seed)

    def shuffled(self, values: Ints) -> Ints:
        """Return the values in random order."""
        return self._generator.permutation(values)

    def customers(self, classes: Ints, wanted: Ints) -> Ints:
        """Sample a customer of the wanted class for each house.

        Parameters
        ----------
        classes : (P,)
            Class of each customer of the pool; every wanted class occurs.
        wanted : (N,)
            Class of each house.
        """
        by_class = np.argsort(classes, kind="stable")
        count = np.bincount(classes, minlength=int(wanted.max()) + 1)
        first = np.cumsum(count) - count
        chosen = self._generator.integers(0, count[wanted])
        rows: Ints = by_class[first[wanted] + chosen]
        return rows


MAX_HOUSES = 1_000_000


class Scaling(StrEnum):
    """Scaling of customers to the load of a feeder."""

    HOUSES = "houses"
    """Many houses per bus, in proportion to its nominal load; the expected peak is nominal."""
    FACTOR = "factor"
    """One house per bus, all scaled by one factor so that the expected peak is nominal."""
    LITERAL = "literal"
    """One house per bus, unscaled: the paper's experiment, taken literally."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """N houses on a feeder.

    Attributes
    ----------
    bus : (N,)
        Bus of each house, in ascending order.
    wanted_class : (N,)
        Class of the customer in each house.
    factor
        Factor of the load of each customer.
    """

    bus: Ints
    wanted_class: Ints
    factor: float
    buses: int

    @property
    def houses(self) -> int:
        """Number of houses."""
        return self.bus.size

    def bus_load_kw(self, customers_kw: Floats) -> Floats:
        """Return the load of each snapshot and bus, (T, n), from one row per house."""
        inhabited, first = np.unique(self.bus, return_index=True)
        load = np.zeros((customers_kw.shape[1], self.buses))
        load[:, inhabited] = self.factor * np.add.reduceat(customers_kw, first, axis=0).T
        return load


def place_houses(
    feeder: Feeder,
    *,
    mean_kw: Floats,
    share: Floats,
    scaling: Scaling,
    houses: int | None,
    sampler: CustomerSampler,
) -> Placement:
    """Place houses whose classes have the mix of the real customers.

    Parameters
    ----------
    feeder
        The network.
    mean_kw : (K, d)
        Mean profile of each class of real customers.
    share : (K,)
        Share of each class among them.
    scaling
        How customers become the load of the feeder.
    houses
        Number of houses, with ``"houses"`` only; enough for the nominal load if None.
    sampler
        Assigns classes to houses.
    """
    nominal_kw = float(feeder.nominal_kw.sum())
    if scaling is Scaling.HOUSES:
        if houses is None:
            houses = max(1, round(nominal_kw / _peak_kw(share @ mean_kw)))
        checks.integer("houses", houses, minimum=1, maximum=MAX_HOUSES)
        bus = np.repeat(np.arange(feeder.buses), _apportion(houses, feeder.nominal_kw))
    elif houses is not None:
        raise InvalidParameterError("houses", "omitted unless scaling is 'houses'", houses)
    else:
        bus = np.arange(feeder.buses)
    count = _apportion(bus.size, share)
    factor = 1.0
    if scaling is Scaling.FACTOR:
        factor = nominal_kw / _peak_kw(count @ mean_kw)
    wanted = mixed_classes(bus.size, share, sampler)
    return Placement(bus=bus, wanted_class=wanted, factor=factor, buses=feeder.buses)


def mixed_classes(homes: int, share: Floats, sampler: CustomerSampler) -> Ints:
    """Return a class for each home, in random order, with these shares."""
    return sampler.shuffled(np.repeat(np.arange(share.size), _apportion(homes, share)))


def _peak_kw(load_kw: Floats) -> float:
    """Return the peak load, which must be positive."""
    peak = float(load_kw.max())
    if not peak > 0.0:
        rule = "'literal' where the real customers feed in at every hour"
        raise InvalidParameterError("scaling", rule, peak)
    return peak


def _apportion(seats: int, weight: Floats) -> Ints:
    """Apportion seats by weight: the largest-remainder method."""
    exact = seats * weight / weight.sum()
    given: Ints = np.floor(exact).astype(np.int64)
    left = np.argsort(given - exact, kind="stable")[: seats - int(given.sum())]
    given[left] += 1
    return given
