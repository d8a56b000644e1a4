"""Gaussian parts beside a response: limits, brute force, and the price of the integer grid."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from wattveil import calibration
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting
from wattveil.privacy.accounting import Composition


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 30.0])
@pytest.mark.parametrize("s", [0.1, 1.0, 4.0])
def test_without_response_it_is_the_gaussian_curve(s: float, epsilon: float) -> None:
    """Only Gaussian parts: the exact curve of their common s."""
    together = Composition(rho_units=calibration.rho_units(s))
    exact = calibration.gaussian_delta(epsilon=epsilon, s=s)
    assert together.delta(epsilon) == pytest.approx(exact, rel=1e-9, abs=0.0)
    assert together.delta(epsilon) >= exact  # rho is rounded up


@pytest.mark.parametrize("response", [0.1, 1.0, 7.5])
def test_without_gaussian_it_is_the_pure_response(response: float) -> None:
    """Only a response: epsilon is its epsilon exactly, at a delta of exactly 0."""
    alone = Composition(response_epsilon=response)
    assert alone.delta(response) == 0.0
    assert alone.delta(math.nextafter(response, 0.0)) > 0.0
    assert alone.epsilon(0.0) == response


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.9])
def test_response_below_its_epsilon_has_a_closed_form(epsilon: float) -> None:
    """The response has loss +r with probability e^r/(1+e^r): delta = p (1 - e^(epsilon - r))."""
    p = math.e / (1.0 + math.e)
    expected = p * -math.expm1(epsilon - 1.0)
    assert Composition(response_epsilon=1.0).delta(epsilon) == pytest.approx(expected, rel=1e-12)


def test_nothing_costs_nothing() -> None:
    """An empty release is (0, 0)-DP."""
    assert Composition().delta(0.0) == 0.0
    assert Composition().epsilon(0.0) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0, 5.0])
@pytest.mark.parametrize("response", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("s", [0.3, 1.0, 2.5])
def test_mixture_by_brute_force(s: float, response: float, epsilon: float) -> None:
    """Sum (p - e^epsilon q)_+ over a fine grid of Gaussian and both response outcomes."""
    step = 1e-4
    x = np.arange(-14.0, 14.0 + s, step)
    density = np.exp(-0.5 * np.square(np.stack([x - s, x]))) / math.sqrt(2.0 * math.pi)
    heads = math.exp(response) / (1.0 + math.exp(response))
    total = 0.0
    for p, q in ((heads, 1.0 - heads), (1.0 - heads, heads)):
        excess = p * density[0] - math.exp(epsilon) * q * density[1]
        total += float(np.maximum(excess, 0.0).sum()) * step
    both = Composition(rho_units=calibration.rho_units(s), response_epsilon=response)
    assert both.delta(epsilon) == pytest.approx(total, rel=1e-5, abs=1e-10)


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_epsilon_is_the_inverse_of_delta(delta: float) -> None:
    """`epsilon(delta)` keeps delta, and the float before it does not."""
    both = Composition(rho_units=3 * 10**17, response_epsilon=0.8, response_delta=1e-10, eta=1e-7)
    epsilon = both.epsilon(delta)
    assert both.delta(epsilon) <= delta < both.delta(math.nextafter(epsilon, 0.0))


def test_response_delta_is_the_chance_of_losing_everything() -> None:
    """It gives delta = f + (1 - f) delta_rest, in exact arithmetic up to rounding."""
    rest = Composition(rho_units=10**17, response_epsilon=0.5)
    failing = replace(rest, response_delta=0.125)
    expected = 0.125 + 0.875 * rest.delta(1.0)
    assert failing.delta(1.0) == pytest.approx(expected, rel=1e-14)
    assert Composition(response_epsilon=1.0, response_delta=0.125).delta(1.0) == 0.125
    assert Composition(response_epsilon=1.0, response_delta=0.125).epsilon(0.125) == 1.0


@pytest.mark.parametrize("field", ["rho_units", "response_epsilon", "response_delta", "eta"])
def test_more_of_anything_is_never_cheaper(field: str) -> None:
    """Each resource raises delta at every epsilon."""
    base = Composition(rho_units=10**17, response_epsilon=0.5, response_delta=0.01, eta=0.01)
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        more = replace(base, **{field: getattr(base, field) * 2})
        assert more.delta(epsilon) > base.delta(epsilon)


def test_delta_is_a_probability() -> None:
    """However much is spent, delta is at most 1; however little, the tail of the noise is paid."""
    assert Composition(rho_units=10**24, response_delta=0.5, eta=3.0).delta(0.0) == 1.0
    assert 0.0 < Composition(rho_units=1).delta(50.0) < 1e-320


def test_no_epsilon_reaches_a_delta_of_zero_with_gaussian_parts() -> None:
    """Gaussian noise needs a delta, and its absence is not covered up."""
    assert Composition(rho_units=10**17).delta(1e6) > 0.0
    assert Composition(rho_units=10**17).epsilon(0.0) == math.inf


@pytest.mark.parametrize(
    ("units", "price"), [(0, 0.0), (1, 0.25), (10**17, 0.25)], ids=["none", "smallest", "some"]
)
def test_the_tail_of_the_noise_is_paid_with_gaussian_parts_only(
    monkeypatch: pytest.MonkeyPatch, units: int, price: float
) -> None:
    """The chance of a draw beyond the proof is part of delta; made large enough to be seen."""
    monkeypatch.setattr(accounting, "_TAIL", fmpq(1, 4))
    assert Composition(rho_units=units).delta(50.0) == pytest.approx(price, abs=1e-12)


@pytest.mark.parametrize(
    ("field", "bad"),
    [("rho_units", -1), ("response_epsilon", -0.1), ("response_delta", 1.0), ("eta", -1e-9)],
)
def test_bad_amounts_are_named(field: str, bad: float) -> None:
    """A composition of amounts that are none is refused by field and value."""
    with pytest.raises(InvalidParameterError) as caught:
        Composition(**{field: bad})  # type: ignore[arg-type]  # wrong on purpose
    assert (caught.value.field, caught.value.value) == (field, bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_scale_of_the_grid_is_named(bad: float) -> None:
    """Without noise there is no eta."""
    with pytest.raises(InvalidParameterError) as caught:
        accounting.discretisation_eta(numbers=1, sigma=bad, s=1.0)
    assert caught.value.field == "sigma"
    assert caught.value.value is bad


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", True])
def test_bad_epsilon_and_delta_are_named(bad: object) -> None:
    """Both functions check their arguments."""
    with pytest.raises(InvalidParameterError, match="epsilon must be"):
        Composition().delta(bad)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InvalidParameterError, match="delta must be"):
        Composition().epsilon(bad)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InvalidParameterError, match="delta must be"):
        Composition().epsilon(1.0)


# --- the integer grid ---------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [3, 5, 12, 50])
def test_rounded_and_discrete_gaussian_differ_by_eta_at_most(sigma: int) -> None:
    """Log-ratio of the two, over every integer within reach: its whole width is within eta."""
    shift = sigma  # s = 1
    with ctx.workprec(256):
        weights = {
            k: (-arb(k * k) / (2 * sigma**2)).exp() for k in range(-42 * sigma, 42 * sigma + 1)
        }
        mass = sum(weights.values(), arb(0)) * (1 + arb(0, 2.0**-200))
        root = arb(2).sqrt() * sigma
        ratios = [
            float((((k - arb(1) / 2) / root).erfc() - ((k + arb(1) / 2) / root).erfc()).log())
            - float((2 * weights[k] / mass).log())
            for k in range(42 * sigma + 1)
        ]
    eta = accounting.discretisation_eta(numbers=1, sigma=float(sigma), s=shift / sigma)
    assert max(ratios) - min(ratios) <= eta
    if sigma > 10:  # and where its second-order expansion holds, eta is no guess
        assert max(ratios) - min(ratios) >= 0.85 * eta


@pytest.mark.parametrize(("numbers", "sigma", "s"), [(1, 1024.0, 0.1), (24, 1e6, 2.0), (9, 3.0, 0)])
def test_eta_follows_its_formula_and_is_rounded_up(numbers: int, sigma: float, s: float) -> None:
    """It is eta = D/(24 sigma^2) + (sqrt(D) + 40 + s)^2/(24 sigma^2), not below the exact value."""
    with ctx.workprec(200):
        exact = (numbers + (arb(numbers).sqrt() + 40 + arb(s)) ** 2) / (24 * arb(sigma) ** 2)
        eta = accounting.discretisation_eta(numbers=numbers, sigma=sigma, s=s)
        assert arb(eta) >= exact
        assert arb(eta) <= exact * (1 + arb("1e-11"))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0, 12.0])
@pytest.mark.parametrize(
    ("sigma", "shift"),
    [(3, 1), (3, 6), (7, 2), (20, 5), (50, 1), (50, 50), (50, 200), (400, 100), (400, 800)],
)
def test_true_discrete_gaussian_is_within_the_bound(sigma: int, shift: int, epsilon: float) -> None:
    """Brute force over the integers: delta of the noise that is drawn is not above the bound."""
    reach = np.arange(-40 * sigma, 40 * sigma + shift + 1, dtype=np.float64)
    log_p, log_q = (-np.square(reach - k) / (2.0 * sigma**2) for k in (shift, 0))
    mass = math.fsum(np.exp(log_q))
    excess = np.exp(log_p) - np.exp(epsilon + log_q)
    discrete = math.fsum(excess[excess > 0.0]) / mass
    s = shift / sigma
    bound = Composition(
        rho_units=math.ceil(Fraction(shift, sigma) ** 2 / 2 * 10**18),
        eta=accounting.discretisation_eta(numbers=1, sigma=float(sigma), s=s),
    )
    assert discrete <= bound.delta(epsilon) * (1.0 + 1e-12)
    if sigma == 400 and discrete > 1e-9:  # on a fine grid the bound costs next to nothing
        assert bound.delta(epsilon) <= 1.02 * discrete
