"""The parts of the instance tier: the paper's centroids and labels, by `LeaveOneOutKMeans`.

The noise is computed from the data, so nothing can be planned without them, and what it was is not
published: neither its scale nor the standard errors that follow from it.
"""

from dataclasses import replace

import numpy as np

from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.instance.kmeans import LeaveOneOutKMeans
from wattveil.privacy.guarantee import Tier
from wattveil.publish import columns
from wattveil.publish.labels import label_table
from wattveil.publish.parts import Allotment, Part, ReleasedPart, Run, Work
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Table
from wattveil.release.labels import pseudonyms


class InstanceClusters(Part):
    """Centroids under leave-one-out noise; the same fit releases the labels."""

    name = "clusters"

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether the request is for this tier: the mechanism always pays for both."""
        return request.tier is Tier.INSTANCE

    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Fit once, for centroids and labels."""
        request, promise = work.request, allotment.guarantee
        fit = LeaveOneOutKMeans(
            n_clusters=request.n_clusters,
            epsilon_c=promise.epsilon,
            delta_c=promise.delta,
            epsilon_l=label_epsilon(request),
            clip_kw=request.clip_kw,
        ).fit(work.profiles.load_kw)
        work.leave_one_out = fit
        times = work.profiles.grid.labels
        rows = np.arange(request.n_clusters * len(times))
        table = Table.of(
            "centroids",
            "Typical load curves: the mean load of each cluster of customers.",
            {
                columns.GROUP: [EVERYBODY[0]] * rows.size,
                columns.CLUSTER: rows // len(times),
                columns.SLOT: rows % len(times),
                columns.TIME: np.array(times)[rows % len(times)],
                columns.LOAD_KW: columns.within(fit.cluster_centers_, request.clip_kw).ravel(),
            },
        )
        done = () if request.clip_kw is None else (columns.CLIPPED,)
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=fit.spends_[:1]),),
            tables=(table,),
            postprocessing=done,
        )


class InstanceLabels(Part):
    """The labels of the same fit, and the cluster sizes they add up to."""

    name = "labels"

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether the request is for this tier: the mechanism always pays for both."""
        return request.tier is Tier.INSTANCE

    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Return the labels under pseudonyms, in their order."""
        fit, request, ids = work.leave_one_out, work.request, work.profiles.customer_ids
        if fit is None:
            raise ValueError("the clusters come first")
        names = ids if request.real_ids else tuple(pseudonyms(ids))
        order = sorted(range(len(names)), key=names.__getitem__)
        counts = np.bincount(fit.labels_, minlength=request.n_clusters).astype(np.float64)
        sizes = Table.of(
            "cluster_sizes",
            "How many released labels each cluster has.",
            {
                columns.GROUP: [EVERYBODY[0]] * request.n_clusters,
                columns.CLUSTER: np.arange(request.n_clusters),
                replace(columns.CUSTOMERS, text="customers with this label"): counts,
            },
        )
        labels = label_table(tuple(names[i] for i in order), fit.labels_[order], request)
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=fit.spends_[1:]),),
            tables=(labels, sizes),
            postprocessing=("cluster sizes: released labels counted",),
        )


def label_epsilon(request: ReleaseRequest) -> float:
    """Return the part of epsilon for the labels: half of it, unless the request says otherwise."""
    return request.epsilon / 2.0 if request.label_epsilon is None else request.label_epsilon
