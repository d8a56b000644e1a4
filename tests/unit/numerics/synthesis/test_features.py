"""The standard deviations of moments that are read from noisy sums."""

import numpy as np

from wattveil.numerics.synthesis.noisy_moments import moment_width, moments_std, read_moments


def test_noise_has_the_stated_standard_deviation() -> None:
    """Noise of scale 2 on every feature gives moments with the stated standard deviations."""
    r, radius, std = 5, 3.0, 2.0
    noise = np.random.default_rng(5).normal(0.0, std, (40_000, moment_width(r)))
    sums, seconds = read_moments(noise, radius, r)
    sums_std, seconds_std = moments_std(std, radius, r)
    np.testing.assert_allclose(sums.std(axis=0), sums_std, rtol=0.02)
    np.testing.assert_allclose(seconds.std(axis=0), seconds_std, rtol=0.02)
