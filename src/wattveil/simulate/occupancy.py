"""Who is up and at home: a Markov chain a person, with three states.

Every person sleeps, is active at home, or is away, and changes state with a probability that
depends on the role, the kind of day and the hour. All days of all persons are stepped together,
each from 04:00 on, so the loop below has 96 turns however many days there are.
"""

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate import parameters
from wattveil.simulate.clock import SLOTS_A_DAY, SLOTS_AN_HOUR, WAKE_SLOT, Clock
from wattveil.simulate.homes import Homes

_ASLEEP, _ACTIVE, _AWAY = 0, 1, 2
_STATES = 3
_HOURS = (np.arange(SLOTS_A_DAY) + WAKE_SLOT) / SLOTS_AN_HOUR  # 4 to 28
_SHOPS_OPEN = np.abs(_HOURS - 15.0) < 6.0  # noqa: PLR2004 - from 9 to 21 people go out
_LEAVING_HOURS = 2.5  # who has not left by then stays at home


def simulate_active(
    homes: Homes, clock: Clock, absent: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return how many people are up and at home, for every home and behavioural slot."""
    home, place = np.nonzero(homes.lives_there)  # one entry a person, by home
    role = homes.roles[home, place]
    shape = (home.size, clock.behaviour_days)
    works = np.array([each.works for each in parameters.ROLES.values()])
    # Most people work the same weekdays every week; now and then a day is swapped.
    usual = rng.random((home.size, 7)) < works[role][:, None]
    swapped = rng.random(shape, dtype=np.float32) < parameters.SWAPPED_DAYS
    day_type = 2 * role[:, None] + ((usual[:, clock.weekday] ^ swapped) & ~clock.free_day)
    rhythm = homes.rhythm_hours[home] + rng.normal(0.0, 0.4, home.size)
    shift = np.rint(rhythm * SLOTS_AN_HOUR).astype(np.int32)

    first, second, begin = _chances()
    state = begin[day_type]
    table_row = (_STATES * day_type).astype(np.int32)  # of the state asleep
    where = (table_row + state) * SLOTS_A_DAY
    active = np.empty((SLOTS_A_DAY, homes.count, shape[1]), dtype=np.float32)
    first_person = np.searchsorted(home, np.arange(homes.count))
    for slot in range(SLOTS_A_DAY):
        now = where + np.clip(slot - shift, 0, SLOTS_A_DAY - 1)[:, None]
        chance = rng.random(shape, dtype=np.float32)
        # Few change state within a quarter of an hour, so only they are looked at closely:
        # asleep -> active; active -> away or asleep; away -> active.
        changes = np.nonzero(chance < second[now])
        on = chance[changes] < first[now[changes]]
        moved = np.where(state[changes] == _ACTIVE, np.where(on, _AWAY, _ASLEEP), _ACTIVE)
        state[changes] = moved
        where[changes] = (table_row[changes] + moved) * SLOTS_A_DAY
        active[slot] = np.add.reduceat(state == _ACTIVE, first_person, axis=0, dtype=np.float32)
    active *= ~absent
    return np.moveaxis(active, 0, 2).reshape(homes.count, -1)


def draw_absent(homes: Homes, clock: Clock, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw the days on which nobody is there: trips starting at random, of random length."""
    days = clock.behaviour_days
    absent = np.zeros((homes.count, days), dtype=bool)
    lead = int(8 * homes.absence_days.max())  # trips begun before the first day
    trips = rng.poisson(homes.absences_a_year * (days + lead) / 365.0)
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
    trips = np.where(_SHOPS_OPEN, day.trips_an_hour / SLOTS_AN_HOUR, 0.0)
    back = np.full(SLOTS_A_DAY, 1.0 / (SLOTS_AN_HOUR * day.trip_hours))
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
