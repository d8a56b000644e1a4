"""Differencing attack on one home with solar panels.

PRIVATE. The attack is that of `wattveil.lab.attacks.differencing`: a home that exports has a
negative load at noon, which no other home has.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.lab.attacks.differencing import recovered
from wattveil.numerics.measures.verdicts import share_interval
from wattveil.profiles import Profiles
from wattveil.release.group_load import load_shapes


@dataclass(frozen=True, kw_only=True, eq=False)
class SolarAttack:
    """Attack on one home with solar panels. PRIVATE: it holds the load of the home."""

    customer: str
    home_kw: Floats
    recovered_kw: Floats
    """Recovered from two exact averages."""
    protected_kw: Floats
    """Recovered from two DP averages; one row per repetition."""
    control_kw: Floats
    """The same as `protected_kw` for a home without panels."""
    sunny: NDArray[np.bool_]
    """Slots in which the home exports."""
    epsilon: float
    """Of each DP average; both together spend twice as much."""
    customers: int

    @property
    def error_kw(self) -> float:
        """Largest error of the recovery from exact averages."""
        return float(np.abs(self.recovered_kw - self.home_kw).max())

    @property
    def exports_found(self) -> tuple[int, int]:
        """Number of repetitions that indicate export: of the home, and of one without panels."""
        home, control = (
            int((curves[:, self.sunny].mean(axis=1) < 0.0).sum())
            for curves in (self.protected_kw, self.control_kw)
        )
        return home, control

    @property
    def export_rates(self) -> tuple[float, float]:
        """Share of repetitions that indicate export: of the home, and of one without panels."""
        home, control = self.exports_found
        return home / len(self.protected_kw), control / len(self.control_kw)

    @property
    def protected_error_kw(self) -> Floats:
        """Root-mean-square error of the recovery from each pair of DP averages."""
        error: Floats = np.sqrt(np.square(self.protected_kw - self.home_kw).mean(axis=1))
        return error

    def to_json(self) -> dict[str, object]:
        """Return figures and curves as JSON values."""
        home, control = self.export_rates
        return {
            "private": True,
            "customer": self.customer,
            "error_kw": self.error_kw,
            "export_rate": home,
            "export_rate_interval": share_interval(self.exports_found[0], len(self.protected_kw)),
            "export_rate_without_panels": control,
            "home_kw": self.home_kw.tolist(),
            "recovered_kw": self.recovered_kw.tolist(),
            "protected_kw": self.protected_kw.tolist(),
        }


def solar_attack(
    profiles: Profiles, *, customer: str | None, epsilon: float, delta: float, releases: int
) -> SolarAttack:
    """Recover a home with panels from two averages, exact and differentially private.

    Parameters
    ----------
    profiles
        Private; at least one home exports and one never does.
    customer
        Identifier of the home; None selects the one with the largest export.
    epsilon, delta
        Budget of each DP average.
    releases
        Number of repetitions.
    """
    load_kw = profiles.load_kw
    home = _home(profiles, customer)
    sunny = load_kw[home] < 0.0
    without = np.flatnonzero((load_kw >= 0.0).all(axis=1))
    if without.size == 0:
        raise InvalidParameterError(
            "profiles", "of homes of which at least one never exports", "none"
        )
    other = int(without[0])

    def protected(row: int) -> Floats:
        """Return the recoveries of a home from pairs of DP averages."""
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
        epsilon=epsilon,
        customers=len(load_kw),
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
