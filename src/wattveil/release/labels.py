"""Which customer is of which kind, safe to publish: labels through a channel, one a customer.

A customer's label is that of the nearest released centroid: a function of the customer's own data
and of what is public. It leaves through a channel that keeps it as right as epsilon allows.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.clustering import label_channel
from wattveil.clustering.debias import debiased_counts, nearest_with_total
from wattveil.engines.inputs import Load, Values, as_rows, load_rows, text_column
from wattveil.errors import InvalidParameterError
from wattveil.privacy import rounding
from wattveil.privacy.accounting import Composition
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee, Neighbours
from wattveil.privacy.mechanisms import response
from wattveil.privacy.mechanisms.response import PARTS, Channel
from wattveil.privacy.private_rows import FloatArray, IntArray, ReleasedRows, Texts
from wattveil.release.promise import global_promise
from wattveil.release.rows.nearest import nearest_centroid


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedLabels:
    """Released labels. Everything in it may be published."""

    table: ReleasedRows[Texts, IntArray]
    """Pseudonyms of this release, or the real ids if they were requested, sorted; and the
    randomised label of each customer. Kept where the customers are."""
    centroids: FloatArray
    """The released centroids that the labels are about."""
    channel: Channel
    """What was drawn for each true label: known to everybody, so that results can be corrected."""
    sizes: FloatArray
    """Customers in each cluster, corrected for the channel: unbiased, may be negative. A customer
    without data is counted as ``absent_as``."""
    sizes_std: FloatArray
    """Standard error of each size from the channel, for customers with data; infinite where the
    channel does not tell this cluster from others (small epsilon)."""
    shares: FloatArray
    """The nearest shares to ``sizes`` of at least 0 that add up to 1: no longer unbiased."""
    shares_std: FloatArray
    absent_as: FloatArray
    """How a customer without data is counted in ``sizes``: parts of one that add up to 1."""
    guarantee: Guarantee
    spends: tuple[Spend, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Pseudonyms or ids, sorted."""
        return tuple(self.table.here()[0])

    @property
    def labels(self) -> IntArray:
        """The label of each customer, in the order of ``ids``."""
        return self.table.here()[1]

    def write_parquet(self, path: str | Path) -> None:
        """Write ids and labels: a file, or the folder of an engine that has them elsewhere."""
        self.table.write_parquet(path, ("customer", "label"))

    @property
    def replace_one(self) -> Guarantee:
        """The promise when a customer's data are replaced by any other data: 2 epsilon at most."""
        own = self.channel.epsilon(Neighbours.REPLACE_ONE)
        twice = self.guarantee.as_replace_one()
        return replace(twice, epsilon=min(own, twice.epsilon))


def release_labels(
    load_kw: Load,
    *,
    centroids: ArrayLike,
    sizes: ArrayLike,
    epsilon: float,
    customer_ids: Values,
    real_ids: bool = False,
    design: Literal["cheapest", "response"] = "cheapest",
) -> ReleasedLabels:
    """Release one randomised label a customer, under global differential privacy.

    Parameters
    ----------
    load_kw : array of shape (customers, columns)
        One row a customer. A row with NaN or infinity is a customer without data. `Rows` are left
        where their engine has them, and so are the labels.
    centroids : array of shape (clusters, columns)
        Released before, or public.
    sizes : array of shape (clusters,)
        Released or public sizes of the clusters, up to a factor; they steer which errors the
        channel avoids. Negative ones count as 0.
    epsilon : float
        The budget of this release.
    customer_ids : sequence
        One a row, no two the same: the public list of customers. With `Rows`, a column of the same
        table.
    real_ids : bool
        Publish these ids as they are. Otherwise an id is replaced by HMAC-SHA256 under a key that
        is drawn for this release and kept by nobody: neither two releases nor a release and the
        house's own list can be linked by it. A house that must link gives ids of its own making
        and asks for them as they are.

    design : {"cheapest", "response"}
        "cheapest" makes the labels as right as can be, a wrong one costing the squared distance of
        the centroids: at small epsilon it never draws the label of a rare cluster, whose size then
        cannot be read from the labels. "response" keeps every label with one chance and draws all
        others alike: more labels are wrong, and all sizes can be read.

    Formal guarantee
    ----------------
    The caller ensures that ``centroids``, ``sizes`` and ``customer_ids`` are public or released.
    Then the release is (epsilon, 0)-DP for zero-out of one customer, whatever ``load_kw``: one
    `respond` on labels each of which depends on its own row; the rest is post-processing. Where an
    engine may run a task twice the guarantee is computational. Proof:
    docs/proofs/randomised-response.md.
    """
    centres, weights = label_channel.checked_clusters(
        checks.numbers("centroids", centroids), checks.numbers("sizes", sizes)
    )
    rows = load_rows(load_kw)
    if rows.width != centres.shape[1]:
        raise InvalidParameterError("load_kw", f"of {centres.shape[1]} columns", rows.width)
    epsilon = checks.positive_epsilon("epsilon", epsilon)
    channel = label_design(centres, weights, epsilon=epsilon, design=design)
    budget = Budget(global_promise(epsilon=epsilon, delta=0.0), response_epsilon=epsilon)
    table = response.respond(
        rows,
        as_rows(customer_ids, text_column),
        nearest_centroid.bind(centroids=centres),
        channel=channel,
        budget=budget,
        tag="labels",
        real_ids=real_ids,
    )
    found = _described(table, channel, centres, weights, budget)
    return replace(found, guarantee=budget.guarantee, spends=budget.spends)


