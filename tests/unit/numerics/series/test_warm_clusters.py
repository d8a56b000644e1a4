"""Segments over time: division of the budget, prediction, sizes, drift, clustering anew."""

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
    plan_segments,
    predicted_cells,
    published_curves,
    segment_schedule,
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


def test_the_division_follows_the_signal() -> None:
    """Little signal keeps the first clusters; much signal has more refining steps."""
    plans = [
        plan_segments(customers=customers, rho=0.1, n_clusters=6, horizon=20)
        for customers in (200.0, 3000.0, 30_000.0)
    ]
    assert [plan.steps for plan in plans] == [0, 2, 4]
    assert plans[0].signal < 5.0 < plans[1].signal < 100.0 < plans[2].signal
    alone = plan_segments(customers=300.0, rho=0.1, n_clusters=6, horizon=1)
    assert alone.first_share == 1.0
    with pytest.raises(InvalidParameterError, match="customers"):
        plan_segments(customers=0.0, rho=0.1, n_clusters=6, horizon=20)


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


def accrued(*found_in: int, horizon: int = 11) -> list[int]:
    """Return what has accrued by each period."""
    return [
        segment_schedule(
            units=10**17,
            unit=UNITS,
            customers=3000.0,
            n_clusters=6,
            horizon=horizon,
            found_in=found_in,
            period=period,
        ).accrued
        for period in range(horizon)
    ]


def test_all_units_accrue_and_clustering_anew_takes_the_first_share_of_what_is_left() -> None:
    """Even parts after the first; found anew, a period takes 0.4 of the rest; the last, all."""
    plain = accrued(0)
    assert plain[0] == pytest.approx(0.4e17)
    assert np.diff(plain) == pytest.approx(0.06e17)
    assert plain[-1] == 10**17
    anew = accrued(0, 6)
    assert anew[:6] == plain[:6]
    assert anew[6] - anew[5] == pytest.approx(0.4 * (1e17 - anew[5]))
    assert np.diff(anew)[6:] == pytest.approx(0.6 * (1e17 - anew[5]) / 4.0)
    assert anew[-1] == accrued(0, 10)[-1] == 10**17


def test_errors_of_followed_centroids_are_calibrated() -> None:
    """By one factor, which clusters that were found do not have; shapes are the same."""
    cells = first_clusters(np.random.default_rng(4)).first
    basis = row_basis(24, 1)
    found, followed = (published_curves(cells, basis, is_found=flag) for flag in (True, False))
    assert (found[0] == followed[0]).all()
    assert np.allclose(followed[1], 1.8 * found[1])
