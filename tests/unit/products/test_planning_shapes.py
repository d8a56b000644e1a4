"""Plans of load shapes and duration curves against what was realised."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated_load import simulated_homes
from wattveil.errors import InvalidParameterError
from wattveil.products.load import LoadPlan, plan_load_duration, plan_load_shapes
from wattveil.release.group_load import load_duration_curve, load_shapes

RUNS = 100
CUSTOMERS = 1500
KNOWN: dict[str, Any] = {"typical_kw": 0.54, "log_std": 0.69, "delta": 1e-6}
"""Median and spread of the simulated sizes: what a utility knows of its customers."""


@pytest.mark.untraced
@pytest.mark.usefixtures("cached_constants")
@pytest.mark.parametrize("epsilon", [1.0, pytest.param(3.0, marks=pytest.mark.long)])
def test_planned_error_is_the_realised_error(epsilon: float) -> None:
    """Within 25 % over 100 runs, for the mean shape and the duration curve of a day."""
    load_kw = simulated_homes(CUSTOMERS)
    mean, total = load_kw.mean(axis=0), -np.sort(-load_kw.sum(axis=0))
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6}
    shapes = [
        np.square(load_shapes(load_kw, **budget).mean_kw[0] - mean).mean() for _ in range(RUNS)
    ]
    curves = [
        np.square(load_duration_curve(load_kw, **budget).load_kw[0] - total).mean()
        for _ in range(RUNS)
    ]
    options: dict[str, Any] = {"customers": [CUSTOMERS], "epsilon": epsilon, **KNOWN}
    planned = plan_load_shapes(**options).error_kw[0]
    assert planned == pytest.approx(math.sqrt(np.mean(shapes)), rel=0.25)
    planned = plan_load_duration(**options).error_kw[0]
    assert planned == pytest.approx(math.sqrt(np.mean(curves)), rel=0.25)


@pytest.mark.long
@pytest.mark.untraced
@pytest.mark.usefixtures("cached_constants")
def test_planned_error_of_three_groups() -> None:
    """Within 25 %, as a mean over groups, for the shapes of three groups of the same homes."""
    load_kw = simulated_homes(CUSTOMERS)
    groups = [i % 3 for i in range(CUSTOMERS)]
    truth = np.array([load_kw[i::3].mean(axis=0) for i in range(3)])
    squares = [
        np.square(
            load_shapes(load_kw, groups=groups, levels=range(3), epsilon=1.0, delta=1e-6).mean_kw
            - truth
        ).mean()
        for _ in range(RUNS // 2)
    ]
    planned = plan_load_shapes(customers=[CUSTOMERS // 3] * 3, epsilon=1.0, **KNOWN).error_kw
    assert planned.mean() == pytest.approx(math.sqrt(np.mean(squares)), rel=0.25)


def test_plan_follows_its_public_estimates() -> None:
    """More customers and more budget help; more groups and a wider clip cost."""

    def error(**changes: object) -> float:
        options: dict[str, Any] = {"customers": [1000], "epsilon": 1.0, **KNOWN, **changes}
        return float(plan_load_shapes(**options).error_kw[0])

    assert error(customers=[4000]) < 0.5 * error()
    assert error(epsilon=3.0) < 0.6 * error()
    assert error(customers=[200] * 5) > error()
    assert error(clip_kw=20.0) > 2.0 * error()


@pytest.mark.parametrize(
    ("plan", "customers"), [(plan_load_shapes, [66, 67, 67]), (plan_load_duration, [200])]
)
def test_planned_error_does_not_rise_with_epsilon(
    plan: Callable[..., LoadPlan], customers: list[int]
) -> None:
    """At a small epsilon a lower clipping level removes noise; the plan must not promise less."""
    options: dict[str, Any] = {"delta": 1e-6, "typical_kw": 0.5, "max_clip_kw": 10.0}
    epsilons = [0.05, 0.095, 0.15, 0.212, 0.3, 0.31, 0.5, 1.0, 9.0]
    errors = np.array(
        [plan(customers=customers, epsilon=at, **options).error_kw for at in epsilons]
    )
    assert (errors[1:] <= errors[:-1] * (1.0 + 1e-12)).all()
    assert (errors[-1] < 0.5 * errors[0]).all()


@settings(max_examples=8, deadline=None)
@given(st.floats(0.02, 20.0), st.floats(1.0, 3.0), st.integers(10, 3000), st.floats(0.1, 2.0))
def test_more_budget_never_plans_more_error(
    epsilon: float, more: float, customers: int, typical_kw: float
) -> None:
    """For any two epsilons, numbers of customers and sizes."""
    options: dict[str, Any] = {"customers": [customers], "delta": 1e-6, "typical_kw": typical_kw}
    less, better = (plan_load_shapes(epsilon=e, **options) for e in (epsilon, epsilon * more))
    assert better.error_kw[0] <= less.error_kw[0] * (1.0 + 1e-12)


def test_plan_of_a_year() -> None:
    """8,760 hours by group, from public numbers, without a row of data."""
    plan = plan_load_duration(
        customers=[2000, 500], epsilon=1.0, n_slots=8760, clip_kw=2.0, **KNOWN
    )
    assert plan.error_kw.shape == (2,)
    assert (plan.error_kw > 0.0).all()
    assert plan.clip_kw.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("customers", []),
        ("customers", [0]),
        ("epsilon", 0.0),
        ("delta", 1.0),
        ("clip_kw", -1.0),
        ("clip_kw", 41.0),
        ("n_slots", 0),
        ("typical_kw", 0.0),
        ("plausible_kw", (3.0, 4.0)),
    ],
)
def test_bad_arguments_are_named(field: str, bad: object) -> None:
    """Field, rule and value."""
    options: dict[str, Any] = {"customers": [10], "epsilon": 1.0, **KNOWN, field: bad}
    with pytest.raises(InvalidParameterError, match=f"{field}.* must be"):
        plan_load_shapes(**options)
    with pytest.raises(InvalidParameterError, match=f"{field}.* must be"):
        plan_load_duration(**options)
