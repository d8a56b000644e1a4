"""The grant: as large as the guarantee allows, charged to the last unit, never overspent."""

import dataclasses
import math
import threading
from collections.abc import Callable
from fractions import Fraction

import pytest

from wattveil import calibration
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Budget, Guarantee, Spend

Make = Callable[..., Guarantee]
ETA_SHARE = 1e-6


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("aside", [0.0, 0.3])
def test_grant_is_the_largest_that_keeps_the_guarantee(
    make_guarantee: Make, epsilon: float, delta: float, aside: float
) -> None:
    """The grant keeps (epsilon, delta) with all that is set aside; one more unit does not."""
    whole = Composition(
        response_epsilon=aside * epsilon, response_delta=aside * delta, eta=ETA_SHARE * epsilon
    )
    budget = Budget(
        make_guarantee(epsilon=epsilon, delta=delta),
        response_epsilon=whole.response_epsilon,
        response_delta=whole.response_delta,
    )
    granted = dataclasses.replace(whole, rho_units=budget.rho_units)
    beyond = dataclasses.replace(whole, rho_units=budget.rho_units + 1)
    assert granted.delta(epsilon) <= delta < beyond.delta(epsilon)


def test_grant_agrees_with_the_exact_scale(make_guarantee: Make) -> None:
    """Without a response the grant is s^2/2 of the exact calibration, less the share for eta."""
    s = calibration.gaussian_s(epsilon=1.0, delta=1e-6)
    assert Budget(make_guarantee()).rho_units == pytest.approx(s * s / 2.0 * 1e18, rel=1e-5)
    assert Budget(make_guarantee()).rho_units <= s * s / 2.0 * 1e18


def test_charges_add_up_to_the_last_unit(make_guarantee: Make) -> None:
    """The whole grant can be spent in parts; not one unit more; a refusal records nothing."""
    budget = Budget(make_guarantee())
    third = budget.rho_units // 3
    for units in (third, third, budget.rho_units - 2 * third):
        budget.charge(Spend(tag="part", mechanism="test", rho_units=units))
    assert budget.remaining_rho_units == 0
    before = budget.spends
    with pytest.raises(BudgetExceededError) as caught:
        budget.charge(Spend(tag="more", mechanism="test", rho_units=1))
    assert budget.spends == before
    assert sum(spend.rho_units for spend in budget.spends) == budget.rho_units
    assert (caught.value.resource, caught.value.requested) == ("rho_units", 1)
    assert caught.value.remaining == 0.0


@pytest.mark.parametrize("name", ["grant", "guarantee", "rho_units", "spends", "_spends"])
def test_a_budget_cannot_be_changed(make_guarantee: Make, name: str) -> None:
    """Neither what it grants nor what it states: only `charge` records."""
    budget = Budget(make_guarantee())
    before = budget.grant
    larger = {"grant": dataclasses.replace(before, rho_units=10**20), "rho_units": 10**20}
    with pytest.raises(AttributeError):
        setattr(budget, name, larger.get(name, make_guarantee(epsilon=9.0)))
    with pytest.raises(BudgetExceededError):
        budget.charge(Spend(tag="t", mechanism="test", rho_units=before.rho_units + 1))
    assert (budget.grant, budget.guarantee) == (before, make_guarantee())


def test_refusal_leaves_the_budget_as_it_was(make_guarantee: Make) -> None:
    """After a refusal a smaller charge still passes."""
    budget = Budget(make_guarantee())
    with pytest.raises(BudgetExceededError, match="rho_units requested"):
        budget.charge(Spend(tag="a", mechanism="test", rho_units=budget.rho_units + 1))
    assert len(budget.spends) == 0
    assert budget.remaining_rho_units == budget.rho_units
    spend = Spend(tag="b", mechanism="test", rho_units=budget.rho_units)
    assert budget.charge(spend) is spend
    assert list(budget.spends) == [spend]


@pytest.mark.parametrize(
    ("resource", "granted"),
    [("response_epsilon", 0.5), ("response_delta", 1e-7), ("eta", 1e-6)],
)
def test_every_resource_is_counted_exactly(
    make_guarantee: Make, resource: str, granted: float
) -> None:
    """Each resource is spent to its last bit, in exact arithmetic, and not beyond."""
    budget = Budget(make_guarantee(), response_epsilon=0.5, response_delta=1e-7)
    ten = [granted / 10.0] * 9
    rest = Fraction(granted) - 9 * Fraction(granted / 10.0)
    last = math.nextafter(float(rest), 0.0) if Fraction(float(rest)) > rest else float(rest)
    for amount in (*ten, last):
        budget.charge(Spend(tag="part", mechanism="test", **{resource: amount}))  # type: ignore[arg-type]
    with pytest.raises(BudgetExceededError, match=f"{resource} requested"):
        budget.charge(Spend(tag="more", mechanism="test", **{resource: granted * 1e-9}))  # type: ignore[arg-type]
    spent = sum(Fraction(getattr(spend, resource)) for spend in budget.spends)
    assert spent <= Fraction(granted)
    assert len(budget.spends) == 10


