"""Whole numbers of privacy: prices round up, caps round down, and the guarantee holds."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Tier, Unit
from wattveil.server.ledger.amounts import MAX_AMOUNT, STEPS, Allowance, Amounts

FLOATS = st.floats(min_value=0.0, max_value=100.0)
GRANTS = st.builds(
    Composition,
    rho_units=st.integers(min_value=0, max_value=10**19),
    response_epsilon=FLOATS,
    response_delta=st.floats(min_value=0.0, max_value=0.1),
    eta=FLOATS,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(GRANTS, min_size=1, max_size=5))
def test_a_price_never_undercounts(grants: list[Composition]) -> None:
    """Each measure is the exact sum of the grants, rounded up by less than a unit."""
    price = Amounts.price(grants)
    exact = {
        "rho": Fraction(sum(grant.rho_units for grant in grants), 10**18),
        "epsilon": sum(Fraction(grant.response_epsilon) for grant in grants),
        "delta": sum(Fraction(grant.response_delta) for grant in grants),
        "eta": sum(Fraction(grant.eta) for grant in grants),
    }
    for measure, step in STEPS.items():
        assert 0 <= getattr(price, measure) - exact[measure] * step < 1


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.builds(Amounts, *[st.integers(min_value=0, max_value=10**17)] * 4))
def test_the_kernel_sees_no_less(amounts: Amounts) -> None:
    """The composition of amounts is at least what they stand for."""
    seen = amounts.composition
    assert Fraction(seen.rho_units, 10**18) == Fraction(amounts.rho, STEPS["rho"])
    assert Fraction(seen.response_epsilon) >= Fraction(amounts.epsilon, STEPS["epsilon"])
    assert Fraction(seen.response_delta) >= Fraction(amounts.delta, STEPS["delta"])
    assert Fraction(seen.eta) >= Fraction(amounts.eta, STEPS["eta"])


@pytest.mark.parametrize(
    ("epsilon", "delta", "labels"),
    [(1.0, 1e-6, 0.0), (0.01, 1e-9, 0.004), (20.0, 1e-5, 7.0), (3.0, 0.01, 0.1)],
)
def test_caps_spend_the_whole_guarantee(epsilon: float, delta: float, labels: float) -> None:
    """All caps spent is within the guarantee; one unit of rho more is not."""
    caps = Allowance(epsilon=epsilon, delta=delta, label_epsilon=labels).caps
    assert caps.composition.delta(epsilon) <= delta
    more = Amounts(caps.rho + 1, caps.epsilon, caps.delta, caps.eta)
    assert more.composition.delta(epsilon) > delta


def test_caps_agree_with_the_budget_of_one_release() -> None:
    """Independently, the kernel's budget grants the same rho, but for what is kept for grids."""
    guarantee = Guarantee(
        epsilon=1.0,
        delta=1e-6,
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
    kernel = Budget(guarantee, response_epsilon=0.25).rho_units / 10**6
    ours = Allowance(epsilon=1.0, delta=1e-6, label_epsilon=0.25).caps.rho
    assert 0.995 * kernel < ours < kernel


def test_equal_labels_fit_into_what_they_add_up_to() -> None:
    """A hundred label parts of 0.02 fit into 2, though each price is rounded up."""
    caps = Allowance(epsilon=4.0, delta=1e-6, label_epsilon=2.0).caps
    assert caps.covers(Amounts.price([Composition(response_epsilon=0.02)])) == 100


def test_many_small_releases_do_not_run_out_of_eta() -> None:
    """Ten thousand equal releases of five parts: rho is used up before what grids may add."""
    caps = Allowance(epsilon=1.0, delta=1e-6).caps
    part_rho = caps.rho * 10**6 // 50_000
    part_epsilon = Composition(rho_units=part_rho).epsilon(1e-6)
    part = Composition(rho_units=part_rho, eta=1e-6 * part_epsilon)
    assert caps.covers(Amounts.price([part] * 5)) >= 9_999


@pytest.mark.parametrize("value", [-1, MAX_AMOUNT + 1, 0.5, True, "1"])
def test_what_is_no_amount_is_refused(value: object) -> None:
    """An amount is a whole number that two of fit into 64 bits."""
    with pytest.raises(InvalidParameterError, match="rho must be a whole number"):
        Amounts(rho=value)  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"epsilon": 0.0, "delta": 1e-6}, "epsilon"),
        ({"epsilon": float("nan"), "delta": 1e-6}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1e-6, "label_epsilon": -0.1}, "label_epsilon"),
        ({"epsilon": 1.0, "delta": 1e-6, "label_epsilon": 1.5}, "label_epsilon"),
    ],
)
def test_what_is_no_allowance_is_refused(fields: dict[str, float], field: str) -> None:
    """A guarantee needs meaningful numbers, and labels within it."""
    with pytest.raises(InvalidParameterError) as caught:
        _ = Allowance(**fields).caps
    assert caught.value.field == field


def test_what_is_left_is_counted() -> None:
    """The measure that runs out first decides; a free price is covered by nothing."""
    have = Amounts(rho=100, epsilon=7, eta=50)
    assert have.covers(Amounts(rho=10, epsilon=2)) == 3
    assert have.covers(Amounts(rho=10, delta=1)) == 0
    assert have.covers(Amounts()) == 0
    with pytest.raises(InvalidParameterError):
        _ = have - Amounts(rho=101)
