"""From energy to what the meter reports: whole watt-hours, gaps and estimates.

A meter has a register that counts whole watt-hours, and a reading is the difference between two
looks at it. So readings of 15, 30 and 60 minutes always add up to the same energy.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.simulate.clock import SLOTS_AN_HOUR

_MINUTES_A_SLOT = 15
_GAP_HOURS = 5.0  # mean length of a failure of the radio link
_LONGEST_GAPS = 12.0  # gaps begun up to so many mean lengths before the first hour are drawn


@dataclass(frozen=True, kw_only=True)
class Metered:
    """What some meters reported, one row a meter."""

    kwh: NDArray[np.float64]
    missing: NDArray[np.bool_]
    estimated: NDArray[np.bool_]


def meter(
    energy_wh: NDArray[np.float64],
    *,
    minutes: int,
    missing: float,
    estimated: float,
    rng: np.random.Generator,
) -> Metered:
    """Read the registers every so many minutes; lose some reads and estimate others.

    Gaps cover whole hours, so that the same reads are lost at every resolution. Where reads are
    estimated the register was read before and after, and a straight line stands between.
    """
    count, slots = energy_wh.shape
    register = np.zeros((count, slots + 1))
    np.cumsum(energy_wh, axis=1, out=register[:, 1:])
    lost = draw_gaps((count, slots), missing, rng)
    guessed = draw_gaps((count, slots), estimated, rng) & ~lost
    for row in np.flatnonzero(guessed.any(axis=1)):
        seen = np.ones(slots + 1, dtype=bool)
        seen[1:-1] = ~(guessed[row, 1:] & guessed[row, :-1])
        edge = np.arange(slots + 1)
        register[row] = np.interp(edge, edge[seen], register[row, seen])
    step = minutes // _MINUTES_A_SLOT
    looks = np.floor(register[:, ::step] + 1e-6)  # a sum of parts may stop just below its whole
    return Metered(
        kwh=np.diff(looks, axis=1) / 1000.0,
        missing=lost[:, ::step],
        estimated=guessed[:, ::step],
    )


def draw_gaps(shape: tuple[int, int], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw gaps that begin at random hours and last random hours, and cover so large a share.

    Where gaps of mean length L begin at the rate r and may overlap, a share 1 - exp(-r L) of all
    hours is covered.
    """
    count, slots = shape
    hours = -(-slots // SLOTS_AN_HOUR)
    lead = int(_LONGEST_GAPS * _GAP_HOURS)
    rate = -np.log1p(-share) / _GAP_HOURS
    meter_row = np.repeat(np.arange(count), rng.poisson(rate * (hours + lead), count))
    begin = rng.integers(-lead, hours, meter_row.size)
    end = np.clip(begin + rng.geometric(1.0 / _GAP_HOURS, meter_row.size), 0, hours)
    change = np.zeros((count, hours + 1), dtype=np.int32)
    np.add.at(change, (meter_row, np.maximum(begin, 0)), 1)
    np.add.at(change, (meter_row, end), -1)
    covered = np.cumsum(change, axis=1)[:, :hours] > 0
    return np.repeat(covered, SLOTS_AN_HOUR, axis=1)[:, :slots]
