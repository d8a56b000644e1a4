"""Bad input is refused with an error of this package, before anything is charged."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.single_queries import gaussian_histogram, keep_probability, respond_to_labels, sum_of
from wattveil import calibration
from wattveil.engines.local import LocalRows
from wattveil.errors import InvalidDataError, InvalidParameterError, WattveilError
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Spend, Tier
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import release_sums
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.private_data import Secret
from wattveil.release.group_load import load_shapes

NO_LABELS = np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize("epsilon", [1e-6, 0.001, 0.01, 1.0, 12.0])
def test_sentence_never_states_a_factor_too_small(
    make_guarantee: Callable[..., Guarantee], epsilon: float
) -> None:
    """The factor in the plain sentence is rounded up, like every cost."""
    sentence = make_guarantee(epsilon=epsilon, delta=0.0).sentence
    factor = sentence.rpartition(" to at most ")[2].removesuffix(" p.").replace(",", "")
    assert float(factor) >= math.exp(epsilon)


def test_composition_of_negative_amounts_is_refused() -> None:
    """An amount below zero is an error, not an endless computation."""
    with pytest.raises(InvalidParameterError, match="rho_units must be"):
        accounting.Composition(rho_units=-1)


@pytest.mark.parametrize("bound", [2**63 + 5, 2**64])
def test_uniform_bound_fits_an_integer(bound: int) -> None:
    """A bound beyond 2^63 would wrap around."""
    with pytest.raises(InvalidParameterError, match="bound must be"):
        noise.uniform_below(bound=bound, size=4)


@pytest.mark.parametrize("chance", [Fraction(3, 2), Fraction(-1, 2)])
def test_bernoulli_needs_a_probability(chance: Fraction) -> None:
    """Above 1 and below 0 are refused."""
    with pytest.raises(InvalidParameterError, match="numerator must be"):
        noise.bernoulli(probability=chance, size=4)


@pytest.mark.parametrize(
    "call",
    [
        lambda _: keep_probability(n_labels=6, epsilon=1e308, neighbours=Neighbours.ZERO_OUT),
        lambda _: accounting.discretisation_eta(numbers=1, sigma=0.0, s=1.0),
        lambda budget: gaussian_histogram(NO_LABELS, n_cells=-5, rho_units=1, budget=budget),
        lambda budget: sum_of(np.zeros((2, 0)), rho_units=10**15, budget=budget),
    ],
    ids=["keep", "eta", "cells", "features"],
)
def test_absurd_sizes_are_refused(
    ample: Callable[..., Budget], call: Callable[[Budget], object]
) -> None:
    """What would overflow, divide by zero or never end is refused, and costs nothing."""
    budget = ample()
    with pytest.raises(WattveilError):
        call(budget)
    assert budget.spends == ()


def test_text_is_refused_without_quoting_it() -> None:
    """A private value that is not a number does not appear in the error."""
    with pytest.raises(InvalidDataError, match="load_kw is an array of real numbers") as error:
        load_shapes(np.array([["meter 4711"]]), clip_kw=2.0, epsilon=1.0, delta=1e-6)
    assert "4711" not in str(error.value)
    assert error.value.__context__ is None


def test_single_precision_is_a_number(ample: Callable[..., Budget]) -> None:
    """NumPy's own floats are accepted where a float is."""
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
        lambda budget: sum_of(np.zeros((2, 2)), rho_units=1, budget=budget),
        lambda budget: gaussian_histogram(NO_LABELS, n_cells=0, rho_units=10**15, budget=budget),
        lambda budget: respond_to_labels(NO_LABELS, n_labels=1, epsilon=0.1, budget=budget),
        lambda budget: modulo_labels(
            Secret(NO_LABELS),
            unstable=Secret(NO_LABELS),
            changed=0,
            n_labels=1,
            epsilon=0.1,
            delta=0.0,
            budget=budget,
            tag="t",
        ),
    ],
    ids=["scale", "cells", "response", "labels"],
)
def test_public_mistakes_cost_nothing(
    ample: Callable[..., Budget], call: Callable[[Budget], object]
) -> None:
    """What is wrong whatever the data is refused before the charge."""
    budget = ample(tier=Tier.INSTANCE)
    with pytest.raises(InvalidParameterError):
        call(budget)
    assert budget.spends == ()


def test_a_plain_function_costs_nothing(ample: Callable[..., Budget]) -> None:
    """That no row function was given does not depend on the data."""
    budget, query = ample(), Query(tag="t", rho_units=10**15, n_cells=1)
    with pytest.raises(TypeError, match="accepts a BoundRowFunction only"):
        release_sums(LocalRows(NO_LABELS), len, [query], budget)  # type: ignore[arg-type]
    assert budget.spends == ()


@pytest.mark.parametrize("rows", [np.ones((2, 2)) * 1j, [[10**400, 1]], [["a", "b"]]])
def test_what_is_not_real_is_refused(rows: object) -> None:
    """Complex, too large and textual numbers get one error, which is for the data holder."""
    with pytest.raises(InvalidDataError, match="an array of real numbers"):
        load_shapes(rows, clip_kw=2.0, epsilon=1.0, delta=1e-6)  # type: ignore[arg-type]  # wrong on purpose


def test_instance_tier_has_no_replace_one(make_guarantee: Callable[..., Guarantee]) -> None:
    """Leave-one-out noise guarantees nothing about data that were never there."""
    with pytest.raises(InvalidParameterError, match="zero-out for this tier") as caught:
        make_guarantee(tier=Tier.INSTANCE, neighbours=Neighbours.REPLACE_ONE)
    assert (caught.value.field, caught.value.value) == ("neighbours", Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidParameterError, match="zero-out for this tier"):
        make_guarantee(tier=Tier.INSTANCE).as_replace_one()


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
