"""Every mechanism charges before it reads the data, and records the requested spend."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import customer_ids, gaussian_histogram, respond_to_labels, sum_of
from wattveil.engines.local import LocalRows
from wattveil.errors import BudgetExceededError, InvalidDataError, WattveilError
from wattveil.privacy.guarantee import Budget, Guarantee, Spend, Tier
from wattveil.privacy.mechanisms import gaussian_answer as answer_module
from wattveil.privacy.mechanisms import modulo
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import release_sums
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


class WatchedBudget(Budget):
    """A budget that logs each charge before it decides on it."""

    log: list[str]

    def charge(self, spend: Spend) -> Spend:
        """Log, then charge."""
        self.log.append(f"charge {spend.tag}")
        return super().charge(spend)


def watched(make_guarantee: Callable[..., Guarantee], log: list[str], **response: float) -> Budget:
    """Return a budget of the instance tier that logs its charges."""
    whole = make_guarantee(epsilon=20.0, delta=0.02, tier=Tier.INSTANCE)
    budget = WatchedBudget(whole, **response)
    budget.log = log
    return budget


@row_function
def logged_map(values: NDArray[np.int64], *, log: list[str]) -> tuple[NDArray[np.int64]]:
    """Return the values; log that rows were read. An empty block holds no row."""
    log.extend(["map"] if len(values) else [])
    return (values,)


@row_function
def logged_select(
    values: NDArray[np.int64], *, log: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Keep all customers; log that rows were read."""
    log.extend(["select"] if len(values) else [])
    return values, np.ones(len(values), dtype=np.bool_)


@row_function
def logged_cells(
    values: NDArray[np.int64], *, log: list[str], n_queries: int
) -> tuple[NDArray[np.int64], ...]:
    """Return the values as the cells of each query; log that rows were read."""
    log.extend(["cells"] if len(values) else [])
    return (values,) * n_queries


def queries(*rho_units: int) -> list[Query]:
    """Return counts at these prices."""
    return [Query(tag=f"{i}", rho_units=rho, n_cells=3) for i, rho in enumerate(rho_units)]


def test_all_queries_are_charged_before_any_row_is_read(
    make_guarantee: Callable[..., Guarantee],
) -> None:
    """Also of rows that were mapped and selected earlier, whose functions run only now, once."""
    log: list[str] = []
    budget = watched(make_guarantee, log)
    rows = LocalRows(np.array([0, 1, 2])).map(logged_map.bind(log=log))
    kept = rows.select(logged_select.bind(log=log))
    assert log == []
    work = logged_cells.bind(log=log, n_queries=3)
    release_sums(kept, work, queries(RHO, RHO, RHO), budget)
    assert log == ["charge 0", "charge 1", "charge 2", "map", "select", "cells"]
    release_sums(kept, work, queries(RHO, RHO, RHO), budget)
    assert log[6:] == ["charge 0", "charge 1", "charge 2", "cells"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_row_is_read_when_a_charge_is_refused(
    make_guarantee: Callable[..., Guarantee], place: int
) -> None:
    """Whichever of the queries exceeds the budget; earlier charges stay."""
    log: list[str] = []
    budget = watched(make_guarantee, log)
    prices = [RHO] * 3
    prices[place] = budget.rho_units + 1
    rows = LocalRows(np.array([0, 1, 99])).map(logged_map.bind(log=log))
    kept = rows.select(logged_select.bind(log=log))
    with pytest.raises(BudgetExceededError):
        release_sums(kept, logged_cells.bind(log=log, n_queries=3), queries(*prices), budget)
    assert log == [f"charge {i}" for i in range(place + 1)]
    assert [spend.rho_units for spend in budget.spends] == [RHO] * place


@pytest.mark.parametrize("computes_once", [True, False])
@pytest.mark.parametrize("affordable", [True, False])
def test_labels_are_charged_before_any_row_is_read(
    make_guarantee: Callable[..., Guarantee],
    monkeypatch: pytest.MonkeyPatch,
    computes_once: bool,  # noqa: FBT001 - a parameter of the test
    affordable: bool,  # noqa: FBT001 - same
) -> None:
    """Ids and labels of lazily mapped rows, drawn by words or by keys."""
    monkeypatch.setattr(LocalRows, "computes_once", computes_once)
    log: list[str] = []
    budget = watched(make_guarantee, log, response_epsilon=1.0 if affordable else 0.5)
    channel = response_channel(n_labels=3, epsilon=1.0, neighbours=budget.guarantee.neighbours)
    rows = LocalRows(np.array([0, 1, 2])).map(logged_map.bind(log=log))
    ids = LocalRows(customer_ids(3))
    work = logged_cells.bind(log=log, n_queries=1)
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
    make_guarantee: Callable[..., Guarantee], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A mechanism of the instance tier opens its secrets after the charge."""
    log: list[str] = []

    def logged(secret: Secret[Any]) -> object:
        log.append("reveal")
        return reveal(secret)

    for module in (answer_module, modulo):
        monkeypatch.setattr(module, "reveal", logged)
    (case,) = [case for case in CASES if case.name == name]
    case.run(case.good, watched(make_guarantee, log, response_epsilon=0.25, response_delta=1e-3))
    assert log[:2] == ["charge the tag", "reveal"]
    assert log.count("charge the tag") == 1
