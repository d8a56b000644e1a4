"""What a customer adds to first and second moments: never longer than 1, and read back exactly."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from wattveil.synthesis import tuning
from wattveil.synthesis.features import (
    moment_features,
    moment_width,
    moments_std,
    read_moments,
)

Floats = NDArray[np.float64]

finite_scores = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 30)),
    elements=st.floats(-1e12, 1e12, allow_subnormal=False),
)


@settings(deadline=None)  # the first call compiles
@given(scores=finite_scores, radius=st.floats(1e-3, 1e3))
def test_nobody_is_longer_than_one(scores: Floats, radius: float) -> None:
    """By the formula p |a|^2 + (1 - p) |a|^4, and never above 1 but for rounding."""
    lengths = np.linalg.norm(moment_features(scores, radius), axis=1)
    inside = np.minimum(np.linalg.norm(scores, axis=1) / radius, 1.0)
    p = tuning.MEAN_PART
    np.testing.assert_allclose(
        lengths, np.sqrt(p * inside**2 + (1 - p) * inside**4), rtol=1e-9, atol=1e-100
    )
    assert (lengths <= 1.0 + 1e-12).all()


@pytest.mark.parametrize("n_coordinates", [1, 2, 24, 40])
def test_sums_are_read_back(n_coordinates: int) -> None:
    """Without noise the sums of a and of a a' come back, as NumPy adds them up."""
    scores = np.random.default_rng(4).normal(size=(300, n_coordinates))
    radius = 0.8 * math.sqrt(n_coordinates)
    features = moment_features(scores, radius)
    assert features.shape == (300, moment_width(n_coordinates))
    halves = np.array([features[:100].sum(axis=0), features[100:].sum(axis=0)])
    sums, seconds = read_moments(halves, radius, n_coordinates)
    clipped = scores * np.minimum(1.0, radius / np.linalg.norm(scores, axis=1))[:, None]
    assert not np.array_equal(clipped, scores)
    for i, part in enumerate((clipped[:100], clipped[100:])):
        np.testing.assert_allclose(sums[i], part.sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(seconds[i], part.T @ part, atol=1e-9)


def test_noise_is_as_large_as_said() -> None:
    """Noise of scale 2 on every feature, read back: the standard deviations that are believed."""
    r, radius, std = 5, 3.0, 2.0
    noise = np.random.default_rng(5).normal(0.0, std, (40_000, moment_width(r)))
    sums, seconds = read_moments(noise, radius, r)
    sums_std, seconds_std = moments_std(std, radius, r)
    np.testing.assert_allclose(sums.std(axis=0), sums_std, rtol=0.02)
    np.testing.assert_allclose(seconds.std(axis=0), seconds_std, rtol=0.02)
