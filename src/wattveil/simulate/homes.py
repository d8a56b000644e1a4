"""What a home keeps from day to day: who lives there, how large it is, its rhythm, what it owns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate import parameters

_MOST_PEOPLE = max(len(kind.people) for kind in parameters.HOUSEHOLDS.values())
# Homes with a technology are households like the others, large ones a little more often.
_KINDS_WITH_TECHNOLOGY = {"single": 0.15, "couple": 0.33, "family": 0.34, "retired": 0.18}


@dataclass(frozen=True, kw_only=True)
class Homes:
    """The lasting traits of some homes, one entry a home."""

    roles: NDArray[np.intp]  # homes x people, index into ROLES
    lives_there: NDArray[np.bool_]  # homes x people; small households leave places free
    size: NDArray[np.float64]
    busy: NDArray[np.float64]  # how much it cooks and washes for its size
    base_w: NDArray[np.float64]
    rhythm_hours: NDArray[np.float64]
    absences_a_year: NDArray[np.float64]
    absence_days: NDArray[np.float64]
    empty: NDArray[np.bool_]  # nothing stays on
    electric_heating: NDArray[np.bool_]
    stores_heat: NDArray[np.bool_]  # charges by night
    heat_w_per_k: NDArray[np.float64]
    thrift: NDArray[np.float64]  # how willingly it heats
    pump_w: NDArray[np.float64]  # of a gas boiler; 0 without one
    has_ev: NDArray[np.bool_]
    has_pv: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """How many homes there are."""
        return self.size.size


def draw_homes(
    classes: NDArray[np.str_], has_ev: NDArray[np.bool_], rng: np.random.Generator
) -> Homes:
    """Draw the traits of homes of the given classes."""
    count = classes.size
    kinds = np.array(list(_KINDS_WITH_TECHNOLOGY))
    drawn = rng.choice(kinds, size=count, p=list(_KINDS_WITH_TECHNOLOGY.values()))
    kind = np.where(np.isin(classes, list(parameters.HOUSEHOLDS)), classes, drawn)
    households = [parameters.HOUSEHOLDS[name] for name in kind]
    names = list(parameters.ROLES)
    roles = np.zeros((count, _MOST_PEOPLE), dtype=np.intp)
    lives_there = np.zeros((count, _MOST_PEOPLE), dtype=bool)
    for row, household in enumerate(households):
        for place, role in enumerate(household.people):
            roles[row, place] = names.index(role)
            lives_there[row, place] = True
    # Some who could work do not, and some retired couples are one person.
    workless = (rng.random(roles.shape) < parameters.AT_HOME_SHARE) & (
        roles == names.index("worker")
    )
    roles[workless] = names.index("at_home")
    lives_there[:, 1] &= ~((kind == "retired") & (rng.random(count) < parameters.WIDOWED_SHARE))

    size = np.array([household.size for household in households])
    base_w = np.array([household.base_w for household in households])
    empty = rng.random(count) < parameters.EMPTY_SHARE
    rarely = rng.random(count) < parameters.RARELY_HOME_SHARE
    away = parameters.ABSENCE_DAYS, parameters.RARELY_HOME_DAYS
    electric = classes == "electric_heating"
    wealth = rng.standard_normal(count)  # who uses much of one thing uses much of others
    return Homes(
        roles=roles,
        lives_there=lives_there,
        size=size * np.exp(parameters.SIZE_SD * wealth),
        busy=np.exp(rng.normal(-0.5 * parameters.BUSY_SD**2, parameters.BUSY_SD, count)),
        base_w=base_w
        * np.exp(parameters.BASE_SD * (0.6 * wealth + 0.8 * rng.standard_normal(count)))
        * ~empty
        * np.where(rng.random(count) < parameters.FRUGAL_SHARE, 0.1, 1.0),
        rhythm_hours=rng.normal(0.0, parameters.RHYTHM_SD_HOURS, count),
        absences_a_year=parameters.ABSENCE_A_YEAR * rng.gamma(1.5, 1.0 / 1.5, count),
        absence_days=np.where(rarely, away[1], away[0]),
        empty=empty,
        electric_heating=electric,
        stores_heat=electric & (rng.random(count) < parameters.STORAGE_SHARE),
        heat_w_per_k=parameters.HEAT_W_PER_K * np.exp(rng.normal(0.0, parameters.HEAT_SD, count)),
        thrift=rng.uniform(0.4, 1.2, count),
        pump_w=parameters.PUMP_W
        * np.exp(rng.normal(0.0, 0.3, count))
        * (~electric & (rng.random(count) < parameters.GAS_SHARE)),
        has_ev=has_ev,
        has_pv=classes == "pv",
    )
