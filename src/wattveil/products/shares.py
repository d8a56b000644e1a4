"""The product `shares`: number and share of customers of each cluster, by group."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from plotly.graph_objects import Figure

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.groups.group_table import (
    Groups,
    GroupTable,
    checked_counts,
    consistent_shares,
    share_errors,
)
from wattveil.privacy.guarantee import global_guarantee
from wattveil.products.findings import Finding, gathered, same_numbers
from wattveil.products.product import (
    Allotment,
    Choice,
    Contents,
    Expectation,
    Product,
    ReleasedProduct,
    Run,
    Work,
)
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import (
    CLUSTER,
    COUNT,
    COUNT_STD,
    GROUP,
    SHARE,
    SHARE_STD,
    Table,
    TableLayout,
    crossed,
)
from wattveil.release.cluster_shares import ClusterShares, cluster_shares
from wattveil.web.charts import TWO_SIDED_95, ReportFigure, colour, new_figure
from wattveil.web.pages import PageTable, TableCell
from wattveil.web.results import Result, ResultTable


class Shares(Product):
    """Number of customers of each cluster, by group."""

    name = "shares"
    title = "Segments by group"
    default_weight = 1.0
    choices = ("by",)
    needs = "a grouping (`by`) and segments of all customers"
    postprocessing = ("shares: the nearest shares of at least 0 that add up to 1 in a group",)

    def is_requested(self, request: ReleaseRequest) -> bool:
        """Whether there are groups; separate clusters of each group have sizes of their own."""
        groups = request.by is not None and not request.clusters_by_group
        return groups and request.weight("clusters") > 0.0 and request.weight(self.name) > 0.0

    def is_of_listed_groups(self, request: ReleaseRequest) -> bool:
        """Return True: there are no shares without groups."""
        del request
        return True

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return the table of groups by clusters."""
        request = choice.request
        groups, clusters = crossed(request.levels, request.n_clusters)
        layout = TableLayout(
            name="cluster_shares",
            text="Number and share of customers of each segment (cluster), by group.",
            keys={GROUP: groups, CLUSTER: clusters},
            values=(COUNT, COUNT_STD, SHARE, SHARE_STD),
        )
        return (layout,)

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the one histogram: groups by clusters."""
        del tags
        groups = max(len(choice.request.levels), 1)
        return {"clusters by group": groups * choice.request.n_clusters}

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Return the error of a share if all shares were equal."""
        plan = plan_shares(
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
            n_clusters=choice.request.n_clusters,
            levels={str(choice.request.by): choice.request.levels},
            n_customers=choice.request.customers,
        )
        points = 100.0 * float(plan.shares_std.max())
        unit = "percentage point" if f"{points:.2g}" == "1" else "percentage points"
        return (Expectation("error of a share", points, unit),)

    def query(self, work: Work, allotment: Allotment) -> ClusterShares:
        """Release a table of groups by clusters."""
        request, kmeans = work.request, work.kmeans[ALL_CUSTOMERS[0]]
        return cluster_shares(
            kmeans.comparable_rows(work.rows),
            centroids=kmeans.cluster_centers_,
            groups={str(request.by): work.groups},
            levels={str(request.by): request.levels},
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
        )

    def tabulate(
        self, released: ClusterShares, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return the table."""
        table = self.layouts(choice)[0].filled(
            released.counts.ravel(),
            np.full(released.counts.size, released.counts_std),
            released.shares.ravel(),
            released.shares_std.ravel(),
        )
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(table,),
        )

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Compute shares and errors again, from counts and noise."""
        if "cluster_shares" in contents.tables:
            yield gathered(
                "shares follow from counts, errors from the noise",
                _share_problems(contents),
                "computed again",
            )

    def released_errors(self, tables: Mapping[str, Table]) -> Mapping[str, str]:
        """Return the largest standard error of a share, as the plan states it."""
        if "cluster_shares" not in tables:
            return {}
        table = tables["cluster_shares"]
        errors = 100.0 * table.column("share_std")
        at = int(errors.argmax())
        largest = f"{errors[at]:.2g} percentage points"
        names = table.data["group"].to_pylist()
        if len(set(names)) > 1:  # what was planned is of a group of mean size
            largest = f"{errors.min():.2g} to {largest} by group, largest: {names[at]}"
        return {"error of a share": largest}

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return the shares of each group."""
        if "cluster_shares" in tables:
            caption = (
                f"Share of each customer segment, by {choice.request.by}. Lines are 95 % intervals"
                " of the privacy noise."
            )
            flags = _small_groups(tables["cluster_shares"])
            if flags:
                caption += " Marked groups (✗) may be empty: their shares are noise."
            table = _share_table(tables["cluster_shares"])
            yield ReportFigure(
                "Shares",
                _share_figure(tables["cluster_shares"]),
                caption,
                alt="Shares of the segments, with 95 % intervals. "
                + "; ".join(
                    f"{group}: {', '.join(map(str, shares))}" for group, *shares in table.rows
                ),
                flags=flags,
                table=table,
            )


def _share_problems(contents: Contents) -> Iterator[str]:
    """Compare stated shares and errors with those that counts and noise give."""
    table, shape = contents.tables["cluster_shares"], (-1, contents.choice.request.n_clusters)
    std = contents.noise_std
    if not same_numbers(table.column("count_std"), np.full(table.data.num_rows, std)):
        yield f"count_std is not the stated noise, {std:.6g}"
    due = consistent_shares(table.column("count").reshape(shape), std=std, totals=None)
    if not same_numbers(table.column("share").reshape(shape), due.shares):
        yield "share does not follow from count"
    if not same_numbers(table.column("share_std").reshape(shape), due.shares_std):
        yield "share_std does not follow from count"


def _small_groups(table: Table) -> tuple[TableCell, ...]:
    """Return a mark for each group whose number of customers is within 2 standard errors of 0."""
    data = table.data.to_pydict()
    flags = []
    for group in dict.fromkeys(data["group"]):
        rows = [row for row, name in enumerate(data["group"]) if name == group]
        error = math.hypot(*(data["count_std"][row] for row in rows))
        if sum(data["count"][row] for row in rows) <= 2.0 * error:
            flags.append(TableCell(f"{group}: size ≤ 2 SE, may be empty", passed=False))
    return tuple(flags)


def _share_table(table: Table) -> PageTable:
    """Return the shares of each group with their errors."""
    data = table.data.to_pydict()
    clusters = sorted(set(data["cluster"]))
    texts = {
        (group, cluster): f"{100.0 * share:.1f} ± {100.0 * TWO_SIDED_95 * std:.1f} %"
        for group, cluster, share, std in zip(
            data["group"], data["cluster"], data["share"], data["share_std"], strict=True
        )
    }
    return PageTable(
        "Shares",
        ("group", *(f"segment {cluster}" for cluster in clusters)),
        [
            (group, *(texts[group, cluster] for cluster in clusters))
            for group in dict.fromkeys(data["group"])
        ],
    )


def _share_figure(table: Table) -> Figure:
    """Return a bar per group and cluster, with its 95 % interval: a share may be noise."""
    data = table.data.to_pydict()
    pairs = [*zip(data["group"], data["cluster"], strict=True)]
    figure = new_figure(height=60 + 20 * len(pairs), legend=False)
    figure.add_bar(
        y=[f"{group}, segment {cluster}" for group, cluster in pairs],
        x=[100.0 * share for share in data["share"]],
        orientation="h",
        marker_color=[colour(cluster) for _, cluster in pairs],
        error_x={"array": [100.0 * TWO_SIDED_95 * std for std in data["share_std"]]},
        hovertemplate="%{y}: %{x:.1f} ± %{error_x.array:.1f} %<extra></extra>",
    )
    figure.update_xaxes(title_text="% of the group", range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    return figure


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesPlan(Result):
    """Expected accuracy of `cluster_shares`, from public parameters."""

    counts_std: float
    shares_std: Floats
    """Expected standard error of each share, in the shape of the table."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"plan": self._cells}

    def _cells(self) -> ResultTable:
        n_clusters = self.shares_std.shape[-1]
        groups, clusters = np.divmod(np.arange(self.shares_std.size), n_clusters)
        columns = {
            "group": groups,
            "cluster": clusters,
            "count_std": np.full(self.shares_std.size, self.counts_std),
            "share_std": self.shares_std.ravel(),
        }
        return ResultTable(columns, ("group", "cluster"))


def plan_shares(
    *,
    n_clusters: int,
    levels: Groups,
    epsilon: float,
    delta: float,
    n_customers: int,
    expected_counts: ArrayLike | None = None,
    known_totals: bool = False,
) -> SharesPlan:
    """Return the expected standard error of each share, before anything is spent.

    Parameters
    ----------
    n_clusters, levels, epsilon, delta
        As for `cluster_shares`.
    n_customers
        Public number or estimate; spread evenly over all cells without ``expected_counts``.
    expected_counts
        Public estimate of the table, up to a factor.
    known_totals
        Whether totals will be given.
    """
    checks.integer("n_clusters", n_clusters, minimum=1)
    checks.integer("n_customers", n_customers, minimum=1)
    checks.positive_epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    shape = GroupTable.of(levels, n_clusters=n_clusters).shape
    guess = np.ones(shape) if expected_counts is None else expected_counts
    table = checked_counts("expected_counts", guess, shape)
    table = table / (float(table.sum()) or 1.0) * n_customers
    totals = table.sum(axis=-1)
    std = Allotment.of(global_guarantee(epsilon=epsilon, delta=delta)).count_std
    shares = table / np.where(totals > 0.0, totals, 1.0)[..., None]
    return SharesPlan(
        counts_std=std,
        shares_std=share_errors(shares, totals, std=std, known_totals=known_totals),
    )
