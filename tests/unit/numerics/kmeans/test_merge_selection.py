"""Which merge is refined: its prediction, the query, the decision."""

from collections.abc import Sequence

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import cluster_merge, kmeans_tuning
from wattveil.numerics.kmeans.cluster_merge import (
    Merge,
    SelectionQuery,
    local_optima,
    selection_query,
)
from wattveil.numerics.kmeans.kmeans_stages import Cells, start_cells


def cells_at(centres: Floats, *, counts_std: float = 5.0, spread: float = 0.2) -> Cells:
    """Return cells of 100 customers and radius 0.5."""
    ones = np.ones(len(centres))
    return start_cells(
        centres, 0.5 * ones, 100.0 * ones, counts_std=counts_std * ones, spread=spread
    )


def rectangle(width: float, height: float) -> list[Merge]:
    """Return both ways to make two clusters of the four corners."""
    corners = np.array([[x, y] for x in (-width, width) for y in (-height, height)])
    return local_optima(cells_at(corners), 2, is_shape=True)


def brute_costs(rows: Floats, merges: Sequence[Merge]) -> Floats:
    """Return d_m(x) for every row and merge, one at a time."""
    return np.array(
        [
            [
                min(float(((row - centroid) ** 2).sum()) for centroid in merge.centroids)
                for merge in merges
            ]
            for row in rows
        ]
    )


def answer_of(rows: Floats, query: SelectionQuery) -> Floats:
    """Return the exact answer of some customers."""
    costs = brute_costs(rows, query.merges)
    features = (costs - costs.mean(axis=1, keepdims=True)) @ query.features
    clipped = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    total: Floats = clipped.sum(axis=0)
    return total


def is_beside(merge: Merge) -> bool:
    """Whether the two clusters lie beside each other, not one above the other."""
    return bool(np.ptp(merge.centroids[:, 0]) > np.ptp(merge.centroids[:, 1]))


def test_local_optima_are_different_and_the_cheapest_first() -> None:
    """A rectangle has two: four corners, each cluster a side."""
    beside, above = rectangle(1.05, 1.0)
    assert is_beside(beside)
    assert not is_beside(above)
    assert beside.cost == pytest.approx(400 * 1.0**2)
    assert above.cost == pytest.approx(400 * 1.05**2)


def test_no_query_when_one_merge_is_surely_the_best() -> None:
    """Two groups far apart have one optimum; a long rectangle has a second that is implausible."""
    groups = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0], [9.1, 9.0]])
    assert selection_query(local_optima(cells_at(groups), 2, is_shape=True), std=1.0) is None
    assert len(rectangle(1.4, 1.0)) == 2
    assert selection_query(rectangle(1.4, 1.0), std=1.0) is None
    assert selection_query(rectangle(1.05, 1.0), std=1.0) is not None


@pytest.mark.parametrize("counts_std", [2.0, 5.0, 12.0])
def test_merges_within_two_standard_deviations_are_compared(counts_std: float) -> None:
    """The cost of the tall merge less that of the wide one: 4 n (w^2 - h^2), its error by hand."""
    for width in np.linspace(1.01, 1.6, 25):
        corners = np.array([[x, y] for x in (-width, width) for y in (-1.0, 1.0)])
        cells = cells_at(corners, counts_std=counts_std)
        merges = local_optima(cells, 2, is_shape=True)
        if len(merges) == 1:
            continue
        more = 400.0 * (width**2 - 1.0)
        # A corner costs one merge h^2 and the other w^2: counts, then a centre's two coordinates.
        variance = 4 * counts_std**2 * (width**2 - 1.0) ** 2
        variance += 4 * 100.0**2 * 4 * np.array([width**2, 1.0]) @ cells.variance[0]
        query = selection_query(merges, std=1.0)
        assert (query is not None) == (more <= 2.0 * np.sqrt(variance))


def test_merges_that_differ_for_no_customer_are_not_compared() -> None:
    """The same merge twice: nothing is open, and nothing is divided by nothing."""
    same = rectangle(1.05, 1.0)[0]
    assert selection_query([same, same], std=1.0) is None


def test_directions_see_differences_alone() -> None:
    """Three merges of which two are one: a single direction, without what is common to all."""
    beside, above = rectangle(1.05, 1.0)
    query = selection_query([beside, above, above], std=1.0)
    assert query is not None
    assert query.directions.shape == (3, 1)
    assert query.features.sum() == pytest.approx(0.0, abs=1e-9 * np.abs(query.features).max())


