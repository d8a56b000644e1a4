"""Monotonicity of the accounting and of the grant, for any numbers in the stated range."""

import math
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from wattveil import calibration
from wattveil.errors import BudgetExceededError
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Spend, Tier, Unit

logarithmic = st.floats(-6.0, 3.0).map(lambda x: 10.0**x)
epsilons = logarithmic
deltas = st.floats(-300.0, math.log10(0.5)).map(lambda x: 10.0**x)
scales = st.floats(-4.0, 1.5).map(lambda x: 10.0**x)


def budget(epsilon: float, delta: float, response: float = 0.0) -> Budget:
    """Return a global budget for zero-out of a customer."""
    guarantee = Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
    return Budget(guarantee, response_epsilon=response)


@settings(deadline=None, max_examples=40)
@given(epsilons, deltas, st.floats(1.0, 10.0))
def test_scale_grows_with_epsilon_and_delta(epsilon: float, delta: float, factor: float) -> None:
    """A larger epsilon or delta allows at least the same s, exact and probabilistic."""
    for calibrate in (calibration.gaussian_s, calibration.probabilistic_s):
        s = calibrate(epsilon=epsilon, delta=delta)
        assert calibrate(epsilon=epsilon * factor, delta=delta) >= s
        assert calibrate(epsilon=epsilon, delta=min(delta * factor, 0.5)) >= s


@settings(deadline=None, max_examples=60)
@given(epsilons, deltas)
def test_inverse_of_inverse(epsilon: float, delta: float) -> None:
    """From epsilon to s and back: it comes back at or just below, and keeps delta on the way."""
    s = calibration.gaussian_s(epsilon=epsilon, delta=delta)
    assert calibration.gaussian_delta(epsilon=epsilon, s=s) <= delta
    assert calibration.gaussian_delta(epsilon=epsilon, s=math.nextafter(s, math.inf)) > delta
    back = calibration.gaussian_epsilon(s=s, delta=delta)
    assert back <= epsilon
    assert calibration.gaussian_delta(epsilon=back, s=s) <= delta


@settings(deadline=None, max_examples=200)
@given(epsilons | st.just(0.0), scales, st.floats(1.0, 5.0))
def test_delta_falls_with_epsilon_and_grows_with_s(epsilon: float, s: float, factor: float) -> None:
    """The exact delta is monotone in both, and never above the probabilistic one."""
    delta = calibration.gaussian_delta(epsilon=epsilon, s=s)
    assert calibration.gaussian_delta(epsilon=epsilon * factor, s=s) <= delta
    assert calibration.gaussian_delta(epsilon=epsilon, s=s * factor) >= delta
    assert delta <= calibration.probabilistic_delta(epsilon=epsilon, s=s)


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 1e100), max_size=6))
def test_composed_scale_is_never_below_its_parts(parts: list[float]) -> None:
    """sqrt(sum s^2) rounded up: at least the exact root, at least the largest part."""
    together = calibration.compose_s(*parts)
    assert Fraction(together) ** 2 >= sum((Fraction(s) ** 2 for s in parts), Fraction(0))
    assert together >= max(parts, default=0.0)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 10**19), min_size=1, max_size=4), st.floats(0.0, 20.0))
def test_composition_is_never_cheaper_than_its_parts(units: list[int], epsilon: float) -> None:
    """All Gaussian parts together cost at least what each costs alone."""
    whole = Composition(rho_units=sum(units), response_epsilon=0.3)
    for part in units:
        assert whole.delta(epsilon) >= Composition(rho_units=part).delta(epsilon)
        assert whole.delta(epsilon) >= replace(whole, rho_units=part).delta(epsilon)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 10**20),
    st.floats(0.0, 5.0),
    st.floats(0.0, 0.1),
    st.floats(0.0, 0.1),
    st.floats(0.0, 30.0),
)
def test_delta_of_any_composition_is_a_probability(
    rho_units: int, response: float, response_delta: float, eta: float, epsilon: float
) -> None:
    """It is within [0, 1], at least the response's own failure, and falls with epsilon."""
    together = Composition(
        rho_units=rho_units, response_epsilon=response, response_delta=response_delta, eta=eta
    )
    delta = together.delta(epsilon)
    assert response_delta <= delta <= 1.0
    assert together.delta(epsilon + 1.0) <= delta
    assert delta >= replace(together, eta=0.0).delta(epsilon)


@settings(deadline=None, max_examples=25)
@given(st.floats(0.01, 20.0), st.floats(1e-12, 0.1), st.floats(1.0, 5.0))
def test_grant_grows_with_the_guarantee(epsilon: float, delta: float, factor: float) -> None:
    """A larger epsilon or delta grants at least as many units; setting aside grants fewer."""
    units = budget(epsilon, delta).rho_units
    assert budget(epsilon * factor, delta).rho_units >= units
    assert budget(epsilon, min(delta * factor, 0.5)).rho_units >= units
    assert budget(epsilon, delta, response=epsilon / 2.0).rho_units <= units


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 2 * 10**16), max_size=12))
def test_no_sequence_of_charges_overspends(amounts: list[int]) -> None:
    """For any requests in any order, the recorded spends are within the grant."""
    grant = budget(1.0, 1e-6)
    admitted = 0
    for amount in amounts:
        spend = Spend(tag="t", mechanism="test", rho_units=amount)
        if amount <= grant.remaining_rho_units:
            grant.charge(spend)
            admitted += amount
        else:
            try:
                grant.charge(spend)
            except BudgetExceededError as error:
                assert error.requested == amount  # noqa: PT017 - the rule under test
            else:
                raise AssertionError(amount)
    assert sum(spend.rho_units for spend in grant.spends) == admitted <= grant.rho_units
    assert grant.remaining_rho_units == grant.rho_units - admitted
