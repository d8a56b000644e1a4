"""Which house stands at which bus, of which class, and by what its load is multiplied.

The paper puts one house at each bus and says nothing of scale: with single homes in kW the feeder
idles, and any data would pass.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.grid.draws import Urn
from wattveil.grid.network import Feeder, Floats, Ints

MOST_HOUSES = 1_000_000


class Scaling(StrEnum):
    """How customers become the load of a feeder."""

    HOUSES = "houses"
    """Many houses a bus, in proportion to its nominal load; their expected peak is nominal."""
    FACTOR = "factor"
    """One house a bus; one factor for all, so that their expected peak is the nominal load."""
    LITERAL = "literal"
    """One house a bus, in kW as it is: the paper's experiment, read to the letter."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """N houses on a feeder.

    Attributes
    ----------
    bus : (N,)
        Bus of each house, in ascending order.
    wanted_class : (N,)
        Class of the customer who lives in it.
    factor : float
        By what the load of each customer is multiplied on its way to the bus.
    """

    bus: Ints
    wanted_class: Ints
    factor: float
    buses: int

    @property
    def houses(self) -> int:
        """How many houses there are."""
        return self.bus.size

    def bus_load_kw(self, customers_kw: Floats) -> Floats:
        """Return the load of each snapshot and bus, (T, n), from a row a house."""
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
    urn: Urn,
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
        How many, if not as many as carry the nominal load; with ``"houses"`` alone.
    urn
        Draws which house gets which class.
    """
    nominal_kw = float(feeder.nominal_kw.sum())
    if scaling is Scaling.HOUSES:
        if houses is None:
            houses = max(1, round(nominal_kw / _peak_kw(share @ mean_kw)))
        checks.integer("houses", houses, least=1, most=MOST_HOUSES)
        bus = np.repeat(np.arange(feeder.buses), _apportion(houses, feeder.nominal_kw))
    elif houses is not None:
        raise InvalidParameterError("houses", "left out unless scaling is 'houses'", houses)
    else:
        bus = np.arange(feeder.buses)
    count = _apportion(bus.size, share)
    factor = 1.0
    if scaling is Scaling.FACTOR:
        factor = nominal_kw / _peak_kw(count @ mean_kw)
    wanted = urn.shuffled(np.repeat(np.arange(share.size), count))
    return Placement(bus=bus, wanted_class=wanted, factor=factor, buses=feeder.buses)


def _peak_kw(load_kw: Floats) -> float:
    """Return the highest load, which must be a load."""
    peak = float(load_kw.max())
    if not peak > 0.0:
        rule = "'literal' where the real customers feed in at every hour"
        raise InvalidParameterError("scaling", rule, peak)
    return peak


def _apportion(seats: int, weight: Floats) -> Ints:
    """Share seats out in proportion to weights: whole parts, then the largest remainders."""
    exact = seats * weight / weight.sum()
    given: Ints = np.floor(exact).astype(np.int64)
    left = np.argsort(given - exact, kind="stable")[: seats - int(given.sum())]
    given[left] += 1
    return given
