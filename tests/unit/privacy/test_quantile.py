"""The noisy quantile: right without noise, fixed in its number of steps, exact in its price."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Released, Secret

Ample = Callable[..., Budget]
Draws = list[tuple[str, float, int]]


def run(budget: Budget, values: object = None, **changes: object) -> Released[float]:
    """Ask for the median of 0..100 in 20 steps, or for what `changes` say."""
    arguments: dict[str, object] = {
        "quantile": 0.5,
        "interval": (0.0, 100.0),
        "n_steps": 20,
        "rho_units": 10**16,
        "tag": "q",
    }
    data = np.arange(101.0) if values is None else values
    return noisy_quantile(Secret(data), budget=budget, **{**arguments, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("quantile", [0.1, 0.25, 0.5, 0.9, 0.99])
def test_without_noise_it_is_the_quantile(
    ample: Ample, silent: NoiseSource, quantile: float
) -> None:
    """Twenty halvings of [0, 100] end within 1e-4 of numpy's inverted-cdf quantile."""
    with noise.rehearse(silent):
        found = run(ample(), quantile=quantile)
    expected = np.quantile(np.arange(101.0), quantile, method="inverted_cdf")
    assert found.value == pytest.approx(float(expected), abs=100.0 / 2**20)


@pytest.mark.parametrize(
    ("interval", "end"), [((200.0, 300.0), 200.0), ((-50.0, -10.0), -10.0)], ids=str
)
def test_a_quantile_outside_the_interval_ends_at_its_end(
    ample: Ample, silent: NoiseSource, interval: tuple[float, float], end: float
) -> None:
    """The interval is public and wins over the data."""
    with noise.rehearse(silent):
        found = run(ample(), interval=interval)
    assert found.value == pytest.approx(end, abs=1e-3)
    assert interval[0] <= found.value <= interval[1]


def test_nobody_gets_an_answer(ample: Ample) -> None:
    """With no customers and real noise, some point of the interval is released."""
    budget = ample()
    found = run(budget, np.zeros(0))
    assert 0.0 <= found.publish() <= 100.0
    assert len(budget.spends) == 20


@pytest.mark.parametrize("units", [2_000_000, 2_000_001, 2_000_019, 10**16 + 7])
def test_parts_add_up_exactly_and_differ_by_one_unit(ample: Ample, units: int) -> None:
    """The price is divided without losing a unit."""
    budget = ample()
    run(budget, rho_units=units)
    parts = [spend.rho_units for spend in budget.spends]
    assert sum(parts) == units
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize("neighbours", Neighbours)
def test_noise_scale_by_hand(
    ample: Ample, silent: NoiseSource, recorded: Draws, neighbours: Neighbours
) -> None:
    """At q = 0.25 a customer counts 3/4 or -1/4, in steps of 2^-26; replacing one moves it by 1."""
    with noise.rehearse(silent):
        run(ample(neighbours), quantile=0.25, n_steps=4, rho_units=4 * 10**15)
    zero_out = neighbours is Neighbours.ZERO_OUT
    squared = (Fraction(9, 16) if zero_out else 1) * 4**26
    assert len(recorded) == 4
    for kind, sigma, size in recorded:
        assert (kind, size) == ("gaussian", 1)
        assert squared <= Fraction(2, 1000) * Fraction(sigma) ** 2
        assert squared > Fraction(2, 1000) * Fraction(math.nextafter(sigma, 0.0)) ** 2


def test_a_matrix_is_no_vector_of_values(ample: Ample) -> None:
    """Two values a customer would double the sensitivity: refused before anything is charged."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match=r"rows must be a matrix .* got rows='3 axes'"):
        run(budget, np.zeros((5, 2)))
    assert budget.spends == ()


def test_number_of_steps_is_fixed(ample: Ample, silent: NoiseSource, recorded: Draws) -> None:
    """Also when every value is the same: no early stop could tell anything."""
    with noise.rehearse(silent):
        run(ample(), np.full(10, 50.0))
    assert len(recorded) == 20


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("quantile", 0.0),
        ("quantile", 1.0),
        ("quantile", math.nan),
        ("quantile", "0.5"),
        ("n_steps", 0),
        ("n_steps", 2.0),
        ("n_steps", True),
        ("rho_units", 0),
        ("rho_units", 19),
        ("rho_units", 1e16),
        ("interval", (1.0, 1.0)),
        ("interval", (2.0, 1.0)),
        ("interval", (0.0, math.inf)),
        ("interval", (math.nan, 1.0)),
        ("interval", (-1e301, 1.0)),
    ],
)
def test_bad_arguments_are_named(ample: Ample, field: str, bad: object) -> None:
    """Each public choice has its rule, and nothing is charged when one is broken."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match=f"{field} must be") as caught:
        run(budget, **{field: bad})
    assert caught.value.field == field
    assert caught.value.value is bad
    assert budget.spends == ()
