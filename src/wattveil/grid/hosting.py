"""Hosting capacity: how much more a feeder takes before it leaves its limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.grid.flow import Flow, power_flow
from wattveil.grid.network import Feeder, Floats

# Searched between these multiples of the nominal load, each round in as many levels at once.
_LEAST, _MOST = -1.0, 5.0
_LEVELS, _ROUNDS = 7, 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is added to which snapshot, and what must be kept.

    Attributes
    ----------
    load_kw, load_kvar : (n,)
        The snapshot.
    feeds_in : bool
        Whether sun is added, and not load.
    low_pu, high_pu : float
        Voltages that all buses but the slack keep; branches always keep their ratings.
    """

    load_kw: Floats
    load_kvar: Floats
    feeds_in: bool
    low_pu: float = 0.0
    high_pu: float = math.inf


def hosting_capacity_mw(feeder: Feeder, questions: Sequence[Question]) -> list[float]:
    """Return for each question how many MW, spread evenly over the loaded buses, can be added.

    Negative where the limits are broken already: so much would have to go. It is a bisection that
    looks at several levels, of all questions, in one call; what has no solution keeps nothing.
    """
    loaded = feeder.nominal_kw > 0.0
    spread = loaded / loaded.sum()
    nominal_kw = float(feeder.nominal_kw.sum())
    low = np.full(len(questions), _LEAST * nominal_kw)
    high = np.full(len(questions), _MOST * nominal_kw)
    sign = np.array([-1.0 if question.feeds_in else 1.0 for question in questions])
    load_kw = np.stack([question.load_kw for question in questions])
    load_kvar = np.stack([question.load_kvar for question in questions])
    each = np.arange(len(questions))
    for _ in range(_ROUNDS):
        levels = np.linspace(low, high, _LEVELS, axis=1)
        added = (sign[:, None] * levels)[:, :, None] * spread
        flow = power_flow(
            feeder,
            load_kw=(load_kw[:, None] + added).reshape(-1, feeder.buses),
            load_kvar=np.repeat(load_kvar, _LEVELS, axis=0),
        )
        broken = ~_kept(feeder, flow, questions)
        broken[:, -1] = True  # beyond the last level nobody looks
        first = np.argmax(broken, axis=1)
        low, high = levels[each, np.maximum(first - 1, 0)], levels[each, first]
    return [float(kw) / 1e3 for kw in low]


def _kept(feeder: Feeder, flow: Flow, questions: Sequence[Question]) -> NDArray[np.bool_]:
    """Return for each question and level whether the limits are kept."""
    shape = (len(questions), _LEVELS)
    voltage = flow.voltage_pu[:, feeder.not_slack].reshape(*shape, -1)
    low = np.array([question.low_pu for question in questions])[:, None, None]
    high = np.array([question.high_pu for question in questions])[:, None, None]
    inside = (voltage >= low) & (voltage <= high)  # false for NaN
    rating = np.where(np.isnan(feeder.rated_a), math.inf, feeder.rated_a)
    carried = (flow.current_a <= rating).reshape(*shape, -1)
    return np.asarray(np.concatenate([inside, carried], axis=2).all(axis=2))
