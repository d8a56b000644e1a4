"""What labels and cluster shares will be worth.

>>> plan = plan_labels(n_clusters=6, epsilon=3.0, n_customers=1_000)
>>> round(plan.label_error, 3)
0.041
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.clustering.debias import debiased_counts
from wattveil.clustering.group_table import Groups, GroupTable, checked_counts, share_errors
from wattveil.clustering.label_channel import MOST_CLUSTERS, checked_clusters
from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import RHO_UNITS
from wattveil.privacy.budget import Budget
from wattveil.privacy.mechanisms.response import PARTS, Channel
from wattveil.privacy.private_rows import FloatArray
from wattveil.release.labels import label_design
from wattveil.release.promise import global_promise


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelPlan:
    """What `release_labels` will give, as far as public numbers tell."""

    label_error: float
    """Expected share of customers with a wrong label."""
    shares_std: FloatArray
    """Expected standard error of each cluster's share."""
    channel: Channel


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesPlan:
    """What `cluster_shares` will give, as far as public numbers tell."""

    counts_std: float
    shares_std: FloatArray
    """Expected standard error of each share, in the shape of the table."""


def plan_labels(
    *,
    n_clusters: int,
    epsilon: float,
    n_customers: int,
    sizes: ArrayLike | None = None,
    centroids: ArrayLike | None = None,
    design: Literal["cheapest", "response"] = "cheapest",
) -> LabelPlan:
    """Return what labels will be worth, before spending anything.

    Without ``sizes`` all clusters are taken as equal, without ``centroids`` all wrong labels as
    equally wrong. With those given to `release_labels` the channel is the very one it will use.
    """
    checks.integer("n_clusters", n_clusters, least=1, most=MOST_CLUSTERS)
    checks.integer("n_customers", n_customers, least=1)
    epsilon = checks.positive_epsilon("epsilon", epsilon)
    alike = np.eye(n_clusters) / np.sqrt(2.0)  # every two a distance of 1 apart
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


def plan_shares(
    *,
    n_clusters: int,
    levels: Groups,
    epsilon: float,
    delta: float,
    n_customers: int,
    expected_counts: ArrayLike | None = None,
    known_totals: bool = False,
) -> SharesPlan:
    """Return how uncertain each share will be, before spending anything.

    Parameters
    ----------
    n_clusters, levels, epsilon, delta
        As for `cluster_shares`.
    n_customers : int
        How many there are; spread evenly over all cells without ``expected_counts``.
    expected_counts : array in the shape of the table, optional
        A guess of the table from public knowledge, up to a factor.
    known_totals : bool
        Whether totals will be given.
    """
    checks.integer("n_clusters", n_clusters, least=1)
    checks.integer("n_customers", n_customers, least=1)
    checks.positive_epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    shape = GroupTable.of(levels, n_clusters=n_clusters).shape
    guess = np.ones(shape) if expected_counts is None else expected_counts
    table = checked_counts("expected_counts", guess, shape)
    table = table / (float(table.sum()) or 1.0) * n_customers
    totals = table.sum(axis=-1)
    std = math.sqrt(
        RHO_UNITS / (2.0 * Budget(global_promise(epsilon=epsilon, delta=delta)).rho_units)
    )
    shares = table / np.where(totals > 0.0, totals, 1.0)[..., None]
    return SharesPlan(
        counts_std=std,
        shares_std=share_errors(shares, totals, std=std, known_totals=known_totals),
    )
