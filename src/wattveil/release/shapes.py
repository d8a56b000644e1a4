"""Mean load by group, with its error band: one sum over customers for all groups together."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from wattveil import checks
from wattveil.clustering import group_sizes
from wattveil.clustering.calendar import Calendar, public_calendar
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_means import GroupMeans, filter_means
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.engines.inputs import Load, Values, load_rows, with_places
from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee
from wattveil.privacy.sensitivity import IntArray
from wattveil.release.asks import Added, Ask, release_asks
from wattveil.release.promise import global_promise

TOTAL_SHARE, SIZE_SHARE, COUNT_SHARE = 0.01, 0.15, 0.20
SUMS_SHARE = 1.0 - TOTAL_SHARE - SIZE_SHARE - COUNT_SHARE
"""Of the budget: for the number of all customers, their sizes by group, and their numbers by group.
The rest is for the sums. Half or twice the share for sizes costs 1 to 3 % accuracy."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadShapes:
    """Released mean load of each group. Everything in it may be published.

    Arrays have one row or entry a level, in the order of ``levels``.
    """

    levels: tuple[Hashable, ...]
    mean_kw: Floats
    std_kw: Floats
    """Standard error of each slot: noise, what the filter may have taken away, and what is likely
    to be missed in the correction for clipping."""
    customers: Floats
    customers_std: Floats
    clip_kw: Floats
    """The size above which customers were scaled back, chosen by released sizes."""
    clipped_share: Floats
    """Share of the customers above ``clip_kw``, as the released sizes have it."""
    clipped_share_std: Floats
    hidden_kw: Floats
    """How far the mean of a day may be above its band because of customers above ``clip_kw`` whom
    the noise hides: at most so far in 97.5 % of all releases, if nobody is above the plausible
    range. The band itself knows nothing of them."""
    guarantee: Guarantee
    spends: tuple[Spend, ...]


def load_shapes(
    load_kw: Load,
    *,
    groups: Values | None = None,
    levels: Sequence[Hashable] = EVERYBODY,
    epsilon: float,
    delta: float,
    clip_kw: float | None = None,
    most_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadShapes:
    """Release the mean load of each group of customers, under global differential privacy.

    Parameters
    ----------
    load_kw : (customers, slots of the day)
        One row a customer, in kW (not W, not kWh a day). A row with NaN or infinity contributes
        nothing, by rule. `Rows` are left where their engine has them.
    groups : one label a customer, or None
        A public attribute: class, ZIP code, feeder. None puts everybody into the first level.
    levels : labels
        The public list of groups to release; customers of other groups contribute nowhere, and a
        level without customers is released like any other.
    epsilon, delta : float
        The whole budget of this release, for all groups together.
    clip_kw : float or None
        Public bound on a customer's size (root-mean-square load, with quick changes counted more),
        within ``plausible_kw``; larger customers are scaled back to it. None chooses a bound for
        each group by its released sizes, which is right unless a handful of giants has most of the
        load.
    most_clip_kw : float or None
        Public bound on what is chosen, where ``clip_kw`` is None.
    plausible_kw : (float, float)
        Public range in which sizes are looked for. A wide one costs next to nothing in the mean,
        but ``hidden_kw`` grows with its upper end.

    Formal guarantee
    ----------------
    (epsilon, delta)-DP for zero-out of one customer, for any load_kw: three histograms and one sum
    by cells under one budget, each customer in one cell of each; the rest is post-processing. Each
    is proved in docs/proofs/gaussian-sum.md, their adaptive composition in
    docs/proofs/adaptive-transcript.md.
    """
    limits = (clip_kw, most_clip_kw, plausible_kw)
    return ask_means(load_kw, groups, levels, promise=(epsilon, delta), limits=limits)[0]


def ask_means(
    load_kw: Load,
    groups: Values | None,
    levels: Sequence[Hashable],
    *,
    promise: tuple[float, float],
    limits: tuple[float | None, float | None, tuple[float, float]],
    n_days: int = 1,
) -> tuple[LoadShapes, GroupMeans, Calendar]:
    """Release the mean of each group, in kW and in public coordinates.

    ``promise`` is epsilon and delta, ``limits`` are clip_kw, most_clip_kw and plausible_kw. All
    checks come before any charge.
    """
    epsilon = checks.positive_epsilon("epsilon", promise[0])
    guarantee = global_promise(epsilon=epsilon, delta=checks.probability("delta", promise[1]))
    rows = load_rows(load_kw)
    own = {} if groups is None else {"groups": groups}
    table = with_places(rows, own, partial(group_sizes.group_cells, levels=levels))
    within, edges = group_sizes.checked_limits(*limits)
    budget, n_groups = Budget(guarantee), len(levels)

    def count(
        tag: str, share: float, cells_of: Callable[[Floats, IntArray], IntArray], n_cells: int
    ) -> tuple[Floats, float]:
        ask = Ask(tag=tag, rho_units=budget.share(share), n_cells=n_cells)
        return release_asks(table, lambda *row: [(cells_of(*row),)], [ask], budget)[0]

    total, _ = count("number of customers", TOTAL_SHARE, lambda _, own: np.minimum(own, 0), 1)
    mu = math.sqrt(2.0 * budget.rho_units / accounting.RHO_UNITS)
    calendar = public_calendar(rows.width, n_days=n_days, signal=float(total[0]) * mu)

    size_of = partial(group_sizes.size_cells, edges=edges, calendar=calendar)
    counts, counts_std = count("sizes", SIZE_SHARE, size_of, n_groups * (edges.size + 1))
    counted = count("customers by group", COUNT_SHARE, lambda _, own: own, n_groups)
    by_size = counts.reshape(n_groups, -1), counts_std
    sums_std = 1.0 / (mu * math.sqrt(SUMS_SHARE))
    sizes = group_sizes.read_sizes(by_size, counted, edges, sums_std=sums_std, within=within)

    def coordinates_of(rows: Floats, own: IntArray) -> Added:
        return [(own, calendar.project(rows)[0] / sizes.radii[own, None])]

    units, width = budget.remaining_rho_units, calendar.colour.size
    ask = Ask(tag="sums of load", rho_units=units, n_cells=n_groups, n_features=width)
    sums, noise_std = release_asks(table, coordinates_of, [ask], budget)[0]
    means = filter_means(sums, noise_std, sizes=sizes, calendar=calendar)
    mean_kw, std_kw = means.in_kw(calendar)
    shapes = LoadShapes(
        levels=tuple(levels),
        mean_kw=mean_kw,
        std_kw=std_kw,
        customers=sizes.customers,
        customers_std=sizes.customers_std,
        clip_kw=sizes.radii,
        clipped_share=sizes.clipped_share,
        clipped_share_std=sizes.clipped_share_std,
        hidden_kw=means.hidden,
        guarantee=guarantee,
        spends=budget.spends,
    )
    return shapes, means, calendar
