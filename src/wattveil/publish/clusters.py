"""The part `clusters`: typical load curves with error bands and sizes, by `PrivateKMeans`."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from wattveil import planning
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.profiles import Grid
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
from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class


class Clusters(Part):
    """Clusters of everybody, or of each group with the whole allotment (parallel composition)."""

    name = "clusters"
    postprocessing = (
        "load curves: noisy sums filtered with the known noise and a public prior, merged",
        "cluster sizes: noisy counts, cut at 0",
    )

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether clusters have a share of the budget."""
        return request.weight(self.name) > 0.0

    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return curves and sizes of the clusters of everybody, or of each group."""
        request = choice.request
        levels = request.levels if request.clusters_by_group else EVERYBODY
        curve = columns.LOAD_KW, columns.STD_KW
        if request.normalise:
            curve = columns.SHAPE, columns.SHAPE_STD
        groups, clusters = columns.crossed(levels, request.n_clusters)
        sizes = Layout(
            name="cluster_sizes",
            text="How many customers each cluster has.",
            keys={columns.GROUP: groups, columns.CLUSTER: clusters},
            values=(replace(columns.CUSTOMERS, least=0.0), columns.CUSTOMERS_STD),
        )
        return centroid_layout(choice, levels, curve), sizes

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Rehearse on simulated customers."""
        request = ask.request
        groups = len(request.levels) if request.clusters_by_group else 1
        plan = planning.plan_kmeans(
            _estimator(ask),
            n_customers=max(request.customers // groups, 1),
            n_slots=ask.grid.columns,
            typical_kw=request.typical_kw,
        )
        unit = "of a row's length" if request.normalise else "kW"
        apart = f"of {request.n_clusters}"
        return (
            Expectation("error of a load curve", plan.expected_error, unit),
            Expectation("clusters told apart", plan.clusters_told_apart, apart),
        )

    def query(self, work: Work, allotment: Allotment) -> Mapping[Hashable, PrivateKMeans]:
        """Release the clusters of all customers, or of each group."""
        request, budget = work.request, allotment.guarantee
        asked = _estimator(Ask(request=request, allotment=allotment, grid=work.choice.grid))
        asked.set_params(epsilon=budget.epsilon, delta=budget.delta)  # whatever was planned
        if request.clusters_by_group:
            work.kmeans = private_kmeans_by_class(asked, work.rows, work.groups, request.levels)
        else:
            work.kmeans = {EVERYBODY[0]: asked.fit(work.rows)}
        return work.kmeans

    def tabulate(
        self, released: Mapping[Hashable, PrivateKMeans], choice: Choice, allotment: Allotment
    ) -> ReleasedPart:
        """Return centroids and sizes."""
        runs = tuple(
            Run(group=str(level) if choice.request.clusters_by_group else None, spends=fit.spends_)
            for level, fit in released.items()
        )
        fits = released.values()
        means = np.vstack([fit.cluster_centers_ for fit in fits])
        centroids, sizes = self.layouts(choice)
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=runs,
            tables=(
                centroids.filled(
                    centroids.within(means).ravel(),
                    np.vstack([fit.cluster_centers_std_ for fit in fits]).ravel(),
                ),
                sizes.filled(
                    np.concatenate([fit.cluster_sizes_ for fit in fits]),
                    np.concatenate([fit.cluster_sizes_std_ for fit in fits]),
                ),
            ),
        )


def centroid_layout(choice: Choice, levels: Sequence[str], values: tuple[Column, ...]) -> Layout:
    """Return a table of load curves: one row a group, cluster and slot."""
    request, times = choice.request, choice.grid.labels
    n_slots = len(times)
    groups, rows = columns.crossed(levels, request.n_clusters * n_slots)
    return Layout(
        name="centroids",
        text="Typical load curves: the mean load of each cluster of customers.",
        keys={
            columns.GROUP: groups,
            columns.CLUSTER: rows // n_slots,
            columns.SLOT: rows % n_slots,
            columns.TIME: np.array(times)[rows % n_slots],
        },
        values=values,
        most_rms=None if request.normalise else request.clip_kw,
    )


def several_days(grid: Grid) -> int | None:
    """Return the slots of a day where a row has several days, else None."""
    return grid.slots if grid.cells > grid.slots else None


def _estimator(ask: Ask) -> PrivateKMeans:
    """Return what is going to be fitted."""
    return PrivateKMeans(
        epsilon=ask.allotment.guarantee.epsilon,
        delta=ask.allotment.guarantee.delta,
        n_clusters=ask.request.n_clusters,
        clip_kw=ask.request.clip_kw,
        plausible_kw=ask.request.plausible_kw,
        normalise=ask.request.normalise,
        slots_per_day=several_days(ask.grid),
    )