@pytest.mark.parametrize("resource", ["rho_units", "response_epsilon", "response_delta", "eta"])
@pytest.mark.parametrize("bad", [-1, -1e-9, math.nan, math.inf, "1", True])
def test_a_charge_cannot_give_back(make_guarantee: Make, resource: str, bad: object) -> None:
    """A negative, endless or non-numeric charge is refused by name and records nothing."""
    budget = Budget(make_guarantee(), response_epsilon=0.5, response_delta=1e-7)
    amounts: dict[str, object] = {resource: bad}
    with pytest.raises(InvalidParameterError, match=f"{resource} must be"):
        budget.charge(Spend(tag="x", mechanism="test", **amounts))  # type: ignore[arg-type]
    assert budget.spends == ()


def test_concurrent_charges_never_overspend(make_guarantee: Make) -> None:
    """Eight threads charge a fifth each, repeatedly: five charges in all are admitted."""
    budget = Budget(make_guarantee())
    fifth = budget.rho_units // 5
    start = threading.Barrier(8)
    refused: list[BudgetExceededError] = []

    def spend_all() -> None:
        start.wait()
        for _ in range(20):
            try:
                budget.charge(Spend(tag="t", mechanism="test", rho_units=fifth))
            except BudgetExceededError as error:
                refused.append(error)

    threads = [threading.Thread(target=spend_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(budget.spends) == 5
    assert len(refused) == 155
    assert sum(spend.rho_units for spend in budget.spends) <= budget.rho_units


def test_share_is_rounded_down(make_guarantee: Make) -> None:
    """A share is the exact product with the grant, rounded down to whole units."""
    budget = Budget(make_guarantee())
    assert budget.share(1.0) == budget.rho_units
    for fraction in (0.05, 1.0 / 3.0, 1e-17):
        exact = Fraction(fraction) * budget.rho_units
        assert exact - 1 < budget.share(fraction) <= exact


@pytest.mark.parametrize("bad", [0.0, -0.5, math.nan, "0.5", True])
def test_bad_share_is_refused(make_guarantee: Make, bad: object) -> None:
    """A share is a positive number."""
    with pytest.raises(InvalidParameterError, match="fraction must be"):
        Budget(make_guarantee()).share(bad)  # type: ignore[arg-type]  # wrong on purpose


def test_pure_guarantee_has_no_room_for_gaussian_noise(make_guarantee: Make) -> None:
    """With delta 0 the whole epsilon may go to a response and nothing to Gaussian parts."""
    budget = Budget(make_guarantee(delta=0.0), response_epsilon=1.0)
    assert budget.rho_units == 0
    budget.charge(Spend(tag="labels", mechanism="test", response_epsilon=1.0))
    with pytest.raises(BudgetExceededError):
        budget.charge(Spend(tag="sum", mechanism="test", rho_units=1))


@pytest.mark.parametrize(
    ("response_epsilon", "response_delta"), [(1.1, 0.0), (0.5, 2e-6), (1.0, 1.1e-6)]
)
def test_what_is_set_aside_must_fit(
    make_guarantee: Make, response_epsilon: float, response_delta: float
) -> None:
    """More than the guarantee cannot be set aside, whatever is left for the rest."""
    with pytest.raises(
        InvalidParameterError, match=r"within the guarantee \(1.0, 1e-06\)"
    ) as caught:
        Budget(make_guarantee(), response_epsilon=response_epsilon, response_delta=response_delta)
    assert caught.value.field == "response_epsilon, response_delta"
    assert caught.value.value == (response_epsilon, response_delta)


@pytest.mark.parametrize("field", ["response_epsilon", "response_delta"])
@pytest.mark.parametrize("bad", [-0.1, math.nan, "0", False])
def test_bad_parts_set_aside_are_named(make_guarantee: Make, field: str, bad: object) -> None:
    """What is set aside is a number of at least 0."""
    with pytest.raises(InvalidParameterError, match=f"{field} must be"):
        Budget(make_guarantee(), **{field: bad})  # type: ignore[arg-type]  # wrong on purpose


def test_spend_is_frozen() -> None:
    """A charge cannot be rewritten after it was recorded."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Spend(tag="a", mechanism="b").rho_units = 3  # type: ignore[misc]  # that is the point
