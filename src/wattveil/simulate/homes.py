"""Homes: residents, size, daily rhythm and equipment, and the occupancy of each quarter hour.

Occupancy is a Markov chain per person with three states. Every person sleeps, is active at home, or
is away, and changes state with a probability that depends on the role, the kind of day and the
hour. All days of all persons are stepped together, each from 04:00 on, so the loop below has 96
turns however many days there are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate import parameters
from wattveil.simulate.weather import SLOTS_PER_DAY, SLOTS_PER_HOUR, WAKE_SLOT, Clock

_MAX_PEOPLE = max(len(kind.people) for kind in parameters.HOUSEHOLDS.values())
# Homes with a technology are households like the others, large ones a little more often.
_KINDS_WITH_TECHNOLOGY = {"single": 0.15, "couple": 0.33, "family": 0.34, "retired": 0.18}


@dataclass(frozen=True, kw_only=True)
class Homes:
    """Permanent traits of some homes, one entry per home."""

    roles: NDArray[np.intp]  # homes x people, index into ROLES
    lives_there: NDArray[np.bool_]  # homes x people; small households leave places free
    size: NDArray[np.float64]
    busy: NDArray[np.float64]  # how much it cooks and washes for its size
    base_w: NDArray[np.float64]
    rhythm_hours: NDArray[np.float64]
    absences_per_year: NDArray[np.float64]
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
        """Number of homes."""
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
    roles = np.zeros((count, _MAX_PEOPLE), dtype=np.intp)
    lives_there = np.zeros((count, _MAX_PEOPLE), dtype=bool)
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
        absences_per_year=parameters.ABSENCES_PER_YEAR * rng.gamma(1.5, 1.0 / 1.5, count),
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


_ASLEEP, _ACTIVE, _AWAY = 0, 1, 2
_STATES = 3
_HOURS = (np.arange(SLOTS_PER_DAY) + WAKE_SLOT) / SLOTS_PER_HOUR  # 4 to 28
_SHOPS_OPEN = np.abs(_HOURS - 15.0) < 6.0  # noqa: PLR2004 - from 9 to 21 people go out
_LEAVING_HOURS = 2.5  # who has not left by then stays at home


def simulate_active(
    homes: Homes, clock: Clock, absent: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return how many people are up and at home, for every home and behavioural slot."""
    home, place = np.nonzero(homes.lives_there)  # one entry per person, by home
    role = homes.roles[home, place]
    shape = (home.size, clock.behaviour_days)
    works = np.array([each.works for each in parameters.ROLES.values()])
    # Most people work the same weekdays every week; now and then a day is swapped.
    usual = rng.random((home.size, 7)) < works[role][:, None]
    swapped = rng.random(shape, dtype=np.float32) < parameters.SWAPPED_DAYS
    day_type = 2 * role[:, None] + ((usual[:, clock.weekday] ^ swapped) & ~clock.free_day)
    rhythm = homes.rhythm_hours[home] + rng.normal(0.0, 0.4, home.size)
    shift = np.rint(rhythm * SLOTS_PER_HOUR).astype(np.int32)

    first, second, begin = _chances()
    state = begin[day_type]
    table_row = (_STATES * day_type).astype(np.int32)  # of the state asleep
    where = (table_row + state) * SLOTS_PER_DAY
    active = np.empty((SLOTS_PER_DAY, homes.count, shape[1]), dtype=np.float32)
    first_person = np.searchsorted(home, np.arange(homes.count))
    for slot in range(SLOTS_PER_DAY):
        now = where + np.clip(slot - shift, 0, SLOTS_PER_DAY - 1)[:, None]
        chance = rng.random(shape, dtype=np.float32)
        # Few change state within a quarter of an hour, so only they are examined:
        # asleep -> active; active -> away or asleep; away -> active.
        changes = np.nonzero(chance < second[now])
        on = chance[changes] < first[now[changes]]
        moved = np.where(state[changes] == _ACTIVE, np.where(on, _AWAY, _ASLEEP), _ACTIVE)
        state[changes] = moved
        where[changes] = (table_row[changes] + moved) * SLOTS_PER_DAY
        active[slot] = np.add.reduceat(state == _ACTIVE, first_person, axis=0, dtype=np.float32)
    active *= ~absent
    return np.moveaxis(active, 0, 2).reshape(homes.count, -1)


def draw_absent(homes: Homes, clock: Clock, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw the days without any resident: trips starting at random, of random length."""
    days = clock.behaviour_days
    absent = np.zeros((homes.count, days), dtype=bool)
    lead = int(8 * homes.absence_days.max())  # trips begun before the first day
    trips = rng.poisson(homes.absences_per_year * (days + lead) / 365.0)
    home = np.repeat(np.arange(homes.count), trips)
    begin = rng.integers(-lead, days, home.size)
    length = rng.geometric(1.0 / homes.absence_days[home])
    for row, first, last in zip(home, begin, begin + length, strict=True):
        absent[row, max(first, 0) : max(last, 0)] = True
    return absent


def _chances() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
    """Tabulate the chances of a change of state within a slot, and the states at 04:00.

    The first table holds waking, leaving and coming back, for the three states. The second adds
    going to bed to leaving; for the other states it adds nothing.
    """
    first, second, begin = [], [], []
    for role in parameters.ROLES.values():
        for day in (role.free, role.work):
            wake, leave, back, bed = _hazards(day)
            first.append([wake, leave, back])
            second.append([wake, leave + bed, back])
            overnight = day.leave is not None and day.leave > day.back
            begin.append(_AWAY if overnight else _ASLEEP)
    flat = np.array(first, dtype=np.float32).ravel(), np.array(second, dtype=np.float32).ravel()
    return *flat, np.array(begin, dtype=np.int32)


def _hazards(day: parameters.Day) -> tuple[NDArray[np.float64], ...]:
    """Return the chances of waking, leaving, coming back and going to bed in every slot."""
    bed_hour = day.bed if day.bed > _HOURS[0] else day.bed + 24.0
    wake = 0.35 * _after(day.wake, 0.35)
    bed = 0.30 * _after(bed_hour, 0.40)
    if bed_hour < day.wake:  # sleeps by day
        bed = np.where(day.wake > _HOURS, bed, 0.0)
    else:  # who goes to bed early does not get up again
        wake = np.where(bed_hour - 3.0 > _HOURS, wake, 0.0)
    trips = np.where(_SHOPS_OPEN, day.trips_per_hour / SLOTS_PER_HOUR, 0.0)
    back = np.full(SLOTS_PER_DAY, 1.0 / (SLOTS_PER_HOUR * day.trip_hours))
    if day.leave is None:
        return wake, trips, back, bed
    leave = 0.45 * _after(day.leave, 0.30) * (day.leave + _LEAVING_HOURS > _HOURS)
    if day.leave < day.back:
        gone = (day.leave < _HOURS) & (day.back + 0.5 > _HOURS)
    else:
        gone = (day.leave < _HOURS) | (day.back + 0.5 > _HOURS)
    back = np.where(gone, 0.25 * _after(day.back, 0.35) * (day.back + 0.5 > _HOURS) + 0.003, 0.2)
    return wake, np.maximum(leave, trips), back, bed


def _after(hour: float, softness: float) -> NDArray[np.float64]:
    """Rise from 0 to 1 around an hour."""
    rise: NDArray[np.float64] = 1.0 / (1.0 + np.exp((hour - _HOURS) / softness))
    return rise
