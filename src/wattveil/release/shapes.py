"""The mean daily load shape of a population, with its error band."""

import math
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
    """Standard error of each hour from the known noise alone; what clipping takes away is not in
    it, see ``clipped_share``."""
    customers: float
    customers_std: float
    clipped_share: float
    """Share of the customers above ``clip_kw``, noisy. Much above 0, ``mean_kw`` is too low."""
    clipped_share_std: float
    guarantee: Guarantee
    spends: tuple[Spend, ...]


def mean_load_shape(
    load_kw: NDArray[np.float64], *, clip_kw: float, epsilon: float, delta: float
) -> LoadShape:
    """Release the mean over customers of their daily load, under global differential privacy.

    Parameters
    ----------
    load_kw : array of shape (customers, slots of the day)
        One row a customer, in kW (not W, not kWh a day). NaN and infinity are refused.
    clip_kw : float
        Public bound on a customer's root-mean-square load over the day, in kW; larger ones are
        scaled back to it. Too small: the mean is too low (``clipped_share`` shows it, the error
        band does not). Too large: noise grows in proportion. A good bound is a public figure that
        all but one or two in a hundred customers stay under. Never take it from the data.
    epsilon, delta : float
        The whole budget of this release.

    Formal guarantee
    ----------------
    (epsilon, delta)-DP for zero-out of one customer, for any load_kw: one `gaussian_histogram` and
    one `gaussian_sum` under one budget, the rest is post-processing.
    """
    guarantee = Guarantee(
        epsilon=checks.positive_epsilon("epsilon", epsilon),
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
    # Counting in two cells costs what one costs: a customer is in one of them.
    # A running sum: whether a row counts as clipped must not depend on the rows beside it.
    saturated = np.clip(rows, -1e150, 1e150)  # so that no square overflows
    is_clipped = np.cumsum(np.square(saturated), axis=1)[:, -1] > region.radius**2
    counted = gaussian_histogram(
        Secret(is_clipped.astype(np.int64)),
        n_cells=2,
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

    customers = max(float(counted.value.sum()), 1.0)  # a noisy count may be negative
    cell_std = float(counted.std[0])
    customers_std = math.sqrt(2.0) * cell_std
    mean_kw = summed.value / customers
    share = float(np.clip(counted.value[1] / customers, 0.0, 1.0))
    # First order: var(S/n) = (var S + (S/n)^2 var n) / n^2; for the share, n = a + b and S = b.
    std_kw = np.hypot(summed.std, mean_kw * customers_std) / customers
    return LoadShape(
        mean_kw=mean_kw,
        std_kw=std_kw,
        customers=customers,
        customers_std=customers_std,
        clipped_share=share,
        clipped_share_std=cell_std * math.hypot(share, 1.0 - share) / customers,
        guarantee=guarantee,
        spends=budget.spends,
    )
