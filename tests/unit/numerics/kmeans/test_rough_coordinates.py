"""Codebook around the mean of alike shapes, pooled rough coordinates, and what is dropped."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.codebooks import load_codebook, shape_codebook
from wattveil.numerics.kmeans.kmeans_stages import (
    Cells,
    Statistics,
    Steps,
    population_mean_stage,
    prior_population_mean,
    start_cells,
)
from wattveil.numerics.kmeans.rough_coordinates import dropped_variance, pool_rough
from wattveil.numerics.load_basis import public_basis, shape_library
from wattveil.numerics.size_distribution import SizeLevels, one_level
from wattveil.release.kmeans import PrivateKMeans

R, K = 13, 4
COLOUR = np.ones(R)
CUSTOMERS = 100.0


def shapes(count: int = 20) -> Floats:
    """Return library shapes in working coordinates."""
    return shape_library(24, count) @ public_basis(24)[:R].T


def mean_of_shapes() -> Cells:
    """Return a population mean."""
    return prior_population_mean(shapes(), size=0.97, customers=500.0, std=10.0)


@pytest.mark.parametrize("n_clusters", [2, 6, 15])
def test_centred_codebook_has_the_mean_and_offsets_around_it(n_clusters: int) -> None:
    """Then library shapes, each half of the same number."""
    mean, number = mean_of_shapes(), max(kmeans_tuning.CENTRED_SHAPES, n_clusters)
    cells = shape_codebook(shapes(), mean, one_level(0.97, 500.0), n_clusters).cells
    assert len(cells.centres) == 2 * number + 1
    assert cells.centres[0] == pytest.approx(mean.centres[0])
    around, library = cells.centres[1 : number + 1], cells.centres[number + 1 :]
    assert around.mean(axis=0) == pytest.approx(mean.centres[0])
    for i, j in ((0, 1), (3, 7)):  # the scale of all differences is the same
        apart = kmeans_tuning.CENTRED_SCALE * (library[i] - library[j])
        assert around[i] - around[j] == pytest.approx(apart)
    assert np.linalg.norm(library, axis=1) == pytest.approx(np.full(number, 0.97))
    assert set(cells.radii[: number + 1]) == {kmeans_tuning.CENTRED_RADIUS * 0.97}
    assert set(cells.radii[number + 1 :]) == {kmeans_tuning.LIBRARY_RADIUS * 0.97}
    assert cells.counts.sum() == pytest.approx(500.0)


def test_load_codebook_repeats_the_direction_of_the_mean_at_every_size() -> None:
    """Beside library shapes and offsets, each level with its own number."""
    mean, levels = mean_of_shapes(), np.array([1.0, 2.0, 4.0])
    sizes = SizeLevels(
        levels=levels,
        customers=np.array([200.0, 200.0, 100.0]),
        log_median=0.0,
        log_std=0.4,
        total=500.0,
    )
    codebook = load_codebook(shapes(), mean, sizes, 6)
    library, offsets = kmeans_tuning.centred_load_cells(6)
    direction = mean.centres[0] / np.linalg.norm(mean.centres[0])
    for place, level in enumerate(levels):
        here = codebook.cells.centres[codebook.level == level]
        assert len(here) == library[place] + 1 + offsets[place]
        assert here[library[place]] == pytest.approx(level * direction)
        apart = here[-1] - here[-2]
        unit = shapes() / np.linalg.norm(shapes(), axis=1, keepdims=True)
        between = unit[offsets[place] - 1] - unit[offsets[place] - 2]
        assert apart == pytest.approx(kmeans_tuning.LOAD_SCALE * level * between)
        counts = codebook.cells.counts[codebook.level == level]
        assert counts.sum() == pytest.approx(sizes.customers[place])
    assert codebook.cells.radii == pytest.approx(kmeans_tuning.LOAD_RADIUS * codebook.level)
    assert codebook.unconfirmed.tolist() == [4.0]  # above exp(1.8 * 0.4)


@pytest.mark.parametrize(("far", "is_wide"), [(20.0, False), (85.0, False), (95.0, True)])
def test_share_of_far_customers_decides_about_the_codebook(far: float, *, is_wide: bool) -> None:
    """The last step counts the customers farther than FAR from the mean."""
    seen: list[tuple[float, ...]] = []

    def query(cells: Cells, /, *, shells: tuple[float, ...], **_: object) -> Statistics:
        seen.append(tuple(float(cells.radii[0]) * shell for shell in shells))
        counts = np.array([[500.0 - far, far]] if shells else [[500.0]])
        return Statistics(counts=counts, counts_std=1.0, sums=np.zeros((1, R)), sums_std=1.0)

    radii = kmeans_tuning.SHAPE_MEAN_RADII
    stage = partial(population_mean_stage, query, radii=radii, size=0.97, colour=COLOUR)
    _, found = stage(mean_of_shapes(), units=1000, is_shape=True)
    assert found == is_wide
    assert seen[:-1] == [()] * (len(radii) - 1)
    assert seen[-1] == pytest.approx((kmeans_tuning.FAR,))


def refined(truth: Floats, *, sums_std: float, seed: int = 0) -> tuple[Cells, Steps]:
    """Return clusters and three steps that observed ``truth`` with noise."""
    generator = np.random.default_rng(seed)
    counts = np.full(len(truth), CUSTOMERS)
    cells = start_cells(truth, np.full(len(truth), 0.3), counts, counts_std=counts, spread=0.5)
    cells = replace(cells, counts_variance=np.ones(len(truth)))

    def observed() -> Statistics:
        noise = generator.normal(0.0, sums_std, truth.shape)
        counted = counts[:, None]
        return Statistics(counts=counted, counts_std=1.0, sums=noise, sums_std=sums_std)

    return cells, [(cells, observed()) for _ in range(3)]


@pytest.mark.parametrize("is_shape", [True, False])
def test_pooling_is_the_posterior_of_a_normal_model(*, is_shape: bool) -> None:
    """The same by one linear system: means and covariance of (c_1 … c_K) given the averages."""
    generator = np.random.default_rng(1)
    truth = np.hstack([np.ones((K, 1)), generator.normal(0.0, 0.05, (K, R - 1))])
    cells, steps = refined(truth, sums_std=3.0)
    pooled = pool_rough(cells, steps, colour=COLOUR, is_shape=is_shape)
    length = np.linalg.norm(cells.centres, axis=1)
    scale = 0.3 / CUSTOMERS
    observed = truth + scale * np.mean([one.sums for _, one in steps], axis=0)
    noise = np.diag((3.0 * scale) ** 2 / 3.0 / np.square(length))
    own = kmeans_tuning.ROUGH_OF_SHAPES if is_shape else kmeans_tuning.ROUGH_OF_LOAD
    for j in range(9, R):
        falling = (6.0 / (1.0 + np.ceil(j / 2.0))) ** kmeans_tuning.ROUGH_DECAY
        prior = falling * (kmeans_tuning.ROUGH_IN_COMMON * np.ones((K, K)) + own * np.eye(K))
        gain = prior @ np.linalg.inv(prior + noise)
        assert pooled.centres[:, j] / length == pytest.approx(gain @ (observed[:, j] / length))
        posterior = np.diag(prior - gain @ prior)
        assert pooled.variance[:, j] / np.square(length) == pytest.approx(posterior)
    assert np.array_equal(pooled.centres[:, :9], cells.centres[:, :9])
    assert np.array_equal(pooled.variance[:, :9], cells.variance[:, :9])


def test_pooling_lowers_the_error_of_noisy_rough_coordinates() -> None:
    """Where the noise is large, in comparison to the average of the steps."""
    errors = []
    for seed in range(20):
        generator = np.random.default_rng([seed, 2])
        truth = np.hstack([np.ones((K, 1)), np.zeros((K, R - 1))])
        truth[:, 9:] = generator.normal(0.0, 0.01, R - 9) + generator.normal(0.0, 0.01, (K, R - 9))
        cells, steps = refined(truth, sums_std=20.0, seed=seed)
        pooled = pool_rough(cells, steps, colour=COLOUR, is_shape=True)
        average = 0.3 / CUSTOMERS * np.mean([one.sums for _, one in steps], axis=0)[:, 9:]
        errors.append((np.square(pooled.centres - truth)[:, 9:].sum(), np.square(average).sum()))
    ours, averages = np.sum(errors, axis=0)
    assert ours < 0.5 * averages


def test_few_coordinates_have_nothing_to_pool() -> None:
    """The first nine are never pooled."""
    cells, steps = refined(np.ones((K, 8)), sums_std=1.0)
    assert pool_rough(cells, steps, colour=np.ones(8), is_shape=True) is cells


def test_dropped_coordinates_widen_the_bands() -> None:
    """In proportion to the length of a centroid, and less the rougher they are."""
    cells, _ = refined(np.array([[1.0] + [0.0] * (R - 1), [3.0] + [0.0] * (R - 1)]), sums_std=1.0)
    dropped = dropped_variance(cells, 24, is_shape=True)
    assert dropped.shape == (2, 24 - R)
    assert dropped[1] == pytest.approx(9.0 * dropped[0])
    assert (np.diff(dropped[0]) <= 0.0).all()
    assert dropped_variance(cells, R, is_shape=False).shape == (2, 0)


def test_alike_shapes_lose_less_around_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """The codebook around the mean is what it is for: fewer squared distances than without."""
    generator = np.random.default_rng(3)
    hours = np.arange(24.0)
    bumps = [np.exp(-np.square((hours - hour) / 2.5)) for hour in (8.0, 13.0, 19.0, 22.0)]
    mixed = generator.dirichlet([2.0] * 4, 500) @ np.array(bumps)
    rows = 0.6 + mixed + 0.05 * generator.standard_normal((500, 24))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    def losses() -> Floats:
        fits = [PrivateKMeans(epsilon=1.0, normalise=True).fit(rows) for _ in range(8)]
        apart = [np.square(rows[:, None] - fit.cluster_centers_).sum(axis=2) for fit in fits]
        return np.array([one.min(axis=1).mean() for one in apart])

    centred = losses()
    monkeypatch.setattr(kmeans_tuning, "CENTRED_BELOW", 0.0)
    assert centred.mean() < losses().mean()
