"""`Feeder`: a balanced network of one voltage level, checked when it is made."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from wattveil import checks
from wattveil.errors import InvalidParameterError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A base voltage outside is in another unit; 1 V and 1 MV are nobody's feeder.
_LEAST_KV, _MOST_KV = 0.1, 500.0
_LEAST_SLACK_PU, _MOST_SLACK_PU = 0.8, 1.2


@dataclass(frozen=True, kw_only=True, eq=False)
class Feeder:
    """Buses and branches, seen as one phase of a balanced network.

    Parameters
    ----------
    name
        What it is called in tables and pages.
    base_kv
        Rated voltage between lines.
    bus_names
        One name a bus, n of them, no name twice.
    slack
        Position of the bus whose voltage is held: the substation.
    slack_pu
        That voltage.
    nominal_kw, nominal_kvar
        Three-phase load of each bus that the feeder was built for.
    capacitor_kvar
        Fixed capacitors of each bus, at rated voltage.
    from_bus, to_bus
        Positions of the ends of each branch, m of them.
    r_ohm, x_ohm, b_us
        Series impedance of each branch, and the charging of the whole branch in microsiemens.
    rated_a
        Current that each branch may carry; NaN where nobody says.
    """

    name: str
    base_kv: float
    bus_names: tuple[str, ...]
    slack: int
    slack_pu: float
    nominal_kw: Floats
    nominal_kvar: Floats
    capacitor_kvar: Floats
    from_bus: Ints
    to_bus: Ints
    r_ohm: Floats
    x_ohm: Floats
    b_us: Floats
    rated_a: Floats

    def __post_init__(self) -> None:
        """Refuse what is no feeder."""
        _between("base_kv", self.base_kv, _LEAST_KV, _MOST_KV, "kV")
        _between("slack_pu", self.slack_pu, _LEAST_SLACK_PU, _MOST_SLACK_PU, "per unit")
        checks.integer("slack", self.slack, least=0, most=self.buses - 1)
        twice = [name for name, times in Counter(self.bus_names).items() if times > 1]
        if twice:
            raise InvalidParameterError("bus_names", "different from each other", twice[0])
        self._check_columns()
        self._check_branches()
        self._check_connected()

    @property
    def buses(self) -> int:
        """How many buses there are."""
        return len(self.bus_names)

    @property
    def radial(self) -> bool:
        """Whether there is one way only from the substation to each bus."""
        return self.from_bus.size == self.buses - 1

    @property
    def not_slack(self) -> NDArray[np.bool_]:
        """The buses whose voltage is not held."""
        others = np.ones(self.buses, dtype=np.bool_)
        others[self.slack] = False
        return others

    @cached_property
    def distance_ohm(self) -> Floats:
        """Impedance between the substation and each bus, along the shortest way."""
        size = np.hypot(self.r_ohm, self.x_ohm)  # of two parallel lines the sum: a bound
        ends = (self.from_bus, self.to_bus)
        graph = csr_array((size, ends), shape=(self.buses, self.buses))
        away: Floats = dijkstra(graph, directed=False, indices=[self.slack])[0]
        return away

    def _check_columns(self) -> None:
        """Check that there is one finite number a bus or a branch."""
        per_bus = ("nominal_kw", "nominal_kvar", "capacitor_kvar")
        per_branch = ("from_bus", "to_bus", "r_ohm", "x_ohm", "b_us", "rated_a")
        columns = [(name, self.buses) for name in per_bus]
        columns += [(name, self.from_bus.size) for name in per_branch]
        for name, size in columns:
            values = getattr(self, name)
            if values.shape != (size,):
                raise InvalidParameterError(name, f"of shape ({size},)", values.shape)
            unknown_rating = np.isnan(values) if name == "rated_a" else False
            self._refuse(name, "finite numbers", ~np.isfinite(values) & ~unknown_rating)
        for name in ("nominal_kw", "capacitor_kvar", "r_ohm", "x_ohm", "b_us"):
            self._refuse(name, "at least 0", getattr(self, name) < 0.0)
        if not self.nominal_kw.any():
            raise InvalidParameterError("nominal_kw", "above 0 at one bus at least", 0.0)
        self._refuse("rated_a", "above 0, or NaN where unknown", self.rated_a <= 0.0)

    def _check_branches(self) -> None:
        """Check that each branch leads from a bus to another one, and has an impedance."""
        for name in ("from_bus", "to_bus"):
            ends = getattr(self, name)
            self._refuse(name, "positions of buses", (ends < 0) | (ends >= self.buses))
        self._refuse("to_bus", "another bus than from_bus", self.from_bus == self.to_bus)
        none = (self.r_ohm == 0.0) & (self.x_ohm == 0.0)
        self._refuse("x_ohm", "above 0 where r_ohm is 0", none)

    def _check_connected(self) -> None:
        """Check that power reaches every bus."""
        joined = (np.ones(self.from_bus.size), (self.from_bus, self.to_bus))
        graph = csr_array(joined, shape=(self.buses, self.buses))
        island = connected_components(graph, directed=False)[1]
        cut_off = np.flatnonzero(island != island[self.slack])
        if cut_off.size:
            names = ", ".join(self.bus_names[bus] for bus in cut_off[:5])
            raise InvalidParameterError("branches", "a way from the slack to every bus", names)

    def _refuse(self, name: str, rule: str, broken: NDArray[np.bool_]) -> None:
        """Raise for the first value that breaks the rule, and say where it stands."""
        if broken.any():
            first = int(np.argmax(broken))
            raise InvalidParameterError(f"{name}[{first}]", rule, getattr(self, name)[first].item())


def _between(name: str, value: object, least: float, most: float, unit: str) -> None:
    if not least <= checks.finite(name, value) <= most:
        raise InvalidParameterError(name, f"between {least:g} and {most:g} {unit}", value)
