"""Every mechanism charges before it looks at the data, and records what it was asked to spend."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.counting import gaussian_histogram
from tests.responding import randomised_response
from wattveil.errors import BudgetExceededError, InvalidDataError, WattveilError
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.privacy.mechanisms.gaussian import gaussian_answer, gaussian_sum
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.moments import gaussian_second_moment
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import Ball, Ellipsoid

RHO = 10**15


@dataclass(frozen=True)
class Case:
    """A mechanism, good data, bad data, and what it is to spend."""

    name: str
    run: Callable[[object, Budget], Released[Any]]
    good: object
    bad: object
    rho_units: int = 0
    response_epsilon: float = 0.0
    response_delta: float = 0.0
    charges: int = 1


NAN_ROWS = np.array([[1.0, math.nan], [1.0, 1.0]])
BAD_CELLS = np.array([0, 1, 99])

CASES = [
    Case(
        name="gaussian_sum",
        run=lambda data, budget: gaussian_sum(
            Secret(data),  # type: ignore[arg-type]
            region=Ball(radius=1.0),
            rho_units=RHO,
            budget=budget,
            tag="the tag",
        ),
        good=np.ones((2, 2)),
        bad=NAN_ROWS,
        rho_units=RHO,
    ),
    Case(
        name="gaussian_sum",
        run=lambda data, budget: gaussian_second_moment(
            Secret(data),  # type: ignore[arg-type]
            radius=1.0,
            rho_units=RHO,
            budget=budget,
            tag="the tag",
        ),
        good=np.ones((2, 2)),
        bad=NAN_ROWS,
        rho_units=RHO,
    ),
    Case(
        name="gaussian_answer",
        run=lambda data, budget: gaussian_answer(
            Secret(data),  # type: ignore[arg-type]
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
        name="gaussian_sum",
        run=lambda data, budget: noisy_quantile(
            Secret(data),  # type: ignore[arg-type]
            quantile=0.3,
            interval=(0.0, 5.0),
            n_steps=7,
            rho_units=RHO,
            budget=budget,
            tag="the tag",
        ),
        good=np.ones(5),
        bad=np.array([1.0, math.nan]),
        rho_units=RHO,
        charges=7,
    ),
    Case(
        name="gaussian_histogram",
        run=lambda data, budget: gaussian_histogram(
            Secret(data),  # type: ignore[arg-type]
            n_cells=3,
            rho_units=RHO,
            budget=budget,
            tag="the tag",
        ),
        good=np.array([0, 1, 2]),
        bad=BAD_CELLS,
        rho_units=RHO,
    ),
    Case(
        name="channel_response",
        run=lambda data, budget: randomised_response(
            Secret(data),  # type: ignore[arg-type]
            n_labels=3,
            epsilon=0.25,
            budget=budget,
            tag="the tag",
        ),
        good=np.array([0, 1, 2]),
        bad=BAD_CELLS,
        response_epsilon=0.25,
    ),
    Case(
        name="modulo_labels",
        run=lambda data, budget: modulo_labels(
            Secret(data),  # type: ignore[arg-type]
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
def test_a_refused_charge_hides_the_data(promise: Callable[..., Guarantee], number: int) -> None:
    """With too small a budget the refusal is the budget's, although the data are broken too."""
    budget = Budget(promise(epsilon=1e-4, delta=1e-12, tier=Tier.INSTANCE))
    with pytest.raises(BudgetExceededError):
        CASES[number].run(CASES[number].bad, budget)
    assert budget.spends == ()


@pytest.mark.parametrize("number", NUMBERS)
def test_broken_data_after_the_charge_cost_the_charge(
    ample: Callable[..., Budget], number: int
) -> None:
    """Whether the data were broken is private: finding out is paid for, by the first charge."""
    budget = ample(tier=Tier.INSTANCE)
    with pytest.raises(InvalidDataError) as caught:
        CASES[number].run(CASES[number].bad, budget)
    assert isinstance(caught.value, WattveilError)
    assert caught.value.row_ids
    assert len(budget.spends) == 1


@pytest.mark.parametrize("number", NUMBERS)
def test_the_record_is_what_was_asked_for(ample: Callable[..., Budget], number: int) -> None:
    """The charges of a mechanism add up to exactly what it was told to spend."""
    case, budget = CASES[number], ample(tier=Tier.INSTANCE)
    released = case.run(case.good, budget)
    spends: tuple[Spend, ...] = budget.spends
    assert released.spends == spends
    assert len(spends) == case.charges
    assert sum(spend.rho_units for spend in spends) == case.rho_units
    spent = math.fsum(spend.response_epsilon for spend in spends)
    assert spent <= case.response_epsilon  # a channel in whole parts may cost an ulp less
    assert spent == pytest.approx(case.response_epsilon, rel=1e-15)
    assert math.fsum(spend.response_delta for spend in spends) == case.response_delta
    assert {spend.tag for spend in spends} == {"the tag"}
    assert {spend.mechanism for spend in spends} == {case.name}
    assert all((spend.eta > 0.0) == (spend.rho_units > 0) for spend in spends)
