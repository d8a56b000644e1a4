"""Finding the one home with solar panels from two averages (the paper's example).

An average of P homes and the same average without one of them give that home away::

    x_0 = P q(X) - (P - 1) q(X')

A home that exports has a negative load at noon, which no other home has. The same two averages,
released with differential privacy, carry noise that P multiplies.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.errors import InvalidParameterError
from wattveil.evaluation.differencing import recovered
from wattveil.profiles import Profiles
from wattveil.release.shapes import load_shapes

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SolarAttack:
    """What the attacker got about one home. Private: the home's own load is in it."""

    customer: str
    home_kw: Floats
    recovered_kw: Floats
    """From two exact averages: the home itself."""
    protected_kw: Floats
    """From two released averages, a row each time they were released."""
    control_kw: Floats
    """The same for a home without panels."""
    sunny: NDArray[np.bool_]
    """The slots in which the home exports."""

    @property
    def error_kw(self) -> float:
        """Largest error of what two exact averages give."""
        return float(np.abs(self.recovered_kw - self.home_kw).max())

    @property
    def said_solar(self) -> tuple[float, float]:
        """How often the released averages look like export: of the home, and of the other."""
        home, other = (
            float((curves[:, self.sunny].mean(axis=1) < 0.0).mean())
            for curves in (self.protected_kw, self.control_kw)
        )
        return home, other

    def to_json(self) -> dict[str, object]:
        """Return the figures and the curves as JSON values."""
        home, other = self.said_solar
        return {
            "private": True,
            "customer": self.customer,
            "error_kw": self.error_kw,
            "said_solar": home,
            "said_solar_of_a_home_without": other,
            "home_kw": self.home_kw.tolist(),
            "recovered_kw": self.recovered_kw.tolist(),
            "protected_kw": self.protected_kw.tolist(),
        }


def solar_attack(
    profiles: Profiles, *, customer: str | None, epsilon: float, delta: float, releases: int
) -> SolarAttack:
    """Attack the home that exports most, or the one that is named."""
    load_kw = profiles.load_kw
    home = _home(profiles, customer)
    sunny = load_kw[home] < 0.0
    without = np.flatnonzero((load_kw >= 0.0).all(axis=1))
    if without.size == 0:
        raise InvalidParameterError("profiles", "with a home that never exports", "none")
    other = int(without[0])

    def protected(row: int) -> Floats:
        """Return what two released averages give about a home, each released anew."""
        found = []
        for _ in range(releases):
            both = [
                load_shapes(rows, epsilon=epsilon, delta=delta).mean_kw[0]
                for rows in (load_kw, np.delete(load_kw, row, axis=0))
            ]
            found.append(recovered(both[0], len(load_kw), both[1]))
        return np.array(found)

    exact = (load_kw.mean(axis=0), np.delete(load_kw, home, axis=0).mean(axis=0))
    return SolarAttack(
        customer=profiles.customer_ids[home],
        home_kw=load_kw[home],
        recovered_kw=recovered(exact[0], len(load_kw), exact[1]),
        protected_kw=protected(home),
        control_kw=protected(other),
        sunny=sunny,
    )


def _home(profiles: Profiles, customer: str | None) -> int:
    """Return the row of the home to attack."""
    lowest = profiles.load_kw.min(axis=1)
    if customer is None:
        home = int(np.argmin(lowest))
    elif customer in profiles.customer_ids:
        home = profiles.customer_ids.index(customer)
    else:
        raise InvalidParameterError("customer", "one of the profiles", customer)
    if lowest[home] >= 0.0:
        rule = "a home that exports: its load falls below 0"
        raise InvalidParameterError("customer", rule, profiles.customer_ids[home])
    return home
