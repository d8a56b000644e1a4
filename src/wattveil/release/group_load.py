"""Mean load and load duration curve by group, with error bands: one noisy sum for all groups."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.engines.local import Load, Values, load_rows
from wattveil.numerics.groups import group_sizes
from wattveil.numerics.groups.group_means import GroupMeans, filter_means, sort_curves
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.load_basis import Calendar, public_calendar, whole_days
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import Budget, Guarantee, Spend, global_guarantee
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.release.queries import GroupLoadQueries, rows_by_group
from wattveil.web.curves import Chart, curves_chart, slot_labels
from wattveil.web.results import ChartedResult, ResultTable, curves_table

TOTAL_SHARE, SIZE_SHARE, COUNT_SHARE = 0.01, 0.15, 0.20
SUMS_SHARE = 1.0 - TOTAL_SHARE - SIZE_SHARE - COUNT_SHARE
"""Of the budget: for the number of all customers, their sizes by group, and their numbers by group.
The rest is for the sums. Half or twice the share for sizes costs 1 to 3 % accuracy."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadShapes(ChartedResult):
    """Released mean load of each group. Everything in it may be published.

    Arrays have one row or entry per level, in the order of ``levels``.
    """

    levels: tuple[Hashable, ...]
    mean_kw: Floats
    std_kw: Floats
    """Standard error of each slot: noise, bias of the filter, and the expected error of the
    correction for clipping."""
    customers: Floats
    """Number of customers, estimated from all released counts together."""
    customers_std: Floats
    count: Floats
    """Noisy number of customers, as drawn; each with the standard deviation ``count_std``."""
    count_std: float
    clip_kw: Floats
    """The size above which customers were clipped, chosen by released sizes."""
    clipped_share: Floats
    """Share of the customers above ``clip_kw``, estimated from the released sizes."""
    clipped_share_std: Floats
    max_clipping_bias_kw: Floats
    """Upper bound on the bias of the mean of a day from clipped customers that the noise hides. It
    holds in 97.5 % of all releases, if no customer is above the plausible range. ``std_kw`` does
    not include it."""
    guarantee: Guarantee
    spends: tuple[Spend, ...]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"load_shapes": self._curves, "groups": self._groups}

    def _curves(self) -> ResultTable:
        return curves_table(self.levels, "slot", self.mean_kw, self.std_kw)

    def _groups(self) -> ResultTable:
        names = ("customers", "customers_std", "clip_kw", "clipped_share", "clipped_share_std")
        columns = {name: getattr(self, name) for name in (*names, "max_clipping_bias_kw")}
        return ResultTable({"group": self.levels, **columns}, ("group",))

    def _chart(self) -> Chart:
        labels = slot_labels(self.mean_kw.shape[1])
        return curves_chart(self.levels, labels, self.mean_kw, self.std_kw)


