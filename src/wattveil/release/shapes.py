"""The mean daily load shape of a population, with its error band."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.privacy.mechanisms.gaussian import gaussian_histogram, gaussian_sum
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball

_COUNT_SHARE = 0.05
"""Of the budget, for the number of customers: one number against d, so it needs little."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadShape:
    """A released mean load shape. Everything in it may be published."""

    mean_kw: NDArray[np.float64]
    std_kw: NDArray[np.float64]
    """Standard error of each hour from the known noise: the band costs nothing."""
    customers: float
    customers_std: float
    guarantee: Guarantee
    spends: tuple[Spend, ...]


def mean_load_shape(
    load_kw: NDArray[np.float64], *, clip_kw: float, epsilon: float, delta: float
) -> LoadShape:
    """Release the mean over customers of their daily load, under global differential privacy.

    Parameters
    ----------
    load_kw : array of shape (customers, slots of the day)
        One row a customer. NaN and infinity are refused.
    clip_kw : float
        Public bound on a customer's root-mean-square load; larger ones are scaled back. A small
        bound means little noise and a bias towards small customers. Never take it from the data.
    epsilon, delta : float
        The whole budget of this release.

    Formal guarantee
    ----------------
    (epsilon, delta)-DP for zero-out of one customer, for any load_kw: one `gaussian_histogram` and
    one `gaussian_sum` under one budget, the rest is post-processing.
    """
    guarantee = Guarantee(
        epsilon=checks.positive("epsilon", epsilon),
        delta=checks.probability("delta", delta),
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
    rows = checks.numbers("load_kw", load_kw)
    # Root-mean-square load of at most clip_kw = L2 norm of at most clip_kw sqrt(d).
    region = Ball(
        radius=checks.positive("clip_kw", clip_kw) * np.sqrt(checks.columns("load_kw", rows))
    )
    budget = Budget(guarantee)
    counted = gaussian_histogram(
        Secret(np.zeros(rows.shape[0], dtype=np.int64)),
        n_cells=1,
        rho_units=budget.share(_COUNT_SHARE),
        budget=budget,
        tag="number of customers",
    ).publish()
    summed = gaussian_sum(
        Secret(rows),
        region=region,
        rho_units=budget.remaining_rho_units,
        budget=budget,
        tag="sum of load",
    ).publish()

    customers = max(float(counted.value[0]), 1.0)  # a noisy count may be negative; a mean may not
    mean_kw = summed.value / customers
    # First order: var(S/n) = (var S + (S/n)^2 var n) / n^2.
    std_kw = np.hypot(summed.std, mean_kw * counted.std[0]) / customers
    return LoadShape(
        mean_kw=mean_kw,
        std_kw=std_kw,
        customers=customers,
        customers_std=float(counted.std[0]),
        guarantee=guarantee,
        spends=budget.spends,
    )
