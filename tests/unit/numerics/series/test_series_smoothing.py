"""Levels and trends of load by group from the sums of a series."""

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.load_basis import Calendar
from wattveil.numerics.series.smoothing import (
    FirstEstimate,
    SeriesCounts,
    SeriesSums,
    period_means,
    smooth_counts,
    smooth_means,
    trend,
)
from wattveil.numerics.series.strategy import (
    design_membership_strategy,
    design_strategy,
    slope_weights,
)

CALENDAR = Calendar(n_days=1, n_slots=24, n_coordinates=24)
PERIODS, GROUPS, RADII = 12, 2, np.array([1.0, 1.5])
RELEASED = np.ones(PERIODS, dtype=np.bool_)
CUSTOMERS = np.array([[400.0] * PERIODS, [150.0] * PERIODS])
STRATEGY = design_strategy(horizon=PERIODS, periods_per_year=4)


def released_sums(truth: Floats, rng: np.random.Generator, *, std: float) -> SeriesSums:
    """Sums of unclipped customers: B N (m - c) / R plus noise; centres 0.1 off."""
    centres = truth.transpose(2, 0, 1) + 0.1
    offsets = (CUSTOMERS.T[:, :, None] * -0.1 / RADII[:, None]) * np.ones((1, 1, 24))
    sums = np.tensordot(STRATEGY.innovations, offsets, axes=1)
    return SeriesSums(
        strategy=STRATEGY,
        periods_per_year=4,
        released=RELEASED,
        sums=sums + rng.normal(0.0, std, sums.shape),
        sums_std=std,
        centres=centres,
        radii_kw=RADII,
    )


def curves(rng: np.random.Generator, *, slope: float) -> Floats:
    """True curves (G, r, T) with a season and a trend of the level."""
    years = np.arange(PERIODS) / 4
    mean = rng.normal(0.0, 0.3, (GROUPS, 24, 1)) * CALENDAR.spectrum[:, None] + np.zeros(PERIODS)
    mean[:, 0] += 0.5 + slope * years + 0.1 * np.cos(2.0 * np.pi * years)
    return mean


def test_unfiltered_means_undo_the_strategy() -> None:
    """Without noise they are the true means, whatever the centres were."""
    rng = np.random.default_rng(4)
    truth = curves(rng, slope=0.05)
    means = period_means(released_sums(truth, rng, std=0.0), customers=CUSTOMERS)
    assert means.mean == pytest.approx(truth)


def test_the_noise_of_means_is_that_of_many_releases() -> None:
    """The covariance over periods, from repeated draws; a count twice as large halves it."""
    rng = np.random.default_rng(5)
    truth = curves(rng, slope=0.0)
    draws = [
        period_means(released_sums(truth, rng, std=2.0), customers=CUSTOMERS).mean - truth
        for _ in range(300)
    ]
    factor = period_means(released_sums(truth, rng, std=2.0), customers=CUSTOMERS).factor
    for group in range(GROUPS):
        sample = np.concatenate([draw[group] for draw in draws])
        assert np.cov(sample.T, bias=True) == pytest.approx(
            factor[group] @ factor[group].T, abs=0.1 * np.square(factor[group]).sum(axis=1).max()
        )
    half = period_means(released_sums(truth, rng, std=2.0), customers=2.0 * CUSTOMERS).factor
    assert half == pytest.approx(factor / 2.0)


def test_a_skipped_period_is_interpolated() -> None:
    """Its sum is no observation; the others are unbiased without it."""
    rng = np.random.default_rng(6)
    truth = curves(rng, slope=0.0)
    there = RELEASED.copy()
    there[5] = False
    offsets = (CUSTOMERS.T[:, :, None] * -0.1 / RADII[:, None]) * np.ones((1, 1, 24))
    rows = np.flatnonzero(there)
    # Without the period, customers owe the rest of the feedback: L y = X in the other periods.
    own = np.linalg.solve(STRATEGY.feedback[np.ix_(rows, rows)], offsets[rows].reshape(11, -1))
    sums = np.zeros((PERIODS, GROUPS, 24))
    sums[rows] = own.reshape(11, GROUPS, 24)
    series = SeriesSums(
        strategy=STRATEGY,
        periods_per_year=4,
        released=there,
        sums=sums,
        sums_std=0.1,
        centres=truth.transpose(2, 0, 1) + 0.1,
        radii_kw=RADII,
    )
    assert period_means(series, customers=CUSTOMERS).mean == pytest.approx(truth[:, :, there])
    first = first_estimate(truth)
    found = smooth_means(series, first, customers=CUSTOMERS, calendar=CALENDAR)
    assert found.mean.shape == (GROUPS * 24, PERIODS + 1)
    level = found.mean.reshape(GROUPS, 24, -1)[:, 0, 5]
    assert level == pytest.approx(truth[:, 0, 5], abs=0.05)


