"""Randomised cluster labels, one per customer.

A customer's label is that of the nearest released centroid: a function of the customer's own data
and of public numbers. It is released through a channel, which draws the published label at random
given the true one. The channel is chosen for accuracy within epsilon.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats, Ints, Texts
from wattveil.engines.local import Load, Values, as_rows, load_rows, text_column
from wattveil.errors import InvalidParameterError, wrong_width
from wattveil.numerics import label_channel
from wattveil.numerics.label_channel import debiased_counts, nearest_with_total
from wattveil.privacy import accounting
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Spend, global_guarantee
from wattveil.privacy.mechanisms import response
from wattveil.privacy.mechanisms.response import PARTS, Channel
from wattveil.privacy.private_data import ReleasedRows
from wattveil.release.rows.load_features import nearest_centroid
from wattveil.web.curves import Chart, Curve
from wattveil.web.results import ChartedResult, ResultTable


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleasedLabels(ChartedResult):
    """Released labels. Everything in it may be published."""

    table: ReleasedRows[Texts, Ints]
    """Pseudonyms of this release, or the real ids if they were requested, sorted; and the
    randomised label of each customer. Stored by the engine of the customers."""
    centroids: Floats
    """The released centroids that the labels are about."""
    channel: Channel
    """Distribution of the released label for each true label: public, for correcting results."""
    sizes: Floats
    """Customers in each cluster, corrected for the channel: unbiased, may be negative. A customer
    without data is counted as ``absent_as``."""
    sizes_std: Floats
    """Standard error of each size from the channel, for customers with data; infinite where the
    channel does not distinguish this cluster from others (small epsilon)."""
    shares: Floats
    """The nearest shares to ``sizes`` that are non-negative and add up to 1: no longer unbiased."""
    shares_std: Floats
    absent_as: Floats
    """How a customer without data is counted in ``sizes``: parts of one that add up to 1."""
    guarantee: Guarantee
    spends: tuple[Spend, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Pseudonyms or ids, sorted."""
        return tuple(self.table.here()[0])

    @property
    def labels(self) -> Ints:
        """The label of each customer, in the order of ``ids``."""
        return self.table.here()[1]

    def write_parquet(self, path: str | Path) -> None:
        """Write ids and labels to a file, or to a folder if the engine is distributed."""
        self.table.write_parquet(path, ("customer", "label"))

    @property
    def replace_one(self) -> Guarantee:
        """The guarantee under replacement of one customer's data: at most 2 epsilon."""
        own = self.channel.epsilon(Neighbours.REPLACE_ONE)
        twice = self.guarantee.as_replace_one()
        return replace(twice, epsilon=min(own, twice.epsilon))

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"labels": self._labels, "label_sizes": self._label_sizes}

    def _labels(self) -> ResultTable:
        ids, labels = self.table.here()
        return ResultTable({"customer": list(ids), "label": labels}, ("customer",))

    def _label_sizes(self) -> ResultTable:
        columns = {
            "cluster": np.arange(self.sizes.size),
            "customers": self.sizes,
            "customers_std": self.sizes_std,
            "share": self.shares,
            "share_std": self.shares_std,
        }
        return ResultTable(columns, ("cluster",))

    def _shown(self) -> str:
        return "label_sizes"  # with ``real_ids``, a list of customers is published elsewhere

    def _chart(self) -> Chart:
        names = [str(cluster) for cluster in range(self.shares.size)]
        bars = [Curve("", 0, names, self.shares, self.shares_std)]
        return Chart(bars, "share of the customers", "bars", band="randomisation of the labels")


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
    """Release one randomised label per customer, under global differential privacy.

    Parameters
    ----------
    load_kw : array of shape (customers, columns)
        One row per customer. A row with NaN or infinity is a customer without data. `Rows` stay
        with their engine, and so do the labels.
    centroids : array of shape (clusters, columns)
        Released before, or public.
    sizes : array of shape (clusters,)
        Released or public sizes of the clusters, up to a factor; they determine which errors
        the channel avoids. Negative ones count as 0.
    epsilon : float
        The budget of this release.
    customer_ids : sequence
        One per row, no two the same: the public list of customers. With `Rows`, a column of the
        same table.
    real_ids : bool
        Publish these ids unchanged. Otherwise an id is replaced by HMAC-SHA256 under a key that is
        drawn for this release and not stored: neither two releases nor a release and the data
        holder's own list can be linked by it. A data holder that must link them passes ids of its
        own making and sets this option.
    design : {"cheapest", "response"}
        "cheapest" minimises the expected cost of wrong labels, which is the squared distance of the
        centroids: at small epsilon it never draws the label of a rare cluster, whose size then
        cannot be estimated from the labels. "response" is K-ary randomised response: it keeps every
        label with the same probability and draws all others uniformly; more labels are wrong, and
        all sizes can be estimated.

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
        raise wrong_width("load_kw", centres.shape[1], rows.width)
    epsilon = checks.positive_epsilon("epsilon", epsilon)
    channel = label_design(centres, weights, epsilon=epsilon, design=design)
    budget = Budget(global_guarantee(epsilon=epsilon, delta=0.0), response_epsilon=epsilon)
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
    table: ReleasedRows[Texts, Ints],
    channel: Channel,
    centres: Floats,
    weights: Floats,
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
    """Return the guarantee of several releases on the same customers together, at ``delta``.

    For centroids (a Gaussian budget) and labels (a response budget), in any number and order.

    Formal guarantee
    ----------------
    The grants, which were fixed before the first release, are added up, not the charges: so the
    total holds although the channel was chosen by the released centroids. Proof:
    docs/proofs/accounting.md.
    """
    together = first.guarantee.compose(*(budget.guarantee for budget in others))
    grants = [budget.grant for budget in (first, *others)]
    total = Composition(
        rho_units=sum(grant.rho_units for grant in grants),
        response_epsilon=accounting.sum_up(*(grant.response_epsilon for grant in grants)),
        response_delta=accounting.sum_up(*(grant.response_delta for grant in grants)),
        # A grant without rho admits no Gaussian draw, and so no discretisation.
        eta=accounting.sum_up(*(grant.eta for grant in grants if grant.rho_units)),
    )
    return replace(together, epsilon=total.epsilon(delta), delta=delta)


def label_design(centres: Floats, weights: Floats, *, epsilon: float, design: str) -> Channel:
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
