"""Hosting capacity: how much more a feeder takes before it leaves its limits."""

import math

import numpy as np
from numpy.typing import NDArray

from wattveil.grid.flow import Flow, power_flow
from wattveil.grid.network import Feeder, Floats

# Searched between these multiples of the nominal load, each round in as many levels at once.
_LEAST, _MOST = -1.0, 5.0
_LEVELS, _ROUNDS = 7, 5


def panels_mw(feeder: Feeder, *, load_kw: Floats, load_kvar: Floats, high_pu: float) -> float:
    """Return the sun that the feeder takes in one snapshot until a voltage is too high, in MW."""
    return _capacity_mw(feeder, load_kw, load_kvar, low_pu=0.0, high_pu=high_pu, sign=-1.0)


def more_load_mw(feeder: Feeder, *, load_kw: Floats, load_kvar: Floats, low_pu: float) -> float:
    """Return the load that can be added until a voltage is too low or a branch is full, in MW.

    Negative where the feeder is beyond its limits already: the load that would have to go.
    """
    return _capacity_mw(feeder, load_kw, load_kvar, low_pu=low_pu, high_pu=math.inf, sign=1.0)


def _capacity_mw(
    feeder: Feeder,
    load_kw: Floats,
    load_kvar: Floats,
    *,
    low_pu: float,
    high_pu: float,
    sign: float,
) -> float:
    """Search the last level, spread evenly over the loaded buses, at which the limits are kept.

    A bisection that looks at many levels in one call; a snapshot without solution keeps nothing.
    """
    loaded = feeder.nominal_kw > 0.0
    spread = sign * loaded / loaded.sum()
    nominal_kw = float(feeder.nominal_kw.sum())
    low, high = _LEAST * nominal_kw, _MOST * nominal_kw
    for _ in range(_ROUNDS):
        levels = np.linspace(low, high, _LEVELS)
        flow = power_flow(
            feeder,
            load_kw=load_kw + levels[:, None] * spread,
            load_kvar=np.broadcast_to(load_kvar, (levels.size, feeder.buses)),
        )
        broken = np.flatnonzero(~_kept(feeder, flow, low_pu, high_pu))
        first = int(broken[0]) if broken.size else levels.size - 1
        low, high = float(levels[max(first - 1, 0)]), float(levels[first])
    return low / 1e3


def _kept(feeder: Feeder, flow: Flow, low_pu: float, high_pu: float) -> NDArray[np.bool_]:
    voltage = flow.voltage_pu[:, feeder.not_slack]
    outside = (voltage < low_pu) | (voltage > high_pu) | np.isnan(voltage)
    full = flow.current_a > np.where(np.isnan(feeder.rated_a), math.inf, feeder.rated_a)
    return ~np.asarray(np.hstack([outside, full]).any(axis=1))
