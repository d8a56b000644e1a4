"""The strategy of a series: minimum variance per budget, allowances, canonical text."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.series.strategy import (
    STEP,
    Strategy,
    design_membership_strategy,
    design_strategy,
    has_trend,
    offset_covariance,
    slope_weights,
)


def price(innovations: Floats, covariance: Floats, weights: Floats) -> float:
    """tr(W (B'B)^-1) tr(B Sigma B')."""
    inverse = np.linalg.inv(innovations)
    noise = np.trace(weights @ inverse @ inverse.T)
    return float(noise * np.trace(innovations @ covariance @ innovations.T))


def error_weights(horizon: int, periods_per_year: int, slope_weight: float) -> Floats:
    """I + lambda u u' / |u|^2."""
    slope = slope_weights(horizon=horizon, periods_per_year=periods_per_year)
    return np.eye(horizon) + slope_weight * np.outer(slope, slope) / (slope @ slope)


@pytest.mark.parametrize(("horizon", "slope_weight"), [(2, 5.0), (4, 0.0), (5, 20.0)])
def test_no_triangular_matrix_has_less_variance(horizon: int, slope_weight: float) -> None:
    """A general-purpose optimiser from random starts ends at the closed form, never below it."""
    strategy = design_strategy(horizon=horizon, periods_per_year=1, slope_weight=slope_weight)
    covariance = offset_covariance(horizon=horizon, periods_per_year=1)
    weights = error_weights(horizon, 1, slope_weight)
    lower = np.tril_indices(horizon)

    def of_entries(entries: Floats) -> float:
        factor = np.zeros((horizon, horizon))
        factor[lower] = entries
        return float(np.log(price(factor, covariance, weights)))

    rng = np.random.default_rng(27)
    starts = [np.eye(horizon)[lower] + rng.normal(0.0, 0.2, lower[0].size) for _ in range(3)]
    found = min(minimize(of_entries, start, method="BFGS").fun for start in starts)
    own = np.log(price(strategy.innovations, covariance, weights))
    assert own == pytest.approx(found, abs=1e-6)
    worse = strategy.innovations + np.tril(np.full((horizon, horizon), 0.05))
    assert np.log(price(worse, covariance, weights)) > own + 1e-5


def test_the_strategy_gains_over_independent_sums() -> None:
    """Twenty quarters: levels gain about 1.7, the slope about 3, over B = I at the same budget."""
    covariance = offset_covariance(horizon=20, periods_per_year=4)
    slope = slope_weights(horizon=20, periods_per_year=4)
    strategy = design_strategy(horizon=20, periods_per_year=4)
    # Allowances of sum 1: variance per budget is that of L, and T times 1 for B = I.
    noise = strategy.feedback @ strategy.feedback.T
    assert np.trace(strategy.innovations @ covariance @ strategy.innovations.T) == pytest.approx(1)
    assert 20.0 / np.diagonal(noise).mean() == pytest.approx(1.65, abs=0.15)
    assert 20.0 * (slope @ slope) / (slope @ noise @ slope) == pytest.approx(2.9, abs=0.3)


def test_a_customer_of_the_guessed_kind_keeps_the_allowances() -> None:
    """Its expected squared contribution in each period is the increment of that period."""
    strategy = design_strategy(horizon=12, periods_per_year=12)
    covariance = offset_covariance(horizon=12, periods_per_year=12)
    rng = np.random.default_rng(28)
    offsets = rng.multivariate_normal(np.zeros(12), covariance, size=100_000)
    added = np.square(offsets @ strategy.innovations.T).mean(axis=0)
    assert added == pytest.approx(strategy.increments, rel=0.03)
    assert strategy.allowances[-1] == 1.0


def test_one_interval_of_membership_is_never_clipped() -> None:
    """Every interval stays within every allowance, and one of them reaches the last."""
    strategy = design_membership_strategy(horizon=9, periods_per_year=4)
    reached = 0.0
    for first in range(9):
        for last in range(first, 9):
            member = (np.arange(9) >= first) & (np.arange(9) <= last)
            used = np.cumsum(np.square(strategy.innovations @ member))
            assert (used <= strategy.allowances + 1e-7).all()
            reached = max(reached, used[-1])
    assert reached == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("horizon", [1, 8, 20, 240])
def test_a_strategy_is_its_text(horizon: int) -> None:
    """Reading the text returns the same numbers; one other digit has another hash."""
    strategy = design_strategy(horizon=horizon, periods_per_year=4)
    again = Strategy.from_text(strategy.text)
    assert (again.feedback == strategy.feedback).all()
    assert (again.increments == strategy.increments).all()
    assert again.sha256 == strategy.sha256
    other = strategy.feedback.copy()
    other[-1, 0] += STEP
    assert replace(strategy, feedback=other).sha256 != strategy.sha256


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\nhorizon 3", "\nhorizon 4"),
        ("strategy 1", "strategy 2"),
        ("horizon 3", "horizon  3"),
        ("horizon 3", "horizon three"),
        ("horizon 3\n", "horizon 3\n+"),
        ("horizon 3\n", "horizon 3\n1\n"),
    ],
)
def test_another_text_is_refused(old: str, new: str) -> None:
    """One strategy has one text."""
    text = design_strategy(horizon=3, periods_per_year=1).text
    for other in (text.replace(old, new, 1), text[:-1]):
        with pytest.raises(InvalidParameterError, match="strategy"):
            Strategy.from_text(other)


def test_a_strategy_is_checked() -> None:
    """Triangular, a positive diagonal, increments that do not fall, numbers on the grid."""
    good = design_strategy(horizon=3, periods_per_year=1)
    eye = np.eye(3)
    with pytest.raises(InvalidParameterError, match="3 rows and columns"):
        replace(good, feedback=np.eye(4))
    with pytest.raises(InvalidParameterError, match="lower triangular"):
        replace(good, feedback=np.ones((3, 3)))
    with pytest.raises(InvalidParameterError, match="diagonal above 0"):
        replace(good, feedback=eye * np.array([1.0, 0.0, 1.0]))
    with pytest.raises(InvalidParameterError, match="at least 0"):
        replace(good, increments=np.array([1.0, -0.25, 0.25]))
    with pytest.raises(InvalidParameterError, match="first period"):
        replace(good, increments=np.array([0.0, 0.5, 0.5]))
    with pytest.raises(InvalidParameterError, match=r"multiples of 2\^-30"):
        replace(good, feedback=eye * np.pi)
    with pytest.raises(InvalidParameterError, match="horizon"):
        design_strategy(horizon=241, periods_per_year=12)
    with pytest.raises(InvalidParameterError, match="slope_weight"):
        design_strategy(horizon=8, periods_per_year=4, slope_weight=-1.0)


def test_a_slope_is_blind_to_seasons_from_two_years_on() -> None:
    """It measures the change per year of a line, whatever repeats each year."""
    years = np.arange(20) / 4
    season = np.tile([0.3, -0.1, 0.7, 0.0], 5)
    slope = slope_weights(horizon=20, periods_per_year=4)
    assert slope @ (2.0 + 0.25 * years + season) == pytest.approx(0.25)
    assert not has_trend(horizon=7, periods_per_year=4)
    short = slope_weights(horizon=7, periods_per_year=4)
    assert short @ (2.0 + 0.25 * years[:7]) == pytest.approx(0.25)
    plain = design_strategy(horizon=7, periods_per_year=4, slope_weight=0.0)
    assert design_strategy(horizon=7, periods_per_year=4).sha256 == plain.sha256
