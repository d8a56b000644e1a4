"""The parts `shares` and `labels`: where the clusters live, and who is of which."""

import math
from dataclasses import replace

import numpy as np

from wattveil import planning
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.publish import columns
from wattveil.publish.parts import Allotment, Ask, Expectation, Part, ReleasedPart, Run, Work
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Column, Table
from wattveil.release.labels import ReleasedLabels
from wattveil.release.shares import ClusterShares, cluster_shares

LABEL = Column(name="label", text="cluster, as it was drawn", least=0.0)
ID = Column(name="customer", text="pseudonym of this release, or the id if that was asked for")


class Shares(Part):
    """How many customers of each cluster are in each group."""

    name = "shares"

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether there are groups; clusters of each group have their sizes already."""
        groups = request.by is not None and not request.clusters_by_group
        return groups and request.weight("clusters") > 0.0 and request.weight(self.name) > 0.0

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Return the error of a share if all were equal."""
        plan = planning.plan_shares(
            epsilon=ask.allotment.guarantee.epsilon,
            delta=ask.allotment.guarantee.delta,
            n_clusters=ask.request.n_clusters,
            levels={str(ask.request.by): ask.request.levels},
            n_customers=ask.request.customers,
        )
        points = 100.0 * float(plan.shares_std.max())
        return (Expectation("error of a share", points, "points of a hundred"),)

    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Release a table of groups by clusters."""
        request, kmeans = work.request, work.kmeans[EVERYBODY[0]]
        released = cluster_shares(
            kmeans.comparable(work.rows),
            centroids=kmeans.cluster_centers_,
            groups={str(request.by): work.groups},
            levels={str(request.by): request.levels},
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
        )
        step = float(released.spends[0].drawn["step"])
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(_shares(released, request.levels, step),),
            postprocessing=(
                "shares: the nearest shares of at least 0 that add up to 1 in a group",
            ),
        )


class Labels(Part):
    """One randomised label for each customer on the public list."""

    name = "labels"

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether a part of epsilon was set aside for labels."""
        return request.label_epsilon is not None

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Return the share of wrong labels if all clusters were equal and equally far apart."""
        plan = planning.plan_labels(
            n_clusters=ask.request.n_clusters,
            epsilon=ask.allotment.guarantee.epsilon,
            n_customers=ask.request.customers,
        )
        return (Expectation("wrong labels", 100.0 * plan.label_error, "%"),)

    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Release the labels and the channel they came through."""
        released = work.kmeans[EVERYBODY[0]].release_labels(
            work.listed_rows,
            epsilon=allotment.guarantee.epsilon,
            customer_ids=work.customer_list,
            real_ids=work.request.real_ids,
        )
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(label_table(released.ids, released.labels, work.request), _sizes(released)),
            postprocessing=("sizes from labels: label counts corrected for the channel",),
            channel=tuple(tuple(row) for row in released.channel.parts.tolist()),
        )


def label_table(ids: tuple[str, ...], labels: np.ndarray, request: ReleaseRequest) -> Table:
    """Return the table of released labels."""
    label = replace(LABEL, most=request.n_clusters - 1.0)
    return Table.of("labels", "One randomised label a customer.", {ID: list(ids), label: labels})


def _sizes(released: ReleasedLabels) -> Table:
    """Sizes as the labels have them; infinite errors become empty cells."""
    std = [value if math.isfinite(value) else math.nan for value in released.sizes_std]
    return Table.of(
        "label_sizes",
        "Cluster sizes read from the labels.",
        {
            columns.CLUSTER: np.arange(len(released.sizes)),
            columns.CUSTOMERS: released.sizes,
            replace(columns.CUSTOMERS_STD, may_be_empty=True): std,
        },
    )


def _shares(released: ClusterShares, levels: tuple[str, ...], step: float) -> Table:
    groups, clusters = columns.crossed(levels, released.counts.shape[-1])
    count = Column(name="count", text="noisy number of customers, as drawn", grid_step=step)
    return Table.of(
        "cluster_shares",
        "How many customers of each cluster each group has.",
        {
            columns.GROUP: groups,
            columns.CLUSTER: clusters,
            count: released.counts.ravel(),
            Column(name="count_std", text="its standard error", least=0.0): np.full(
                clusters.size, released.counts_std
            ),
            Column(name="share", text="share of the group", least=0.0, most=1.0): (
                released.shares.ravel()
            ),
            Column(name="share_std", text="its standard error", least=0.0, most=1.0): (
                released.shares_std.ravel()
            ),
        },
    )
