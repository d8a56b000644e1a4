"""Offsets from a centroid: there and back, means by quadrature, a prior that is a covariance."""

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.simulate import simulate_load_kw
from wattveil.synthesis.coordinates import Coordinates, TransformName, project

Floats = NDArray[np.float64]

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


@pytest.fixture
def rows() -> tuple[Floats, NDArray[np.int64]]:
    """Return customers, some of whom export, and clusters for them."""
    generator = np.random.default_rng(1)
    load_kw = simulate_load_kw(customers=200, seed=3) - generator.exponential(0.5, (200, 24))
    return load_kw, generator.integers(0, 3, 200)


@both_transforms
def test_there_and_back(
    centroids: Floats, rows: tuple[Floats, NDArray[np.int64]], transform: TransformName
) -> None:
    """The load that belongs to an offset is the load it came from."""
    to = around(centroids, transform)
    load_kw, labels = rows
    labels = labels % 2  # the empty cluster has a scale of nothing: everybody is far from it
    y = to.middles[labels] + to.offsets(load_kw, labels, to.middles)
    back = np.array([to.backward(one, k) for one, k in zip(y, labels, strict=True)])
    np.testing.assert_allclose(back, load_kw, atol=1e-9)


def test_transforms_are_the_formulas(centroids: Floats) -> None:
    """asinh(x / s), s = .7 rms, straight below; log(x + alpha) / q, q = 1.2 rms / (rms + alpha)."""
    rms = np.sqrt((centroids[0] ** 2).mean())
    load_kw, labels, zero = np.array([[-3.0, 0.0, 2.0] * 8]), np.array([0]), np.zeros((3, 24))
    as_asinh = around(centroids).offsets(load_kw, labels, zero)
    scaled = load_kw / (0.7 * rms)
    np.testing.assert_allclose(
        as_asinh, np.where(scaled > 0, np.arcsinh(scaled), scaled), rtol=1e-12
    )
    as_log = around(centroids, "log").offsets(load_kw, labels, zero)
    scale = 1.2 * rms / (rms + ALPHA_KW)
    np.testing.assert_allclose(as_log, np.log(load_kw + ALPHA_KW) / scale, rtol=1e-12)


@both_transforms
def test_no_load_has_an_infinite_offset(centroids: Floats, transform: TransformName) -> None:
    """Neither the empty cluster nor a load below -alpha or of 1e9 kW breaks the arithmetic."""
    to = around(centroids, transform)
    extreme = np.array([np.full(24, 1e9), np.full(24, -1e9), np.zeros(24)])
    assert np.isfinite(to.scores(extreme, np.array([0, 1, 2]))).all()
    assert np.isfinite(to.scores(extreme, np.array([2, 2, 2]))).all()
    assert np.isfinite([to.backward(np.array([-1e9, 0.0, 1e9]), k) for k in range(3)]).all()


@both_transforms
@pytest.mark.parametrize("level", [0.5, 1.0, 2.0])
def test_mean_offsets_keep_the_mean_load(
    centroids: Floats, transform: TransformName, level: float
) -> None:
    """By Gauss-Hermite quadrature, load with that mean and variance is the centroid on average."""
    to = around(centroids, transform)
    means = to.middles + to.mean_offsets(np.full(3, level)) @ to.curves
    points, weights = np.polynomial.hermite_e.hermegauss(150)
    std = np.sqrt(level * np.diag(to.prior))
    for k, centroid in enumerate(centroids):
        y = means[k][:, None] + std[:, None] * points
        mean_load = to.backward(y, k) @ weights / weights.sum()
        np.testing.assert_allclose(mean_load, centroid, atol=1e-4)  # asinh has a corner at 0
        uncorrected = to.backward(to.middles[k][:, None] + std[:, None] * points, k)
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


@both_transforms
def test_scores_by_another_road(
    centroids: Floats, rows: tuple[Floats, NDArray[np.int64]], transform: TransformName
) -> None:
    """A customer as the prior expects has coordinates of variance 1: S0^(-1/2), then the colour."""
    to = around(centroids, transform)
    offsets = to.offsets(*rows, to.middles)
    scores = to.scores(*rows) / to.colour
    lengths = np.einsum("ij,jk,ik->i", offsets, np.linalg.inv(to.prior), offsets)
    np.testing.assert_allclose(np.square(scores).sum(axis=1), lengths, rtol=1e-8)
    np.testing.assert_allclose(scores @ to.curves, offsets, atol=1e-8 * np.abs(offsets).max())


@both_transforms
def test_a_row_is_alone(
    centroids: Floats, rows: tuple[Floats, NDArray[np.int64]], transform: TransformName
) -> None:
    """Other rows, their order and their number change no bit of a customer's scores."""
    to = around(centroids, transform)
    load_kw, labels = (np.concatenate([part] * 4) for part in rows)  # enough for several threads
    scores = to.scores(load_kw, labels)
    order = np.random.default_rng(0).permutation(len(load_kw))
    assert np.array_equal(to.scores(load_kw[order], labels[order]), scores[order])
    for i in (0, 57, 199):
        assert np.array_equal(to.scores(load_kw[i : i + 1], labels[i : i + 1])[0], scores[i])


def test_project_is_a_matrix_product() -> None:
    """The compiled loop agrees with NumPy."""
    generator = np.random.default_rng(2)
    rows, weights = generator.normal(size=(700, 24)), generator.normal(size=(9, 24))
    np.testing.assert_allclose(project(rows, weights), rows @ weights.T, atol=1e-12)
