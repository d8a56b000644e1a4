"""Lloyd without one point, continued from the full data on the few points that can change.

Used by `leave_one_out`, whose docstring has the argument. State is kept as a difference from the
full data: the sums without the removed point and with every changed point moved, and the list of
the points whose label is not their first one.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats, Ints, Labels
from wattveil.compiled import compiled
from wattveil.numerics.kmeans.instance_query import merge_kernel
from wattveil.numerics.kmeans.kernels import (
    add_to_sum,
    means,
    nearest,
    rounding_slack,
    squared_distance,
)
from wattveil.numerics.kmeans.lloyd import MAX_ROUNDS

_Number = TypeVar("_Number", np.int64, np.float64)


class Full(NamedTuple):
    """The converged run on the full data: sums as (high, low), centroids as their means."""

    points: Floats
    labels: Labels
    sums: Floats
    counts: Ints
    centroids: Floats


class Boundaries(NamedTuple):
    """For each ordered pair (a, b) of clusters, the points of a that may go to b.

    Entries ``starts[a K + b] : starts[a K + b + 1]`` of the other arrays, smallest margin first:
    all points of margin up to ``complete[a, b]``. ``static`` is their (D_a, D_b) on the full data.
    """

    starts: Ints
    margin: Floats
    point: Ints
    static: Floats
    complete: Floats


class Scratch(NamedTuple):
    """The state of one run; long arrays are kept for a thread and left as they were found.

    ``labels`` starts as those of the full data. ``stamps[i] == stamps[-1]`` marks the points found
    in the present round: one may stand in several lists. ``sums`` and ``counts`` follow the labels.
    """

    labels: Labels
    stamps: Ints
    sums: Floats
    counts: Ints


@compiled
def removals_of_span(
    full: Full, boundaries: Boundaries, span: tuple[int, int], own_shift: Floats
) -> Ints:
    """Fill in the closed form of each removal; return the removals after which a label flips."""
    points, labels, _, counts, centroids = full
    n_clusters, d = centroids.shape
    slack = rounding_slack(d)
    rounding = slack * np.sqrt(np.square(centroids).sum(axis=1))
    closest = _closest_margins(n_clusters, boundaries)
    without, moved = np.empty((2, 1, d)), np.empty((1, d))
    flips = np.zeros(span[1] - span[0], np.bool_)
    for p in range(span[0], span[1]):
        k = labels[p]
        if counts[k] == 1:  # the cluster is empty now and keeps its centroid
            own_shift[p] = 0.0
            continue
        total = 0.0
        for j in range(d):
            # v_p = c_k - c_k' = (x_p - c_k) / (n_k - 1)
            own_shift[p, j] = (points[p, j] - centroids[k, j]) / (counts[k] - 1)
            total += own_shift[p, j] * own_shift[p, j]
        shift = np.sqrt(total) * (1.0 + slack) + rounding[k]
        if shift >= closest[k]:
            _centroid_without(full, p, without, moved)
            flips[p - span[0]] = _any_flip(full, boundaries, p, shift, moved)
    return np.flatnonzero(flips) + span[0]


@compiled
def _closest_margins(n_clusters: int, boundaries: Boundaries) -> Floats:
    """Return, for each cluster, the minimum margin of the points that may leave or enter it."""
    closest = np.full(n_clusters, np.inf)
    for pair in range(n_clusters * n_clusters):
        entry = boundaries.starts[pair]
        if entry < boundaries.starts[pair + 1]:
            for k in (pair // n_clusters, pair % n_clusters):
                closest[k] = min(closest[k], boundaries.margin[entry])
    return closest


@compiled
def _centroid_without(full: Full, p: int, without: Floats, moved: Floats) -> None:
    """Fill ``moved`` with the centroid of p's cluster without p; ``without`` is scratch."""
    k = full.labels[p]
    for j in range(moved.shape[1]):
        without[0, 0, j], without[1, 0, j] = full.sums[0, k, j], full.sums[1, k, j]
    add_to_sum(without, 0, full.points, p, -1.0)
    for j in range(moved.shape[1]):
        moved[0, j] = without[0, 0, j] / (full.counts[k] - 1)


