"""Margins of the slots: orthonormal curves, monotone quantile maps, a known skew recovered."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from wattveil.arrays import Floats
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.noisy_moments import (
    expected_sizes,
    margin_curves,
    margin_width,
    quantile_maps,
    read_margins,
    waves,
)
from wattveil.release.rows.synthesis_features import cosine_features

SHAPE = expected_sizes(24).shape
Z = np.linspace(-6.0, 6.0, 1201)


@pytest.mark.parametrize("n_slots", [1, 2, 3, 4, 5, 24, 96])
def test_waves_are_orthonormal(n_slots: int) -> None:
    """The curves of a day have length 1 and no part of one another."""
    curves = waves(n_slots)
    np.testing.assert_allclose(curves @ curves.T, np.eye(len(curves)), atol=1e-12)
    assert (
        margin_width(n_slots)
        == synthesis_tuning.COSINES * len(curves)
        == expected_sizes(n_slots).size
    )


@pytest.mark.parametrize(("n_slots", "n_days"), [(24, 1), (24, 2), (4, 8)])
def test_curves_of_several_days_are_repeated(n_slots: int, n_days: int) -> None:
    """The curves of one day, side by side, orthonormal again; one weight for each coefficient."""
    curves, weights = margin_curves(n_slots, n_days)
    np.testing.assert_allclose(curves @ curves.T, np.eye(len(curves)), atol=1e-12)
    assert weights.size == margin_width(n_slots)
    for day in np.split(curves, n_days, axis=1):
        np.testing.assert_allclose(day * np.sqrt(n_days), waves(n_slots))


def test_noise_alone_leaves_the_map_straight() -> None:
    """With stated noise far above any margin the map stays straight; if unstated, it bends."""
    noise = np.random.default_rng(2).normal(0.0, 1e4, margin_width(24))
    told = read_margins(noise, std=1e4, customers=100.0, n_slots=24)
    untold = read_margins(noise, std=0.0, customers=100.0, n_slots=24)
    assert np.abs(quantile_maps(told, 24, Z) - Z).max() < 0.05
    assert np.abs(quantile_maps(untold, 24, Z) - Z).max() > 0.5


def test_zero_coefficients_change_nothing() -> None:
    """The map is the identity, also in the tails."""
    np.testing.assert_allclose(
        quantile_maps(np.zeros(SHAPE), 24, Z), np.tile(Z, (24, 1)), atol=1e-9
    )


@settings(deadline=None)  # the first call compiles
@given(coefficients=hnp.arrays(np.float64, SHAPE, elements=st.floats(-1.0, 1.0)))
def test_map_is_monotone(coefficients: Floats) -> None:
    """A larger score is a larger load, whatever the noise did to the coefficients."""
    maps = quantile_maps(coefficients, 24, Z)
    assert np.isfinite(maps).all()
    assert (np.diff(maps, axis=1) >= -1e-12).all()


def test_known_skew_is_found_again() -> None:
    """Customers with standardised gamma slots: their quantiles come back, normal ones do not."""
    law = stats.gamma(3.0)
    generator = np.random.default_rng(3)
    skewed = (law.rvs((4000, 24), random_state=generator) - law.mean()) / law.std()
    sums = cosine_features(skewed, margin_curves(24, 1)).sum(axis=0)
    coefficients = read_margins(sums, std=0.0, customers=4000.0, n_slots=24)
    chances = np.linspace(0.02, 0.98, 49)
    z = stats.norm.ppf(chances)
    truth = (law.ppf(chances) - law.mean()) / law.std()
    ours = np.abs(quantile_maps(coefficients, 24, z) - truth).mean()
    assert ours < 0.25 * np.abs(z - truth).mean()
