"""Offsets from centroids and their features, each against a direct computation in NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.coordinates import Coordinates, TransformName
from wattveil.numerics.synthesis.noisy_moments import (
    expected_sizes,
    margin_curves,
    moment_width,
    read_margins,
    read_moments,
    waves,
)
from wattveil.release.rows.load_features import products
from wattveil.release.rows.synthesis_features import (
    centroid_offsets,
    cosine_features,
    export_cells,
    margin_features,
    moment_features,
    scores,
)
from wattveil.simulate import simulate_load_kw

ALPHA_KW = 15.0
TRANSFORMS: list[TransformName] = ["asinh", "log"]
both_transforms = pytest.mark.parametrize("transform", TRANSFORMS)


@pytest.fixture
def centroids() -> Floats:
    """Return a home, one with panels, and an empty one."""
    hours = np.arange(24)
    home = 0.4 + 0.3 * np.cos(2.0 * np.pi * (hours - 19) / 24)
    return np.array([home, home - 2.0 * np.exp(-(((hours - 12) / 3.0) ** 2)), np.zeros(24)])


@pytest.fixture
def rows() -> tuple[Floats, Ints]:
    """Return customers, some of whom export, and clusters for them."""
    generator = np.random.default_rng(1)
    load_kw = simulate_load_kw(customers=200, seed=3) - generator.exponential(0.5, (200, 24))
    return load_kw, generator.integers(0, 3, 200)


def around(centroids: Floats, transform: TransformName = "asinh") -> Coordinates:
    """Return coordinates around centroids."""
    return Coordinates(centroids=centroids, transform=transform, alpha_kw=ALPHA_KW)


def scores_of(load_kw: Floats, labels: Ints, to: Coordinates) -> Floats:
    """Return the coordinates D z of each customer."""
    return scores(load_kw, labels, rule=to.rule, centres=to.centres, weights=to.weights)[0]


# --- offsets and scores ---------------------------------------------------------------------------


@both_transforms
def test_offsets_are_inverted(
    centroids: Floats, rows: tuple[Floats, Ints], transform: TransformName
) -> None:
    """The load that belongs to an offset is the load it was computed from."""
    to = around(centroids, transform)
    load_kw, labels = rows
    labels = labels % 2  # the scale of the empty cluster is tiny: offsets from it are huge
    y = to.centres[labels] + centroid_offsets(load_kw, labels, to.rule, to.centres)
    back = np.array([to.backward(one, k) for one, k in zip(y, labels, strict=True)])
    np.testing.assert_allclose(back, load_kw, atol=1e-9)


def test_transforms_are_the_formulas(centroids: Floats) -> None:
    """asinh(x / s), s = .7 rms, linear below 0; log(x + alpha) / q, q = 1.2 rms / (rms + alpha)."""
    rms = np.sqrt((centroids[0] ** 2).mean())
    load_kw, labels, zero = np.array([[-3.0, 0.0, 2.0] * 8]), np.array([0]), np.zeros((3, 24))
    as_asinh = centroid_offsets(load_kw, labels, around(centroids).rule, zero)
    scaled = load_kw / (0.7 * rms)
    np.testing.assert_allclose(
        as_asinh, np.where(scaled > 0, np.arcsinh(scaled), scaled), rtol=1e-12
    )
    as_log = centroid_offsets(load_kw, labels, around(centroids, "log").rule, zero)
    scale = 1.2 * rms / (rms + ALPHA_KW)
    np.testing.assert_allclose(as_log, np.log(load_kw + ALPHA_KW) / scale, rtol=1e-12)


@both_transforms
def test_no_load_has_an_infinite_offset(centroids: Floats, transform: TransformName) -> None:
    """The empty cluster, a load below -alpha and one of 1e9 kW give finite coordinates."""
    to = around(centroids, transform)
    extreme = np.array([np.full(24, 1e9), np.full(24, -1e9), np.zeros(24)])
    assert np.isfinite(scores_of(extreme, np.array([0, 1, 2]), to)).all()
    assert np.isfinite(scores_of(extreme, np.array([2, 2, 2]), to)).all()


@both_transforms
def test_scores_by_the_inverse_of_the_prior(
    centroids: Floats, rows: tuple[Floats, Ints], transform: TransformName
) -> None:
    """Coordinates have variance 1 under the prior: S0^(-1/2) of the offsets, times the colour."""
    to = around(centroids, transform)
    offsets = centroid_offsets(*rows, to.rule, to.centres)
    found, labels, stays = scores(*rows, rule=to.rule, centres=to.centres, weights=to.weights)
    assert labels is rows[1]
    assert stays.all()
    plain = found / to.colour
    lengths = np.einsum("ij,jk,ik->i", offsets, np.linalg.inv(to.prior), offsets)
    np.testing.assert_allclose(np.square(plain).sum(axis=1), lengths, rtol=1e-8)
    np.testing.assert_allclose(plain @ to.curves, offsets, atol=1e-8 * np.abs(offsets).max())


@both_transforms
def test_scores_depend_on_their_own_row_alone(
    centroids: Floats, rows: tuple[Floats, Ints], transform: TransformName
) -> None:
    """Other rows, their order and their number change no bit of a customer's scores."""
    to = around(centroids, transform)
    load_kw, labels = (np.concatenate([part] * 4) for part in rows)
    found = scores_of(load_kw, labels, to)
    order = np.random.default_rng(0).permutation(len(load_kw))
    assert np.array_equal(scores_of(load_kw[order], labels[order], to), found[order])
    for i in (0, 57, 199):
        alone = scores_of(load_kw[i : i + 1], labels[i : i + 1], to)
        assert np.array_equal(alone[0], found[i])


