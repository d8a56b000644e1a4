"""What the parts of a composite release spend adds up to what it declares, on two roads.

The transcript (what each mechanism was charged) and the noise (what each draw truly gives away)
are added up apart. A planted double spend is seen by the first, by the second, or is refused.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.statistical import faults
from tests.statistical.harness import promise
from wattveil.errors import BudgetExceededError
from wattveil.privacy import accounting, noise
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms import quantile
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import IntArray
from wattveil.release.shapes import LoadShapes, load_shapes

VALUES = Secret(np.linspace(0.0, 1.0, 20))


class Meter:
    """Listens to scales asked for and to noise drawn, and adds up sensitivity^2 / (2 scale^2)."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rho = Fraction(0)
        self.draws = 0
        self._squared: list[int] = []
        scale, draw = accounting.noise_scale, noise.discrete_gaussian

        def asked(*, squared_sensitivity: int, rho_units: int) -> float:
            self._squared.append(squared_sensitivity)
            return scale(squared_sensitivity=squared_sensitivity, rho_units=rho_units)

        def drawn(*, scale: float, size: int) -> IntArray:
            self.rho += Fraction(self._squared.pop()) / (2 * Fraction(scale) ** 2)
            self.draws += 1
            return draw(scale=scale, size=size)

        patch.setattr(accounting, "noise_scale", asked)
        patch.setattr(noise, "discrete_gaussian", drawn)


def total(spends: tuple[Spend, ...]) -> Composition:
    """Add up a transcript."""
    return Composition(
        rho_units=sum(spend.rho_units for spend in spends),
        response_epsilon=sum(spend.response_epsilon for spend in spends),
        response_delta=sum(spend.response_delta for spend in spends),
        eta=sum(spend.eta for spend in spends),
    )


def shape() -> LoadShapes:
    """Release a load shape."""
    return load_shapes(np.full((60, 24), 0.5), clip_kw=1.0, epsilon=1.0, delta=0.5)


def run_quantile(budget: Budget, rho_units: int) -> tuple[Spend, ...]:
    """Release a quantile in seven steps and return what it says it spent."""
    return noisy_quantile(
        VALUES,
        quantile=0.4,
        interval=(0.0, 1.0),
        n_steps=7,
        rho_units=rho_units,
        budget=budget,
        tag="quantile",
    ).spends


def test_a_load_shape_spends_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transcript = grant, to the unit; the noise gives away no more; the promise follows."""
    meter = Meter(monkeypatch)
    released = shape()
    spent = total(released.spends)
    assert [spend.tag for spend in released.spends] == [
        "number of customers",
        "sizes",
        "customers by group",
        "sums of load",
    ]
    assert spent.rho_units == Budget(promise()).rho_units
    assert spent.delta(released.guarantee.epsilon) <= released.guarantee.delta
    assert meter.draws == len(released.spends)
    assert meter.rho * RHO_UNITS <= spent.rho_units
    assert meter.rho * RHO_UNITS >= spent.rho_units * (1 - Fraction(1, 10**12))  # nothing wasted


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_quantile_spends_what_it_declares(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps add up to the units asked for, in the budget's list and in the result's."""
    meter = Meter(monkeypatch)
    budget = Budget(promise())
    spends = run_quantile(budget, budget.share(share))
    assert spends == budget.spends
    assert len(spends) == meter.draws == 7
    assert total(spends).rho_units == budget.share(share)
    assert meter.rho * RHO_UNITS <= budget.share(share)
    assert total(spends).delta(1.0) <= 0.5


def test_a_double_spend_in_a_quantile_shows_in_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that each take twice their share: the transcript is twice the declaration."""
    meter = Meter(monkeypatch)
    monkeypatch.setattr(quantile, "_split", doubled(quantile._split))
    budget = Budget(promise())
    declared = budget.share(0.3)
    assert total(run_quantile(budget, declared)).rho_units == 2 * declared
    assert meter.rho * RHO_UNITS > declared


def test_a_double_spend_beyond_the_grant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The charge that does not fit is refused before its noise is drawn."""
    meter = Meter(monkeypatch)
    monkeypatch.setattr(quantile, "_split", doubled(quantile._split))
    budget = Budget(promise())
    with pytest.raises(BudgetExceededError, match="rho_units"):
        run_quantile(budget, budget.rho_units)
    assert meter.draws == len(budget.spends) == 3  # three doubled shares of seven fit
    assert meter.rho * RHO_UNITS <= budget.rho_units


def test_a_load_shape_that_forgets_its_first_charge_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum asks for the whole grant after the count has had its share."""
    monkeypatch.setattr(Budget, "remaining_rho_units", property(lambda budget: budget.rho_units))
    with pytest.raises(BudgetExceededError, match="rho_units"):
        shape()


def test_an_unrecorded_spend_shows_in_the_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that is drawn and not charged: fewer charges than draws, and too much given away."""
    meter = Meter(monkeypatch)
    charge = Budget.charge

    def forgetful(budget: Budget, spend: Spend) -> Spend:
        return spend if spend.tag == "number of customers" else charge(budget, spend)

    monkeypatch.setattr(Budget, "charge", forgetful)
    released = shape()
    assert len(released.spends) < meter.draws
    assert meter.rho * RHO_UNITS > total(released.spends).rho_units


def test_an_exchanged_share_shows_in_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges that add up over noise that does not: the second road sees 1.44 times the grant."""
    faults.exchanged_share(monkeypatch)
    meter = Meter(monkeypatch)
    spent = total(shape().spends).rho_units
    assert spent == Budget(promise()).rho_units
    assert float(meter.rho * RHO_UNITS / spent) == pytest.approx(1.44, rel=1e-6)


def doubled(split: Callable[[int, int], list[int]]) -> Callable[[int, int], list[int]]:
    """Return a split whose parts are twice what they should be."""
    return lambda units, parts: [2 * part for part in split(units, parts)]
