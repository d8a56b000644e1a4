"""Segments over time: prediction, sizes, drift, clustering anew."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.kmeans_stages import Cells, Statistics
from wattveil.numerics.load_basis import row_basis
from wattveil.numerics.series.warm_clusters import (
    Counted,
    WarmClusters,
    add_period,
    drift_lengths,
    numbered_as,
    predicted_cells,
    published_curves,
    published_sizes,
    size_posterior,
    smoothed_centres,
    start_following,
)

UNITS = 10**18
SIZES = np.array([300, 500, 200])
PERIODS, WIDTH = 12, 6


def true_centres(period: int) -> Floats:
    """Three clusters; the first drifts, the second has a season."""
    centres = np.zeros((3, WIDTH))
    centres[:, 0] = 1.0
    centres[0, 1] = 1.0 + 0.05 * period
    centres[1, 2] = -1.0 + 0.2 * math.cos(math.pi * period / 2.0)
    centres[2, 3] = 1.2
    return centres


class FakeQueries:
    """Customers around true centres, and noise of the stated size; records its queries."""

    def __init__(self, period: int, rng: np.random.Generator) -> None:
        centres = np.repeat(true_centres(period), SIZES, axis=0)
        self.rows = centres + rng.normal(0.0, 0.1, centres.shape)
        self.rng = rng
        self.units: list[int] = []
        self.tags: list[str] = []

    def nearest(self, centres: Floats) -> Ints:
        """Return the nearest centre of each row, by a plain comparison."""
        apart = np.square(self.rows[:, None] - centres[None]).sum(axis=2)
        return np.asarray(apart.argmin(axis=1), dtype=np.int64)

    def step(
        self,
        cells: Cells,
        /,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        """Counts by shell and sums of clipped offsets."""
        self.units += rho_units
        self.tags.append(tag)
        place = self.nearest(cells.centres)
        offsets = (self.rows - cells.centres[place]) / (cells.radii[place, None] * colour)
        lengths = np.linalg.norm(offsets, axis=1)
        clipped = offsets / np.maximum(lengths, 1.0)[:, None]
        shell = np.searchsorted(np.array(shells), lengths)
        counts = np.zeros((3, len(shells) + 1))
        np.add.at(counts, (place, shell), 1.0)
        sums = np.zeros((3, WIDTH))
        np.add.at(sums, place, clipped)
        counts_std, sums_std = (1.0 / math.sqrt(2.0 * units / UNITS) for units in rho_units)
        return Statistics(
            counts=counts + self.rng.normal(0.0, counts_std, counts.shape),
            counts_std=counts_std,
            sums=sums + self.rng.normal(0.0, sums_std, sums.shape),
            sums_std=sums_std,
        )

    def sizes(self, centres: Floats, /, *, rho_units: int, tag: str) -> tuple[Floats, float]:
        """Customers nearest to each centre."""
        self.units.append(rho_units)
        self.tags.append(tag)
        std = 1.0 / math.sqrt(2.0 * rho_units / UNITS)
        exact = np.bincount(self.nearest(centres), minlength=3)
        return exact + self.rng.normal(0.0, std, 3), std


def first_clusters(rng: np.random.Generator, *, signal: float = 50.0) -> WarmClusters:
    """Clusters of period 1 with known errors."""
    error = rng.normal(0.0, 0.03, (3, WIDTH))
    cells = Cells(
        centres=true_centres(0) + error,
        radii=np.full(3, 0.35),
        counts=SIZES + rng.normal(0.0, 10.0, 3),
        counts_variance=np.full(3, 100.0),
        variance=np.full((3, WIDTH), 0.03**2),
    )
    return start_following(cells, periods_per_year=4, signal=signal)


def follow(
    rng: np.random.Generator, *, units: int, steps: int, skipped: tuple[int, ...] = ()
) -> tuple[WarmClusters, list[Cells], list[FakeQueries]]:
    """Run the later periods."""
    clusters = first_clusters(rng)
    shown, asked = [], []
    for period in range(1, PERIODS):
        if period in skipped:
            continue
        queries = FakeQueries(period, rng)
        clusters, cells = add_period(
            queries.step,
            queries.sizes,
            clusters,
            place=period,
            units=units,
            steps=steps,
            tag=f"period {period + 1}",
        )
        shown.append(cells)
        asked.append(queries)
    return clusters, shown, asked


def test_the_budget_of_a_period_is_used_and_not_exceeded() -> None:
    """Refining steps and sizes add up to the units, to the last one."""
    _, _, asked = follow(np.random.default_rng(1), units=10**16 + 7, steps=2)
    assert {sum(queries.units) for queries in asked} == {10**16 + 7}
    assert asked[3].tags == ["period 5, step 1", "period 5, step 2", "period 5, sizes"]


def test_clusters_are_followed_under_their_label() -> None:
    """A drift and a season are followed with less error than one period's noise."""
    clusters, shown, _ = follow(np.random.default_rng(2), units=10**15, steps=2)
    truth = np.array([true_centres(period) for period in range(PERIODS)])
    error = np.array([cells.centres for cells in shown]) - truth[1:]
    kept = clusters.first.centres - truth[1:]
    assert np.square(error).mean() < 0.2 * np.square(kept).mean()
    noise = np.array([np.outer(one.noise, np.square(clusters.colour)) for one in clusters.refined])
    assert np.square(error).mean() < 0.7 * noise.mean()
    smooth, std = smoothed_centres(clusters)
    assert smooth.shape == std.shape == (3, WIDTH, PERIODS)
    drift = drift_lengths(clusters)
    assert drift[0, -1] == pytest.approx(0.55 / 0.35, rel=0.2)
    assert drift[0, -1] > 2.0 * drift[2, -1]