def _described(
    table: ReleasedRows[Texts, IntArray],
    channel: Channel,
    centres: FloatArray,
    weights: FloatArray,
    budget: Budget,
) -> ReleasedLabels:
    """Return released labels with the sizes that follow from them: post-processing."""
    shares = channel.parts / PARTS
    observed = table.counted(len(centres))
    counts, std = debiased_counts(observed.astype(np.float64), shares[:-1], prior=weights)
    customers = max(int(observed.sum()), 1)
    return ReleasedLabels(
        table=table,
        centroids=centres,
        channel=channel,
        sizes=counts,
        sizes_std=std,
        shares=nearest_with_total(counts / customers, np.array(1.0)),
        shares_std=std / customers,
        absent_as=debiased_counts(shares[-1], shares[:-1], prior=weights)[0],
        guarantee=budget.guarantee,
        spends=budget.spends,
    )


def composed_guarantee(first: Budget, *others: Budget, delta: float) -> Guarantee:
    """Return the promise of releases on the same people together, at ``delta``.

    Made for centroids (a Gaussian budget) and labels (a response budget), in any number and order.

    Formal guarantee
    ----------------
    What is added up are the grants, which were fixed before anything was released, not what was
    spent: so the total holds although the channel was chosen by the released centroids. See
    docs/proofs/accounting.md.
    """
    together = first.guarantee.compose(*(budget.guarantee for budget in others))
    grants = [budget.grant for budget in (first, *others)]
    total = Composition(
        rho_units=sum(grant.rho_units for grant in grants),
        response_epsilon=rounding.sum_up(*(grant.response_epsilon for grant in grants)),
        response_delta=rounding.sum_up(*(grant.response_delta for grant in grants)),
        # A grant without rho admits no Gaussian draw, and so no discretisation.
        eta=rounding.sum_up(*(grant.eta for grant in grants if grant.rho_units)),
    )
    return replace(together, epsilon=total.epsilon(delta), delta=delta)


def label_design(
    centres: FloatArray, weights: FloatArray, *, epsilon: float, design: str
) -> Channel:
    """Return the channel of a release: epsilon-DP for zero-out, never worse than response."""
    if design not in (allowed := ("cheapest", "response")):
        raise InvalidParameterError("design", f"one of {allowed}", design)
    zero_out, n_labels = Neighbours.ZERO_OUT, len(weights)
    cost, tables = label_channel.squared_distances(centres), []
    if design == "cheapest" or n_labels == 1:
        tables = label_channel.candidate_channels(cost, weights, epsilon=epsilon)
    channels = [Channel(label_channel.whole_parts(table, PARTS)) for table in tables]
    if n_labels > 1:
        channels += [
            response.response_channel(n_labels=n_labels, epsilon=epsilon, neighbours=zero_out)
        ]
    private = [channel for channel in channels if channel.epsilon(zero_out) <= epsilon]
    return min(private, key=lambda channel: label_channel.label_cost(channel.parts, cost, weights))
