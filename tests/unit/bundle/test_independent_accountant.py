"""The independent accountant: privacy loss distributions against the closed forms."""

import math

import pytest

from wattveil import calibration
from wattveil.bundle.verify.verify_budget import composed_epsilon
from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import Composition

DISCRETISATION = 1e-4  # dp-accounting rounds each privacy loss up to a multiple of this


@pytest.mark.parametrize(
    ("parts", "delta"),
    [((0.3,), 1e-6), ((0.3,), 1e-3), ((1.0, 2.0), 1e-6), ((0.2, 0.5, 0.5, 1.0), 1e-5)],
    ids=str,
)
def test_gaussian_parts_agree_with_the_closed_form(parts: tuple[float, ...], delta: float) -> None:
    """Numerical composition is at or above the exact epsilon, by its discretisation at most."""
    exact = calibration.gaussian_epsilon(s=calibration.compose_s(*parts), delta=delta)
    numeric = composed_epsilon(gaussian_s=parts, delta=delta)
    assert exact * (1.0 - 1e-9) <= numeric <= exact + 2.0 * DISCRETISATION * len(parts)


@pytest.mark.parametrize("delta", [1e-6, 1e-2])
@pytest.mark.parametrize("response", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("s", [0.3, 1.5])
def test_mixture_agrees_with_the_composition(s: float, response: float, delta: float) -> None:
    """One Gaussian and one pure part: both accountants give the same epsilon."""
    both = Composition(rho_units=calibration.rho_units(s), response_epsilon=response)
    exact = both.epsilon(delta)
    numeric = composed_epsilon(gaussian_s=[s], pure_epsilons=[response], delta=delta)
    assert exact * (1.0 - 1e-9) <= numeric <= exact + 4.0 * DISCRETISATION


def test_many_pure_parts_cost_less_than_their_sum() -> None:
    """Tighter composition: fifty small pure parts at a delta are cheaper than 50 epsilon."""
    together = composed_epsilon(pure_epsilons=[0.1] * 50, delta=1e-6)
    assert 1.0 < together < 4.5


def test_one_pure_part_costs_itself() -> None:
    """A single epsilon-DP part needs epsilon, less what delta forgives."""
    # P[loss = 1] = e/(1+e): the largest saving at delta is -log(1 - delta (1+e)/e).
    saving = -math.log1p(-1e-3 * (1.0 + math.e) / math.e)
    numeric = composed_epsilon(pure_epsilons=[1.0], delta=1e-3)
    assert numeric == pytest.approx(1.0 - saving, abs=2.0 * DISCRETISATION)


def test_nothing_costs_nothing() -> None:
    """No parts, no epsilon."""
    assert composed_epsilon(delta=1e-6) == 0.0


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("delta", {"delta": 0.0}),
        ("delta", {"delta": 1.0}),
        ("gaussian_s", {"gaussian_s": [1.0, -1.0], "delta": 0.1}),
        ("gaussian_s", {"gaussian_s": [math.nan], "delta": 0.1}),
        ("pure_epsilons", {"pure_epsilons": [0.0], "delta": 0.1}),
        ("pure_epsilons", {"pure_epsilons": [True], "delta": 0.1}),
    ],
)
def test_bad_parts_are_refused(field: str, bad: dict[str, object]) -> None:
    """Each part and the delta are checked by name."""
    with pytest.raises(InvalidParameterError) as caught:
        composed_epsilon(**bad)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.field == field
