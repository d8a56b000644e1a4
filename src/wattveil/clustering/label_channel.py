r"""Channels that make published labels as right as a privacy budget lets them be.

A customer of cluster k is published with label j with chance Q_kj, one without data with chance
q_j. Zero-out privacy asks for

    e^-epsilon q_j <= Q_kj <= e^epsilon q_j      for all k, j.

Among all such tables the cheapest is a linear program in Q and q:

    minimise  sum_k weight_k Q_kj cost_kj .

With cost_kj the squared distance of two released centroids, a wrong label is a similar one. All
that enters was released before, so choosing a channel costs nothing; what the channel chosen does
cost, the kernel computes for itself, whatever this module says.
"""

import math

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from wattveil.clustering._kernels import Counts, Floats
from wattveil.clustering.lloyd import checked_points
from wattveil.errors import InvalidParameterError

MOST_CLUSTERS = 1_000

_SLACK = 1e-9
"""Relative to epsilon: above what rounding to floats and to whole parts takes."""

_LARGEST_PROGRAM_EPSILON = 8.0
"""Beyond it e^epsilon is out of the solver's range, and `_medoid_channel` is optimal to 0.1 %."""

_MOST_PROGRAM_LABELS = 100
"""2 K^2 constraints: seconds at K = 100; beyond it the closed forms must do."""

_LARGEST_EPSILON = 40.0
"""Labels cannot be kept more often in parts of 2^-62, so more is not asked for."""

_LEAST_CHANCE = 1e-6
"""Of a label without data: costs a relative 1e-6 of the errors, and is large in whole parts."""

_MIXTURES = (1e-6, 1e-4, 1e-2)
"""Shares of a stricter channel that take up the solver's tolerance; the least that holds wins."""


def candidate_channels(cost: Floats, weights: Floats, *, epsilon: float) -> list[Floats]:
    """Return tables of K + 1 rows (the last without data), one of which is the cheapest known.

    Each is private up to rounding, or nearly so: whoever uses one must check it in exact
    arithmetic, and have another at hand when all of them fail.

    Parameters
    ----------
    cost : (K, K)
        What publishing j for k costs.
    weights : (K,)
        Share of the customers in each cluster.
    epsilon : float
        Of the zero-out relation.
    """
    n = len(weights)
    medoid = int(np.argmin(weights @ cost))
    constant = np.zeros((n + 1, n))
    constant[:, medoid] = 1.0
    strict = min(epsilon, _LARGEST_EPSILON) * (1.0 - _SLACK)
    candidates = [constant]
    if math.exp(-strict) * (n - 2) < 1.0:
        candidates.append(_medoid_channel(n, medoid, strict))
    if 1 < n <= _MOST_PROGRAM_LABELS and epsilon <= _LARGEST_PROGRAM_EPSILON:
        table = _solve(cost, weights, strict)
        if table is not None:
            stricter = _response(n, epsilon / 2.0)
            candidates += [(1.0 - t) * table + t * stricter for t in _MIXTURES]
    return candidates


def checked_clusters(centroids: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the centroids and the shares that the sizes stand for; negative sizes count as 0."""
    centres = checked_points(centroids, field="centroids")
    if len(centres) > MOST_CLUSTERS:
        raise InvalidParameterError("centroids", f"at most {MOST_CLUSTERS:,}", len(centres))
    if sizes.shape != (len(centres),) or not np.isfinite(sizes).all():
        raise InvalidParameterError("sizes", "one finite number a centroid", sizes.shape)
    # By the largest first: sizes near the ends of float64 must not overflow or vanish.
    weights = np.maximum(sizes, 0.0) / max(float(sizes.max()), np.finfo(float).tiny)
    weights = weights if weights.any() else np.ones(len(centres))
    return centres, weights / weights.sum()


def squared_distances(centres: Floats) -> Floats:
    """Return |c_k - c_j|^2: what it costs to publish j for k."""
    return np.array([np.square(centres - centre).sum(axis=1) for centre in centres])


def whole_parts(table: Floats, total: int) -> Counts:
    """Return the rows of a table in whole parts of ``total``, rounded up at the largest's expense.

    What binds a small chance is its lower bound, so up is towards privacy.
    """
    parts: Counts = np.ceil(table / table.sum(axis=1, keepdims=True) * total).astype(np.int64)
    for row in parts:
        row[np.argmax(row)] += total - sum(row.tolist())
    return parts


def label_cost(table: Floats | Counts, cost: Floats, weights: Floats) -> float:
    """Return sum_kj weight_k Q_kj cost_kj, the expected cost of a label, in chances or parts."""
    return float(weights @ (table[:-1] * cost).sum(axis=1))


def _medoid_channel(n: int, medoid: int, epsilon: float) -> Floats:
    """Return the channel that keeps labels as often as can be, and errs towards one label.

    Q_kj = e^-epsilon q_j off the diagonal, as little as allowed; then Q_kk <= e^epsilon q_k needs
    q_k >= 1 / (e^epsilon + 1), and all the rest of q goes to the medoid. The optimum of the program
    when all wrong labels cost the same and epsilon is not small.
    """
    least = max(1.0 / (math.exp(epsilon) + 1.0), _LEAST_CHANCE)
    absent = np.full(n, least)
    absent[medoid] = 1.0 - (n - 1) * least
    table = np.tile(math.exp(-epsilon) * absent, (n + 1, 1))
    table[-1] = absent
    np.fill_diagonal(table, 1.0 - math.exp(-epsilon) * (1.0 - absent))
    return table


def _response(n: int, epsilon: float) -> Floats:
    """Return K-ary randomised response for zero-out, in floats."""
    keep = min(math.exp(epsilon) / n, 1.0 - (n - 1) * math.exp(-epsilon) / n)
    table = np.full((n + 1, n), (1.0 - keep) / (n - 1))
    np.fill_diagonal(table, keep)
    table[-1] = 1.0 / n
    return table


def _solve(cost: Floats, weights: Floats, epsilon: float) -> Floats | None:
    """Solve the linear program over the rows of Q and q, one after the other; None if it fails."""
    n = len(weights)
    labels = sparse.eye_array(n * n)
    absent = sparse.vstack([sparse.eye_array(n)] * n)
    shrink = math.exp(-epsilon)
    solved = linprog(  # type: ignore[call-overload]  # takes sparse tables, its types do not
        np.append((weights[:, None] * cost).ravel() / max(float(cost.max()), 1e-300), np.zeros(n)),
        # e^-epsilon Q_kj <= q_j and e^-epsilon q_j <= Q_kj
        A_ub=sparse.block_array([[shrink * labels, -absent], [-labels, shrink * absent]]),
        b_ub=np.zeros(2 * n * n),
        A_eq=sparse.block_diag([np.ones((1, n))] * (n + 1)),  # rows add up to 1
        b_eq=np.ones(n + 1),
        bounds=(0.0, 1.0),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return np.clip(solved.x.reshape(n + 1, n), 0.0, 1.0) if solved.success else None
