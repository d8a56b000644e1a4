"""Bad input is refused in our own words, before anything is charged."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.counting import gaussian_histogram
from tests.responding import keep_probability
from wattveil import calibration
from wattveil.errors import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
    WattveilError,
)
from wattveil.privacy import accounting, noise
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier
from wattveil.privacy.mechanisms.gaussian import gaussian_sum
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball, Box, Ellipsoid, OuterProductBall
from wattveil.release.shapes import load_shapes

NOBODY = Secret(np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize("epsilon", [1e-6, 0.001, 0.01, 1.0, 12.0])
def test_sentence_never_states_a_factor_too_small(
    promise: Callable[..., Guarantee], epsilon: float
) -> None:
    """The factor in the plain sentence is rounded up, like every cost."""
    sentence = promise(epsilon=epsilon, delta=0.0).sentence
    assert float(sentence.split("at most ")[1].split(" p ")[0]) >= math.exp(epsilon)


def test_composition_of_negative_amounts_is_refused() -> None:
    """An amount below zero is a slip, not an endless computation."""
    with pytest.raises(InvalidParameterError, match="rho_units must be"):
        accounting.Composition(rho_units=-1)


@pytest.mark.parametrize("bound", [2**63 + 5, 2**64])
def test_uniform_bound_fits_an_integer(bound: int) -> None:
    """A bound beyond 2^63 would wrap around."""
    with pytest.raises(InvalidParameterError, match="bound must be"):
        noise.uniform_below(bound=bound, size=4)


@pytest.mark.parametrize("chance", [Fraction(3, 2), Fraction(-1, 2)])
def test_coin_needs_a_probability(chance: Fraction) -> None:
    """More than certain and less than impossible are refused."""
    with pytest.raises(InvalidParameterError, match="numerator must be"):
        noise.bernoulli(probability=chance, size=4)


@pytest.mark.parametrize(
    "call",
    [
        lambda _: OuterProductBall(radius=1e200),
        lambda _: Box(low=(0.0,), high=(5e-324,)),
        lambda _: Box(low=("a",), high=("b",)),  # type: ignore[arg-type]  # wrong on purpose
        lambda _: keep_probability(n_labels=6, epsilon=1e308, neighbours=Neighbours.ZERO_OUT),
        lambda _: accounting.discretisation_eta(numbers=1, sigma=0.0, s=1.0),
        lambda budget: gaussian_histogram(
            NOBODY, n_cells=-5, rho_units=10**15, budget=budget, tag="t"
        ),
    ],
    ids=["radius", "step", "text", "keep", "eta", "cells"],
)
def test_absurd_sizes_are_refused(
    ample: Callable[..., Budget], call: Callable[[Budget], object]
) -> None:
    """What would overflow, divide by zero or never end gets an error of the house."""
    with pytest.raises(WattveilError):
        call(ample())


def test_text_is_refused_without_quoting_it() -> None:
    """A private cell that is not a number does not appear in the error."""
    with pytest.raises(InvalidDataError, match="load_kw is an array of real numbers") as error:
        load_shapes(np.array([["meter 4711"]]), clip_kw=2.0, epsilon=1.0, delta=1e-6)
    assert "4711" not in str(error.value)
    assert error.value.__context__ is None


def test_single_precision_is_a_number(ample: Callable[..., Budget]) -> None:
    """NumPy's own floats are taken where a float is."""
    one = np.float32(1)
    assert keep_probability(
        n_labels=6,
        epsilon=one,  # type: ignore[arg-type]  # a float all the same
        neighbours=Neighbours.ZERO_OUT,
    ) == keep_probability(n_labels=6, epsilon=1.0, neighbours=Neighbours.ZERO_OUT)
    assert ample().share(np.float32(0.5)) == ample().share(0.5)  # type: ignore[arg-type]  # same
    parts = accounting.Composition(rho_units=10**15)
    assert parts.delta(one) == parts.delta(1.0)  # type: ignore[arg-type]  # same