@compiled
def _any_flip(full: Full, boundaries: Boundaries, p: int, shift: float, moved: Floats) -> bool:
    """Return whether a label flips when the centroid of p's cluster moves by at most ``shift``."""
    starts, margin, point, static, _ = boundaries
    n_clusters = full.centroids.shape[0]
    k = full.labels[p]
    for other in range(n_clusters):
        leaving = k * n_clusters + other
        for entry in range(starts[leaving], starts[leaving + 1]):
            if margin[entry] > shift:
                break
            distance = squared_distance(full.points, point[entry], moved, 0)
            if point[entry] != p and _wins(static[entry, 1], other, distance, k):
                return True
        entering = other * n_clusters + k
        for entry in range(starts[entering], starts[entering + 1]):
            if margin[entry] > shift:
                break
            distance = squared_distance(full.points, point[entry], moved, 0)
            if _wins(distance, k, static[entry, 0], other):
                return True
    return False


@compiled
def _wins(distance: float, cluster: int, other_distance: float, other: int) -> bool:
    """Return whether the cluster is preferred to the other: the nearer, or the lower index."""
    return distance < other_distance or (distance == other_distance and cluster < other)


@compiled
def cascades_of_span(
    full: Full, boundaries: Boundaries, removals: Ints, min_cluster_size: int, scratch: Scratch
) -> tuple[Floats, Ints, Ints, Floats]:
    """Run Lloyd to its end, and the merging of small clusters, for each of the removals.

    Returns the shifts of the own clusters; the label changes (removal, point, label); and for the
    other clusters that moved, (removal, cluster) and their shifts.
    """
    points, labels, sums, counts, centroids = full
    own_shifts = np.empty((removals.size, points.shape[1]))
    changes, n_changes = np.empty((16, 3), np.int64), 0
    moves, n_moves = np.empty((16, 2), np.int64), 0
    shifts = np.empty((16, points.shape[1]))
    group, answer = merge_kernel(sums, counts, centroids, min_cluster_size)
    for row in range(removals.size):
        p = removals[row]
        own = group[labels[p]]
        settled, changed = _settle(full, boundaries, p, scratch)
        own_group, own_answer = merge_kernel(
            scratch.sums, scratch.counts, settled, min_cluster_size
        )
        own_shifts[row] = answer[own] - own_answer[own]
        for k in range(group.shape[0]):
            if k == group[k] and k != own and _differ(own_answer, answer, k):
                moves, shifts = with_room(moves, n_moves), with_room(shifts, n_moves)
                moves[n_moves, 0], moves[n_moves, 1] = p, k
                shifts[n_moves] = answer[k] - own_answer[k]
                n_moves += 1
        # If the same clusters are merged, only a point that changed its cluster may change its
        # label; otherwise all points of a cluster may.
        same = not np.any(group != own_group)
        for i in changed if same else np.arange(points.shape[0]):
            label = own_group[scratch.labels[i]]
            if i != p and label != group[labels[i]]:
                changes = with_room(changes, n_changes)
                changes[n_changes, 0], changes[n_changes, 1], changes[n_changes, 2] = p, i, label
                n_changes += 1
        for i in changed:
            scratch.labels[i] = labels[i]
    return own_shifts, changes[:n_changes], moves[:n_moves], shifts[:n_moves]


@compiled
def _settle(full: Full, boundaries: Boundaries, p: int, scratch: Scratch) -> tuple[Floats, Ints]:
    """Run Lloyd without p until no label changes.

    Returns the centroids and the points whose label is not their first one; leaves the labels, sums
    and counts in ``scratch``.
    """
    current, stamps, sums, counts = scratch
    sums[:], counts[:] = full.sums, full.counts
    add_to_sum(sums, full.labels[p], full.points, p, -1.0)
    counts[full.labels[p]] -= 1
    changed = np.empty(0, np.int64)
    centroids = means(sums, counts, full.centroids)
    for _ in range(1, MAX_ROUNDS):
        stamps[-1] += 1
        found, found_labels = _relabelled(full, boundaries, p, centroids, stamps)
        if found.size == changed.size and not np.any(current[found] != found_labels):
            break
        for entry in range(found.size):
            _move(full.points, found[entry], found_labels[entry], scratch)
        for entry in range(changed.size):
            i = changed[entry]
            if stamps[i] != stamps[-1]:  # not found again: back to its first label
                _move(full.points, i, full.labels[i], scratch)
        changed = found
        centroids = means(sums, counts, centroids)
    return centroids, changed


