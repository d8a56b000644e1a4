"""The product `labels`: one randomised cluster label per customer of a public list.

>>> plan = plan_labels(n_clusters=6, epsilon=3.0, n_customers=1_000)
>>> round(plan.label_error, 3)
0.041
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.label_channel import MAX_CLUSTERS, checked_clusters, debiased_counts
from wattveil.privacy.mechanisms.response import PARTS, Channel
from wattveil.products.clusters import (
    cluster_estimator,
    several_days,
    simulated_rows,
    simulation_of,
)
from wattveil.products.findings import Finding, gathered, same_numbers
from wattveil.products.product import (
    Achievement,
    Allotment,
    Choice,
    Contents,
    Expectation,
    Product,
    ReleasedProduct,
    Run,
    Work,
    guarantee_of,
    response_allotment,
)
from wattveil.products.released_channel import (
    DISTINGUISHED,
    WRONG,
    achieved_counts,
    channel_of,
    channel_page_table,
    label_channel,
    stated_parts,
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
from wattveil.sklearn_base import clone
from wattveil.web.pages import PageTable
from wattveil.web.results import Result, ResultTable, records_table

_PSEUDONYM = re.compile("[0-9a-f]{32}")
_LISTED = (
    "Who is on the list of labels: a public list that the curator gave. Whether a listed customer"
    " has readings is protected."
)

_POPULATIONS = 4
"""Simulated populations of a plan, with a release of segments each."""
_MAX_SIMULATED_CLUSTERS = 40
"""Above it, four linear programs take seconds: segments of equal size and distance must do."""
_MIN_DISTINGUISHED = 2
_NO_INFORMATION = (
    "labels: at this label epsilon the labels are expected to carry little or no information about"
    " the segment of a customer."
)
_CHANNEL_TEXT = (
    "Labels are randomised. The table has the probability of each published label (column) given"
    " the segment of the customer (row); the last row is that of a listed customer without"
    " readings."
)
_SIZE = "number of customers, estimated from the labels; empty if they do not determine it"
_SIZE_STD = replace(CUSTOMERS_STD, may_be_empty=True)


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
            text=(
                "Sizes of the segments (clusters), estimated from the labels; empty where the"
                " labels do not determine them."
            ),
            keys={CLUSTER: np.arange(choice.request.n_clusters)},
            values=(replace(CUSTOMERS, text=_SIZE, may_be_empty=True), _SIZE_STD),
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
        """Return how many segments labels distinguish, and how many of them are wrong.

        The channel is chosen as for a release, for segments of simulated customers.
        """
        plans = simulated_plans(choice, allotment)
        n_clusters = choice.request.n_clusters
        distinct = int(np.median([plan.distinguished for plan in plans]))
        hidden = _NO_INFORMATION if distinct < min(n_clusters, _MIN_DISTINGUISHED) else ""
        wrong = 100.0 * float(np.mean([plan.label_error for plan in plans]))
        return (
            Expectation(DISTINGUISHED, distinct, f"of {n_clusters}", warning=hidden),
            Expectation(WRONG, wrong, "%"),
        )

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
        # Where the error is infinite, the size would be that of the prior: both are left empty.
        is_known = np.isfinite(released.sizes_std)
        known = (np.where(is_known, one, np.nan) for one in (released.sizes, released.sizes_std))
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(
                labels.filled(*released.table.here()),
                sizes.filled(*known),
            ),
            channel=tuple(tuple(row) for row in released.channel.parts.tolist()),
        )

    def achieved(
        self, record: Mapping[str, Any], tables: Mapping[str, Table]
    ) -> tuple[Achievement, ...]:
        """Return what the released channel lets labels say, with the released sizes as prior."""
        channel = channel_of(record, tables)
        if channel is None or "labels" not in tables:
            return ()
        return achieved_counts(channel, tables["labels"].data.num_rows)

    def report_text(
        self, record: Mapping[str, Any], tables: Mapping[str, Table]
    ) -> tuple[str, PageTable | None]:
        """Return the channel as a table."""
        channel = channel_of(record, tables)
        return ("", None) if channel is None else (_CHANNEL_TEXT, channel_page_table(channel))

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
    curves, _ = curve_names(tables["centroids"])
    centroids = tables["centroids"].column(curves).reshape(n_clusters, -1)
    _, weights = checked_clusters(centroids, tables["cluster_sizes"].column("customers"))
    parts = stated_parts(contents.record["channel"])[:-1]
    observed = np.bincount(tables["labels"].column("label"), minlength=n_clusters)
    channel = parts / parts.sum(axis=1, keepdims=True)
    sizes, std = debiased_counts(observed.astype(np.float64), channel, prior=weights)
    found = tables["label_sizes"]
    if not same_numbers(found.column("customers"), np.where(std < np.inf, sizes, 0.0)):
        yield "customers does not follow from the labels"
    if not same_numbers(found.column("customers_std"), np.where(std < np.inf, std, 0.0)):
        yield "customers_std does not follow from the labels"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelPlan(Result):
    """Expected accuracy of `release_labels`, from public parameters."""

    label_error: float
    """Expected share of customers with a wrong label."""
    shares_std: Floats
    """Expected standard error of each cluster's share."""
    distinguished: int
    """Number of clusters that are the most probable one given one of the labels."""
    channel: Channel

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        clusters = np.arange(self.shares_std.size)
        columns = {"cluster": clusters, "share_std": self.shares_std}
        return {
            "plan": lambda: records_table(
                [{"label_error": self.label_error, "distinguished": self.distinguished}]
            ),
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
        distinguished=len(label_channel(channel.parts / PARTS, weights).distinguished),
        channel=channel,
    )


def simulated_plans(choice: Choice, allotment: Allotment) -> list[LabelPlan]:
    """Return the plan of labels for released segments of each simulated population.

    The segments are released with all that labels leave of epsilon. Exact ones would be of less
    equal size, since K-means without clipping finds small segments of large customers.

    Parameters
    ----------
    choice
        Public choices; they determine the simulated customers as for the plan of clusters.
    allotment
        Budget of the labels.
    """
    request, n_clusters = choice.request, choice.request.n_clusters
    plan = partial(
        plan_labels,
        n_clusters=n_clusters,
        epsilon=allotment.guarantee.epsilon,
        n_customers=request.customers,
    )
    if n_clusters > min(request.customers, _MAX_SIMULATED_CLUSTERS):
        return [plan()]
    left = request.epsilon - allotment.guarantee.epsilon
    budget = Allotment.of(guarantee_of(request, epsilon=left, delta=request.delta))
    simulation, n_simulated = simulation_of(cluster_estimator(choice, budget), request.customers)
    plans = []
    for seed in range(_POPULATIONS):
        rows = simulated_rows(
            n_simulated,
            choice.grid.columns,
            seed=seed,
            typical_kw=request.typical_kw,
            slots_per_day=several_days(choice.grid),
        )
        found = clone(simulation).fit(rows)
        plans.append(plan(sizes=found.cluster_sizes_, centroids=found.cluster_centers_))
    return plans