@pytest.mark.parametrize(
    "call",
    [
        lambda budget: gaussian_sum(
            Secret(np.zeros((2, 2))), region=Ball(radius=1.0), rho_units=1, budget=budget, tag="t"
        ),
        lambda budget: gaussian_histogram(
            NOBODY, n_cells=0, rho_units=10**15, budget=budget, tag="t"
        ),
        lambda budget: modulo_labels(
            NOBODY,
            unstable=NOBODY,
            changed=0,
            n_labels=1,
            epsilon=0.1,
            delta=0.0,
            budget=budget,
            tag="t",
        ),
    ],
    ids=["scale", "cells", "labels"],
)
def test_public_mistakes_cost_nothing(
    ample: Callable[..., Budget], call: Callable[[Budget], object]
) -> None:
    """What can be seen to be wrong without the data is refused before the charge."""
    budget = ample(tier=Tier.INSTANCE)
    with pytest.raises(InvalidParameterError):
        call(budget)
    assert budget.spends == ()


def test_quantile_that_does_not_fit_spends_nothing(ample: Callable[..., Budget]) -> None:
    """A bisection that the budget cannot pay for is refused before its first step."""
    budget = ample()
    with pytest.raises(BudgetExceededError):
        noisy_quantile(
            Secret(np.zeros(5)),
            quantile=0.5,
            interval=(0.0, 1.0),
            n_steps=10,
            rho_units=budget.rho_units + 1,
            budget=budget,
            tag="t",
        )
    assert budget.spends == ()


@pytest.mark.parametrize("rows", [np.ones((2, 2)) * 1j, [[10**400, 1]], [["a", "b"]]])
def test_what_is_not_real_is_refused_in_house(rows: object) -> None:
    """Complex, endless and textual numbers get one error, which stays in the house."""
    with pytest.raises(InvalidDataError, match="an array of real numbers"):
        load_shapes(rows, clip_kw=2.0, epsilon=1.0, delta=1e-6)  # type: ignore[arg-type]  # wrong on purpose


def test_no_row_can_raise(ample: Callable[..., Budget]) -> None:
    """A caller who wants every floating-point event raised hears of none from a row."""
    rows = np.array([[1e-300, 1.0], [1e308, -1e308], [0.0, 5e-324]])
    with np.errstate(all="raise"):
        assert Ball(radius=1.0).to_grid(rows).shape == rows.shape
    assert ample().spends == ()


def test_replacing_says_nothing_in_the_instance_tier(promise: Callable[..., Guarantee]) -> None:
    """Leave-one-out noise is no promise about data that were never there."""
    with pytest.raises(InvalidParameterError, match="zero-out for this tier") as caught:
        promise(tier=Tier.INSTANCE, neighbours=Neighbours.REPLACE_ONE)
    assert (caught.value.field, caught.value.value) == ("neighbours", Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidParameterError, match="zero-out for this tier"):
        promise(tier=Tier.INSTANCE).as_replace_one()


def test_region_keeps_its_own_shape() -> None:
    """Writing to the matrix that an ellipsoid was made from changes nothing in it."""
    shape = np.eye(2)
    region = Ellipsoid(shape=shape)
    shape *= 10.0
    assert np.array_equal(region.shape, np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        region.shape[0, 0] = 2.0


def test_units_are_pythons_own_integers(ample: Callable[..., Budget]) -> None:
    """NumPy's integers would overflow where they are added up."""
    budget = ample()
    spend = Spend(tag="t", mechanism="m", rho_units=np.int64(2**40))  # type: ignore[arg-type]  # same
    assert type(budget.charge(spend).rho_units) is int


def test_eta_is_priced_by_its_formula() -> None:
    """Delta = e^eta G(epsilon - eta), for an eta large enough to see each of its two places."""
    s, eta, epsilon = 0.7, 0.5, 1.5
    shifted = calibration.gaussian_delta(epsilon=epsilon - eta, s=s)
    parts = accounting.Composition(rho_units=calibration.rho_units(s), eta=eta)
    assert parts.delta(epsilon) == pytest.approx(math.exp(eta) * shifted, rel=1e-9)
