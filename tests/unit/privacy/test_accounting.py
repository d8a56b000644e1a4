"""Gaussian accounting: reference numbers, a second formula, and rounding to the last ulp.

The independent computation is the integral of the privacy loss, delta = ∫ phi(a + u) (1 - e^(-s u))
du over u > 0 with a = epsilon/s - s/2, in which nothing cancels; the package evaluates a difference
of two normal tails instead. Both are enclosures in ball arithmetic, at different precisions.
"""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
from dp_accounting import gaussian_mechanism
from flint import acb, arb, ctx
from scipy import special, stats

from wattveil import calibration
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting

ROWS = json.loads((Path(__file__).parent / "reference.json").read_text())["gaussian"]
EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3]
DELTAS = [1e-300, 1e-100, 1e-12, 1e-6, 1e-2, 0.5]
GRID = list(itertools.product(EPSILONS, DELTAS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['epsilon']}-{row['delta']}")
def test_reference_numbers(row: dict[str, float]) -> None:
    """All numbers computed before the code was written agree to 1e-9."""
    epsilon, delta = row["epsilon"], row["delta"]
    exact = calibration.gaussian_s(epsilon=epsilon, delta=delta)
    probabilistic = calibration.probabilistic_s(epsilon=epsilon, delta=delta)
    paper = calibration.paper_calibration(epsilon=epsilon, delta=delta)
    assert exact == pytest.approx(row["s_exact_dp"], rel=1e-9)
    assert probabilistic == pytest.approx(row["s_exact_pdp"], rel=1e-9)
    assert paper.s == pytest.approx(row["s_paper"], rel=1e-9)
    assert paper.true_delta == pytest.approx(row["true_delta_dp_of_paper"], rel=1e-9, abs=0.0)
    assert paper.true_delta_probabilistic == pytest.approx(row["true_delta_pdp_of_paper"], rel=1e-9)


def test_reference_is_complete() -> None:
    """The file has the 32 settings it is meant to have."""
    assert len(ROWS) == 32


@pytest.mark.parametrize(
    ("epsilon", "claimed", "probabilistic", "exact"),
    [
        (1.0, 0.2, 0.0279, 0.00428),
        (5.0, 0.2, 0.163, 0.0943),
        (10.0, 0.2, 0.573, 0.489),
        (30.0, 0.2, 0.9999994, 0.9999990),
        (30.0, 0.01, 0.912, 0.892),
    ],
)
def test_what_the_papers_formula_truly_gives(
    epsilon: float, claimed: float, probabilistic: float, exact: float
) -> None:
    """The paper's scale keeps its claim at small epsilon and breaks it at its own setting."""
    paper = calibration.paper_calibration(epsilon=epsilon, delta=claimed)
    assert paper.true_delta == pytest.approx(exact, rel=2e-3)
    assert paper.true_delta_probabilistic == pytest.approx(probabilistic, rel=2e-3)
    assert (paper.true_delta <= claimed) == (epsilon < 10.0)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_scale_never_misses_its_delta_and_the_next_float_does(epsilon: float, delta: float) -> None:
    """By the integral: delta(s) is at most delta; one ulp above s it is not."""
    s = calibration.gaussian_s(epsilon=epsilon, delta=delta)
    assert exact_delta(epsilon, s).upper <= delta
    assert exact_delta(epsilon, math.nextafter(s, math.inf)).lower > delta


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_probabilistic_scale_is_tight_too(epsilon: float, delta: float) -> None:
    """The same for the chance that the loss exceeds epsilon; and s agrees with its closed form."""
    s = calibration.probabilistic_s(epsilon=epsilon, delta=delta)
    assert tail_delta(epsilon, s).upper <= delta
    assert tail_delta(epsilon, math.nextafter(s, math.inf)).lower > delta
    z = stats.norm.isf(delta)
    # epsilon/s - s/2 = z is a quadratic equation in s.
    assert s == pytest.approx(2.0 * epsilon / (z + math.sqrt(z * z + 2.0 * epsilon)), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_delta_is_the_least_float_above_the_integral(epsilon: float, delta: float) -> None:
    """`gaussian_delta` is above the true value, by one ulp at most."""
    s = calibration.gaussian_s(epsilon=epsilon, delta=delta) * 0.9
    rounded = calibration.gaussian_delta(epsilon=epsilon, s=s)
    truth = exact_delta(epsilon, s)
    assert truth.upper <= rounded
    assert truth.upper > math.nextafter(rounded, 0.0)
    probabilistic = calibration.probabilistic_delta(epsilon=epsilon, s=s)
    truth = tail_delta(epsilon, s)
    assert truth.upper <= probabilistic
    assert truth.upper > math.nextafter(probabilistic, 0.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("s", [0.3, 1.0, 3.0])
def test_floats_suffice_away_from_the_ends(epsilon: float, s: float) -> None:
    """Where nothing cancels much, scipy's normal distribution gives the same delta."""
    first = special.ndtr(s / 2.0 - epsilon / s)
    second = math.exp(epsilon + float(special.log_ndtr(-s / 2.0 - epsilon / s)))
    expected = pytest.approx(first - second, rel=1e-9, abs=0.0)
    assert calibration.gaussian_delta(epsilon=epsilon, s=s) == expected


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_inverse_of_inverse(epsilon: float, delta: float) -> None:
    """From epsilon to s and back: not above where it began, and next to it."""
    s = calibration.gaussian_s(epsilon=epsilon, delta=delta)
    back = calibration.gaussian_epsilon(s=s, delta=delta)
    assert epsilon * (1.0 - 1e-9) <= back <= epsilon
    assert exact_delta(back, s).upper <= delta
    assert exact_delta(math.nextafter(back, 0.0), s).lower > delta


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_second_accountant_agrees(epsilon: float, delta: float) -> None:
    """Google's dp-accounting finds the same scale and the same epsilon."""
    s = calibration.gaussian_s(epsilon=epsilon, delta=delta)
    sigma = gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    assert s == pytest.approx(1.0 / sigma, rel=1e-9)
    other = gaussian_mechanism.get_epsilon_gaussian(1.0 / s, delta)
    assert calibration.gaussian_epsilon(s=s, delta=delta) == pytest.approx(other, rel=1e-9)


def test_little_enough_noise_needs_no_epsilon() -> None:
    """When delta alone covers the release epsilon is 0, where delta has a closed form."""
    assert calibration.gaussian_epsilon(s=0.1, delta=0.05) == 0.0
    assert calibration.gaussian_delta(epsilon=0.0, s=0.1) == pytest.approx(
        math.erf(0.05 / math.sqrt(2.0)), rel=1e-12
    )
    assert calibration.gaussian_s(epsilon=0.0, delta=0.05) == pytest.approx(
        2.0 * float(special.ndtri(0.525)), rel=1e-12
    )


def test_ends_of_the_search_are_honest() -> None:
    """No scale for a delta below the floats but a smaller one; no epsilon of any use: infinity."""
    for epsilon, delta in ((0.0, 1e-310), (0.0, 5e-324), (1e-300, 1e-320)):
        s = calibration.gaussian_s(epsilon=epsilon, delta=delta)
        assert s == 0.0 or calibration.gaussian_delta(epsilon=epsilon, s=s) <= delta
    assert calibration.gaussian_epsilon(s=1e5, delta=1e-6) == math.inf
    assert calibration.gaussian_epsilon(s=1e3, delta=1e-6) == pytest.approx(5e5, rel=0.02)


@pytest.mark.parametrize("delta", [1e-30, 1e-100, 1e-300])
def test_a_tiny_delta_still_has_a_scale(delta: float) -> None:
    """At epsilon = 0 a small delta is s / sqrt(2 pi): the search goes to the smallest float."""
    s = calibration.gaussian_s(epsilon=0.0, delta=delta)
    assert s == pytest.approx(delta * math.sqrt(2.0 * math.pi), rel=1e-9, abs=0.0)


def test_where_no_scale_will_do_the_answer_is_none() -> None:
    """At the smallest epsilon the smallest s has a loss beyond it in 16 % of cases: s is 0."""
    smallest = math.ulp(0.0)
    assert calibration.probabilistic_delta(epsilon=smallest, s=smallest) == pytest.approx(
        0.1587, rel=1e-3
    )
    assert calibration.probabilistic_s(epsilon=smallest, delta=0.1) == 0.0


def test_delta_is_a_probability() -> None:
    """Rounding up stops at 1."""
    assert calibration.gaussian_delta(epsilon=1.0, s=100.0) == 1.0
    assert calibration.probabilistic_delta(epsilon=1.0, s=100.0) == 1.0


def test_below_the_floats_delta_is_the_smallest_float() -> None:
    """A delta of 1e-4000 is rounded up to the smallest positive float, never down to 0."""
    assert calibration.gaussian_delta(epsilon=100.0, s=0.5) == 5e-324
    assert calibration.probabilistic_delta(epsilon=100.0, s=0.5) == 5e-324


@pytest.mark.parametrize(
    "parts",
    [(0.1, 0.2, 0.3), (1.0,), (1e-200, 1e-200), (1e200, 1.0), (3.0, 4.0), (5e-324,), (0.0, 0.7)],
)
def test_composed_scale_is_the_least_float_above(parts: tuple[float, ...]) -> None:
    """The square of the result is at least the exact sum of squares; one ulp less is not."""
    together = calibration.compose_s(*parts)
    squares = sum((Fraction(s) ** 2 for s in parts), Fraction(0))
    assert Fraction(together) ** 2 >= squares
    assert Fraction(math.nextafter(together, 0.0)) ** 2 < squares


def test_nothing_composes_to_nothing() -> None:
    """No release and releases of scale 0 have scale 0."""
    assert calibration.compose_s() == 0.0
    assert calibration.compose_s(0.0, 0.0) == 0.0


@pytest.mark.parametrize("s", [1e-9, 1e-3, 0.1, 0.2367, 1.0, 7.3, 1e6])
def test_rho_is_counted_in_whole_units_rounded_up(s: float) -> None:
    """Units are the smallest whole number not below s^2/2 in 1e-18."""
    units = calibration.rho_units(s)
    exact = Fraction(s) ** 2 / 2 * 10**18
    assert units - 1 < exact <= units


@pytest.mark.parametrize("squared", [1, 2, 2**50, 4 * 2**50, 2 * 2**52 + 12345])
@pytest.mark.parametrize("units", [1, 3, 28014427209506479, 10**18, 5 * 10**20 + 7])
def test_noise_scale_is_the_least_float_that_pays(squared: int, units: int) -> None:
    """Exactly, squared / (2 sigma^2) is within rho; with the float before sigma it is not."""
    sigma = accounting.noise_scale(squared_sensitivity=squared, rho_units=units)
    rho = Fraction(units, 10**18)
    assert Fraction(squared) <= 2 * rho * Fraction(sigma) ** 2
    assert Fraction(squared) > 2 * rho * Fraction(math.nextafter(sigma, 0.0)) ** 2


Call = Callable[..., object]


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", True, None], ids=repr)
@pytest.mark.parametrize(
    ("function", "field", "others"),
    [
        (calibration.gaussian_delta, "epsilon", {"s": 1.0}),
        (calibration.gaussian_delta, "s", {"epsilon": 1.0}),
        (calibration.gaussian_s, "epsilon", {"delta": 0.1}),
        (calibration.gaussian_s, "delta", {"epsilon": 1.0}),
        (calibration.gaussian_epsilon, "s", {"delta": 0.1}),
        (calibration.gaussian_epsilon, "delta", {"s": 0.1}),
        (calibration.probabilistic_delta, "epsilon", {"s": 1.0}),
        (calibration.probabilistic_delta, "s", {"epsilon": 1.0}),
        (calibration.probabilistic_s, "epsilon", {"delta": 0.1}),
        (calibration.probabilistic_s, "delta", {"epsilon": 0.1}),
        (calibration.paper_calibration, "epsilon", {"delta": 0.1}),
        (calibration.paper_calibration, "delta", {"epsilon": 0.1}),
        (calibration.rho_units, "s", {}),
        (accounting.noise_scale, "squared_sensitivity", {"rho_units": 1}),
        (accounting.noise_scale, "rho_units", {"squared_sensitivity": 1}),
    ],
)
def test_bad_numbers_are_named(
    function: Call, field: str, others: dict[str, object], bad: object
) -> None:
    """Every argument of every function is checked, and the error has its name and value."""
    with pytest.raises(InvalidParameterError) as caught:
        function(**{field: bad}, **others)
    assert caught.value.field == field
    assert caught.value.value is bad


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (calibration.gaussian_s, {"epsilon": 1.0, "delta": 0.0}),
        (calibration.gaussian_s, {"epsilon": 1.1e6, "delta": 0.1}),
        (calibration.gaussian_delta, {"epsilon": 1e308, "s": 1.0}),
        (calibration.probabilistic_delta, {"epsilon": 1e308, "s": 1.0}),
        (calibration.gaussian_s, {"epsilon": 1.0, "delta": 1.0}),
        (calibration.gaussian_delta, {"epsilon": 1.0, "s": 0.0}),
        (calibration.probabilistic_s, {"epsilon": 0.0, "delta": 0.1}),
        (accounting.noise_scale, {"squared_sensitivity": 0, "rho_units": 1}),
        (accounting.noise_scale, {"squared_sensitivity": 1, "rho_units": 0}),
        (accounting.noise_scale, {"squared_sensitivity": 1.0, "rho_units": 1}),
    ],
)
def test_ends_of_the_ranges_are_refused(function: Call, arguments: dict[str, float]) -> None:
    """A delta of 0 or 1, no sensitivity and no budget have no answer."""
    with pytest.raises(InvalidParameterError):
        function(**arguments)


def test_negative_part_is_refused_in_a_composition() -> None:
    """A negative scale would make the sum cheaper than its parts."""
    with pytest.raises(InvalidParameterError, match=r"s must be .* at least 0, got s=-1.0"):
        calibration.compose_s(1.0, -1.0)


class Enclosure(NamedTuple):
    """Two exact numbers with the truth between them."""

    lower: Fraction
    upper: Fraction


def exact_delta(epsilon: float, s: float) -> Enclosure:
    """Enclose ∫ phi(a + u) (1 - e^(-s u)) du over u > 0."""
    return gaussian_integral(epsilon, s, lambda u: 1 - (acb(-s) * u).exp())


def tail_delta(epsilon: float, s: float) -> Enclosure:
    """Enclose ∫ phi(a + u) du over u > 0."""
    return gaussian_integral(epsilon, s, lambda _: acb(1))


def gaussian_integral(epsilon: float, s: float, weight: Callable[[acb], acb]) -> Enclosure:
    """Integrate weight(u) phi(a + u) over u > 0 for a weight within [0, 1], a = epsilon/s - s/2."""
    with ctx.workprec(192):
        a = arb(epsilon) / arb(s) - arb(s) / 2
        # phi(a + u) = phi(a + m) exp(-(a + m) (u - m) - (u - m)^2 / 2): at most 1 at u = m.
        peak = max(-float(a), 0.0)
        top = a + peak

        def integrand(u: acb, _: object) -> acb:
            v = u - peak
            return (-(acb(top) * v) - v * v / 2).exp() * weight(u)

        # Beyond this point the integrand is below e^-200: nothing beside what is before it.
        far = peak + 420.0 / (max(float(a), 0.0) + 20.0)
        body = acb.integral(integrand, 0, far).real * (1 + arb(0, 2.0**-140))
        whole = body * (-(top * top) / 2).exp() / (2 * arb.pi()).sqrt()
        return Enclosure(to_fraction(whole.lower()), to_fraction(whole.upper()))


def to_fraction(point: arb) -> Fraction:
    """Return an exact point as a fraction."""
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
