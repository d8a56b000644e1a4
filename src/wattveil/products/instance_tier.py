"""The products of the instance tier: centroids and labels of the paper, by `LeaveOneOutKMeans`.

The noise is computed from the data, so its error cannot be planned, and neither its scale nor
standard errors are published. Both products share one fit, hence one module.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.privacy.guarantee import Tier
from wattveil.privacy.mechanisms.response import fresh_key
from wattveil.privacy.pseudonyms import pseudonyms
from wattveil.products.clusters import centroid_layout
from wattveil.products.findings import Finding, same_numbers
from wattveil.products.labels import label_layout, name_finding
from wattveil.products.product import (
    Allotment,
    Choice,
    Contents,
    Headline,
    Product,
    ReleasedProduct,
    Run,
    Work,
    guarantee_of,
    response_allotment,
)
from wattveil.products.request import ReleaseRequest, check_published_ids
from wattveil.products.segment_figures import segment_figures, segment_headline
from wattveil.products.tables import CLUSTER, CUSTOMERS, GROUP, LOAD_KW, Table, TableLayout, crossed
from wattveil.release.instance import LeaveOneOutKMeans
from wattveil.web.charts import ReportFigure

_LABELLED = (
    "Which customers are on the list of labels, and so their number: those with enough readings for"
    " a profile. That a customer has none is not hidden."
)


class InstanceClusters(Product):
    """Centroids under leave-one-out noise; the same fit releases the labels."""

    name = "clusters"
    title = "Customer segments"
    tier = Tier.INSTANCE
    choices = ("n_clusters",)
    mechanisms = frozenset({"gaussian_answer"})

    def is_requested(self, request: ReleaseRequest) -> bool:
        """Return True: the mechanism releases centroids and labels together."""
        del request
        return True

    def fixed_allotment(self, request: ReleaseRequest) -> Allotment | None:
        """Return what the labels leave of epsilon."""
        epsilon = request.epsilon - label_epsilon(request)
        return Allotment.of(guarantee_of(request, epsilon=epsilon, delta=request.delta))

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the one draw of all centroids."""
        del tags, choice
        return {"centroids": 0}

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return the curves, without standard errors, which would reveal the noise."""
        return (centroid_layout(choice, ALL_CUSTOMERS, (LOAD_KW,)),)

    def query(self, work: Work, allotment: Allotment) -> LeaveOneOutKMeans:
        """Fit once, for centroids and labels."""
        request, guarantee, profiles = work.request, allotment.guarantee, work.instance_profiles
        work.leave_one_out = LeaveOneOutKMeans(
            n_clusters=request.n_clusters,
            epsilon_c=guarantee.epsilon,
            delta_c=guarantee.delta,
            epsilon_l=label_epsilon(request),
            clip_kw=request.clip_kw,
        ).fit(profiles.load_kw)
        return work.leave_one_out

    def tabulate(
        self, released: LeaveOneOutKMeans, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return the centroids."""
        (layout,) = self.layouts(choice)
        means = layout.within(released.cluster_centers_)
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends_[:1]),),
            tables=(layout.filled(means.ravel()),),
        )

    def headline(self, tables: Mapping[str, Table], choice: Choice) -> Headline:
        """Return how many segments there are, and the largest."""
        del choice
        return segment_headline(tables.get("centroids"), tables.get("cluster_sizes"))

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return the curve of each cluster, the sizes, and a map of the clusters."""
        del choice
        if "centroids" in tables:
            yield from segment_figures(tables["centroids"], tables.get("cluster_sizes"))


class InstanceLabels(Product):
    """The labels of the same fit, and the cluster sizes counted from them."""

    name = "labels"
    title = "Labels"
    unprotected = (_LABELLED,)
    tier = Tier.INSTANCE
    choices = ("label_epsilon",)
    mechanisms = frozenset({"modulo_labels"})
    postprocessing = ("sizes of segments: released labels counted",)

    def is_requested(self, request: ReleaseRequest) -> bool:
        """Return True: the mechanism releases centroids and labels together."""
        del request
        return True

    def fixed_allotment(self, request: ReleaseRequest) -> Allotment | None:
        """Return the part of epsilon for labels."""
        return response_allotment(request, label_epsilon(request))

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the one draw of all labels."""
        del tags, choice
        return {"labels": 0}

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return the labels, and the number of each."""
        groups, clusters = crossed(ALL_CUSTOMERS, choice.request.n_clusters)
        sizes = TableLayout(
            name="cluster_sizes",
            text="Number of released labels per segment (cluster).",
            keys={GROUP: groups, CLUSTER: clusters},
            values=(replace(CUSTOMERS, text="customers with this label"),),
        )
        text = (
            "One label per customer, without noise if the removal of any one customer leaves it"
            " unchanged."
        )
        return replace(label_layout(choice.request), text=text), sizes

    def query(self, work: Work, allotment: Allotment) -> tuple[tuple[str, ...], LeaveOneOutKMeans]:
        """Return the fit of the clusters, and pseudonyms of its customers."""
        del allotment
        fit, ids = work.leave_one_out, work.instance_profiles.customer_ids
        if fit is None:
            raise ValueError("the clusters come first")
        if not work.request.real_ids:
            return tuple(pseudonyms(ids, key=fresh_key())), fit
        check_published_ids("profiles", ids)
        return ids, fit

    def tabulate(
        self,
        released: tuple[tuple[str, ...], LeaveOneOutKMeans],
        choice: Choice,
        allotment: Allotment,
    ) -> ReleasedProduct:
        """Return the labels, sorted by name, and their counts."""
        names, fit = released
        order = sorted(range(len(names)), key=names.__getitem__)
        counts = np.bincount(fit.labels_, minlength=choice.request.n_clusters).astype(np.float64)
        labels, sizes = self.layouts(choice)
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=fit.spends_[1:]),),
            tables=(
                labels.filled([names[i] for i in order], fit.labels_[order]),
                sizes.filled(counts),
            ),
        )

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Count the labels again; check the names."""
        request, tables = contents.choice.request, contents.tables
        if {"labels", "cluster_sizes"} <= set(tables):
            counted = np.bincount(tables["labels"].column("label"), minlength=request.n_clusters)
            same = same_numbers(tables["cluster_sizes"].column("customers"), counted)
            yield Finding("sizes are counted labels", same, "counted again")
        if "labels" in tables:
            yield name_finding(tables["labels"], real_ids=request.real_ids)


def label_epsilon(request: ReleaseRequest) -> float:
    """Return the part of epsilon for the labels: half of it, unless the request says otherwise."""
    return request.epsilon / 2.0 if request.label_epsilon is None else request.label_epsilon
