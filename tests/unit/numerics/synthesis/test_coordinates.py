"""Coordinates around centroids: inverse transform, means by quadrature, prior covariance."""

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.numerics.synthesis.coordinates import Coordinates, TransformName

ALPHA_KW = 15.0
TRANSFORMS: list[TransformName] = ["asinh", "log"]
both_transforms = pytest.mark.parametrize("transform", TRANSFORMS)


def around(
    centroids: Floats, transform: TransformName = "asinh", *, n_days: int = 1
) -> Coordinates:
    """Return coordinates around centroids."""
    return Coordinates(centroids=centroids, transform=transform, alpha_kw=ALPHA_KW, n_days=n_days)


@pytest.fixture
def centroids() -> Floats:
    """Return a home, one with panels, and an empty one."""
    hours = np.arange(24)
    home = 0.4 + 0.3 * np.cos(2.0 * np.pi * (hours - 19) / 24)
    return np.array([home, home - 2.0 * np.exp(-(((hours - 12) / 3.0) ** 2)), np.zeros(24)])


@both_transforms
def test_loads_of_extreme_offsets_are_finite(centroids: Floats, transform: TransformName) -> None:
    """The inverse transform is finite far out, also for the empty cluster."""
    to = around(centroids, transform)
    assert np.isfinite([to.backward(np.array([-1e9, 0.0, 1e9]), k) for k in range(3)]).all()


def test_the_rule_of_row_functions_is_that_of_the_coordinates(centroids: Floats) -> None:
    """Whether the transform is the logarithm, its alpha, and the scale of each cluster."""
    for transform in TRANSFORMS:
        to = around(centroids, transform)
        is_log, alpha_kw, scales = to.rule
        assert (is_log, alpha_kw) == (transform == "log", ALPHA_KW)
        assert np.array_equal(scales, to.scales)


@both_transforms
@pytest.mark.parametrize("level", [0.5, 1.0, 2.0])
def test_mean_offsets_keep_the_mean_load(
    centroids: Floats, transform: TransformName, level: float
) -> None:
    """By Gauss-Hermite quadrature, load with that mean and variance is the centroid on average."""
    to = around(centroids, transform)
    means = to.centres + to.mean_offsets(np.full(3, level)) @ to.curves
    points, weights = np.polynomial.hermite_e.hermegauss(150)
    std = np.sqrt(level * np.diag(to.prior))
    for k, centroid in enumerate(centroids):
        y = means[k][:, None] + std[:, None] * points
        mean_load = to.backward(y, k) @ weights / weights.sum()
        np.testing.assert_allclose(mean_load, centroid, atol=1e-4)  # asinh has a corner at 0
        uncorrected = to.backward(to.centres[k][:, None] + std[:, None] * points, k)
        if k == 0 and transform == "asinh":  # without the correction this would fail
            assert np.abs(uncorrected @ weights / weights.sum() - centroid).max() > 1e-2


@pytest.mark.parametrize(("slots", "n_days"), [(1, 1), (2, 1), (24, 1), (24, 2), (24, 7), (96, 1)])
def test_prior_is_a_covariance(slots: int, n_days: int) -> None:
    """Symmetric, positive definite, and the coordinates and the rest make it up."""
    to = around(np.ones((1, slots * n_days)), n_days=n_days)
    assert np.array_equal(to.prior, to.prior.T)
    assert np.linalg.eigvalsh(to.prior).min() > 0.0
    np.testing.assert_allclose(to.curves.T @ to.curves + to.rest, to.prior, atol=1e-12)
    assert to.colour[0] == 1.0
    assert (np.diff(to.colour) <= 1e-12).all()
    assert to.typical_length == pytest.approx(np.linalg.norm(to.colour))
