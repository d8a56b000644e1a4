"""Gaussian noise on counts and sums of customers, drawn on the integer grid.

`release_sums` is the mechanism of the global tier. It takes private rows and a row function; the
contributions are bounded and added up by `contributions`, after the charge, and discrete Gaussian
noise is added to the integers. Only the noisy integers are released.

`PrivateTable` binds private rows to a budget. A public release function puts both into a table and
passes on nothing else. Code that holds the table can apply row functions and release noisy numbers,
which are charged to that budget first. It cannot read a row, and it cannot release anything without
a charge. So the code that chooses the queries and processes the answers is not part of the trusted
base: it is post-processing, whatever it does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, TypeVarTuple, final

import numpy as np

from wattveil.arrays import Bools, Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Budget, Spend
from wattveil.privacy.mechanisms.contributions import STEP, BlockSums, Query
from wattveil.privacy.private_data import (
    BoundRowFunction,
    PrivateValue,
    Released,
    Rows,
    checked_rows,
    exactly,
)

MIN_SCALE = 1024.0
"""Smallest noise scale in steps for which docs/proofs/discrete-gaussian.md is written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTotals:
    """A released count or sum for each cell."""

    steps: Ints
    """The exact integers plus noise, in whole steps."""
    noise_scale: float
    """Standard deviation of the noise of each integer, in steps."""
    shape: tuple[int, ...]

    @cached_property
    def value(self) -> Floats:
        """The counts, or the sums of features."""
        return np.asarray(self.steps.reshape(self.shape) * STEP, dtype=np.float64)

    @property
    def std(self) -> float:
        """Standard deviation of the noise in each entry of ``value``: known, not estimated."""
        return self.noise_scale * STEP


def release_sums(
    rows: Rows[*tuple[Any, ...]],
    work: BoundRowFunction[Any],
    queries: Sequence[Query],
    budget: Budget,
) -> list[Released[NoisyTotals]]:
    """Release counts and sums over customers, in one pass over the rows.

    ``work`` returns, for each query in turn, the cell of each customer (`NO_DATA` for none) and,
    if the query is for a sum, the features of each customer.

    Formal guarantee
    ----------------
    The caller ensures that the parameters of ``work`` and the queries are public or released. Then
    the released integers of a query are rho-zCDP for the budget's neighbours, with rho =
    ``rho_units`` 1e-18, and follow the exact Gaussian curve up to the charged eta, whatever the
    rows contain and whatever the row function returns. Noise scale: sigma = sensitivity /
    sqrt(2 rho), in steps. Proof: docs/proofs/gaussian-sum.md.
    """
    sums = BlockSums(queries := tuple(queries), work)
    scales, spends = zip(*(_charge_query(query, budget) for query in queries), strict=True)
    totals = sums.split(checked_rows(rows).add_up(sums))  # only now is a row read
    released = []
    for query, scale, spend, exact in zip(queries, scales, spends, totals, strict=True):
        steps = noise.add_discrete_gaussian(exact, scale=scale)
        noisy = NoisyTotals(steps=steps, noise_scale=scale, shape=query.shape)
        released.append(Released(value=noisy, spends=(spend,), simulated=noise.is_simulated()))
    return released


def _charge_query(query: Query, budget: Budget) -> tuple[float, Spend]:
    mechanism = "gaussian_histogram" if query.n_features is None else "gaussian_cell_sums"
    spend = Spend(tag=query.tag, mechanism=mechanism, rho_units=query.rho_units)
    numbers = math.prod(query.shape)
    squared = query.squared_sensitivity(budget.guarantee.neighbours)
    return charge_gaussian(spend, budget, squared_sensitivity=squared, numbers=numbers)


def charge_gaussian(
    spend: Spend, budget: Budget, *, squared_sensitivity: int, numbers: int
) -> tuple[float, Spend]:
    """Charge for this many numbers with Gaussian noise; return the noise scale and the charge."""
    sigma = accounting.noise_scale(
        squared_sensitivity=squared_sensitivity, rho_units=spend.rho_units
    )
    noise.check_scale(sigma)
    if sigma < MIN_SCALE:
        rule = f"small enough for noise of {MIN_SCALE:g} grid steps"
        raise InvalidParameterError("rho_units", rule, spend.rho_units)
    s = math.sqrt(squared_sensitivity) / sigma
    eta = accounting.discretisation_eta(numbers=numbers, sigma=sigma, s=s)
    drawn = {"numbers": numbers, "squared": squared_sensitivity, "scale": sigma, "step": STEP}
    return sigma, exactly(budget, Budget).charge(replace(spend, eta=eta, drawn=drawn))


Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Other = TypeVar("Other")

Noisy = tuple[Floats, float]
"""Released numbers, and the standard deviation of the noise of each."""


@final
class PrivateTable(PrivateValue, Generic[*Columns]):
    """Private rows, and the budget to which every release from them is charged.

    Formal guarantee
    ----------------
    The caller ensures that one customer has at most one row, and that what is passed to `release`,
    row functions included, is public or was released before. Then everything that the methods
    return satisfies the guarantee of the budget. Proof: docs/proofs/adaptive-transcript.md.
    """

    __slots__ = ("_budget", "_rows")

    def __init__(self, rows: Rows[*Columns], budget: Budget) -> None:
        self._rows = checked_rows(rows)
        self._budget = exactly(budget, Budget)

    @property
    def width(self) -> int:
        """The number of values per customer in the first column: public."""
        return self._rows.width

    def map(self, work: BoundRowFunction[tuple[Other]]) -> "PrivateTable[Other]":
        """Apply a row function to the one column; return a table under the same budget."""
        return PrivateTable(self._rows.map(work), self._budget)

    def select(self, work: BoundRowFunction[tuple[*Found, Bools]]) -> "PrivateTable[*Found]":
        """Apply a row function and keep the customers it selects, under the same budget."""
        return PrivateTable(self._rows.select(work), self._budget)

    def release(self, work: BoundRowFunction[Any], *queries: Query) -> list[Noisy]:
        """Charge, then release a noisy count or sum for each query: see `release_sums`."""
        released = [one.publish() for one in release_sums(self._rows, work, queries, self._budget)]
        return [(one.value, one.std) for one in released]