def test_products_are_a_matrix_product() -> None:
    """The compiled loop agrees with NumPy."""
    generator = np.random.default_rng(2)
    rows, weights = generator.normal(size=(700, 24)), generator.normal(size=(9, 24))
    found = products(rows, weights)
    np.testing.assert_allclose(found, rows @ weights.T, atol=1e-12)


def test_cells_of_export(rows: tuple[Floats, Ints]) -> None:
    """2 k + (whether any load is negative)."""
    load_kw, labels = rows
    expected = 2 * labels + (load_kw.min(axis=1) < 0.0)
    (cells,) = export_cells(load_kw, labels)
    assert cells.tolist() == expected.tolist()
    assert cells.dtype == np.int64


def test_rows_of_another_width_are_refused(centroids: Floats) -> None:
    """Compiled loops check no bounds: the width is checked before them."""
    to = around(centroids)
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 24 columns"):
        scores_of(np.ones((1, 23)), np.array([0]), to)
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 24 columns"):
        cosine_features(np.ones((1, 25)), margin_curves(24, 1))


# --- moments --------------------------------------------------------------------------------------

finite_scores = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 30)),
    elements=st.floats(-1e12, 1e12, allow_subnormal=False),
)


@settings(deadline=None)  # the first call compiles
@given(found=finite_scores, radius=st.floats(1e-3, 1e3))
def test_moment_features_have_length_1_at_most(found: Floats, radius: float) -> None:
    """By the formula p |a|^2 + (1 - p) |a|^4, and never above 1 but for rounding."""
    labels = np.arange(len(found))
    same, features = moment_features(found, labels, radius=radius)
    assert same is labels
    lengths = np.linalg.norm(features, axis=1)
    inside = np.minimum(np.linalg.norm(found, axis=1) / radius, 1.0)
    p = synthesis_tuning.MEAN_PART
    np.testing.assert_allclose(
        lengths, np.sqrt(p * inside**2 + (1 - p) * inside**4), rtol=1e-9, atol=1e-100
    )
    assert (lengths <= 1.0 + 1e-12).all()


@pytest.mark.parametrize("n_coordinates", [1, 2, 24, 40])
def test_sums_of_moment_features_are_read_back(n_coordinates: int) -> None:
    """Without noise the sums of a and of a a' are those that NumPy adds up."""
    found = np.random.default_rng(4).normal(size=(300, n_coordinates))
    radius = 0.8 * math.sqrt(n_coordinates)
    features = moment_features(found, np.zeros(300, dtype=np.int64), radius=radius)[1]
    assert features.shape == (300, moment_width(n_coordinates))
    halves = np.array([features[:100].sum(axis=0), features[100:].sum(axis=0)])
    sums, seconds = read_moments(halves, radius, n_coordinates)
    clipped = found * np.minimum(1.0, radius / np.linalg.norm(found, axis=1))[:, None]
    assert not np.array_equal(clipped, found)
    for i, part in enumerate((clipped[:100], clipped[100:])):
        np.testing.assert_allclose(sums[i], part.sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(seconds[i], part.T @ part, atol=1e-9)


# --- margins --------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(
    rows=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 4), st.just(48)), elements=st.floats(-1e12, 1e12)
    ),
    n_days=st.sampled_from([1, 2]),
)
def test_cosine_features_have_length_1_at_most(rows: Floats, n_days: int) -> None:
    """Whatever the standardised load, features are finite and of length 1 at most."""
    features = cosine_features(rows, margin_curves(48 // n_days, n_days))
    assert np.isfinite(features).all()
    assert (np.linalg.norm(features, axis=1) <= 1.0 + 1e-12).all()


def test_cosine_features_by_the_formula() -> None:
    """The mean over the slots of b_w(h) sqrt(d) sqrt(2) cos(pi j v_h), read without noise."""
    rows = np.random.default_rng(1).normal(0.2, 1.1, (500, 24))
    sums = cosine_features(rows, margin_curves(24, 1)).sum(axis=0)
    v = stats.norm.cdf(rows)
    j = np.arange(1, synthesis_tuning.COSINES + 1)
    cosines = math.sqrt(2.0) * np.cos(math.pi * j[:, None, None] * v)
    exact = np.einsum("jih,wh->jw", cosines, waves(24)) / (500 * math.sqrt(24))
    # Without noise the coefficients are shrunk by the sampling error of so many customers alone.
    found = read_margins(sums, std=0.0, customers=500.0, n_slots=24)
    weight = expected_sizes(24) ** 2 / (expected_sizes(24) ** 2 + 1.0 / 500.0)
    np.testing.assert_allclose(found, weight * exact, atol=1e-9)


def test_margins_are_of_standardised_load(centroids: Floats) -> None:
    """Cosines of (y - m_k) / sigma_k, standardised by NumPy; no bit depends on other rows."""
    to = around(centroids[:1].repeat(2, axis=0) * [[1.0], [3.0]])
    load_kw = simulate_load_kw(customers=300, seed=1)
    labels = np.arange(300) % 2
    generator = np.random.default_rng(5)
    means, deviations = generator.normal(size=(2, 24)), generator.uniform(0.5, 2.0, (2, 24))
    public = {"rule": to.rule, "means": means, "deviations": deviations}
    public["waves"] = margin_curves(24, 1)
    work = margin_features.bind(**public)
    cells, features = work(load_kw, labels)
    y = np.arcsinh(np.maximum(load_kw, 0.0) / to.scales[labels][:, None])
    y += np.minimum(load_kw, 0.0) / to.scales[labels][:, None]
    expected = cosine_features((y - means[labels]) / deviations[labels], margin_curves(24, 1))
    np.testing.assert_allclose(features, expected, atol=1e-9)
    assert cells.tolist() == [0] * 300
    assert np.array_equal(work(load_kw[7:8], labels[7:8])[1][0], features[7])