def load_shapes(
    load_kw: Load,
    *,
    groups: Values | None = None,
    levels: Sequence[Hashable] = ALL_CUSTOMERS,
    epsilon: float,
    delta: float,
    clip_kw: float | None = None,
    max_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadShapes:
    """Release the mean load of each group of customers, under global differential privacy.

    Parameters
    ----------
    load_kw : (customers, slots of the day)
        One row per customer, in kW (not W, not kWh per day), or `Profiles` of one average day. A
        row with NaN or infinity is excluded. `Rows` stay with their engine.
    groups : one label per customer, or None
        A public attribute: class, ZIP code, feeder. None assigns every customer to the first level.
    levels : labels
        The public list of groups to release; customers of other groups are excluded, and a level
        without customers is released like any other.
    epsilon, delta : float
        The whole budget of this release, for all groups together.
    clip_kw : float or None
        Public bound on a customer's size (root-mean-square load, with quick changes counted more),
        within ``plausible_kw``; larger customers are clipped to it. None chooses a bound for each
        group by its released sizes, which is accurate unless a few very large customers have most
        of the load.
    max_clip_kw : float or None
        Public maximum of the chosen bound, where ``clip_kw`` is None.
    plausible_kw : (float, float)
        Public range in which sizes are estimated. A wide range hardly affects the accuracy of the
        mean, but ``max_clipping_bias_kw`` grows with its upper end.

    Formal guarantee
    ----------------
    (epsilon, delta)-DP for zero-out of one customer, for any load_kw: three histograms and one sum
    by cells under one budget, each customer in one cell of each; the rest is post-processing. Each
    is proved in docs/proofs/gaussian-sum.md, their adaptive composition in
    docs/proofs/adaptive-transcript.md.
    """
    limits = (clip_kw, max_clip_kw, plausible_kw)
    return release_means(load_kw, groups, levels, cost=(epsilon, delta), limits=limits)[0]


def release_means(
    load_kw: Load,
    groups: Values | None,
    levels: Sequence[Hashable],
    *,
    cost: tuple[float, float],
    limits: tuple[float | None, float | None, tuple[float, float]],
    n_days: int = 1,
) -> tuple[LoadShapes, GroupMeans, Calendar]:
    """Release the mean of each group, in kW and in public coordinates.

    ``cost`` is epsilon and delta, ``limits`` are clip_kw, max_clip_kw and plausible_kw. All
    checks come before any charge.
    """
    epsilon = checks.positive_epsilon("epsilon", cost[0])
    guarantee = global_guarantee(epsilon=epsilon, delta=checks.probability("delta", cost[1]))
    rows = load_rows(load_kw)
    own = {} if groups is None else {"groups": groups}
    table = rows_by_group(rows, own, {"levels": levels} if own else {})
    budget = Budget(guarantee)
    queries = GroupLoadQueries(PrivateTable(table, budget))
    shape = (rows.width, n_days)
    found = means_within(
        queries, budget, rho_units=budget.rho_units, levels=levels, limits=limits, shape=shape
    )
    return replace(found[0], guarantee=budget.guarantee, spends=budget.spends), *found[1:]


def means_within(
    queries: GroupLoadQueries,
    budget: Budget,
    *,
    rho_units: int,
    levels: Sequence[Hashable],
    limits: tuple[float | None, float | None, tuple[float, float]],
    shape: tuple[int, int],
) -> tuple[LoadShapes, GroupMeans, Calendar]:
    """Query sizes, counts and sums at a cost of ``rho_units``, of which all is used.

    ``shape`` is the number of columns and of days.
    """
    within, edges = group_sizes.checked_limits(*limits)
    n_groups = len(group_sizes.checked_levels(levels))
    parts = (TOTAL_SHARE, SIZE_SHARE, COUNT_SHARE)
    total_units, size_units, count_units = (int(Fraction(part) * rho_units) for part in parts)
    total = queries.customers(rho_units=total_units)
    mu = math.sqrt(2.0 * rho_units / accounting.RHO_UNITS)
    calendar = public_calendar(shape[0], n_days=shape[1], signal=total * mu)
    by_size = queries.sizes(edges, calendar, n_groups=n_groups, rho_units=size_units)
    counted = queries.counts(n_groups=n_groups, rho_units=count_units)
    sums_std = 1.0 / (mu * math.sqrt(SUMS_SHARE))
    sizes = group_sizes.read_sizes(by_size, counted, edges, sums_std=sums_std, within=within)
    units = rho_units - total_units - size_units - count_units
    sums, noise_std = queries.sums(sizes.radii, calendar, rho_units=units)
    means = filter_means(sums, noise_std, sizes=sizes, calendar=calendar)
    mean_kw, std_kw = means.in_kw(calendar)
    shapes = LoadShapes(
        levels=tuple(levels),
        mean_kw=mean_kw,
        std_kw=std_kw,
        customers=sizes.customers,
        customers_std=sizes.customers_std,
        count=counted[0],
        count_std=counted[1],
        clip_kw=sizes.radii,
        clipped_share=sizes.clipped_share,
        clipped_share_std=sizes.clipped_share_std,
        max_clipping_bias_kw=means.max_clipping_bias,
        guarantee=budget.guarantee,
        spends=budget.spends,
    )
    return shapes, means, calendar


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadDuration(ChartedResult):
    """Released load duration curves, one row per level. Everything in it may be published."""

    levels: tuple[Hashable, ...]
    load_kw: Floats
    """Load of the whole group, non-increasing along a row."""
    std_kw: Floats
    """Standard error at each rank."""
    shapes: LoadShapes
    """The mean load in each slot, released by the same queries: at no further cost."""
    guarantee: Guarantee
    spends: tuple[Spend, ...]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"load_duration": self._curves, **self.shapes._result_tables()}  # noqa: SLF001 - same base

    def _curves(self) -> ResultTable:
        return curves_table(self.levels, "rank", self.load_kw, self.std_kw)

    def _chart(self) -> Chart:
        labels = [str(rank) for rank in range(self.load_kw.shape[1])]
        drawn = curves_chart(self.levels, labels, self.load_kw, self.std_kw)
        return drawn._replace(unit="kW, whole group", kind="ranks")


def load_duration_curve(
    load_kw: Load,
    *,
    groups: Values | None = None,
    levels: Sequence[Hashable] = ALL_CUSTOMERS,
    epsilon: float,
    delta: float,
    slots_per_day: int = 24,
    clip_kw: float | None = None,
    max_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadDuration:
    """Release the load duration curve of each group of customers.

    Parameters
    ----------
    load_kw : (customers, slots)
        One row per customer, one column per slot of one or more whole days, in order: 24 for a day,
        8,760 for a year; or `Profiles` of one average day.
    slots_per_day : int
        Number of columns per day; for `Profiles`, all of them.
    groups, levels, epsilon, delta, clip_kw, max_clip_kw, plausible_kw
        As in `load_shapes`.

    Formal guarantee
    ----------------
    That of `load_shapes`: the same queries; sorting is post-processing.
    """
    rows = load_rows(load_kw)
    if hasattr(load_kw, "grid"):  # of profiles, a row is one average day
        slots_per_day = rows.width
    n_days = whole_days(rows.width, slots_per_day)
    cost, limits = (epsilon, delta), (clip_kw, max_clip_kw, plausible_kw)
    return _sorted(*release_means(rows, groups, levels, cost=cost, limits=limits, n_days=n_days))


def _sorted(shapes: LoadShapes, means: GroupMeans, calendar: Calendar) -> LoadDuration:
    """Return the duration curves of released means: post-processing."""
    curves, errors = sort_curves(means, calendar)
    return LoadDuration(
        levels=shapes.levels,
        load_kw=curves * shapes.customers[:, None],
        std_kw=errors * shapes.customers[:, None],
        shapes=shapes,
        guarantee=shapes.guarantee,
        spends=shapes.spends,
    )
