"""Population mean as an initial cluster: its start, its budget, and that one mean is no better."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.release_transcripts import record
from wattveil.arrays import Floats
from wattveil.calibration import gaussian_s
from wattveil.lab.baselines import non_lloyd_baselines
from wattveil.lab.baselines.baseline_interface import PublicChoices, clustering_loss
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.kmeans_stages import (
    Cells,
    Statistics,
    add_population_mean,
    as_only_cluster,
    finish_clusters,
    population_mean_stage,
    prior_population_mean,
    widen_population_mean,
)
from wattveil.numerics.load_basis import public_basis, shape_library
from wattveil.numerics.segment_support import distinguishable_curves
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms.contributions import STEP
from wattveil.release.kmeans import PrivateKMeans

GUARANTEE: dict[str, Any] = {"epsilon": 0.3, "delta": 1e-6}


def count_distinguishable(cells: Cells) -> int:
    """Return the number of clusters that differ pairwise by more than noise."""
    variance, std = cells.variance.sum(axis=1), np.sqrt(cells.counts_variance)
    return int(distinguishable_curves(cells.centres, variance, cells.counts, std).sum())


def around_one_shape(n_customers: int) -> Floats:
    """Return customers without clusters: one daily curve, and noise."""
    hours = np.arange(24.0)
    curve = 0.35 + np.exp(-np.square((hours - 19.5) / 3.4)) + 0.5 * np.exp(-np.square(hours - 7.5))
    noise = np.random.default_rng(2).standard_normal((n_customers, 24))
    spread = 0.15 * math.sqrt(np.mean(np.square(curve)))
    rows: Floats = curve + spread * noise
    return rows


def four_cells() -> Cells:
    """Return clusters of 1, 2, 3 and 4 customers."""
    counts = np.array([1.0, 2.0, 3.0, 4.0])
    return Cells(
        centres=np.arange(12.0).reshape(4, 3),
        radii=np.array([0.1, 0.2, 0.4, 0.8]),
        counts=counts,
        counts_variance=np.square(counts),
        variance=np.ones((4, 3)),
    )


def test_it_begins_at_the_mean_of_common_shapes() -> None:
    """At the given size, with the prior standard deviation of the constant."""
    shapes = shape_library(24, 20) @ public_basis(24)[:9].T
    initial = prior_population_mean(shapes, size=3.0, customers=200.0, std=50.0)
    mean = sum(shapes[i] for i in range(12)) / 12.0
    assert initial.centres[0] == pytest.approx(3.0 * mean / math.dist(mean, np.zeros(9)))
    assert initial.variance.sum() == pytest.approx(
        (3.0 * kmeans_tuning.POPULATION_MEAN_SPREAD) ** 2
    )
    assert (initial.counts[0], initial.counts_variance[0]) == (200.0, 2500.0)


def test_shapes_that_cancel_make_no_absurd_mean() -> None:
    """Own public shapes may be of any sign."""
    shapes = np.array([[1.0, 0.0], [-1.0, 1e-12]])
    initial = prior_population_mean(shapes, size=2.0, customers=10.0, std=0.0)
    assert np.abs(initial.centres).max() < 1e-9


def test_it_is_one_more_cluster() -> None:
    """No wider than the usual one, and the customers are as many as before."""
    initial = prior_population_mean(np.eye(3), size=1.0, customers=10.0, std=1.0)
    joined = add_population_mean(four_cells(), initial)
    assert np.array_equal(joined.centres[:4], four_cells().centres)
    assert np.array_equal(joined.centres[4], initial.centres[0])
    assert np.array_equal(joined.variance[4], initial.variance[0])
    assert joined.radii[4] == pytest.approx(0.3)  # the median of the others
    assert joined.counts == pytest.approx([0.8, 1.6, 2.4, 3.2, 2.0])
    assert joined.counts_variance[4] == pytest.approx(25.0)  # half of all
    assert as_only_cluster(initial, size=2.0).radii == pytest.approx(
        2.0 * kmeans_tuning.POPULATION_MEAN_RADII[0]
    )


def test_its_error_is_that_of_a_cluster() -> None:
    """Its error includes the width of the other clusters, or the distance to the nearest one."""
    apart = four_cells()
    near = replace(apart, centres=np.vstack([apart.centres[:3], apart.centres[2] + 1e-3]))
    for cells, more in ((apart, 3 * 3.0**2), (near, (kmeans_tuning.CENTRE_SPREAD * 0.2) ** 2)):
        widened = widen_population_mean(cells)
        assert np.array_equal(widened.variance[:3], cells.variance[:3])
        assert (widened.variance[3] - cells.variance[3]).sum() == pytest.approx(more)
        assert np.array_equal(widened.centres, cells.centres)
    sure = replace(apart, variance=np.zeros((4, 3)), counts_variance=np.zeros(4))
    assert count_distinguishable(sure) == 4
    assert count_distinguishable(widen_population_mean(sure)) == 3  # it is joined with the next


def test_counts_err_by_the_number_of_customers_in_common() -> None:
    """Divided over the clusters; nothing is added where the number is public."""
    cells = four_cells()
    bought = finish_clusters(cells, is_shape=False, has_population_mean=False, std=40.0)
    assert bought.counts_variance == pytest.approx(cells.counts_variance + 100.0)
    public = finish_clusters(cells, is_shape=False, has_population_mean=False, std=0.0)
    assert np.array_equal(public.counts_variance, cells.counts_variance)


@pytest.mark.untraced
@pytest.mark.usefixtures("cached_constants")
@pytest.mark.parametrize("normalise", [False, True])
def test_stated_errors_cover_the_error_of_every_cluster(*, normalise: bool) -> None:
    """On customers with clusters: squared error by stated variance, of the last and of the rest."""
    generator = np.random.default_rng(4)
    rows = np.vstack([around_one_shape(75), np.roll(around_one_shape(75), 9, axis=1)])
    rows *= np.exp(0.4 * generator.standard_normal((150, 1)))
    ratios: list[list[float]] = [[], []]
    for _ in range(30):
        km = PrivateKMeans(n_clusters=4, normalise=normalise, **GUARANTEE).fit(rows)
        own = km.predict(rows)
        for cluster, centre in enumerate(km.cluster_centers_):
            if np.count_nonzero(own == cluster) >= 5:
                mean = km.comparable(rows)[own == cluster].mean(axis=0)
                squares = np.square([mean - centre, km.cluster_centers_std_[cluster]]).sum(axis=1)
                ratios[cluster == 3].append(squares[0] / squares[1])
    assert [float(np.median(one)) < 2.0 for one in ratios] == [True, True]


@given(signal=st.floats(1e-12, 1e9), ratio=st.floats(4.0, 1e18))
def test_shares_are_shares(signal: float, ratio: float) -> None:
    """Number, sizes and population mean leave budget to the later stages."""
    of_sizes = kmeans_tuning.size_share(signal, range_ratio=ratio)
    assert kmeans_tuning.SIZE_SHARE[0] <= of_sizes <= kmeans_tuning.SIZE_SHARE[1]
    assert (
        0.0
        <= kmeans_tuning.population_mean_share(signal)
        <= kmeans_tuning.MAX_POPULATION_MEAN_SHARE
    )
    assert kmeans_tuning.population_mean_share(2.0 * signal) <= kmeans_tuning.population_mean_share(
        signal
    )


def test_shares_by_hand() -> None:
    """At the signals that the constants name."""
    half, none = kmeans_tuning.POPULATION_MEAN_SIGNAL
    assert kmeans_tuning.population_mean_share(half) == 0.5
    assert kmeans_tuning.population_mean_share(none) == 0.0
    assert kmeans_tuning.size_share(20.0, range_ratio=1000.0) == pytest.approx(0.25)
    assert kmeans_tuning.size_share(20.0, range_ratio=1e9) == pytest.approx(0.25)
    assert kmeans_tuning.size_share(20.0, range_ratio=10.0) == pytest.approx(0.25 / 3.0)
    assert kmeans_tuning.size_share(40.0, range_ratio=1000.0) == pytest.approx(0.0625)


@pytest.mark.parametrize("epsilon", [0.3, 8.0])
def test_steps_are_charged_where_there_is_little_signal(epsilon: float) -> None:
    """A share of what number and sizes left, in three steps; none with more signal.

    The signal is computed from the noisy number, which is large by chance once in 200 runs.
    """
    km = PrivateKMeans(n_clusters=3, epsilon=epsilon)
    draws = record(lambda: km.fit(around_one_shape(150)))
    of_middle = [one.rho_units for one in km.spends_ if one.tag.startswith("population mean step")]
    before = [one.rho_units for one in km.spends_ if one.tag in {"number of customers", "sizes"}]
    left = sum(one.rho_units for one in km.spends_) - sum(before)
    counted = max(float(draws[0].noisy[0]) * STEP, 1.0)
    signal = counted * gaussian_s(epsilon=epsilon, delta=1e-6)
    share, radii = kmeans_tuning.mean_steps(signal, n_clusters=3, is_shape=False)
    assert len(of_middle) == (2 * len(radii) if share > 0.0 else 0)
    assert sum(of_middle) / left == pytest.approx(share, rel=0.01)
    assert len(km.cluster_centers_) == 3


def test_stage_goes_where_the_customers_are() -> None:
    """Queried without noise, in three radii; part of each step is for the counts."""
    target = np.array([0.3, 0.1, 0.15])
    queried: list[tuple[float, tuple[int, int]]] = []

    def query(
        cells: Cells,
        /,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        queried.append((float(cells.radii[0]), rho_units))
        assert (shells, tag) == ((), f"population mean step {len(queried)}")
        offset = (target - cells.centres[0]) / (cells.radii[0] * colour)
        offset /= max(1.0, float(np.linalg.norm(offset)))
        sums = 500.0 * offset[None]
        return Statistics(counts=np.array([[500.0]]), counts_std=1e-9, sums=sums, sums_std=1e-6)

    initial = prior_population_mean(np.eye(3), size=0.5, customers=400.0, std=100.0)
    radii = kmeans_tuning.POPULATION_MEAN_RADII
    stage = partial(population_mean_stage, query, radii=radii, size=0.5, colour=np.ones(3))
    found, is_wide = stage(initial, units=3_000_001, is_shape=False)
    assert not is_wide  # of shapes alone
    assert found.counts[0] == pytest.approx(500.0)
    assert found.centres[0] == pytest.approx(target, abs=1e-6)
    lengths, units = zip(*queried, strict=True)
    assert lengths == pytest.approx([0.5 * radius for radius in radii])
    assert sum(map(sum, units)) == 3_000_001
    assert units[0][0] / sum(units[0]) == pytest.approx(kmeans_tuning.REFINE_COUNT_PART, rel=1e-4)


@pytest.mark.parametrize("n_clusters", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [0.01, 1e-3, 1e-4])
def test_the_smallest_budget_is_spent_to_the_last_unit(epsilon: float, n_clusters: int) -> None:
    """However little is left for the later stages, their queries can be made."""
    model = PrivateKMeans(n_clusters=n_clusters, epsilon=epsilon)
    for normalise in (False, True):
        km = model.set_params(normalise=normalise).fit(around_one_shape(100))
        assert sum(one.rho_units for one in km.spends_) == Budget(km.guarantee_).rho_units
        assert km.cluster_centers_.shape == (n_clusters, 24)


def median_losses(rows: Floats, *, normalise: bool) -> tuple[float, float]:
    """Return the median r of ours and of one mean profile, with the same public facts."""
    usual_kw = float(np.median(np.sqrt(np.mean(np.square(rows), axis=1))))
    model = PrivateKMeans(
        n_clusters=6,
        plausible_kw=(usual_kw / 2.0, 2.0 * usual_kw),
        normalise=normalise,
        **GUARANTEE,
    )
    ours = [clustering_loss(rows, model.fit(rows).cluster_centers_) for _ in range(60)]
    public = PublicChoices.taken_from(rows, 6)
    generator = np.random.default_rng(0)
    means = [
        [
            clustering_loss(
                rows,
                non_lloyd_baselines.PrivateMean.fit(
                    rows, public=public, generator=generator, relative_radius=radius, **GUARANTEE
                ).centroids_kw,
            )
            for _ in range(60)
        ]
        for radius in (0.35, 0.6, 1.2)
    ]
    return float(np.median(ours)), min(float(np.median(one)) for one in means)


@pytest.mark.long
@pytest.mark.usefixtures("cached_constants")
def test_one_mean_profile_is_no_better_where_there_are_no_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 100 customers at epsilon 0.3. Without the population mean, shapes do no better.

    0.88 is half way: with it shapes had .75 times the cost of one mean, without 1.05 times.
    """
    rows = around_one_shape(100)
    ours, mean = median_losses(rows, normalise=False)
    assert ours < mean
    shapes = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    ours, mean = median_losses(shapes, normalise=True)
    assert ours < 0.88 * mean
    monkeypatch.setattr(kmeans_tuning, "population_mean_share", lambda _: 0.0)
    without, mean = median_losses(shapes, normalise=True)
    assert without > 0.88 * mean