@compiled
def _move(points: Floats, i: int, target: int, scratch: Scratch) -> None:
    """Move point i to another cluster, unless it is there already."""
    source = scratch.labels[i]
    if source != target:
        add_to_sum(scratch.sums, source, points, i, -1.0)
        add_to_sum(scratch.sums, target, points, i, 1.0)
        scratch.counts[source] -= 1
        scratch.counts[target] += 1
        scratch.labels[i] = target


@compiled
def _relabelled(
    full: Full, boundaries: Boundaries, p: int, centroids: Floats, stamps: Ints
) -> tuple[Ints, Labels]:
    """Return the points whose nearest centroid is not that of their first label, and their labels.

    They are stamped.
    """
    starts, margin, point, static, complete = boundaries
    points, n_clusters = full.points, centroids.shape[0]
    shift, far = _shifts(centroids, full.centroids, complete)
    if far:
        return _relabelled_by_full_scan(full, p, centroids, stamps)
    found, size = np.empty(8, np.int64), 0
    for pair in range(n_clusters * n_clusters):
        a, b = pair // n_clusters, pair % n_clusters
        if shift[a] + shift[b] == 0.0:
            continue
        for entry in range(starts[pair], starts[pair + 1]):
            if margin[entry] > shift[a] + shift[b]:
                break
            i = point[entry]
            if i == p or stamps[i] == stamps[-1]:
                continue
            # A centroid that did not move leaves its distances as they were, bit for bit.
            own = squared_distance(points, i, centroids, a) if shift[a] > 0.0 else static[entry, 0]
            other = (
                squared_distance(points, i, centroids, b) if shift[b] > 0.0 else static[entry, 1]
            )
            if _wins(other, b, own, a):
                stamps[i] = stamps[-1]
                found = with_room(found, size)
                found[size] = i
                size += 1
    found = found[:size]
    found_labels = np.empty(size, np.int32)
    for entry in range(size):
        found_labels[entry] = nearest(points, found[entry], centroids)
    return found, found_labels


@compiled
def _shifts(centroids: Floats, first: Floats, complete: Floats) -> tuple[Floats, bool]:
    """Bound how far each centroid has moved; return whether that is beyond the lists."""
    n_clusters, d = centroids.shape
    shift = np.zeros(n_clusters)
    for k in range(n_clusters):
        if _differ(centroids, first, k):
            root = np.sqrt(squared_distance(centroids, k, first, k))
            # A square may underflow: a centroid that moved at all has a positive shift.
            shift[k] = max(root * (1.0 + rounding_slack(d)), 2.0**-1022)
    far = False
    for a in range(n_clusters):
        for b in range(n_clusters):
            far = far or (a != b and shift[a] + shift[b] > complete[a, b])
    return shift, far


@compiled
def _relabelled_by_full_scan(
    full: Full, p: int, centroids: Floats, stamps: Ints
) -> tuple[Ints, Labels]:
    labels = full.labels.copy()
    for i in range(labels.size):
        if i != p:
            labels[i] = nearest(full.points, i, centroids)
    found = np.flatnonzero(labels != full.labels)
    stamps[found] = stamps[-1]
    return found, labels[found]


@compiled
def _differ(one: Floats, other: Floats, k: int) -> bool:
    """Return whether row k differs in any bit."""
    for j in range(one.shape[1]):  # noqa: SIM110  numba compiles no generators here
        if one[k, j] != other[k, j]:
            return True
    return False


@compiled
def with_room(array: NDArray[_Number], size: int) -> NDArray[_Number]:
    """Return the array, twice as long if ``size`` rows fill it."""
    if size < array.shape[0]:
        return array
    return np.concatenate((array, np.empty_like(array)))
