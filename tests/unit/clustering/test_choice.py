"""Which merge is refined: what is foreseen of it, what is asked, what the answer decides."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.clustering import choice, tuning
from wattveil.clustering.cells import Cells, start_cells
from wattveil.clustering.choice import Question, open_question
from wattveil.clustering.merge import Merge, local_optima

Floats = NDArray[np.float64]


def cells_at(middles: Floats, *, counts_std: float = 5.0, spread: float = 0.2) -> Cells:
    """Return cells of 100 customers and radius 0.5."""
    ones = np.ones(len(middles))
    return start_cells(
        middles, 0.5 * ones, 100.0 * ones, counts_std=counts_std * ones, spread=spread
    )


def rectangle(width: float, height: float) -> list[Merge]:
    """Return both ways to make two clusters of the four corners."""
    corners = np.array([[x, y] for x in (-width, width) for y in (-height, height)])
    return local_optima(cells_at(corners), 2)


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


def answer_of(rows: Floats, question: Question) -> Floats:
    """Return the exact answer of some customers."""
    costs = brute_costs(rows, question.merges)
    features = (costs - costs.mean(axis=1, keepdims=True)) @ question.features
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


def test_nothing_is_asked_when_one_merge_is_surely_the_best() -> None:
    """Two groups far apart have one optimum; a long rectangle has a second that is implausible."""
    groups = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0], [9.1, 9.0]])
    assert open_question(local_optima(cells_at(groups), 2), std=1.0) is None
    assert len(rectangle(1.4, 1.0)) == 2
    assert open_question(rectangle(1.4, 1.0), std=1.0) is None
    assert open_question(rectangle(1.05, 1.0), std=1.0) is not None


@pytest.mark.parametrize("counts_std", [2.0, 5.0, 12.0])
def test_merges_within_two_standard_deviations_are_compared(counts_std: float) -> None:
    """The cost of the tall merge less that of the wide one: 4 n (w^2 - h^2), its error by hand."""
    for width in np.linspace(1.01, 1.6, 25):
        corners = np.array([[x, y] for x in (-width, width) for y in (-1.0, 1.0)])
        cells = cells_at(corners, counts_std=counts_std)
        merges = local_optima(cells, 2)
        if len(merges) == 1:
            continue
        more = 400.0 * (width**2 - 1.0)
        # A corner costs one merge h^2 and the other w^2: counts, then a middle's two coordinates.
        variance = 4 * counts_std**2 * (width**2 - 1.0) ** 2
        variance += 4 * 100.0**2 * 4 * np.array([width**2, 1.0]) @ cells.variance[0]
        question = open_question(merges, std=1.0)
        assert (question is not None) == (more <= 2.0 * np.sqrt(variance))


def test_merges_that_differ_for_nobody_are_not_compared() -> None:
    """The same merge twice: nothing is open, and nothing is divided by nothing."""
    same = rectangle(1.05, 1.0)[0]
    assert open_question([same, same], std=1.0) is None


def test_directions_see_differences_alone() -> None:
    """Three merges of which two are one: a single direction, without what is common to all."""
    beside, above = rectangle(1.05, 1.0)
    question = open_question([beside, above, above], std=1.0)
    assert question is not None
    assert question.directions.shape == (3, 1)
    assert question.features.sum() == pytest.approx(0.0, abs=1e-9 * np.abs(question.features).max())


def test_the_answer_decides_a_tie() -> None:
    """Customers on two sides of a square: beside each other, or one above the other."""
    generator = np.random.default_rng(1)
    across = np.where(generator.random((400, 1)) < 0.5, -1.0, 1.0) * np.array([1.0, 0.0])
    question = open_question(rectangle(1.001, 1.0), std=0.5)
    assert question is not None
    assert question.features.shape == (2, 1)
    assert is_beside(question.best(answer_of(across, question)))
    assert not is_beside(question.best(answer_of(across[:, ::-1], question)))
    assert not is_beside(question.best(-answer_of(across, question)))


def test_an_answer_of_noise_leaves_the_cheapest() -> None:
    """The less an answer can tell, the less it is heard."""
    merges = rectangle(1.05, 1.0)
    question = open_question(merges, std=1e6)
    assert question is not None
    assert question.gains.max() < 1e-4
    for sign in (-1.0, 1.0):
        assert question.best(np.array([sign * 1e6])) is merges[0]


@pytest.mark.parametrize("seed", range(8))
def test_an_exact_answer_finds_the_least_true_cost(seed: int) -> None:
    """Without noise and clipping the choice is that of brute force over all customers."""
    generator = np.random.default_rng(seed)
    middles = generator.normal(size=(14, 3))
    merges = local_optima(cells_at(middles, counts_std=60.0, spread=1.5), 4)
    question = open_question(merges, std=1e-9)
    assert question is not None
    assert len(question.merges) > 1
    # Other customers than the cells foresee: most are near one of them.
    numbers = generator.integers(1, 300, size=14)
    rows = np.repeat(middles, numbers, axis=0)
    rows += 0.1 * generator.normal(size=rows.shape)
    costs = brute_costs(rows, question.merges)
    assert (
        np.linalg.norm(
            (costs - costs.mean(axis=1, keepdims=True)) @ question.features, axis=1
        ).max()
        < 1
    )
    best = question.best(answer_of(rows, question))
    assert best is question.merges[int(costs.sum(axis=0).argmin())]


def test_foreseen_covariance_by_drawing_cells() -> None:
    """L against the covariance of F over cells that are drawn with their errors."""
    generator = np.random.default_rng(2)
    cells = cells_at(generator.normal(size=(14, 3)), spread=0.1)
    merges = local_optima(cells, 4)[:3]
    costs, covariance, _ = choice._foreseen(merges)
    foreseen = cells.counts @ costs
    expected = cells.counts @ brute_costs(cells.middles, merges)
    assert foreseen == pytest.approx(expected - expected.mean())
    nearest = np.stack([merge.centroids[merge.labels] for merge in merges])

    def drawn() -> Floats:
        middles = cells.middles + np.sqrt(cells.variance) * generator.normal(size=(14, 3))
        counts = cells.counts + np.sqrt(cells.counts_variance) * generator.normal(size=14)
        total = (counts * np.square(middles - nearest).sum(axis=2)).sum(axis=1)
        centred: Floats = total - total.mean()
        return centred

    sample = np.cov(np.array([drawn() for _ in range(20_000)]).T)
    assert covariance == pytest.approx(sample, rel=0.1, abs=0.02 * np.abs(sample).max())


def test_what_clipping_takes_is_foreseen() -> None:
    """Customers where the cells are, and as many: the answer is heard as if it were not clipped."""
    merges = rectangle(1.05, 1.0)
    question = open_question(merges, std=1e4)  # so much noise that clipping pays
    assert question is not None
    rows = np.repeat(merges[0].cells.middles, 100, axis=0)
    costs = brute_costs(rows, question.merges)
    seen = (costs - costs.mean(axis=1, keepdims=True)) @ question.features
    assert np.linalg.norm(seen, axis=1).max() > 1.0
    heard = question.bound * answer_of(rows, question) + question.clipped
    assert heard == pytest.approx(question.foreseen @ question.directions)


def test_so_many_merges_are_compared_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest of them."""
    middles = np.random.default_rng(5).normal(size=(20, 3))
    merges = local_optima(cells_at(middles, counts_std=90.0, spread=3.0), 5)
    monkeypatch.setattr(tuning, "MOST_MERGES", 3)
    question = open_question(merges, std=1.0)
    assert question is not None
    assert list(question.merges) == merges[:3]
