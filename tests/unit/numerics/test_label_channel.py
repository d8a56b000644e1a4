"""Channels by linear program: known optima, the constraints, and what happens when it fails."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics import label_channel
from wattveil.numerics.label_channel import (
    candidate_channels,
    checked_clusters,
    label_cost,
    squared_distances,
    whole_parts,
)

SIZES = np.array([0.30, 0.25, 0.15, 0.10, 0.12, 0.08])
WRONG = 1.0 - np.eye(6)
PARTS = 2**62


def violation(table: Floats, epsilon: float) -> float:
    """Return how far the largest ratio exceeds e^epsilon, relatively."""
    *rows, absent = table
    ratios = [max(row / absent) for row in rows] + [max(absent / row) for row in rows]
    return float(max(ratios)) / math.exp(epsilon) - 1.0


def random_clusters(n_clusters: int, number: int) -> tuple[Floats, Floats]:
    """Return the squared distances of simulated centroids, and simulated shares."""
    generator = np.random.default_rng(number)
    centres = generator.gamma(2.0, 1.0, (n_clusters, 24))
    return squared_distances(centres), generator.dirichlet(np.ones(n_clusters))


def dense_optimum(cost: Floats, weights: Floats, epsilon: float) -> float:
    """Solve the same program independently: dense, by interior points, pair by pair."""
    n = len(weights)
    above = []
    for k, j in itertools.product(range(n), range(n)):
        for sign in (1.0, -1.0):
            row = np.zeros((n + 1, n))
            row[k, j], row[n, j] = (
                (1.0, -math.exp(epsilon)) if sign > 0 else (-math.exp(epsilon), 1)
            )
            above.append(row.ravel())
    ones = np.kron(np.eye(n + 1), np.ones(n))
    found = linprog(
        np.append((weights[:, None] * cost).ravel(), np.zeros(n)),
        A_ub=np.array(above),
        b_ub=np.zeros(len(above)),
        A_eq=ones,
        b_eq=np.ones(n + 1),
        method="highs-ipm",
    )
    assert found.fun is not None
    return float(found.fun)


def cheapest(cost: Floats, weights: Floats, epsilon: float) -> float:
    """Return the minimum cost among candidates that keep the constraints."""
    tables = candidate_channels(cost, weights, epsilon=epsilon)
    whole = [whole_parts(table, PARTS) / PARTS for table in tables]
    return min(
        label_cost(table, cost, weights)
        for table in whole
        if not table.min() or violation(table, epsilon) < 1e-12
    )


@pytest.mark.parametrize(
    ("epsilon", "error"), [(0.5, 0.597), (1.0, 0.425), (2.0, 0.108), (3.0, 0.037), (4.0, 0.013)]
)
def test_known_label_errors(epsilon: float, error: float) -> None:
    """Six clusters, every wrong label alike: what was computed before the code was written."""
    assert cheapest(WRONG, SIZES, epsilon) == pytest.approx(error, abs=5.1e-4)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 4.0, 7.0])
@pytest.mark.parametrize("n_clusters", [2, 3, 7])
def test_rounding_costs_less_than_a_thousandth(n_clusters: int, epsilon: float) -> None:
    """Against the optimum by another solver: at most 0.1 % above, never below."""
    cost, weights = random_clusters(n_clusters, 7)
    best = dense_optimum(cost, weights, epsilon)
    assert best * (1.0 - 1e-6) <= cheapest(cost, weights, epsilon) <= best * 1.001


@pytest.mark.parametrize("epsilon", [8.5, 12.0, 18.0])
def test_beyond_the_solver_the_closed_form_is_optimal(epsilon: float) -> None:
    """Errors go to the label that costs least on average: e^-epsilon sum_k w_k cost_km."""
    cost, weights = random_clusters(6, 3)
    expected = math.exp(-epsilon) * float((weights @ cost).min())
    assert expected <= cheapest(cost, weights, epsilon) <= expected * 1.002


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1e-3, 0.3, 1.0, 3.0, 8.0, 20.0, 40.0, 1e6])
@pytest.mark.parametrize("n_clusters", [1, 2, 3, 6, 20])
def test_every_epsilon_has_a_private_candidate(n_clusters: int, epsilon: float) -> None:
    """Rows are whole parts that add up; the first candidate is independent of the true label."""
    cost, weights = random_clusters(n_clusters, 1)
    tables = candidate_channels(cost, weights, epsilon=epsilon)
    for table in tables:
        parts = whole_parts(table, PARTS)
        assert {sum(row) for row in parts.tolist()} == {PARTS}
        assert parts.min() >= 0
        assert ((parts > 0).all(axis=0) == (parts > 0).any(axis=0)).all()
    constant = whole_parts(tables[0], PARTS)
    assert (constant == constant[0]).all()
    assert constant[0].max() == PARTS


def test_fifty_clusters_are_solved() -> None:
    """K = 50 is solved, not given up: far better than randomised response."""
    cost, weights = random_clusters(50, 2)
    found = cheapest(cost, weights, 2.0)
    assert found < 0.6 * label_cost(label_channel._response(50, 2.0), cost, weights)


def test_more_clusters_than_the_solver_takes() -> None:
    """Closed forms are left."""
    cost, weights = random_clusters(101, 2)
    assert len(candidate_channels(cost, weights, epsilon=2.0)) == 1
    assert len(candidate_channels(cost, weights, epsilon=5.0)) == 2


def test_a_solver_that_fails_leaves_the_closed_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """No success, no table of it."""
    failed = SimpleNamespace(success=False, x=None)
    monkeypatch.setattr(label_channel, "linprog", lambda *_, **__: failed)
    assert len(candidate_channels(WRONG, SIZES, epsilon=2.0)) == 2
    assert len(candidate_channels(WRONG, SIZES, epsilon=0.5)) == 1


def test_equal_centroids_cost_nothing() -> None:
    """Where every label is as good as another, the cost is 0 and nothing is divided by it."""
    assert cheapest(np.zeros((3, 3)), np.ones(3) / 3.0, 1.0) == 0.0


def test_cost_by_hand() -> None:
    """Half the customers in each of two clusters; a wrong label costs 4 or 6."""
    table = np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    cost = np.array([[0.0, 4.0], [6.0, 0.0]])
    expected = 0.5 * 0.1 * 4.0 + 0.5 * 0.3 * 6.0
    assert label_cost(table, cost, np.array([0.5, 0.5])) == pytest.approx(expected)


def test_distances_by_hand() -> None:
    """Squared Euclidean distances of the rows."""
    expected = [[0.0, 25.0, 1.0], [25.0, 0.0, 18.0], [1.0, 18.0, 0.0]]
    assert squared_distances(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])).tolist() == expected


@pytest.mark.parametrize(
    ("sizes", "weights"),
    [
        ([1.0, 3.0], [0.25, 0.75]),
        ([-5.0, 3.0], [0.0, 1.0]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([-1.0, -2.0], [0.5, 0.5]),
        ([1e308, 1e308], [0.5, 0.5]),
        ([5e-324, 5e-324], [0.5, 0.5]),
    ],
)
def test_sizes_become_shares(sizes: list[float], weights: list[float]) -> None:
    """Negative sizes count as 0; nothing known is everything alike; no size overflows."""
    _, found = checked_clusters(np.zeros((2, 3)), np.array(sizes))
    assert found.tolist() == weights


@pytest.mark.parametrize(
    ("centroids", "sizes", "field"),
    [
        (np.zeros((2, 3)), np.ones(3), "sizes"),
        (np.zeros((2, 3)), np.array([1.0, math.nan]), "sizes"),
        (np.zeros((2, 3)), np.array([1.0, math.inf]), "sizes"),
        (np.full((2, 3), math.nan), np.ones(2), "centroids"),
        (np.zeros((0, 3)), np.ones(0), "centroids"),
        (np.zeros(3), np.ones(3), "centroids"),
        (np.zeros((1_001, 1)), np.ones(1_001), "centroids"),
    ],
)
def test_bad_clusters_are_named(centroids: Floats, sizes: Floats, field: str) -> None:
    """One size per centroid, all finite, a thousand at most."""
    with pytest.raises(InvalidParameterError, match=f"{field} must be"):
        checked_clusters(centroids, sizes)
    assert len(checked_clusters(np.zeros((1_000, 1)), np.ones(1_000))[0]) == 1_000
