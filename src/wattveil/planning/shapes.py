"""What a release of load shapes or duration curves will be worth.

A plan walks through the release with the customers, sizes and curves that are expected, so it
follows the same choices of radius, coordinates and filter. It sees no data and costs nothing.

>>> plan = plan_load_shapes(customers=[1409], epsilon=1.0, delta=1e-6, typical_kw=0.5)
>>> bool(0.005 < plan.error_kw[0] < 0.05)
True
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattveil import checks
from wattveil.clustering.calendar import Calendar, public_calendar, whole_days
from wattveil.clustering.duration_curves import sort_curves
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_means import GroupMeans, expected_means
from wattveil.clustering.group_sizes import checked_limits, expected_counts, read_sizes
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget
from wattveil.release.promise import global_promise
from wattveil.release.shapes import COUNT_SHARE, SIZE_SHARE, SUMS_SHARE

_LOG_SPREAD = 0.6


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadPlan:
    """What to expect of each group."""

    error_kw: Floats
    """Expected root-mean-square error over the slots; of a duration curve, over the ranks."""
    clip_kw: Floats
    """The size above which customers will be scaled back."""


def plan_load_shapes(
    *,
    customers: Sequence[int],
    epsilon: float,
    delta: float,
    typical_kw: float,
    log_spread: float = _LOG_SPREAD,
    n_slots: int = 24,
    clip_kw: float | None = None,
    most_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadPlan:
    """Return the error that `load_shapes` is expected to have.

    Parameters
    ----------
    customers : one number a group
        Public or guessed; for equal groups, the same number for each.
    epsilon, delta, clip_kw, most_clip_kw, plausible_kw
        As in `load_shapes`.
    typical_kw, log_spread : float
        Median size of a customer, and standard deviation of the logarithm of sizes.
    n_slots : int
        Slots of the day.
    """
    sizes, limits = (typical_kw, log_spread), (clip_kw, most_clip_kw, plausible_kw)
    means, _, clip = _walk(customers, (epsilon, delta), sizes, limits, (n_slots, 1))
    return LoadPlan(error_kw=_slot_error(means), clip_kw=clip)


def plan_load_duration(
    *,
    customers: Sequence[int],
    epsilon: float,
    delta: float,
    typical_kw: float,
    log_spread: float = _LOG_SPREAD,
    n_slots: int = 24,
    slots_per_day: int = 24,
    clip_kw: float | None = None,
    most_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadPlan:
    """Return the error that `load_duration_curve` is expected to have, in kW of the whole group.

    ``n_slots`` is the length of the curve, 8,760 for a year; the rest as in `plan_load_shapes`.
    """
    n_days = whole_days(checks.integer("n_slots", n_slots, least=1), slots_per_day)
    sizes, limits = (typical_kw, log_spread), (clip_kw, most_clip_kw, plausible_kw)
    means, calendar, clip = _walk(customers, (epsilon, delta), sizes, limits, (n_slots, n_days))
    _, errors = sort_curves(means, calendar)
    error = np.sqrt(np.square(errors).mean(axis=1)) * np.array(customers)
    return LoadPlan(error_kw=error, clip_kw=clip)


def _walk(
    customers: Sequence[int],
    promise: tuple[float, float],
    spread_of_sizes: tuple[float, float],
    limits: tuple[float | None, float | None, tuple[float, float]],
    length: tuple[int, int],
) -> tuple[GroupMeans, Calendar, Floats]:
    """Return what a release is expected to find: curves with errors, coordinates, radii."""
    if not len(customers):
        raise InvalidParameterError("customers", "one number a group, at least one", customers)
    number = np.array([checks.integer("customers", n, least=1) for n in customers], dtype=float)
    typical, spread = (checks.positive("typical_kw, log_spread", x) for x in spread_of_sizes)
    within, edges = checked_limits(*limits)
    n_slots, n_days = checks.integer("n_slots", length[0], least=1), length[1]
    epsilon = checks.positive_epsilon("epsilon", promise[0])
    delta = checks.probability("delta", promise[1])
    units = Budget(global_promise(epsilon=epsilon, delta=delta)).rho_units
    mu = math.sqrt(2.0 * units / accounting.RHO_UNITS)
    calendar = public_calendar(n_slots, n_days=n_days, signal=float(number.sum()) * mu)
    counts = expected_counts(number, edges, typical_kw=typical, log_spread=spread)
    std, counted_std, sums_std = (
        1.0 / (mu * math.sqrt(share)) for share in (SIZE_SHARE, COUNT_SHARE, SUMS_SHARE)
    )
    sizes = read_sizes(
        (counts, std), (number, counted_std), edges, sums_std=sums_std, within=within
    )
    means = expected_means(sums_std, sizes=sizes, calendar=calendar)
    return means, calendar, sizes.radii


def _slot_error(means: GroupMeans) -> Floats:
    """Return the root-mean-square over slots: the coordinates are orthonormal in it."""
    relative = np.square(means.counted) + np.square(means.missed)
    shared = relative * np.square(means.mean).sum(axis=1)
    error: Floats = np.sqrt(means.variance.sum(axis=1) + shared)
    return error
