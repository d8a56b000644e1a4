"""Moments shrunk towards priors: exact without noise, the prior without data, better between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattveil.arrays import Floats
from wattveil.numerics.synthesis.noisy_moments import ClusterMoments, NoisyMoments, read_clusters

R = 6


def some_covariances(
    n_clusters: int, generator: np.random.Generator, *, spread: float = 0.15
) -> Floats:
    """Return covariances of about the prior's size, each its own, none nearly flat."""
    factors = np.eye(R) + spread * generator.normal(size=(n_clusters, R, R))
    return factors @ factors.transpose(0, 2, 1)


def believed(
    means: Floats,
    covariances: Floats,
    *,
    customers: float,
    noise: float,
    stated: float | None = None,
    seed: int = 0,
) -> ClusterMoments:
    """Return what is read from these moments with noise on the sums.

    ``stated`` is the stated standard deviation, if it differs from that of the noise.
    """
    generator = np.random.default_rng(seed)
    n_clusters = len(means)
    upper = np.triu(generator.normal(0.0, noise, (n_clusters, R, R)))
    second_noise = upper + np.triu(upper, 1).transpose(0, 2, 1)
    seconds = customers * (covariances + means[:, :, None] * means[:, None, :])
    known = noise if stated is None else stated
    noisy = NoisyMoments(
        counts=np.full(n_clusters, customers),
        counts_std=np.ones(n_clusters),
        sums=customers * means + generator.normal(0.0, noise, means.shape),
        sums_std=np.full(R, known),
        seconds=seconds + second_noise,
        seconds_std=np.full((R, R), known),
    )
    return read_clusters(noisy, np.zeros_like(means))


def test_no_noise_and_many_customers_give_the_true_moments() -> None:
    """Without noise there is no shrinkage."""
    generator = np.random.default_rng(1)
    means, covariances = 0.3 * generator.normal(size=(3, R)), some_covariances(3, generator)
    found = believed(means, covariances, customers=1e8, noise=0.0)
    np.testing.assert_allclose(found.means, means, atol=1e-5)
    np.testing.assert_allclose(found.covariances, covariances, atol=1e-4)


def test_pure_noise_gives_the_prior() -> None:
    """Sums of noise alone give the prior: means as expected, covariances the identity."""
    generator = np.random.default_rng(2)
    means, covariances = generator.normal(size=(4, R)), some_covariances(4, generator)
    found = believed(means, covariances, customers=10.0, noise=1e4)
    np.testing.assert_allclose(found.means, np.zeros((4, R)), atol=1e-3)
    np.testing.assert_allclose(found.covariances, np.tile(np.eye(R), (4, 1, 1)), atol=0.02)
    np.testing.assert_allclose(found.levels, 1.0, atol=0.01)


def test_unstated_noise_is_taken_as_signal() -> None:
    """Converse of the test above: with a stated noise of 0, estimates follow the noise."""
    found = believed(np.zeros((2, R)), some_covariances(2, np.random.default_rng(3)),
                     customers=10.0, noise=1e4, stated=0.0)  # fmt: skip
    assert np.abs(found.covariances - np.eye(R)).max() > 10.0


@pytest.mark.parametrize("noise", [10.0, 30.0, 100.0])
def test_better_than_the_noise_and_than_the_prior(noise: float) -> None:
    """For 100 normal customers per cluster the mean squared error is below both, at every noise."""
    errors = {"ours": 0.0, "raw": 0.0, "prior": 0.0}
    for seed in range(30):
        generator = np.random.default_rng(100 + seed)
        truth = some_covariances(4, generator, spread=0.25)
        customers = [generator.multivariate_normal(np.zeros(R), one, 100) for one in truth]
        seen = np.array([rows.T @ rows / len(rows) for rows in customers])
        raw = believed(np.zeros((4, R)), seen, customers=100.0, noise=noise, stated=0.0, seed=seed)
        ours = believed(np.zeros((4, R)), seen, customers=100.0, noise=noise, seed=seed)
        for name, guess in {
            "ours": ours.covariances,
            "raw": raw.covariances,
            "prior": np.eye(R),
        }.items():
            errors[name] += float(np.square(guess - truth).mean())
    assert errors["ours"] < min(errors["raw"], errors["prior"])


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    noise=st.sampled_from([0.0, 1.0, 1e3, 1e9]),
    customers=st.sampled_from([0.0, 1.0, 50.0, 1e6]),
)
def test_always_positive(seed: int, noise: float, customers: float) -> None:
    """For any noise, and without customers: finite, symmetric, positive definite."""
    generator = np.random.default_rng(seed)
    seconds = generator.normal(0.0, noise, (2, R, R))
    noisy = NoisyMoments(
        counts=np.array([customers, -5.0]),
        counts_std=np.full(2, 2.0),
        sums=generator.normal(0.0, noise, (2, R)),
        sums_std=np.full(R, noise),
        seconds=seconds + seconds.transpose(0, 2, 1),
        seconds_std=np.full((R, R), noise),
    )
    found = read_clusters(noisy, np.zeros((2, R)))
    assert np.isfinite(found.means).all()
    np.testing.assert_allclose(found.covariances, found.covariances.transpose(0, 2, 1), atol=1e-9)
    assert np.linalg.eigvalsh(found.covariances).min() > 0.0
    assert (found.levels > 0.0).all()
