"""Switching things on: events of any length, laid exactly onto quarter hours, and thermostats."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate.clock import SLOTS_A_DAY, SLOTS_AN_HOUR
from wattveil.simulate.parameters import APPLIANCES, HABIT_SHARE, Appliance

_MINUTES_A_SLOT = 15.0
_CRUMB_W = 1e-6
_DAY_BEGINS = 4.0  # the behavioural day
# Chores: hours after 04:00, and how readily one begins then what can wait.
_CHORES = ((0.0, 4.0, 9.0, 12.0, 18.0, 20.0, 24.0), (0.2, 1.0, 1.0, 0.6, 0.4, 0.1, 0.1))


@dataclass(frozen=True, kw_only=True)
class Household:
    """What decides how often things are switched on, for some homes."""

    active: NDArray[np.float32]  # homes x slots, people up and at home
    use: NDArray[np.float64]  # homes x days, size times the mood of the day
    busy: NDArray[np.float64]  # homes, how much of their use is cooking, washing and the like
    rhythm_hours: NDArray[np.float64]
    free_day: NDArray[np.bool_]  # days
    coldness: NDArray[np.float64]  # days, 0 when mild


@dataclass(frozen=True)
class Events:
    """Rectangles of power in continuous time, gathered until they are laid onto the grid.

    A rise of power by w at a moment inside slot k, a share f of it gone, adds w (1 - f) to slot k
    and w to every later one. As differences between slots this is w (1 - f) at k and w f at k + 1,
    so a rectangle is four numbers, whatever its length, and one running sum lays all of them.
    """

    homes: int
    slots: int
    _where: list[NDArray[np.intp]] = field(default_factory=list)
    _steps: list[NDArray[np.float64]] = field(default_factory=list)

    def add(
        self,
        home: NDArray[np.intp],
        slot: NDArray[np.float64],
        slots: NDArray[np.float64],
        watts: NDArray[np.float64],
    ) -> None:
        """Switch on ``watts`` at ``slot`` for so many ``slots``, fractions counting."""
        end = np.minimum(slot + slots, self.slots)
        for moment, rise in ((slot, watts), (end, -watts)):
            whole = np.floor(moment)
            part = moment - whole
            at = home * (self.slots + 2) + whole.astype(np.intp)
            self._where.extend((at, at + 1))
            self._steps.extend((rise * (1.0 - part), rise * part))

    def watts(self) -> NDArray[np.float64]:
        """Return the mean power in every slot of every home."""
        row = self.slots + 2
        where, steps = np.concatenate(self._where), np.concatenate(self._steps)
        change = np.bincount(where, steps, minlength=self.homes * row).reshape(self.homes, row)
        # The running sum leaves crumbs of rounding where the power is back at zero.
        laid = np.cumsum(change, axis=1, dtype=np.float64)[:, : self.slots]
        return np.where(laid > _CRUMB_W, laid, 0.0)


def use_appliances(household: Household, events: Events, rng: np.random.Generator) -> None:
    """Draw every use of every appliance in the table."""
    homes, days = household.use.shape
    for appliance in APPLIANCES.values():
        owned = rng.random(homes) < appliance.owned
        habit = rng.gamma(1.0 / HABIT_SHARE, HABIT_SHARE, homes)
        watts = appliance.watts * np.exp(appliance.watts_sd * rng.standard_normal(homes))
        centre = appliance.hour_sd * rng.standard_normal((homes,))

        rate = appliance.uses * household.use * (owned * habit * household.busy)[:, None]
        rate = rate * np.where(household.free_day, appliance.free_day, 1.0)
        rate *= 1.0 - appliance.cold + appliance.cold * household.coldness
        home, slot = _moments(appliance, household, rate, centre, rng)

        length = appliance.minutes / _MINUTES_A_SLOT
        slots = length * np.exp(appliance.minutes_sd * rng.standard_normal(home.size))
        events.add(home, slot, slots, watts[home])
        if appliance.tail_watts:
            tail = np.full(home.size, appliance.tail_minutes / _MINUTES_A_SLOT)
            late = np.minimum(slot + slots, days * SLOTS_A_DAY)
            events.add(home, late, tail, np.full(home.size, appliance.tail_watts))


def cycle(
    speed: NDArray[np.float64], duty: NDArray[np.float64], phase: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of every slot in which a thermostat is on.

    Parameters
    ----------
    speed
        Cycles a slot, homes x slots.
    duty
        Share of a cycle that is on; a column or one value a slot.
    phase
        Where in its cycle each home begins, a column.
    """
    end = phase + np.cumsum(speed, axis=1)
    on = _on_until(end, duty)
    if duty.shape[1] == 1:  # the duty never changes, so a slot begins where the last one ended
        on[:, 1:] -= on[:, :-1].copy()
        on[:, :1] -= _on_until(phase, duty)
    else:
        on -= _on_until(end - speed, duty)
    on /= speed
    return on


def _on_until(phase: NDArray[np.float64], duty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much of the time up to a phase was on, in cycles."""
    whole = np.floor(phase)
    part = phase - whole
    np.minimum(part, duty, out=part)
    whole *= duty
    whole += part
    return whole


def _moments(
    appliance: Appliance,
    household: Household,
    rate: NDArray[np.float64],
    centre: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Draw homes and moments of use, in slots, and keep those at which somebody is up."""
    homes, days = rate.shape
    if appliance.hour is None:
        cell = np.repeat(np.arange(homes * days), rng.poisson(24.0 * rate).ravel())
        hour = rng.uniform(0.0, 24.0, cell.size)
    else:
        # A habit happens or not; only the keenest homes do it twice a day.
        sure = np.floor(rate)
        often = (sure + (rng.random(rate.shape) < rate - sure)).astype(np.intp)
        cell = np.repeat(np.arange(homes * days), often.ravel())
        middle = appliance.hour - _DAY_BEGINS + centre
        if not appliance.unattended:
            middle = middle + household.rhythm_hours
        hour = middle[cell // days] + rng.normal(0.0, appliance.hour_jitter, cell.size)
    home, day = cell // days, cell % days
    slot = (day * 24.0 + hour % 24.0) * SLOTS_AN_HOUR
    if appliance.unattended:
        return home, slot
    up = household.active[home, slot.astype(np.intp)] > 0.0
    if appliance.daytime:
        up &= rng.random(home.size) < np.interp(hour % 24.0, *_CHORES)
    return home[up], slot[up]
