"""K-means by Lloyd's algorithm, stopped exactly when no label changes.

Minimise ``r(X, q) = 1/P sum_p ||x_p - c_{l_p}||^2`` by two alternating steps::

    l_p = argmin_k ||x_p - c_k||^2          ties: the lowest k
    c_k = mean of the points with label k   an empty cluster keeps its centroid

Points are read in blocks, so memory beside the points is O(P) for the labels; the result does not
depend on the number of threads (`kernels` defines the rules of arithmetic).

>>> import numpy as np
>>> points = np.array([[0.0], [1.0], [9.0], [10.0]])
>>> result = lloyd(points, start=np.array([[0.0], [1.0]]))
>>> result.centroids.ravel().tolist(), result.labels.tolist()
([0.5, 9.5], [0, 0, 1, 1])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattveil.compiled import compiled, over_spans
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.kernels import BLOCK, add_sums, add_to_sum, block_distances, means

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import ArrayLike

    from wattveil.arrays import Floats, Ints, Labels

MAX_ROUNDS = 1000
_LARGEST = 1e150


@dataclass(frozen=True, kw_only=True)
class LloydResult:
    """A partition and its centroids.

    Attributes
    ----------
    centroids : (K, d)
        The mean of each cluster; of an empty cluster, the centroid it had last.
    labels : (P,)
        The cluster of each point.
    counts : (K,)
        Points in each cluster.
    loss
        ``1/P sum_p ||x_p - c_{l_p}||^2`` for the centroids of the last assignment.
    rounds
        How often the centroids were recomputed.
    converged
        Whether the last assignment changed no label; only then are the labels those of the
        nearest centroid.
    """

    centroids: Floats
    labels: Labels
    counts: Ints
    loss: float
    rounds: int
    converged: bool


def lloyd(points: ArrayLike, start: ArrayLike, *, max_rounds: int = MAX_ROUNDS) -> LloydResult:
    """Run Lloyd's algorithm from given centroids until no label changes.

    Parameters
    ----------
    points : (P, d)
        One row per customer; finite.
    start : (K, d)
        The first centroids.
    max_rounds
        Maximum number of rounds; if it is reached, ``converged`` is false.
    """
    rows = checked_points(points)
    centroids = checked_points(start, field="start")
    if centroids.shape[1] != rows.shape[1]:
        raise InvalidParameterError("start", f"of {rows.shape[1]} columns", centroids.shape)
    if max_rounds < 1:
        raise InvalidParameterError("max_rounds", "at least 1", max_rounds)
    return _lloyd(rows, centroids, max_rounds)


def k_means(
    points: ArrayLike,
    n_clusters: int,
    *,
    seed: int | Generator | None = None,
    n_init: int = 10,
    max_rounds: int = MAX_ROUNDS,
) -> LloydResult:
    """Run Lloyd from several k-means++ starts and keep the partition of minimum loss.

    Parameters
    ----------
    points : (P, d)
        One row per customer; finite.
    n_clusters
        K, at most P.
    seed
        Seed of the starts: a public choice, not used for noise.
    n_init
        Number of starts; of equal losses the first wins.
    max_rounds
        Bound on the rounds of each start.
    """
    rows = checked_points(points)
    if not 1 <= n_clusters <= rows.shape[0]:
        rule = "between 1 and the number of points"
        raise InvalidParameterError("n_clusters", rule, n_clusters)
    if n_init < 1:
        raise InvalidParameterError("n_init", "at least 1", n_init)
    generator = np.random.default_rng(seed)
    runs = (
        _lloyd(rows, _plus_plus_start(rows, n_clusters, generator), max_rounds)
        for _ in range(n_init)
    )
    return min(runs, key=lambda run: run.loss)


def assign(points: ArrayLike, centroids: ArrayLike) -> Labels:
    """Return the nearest centroid of each point; of equally near ones the lowest index."""
    rows = checked_points(points)
    labels = np.full(rows.shape[0], -1, np.int32)
    _assign(rows, checked_points(centroids, field="centroids"), labels)
    return labels


def checked_points(points: ArrayLike, field: str = "points") -> Floats:
    """Return the points as a contiguous float matrix, or raise `InvalidParameterError`."""
    rows = np.ascontiguousarray(points, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidParameterError(field, "a matrix with at least one row and column", rows.shape)
    # The comparison is false for NaN. Beyond the bound, squared distances would overflow.
    fine = over_spans(rows.shape[0], lambda _, a, b: bool(np.abs(rows[a:b]).max() < _LARGEST))
    if not all(fine):
        raise InvalidParameterError(field, f"finite and below {_LARGEST:g}", "other values")
    return rows


def _lloyd(points: Floats, start: Floats, max_rounds: int) -> LloydResult:
    """Run Lloyd; prior validation is assumed."""
    n_points, d = points.shape
    n_clusters = start.shape[0]
    centroids = start
    labels = np.full(n_points, -1, np.int32)
    sums = np.zeros((2, n_clusters, d))
    counts = np.zeros(n_clusters, np.int64)
    loss, rounds, converged = math.inf, 0, False
    while rounds < max_rounds:
        spans = _assign(points, centroids, labels)
        loss = math.fsum(span[0] for span in spans) / n_points
        converged = not any(span[1] for span in spans)
        if converged:
            break
        for _, _, part, moved in spans:
            add_sums(sums, part)
            counts += moved
        centroids = means(sums, counts, centroids)
        rounds += 1
    return LloydResult(
        centroids=centroids,
        labels=labels,
        counts=counts,
        loss=loss,
        rounds=rounds,
        converged=converged,
    )


def _assign(
    points: Floats, centroids: Floats, labels: Labels
) -> list[tuple[float, int, Floats, Ints]]:
    """Label all points; return what `_assign_span` does for each span."""
    return over_spans(
        points.shape[0], lambda _, *span: _assign_span(points, span, centroids, labels)
    )


@compiled
def _assign_span(
    points: Floats, span: tuple[int, int], centroids: Floats, labels: Labels
) -> tuple[float, int, Floats, Ints]:
    """Label the points of a span.

    Returns the sum of squared distances, the number of labels changed, and what the changed labels
    add to the sums (high, low) and counts of the clusters. Sums follow the changes only: late
    rounds, in which few labels change, cost no more than the distances.
    """
    n_clusters, d = centroids.shape
    sums = np.zeros((2, n_clusters, d))
    moved = np.zeros(n_clusters, np.int64)
    columns = np.zeros((d, BLOCK))
    distances = np.empty((n_clusters, BLOCK))
    loss = 0.0
    changed = 0
    for begin in range(span[0], span[1], BLOCK):
        end = min(begin + BLOCK, span[1])
        block_distances(points, (begin, end), centroids, columns, distances)
        for b in range(end - begin):
            label = 0
            smallest = distances[0, b]
            for k in range(1, n_clusters):
                if distances[k, b] < smallest:
                    smallest = distances[k, b]
                    label = k
            loss += smallest
            previous = labels[begin + b]
            if label != previous:
                changed += 1
                labels[begin + b] = label
                add_to_sum(sums, label, points, begin + b, 1.0)
                moved[label] += 1
                if previous >= 0:
                    add_to_sum(sums, previous, points, begin + b, -1.0)
                    moved[previous] -= 1
    return loss, changed, sums, moved


def _plus_plus_start(points: Floats, n_clusters: int, generator: Generator) -> Floats:
    """Choose K points, far apart: the greedy k-means++ of Arthur and Vassilvitskii (2007).

    Each next centroid is drawn with probability proportional to the squared distance to those
    chosen; of ``2 + log K`` draws the one of minimum loss is kept.
    """
    n_points, d = points.shape
    n_draws = 2 + int(math.log(n_clusters))
    start = np.empty((n_clusters, d))
    start[0] = points[generator.integers(n_points)]
    closest = _capped_distances(points, start[0], np.full(n_points, np.inf))
    for k in range(1, n_clusters):
        cumulative = np.cumsum(closest)
        if cumulative[-1] == 0.0:  # every point already is a centroid: fewer than K distinct ones
            start[k:] = start[k - 1]
            break
        drawn = np.searchsorted(
            cumulative, generator.random(n_draws) * cumulative[-1], side="right"
        )
        options = [
            (_capped_distances(points, points[i], closest), points[i])
            for i in np.minimum(drawn, n_points - 1)
        ]
        closest, start[k] = min(options, key=lambda option: float(option[0].sum()))
    return start


def _capped_distances(points: Floats, centroid: Floats, cap: Floats) -> Floats:
    """Return ``min(cap_i, D(x_i, c))`` for every point."""
    capped = np.empty_like(cap)
    over_spans(
        cap.shape[0],
        lambda _, *span: _capped_span(points, span, centroid, cap, capped),
    )
    return capped


@compiled
def _capped_span(
    points: Floats, span: tuple[int, int], centroid: Floats, cap: Floats, capped: Floats
) -> None:
    d = points.shape[1]
    columns = np.zeros((d, BLOCK))
    distances = np.empty((1, BLOCK))
    one = centroid.reshape((1, d))
    for begin in range(span[0], span[1], BLOCK):
        end = min(begin + BLOCK, span[1])
        block_distances(points, (begin, end), one, columns, distances)
        for b in range(end - begin):
            capped[begin + b] = min(cap[begin + b], distances[0, b])
