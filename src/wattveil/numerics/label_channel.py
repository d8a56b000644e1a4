"""Channels of randomised labels of minimum cost, and counts corrected for them.

A customer of cluster k is published with label j with probability Q_kj, one without data with
probability q_j. Zero-out privacy requires

    e^-epsilon q_j <= Q_kj <= e^epsilon q_j      for all k, j.

Among all such tables the cheapest is a linear program in Q and q:

    minimise  sum_k weight_k Q_kj cost_kj .

With cost_kj the squared distance of two released centroids, a wrong label is a similar one. All
inputs were released before, so choosing a channel costs nothing; the kernel computes the cost of
the chosen channel itself, whatever this module returns.

>>> import numpy as np
>>> channel = np.array([[0.8, 0.2], [0.4, 0.6]])
>>> counts, std = debiased_counts(np.array([60.0, 40.0]), channel, prior=np.array([0.5, 0.5]))
>>> counts.round(6).tolist()
[50.0, 50.0]
"""

import math

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.lloyd import checked_points

MAX_CLUSTERS = 1_000

_SLACK = 1e-9
"""Relative to epsilon: above what rounding to floats and to whole parts takes."""

_LARGEST_PROGRAM_EPSILON = 8.0
"""Beyond it e^epsilon is out of the solver's range, and `_medoid_channel` is optimal to 0.1 %."""

_MAX_PROGRAM_LABELS = 100
"""2 K^2 constraints: seconds at K = 100; beyond it the closed forms must do."""

_LARGEST_EPSILON = 40.0
"""Labels cannot be kept more often in parts of 2^-62, so a larger epsilon is not used."""

_MIN_CHANCE = 1e-6
"""Of a label without data: costs a relative 1e-6 of the errors, and is large in whole parts."""

_MIXTURES = (1e-6, 1e-4, 1e-2)
"""Shares of a stricter channel that absorb the solver's tolerance; the smallest that suffices."""


def candidate_channels(cost: Floats, weights: Floats, *, epsilon: float) -> list[Floats]:
    """Return tables of K + 1 rows (the last without data), one of which is the cheapest known.

    Each is private up to rounding, or nearly so: the caller must check it in exact
    arithmetic, and have another one if all of them fail.

    Parameters
    ----------
    cost : (K, K)
        Cost of publishing label j for cluster k.
    weights : (K,)
        Share of the customers in each cluster.
    epsilon
        Privacy budget under the zero-out relation.
    """
    n = len(weights)
    medoid = int(np.argmin(weights @ cost))
    constant = np.zeros((n + 1, n))
    constant[:, medoid] = 1.0
    strict = min(epsilon, _LARGEST_EPSILON) * (1.0 - _SLACK)
    candidates = [constant]
    if math.exp(-strict) * (n - 2) < 1.0:
        candidates.append(_medoid_channel(n, medoid, strict))
    if 1 < n <= _MAX_PROGRAM_LABELS and epsilon <= _LARGEST_PROGRAM_EPSILON:
        table = _solve(cost, weights, strict)
        if table is not None:
            stricter = _response(n, epsilon / 2.0)
            candidates += [(1.0 - t) * table + t * stricter for t in _MIXTURES]
    return candidates


def checked_clusters(centroids: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the centroids and the shares that the sizes stand for; negative sizes count as 0."""
    centres = checked_points(centroids, field="centroids")
    if len(centres) > MAX_CLUSTERS:
        raise InvalidParameterError("centroids", f"at most {MAX_CLUSTERS:,}", len(centres))
    if sizes.shape != (len(centres),) or not np.isfinite(sizes).all():
        raise InvalidParameterError("sizes", "one finite number per centroid", sizes.shape)
    # By the largest first: sizes near the ends of float64 must not overflow or vanish.
    weights = np.maximum(sizes, 0.0) / max(float(sizes.max()), np.finfo(float).tiny)
    weights = weights if weights.any() else np.ones(len(centres))
    return centres, weights / weights.sum()


def squared_distances(centres: Floats) -> Floats:
    """Return |c_k - c_j|^2, the cost of publishing label j for cluster k."""
    return np.array([np.square(centres - centre).sum(axis=1) for centre in centres])


def whole_parts(table: Floats, total: int) -> Ints:
    """Return the rows of a table in whole parts of ``total``, rounded up at the largest's expense.

    A small probability is limited by its lower bound, so rounding up is towards privacy.
    """
    parts: Ints = np.ceil(table / table.sum(axis=1, keepdims=True) * total).astype(np.int64)
    for row in parts:
        row[np.argmax(row)] += total - sum(row.tolist())
    return parts


def label_cost(table: Floats | Ints, cost: Floats, weights: Floats) -> float:
    """Return sum_kj weight_k Q_kj cost_kj, the expected cost of a label, in chances or parts."""
    return float(weights @ (table[:-1] * cost).sum(axis=1))


def _medoid_channel(n: int, medoid: int, epsilon: float) -> Floats:
    """Return the channel of maximum probability of the true label, with errors towards one label.

    Q_kj = e^-epsilon q_j off the diagonal, as little as allowed; then Q_kk <= e^epsilon q_k needs
    q_k >= 1 / (e^epsilon + 1), and all the rest of q goes to the medoid. The optimum of the program
    when all wrong labels cost the same and epsilon is not small.
    """
    min_chance = max(1.0 / (math.exp(epsilon) + 1.0), _MIN_CHANCE)
    absent = np.full(n, min_chance)
    absent[medoid] = 1.0 - (n - 1) * min_chance
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


_MIN_SINGULAR = 1e-3
"""Directions that a channel shrinks more than this cannot be read from its output."""

_LARGEST_BIAS = 1e-6
"""Per customer of another cluster: above it a count is not an estimate of that cluster alone."""


def debiased_counts(observed: Floats, table: Floats, *, prior: Floats) -> tuple[Floats, Floats]:
    """Return how many customers have each true label, and the standard errors.

    The released labels are counted; their expectation is n Q for the true counts n. With V the
    inverse of Q the estimate is n^ = y V, unbiased, and its variance, from the known channel, is
    sum_j E[y_j] V_jk (V_jk - 1). Where Q has no inverse, ``prior`` determines the directions in its
    null space, and the standard error of every count with such a component is infinite.

    Parameters
    ----------
    observed : (K,)
        How often each label was released.
    table : (K, K)
        Q, the probability of each released label (column) for each true one (row).
    prior : (K,)
        Prior shares of the clusters.
    """
    inverse = np.linalg.pinv(table, rcond=_MIN_SINGULAR)
    expected = prior * observed.sum()
    counts = expected + (observed - expected @ table) @ inverse
    is_seen = np.abs(table @ inverse - np.eye(len(table))).max(axis=0) < _LARGEST_BIAS
    variance = np.maximum(observed @ (inverse * (inverse - 1.0)), 0.0)
    return counts, np.where(is_seen, np.sqrt(variance), np.inf)


def nearest_with_total(values: Floats, totals: Floats) -> Floats:
    """Return, row by row, the nearest numbers of at least 0 that add up to the row's total.

    Subtract one number from the row and cut at 0: of the candidates (sum of the m largest - total)
    / m, the largest is that number.
    """
    descending = -np.sort(-values, axis=-1)
    excess = np.cumsum(descending, axis=-1) - totals[..., None]
    shift = (excess / np.arange(1, values.shape[-1] + 1)).max(axis=-1, keepdims=True)
    nearest: Floats = np.maximum(values - shift, 0.0)
    return nearest
