"""Margins of the slots: bounded features, a map that never turns back, a known skew found again."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from wattveil.synthesis import tuning
from wattveil.synthesis.margins import (
    expected_sizes,
    margin_features,
    margin_width,
    quantile_maps,
    read_margins,
    waves,
)

Floats = NDArray[np.float64]

SHAPE = expected_sizes(24).shape
Z = np.linspace(-6.0, 6.0, 1201)


@pytest.mark.parametrize("n_slots", [1, 2, 3, 4, 5, 24, 96])
def test_waves_are_orthonormal(n_slots: int) -> None:
    """The curves of a day have length 1 and no part of one another."""
    curves = waves(n_slots)
    np.testing.assert_allclose(curves @ curves.T, np.eye(len(curves)), atol=1e-12)
    assert margin_width(n_slots) == tuning.COSINES * len(curves) == expected_sizes(n_slots).size


@settings(deadline=None)  # the first call compiles
@given(
    rows=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 4), st.just(48)), elements=st.floats(-1e12, 1e12)
    ),
    n_days=st.sampled_from([1, 2]),
)
def test_nobody_is_longer_than_one(rows: Floats, n_days: int) -> None:
    """Whatever the scores, features are finite and of length 1 at most."""
    features = margin_features(rows, n_days)
    assert np.isfinite(features).all()
    assert (np.linalg.norm(features, axis=1) <= 1.0 + 1e-12).all()


def test_features_by_the_formula() -> None:
    """The mean over the slots of b_w(h) sqrt(d) sqrt(2) cos(pi j v_h), read back without noise."""
    rows = np.random.default_rng(1).normal(0.2, 1.1, (500, 24))
    sums = margin_features(rows, 1).sum(axis=0)
    v = stats.norm.cdf(rows)
    j = np.arange(1, tuning.COSINES + 1)
    cosines = math.sqrt(2.0) * np.cos(math.pi * j[:, None, None] * v)
    exact = np.einsum("jih,wh->jw", cosines, waves(24)) / (500 * math.sqrt(24))
    # A customer of no noise is believed, but for the sampling error of so many customers.
    found = read_margins(sums, std=0.0, customers=500.0, n_slots=24)
    weight = expected_sizes(24) ** 2 / (expected_sizes(24) ** 2 + 1.0 / 500.0)
    np.testing.assert_allclose(found, weight * exact, atol=1e-9)


def test_noise_alone_is_not_believed() -> None:
    """With noise far above what a margin can be the map stays straight; untold, it does not."""
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
    sums = margin_features(skewed, 1).sum(axis=0)
    coefficients = read_margins(sums, std=0.0, customers=4000.0, n_slots=24)
    chances = np.linspace(0.02, 0.98, 49)
    z = stats.norm.ppf(chances)
    truth = (law.ppf(chances) - law.mean()) / law.std()
    ours = np.abs(quantile_maps(coefficients, 24, z) - truth).mean()
    assert ours < 0.25 * np.abs(z - truth).mean()
