"""The parts `shares` and `labels`: where the clusters live, and who is of which."""

import math
from dataclasses import replace

import numpy as np

from wattveil import planning
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.publish import columns
from wattveil.publish.parts import (
    Allotment,
    Ask,
    Choice,
    Expectation,
    Part,
    ReleasedPart,
    Run,
    Work,
)
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Column, Layout
from wattveil.release.labels import ReleasedLabels
from wattveil.release.shares import ClusterShares, cluster_shares

_STEP = 2.0**-25
"""Of the grid on which counts are drawn."""


class Shares(Part):
    """How many customers of each cluster are in each group."""

    name = "shares"
    needs = "by, and clusters of all customers"
    postprocessing = ("shares: the nearest shares of at least 0 that add up to 1 in a group",)

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether there are groups; clusters of each group have their sizes already."""
        groups = request.by is not None and not request.clusters_by_group
        return groups and request.weight("clusters") > 0.0 and request.weight(self.name) > 0.0

    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return the table of groups by clusters."""
        request = choice.request
        groups, clusters = columns.crossed(request.levels, request.n_clusters)
        layout = Layout(
            name="cluster_shares",
            text="How many customers of each cluster each group has.",
            keys={columns.GROUP: groups, columns.CLUSTER: clusters},
            values=(
                Column(name="count", text="noisy number of customers, as drawn", grid_step=_STEP),
                Column(name="count_std", text="its standard error", least=0.0),
                Column(name="share", text="share of the group", least=0.0, most=1.0),
                Column(name="share_std", text="its standard error", least=0.0, most=1.0),
            ),
        )
        return (layout,)

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

    def query(self, work: Work, allotment: Allotment) -> ClusterShares:
        """Release a table of groups by clusters."""
        request, kmeans = work.request, work.kmeans[EVERYBODY[0]]
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
    ) -> ReleasedPart:
        """Return the table."""
        table = self.layouts(choice)[0].filled(
            released.counts.ravel(),
            np.full(released.counts.size, released.counts_std),
            released.shares.ravel(),
            released.shares_std.ravel(),
        )
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(table,),
        )


class Labels(Part):
    """One randomised label for each customer on the public list."""

    name = "labels"
    needs = "label_epsilon"
    postprocessing = ("sizes from labels: label counts corrected for the channel",)

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether a part of epsilon was set aside for labels."""
        return request.label_epsilon is not None

    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return the labels, and the sizes that follow from them."""
        sizes = Layout(
            name="label_sizes",
            text="Cluster sizes read from the labels.",
            keys={columns.CLUSTER: np.arange(choice.request.n_clusters)},
            values=(columns.CUSTOMERS, replace(columns.CUSTOMERS_STD, may_be_empty=True)),
        )
        return label_layout(choice.request), sizes

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Return the share of wrong labels if all clusters were equal and equally far apart."""
        plan = planning.plan_labels(
            n_clusters=ask.request.n_clusters,
            epsilon=ask.allotment.guarantee.epsilon,
            n_customers=ask.request.customers,
        )
        return (Expectation("wrong labels", 100.0 * plan.label_error, "%"),)

    def query(self, work: Work, allotment: Allotment) -> ReleasedLabels:
        """Release one label for each customer on the public list."""
        rows, customer_ids = work.listed
        return work.kmeans[EVERYBODY[0]].release_labels(
            rows,
            epsilon=allotment.guarantee.epsilon,
            customer_ids=customer_ids,
            real_ids=work.request.real_ids,
        )

    def tabulate(
        self, released: ReleasedLabels, choice: Choice, allotment: Allotment
    ) -> ReleasedPart:
        """Return the labels, the sizes that follow from them, and the channel."""
        labels, sizes = self.layouts(choice)
        # Infinite errors become empty cells.
        std = [value if math.isfinite(value) else math.nan for value in released.sizes_std]
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(
                labels.filled(*released.table.here()),
                sizes.filled(released.sizes, std),
            ),
            channel=tuple(tuple(row) for row in released.channel.parts.tolist()),
        )


def label_layout(request: ReleaseRequest) -> Layout:
    """Return a table of labels: how many customers are on the list, only the curator knows."""
    name = "pseudonym of this release, or the id if that was asked for"
    label = Column(
        name="label",
        text="cluster, as it was drawn",
        type="int64",
        least=0.0,
        most=request.n_clusters - 1.0,
    )
    return Layout(
        name="labels",
        text="One randomised label a customer.",
        values=(Column(name="customer", text=name, type="string"), label),
    )
