"""The N/X rule: publish an aggregate of at least N customers of which none has more than X %.

PRIVATE: cells, shares and means are exact. A customer's share is that of its consumption,
``e_i = mean_t max(x_i,t, 0)``, in the consumption of its cell::

    published  <=>  P >= N  and  max_i e_i / sum_i e_i <= X / 100

>>> Rule.parse("15/15")
Rule(least_customers=15, largest_percent=15.0)
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.profiles import Profiles

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOWHERE = -1


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An N/X rule."""

    least_customers: int
    largest_percent: float

    def __post_init__(self) -> None:
        """Check the limits."""
        checks.integer("rule N", self.least_customers, least=2)
        if not 0.0 < checks.finite("rule X", self.largest_percent) <= 100.0:  # noqa: PLR2004
            raise InvalidParameterError("rule X", "above 0 and at most 100", self.largest_percent)

    def __str__(self) -> str:
        """Return the rule as it is written."""
        return f"{self.least_customers}/{self.largest_percent:g}"

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Read ``"N/X"``: 15/15, 100/15, 6/40, 4/50 or a rule of your own."""
        found = re.fullmatch(r"([0-9]+)/([0-9]+(?:\.[0-9]+)?)", text)
        if found is None:
            raise InvalidParameterError("rule", "N/X, such as 15/15", text)
        return cls(least_customers=int(found[1]), largest_percent=float(found[2]))

    def reason(self, customers: int, share: float) -> str:
        """Say why a cell is not published; empty if it is."""
        if customers < self.least_customers:
            return f"fewer than {self.least_customers} customers"
        if share * 100.0 > self.largest_percent:
            return f"one customer above {self.largest_percent:g} %"
        return ""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A group of customers that may be published.

    Attributes
    ----------
    customers : int
        P.
    largest_share : float
        Of the largest customer in the cell's consumption.
    reason : str
        Why it is not published; empty if it is.
    exposed : int
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
        """Whether the rule lets it out."""
        return not self.reason


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cells of customers under a rule.

    Attributes
    ----------
    cell_of : (P,)
        Cell of each customer, or `NOWHERE`.
    exposed : (P,)
        Whether differencing recovers the customer.
    """

    rule: Rule
    cells: tuple[Cell, ...]
    cell_of: Ints
    exposed: NDArray[np.bool_]

    @property
    def rates(self) -> dict[str, float]:
        """Shares of cells, customers and consumption that are suppressed, and of the exposed."""
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
    """Return the cell of each customer: the values of the attributes; None where one is unknown."""
    for name in by:
        if name not in profiles.attributes:
            rule = f"attributes of the profiles, some of {sorted(profiles.attributes)}"
            raise InvalidParameterError("by", rule, name)
    columns = [profiles.attributes[name] for name in by]
    joined = []
    for values in zip(*columns, strict=True):
        known = [value for value in values if value is not None]
        joined.append(" / ".join(known) if len(known) == len(values) else None)
    return joined


def apply_rule(load_kw: Floats, names: Sequence[str | None], rule: Rule) -> Cells:
    """Judge every cell, with all its customers and without each of them."""
    levels = sorted({name for name in names if name is not None})
    if not levels:
        raise InvalidParameterError("by", "an attribute that some customer has", "none has")
    number = {name: place for place, name in enumerate(levels)}
    cell_of = np.array([NOWHERE if name is None else number[name] for name in names])
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
            Cell(
                name=name,
                customers=own.size,
                consumption_kw=float(own.sum()),
                largest_share=_largest_share(own),
                reason=reason,
                exposed=int(exposed[members].sum()),
            )
        )
    return Cells(rule=rule, cells=tuple(cells), cell_of=cell_of, exposed=exposed)


def _largest_share(consumption: Floats) -> float:
    total = float(consumption.sum())
    return float(consumption.max()) / total if total > 0.0 else 0.0


def _published_without(consumption: Floats, rule: Rule) -> NDArray[np.bool_]:
    """Return for each customer whether the cell without it is still published."""
    if consumption.size - 1 < rule.least_customers:
        return np.zeros(consumption.size, dtype=bool)
    order = np.argsort(consumption)
    largest = np.full(consumption.size, consumption[order[-1]])
    largest[order[-1]] = consumption[order[-2]]
    rest = consumption.sum() - consumption
    within: NDArray[np.bool_] = largest * 100.0 <= rule.largest_percent * rest
    return within
