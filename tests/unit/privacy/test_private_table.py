"""Private tables: rows under a budget, from which nothing is released without a charge."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import given_cells, given_features, public_names
from wattveil.arrays import Ints
from wattveil.engines.local import LocalRows
from wattveil.errors import BudgetExceededError, SimulatedNoiseError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import row_function
from wattveil.privacy.transcript import record

Ample = Callable[..., Budget]
RHO = 10**16
COUNT = Query(tag="count", rho_units=RHO, n_cells=3)


@row_function
def shifted(cells: Ints, *, by: int) -> tuple[Ints]:
    """Return the cells, shifted."""
    return (cells + by,)


@row_function
def above(cells: Ints, *, limit: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Keep the customers above a limit."""
    return cells, cells > limit


def exact_counts(table: PrivateTable[Ints]) -> list[int]:
    """Return the exact counts behind a release."""
    transcript = record(lambda: table.release(given_cells.bind(), COUNT))
    return [int(k) // 2**25 for k in transcript.draws[0].exact]


def test_released_numbers_come_with_their_noise(ample: Ample) -> None:
    """For each query the noisy numbers and their standard deviation, charged to the budget."""
    budget = ample()
    rows = LocalRows(np.array([[0.5, 0.25], [3e9, 0.0]]), np.array([0, 1]))
    query = Query(tag="sum", rho_units=RHO, n_cells=2, n_features=2)
    ((value, std),) = PrivateTable(rows, budget).release(given_features.bind(), query)
    assert value.shape == (2, 2)
    assert std == pytest.approx(1.0 / math.sqrt(0.02), rel=1e-12)
    assert (np.abs(value - [[0.5, 0.25], [1.0, 0.0]]) < 9.0 * std).all()
    assert [(spend.tag, spend.rho_units) for spend in budget.spends] == [("sum", RHO)]


@row_function
def twice(cells: Ints) -> tuple[Ints, Ints]:
    """Return the cells for two queries."""
    return cells, cells


def test_queries_of_one_call_are_released_in_order(ample: Ample) -> None:
    """Each at its own price."""
    budget = ample()
    other = Query(tag="other", rho_units=4 * RHO, n_cells=3)
    table = PrivateTable(LocalRows(np.array([0, 2])), budget)
    (_, std), (_, smaller) = table.release(twice.bind(), COUNT, other)
    assert std == pytest.approx(2.0 * smaller, rel=1e-15)
    assert [spend.tag for spend in budget.spends] == ["count", "other"]


def test_tables_are_mapped_and_selected_under_the_same_budget(ample: Ample) -> None:
    """No charge for it; what is released of the result is charged to the first budget."""
    budget = ample()
    table = PrivateTable(LocalRows(np.array([0, 1, 2, 2])), budget)
    mapped = table.map(shifted.bind(by=-1))
    kept = mapped.select(above.bind(limit=0))
    assert budget.spends == ()
    assert exact_counts(table) == [1, 1, 2]
    assert exact_counts(mapped) == [1, 2, 0]
    assert exact_counts(kept) == [0, 2, 0]
    assert len(budget.spends) == 3


def test_a_refused_charge_releases_nothing(ample: Ample) -> None:
    """The budget of the table limits what is released of it."""
    budget = ample()
    table = PrivateTable(LocalRows(np.array([99])), budget)
    dear = Query(tag="dear", rho_units=budget.rho_units + 1, n_cells=3)
    with pytest.raises(BudgetExceededError):
        table.release(given_cells.bind(), dear)
    assert budget.spends == ()


def test_simulated_noise_releases_nothing(ample: Ample, silent: NoiseSource) -> None:
    """A table publishes, so noise of a test's own source is refused."""
    table = PrivateTable(LocalRows(np.array([0])), ample())
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError, match="simulated noise"):
        table.release(given_cells.bind(), COUNT)


def test_plain_functions_are_refused(ample: Ample) -> None:
    """By every method that takes a function."""
    table: Any = PrivateTable(LocalRows(np.array([0])), ample())
    for method, queries in ((table.map, []), (table.select, []), (table.release, [COUNT])):
        with pytest.raises(TypeError, match="accepts a BoundRowFunction only"):
            method(lambda cells: (cells,), *queries)


def test_a_table_is_a_private_value(ample: Ample) -> None:
    """It shows nothing, has no truth value, and cannot be compared, hashed, pickled or copied."""
    table = PrivateTable(LocalRows(np.ones((4, 7))), ample())
    assert repr(table) == "PrivateTable(…)"
    assert table.width == 7
    for refused in (bool, hash, copy.copy, copy.deepcopy, pickle.dumps, vars):
        with pytest.raises(TypeError):
            refused(table)
    with pytest.raises(TypeError, match="cannot be compared"):
        _ = table == table  # noqa: PLR0124 - also with itself
    assert public_names(table) == {"map", "release", "select", "width"}
