"""The release function of the toy product, as in a module of `wattveil.release`."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.engines.local import load_rows
from wattveil.privacy.guarantee import Budget, Guarantee, Spend, global_guarantee
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.privacy.private_data import Rows
from wattveil.release.rows.load_features import one_cell


@dataclass(frozen=True, kw_only=True)
class CustomerCount:
    """A noisy number of customers."""

    count: float
    count_std: float
    guarantee: Guarantee
    spends: tuple[Spend, ...]


def count_customers(
    load_kw: ArrayLike | Rows[Floats], *, epsilon: float, delta: float
) -> CustomerCount:
    """Count the customers, with all of the budget.

    Parameters
    ----------
    load_kw
        Private, one row per customer.
    epsilon, delta
        The whole budget of this release.

    Formal guarantee
    ----------------
    The release is (epsilon, delta)-DP for zero-out of one customer: one histogram of one cell.
    """
    rows = load_rows(load_kw)
    checks.positive_epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    budget = Budget(global_guarantee(epsilon=epsilon, delta=delta))
    query = Query(tag="toy count", rho_units=budget.rho_units, n_cells=1)
    counted, std = PrivateTable(rows, budget).release(one_cell.bind(), query)[0]
    return CustomerCount(
        count=float(counted[0]), count_std=std, guarantee=budget.guarantee, spends=budget.spends
    )
