"""What the tests of the grid share: small feeders, simulated customers, OpenDSS."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.grid import Feeder
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import LONDON_MIX, simulate_attributes, simulate_load_kw


@pytest.fixture(scope="session")
def four_buses() -> Feeder:
    """Return a substation and three buses: a trunk of two branches, and a lateral."""
    return Feeder(
        name="four",
        base_kv=11.0,
        bus_names=("substation", "near", "far", "side"),
        slack=0,
        slack_pu=1.02,
        nominal_kw=np.array([0.0, 800.0, 1200.0, 400.0]),
        nominal_kvar=np.array([0.0, 300.0, 500.0, 100.0]),
        capacitor_kvar=np.array([0.0, 0.0, 200.0, 0.0]),
        from_bus=np.array([0, 2, 1]),  # the second is written from its far end
        to_bus=np.array([1, 1, 3]),
        r_ohm=np.array([0.6, 1.1, 0.9]),
        x_ohm=np.array([0.9, 1.2, 0.7]),
        b_us=np.array([30.0, 60.0, 20.0]),
        rated_a=np.full(3, np.nan),
    )


@pytest.fixture
def with_tie(four_buses: Feeder) -> Feeder:
    """Return the same feeder with a fourth branch, which closes a loop."""
    more = {"from_bus": 3, "to_bus": 2, "r_ohm": 0.8, "x_ohm": 0.8, "b_us": 10.0, "rated_a": np.nan}
    columns = {name: np.append(getattr(four_buses, name), value) for name, value in more.items()}
    return dataclasses.replace(four_buses, name="meshed", **columns)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def named_profiles() -> Callable[[Floats, str], Profiles]:
    """Return a maker of profiles on the hours of a day."""

    def make(load_kw: Floats, prefix: str, classes: tuple[str, ...] | None = None) -> Profiles:
        return Profiles(
            customer_ids=tuple(f"{prefix}{row}" for row in range(len(load_kw))),
            load_kw=np.array(load_kw),
            grid=TimeGrid(),
            timezone="Europe/London",
            attributes={} if classes is None else {"class": classes},
        )

    return make


@pytest.fixture(scope="session")
def homes_kw() -> Floats:
    """Return 400 simulated homes."""
    return simulate_load_kw(customers=400)


@pytest.fixture(scope="session")
def home_classes() -> tuple[str, ...]:
    """Return a class for each of them, such as a utility knows."""
    table = simulate_attributes(customers=400, mix=LONDON_MIX, seed=1)
    return tuple(table["class"].to_pylist())
