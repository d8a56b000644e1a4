"""Expected errors of a series, and its radii."""

import math

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.load_basis import Calendar
from wattveil.numerics.series.centres import LENGTH_EDGES, SeriesRadii, choose_radii
from wattveil.numerics.series.planning import LoadPlan, plan_load
from wattveil.numerics.series.strategy import design_strategy, slope_weights

CALENDAR = Calendar(n_days=1, n_slots=24, n_coordinates=24)


def planned(*, customers: float, rho: float = 0.5, horizon: int = 20) -> LoadPlan:
    """The plan of one group."""
    return plan_load(
        strategy=design_strategy(horizon=horizon, periods_per_year=4),
        periods_per_year=4,
        rho=rho,
        customers=customers,
        typical_kw=0.5,
        calendar=CALENDAR,
    )


def test_more_customers_or_budget_show_more() -> None:
    """Errors fall with both; without clipping the trend's falls as 1 / n."""
    few, many, rich = (
        planned(customers=300),
        planned(customers=3000),
        planned(customers=300, rho=5.0),
    )
    assert (many.level_error < few.level_error).all()
    assert (rich.level_error < few.level_error).all()
    assert many.smallest_visible_kw < few.smallest_visible_kw
    assert few.level_error.shape == (20,)
    assert few.level_error[-1] < few.level_error[0]


def test_the_planned_trend_is_the_slope_of_the_noise() -> None:
    """Noise R / n sigma L, drawn many times and put through least squares; clipping apart."""
    strategy = design_strategy(horizon=12, periods_per_year=4)
    slope = slope_weights(horizon=12, periods_per_year=4)
    rng = np.random.default_rng(1)
    sigma = math.sqrt(1.0 / (2.0 * 0.5))
    noise = rng.normal(0.0, sigma, (20_000, 12)) @ strategy.feedback.T
    drawn = float((noise @ slope).std()) * 1.0 / 100  # a radius of twice 0.5 kW
    clipping = SeriesRadii(
        radii_kw=np.array([1.0]), typical_kw=np.array([0.5]), customers=np.array([100.0])
    )
    expected = math.hypot(drawn, float(clipping.trend_clipping_kw(np.array([100.0]))[0]))
    assert planned(customers=100, horizon=12).trend_error_kw == pytest.approx(expected, rel=0.02)


def test_below_two_years_no_trend_is_planned() -> None:
    """Its error is infinite."""
    plan = planned(customers=300, horizon=7)
    assert math.isinf(plan.trend_error_kw)
    assert math.isinf(plan.smallest_visible_kw)
    assert np.isfinite(plan.level_error).all()
    with pytest.raises(InvalidParameterError, match="customers"):
        planned(customers=0.0)


def offsets_histogram(customers: int, median: float, rng: np.random.Generator) -> Floats:
    """Log-normal lengths in the cells of the query."""
    lengths = median * np.exp(rng.normal(0.0, 0.5, customers))
    return np.bincount(np.searchsorted(LENGTH_EDGES, lengths), minlength=21).astype(np.float64)


def test_radii_follow_the_lengths_and_are_similar_in_kw() -> None:
    """Longer offsets have wider radii; a small home's radius is near that of a large one."""
    rng = np.random.default_rng(2)
    typical, customers = np.array([0.3, 0.6]), np.array([600.0, 600.0])

    def radii(median: float, number: Floats = customers) -> Floats:
        lengths = offsets_histogram(1200, median, rng) + rng.normal(0.0, 5.0, 21)
        return choose_radii(
            lengths,
            lengths_std=5.0,
            typical_kw=typical,
            customers=number,
            level_std=10.0,
        ).radii_kw

    short, long = radii(0.5), radii(1.0)
    assert (long > 1.4 * short).all()
    assert 1.0 < short[1] / short[0] < 1.7
    assert (radii(0.5, 100.0 * customers) > short).all()  # more signal clips less


def test_noise_alone_gives_a_radius() -> None:
    """An empty series has radii too, within the range of the histogram."""
    rng = np.random.default_rng(3)
    found = choose_radii(
        rng.normal(0.0, 50.0, 21),
        lengths_std=50.0,
        typical_kw=np.array([0.5]),
        customers=np.array([0.5]),
        level_std=30.0,
    )
    assert 0.5 * LENGTH_EDGES[0] <= found.radii_kw[0] <= 0.5 * LENGTH_EDGES[-1]
    assert found.level_clipping[0] > 0.0
