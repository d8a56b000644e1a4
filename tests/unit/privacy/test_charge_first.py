"""Every mechanism charges before it reads the data, and records the requested spend."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import (
    customer_ids,
    gaussian_histogram,
    given_cells,
    respond_to_labels,
    sum_of,
)
from wattveil.engines.local import LocalRows, listed_rows
from wattveil.errors import BudgetExceededError, InvalidDataError, WattveilError
from wattveil.privacy.guarantee import Budget, Guarantee, Spend, Tier
from wattveil.privacy.mechanisms import gaussian_answer as answer_module
from wattveil.privacy.mechanisms import modulo
from wattveil.privacy.mechanisms.contributions import NO_DATA, BlockSums, Query
from wattveil.privacy.mechanisms.gaussian import PrivateTable, release_sums
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid, gaussian_answer
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.response import respond, response_channel
from wattveil.privacy.opening import reveal
from wattveil.privacy.private_data import Released, Secret, row_function

RHO = 10**15


@dataclass(frozen=True)
class Case:
    """A mechanism, good data, bad data, and what it is to spend."""

    name: str
    run: Callable[[Any, Budget], object]
    good: object
    bad: object
    rho_units: int = 0
    response_epsilon: float = 0.0
    response_delta: float = 0.0


BAD_CELLS = np.array([0, 1, 99])

CASES = [
    Case(
        name="gaussian_cell_sums",
        run=lambda data, budget: sum_of(
            np.ones((3, 2)), cells=data, n_cells=3, rho_units=RHO, budget=budget, tag="the tag"
        ),
        good=np.array([0, 1, 2]),
        bad=BAD_CELLS,
        rho_units=RHO,
    ),
    Case(
        name="gaussian_histogram",
        run=lambda data, budget: gaussian_histogram(
            data, n_cells=3, rho_units=RHO, budget=budget, tag="the tag"
        ),
        good=np.array([0, 1, 2]),
        bad=BAD_CELLS,
        rho_units=RHO,
    ),
    Case(
        name="gaussian_answer",
        run=lambda data, budget: gaussian_answer(
            Secret(data),
            differences=Ellipsoid(shape=np.eye(2)),
            rho_units=RHO,
            budget=budget,
            tag="the tag",
        ),
        good=np.ones(2),
        bad=np.array([1.0, math.inf]),
        rho_units=RHO,
    ),
    Case(
        name="channel_response",
        run=lambda data, budget: respond_to_labels(
            data, n_labels=3, epsilon=0.25, budget=budget, tag="the tag"
        ),
        good=np.array([0, 1, 2]),
        bad=BAD_CELLS,
        response_epsilon=0.25,
    ),
    Case(
        name="modulo_labels",
        run=lambda data, budget: modulo_labels(
            Secret(data),
            unstable=Secret(np.array([0])),
            changed=1,
            n_labels=3,
            epsilon=0.25,
            delta=1e-3,
            budget=budget,
            tag="the tag",
        ),
        good=np.array([0, 1, 2]),
        bad=BAD_CELLS,
        response_epsilon=0.25,
        response_delta=1e-3,
    ),
]
NUMBERS = range(len(CASES))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_refused_charge_reveals_nothing(
    make_guarantee: Callable[..., Guarantee], number: int
) -> None:
    """With too small a budget the error is the budget's, although the data are broken too."""
    budget = Budget(make_guarantee(epsilon=1e-4, delta=1e-12, tier=Tier.INSTANCE))
    with pytest.raises(BudgetExceededError):
        CASES[number].run(CASES[number].bad, budget)
    assert budget.spends == ()


@pytest.mark.parametrize("number", NUMBERS)
def test_broken_data_after_the_charge_cost_the_charge(
    ample: Callable[..., Budget], number: int
) -> None:
    """Whether the data were broken is private: the charge stays."""
    budget = ample(tier=Tier.INSTANCE)
    with pytest.raises(InvalidDataError) as caught:
        CASES[number].run(CASES[number].bad, budget)
    assert isinstance(caught.value, WattveilError)
    assert len(budget.spends) == 1


@pytest.mark.parametrize("number", NUMBERS)
def test_the_record_is_the_requested_spend(ample: Callable[..., Budget], number: int) -> None:
    """The charge of a mechanism is exactly the requested spend."""
    case, budget = CASES[number], ample(tier=Tier.INSTANCE)
    released = case.run(case.good, budget)
    spends: tuple[Spend, ...] = budget.spends
    if isinstance(released, Released):
        assert released.spends == spends
    (spend,) = spends
    assert spend.rho_units == case.rho_units
    assert spend.response_epsilon <= case.response_epsilon  # a channel may cost an ulp less
    assert spend.response_epsilon == pytest.approx(case.response_epsilon, rel=1e-15)
    assert spend.response_delta == case.response_delta
    assert (spend.tag, spend.mechanism) == ("the tag", case.name)
    assert (spend.eta > 0.0) == (spend.rho_units > 0)


