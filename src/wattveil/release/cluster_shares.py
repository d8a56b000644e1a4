"""Number and share of the customers of each cluster by public group."""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.engines.local import Load, Values, load_rows
from wattveil.errors import InvalidParameterError, wrong_width
from wattveil.numerics.groups.group_table import (
    ConsistentShares,
    Groups,
    GroupTable,
    checked_counts,
    consistent_shares,
)
from wattveil.numerics.kmeans.lloyd import checked_points
from wattveil.privacy.guarantee import Budget, Guarantee, Spend, global_guarantee
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.release.queries import rows_by_group
from wattveil.release.rows.load_features import nearest_cells
from wattveil.web.curves import Chart, Curve
from wattveil.web.results import ChartedResult, ResultTable


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClusterShares(ConsistentShares, ChartedResult):
    """A released table. The axes are the attributes of ``levels``, in order, then the clusters."""

    levels: dict[str, tuple[Hashable, ...]]
    counts: Floats
    """Noisy counts as they were drawn: unbiased, not whole, may be negative."""
    counts_std: float
    """Standard deviation of the noise of each of ``counts``."""
    guarantee: Guarantee
    spends: tuple[Spend, ...]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"cluster_shares": self._cells}

    def _cells(self) -> ResultTable:
        *keys, clusters = np.indices(self.counts.shape).reshape(self.counts.ndim, -1)
        names = [
            (name, [values[place] for place in places])
            for (name, values), places in zip(self.levels.items(), keys, strict=True)
        ]
        columns = {
            **dict(names),
            "cluster": clusters,
            "count": self.counts.ravel(),
            "count_std": np.full(self.counts.size, self.counts_std),
            "consistent_count": self.consistent_counts.ravel(),
            "share": self.shares.ravel(),
            "share_std": self.shares_std.ravel(),
        }
        return ResultTable(columns, (*self.levels, "cluster"))

    def _chart(self) -> Chart:
        groups = [" ".join(map(str, group)) for group in product(*self.levels.values())]
        n_clusters = self.shares.shape[-1]
        shares, errors = (
            cells.reshape(-1, n_clusters).T for cells in (self.shares, self.shares_std)
        )
        bars = [
            Curve(f"cluster {number}", number, groups, shares[number], errors[number])
            for number in range(n_clusters)
        ]
        return Chart(bars, "share of the group", "bars", band="privacy noise")


def cluster_shares(
    load_kw: Load,
    *,
    centroids: ArrayLike,
    groups: Mapping[str, Values],
    levels: Groups,
    epsilon: float,
    delta: float,
    totals: ArrayLike | None = None,
) -> ClusterShares:
    """Release the number and share of customers of each cluster in each group.

    Parameters
    ----------
    load_kw : array of shape (customers, columns)
        One row per customer. A row with NaN or infinity is a customer without data and is excluded.
        `Rows` stay with their engine.
    centroids : array of shape (clusters, columns)
        Released before, or public. A customer belongs to the nearest.
    groups : mapping of attribute to values
        For each attribute (area, class) the value of each customer; a column of the same engine
        where ``load_kw`` is `Rows`.
    levels : mapping of attribute to values
        The public list of values of each attribute; the groups are all their combinations. A
        customer with a value that is not listed is excluded without an error.
    epsilon, delta : float
        The whole budget of this release.
    totals : array in the shape of the levels, optional
        Customers in each group where these are public or released: the table is adjusted to
        these totals, which makes it more accurate.

    Formal guarantee
    ----------------
    The caller ensures that all but ``load_kw`` and ``groups`` are public or released. Then the
    release is (epsilon, delta)-DP for zero-out of one customer: a customer is in one cell at most,
    so one count over all cells serves all groups (parallel composition); the rest is
    post-processing. Every cell is released, including empty ones.
    """
    rows = load_rows(load_kw)
    centres = checked_points(checks.numbers("centroids", centroids), field="centroids")
    table = GroupTable.of(levels, n_clusters=len(centres))
    given = None if totals is None else checked_counts("totals", totals, table.shape[:-1])

    if rows.width != centres.shape[1]:
        raise wrong_width("load_kw", centres.shape[1], rows.width)
    if set(groups) != set(table.levels):
        rule = f"values for each of {sorted(table.levels)}"
        raise InvalidParameterError("groups", rule, sorted(groups))
    own = {f"groups[{name!r}]": groups[name] for name in table.levels}
    by_group = rows_by_group(rows, own, table.levels)
    checks.positive_epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    budget = Budget(global_guarantee(epsilon=epsilon, delta=delta))
    n_cells = math.prod(table.shape)
    query = Query(tag="clusters by group", rho_units=budget.rho_units, n_cells=n_cells)
    work = nearest_cells.bind(centroids=centres)
    counts, std = PrivateTable(by_group, budget).release(work, query)[0]
    found = _described(counts.reshape(table.shape), std, table, given, budget)
    return replace(found, guarantee=budget.guarantee, spends=budget.spends)


def _described(
    counts: Floats,
    std: float,
    table: GroupTable,
    totals: Floats | None,
    budget: Budget,
) -> ClusterShares:
    """Return released counts with the shares that follow from them: post-processing."""
    return ClusterShares(
        levels=table.levels,
        counts=counts,
        counts_std=std,
        guarantee=budget.guarantee,
        spends=budget.spends,
        **vars(consistent_shares(counts, std=std, totals=totals)),
    )