def first_estimate(truth: Floats) -> FirstEstimate:
    """An estimate of the first period, 5 % off."""
    return FirstEstimate(
        mean=1.05 * truth[:, :, 0],
        variance=np.full((GROUPS, 24), 0.03**2),
        typical_kw=np.array([0.5, 0.6]),
        customers=CUSTOMERS[:, 0],
        customers_std=np.array([5.0, 5.0]),
    )


def test_the_filter_has_less_error_than_the_means() -> None:
    """Levels at the end of the series, over repeated releases."""
    rng = np.random.default_rng(7)
    raw, smooth = [], []
    for _ in range(10):
        truth = curves(rng, slope=0.02)
        series = released_sums(truth, rng, std=6.0)
        means = period_means(series, customers=CUSTOMERS).mean
        found = smooth_means(series, first_estimate(truth), customers=CUSTOMERS, calendar=CALENDAR)
        raw.append(means - truth)
        smooth.append(found.mean.reshape(GROUPS, 24, -1)[:, :, :PERIODS] - truth)
    assert np.square(smooth).mean() < 0.5 * np.square(raw).mean()


def test_trends_are_unbiased_and_their_bands_cover() -> None:
    """Slopes of the level, over repeated releases; noise of twice the stated size breaks it."""
    rng = np.random.default_rng(8)
    weights = np.eye(24)[0]
    for stated, low, high in ((4.0, 0.93, 0.97), (2.0, 0.0, 0.8)):
        inside, slopes = [], []
        for _ in range(400):
            truth = curves(rng, slope=0.03)
            series = released_sums(truth, rng, std=4.0)
            means = period_means(series, customers=CUSTOMERS)
            found = trend(
                means._replace(factor=means.factor * stated / 4.0),
                released=RELEASED,
                periods_per_year=4,
                weights=weights,
                clipping_kw=np.zeros(GROUPS),
            )
            below, above = found.band
            inside.append((below <= 0.03) & (above >= 0.03))
            slopes.append(found.slope)
        assert low < np.mean(inside) < high
        assert np.mean(slopes, axis=0) == pytest.approx(0.03, abs=0.004)


def test_a_trend_needs_two_years() -> None:
    """Below, a season looks like a trend."""
    rng = np.random.default_rng(9)
    means = period_means(released_sums(curves(rng, slope=0.0), rng, std=1.0), customers=CUSTOMERS)
    with pytest.raises(InvalidParameterError, match="at least two years, 24 periods"):
        trend(
            means,
            released=RELEASED,
            periods_per_year=12,
            weights=np.eye(24)[0],
            clipping_kw=np.zeros(GROUPS),
        )


def test_a_trend_skips_what_was_skipped() -> None:
    """The slope of the released periods alone, with the same meaning."""
    years = np.arange(PERIODS) / 4
    released = years != 1.25
    slope = slope_weights(horizon=PERIODS, periods_per_year=4, released=released)
    season = np.tile([0.2, 0.0, -0.3, 0.1], 3)
    assert slope @ (0.4 * years + season)[released] == pytest.approx(0.4)


def test_clipping_widens_a_trend() -> None:
    """Its standard deviation is added to that of the noise; 2.8 of both are visible."""
    rng = np.random.default_rng(10)
    means = period_means(released_sums(curves(rng, slope=0.0), rng, std=1.0), customers=CUSTOMERS)
    parts = {"released": RELEASED, "periods_per_year": 4, "weights": np.eye(24)[0]}
    plain = trend(means, **parts, clipping_kw=np.zeros(GROUPS))
    wide = trend(means, **parts, clipping_kw=np.full(GROUPS, 0.3))
    assert wide.std == pytest.approx(np.hypot(plain.std, 0.3))
    assert wide.smallest_visible == pytest.approx(2.8 * wide.std, rel=1e-3)


def test_numbers_of_customers_are_filtered() -> None:
    """Slow changes of membership are followed; the bands cover."""
    strategy = design_membership_strategy(horizon=PERIODS, periods_per_year=4)
    rng = np.random.default_rng(11)
    inside, errors, plain = [], [], []
    for _ in range(100):
        steps = rng.normal(0.0, 4.0, (GROUPS, PERIODS))
        truth = np.array([[400.0], [150.0]]) + np.cumsum(steps, axis=1)
        sums = strategy.innovations @ truth.T + rng.normal(0.0, 15.0, (PERIODS, GROUPS))
        counts = SeriesCounts(
            strategy=strategy, periods_per_year=4, released=RELEASED, sums=sums, sums_std=15.0
        )
        first = truth[:, 0] + rng.normal(0.0, 20.0, GROUPS)
        found = smooth_counts(counts, first=first, first_std=np.full(GROUPS, 20.0))
        errors.append(found.mean[:, :-1] - truth)
        plain.append((strategy.feedback @ sums).T - truth)
        inside.append(np.abs(errors[-1]) <= 1.96 * found.std[:, :-1])
    assert 0.9 < np.mean(inside) < 0.99
    assert np.square(errors).mean() < 0.5 * np.square(plain).mean()
