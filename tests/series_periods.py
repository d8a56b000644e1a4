"""A series of sums on given features, and an independent computation of what a customer adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from tests.single_queries import given_features
from wattveil.arrays import Floats, Ints, Texts
from wattveil.engines.local import LocalRows, value_column
from wattveil.engines.series_rows import NamedPeriodRows, PeriodState
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms.contributions import UNIT
from wattveil.privacy.mechanisms.gaussian import NoisyTotals
from wattveil.privacy.mechanisms.period_sums import CustomerState, PeriodQuery, release_period
from wattveil.privacy.private_data import Released
from wattveil.privacy.pseudonyms import customer_names
from wattveil.release.rows.series_features import customers_within, named_customers

KEY = bytes(range(32))

Present = Mapping[str, tuple[int, Sequence[float]]]
"""Cell and features of each customer with a row in a period."""


def even_allowances(periods: int) -> tuple[int, ...]:
    """Return allowances that grow by the same amount, up to rounding."""
    return tuple(UNIT**2 * (t + 1) // periods for t in range(periods))


def remembering(periods: int, *, memory: float = 0.8) -> Floats:
    """Return L = B^-1 for innovations u_t - memory u_(t-1), in lengths that fit an allowance."""
    matrix = np.eye(periods) - memory * np.eye(periods, k=-1)
    return np.asarray(np.linalg.inv(matrix) * np.sqrt(periods))


@dataclass(kw_only=True)
class Series:
    """The mechanism over periods, in memory: what is released, and the private state."""

    budget: Budget
    allowances: tuple[int, ...]
    feedback: Floats
    n_cells: int = 1
    n_features: int = 2
    rho_units: int | None = None
    tag: str = "sums"
    state: MemoryState = field(default_factory=lambda: MemoryState(names_key=KEY))
    released: list[int] = field(default_factory=list)

    def add(self, period: int, present: Present) -> Released[NoisyTotals]:
        """Release one period and keep the new state."""
        features = np.array([own for _, own in present.values()], dtype=np.float64)
        cells = np.array([cell for cell, _ in present.values()], dtype=np.int64)
        rows = LocalRows(features.reshape(len(present), self.n_features), cells)
        return self.add_rows(period, rows, LocalRows(value_column(present)))

    def add_rows(
        self, period: int, rows: LocalRows[Floats, Ints], ids: LocalRows[Texts]
    ) -> Released[NoisyTotals]:
        """Release one period of given rows and keep the new state."""
        query = self.query(period)
        beside = period_rows(rows, ids, self.state)
        found = release_period(beside, given_features.bind(), query, self.budget)
        self.released.append(period)
        return found

    @property
    def blocks(self) -> list[CustomerState]:
        """The private state."""
        return self.state._blocks.get(self.tag, [])

    @blocks.setter
    def blocks(self, blocks: list[CustomerState]) -> None:
        self.state._blocks[self.tag] = blocks

    def again(self) -> "Series":
        """Return the same series before its first period."""
        state = MemoryState(names_key=KEY)
        return replace(self, budget=Budget(self.budget.guarantee), state=state, released=[])

    def query(self, period: int) -> PeriodQuery:
        """Return the query of a period."""
        units = self.budget.rho_units if self.rho_units is None else self.rho_units
        return PeriodQuery(
            tag=self.tag,
            rho_units=units,
            allowances=self.allowances,
            period=period,
            feedback=self.feedback[period, [*self.released, period]],
            n_cells=self.n_cells,
            n_features=self.n_features,
        )

    def used(self, customer: str) -> int:
        """Return the odometer of a customer; 0 without one."""
        (name,) = customer_names([customer], key=KEY)
        found = [int(own.used[own.names == name][0]) for own in self.blocks if name in own.names]
        return found[0] if found else 0

    def given(self, customer: str) -> dict[int, Ints]:
        """Return the contributions of a customer by cell: (periods, features)."""
        (name,) = customer_names([customer], key=KEY)
        return {
            int(own.cells[record]): own.history[record].astype(np.int64)
            for own in self.blocks
            for record in np.flatnonzero(own.names[own.owners] == name)
        }


def period_rows(
    rows: LocalRows[Floats, Ints], ids: LocalRows[Texts], state: PeriodState
) -> NamedPeriodRows:
    """Return rows of a period beside the state, as a release makes them."""
    named: Any = named_customers.bind(key=state.names_key, erased=np.zeros(0, dtype="S32"))
    columns = rows.beside(ids, field="customer_ids").select(named)
    return NamedPeriodRows(columns, state, customers_within.bind)


def expected_steps(
    wanted: Sequence[Fraction], *, allowance: int, used: int
) -> tuple[list[Fraction], int]:
    """Return the clipped contribution in exact arithmetic, up to a step, and the room."""
    room = allowance - used
    squares = sum((value * UNIT) ** 2 for value in wanted)
    if squares <= room:
        return [value * UNIT for value in wanted], room
    length = Fraction(isqrt(int(squares * 2**60)), 2**30)
    limit = Fraction(isqrt(room * 2**60), 2**30)
    return [value * UNIT * limit / length for value in wanted], room