# --- the order of charges and reads ---------------------------------------------------------------


LOG: list[str] = []
"""A row function cannot write to its parameters; here it writes to a name of its module."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a log to which every charge is written before the budget decides on it."""
    charge = Budget.charge
    LOG.clear()

    def logged(budget: Budget, spend: Spend) -> Spend:
        LOG.append(f"charge {spend.tag}")
        return charge(budget, spend)

    monkeypatch.setattr(Budget, "charge", logged)
    return LOG


def instance_budget(make_guarantee: Callable[..., Guarantee], **response: float) -> Budget:
    """Return a budget of the instance tier."""
    return Budget(make_guarantee(epsilon=20.0, delta=0.02, tier=Tier.INSTANCE), **response)


@row_function
def logged_map(values: NDArray[np.int64]) -> tuple[NDArray[np.int64]]:
    """Return the values; log that rows were read. An empty block holds no row."""
    LOG.extend(["map"] if len(values) else [])
    return (values,)


@row_function
def logged_select(
    values: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Keep all customers; log that rows were read."""
    LOG.extend(["select"] if len(values) else [])
    return values, np.ones(len(values), dtype=np.bool_)


@row_function
def logged_cells(values: NDArray[np.int64], *, n_queries: int) -> tuple[NDArray[np.int64], ...]:
    """Return the values as the cells of each query; log that rows were read."""
    LOG.extend(["cells"] if len(values) else [])
    return (values,) * n_queries


def queries(*rho_units: int) -> list[Query]:
    """Return counts at these prices."""
    return [Query(tag=f"{i}", rho_units=rho, n_cells=3) for i, rho in enumerate(rho_units)]


def test_all_queries_are_charged_before_any_row_is_read(
    make_guarantee: Callable[..., Guarantee], log: list[str]
) -> None:
    """Also of rows that were mapped and selected earlier, whose functions run only now, once."""
    budget = instance_budget(make_guarantee)
    rows = LocalRows(np.array([0, 1, 2])).map(logged_map.bind())
    kept = rows.select(logged_select.bind())
    assert log == []
    work = logged_cells.bind(n_queries=3)
    release_sums(kept, work, queries(RHO, RHO, RHO), budget)
    assert log == ["charge 0", "charge 1", "charge 2", "map", "select", "cells"]
    release_sums(kept, work, queries(RHO, RHO, RHO), budget)
    assert log[6:] == ["charge 0", "charge 1", "charge 2", "cells"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_row_is_read_when_a_charge_is_refused(
    make_guarantee: Callable[..., Guarantee], log: list[str], place: int
) -> None:
    """Whichever of the queries exceeds the budget; earlier charges stay."""
    budget = instance_budget(make_guarantee)
    prices = [RHO] * 3
    prices[place] = budget.rho_units + 1
    rows = LocalRows(np.array([0, 1, 99])).map(logged_map.bind())
    kept = rows.select(logged_select.bind())
    with pytest.raises(BudgetExceededError):
        release_sums(kept, logged_cells.bind(n_queries=3), queries(*prices), budget)
    assert log == [f"charge {i}" for i in range(place + 1)]
    assert [spend.rho_units for spend in budget.spends] == [RHO] * place


@pytest.mark.parametrize("computes_once", [True, False])
@pytest.mark.parametrize("affordable", [True, False])
def test_labels_are_charged_before_any_row_is_read(
    make_guarantee: Callable[..., Guarantee],
    monkeypatch: pytest.MonkeyPatch,
    log: list[str],
    computes_once: bool,  # noqa: FBT001 - a parameter of the test
    affordable: bool,  # noqa: FBT001 - same
) -> None:
    """Ids and labels of lazily mapped rows, drawn by words or by keys."""
    monkeypatch.setattr(LocalRows, "computes_once", computes_once)
    budget = instance_budget(make_guarantee, response_epsilon=1.0 if affordable else 0.5)
    channel = response_channel(n_labels=3, epsilon=1.0, neighbours=budget.guarantee.neighbours)
    rows = LocalRows(np.array([0, 1, 2])).map(logged_map.bind())
    ids = LocalRows(customer_ids(3))
    work = logged_cells.bind(n_queries=1)
    options = {"channel": channel, "budget": budget, "tag": "labels", "real_ids": True}
    if affordable:
        respond(rows, ids, work, **options)  # type: ignore[arg-type]
        assert log == ["charge labels", "map", "cells"]
    else:
        with pytest.raises(BudgetExceededError):
            respond(rows, ids, work, **options)  # type: ignore[arg-type]
        assert log == ["charge labels"]


@pytest.mark.parametrize("name", ["gaussian_answer", "modulo_labels"])
def test_secrets_are_opened_after_the_charge(
    make_guarantee: Callable[..., Guarantee],
    monkeypatch: pytest.MonkeyPatch,
    log: list[str],
    name: str,
) -> None:
    """A mechanism of the instance tier opens its secrets after the charge."""

    def logged(secret: Secret[Any]) -> object:
        log.append("reveal")
        return reveal(secret)

    for module in (answer_module, modulo):
        monkeypatch.setattr(module, "reveal", logged)
    (case,) = [case for case in CASES if case.name == name]
    case.run(case.good, instance_budget(make_guarantee, response_epsilon=0.25, response_delta=1e-3))
    assert log[:2] == ["charge the tag", "reveal"]
    assert log.count("charge the tag") == 1


def test_a_public_list_is_looked_up_after_the_charge(
    make_guarantee: Callable[..., Guarantee], log: list[str]
) -> None:
    """Who of the list has a row is private: neither ids nor rows are read before the charge."""

    class WatchedIds(tuple[str, ...]):
        """Private ids that log when they are read."""

        __slots__ = ()

        def __iter__(self) -> Iterator[str]:
            log.append("ids")
            return super().__iter__()

    listed = ("a", "b", "c")
    rows: Any = listed_rows(np.zeros((2, 1)), WatchedIds(["c", "a"]), customer_list=listed)
    budget = instance_budget(make_guarantee, response_epsilon=1.0)
    channel = response_channel(n_labels=3, epsilon=1.0, neighbours=budget.guarantee.neighbours)
    ids = LocalRows(np.array(listed, dtype=np.object_))
    mapped = rows.map(first_cell.bind())
    options: dict[str, Any] = {"channel": channel, "budget": budget, "real_ids": True}
    respond(mapped, ids, given_cells.bind(), tag="labels", **options)
    assert log == ["charge labels", "ids"]


@row_function
def first_cell(load_kw: NDArray[np.float64]) -> tuple[NDArray[np.int64]]:
    """Return the first number of each row as a cell, `NO_DATA` without data."""
    return (np.nan_to_num(load_kw[:, 0], nan=NO_DATA).astype(np.int64),)


# --- what is charged, and what is read ------------------------------------------------------------


class FreeBudget:
    """Has what a mechanism uses of a budget, and charges nothing."""

    def __init__(self, guarantee: Guarantee) -> None:
        self.guarantee = guarantee

    def charge(self, spend: Spend) -> Spend:
        """Return the charge."""
        return spend


class FreeSubclass(Budget):  # type: ignore[misc]  # final, and wrong on purpose
    """A budget that charges nothing."""

    def charge(self, spend: Spend) -> Spend:
        """Return the charge."""
        return spend


@pytest.mark.parametrize("kind", [FreeBudget, FreeSubclass])
@pytest.mark.parametrize("number", NUMBERS)
def test_only_a_budget_is_charged(
    make_guarantee: Callable[..., Guarantee], number: int, kind: Callable[[Guarantee], Any]
) -> None:
    """An object with the methods of a budget, or a subclass, might charge nothing."""
    free = kind(make_guarantee(epsilon=20.0, delta=0.02, tier=Tier.INSTANCE))
    with pytest.raises(TypeError, match=r"^the kernel accepts a Budget only$"):
        CASES[number].run(CASES[number].bad, free)
    with pytest.raises(TypeError, match=r"^the kernel accepts a Budget only$"):
        PrivateTable(LocalRows(np.zeros(3)), free)


class NoRows:
    """Has the methods of rows that a mechanism uses, and no engine."""

    computes_once = True

    def add_up(self, work: BlockSums) -> object:
        """Return the totals of rows three times."""
        return work.total([work(np.array([0])) for _ in range(3)])

    def beside(self, other: object, *, field: str) -> object:
        """Return the other rows."""
        assert field
        return other


def test_only_rows_are_read(ample: Callable[..., Budget]) -> None:
    """By mechanisms and by tables; nothing is released."""
    budget, rows = ample(), NoRows()
    listed: Any = LocalRows(customer_ids(1))
    channel = response_channel(n_labels=3, epsilon=1.0, neighbours=budget.guarantee.neighbours)
    options: dict[str, Any] = {"channel": channel, "budget": budget, "real_ids": True, "tag": "t"}
    runs: list[Callable[[], object]] = [
        lambda: release_sums(rows, given_cells.bind(), queries(RHO), budget),  # type: ignore[arg-type]
        lambda: PrivateTable(rows, budget),  # type: ignore[arg-type]
        lambda: respond(rows, listed, given_cells.bind(), **options),  # type: ignore[arg-type]
        lambda: respond(listed, rows, given_cells.bind(), **options),  # type: ignore[arg-type]
    ]
    for run in runs:
        with pytest.raises(TypeError, match=r"^a mechanism reads the rows of an engine only$"):
            run()