def test_the_answer_decides_a_tie() -> None:
    """Customers on two sides of a square: beside each other, or one above the other."""
    generator = np.random.default_rng(1)
    across = np.where(generator.random((400, 1)) < 0.5, -1.0, 1.0) * np.array([1.0, 0.0])
    query = selection_query(rectangle(1.001, 1.0), std=0.5)
    assert query is not None
    assert query.features.shape == (2, 1)
    assert is_beside(query.best(answer_of(across, query)))
    assert not is_beside(query.best(answer_of(across[:, ::-1], query)))
    assert not is_beside(query.best(-answer_of(across, query)))


def test_an_answer_of_noise_leaves_the_cheapest() -> None:
    """The noisier the answer, the smaller its weight."""
    merges = rectangle(1.05, 1.0)
    query = selection_query(merges, std=1e6)
    assert query is not None
    assert query.gains.max() < 1e-4
    for sign in (-1.0, 1.0):
        assert query.best(np.array([sign * 1e6])) is merges[0]


@pytest.mark.parametrize("seed", range(8))
def test_an_exact_answer_finds_the_minimum_true_cost(seed: int) -> None:
    """Without noise and clipping the choice is that of brute force over all customers."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(14, 3))
    merges = local_optima(cells_at(centres, counts_std=60.0, spread=1.5), 4, is_shape=True)
    query = selection_query(merges, std=1e-9)
    assert query is not None
    assert len(query.merges) > 1
    # Other customers than the cells foresee: most are near one of them.
    numbers = generator.integers(1, 300, size=14)
    rows = np.repeat(centres, numbers, axis=0)
    rows += 0.1 * generator.normal(size=rows.shape)
    costs = brute_costs(rows, query.merges)
    assert (
        np.linalg.norm((costs - costs.mean(axis=1, keepdims=True)) @ query.features, axis=1).max()
        < 1
    )
    best = query.best(answer_of(rows, query))
    assert best is query.merges[int(costs.sum(axis=0).argmin())]


def test_predicted_covariance_by_drawing_cells() -> None:
    """L against the covariance of F over cells that are drawn with their errors."""
    generator = np.random.default_rng(2)
    cells = cells_at(generator.normal(size=(14, 3)), spread=0.1)
    merges = local_optima(cells, 4, is_shape=True)[:3]
    costs, covariance, _ = cluster_merge._predicted(merges)
    predicted = cells.counts @ costs
    expected = cells.counts @ brute_costs(cells.centres, merges)
    assert predicted == pytest.approx(expected - expected.mean())
    nearest = np.stack([merge.centroids[merge.labels] for merge in merges])

    def drawn() -> Floats:
        centres = cells.centres + np.sqrt(cells.variance) * generator.normal(size=(14, 3))
        counts = cells.counts + np.sqrt(cells.counts_variance) * generator.normal(size=14)
        total = (counts * np.square(centres - nearest).sum(axis=2)).sum(axis=1)
        centred: Floats = total - total.mean()
        return centred

    sample = np.cov(np.array([drawn() for _ in range(20_000)]).T)
    assert covariance == pytest.approx(sample, rel=0.1, abs=0.02 * np.abs(sample).max())


def test_the_bias_of_clipping_is_predicted() -> None:
    """Customers where the cells are, and as many: the answer is heard as if it were not clipped."""
    merges = rectangle(1.05, 1.0)
    query = selection_query(merges, std=1e4)  # so much noise that clipping pays
    assert query is not None
    rows = np.repeat(merges[0].cells.centres, 100, axis=0)
    costs = brute_costs(rows, query.merges)
    observed = (costs - costs.mean(axis=1, keepdims=True)) @ query.features
    assert np.linalg.norm(observed, axis=1).max() > 1.0
    heard = query.bound * answer_of(rows, query) + query.clipped
    assert heard == pytest.approx(query.predicted @ query.directions)


def test_so_many_merges_are_compared_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest of them."""
    centres = np.random.default_rng(5).normal(size=(20, 3))
    merges = local_optima(cells_at(centres, counts_std=90.0, spread=3.0), 5, is_shape=True)
    monkeypatch.setattr(kmeans_tuning, "MAX_MERGES", 3)
    query = selection_query(merges, std=1.0)
    assert query is not None
    assert list(query.merges) == merges[:3]
