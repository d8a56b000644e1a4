"""The product `labels`: one randomised cluster label per customer of a public list.

>>> plan = plan_labels(n_clusters=6, epsilon=3.0, n_customers=1_000)
>>> round(plan.label_error, 3)
0.041
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.label_channel import MAX_CLUSTERS, checked_clusters, debiased_counts
from wattveil.privacy.mechanisms.response import PARTS, Channel
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
    response_allotment,
)
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import (
    CLUSTER,
    CUSTOMERS,
    CUSTOMERS_STD,
    Column,
    Table,
    TableLayout,
    curve_names,
)
from wattveil.release.randomised_labels import ReleasedLabels, label_design
from wattveil.web.results import Result, ResultTable, records_table

_PSEUDONYM = re.compile("[0-9a-f]{32}")
_LISTED = (
    "Who is on the list of labels: a public list that the curator gave. Whether a listed customer"
    " has readings is protected."
)


class Labels(Product):
    """One randomised label for each customer on the public list."""

    name = "labels"
    title = "Labels"
    choices = ("label_epsilon",)
    needs = "label_epsilon"
    needs_customer_list = True
    unprotected = (_LISTED,)
    mechanisms = frozenset({"channel_response", "keyed_response"})
    postprocessing = ("sizes from labels: label counts corrected for the channel",)

    def is_requested(self, request: ReleaseRequest) -> bool:
        """Whether a part of epsilon was set aside for labels."""
        return request.label_epsilon is not None

    def fixed_allotment(self, request: ReleaseRequest) -> Allotment | None:
        """Return the part of epsilon that the request sets aside for labels."""
        return response_allotment(request, request.label_epsilon or 0.0)

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return the labels, and the sizes that follow from them."""
        sizes = TableLayout(
            name="label_sizes",
            text="Sizes of the segments (clusters), estimated from the labels.",
            keys={CLUSTER: np.arange(choice.request.n_clusters)},
            values=(CUSTOMERS, replace(CUSTOMERS_STD, may_be_empty=True)),
        )
        return label_layout(choice.request), sizes

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the one randomised response."""
        del tags, choice
        return {"labels": 0}

    def n_labels(self, choice: Choice) -> int | None:
        """Return the number of clusters."""
        return choice.request.n_clusters

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Return the share of wrong labels for clusters of equal size and distance."""
        plan = plan_labels(
            n_clusters=choice.request.n_clusters,
            epsilon=allotment.guarantee.epsilon,
            n_customers=choice.request.customers,
        )
        return (Expectation("wrong labels", 100.0 * plan.label_error, "%"),)

    def query(self, work: Work, allotment: Allotment) -> ReleasedLabels:
        """Release one label for each customer on the public list."""
        rows, customer_ids = work.listed
        return work.kmeans[ALL_CUSTOMERS[0]].release_labels(
            rows,
            epsilon=allotment.guarantee.epsilon,
            customer_ids=customer_ids,
            real_ids=work.request.real_ids,
        )

    def tabulate(
        self, released: ReleasedLabels, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return the labels, the sizes that follow from them, and the channel."""
        labels, sizes = self.layouts(choice)
        # Infinite errors become empty cells.
        std = [value if math.isfinite(value) else math.nan for value in released.sizes_std]
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(
                labels.filled(*released.table.here()),
                sizes.filled(released.sizes, std),
            ),
            channel=tuple(tuple(row) for row in released.channel.parts.tolist()),
        )

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Estimate the sizes again from the labels and their channel; check the names."""
        tables = contents.tables
        if {"labels", "label_sizes", "cluster_sizes", "centroids"} <= set(tables):
            yield gathered(
                "sizes follow from the labels and their channel",
                _size_problems(contents),
                "computed again",
            )
        if "labels" in tables:
            yield name_finding(tables["labels"], real_ids=contents.choice.request.real_ids)


def label_layout(request: ReleaseRequest) -> TableLayout:
    """Return a table of labels; its length, the number of listed customers, is not checked."""
    name = "pseudonym of this release, or the id if real_ids was chosen"
    label = Column(
        name="label",
        text="number of the segment, as drawn",
        type="int64",
        minimum=0.0,
        maximum=request.n_clusters - 1.0,
    )
    return TableLayout(
        name="labels",
        text="One randomised label per customer.",
        values=(Column(name="customer", text=name, type="string"), label),
    )


def name_finding(labels: Table, *, real_ids: bool) -> Finding:
    """Check the names of labelled customers: neither names nor their order can hold a message."""
    return gathered(
        "one label per customer",
        _name_problems(labels.data["customer"].to_pylist(), real_ids=real_ids),
        "under their own ids" if real_ids else "under pseudonyms",
    )


def _name_problems(names: list[str], *, real_ids: bool) -> Iterator[str]:
    if len(set(names)) < len(names):
        yield "a name occurs twice"
    if names != sorted(names):
        yield "they are not in the order of their names"
    if not real_ids and not all(map(_PSEUDONYM.fullmatch, names)):
        yield "a name is not a pseudonym"


def _size_problems(contents: Contents) -> Iterator[str]:
    """Compare the stated sizes with those that labels and channel give."""
    tables, n_clusters = contents.tables, contents.choice.request.n_clusters
    stated = contents.record["channel"]
    curves, _ = curve_names(tables["centroids"])
    centroids = tables["centroids"].column(curves).reshape(n_clusters, -1)
    _, weights = checked_clusters(centroids, tables["cluster_sizes"].column("customers"))
    parts = np.array([[int(chance) for chance in row] for row in stated[:-1]], dtype=np.float64)
    observed = np.bincount(tables["labels"].column("label"), minlength=n_clusters)
    channel = parts / parts.sum(axis=1, keepdims=True)
    sizes, std = debiased_counts(observed.astype(np.float64), channel, prior=weights)
    found = tables["label_sizes"]
    if not same_numbers(found.column("customers"), sizes):
        yield "customers does not follow from the labels"
    if not same_numbers(found.column("customers_std"), np.where(std < np.inf, std, 0.0)):
        yield "customers_std does not follow from the labels"


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelPlan(Result):
    """Expected accuracy of `release_labels`, from public parameters."""

    label_error: float
    """Expected share of customers with a wrong label."""
    shares_std: Floats
    """Expected standard error of each cluster's share."""
    channel: Channel

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        clusters = np.arange(self.shares_std.size)
        columns = {"cluster": clusters, "share_std": self.shares_std}
        return {
            "plan": lambda: records_table([{"label_error": self.label_error}]),
            "shares": lambda: ResultTable(columns, ("cluster",)),
        }


def plan_labels(
    *,
    n_clusters: int,
    epsilon: float,
    n_customers: int,
    sizes: ArrayLike | None = None,
    centroids: ArrayLike | None = None,
    design: Literal["cheapest", "response"] = "cheapest",
) -> LabelPlan:
    """Return the expected accuracy of labels, before anything is spent.

    With the released sizes and centroids, the channel is the one that `release_labels` will use.

    Parameters
    ----------
    n_clusters, epsilon, design
        As for `release_labels`.
    n_customers
        Number of customers on the list.
    sizes
        Released cluster sizes; without them, all clusters have the same size.
    centroids
        Released centroids; without them, all wrong labels have the same cost.
    """
    checks.integer("n_clusters", n_clusters, minimum=1, maximum=MAX_CLUSTERS)
    checks.integer("n_customers", n_customers, minimum=1)
    epsilon = checks.positive_epsilon("epsilon", epsilon)
    alike = np.eye(n_clusters) / np.sqrt(2.0)  # each pair at distance 1
    centres, weights = checked_clusters(
        alike if centroids is None else checks.numbers("centroids", centroids),
        np.ones(n_clusters) if sizes is None else checks.numbers("sizes", sizes),
    )
    if len(centres) != n_clusters:
        raise InvalidParameterError("centroids", f"{n_clusters} rows", len(centres))
    channel = label_design(centres, weights, epsilon=epsilon, design=design)
    table = channel.parts[:-1] / PARTS
    _, std = debiased_counts(n_customers * weights @ table, table, prior=weights)
    return LabelPlan(
        label_error=float(weights @ (1.0 - table.diagonal())),
        shares_std=std / n_customers,
        channel=channel,
    )
