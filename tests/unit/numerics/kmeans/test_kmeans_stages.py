"""The numeric parts of the global tier, each against a plain computation of the same thing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from wattveil.numerics.kmeans import kmeans_stages as filtering
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.cluster_merge import divided_by_size, local_optima, own_spread
from wattveil.numerics.kmeans.codebooks import make_codebook, shapes_per_level
from wattveil.numerics.kmeans.kmeans_stages import (
    Cells,
    Statistics,
    shrink_together,
    start_cells,
    update,
)
from wattveil.numerics.kmeans.kmeans_tuning import choose_tuning
from wattveil.numerics.load_basis import (
    checked_library,
    harmonics,
    public_basis,
    shape_library,
)
from wattveil.numerics.segment_support import distinguishable_curves
from wattveil.numerics.size_distribution import one_level, size_edges, size_levels


def count_distinguishable(cells: Cells) -> int:
    """Return the number of clusters that differ pairwise by more than noise."""
    variance, std = cells.variance.sum(axis=1), np.sqrt(cells.counts_variance)
    return int(distinguishable_curves(cells.centres, variance, cells.counts, std).sum())


def some_cells(centres: object, counts: object, spread: float = 0.1) -> Cells:
    """Return cells of radius 1 at given centres."""
    where = np.array(centres, dtype=np.float64)
    number = np.array(counts, dtype=np.float64)
    return start_cells(where, np.ones(len(where)), number, counts_std=number, spread=spread)


# --- public geometry ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_slots", [1, 2, 24, 25, 48, 96])
def test_basis_is_orthonormal_and_runs_from_smooth_to_rough(n_slots: int) -> None:
    """B B' = I; the first curve is a level, later ones change sign more often."""
    basis = public_basis(n_slots)
    assert basis @ basis.T == pytest.approx(np.eye(n_slots), abs=1e-12)
    changes = (np.diff(np.sign(basis), axis=1) != 0).sum(axis=1)
    assert changes[0] == 0
    assert changes[-1] >= changes[n_slots // 2]
    assert np.array_equal(basis, public_basis(n_slots))


@pytest.mark.parametrize("count", [1, 28, 29, 200])
def test_library_has_distinct_shapes_of_length_1(count: int) -> None:
    """The requested number, described ones first; nothing is drawn at random."""
    library = shape_library(24, count)
    assert library.shape == (count, 24)
    assert np.linalg.norm(library, axis=1) == pytest.approx(np.ones(count))
    assert np.array_equal(library[:20], shape_library(24, 40)[: min(count, 20)])
    apart = np.square(library[:, None] - library).sum(axis=2) + np.eye(count)
    assert apart.min() > 1e-3


def test_harmonics() -> None:
    """A level, then sine and cosine of each frequency."""
    assert harmonics(6).tolist() == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("signal", [1.0, 79.0, 81.0, 120.0, 200.0, 400.0, 6000.0])
@pytest.mark.parametrize("n_clusters", [1, 6, 20, 1000])
def test_every_codebook_has_two_cells_per_cluster(signal: float, n_clusters: int) -> None:
    """The merge needs more cells than clusters, also when only two size levels were found."""
    tuning = choose_tuning(signal, n_slots=24, n_clusters=n_clusters)
    assert tuning.cells_per_level[0] + tuning.cells_per_level[2] >= 2 * n_clusters
    assert tuning.cells_normalised >= 2 * n_clusters
    assert 1 <= tuning.coordinates <= 24
    assert bool(tuning.shells) == (signal >= 100.0)


# --- sizes ----------------------------------------------------------------------------------------


def test_log_normal_is_found() -> None:
    """From exact counts of a log-normal population: its median, spread and number."""
    edges = size_edges(0.2, 200.0, signal=1000.0)
    assert edges[1] / edges[0] == pytest.approx(1.6)
    below = stats.norm.cdf((np.log(edges) - math.log(6.0)) / 0.5)
    counts = 1e4 * np.diff([0.0, *below, 1.0])
    found = size_levels(counts, edges, std=10.0, mu=0.3)
    assert found.log_median == pytest.approx(math.log(6.0), abs=0.05)
    assert found.log_std == pytest.approx(0.5, abs=0.08)
    assert found.total == pytest.approx(1e4, rel=0.02)
    assert found.customers.sum() == pytest.approx(1e4, rel=0.1)
    assert found.levels[0] < 6.0 < found.levels[-1]
    assert found.levels[1:] / found.levels[:-1] == pytest.approx(kmeans_tuning.LEVEL_RATIO, rel=0.3)


def test_far_level_needs_strong_evidence() -> None:
    """Very large customers get a level if their count is significant, not otherwise."""
    edges = size_edges(0.2, 200.0, signal=1000.0)
    below = stats.norm.cdf((np.log(edges) - math.log(3.0)) / 0.4)
    counts = 1e4 * np.diff([0.0, *below, 1.0])
    counts[-2] += 300.0
    assert size_levels(counts, edges, std=10.0, mu=0.3).levels[-1] > 15.0
    assert size_levels(counts, edges, std=150.0, mu=0.3).levels[-1] < 15.0


def test_coarser_cells_for_a_weak_signal() -> None:
    """Fewer customers, wider cells."""
    assert size_edges(0.2, 200.0, signal=10.0).size < size_edges(0.2, 200.0, signal=1e3).size


# --- own library ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_own_library_has_length_1_whatever_its_unit(size: float) -> None:
    """No length under- or overflows."""
    library = checked_library(size * np.eye(3), 3)
    assert library == pytest.approx(np.eye(3))


def test_noise_colour_has_mean_square_1() -> None:
    """The weights of the coordinates leave the total noise power unchanged."""
    assert np.mean(np.square(filtering.noise_colour(9, 0.25))) == pytest.approx(1.0)


# --- the filter -----------------------------------------------------------------------------------


def test_one_step_is_the_posterior_mean() -> None:
    """With a sure count, the centre is the Gaussian posterior mean of prior and measurement."""
    cells = start_cells(
        np.zeros((1, 1)), np.array([2.0]), np.array([100.0]), counts_std=np.array([1.0]), spread=0.5
    )
    observed = Statistics(
        counts=np.array([[100.0]]), counts_std=1e-9, sums=np.array([[30.0]]), sums_std=10.0
    )
    after = update(cells, observed, step=0, colour=np.ones(1))
    prior, noise = (0.5 * 2.0) ** 2, (10.0 * 2.0 / 100.0) ** 2
    measured = 30.0 * 2.0 / 100.0
    assert after.centres[0, 0] == pytest.approx(measured * prior / (prior + noise))
    assert after.variance[0, 0] == pytest.approx(1.0 / (1.0 / prior + 1.0 / noise))


def test_many_steps_cost_hardly_more_than_one() -> None:
    """Ten steps of a tenth of the budget leave about the error of one step of all of it."""

    def error(steps: int) -> float:
        cells = some_cells(np.zeros((1, 5)), [1000.0], spread=0.5)
        for step in range(steps):
            observed = Statistics(
                counts=np.array([[1000.0]]),
                counts_std=1.0,
                sums=np.zeros((1, 5)),
                sums_std=20.0 * math.sqrt(steps),
            )
            cells = update(cells, observed, step=step, colour=np.ones(5))
        return math.sqrt(cells.variance.sum())

    assert error(1) < error(10) < 1.8 * error(1)


def test_cell_without_signal_stays() -> None:
    """Nothing but noise moves a centre by a fraction of its prior, and a radius not at all."""
    tuning = choose_tuning(200.0, n_slots=24, n_clusters=2)
    cells = some_cells(np.ones((2, 9)), [50.0, 50.0])
    observed = Statistics(
        counts=np.full((2, 5), 3.0), counts_std=100.0, sums=np.full((2, 9), 500.0), sums_std=1e4
    )
    after = filtering.follow_shells(
        update(cells, observed, step=0, colour=np.ones(9)), observed, tuning
    )
    assert after.centres == pytest.approx(cells.centres, abs=0.01)
    assert np.array_equal(after.radii, cells.radii)


@pytest.mark.parametrize(
    ("counts", "grows"), [([0, 0, 0, 0, 900], 1), ([900, 0, 0, 0, 0], -1), ([0, 0, 900, 0, 0], 0)]
)
def test_radius_follows_the_shells(counts: list[float], grows: int) -> None:
    """All outside: it grows; all near the centre: it shrinks; all at the radius: it stays."""
    tuning = choose_tuning(200.0, n_slots=24, n_clusters=1)
    observed = Statistics(
        counts=np.array([counts], dtype=np.float64),
        counts_std=1.0,
        sums=np.zeros((1, 9)),
        sums_std=1.0,
    )
    cells = some_cells(np.zeros((1, 9)), [900.0])
    radius = filtering.follow_shells(cells, observed, tuning).radii[0]
    assert np.sign(round(radius - 1.0, 1)) == grows


# --- codebook and merge ---------------------------------------------------------------------------


def test_codebook_is_shapes_times_levels() -> None:
    """Each level has its shapes, scaled, with the customers of the level spread evenly."""
    tuning = choose_tuning(50.0, n_slots=24, n_clusters=6)
    sizes = one_level(2.0, 120.0)
    shapes = np.eye(24)[:, :9]
    codebook = make_codebook(shapes, sizes, tuning)
    assert shapes_per_level(tuning, sizes) == [20]
    assert len(codebook.cells.centres) == 20
    assert codebook.cells.counts.sum() == pytest.approx(120.0)
    assert np.linalg.norm(codebook.cells.centres[:9], axis=1) == pytest.approx(np.full(9, 2.0))
    assert codebook.unconfirmed.size == 0


def test_unconfirmed_level_is_emptied() -> None:
    """An unconfirmed level keeps its customers only if the coarse stage saw them."""
    tuning = choose_tuning(50.0, n_slots=24, n_clusters=2)
    edges = size_edges(0.2, 200.0, signal=50.0)
    counts = np.zeros(edges.size + 1)
    counts[4], counts[-2] = 1e4, 500.0
    codebook = make_codebook(
        shape_library(24, 12), size_levels(counts, edges, std=1.0, mu=0.3), tuning
    )
    assert codebook.unconfirmed.size
    far = codebook.level == codebook.unconfirmed[-1]
    for observed, kept in ((1e-3, 0.0), (1e3, 1e3)):
        cells = some_cells(codebook.cells.centres, np.where(far, observed, 10.0))
        assert codebook.confirmed(cells).counts[far] == pytest.approx(np.full(far.sum(), kept))


def test_merge_finds_groups_and_ignores_unconfirmed_cells() -> None:
    """Two groups of cells and an empty far one."""
    cells = some_cells([[0, 0], [0.2, 0], [5, 5], [5.2, 5], [99, 99]], [10, 30, 20, 20, -5])
    merged = local_optima(cells, 2, is_shape=True)[0].clusters(median_size=1.0, customers=80.0)
    order = merged.centres[:, 0].argsort()
    assert merged.centres[order] == pytest.approx(np.array([[0.15, 0.0], [5.1, 5.0]]))
    assert merged.counts[order] == pytest.approx([40.0, 40.0])
    assert (merged.radii > 0.5).all()


def test_cells_of_load_are_divided_by_size() -> None:
    """A third of the customers each; centre and spread of the cell stay, and no centre passes 0."""
    cells = some_cells([[4.0, 3.0], [0.1, 0.0]], [30.0, 60.0])
    parts = divided_by_size(cells)
    centres = parts.centres.reshape(3, 2, 2)
    assert centres.mean(axis=0) == pytest.approx(cells.centres)
    assert np.linalg.norm(centres[2] - centres[1], axis=1) == pytest.approx(
        np.minimum(
            kmeans_tuning.SIZE_OFFSET * cells.radii, 0.9 * np.linalg.norm(cells.centres, axis=1)
        )
    )
    assert ((centres[0] * cells.centres).sum(axis=1) > 0.0).all()
    assert parts.counts.reshape(3, 2).sum(axis=0) == pytest.approx(cells.counts)
    assert parts.counts_variance.reshape(3, 2).sum(axis=0) == pytest.approx(cells.counts_variance)
    apart = np.square(centres - cells.centres).sum(axis=2).mean(axis=0)
    assert apart + own_spread(parts)[:2] == pytest.approx(own_spread(cells))


def test_one_cell_of_load_gives_clusters_of_different_size() -> None:
    """Most customers are in one cell: they are divided, rather than a few others kept apart."""
    cells = some_cells([[6.0, 0.0], [0.5, 0.0], [0.5, 0.3]], [500.0, 20.0, 20.0])
    merged = local_optima(cells, 3, is_shape=False)[0]
    lengths = np.linalg.norm(merged.centroids, axis=1)
    assert (lengths > 5.0).sum() == 2
    together = local_optima(cells, 3, is_shape=True)[0]
    assert (np.linalg.norm(together.centroids, axis=1) > 5.0).sum() == 1


def test_merge_with_too_little_confirmed_takes_all() -> None:
    """The requested number of clusters, for any counts."""
    cells = some_cells(np.eye(4), [-1.0, -2.0, -3.0, 0.0])
    merged = local_optima(cells, 3, is_shape=True)[0].clusters(median_size=1.0, customers=1.0)
    assert merged.centres.shape == (3, 4)


def test_clusters_within_their_noise_shrink_together() -> None:
    """Noise alone: one point. No noise: nothing moves. The mean stays."""
    noisy = some_cells([[0.0, 0.1], [0.1, 0.0]], [10.0, 10.0], spread=5.0)
    assert shrink_together(noisy).centres == pytest.approx(np.full((2, 2), 0.05))
    assert count_distinguishable(noisy) == 1
    sure = some_cells([[0.0, 9.0], [9.0, 0.0], [9.0, 0.001]], [10.0, 10.0, 5.0], spread=1e-3)
    assert shrink_together(sure).centres == pytest.approx(sure.centres, abs=1e-5)
    assert count_distinguishable(sure) == 1  # each may be empty
    assert count_distinguishable(replace(sure, counts_variance=np.ones(3))) == 2
    assert count_distinguishable(replace(sure, counts_variance=np.array([1.0, 1.0, 99.0]))) == 2
    assert count_distinguishable(replace(sure, counts_variance=np.array([999.0, 1.0, 1.0]))) == 1
    between = replace(
        some_cells([[0.0], [5.0], [10.0]], [9.0, 9.0, 9.0], spread=0.1), counts_variance=np.ones(3)
    )
    assert count_distinguishable(between) == 3
    uncertain = replace(between, variance=np.array([[0.1], [40.0], [0.1]]))
    assert count_distinguishable(uncertain) == 2  # what may be either of two does not make them one
    same = some_cells([[1.0], [1.0]], [1.0, 1.0])
    assert shrink_together(same).centres.tolist() == [[1.0], [1.0]]
