"""The parts of the instance tier: the paper's centroids and labels, by `LeaveOneOutKMeans`.

The noise is computed from the data, so nothing can be planned without them, and what it was is not
published: neither its scale nor the standard errors that follow from it.
"""

from dataclasses import replace

import numpy as np

from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.instance.kmeans import LeaveOneOutKMeans
from wattveil.privacy.guarantee import Tier
from wattveil.privacy.mechanisms.response import fresh_key, pseudonyms
from wattveil.publish import columns
from wattveil.publish.clusters import centroid_layout
from wattveil.publish.labels import label_layout
from wattveil.publish.parts import Allotment, Choice, Part, ReleasedPart, Run, Work
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Layout


class InstanceClusters(Part):
    """Centroids under leave-one-out noise; the same fit releases the labels."""

    name = "clusters"

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether the request is for this tier: the mechanism always pays for both."""
        return request.tier is Tier.INSTANCE

    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return the curves: no standard errors, which would tell the noise."""
        return (centroid_layout(choice, EVERYBODY, (columns.LOAD_KW,)),)

    def query(self, work: Work, allotment: Allotment) -> LeaveOneOutKMeans:
        """Fit once, for centroids and labels."""
        request, promise, profiles = work.request, allotment.guarantee, work.instance_profiles
        work.leave_one_out = LeaveOneOutKMeans(
            n_clusters=request.n_clusters,
            epsilon_c=promise.epsilon,
            delta_c=promise.delta,
            epsilon_l=label_epsilon(request),
            clip_kw=request.clip_kw,
        ).fit(profiles.load_kw)
        return work.leave_one_out

    def tabulate(
        self, released: LeaveOneOutKMeans, choice: Choice, allotment: Allotment
    ) -> ReleasedPart:
        """Return the centroids."""
        (layout,) = self.layouts(choice)
        means = layout.within(released.cluster_centers_)
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends_[:1]),),
            tables=(layout.filled(means.ravel()),),
        )


class InstanceLabels(Part):
    """The labels of the same fit, and the cluster sizes they add up to."""

    name = "labels"
    postprocessing = ("cluster sizes: released labels counted",)

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether the request is for this tier: the mechanism always pays for both."""
        return request.tier is Tier.INSTANCE

    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return the labels, and how many there are of each."""
        groups, clusters = columns.crossed(EVERYBODY, choice.request.n_clusters)
        sizes = Layout(
            name="cluster_sizes",
            text="How many released labels each cluster has.",
            keys={columns.GROUP: groups, columns.CLUSTER: clusters},
            values=(replace(columns.CUSTOMERS, text="customers with this label"),),
        )
        return label_layout(choice.request), sizes

    def query(self, work: Work, allotment: Allotment) -> tuple[tuple[str, ...], LeaveOneOutKMeans]:
        """Return the fit of the clusters, and pseudonyms of its customers."""
        del allotment
        fit, ids = work.leave_one_out, work.instance_profiles.customer_ids
        if fit is None:
            raise ValueError("the clusters come first")
        real_ids = work.request.real_ids
        return ids if real_ids else tuple(pseudonyms(ids, key=fresh_key())), fit

    def tabulate(
        self,
        released: tuple[tuple[str, ...], LeaveOneOutKMeans],
        choice: Choice,
        allotment: Allotment,
    ) -> ReleasedPart:
        """Return the labels, sorted by name, and their counts."""
        names, fit = released
        order = sorted(range(len(names)), key=names.__getitem__)
        counts = np.bincount(fit.labels_, minlength=choice.request.n_clusters).astype(np.float64)
        labels, sizes = self.layouts(choice)
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=fit.spends_[1:]),),
            tables=(
                labels.filled([names[i] for i in order], fit.labels_[order]),
                sizes.filled(counts),
            ),
        )


def label_epsilon(request: ReleaseRequest) -> float:
    """Return the part of epsilon for the labels: half of it, unless the request says otherwise."""
    return request.epsilon / 2.0 if request.label_epsilon is None else request.label_epsilon