def test_bands_of_sizes_cover() -> None:
    """Sizes that wander by 3 % a period; counts of 2.5 times the stated noise are not covered."""
    rng = np.random.default_rng(3)
    covered = []
    for factor in (1.0, 2.5):
        inside = []
        for _ in range(60):
            steps = rng.normal(0.0, 10.0, (PERIODS - 1, 3))
            truth = SIZES + np.cumsum(np.vstack([np.zeros(3), steps]), axis=0)
            start = first_clusters(rng)
            counted = tuple(
                Counted(sizes + factor * rng.normal(0.0, 25.0, 3), 25.0) for sizes in truth[1:]
            )
            found = size_posterior(replace(start, counted=counted, places=tuple(range(1, PERIODS))))
            inside.append(np.abs(found.mean - truth.T) <= 1.96 * found.std)
        covered.append(np.mean(inside))
    assert 0.93 < covered[0] < 0.98
    assert covered[1] < 0.9


def test_kept_clusters_stay_and_are_counted() -> None:
    """Without refining steps all units are for the sizes."""
    clusters, shown, asked = follow(np.random.default_rng(4), units=10**15, steps=0)
    for cells, queries in zip(shown, asked, strict=True):
        assert cells.centres == pytest.approx(clusters.first.centres)
        assert queries.units == [10**15]
    assert clusters.refined == ()
    assert size_posterior(clusters).mean.shape == (3, PERIODS)
    assert predicted_cells(clusters, PERIODS).counts == pytest.approx(SIZES, abs=40)


def test_a_skipped_period_is_predicted_and_leaves_the_others_in_place() -> None:
    """Centroids and sizes exist for every period; those after the gap are as near as before."""
    clusters, shown, _ = follow(np.random.default_rng(5), units=10**16, steps=2, skipped=(4, 5))
    assert clusters.places == (1, 2, 3, 6, 7, 8, 9, 10, 11)
    smooth, std = smoothed_centres(clusters)
    assert smooth.shape == (3, WIDTH, PERIODS)
    assert std[:, :, 4].mean() > std[:, :, 3].mean()
    truth = np.array([true_centres(place) for place in clusters.places])
    assert np.array([cells.centres for cells in shown]) == pytest.approx(truth, abs=0.1)
    assert size_posterior(clusters).mean.shape == (3, PERIODS)
    with pytest.raises(InvalidParameterError, match="place"):
        add_period(
            FakeQueries(3, np.random.default_rng(0)).step,
            FakeQueries(3, np.random.default_rng(0)).sizes,
            clusters,
            place=11,
            units=1,
            steps=0,
            tag="again",
        )


def test_found_again_clusters_have_the_numbers_of_the_nearest_before() -> None:
    """Whatever their order; every part of a cluster moves with it; other widths are compared."""
    before = first_clusters(np.random.default_rng(6)).first
    moved = replace(before, centres=before.centres + 0.05, counts=before.counts + 1.0)
    order = [2, 0, 1]
    names = ("centres", "variance", "radii", "counts", "counts_variance")
    found = Cells(**{name: getattr(moved, name)[order] for name in names})
    again = numbered_as(found, before)
    for name in names:
        assert (getattr(again, name) == getattr(moved, name)).all()
    narrow = replace(found, centres=found.centres[:, :4], variance=found.variance[:, :4])
    assert (numbered_as(narrow, before).counts == moved.counts).all()
    assert (numbered_as(before, narrow).counts == before.counts[order]).all()


@pytest.mark.parametrize(
    ("signal", "steps", "factor"), [(20.0, 2, 1.2), (40.0, 2, 1.0), (20.0, 0, 1.0)]
)
def test_errors_of_sizes_are_calibrated(signal: float, steps: int, factor: float) -> None:
    """Of refined clusters with little signal, after the period that found them."""
    clusters, shown, _ = follow(np.random.default_rng(7), units=10**16, steps=steps)
    clusters = replace(clusters, signal=signal)
    mean, std = published_sizes(clusters)
    plain = size_posterior(clusters)
    assert (mean == plain.mean).all()
    assert std[:, 0] == pytest.approx(plain.std[:, 0])
    assert std[:, 1:] == pytest.approx(factor * plain.std[:, 1:])
    assert (shown[-1].counts == mean[:, -1]).all()


def test_errors_of_followed_centroids_are_calibrated() -> None:
    """By one factor, which clusters that were found do not have; shapes are the same."""
    cells = first_clusters(np.random.default_rng(4)).first
    basis = row_basis(24, 1)
    found, followed = (published_curves(cells, basis, is_found=flag) for flag in (True, False))
    assert (found[0] == followed[0]).all()
    assert np.allclose(followed[1], 1.8 * found[1])


def test_errors_of_small_clusters_that_were_found_are_calibrated() -> None:
    """Those below half of the average size; followed ones have the common factor alone."""
    cells = first_clusters(np.random.default_rng(4)).first
    basis = row_basis(24, 1)
    counts = np.full(len(cells.counts), 100.0)
    counts[1] = 30.0
    cells = replace(cells, counts=counts)
    found, followed = (published_curves(cells, basis, is_found=flag)[1] for flag in (True, False))
    factors = np.where(counts < 50.0, 1.7, 1.0)[:, None]
    assert np.allclose(found / factors, followed / 1.8)
