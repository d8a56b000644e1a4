"""Compiled arithmetic shared by Lloyd and its leave-one-out runs.

Labels must be the same for every way of computing them: one thread or two, a full run or an
incremental one. Three rules ensure that, and every function of this package that decides a label
follows them.

1. **Distance.** ``D(x, c) = sum_j (x_j - c_j)^2`` is added up in the order j = 0, 1, …, without
   fused operations. Loops are vectorised over points, never over j, so D has the same bits every
   time. Differences first, squares second: the relative error of D is at most ``(d + 2) u`` with
   ``u = 2^-53`` even when x and c nearly agree, which ``|x|^2 - 2 x.c + |c|^2`` cannot guarantee.
2. **Tie.** The label is the lowest index among the smallest computed D.
3. **Sum.** Coordinate sums are kept as two floats, ``high + low`` (106 bits). The sum of n numbers
   is then exact, and so free of the order of addition, as long as ``n max|x| / min|x| < 2^54`` over
   the nonzero coordinates; beyond that its relative error is about ``2^-104``. The centroid is
   ``high / n``.
"""

import numpy as np

from wattveil.arrays import Floats, Ints, Labels
from wattveil.compiled import compiled, over_spans

BLOCK = 32  # points whose distances are computed side by side: fits the first-level cache


@compiled
def squared_distance(points: Floats, i: int, centroids: Floats, k: int) -> float:
    """Return ``D(x_i, c_k)`` under rule 1.

    Rows are named by index here and below: a view of a row, made in compiled code, counts
    references atomically, and two threads would wait for each other at every point.
    """
    total = 0.0
    for j in range(points.shape[1]):
        difference = points[i, j] - centroids[k, j]
        total += difference * difference
    return total


@compiled
def nearest(points: Floats, i: int, centroids: Floats) -> int:
    """Return the label of one point under rules 1 and 2."""
    best = 0
    smallest = squared_distance(points, i, centroids, 0)
    for k in range(1, centroids.shape[0]):
        distance = squared_distance(points, i, centroids, k)
        if distance < smallest:
            smallest = distance
            best = k
    return best


@compiled
def block_distances(
    points: Floats, block: tuple[int, int], centroids: Floats, columns: Floats, distances: Floats
) -> None:
    """Fill ``distances[k, b] = D(x_{first + b}, c_k)`` for a block of (first, last) points, rule 1.

    ``columns`` is scratch, (d, BLOCK): the points transposed, so that the inner loops run over
    points. Four coordinates are added per visit of the accumulator, still in the order of j.
    """
    first, last = block
    d = points.shape[1]
    by_four = d // 4 * 4
    for b in range(last - first):
        for j in range(d):
            columns[j, b] = points[first + b, j]
    for k in range(centroids.shape[0]):
        for b in range(BLOCK):
            distances[k, b] = 0.0
        for j in range(0, by_four, 4):
            c0, c1 = centroids[k, j], centroids[k, j + 1]
            c2, c3 = centroids[k, j + 2], centroids[k, j + 3]
            for b in range(BLOCK):
                total = distances[k, b]
                difference = columns[j, b] - c0
                total += difference * difference
                difference = columns[j + 1, b] - c1
                total += difference * difference
                difference = columns[j + 2, b] - c2
                total += difference * difference
                difference = columns[j + 3, b] - c3
                total += difference * difference
                distances[k, b] = total
        for j in range(by_four, d):
            coordinate = centroids[k, j]
            for b in range(BLOCK):
                difference = columns[j, b] - coordinate
                distances[k, b] += difference * difference


@compiled
def add_to_sum(sums: Floats, k: int, terms: Floats, i: int, sign: float) -> None:
    """Add ``sign * terms[i]`` to row k of the sums ``sums[0] + sums[1]``, rule 3."""
    for j in range(terms.shape[1]):
        term = sign * terms[i, j]
        # Knuth's two-sum: total + error == high + term, exactly.
        high = sums[0, k, j]
        total = high + term
        part = total - high
        error = (high - (total - part)) + (term - part)
        error += sums[1, k, j]
        sums[0, k, j] = total + error
        sums[1, k, j] = error - (sums[0, k, j] - total)


@compiled
def means(sums: Floats, counts: Ints, previous: Floats) -> Floats:
    """Return the centroids of the sums; an empty cluster keeps its previous centroid."""
    centroids = previous.copy()
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            for j in range(previous.shape[1]):
                centroids[k, j] = sums[0, k, j] / counts[k]
    return centroids


@compiled
def rounding_slack(d: int) -> float:
    """Bound the rounding of a distance, a margin or a shift, relative to its terms.

    A computed D is off by at most ``(d + 2) u`` of itself (rule 1), its square root by less; what
    is done with roots afterwards adds a few u. Four times that is never wrong and excludes nothing.
    """
    return 4.0 * (d + 8.0) * 2.0**-53


def cluster_sums(points: Floats, labels: Labels, n_clusters: int) -> tuple[Floats, Ints]:
    """Return the sums (high, low) and counts of the clusters, rule 3."""
    shape = (2, n_clusters, points.shape[1])

    def sums_of(_: int, first: int, last: int) -> tuple[Floats, Ints]:
        part, count = np.zeros(shape), np.zeros(n_clusters, np.int64)
        _sums_of_span(points, labels, (first, last), part, count)
        return part, count

    sums, counts = np.zeros(shape), np.zeros(n_clusters, np.int64)
    for part, count in over_spans(points.shape[0], sums_of):
        add_sums(sums, part)
        counts += count
    return sums, counts


@compiled
def add_sums(sums: Floats, part: Floats) -> None:
    """Add partial sums (high, low) of all clusters to the sums, rule 3."""
    for k in range(sums.shape[1]):
        add_to_sum(sums, k, part[0], k, 1.0)
        add_to_sum(sums, k, part[1], k, 1.0)


@compiled
def _sums_of_span(
    points: Floats, labels: Labels, span: tuple[int, int], sums: Floats, counts: Ints
) -> None:
    """Add the points of a span to the sums and counts of their clusters."""
    for i in range(span[0], span[1]):
        add_to_sum(sums, labels[i], points, i, 1.0)
        counts[labels[i]] += 1
