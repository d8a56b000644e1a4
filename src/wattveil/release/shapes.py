"""Mean load by group, with its error band: one sum over customers for all groups together."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from wattveil import checks
from wattveil.clustering import group_sizes
from wattveil.clustering.calendar import Calendar, public_calendar
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_means import GroupMeans, filter_means
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.engines.inputs import Load, Values, load_rows
from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee
from wattveil.privacy.private_table import PrivateTable
from wattveil.release.promise import global_promise
from wattveil.release.queries import GroupLoadQueries, rows_by_group

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
    return release_means(load_kw, groups, levels, promise=(epsilon, delta), limits=limits)[0]


def release_means(
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
    table = rows_by_group(rows, own, {"levels": levels} if own else {})
    budget = Budget(guarantee)
    queries = GroupLoadQueries(PrivateTable(table, budget))
    shape = (rows.width, n_days)
    found = _find_means(queries, budget, levels=levels, limits=limits, shape=shape)
    return replace(found[0], guarantee=budget.guarantee, spends=budget.spends), *found[1:]


def _find_means(
    queries: GroupLoadQueries,
    budget: Budget,
    *,
    levels: Sequence[Hashable],
    limits: tuple[float | None, float | None, tuple[float, float]],
    shape: tuple[int, int],
) -> tuple[LoadShapes, GroupMeans, Calendar]:
    """Query sizes, counts and sums; ``shape`` is the number of columns and of days."""
    within, edges = group_sizes.checked_limits(*limits)
    n_groups = len(group_sizes.checked_levels(levels))
    total = queries.customers(rho_units=budget.share(TOTAL_SHARE))
    mu = math.sqrt(2.0 * budget.rho_units / accounting.RHO_UNITS)
    calendar = public_calendar(shape[0], n_days=shape[1], signal=total * mu)
    size_units, count_units = budget.share(SIZE_SHARE), budget.share(COUNT_SHARE)
    by_size = queries.sizes(edges, calendar, n_groups=n_groups, rho_units=size_units)
    counted = queries.counts(n_groups=n_groups, rho_units=count_units)
    sums_std = 1.0 / (mu * math.sqrt(SUMS_SHARE))
    sizes = group_sizes.read_sizes(by_size, counted, edges, sums_std=sums_std, within=within)
    units = budget.remaining_rho_units
    sums, noise_std = queries.sums(sizes.radii, calendar, rho_units=units)
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
        guarantee=budget.guarantee,
        spends=budget.spends,
    )
    return shapes, means, calendar
