"""N/X aggregation rules: a cell is published if it has N customers and no share above X %.

PRIVATE: cells, shares and means are exact. The share of a customer is its consumption,
``e_i = mean_t max(x_i,t, 0)``, over the consumption of its cell::

    published  <=>  P >= N  and  max_i e_i / sum_i e_i <= X / 100

>>> Rule.parse("15/15")
Rule(min_customers=15, max_share_percent=15.0)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError, one_of
from wattveil.numerics.groups.aggregation_rule import AggregationRule
from wattveil.profiles import Profiles

NO_CELL = -1


class Rule(AggregationRule):
    """An N/X rule, applied to exact numbers."""

    def reason(self, customers: int, share: float) -> str:
        """Return why a cell is suppressed; empty if it is published."""
        if customers < self.min_customers:
            return f"fewer than {self.min_customers} customers"
        if share * 100.0 > self.max_share_percent:
            return f"one customer above {self.max_share_percent:g} %"
        return ""


@dataclass(frozen=True, kw_only=True)
class RuleCell:
    """One group of customers, published or suppressed.

    Attributes
    ----------
    customers
        Number of customers, P.
    largest_share
        Share of the largest customer in the consumption of the cell.
    reason
        Why the cell is suppressed; empty if it is published.
    exposed
        Customers whose cell is published with and without them: the difference is their load.
    """

    name: str
    customers: int
    consumption_kw: float
    largest_share: float
    reason: str
    exposed: int

    @property
    def published(self) -> bool:
        """Whether the rule permits publication."""
        return not self.reason


@dataclass(frozen=True, kw_only=True, eq=False)
class RuledCells:
    """All cells under one rule.

    Attributes
    ----------
    cell_of : (P,)
        Cell of each customer; `NO_CELL` for a customer in none.
    exposed : (P,)
        Whether differencing recovers the customer.
    """

    rule: Rule
    cells: tuple[RuleCell, ...]
    cell_of: Ints
    exposed: NDArray[np.bool_]

    @property
    def rates(self) -> dict[str, float]:
        """Suppressed shares of cells, customers and consumption; share of exposed customers."""
        counts = np.array([cell.customers for cell in self.cells])
        load = np.array([cell.consumption_kw for cell in self.cells])
        hidden = np.array([not cell.published for cell in self.cells])
        return {
            "cells suppressed": float(hidden.mean()),
            "customers suppressed": float(counts[hidden].sum() / counts.sum()),
            "consumption suppressed": float(load[hidden].sum() / max(load.sum(), 1e-12)),
            "customers recovered": float(self.exposed.sum() / counts.sum()),
        }


def cell_names(profiles: Profiles, by: Sequence[str]) -> list[str | None]:
    """Return the cell of each customer by attribute values; None where one is missing."""
    for name in by:
        if name not in profiles.attributes:
            rule = f"attributes of the profiles, each {one_of(sorted(profiles.attributes))}"
            raise InvalidParameterError("by", rule, name)
    columns = [profiles.attributes[name] for name in by]
    joined = []
    for values in zip(*columns, strict=True):
        known = [value for value in values if value is not None]
        joined.append(" / ".join(known) if len(known) == len(values) else None)
    return joined


def apply_rule(load_kw: Floats, names: Sequence[str | None], rule: Rule) -> RuledCells:
    """Apply the rule to every cell, with all of its customers and without each of them.

    Parameters
    ----------
    load_kw : (P, d)
        Load of the customers.
    names
        Cell of each customer, or None.
    rule
        The N/X rule.
    """
    levels = sorted({name for name in names if name is not None})
    if not levels:
        raise InvalidParameterError("by", "an attribute that some customer has", "none")
    number = {name: place for place, name in enumerate(levels)}
    cell_of = np.array([NO_CELL if name is None else number[name] for name in names])
    consumption = np.maximum(load_kw, 0.0).mean(axis=1)
    exposed = np.zeros(len(load_kw), dtype=bool)
    cells = []
    for place, name in enumerate(levels):
        members = np.flatnonzero(cell_of == place)
        own = consumption[members]
        reason = rule.reason(own.size, _largest_share(own))
        if not reason:
            exposed[members] = _published_without(own, rule)
        cells.append(
            RuleCell(
                name=name,
                customers=own.size,
                consumption_kw=float(own.sum()),
                largest_share=_largest_share(own),
                reason=reason,
                exposed=int(exposed[members].sum()),
            )
        )
    return RuledCells(rule=rule, cells=tuple(cells), cell_of=cell_of, exposed=exposed)


def _largest_share(consumption: Floats) -> float:
    total = float(consumption.sum())
    return float(consumption.max()) / total if total > 0.0 else 0.0


def _published_without(consumption: Floats, rule: Rule) -> NDArray[np.bool_]:
    """Return for each customer whether the cell without it is still published."""
    if consumption.size - 1 < rule.min_customers:
        return np.zeros(consumption.size, dtype=bool)
    order = np.argsort(consumption)
    largest = np.full(consumption.size, consumption[order[-1]])
    largest[order[-1]] = consumption[order[-2]]
    rest = consumption.sum() - consumption
    within: NDArray[np.bool_] = largest * 100.0 <= rule.max_share_percent * rest
    return within
