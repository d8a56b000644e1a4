"""Leave-one-out runs of K-means, exact and for all customers at once, and their differences.

``c(X minus p)`` is Lloyd warm-started from ``c(X)`` on the other points until no label changes
(the paper). Running it P times costs O(P^2 K d). Here it costs about one round of Lloyd, because

* removing p from cluster k moves one centroid, by ``v_p = c_k - c_k' = (x_p - c_k) / (n_k - 1)``;
* let centroid a have moved by ``s_a`` and b by ``s_b``. By the triangle inequality a point of a can
  prefer b only if its **margin** ``||x - c_b|| - ||x - c_a||`` is at most ``s_a + s_b``. Margins
  are listed once for each ordered pair (a, b), smallest first, as far as removals may reach; each
  inspects the head of a few lists. Nearly always nothing flips and v_p is the whole answer;
* otherwise Lloyd goes on with the same lists: in every round only the heads up to ``s_a + s_b``,
  measured from the first centroids, can differ from the first labels (`cascade`). Should the
  centroids wander beyond the lists, that round inspects all points.

**Why this equals the loop bit for bit.** The loop and this module decide labels by the same
arithmetic (`kernels`: distances and ties have one defined value, sums are exact), so they can
differ only where the screen overlooks a point. Computed squared distances have a relative error of
at most ``(d + 2) u``; margins are reduced and shifts enlarged by `rounding_slack`, over twice that,
before they are compared. A point outside the head therefore has the same *computed* winner as
before.

The cost degrades to the loop's when a fixed share of all points lies within one removal's shift of
a boundary (many copies of a point half way between two centroids), or where leaving out one
customer sends K-means to another optimum altogether: many rounds, however they are computed.

`Columns` are the differences as columns of V in R^{K d}, K blocks of d coordinates, without their
zeros. A removal that moves one centroid fills one block; only the others are stored in full, a few
thousand at a time, when they are multiplied.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from wattveil.arrays import Floats, Ints, Labels
from wattveil.compiled import THREADS, compiled, over_spans
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.instance_query import check_min_cluster_size, merge_kernel
from wattveil.numerics.kmeans.kernels import (
    BLOCK,
    block_distances,
    cluster_sums,
    means,
    rounding_slack,
)
from wattveil.numerics.kmeans.lloyd import LloydResult, checked_points
from wattveil.numerics.leave_one_out.cascade import (
    Boundaries,
    Full,
    Scratch,
    cascades_of_span,
    removals_of_span,
    with_room,
)

# Lists reach so many times the largest first shift: room for the rounds that follow a flip.
_HEADROOM = 16.0


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """The differences of all leave-one-out runs, in O(P d) memory.

    Attributes
    ----------
    labels : (P,)
        The labels of the full data.
    own_shift : (P, d)
        ``c_k(X) - c_k(X minus p)`` for p's own cluster ``k = labels[p]``.
    other_removal, other_cluster, other_shift : (B,), (B,), (B, d)
        The same for every other cluster that moved, ordered by removal.
    changed_removal, changed_point, changed_label : (C,)
        ``changed_point`` takes ``changed_label`` when ``changed_removal`` is left out.
    n_clusters
        K.
    """

    labels: Labels
    own_shift: Floats
    other_removal: Ints
    other_cluster: Ints
    other_shift: Floats
    changed_removal: Ints
    changed_point: Ints
    changed_label: Ints
    n_clusters: int

    @cached_property
    def label_set(self) -> Ints:
        """L: the customers whose label changes when some other customer is left out."""
        return np.unique(self.changed_point)

    @cached_property
    def max_labels_changed(self) -> int:
        """``Delta_l``: maximum number of labels changed by leaving out one customer."""
        if self.changed_removal.size == 0:
            return 0
        return int(np.bincount(self.changed_removal).max())

    def difference(self, removal: int) -> Floats:
        """Return ``c(X) - c(X minus p)`` as a (K, d) matrix."""
        shift = np.zeros((self.n_clusters, self.own_shift.shape[1]))
        shift[self.labels[removal]] = self.own_shift[removal]
        first, last = np.searchsorted(self.other_removal, [removal, removal + 1])
        shift[self.other_cluster[first:last]] = self.other_shift[first:last]
        return shift


def leave_one_out(points: ArrayLike, fit: LloydResult, *, min_cluster_size: int = 0) -> LeaveOneOut:
    """Leave out every point in turn.

    Parameters
    ----------
    points : (P, d)
        The points that were clustered; at least two.
    fit
        A converged run of `lloyd` on these points.
    min_cluster_size
        Compare the answers of `merge_small_clusters` instead of those of Lloyd; 0 merges nothing.
        Shifts and labels are then those of the merged clusters. As soon as a removal can leave a
        cluster with fewer points, every removal is run to its end instead of by closed form.
    """
    rows = checked_points(points)
    if rows.shape[0] < 2:
        raise InvalidParameterError("points", "at least two rows", rows.shape)
    if not fit.converged:
        raise InvalidParameterError("fit", "a converged run of Lloyd", f"{fit.rounds} rounds")
    if fit.labels.shape[0] != rows.shape[0] or fit.centroids.shape[1] != rows.shape[1]:
        raise InvalidParameterError("points", "those that were clustered", rows.shape)
    check_min_cluster_size(min_cluster_size)
    return _leave_one_out(rows, fit, min_cluster_size)


def _leave_one_out(points: Floats, fit: LloydResult, min_cluster_size: int) -> LeaveOneOut:
    """Leave out every point; prior validation is assumed."""
    n_clusters = fit.centroids.shape[0]
    sums, counts = cluster_sums(points, fit.labels, n_clusters)
    full = Full(points, fit.labels, sums, counts, means(sums, counts, fit.centroids))
    boundaries = _boundaries(full)
    own_shift = np.empty_like(points)
    flips = over_spans(
        points.shape[0],
        lambda _, *span: removals_of_span(full, boundaries, span, own_shift),
    )
    may_merge = counts.min() - 1 < min_cluster_size
    removals = np.arange(points.shape[0]) if may_merge else np.concatenate(flips)
    scratches: SimpleQueue[Scratch] = SimpleQueue()
    for _ in range(THREADS):
        stamps = np.zeros(points.shape[0] + 1, np.int64)
        scratches.put(Scratch(fit.labels.copy(), stamps, sums.copy(), counts.copy()))

    def run(_: int, first: int, last: int) -> tuple[Ints, Ints, Floats]:
        scratch = scratches.get()
        part = removals[first:last]
        shifts, changes, moves, other_shift = cascades_of_span(
            full, boundaries, part, min_cluster_size, scratch
        )
        own_shift[part] = shifts
        scratches.put(scratch)
        return changes, moves, other_shift

    runs = over_spans(removals.size, run)
    changed = np.concatenate([result[0] for result in runs])
    others = np.concatenate([result[1] for result in runs])
    group, _ = merge_kernel(sums, counts, full.centroids, min_cluster_size)
    return LeaveOneOut(
        labels=group[fit.labels].astype(np.int32),
        own_shift=own_shift,
        other_removal=others[:, 0],
        other_cluster=others[:, 1],
        other_shift=np.concatenate([result[2] for result in runs]),
        changed_removal=changed[:, 0],
        changed_point=changed[:, 1],
        changed_label=changed[:, 2],
        n_clusters=n_clusters,
    )


def _boundaries(full: Full) -> Boundaries:
    """List the points near each boundary, smallest margin first."""
    n_clusters = full.centroids.shape[0]
    reach = _reach(full)
    complete = _HEADROOM * (reach[:, None] + reach[None, :])
    spans = over_spans(
        full.points.shape[0], lambda _, *span: _boundaries_of_span(full, complete, span)
    )
    keys = np.concatenate([span[0] for span in spans])
    values = np.concatenate([span[1] for span in spans])
    order = np.lexsort((values[:, 0], keys[:, 0]))
    return Boundaries(
        starts=np.searchsorted(keys[order, 0], np.arange(n_clusters**2 + 1)),
        margin=values[order, 0],
        point=keys[order, 1],
        static=values[order, 1:],
        complete=complete,
    )


def _reach(full: Full) -> Floats:
    """Bound, for each cluster, the first shift of its centroid over all removals."""
    spans = over_spans(full.points.shape[0], lambda _, *span: _radius_of_span(full, span))
    radius = np.sqrt(np.max(spans, axis=0))
    if not np.isfinite(radius).all():
        raise InvalidParameterError("fit", "a fixed point of Lloyd on these points", "other labels")
    slack = rounding_slack(full.points.shape[1])
    shift = radius * (1.0 + slack) / np.maximum(full.counts - 1, 1)
    moved = shift + slack * np.sqrt(np.square(full.centroids).sum(axis=1))
    # A lone point leaves an empty cluster, which keeps its centroid.
    return np.where(full.counts > 1, moved, 0.0)


@compiled
def _radius_of_span(full: Full, span: tuple[int, int]) -> Floats:
    """Return the largest D of each cluster; infinity if a label is not the nearest centroid's."""
    n_clusters, d = full.centroids.shape
    radius = np.zeros(n_clusters)
    columns = np.zeros((d, BLOCK))
    distances = np.empty((n_clusters, BLOCK))
    for begin in range(span[0], span[1], BLOCK):
        end = min(begin + BLOCK, span[1])
        block_distances(full.points, (begin, end), full.centroids, columns, distances)
        for b in range(end - begin):
            own = full.labels[begin + b]
            distance = distances[own, b]
            for k in range(n_clusters):
                if distances[k, b] < distance or (distances[k, b] == distance and k < own):
                    radius[own] = np.inf
            radius[own] = max(radius[own], distance)
    return radius


@compiled
def _boundaries_of_span(full: Full, complete: Floats, span: tuple[int, int]) -> tuple[Ints, Floats]:
    """Return the entries ((pair, point), (margin, D_a, D_b)) of a span."""
    n_clusters, d = full.centroids.shape
    slack = rounding_slack(d)
    columns = np.zeros((d, BLOCK))
    distances = np.empty((n_clusters, BLOCK))
    keys, values, size = np.empty((BLOCK, 2), np.int64), np.empty((BLOCK, 3)), 0
    for begin in range(span[0], span[1], BLOCK):
        end = min(begin + BLOCK, span[1])
        block_distances(full.points, (begin, end), full.centroids, columns, distances)
        for b in range(end - begin):
            a = full.labels[begin + b]
            own = np.sqrt(distances[a, b]) * (1.0 + slack)
            for k in range(n_clusters):
                margin = np.sqrt(distances[k, b]) * (1.0 - slack) - own
                if k != a and margin <= complete[a, k]:
                    keys, values = with_room(keys, size), with_room(values, size)
                    keys[size, 0], keys[size, 1] = a * n_clusters + k, begin + b
                    values[size, 0] = margin
                    values[size, 1], values[size, 2] = distances[a, b], distances[k, b]
                    size += 1
    return keys[:size], values[:size]


_Result = TypeVar("_Result")

_CHUNK = 8192  # columns multiplied at once


class Columns:
    """The removals that move none but the given blocks, on the coordinates of these blocks.

    Attributes
    ----------
    identities : (P',)
        The removal of each column: first the removals that fill one block, block by block.
    coordinates : (D,)
        Where the coordinates of the given blocks stand among all.
    """

    def __init__(self, runs: LeaveOneOut, blocks: Sequence[int]) -> None:
        self._runs = runs
        self.n_blocks = len(blocks)
        n_removals, self._d = runs.own_shift.shape
        self.dimension = self.n_blocks * self._d
        self.coordinates = np.concatenate(
            [np.arange(k * self._d, (k + 1) * self._d) for k in blocks]
        )
        self._place = np.full(runs.n_clusters, -1)
        self._place[list(blocks)] = np.arange(self.n_blocks)
        multiple = np.zeros(n_removals, np.bool_)
        multiple[runs.other_removal] = True
        inside = self._place[runs.labels] >= 0
        inside[runs.other_removal[self._place[runs.other_cluster] < 0]] = False
        self._single = [np.flatnonzero(inside & ~multiple & (runs.labels == k)) for k in blocks]
        self._multiple = np.flatnonzero(inside & multiple)
        self.identities = np.concatenate([*self._single, self._multiple])
        self.n_columns = self.identities.size
        largest = self._over_chunks(lambda rows, *_: np.square(rows).sum(axis=1).max())
        self.largest_norm = float(np.sqrt(max(largest, default=0.0)))

    @classmethod
    def of_removals(cls, runs: LeaveOneOut) -> Self:
        """Return the columns of all removals."""
        return cls(runs, range(runs.n_clusters))

    @classmethod
    def of_rows(cls, rows: Floats) -> Self:
        """Return columns given as rows of a matrix: one block, filled by all."""
        nothing = np.zeros(0, np.int64)
        runs = LeaveOneOut(
            labels=np.zeros(rows.shape[0], np.int32),
            own_shift=rows,
            other_removal=nothing,
            other_cluster=nothing,
            other_shift=np.zeros((0, rows.shape[1])),
            changed_removal=nothing,
            changed_point=nothing,
            changed_label=nothing,
            n_clusters=1,
        )
        return cls(runs, [0])

    def within(self, blocks: Sequence[int]) -> "Columns":
        """Return the columns that fill none but these blocks, on the coordinates of the blocks."""
        return Columns(self._runs, blocks)

    def squared_norms(self, matrix: Floats) -> Floats:
        """Return ``|M v_p|^2`` for all columns."""
        norms = self._over_chunks(lambda rows, at, _: np.square(rows @ matrix[:, at].T).sum(axis=1))
        return np.concatenate([np.zeros(0), *norms])

    def second_moment(self) -> Floats:
        """Return ``sum_p v_p v_p'``."""
        moment = np.zeros((self.dimension, self.dimension))
        for part, at in self._over_chunks(lambda rows, at, _: (rows.T @ rows, at)):
            moment[at, at] += part
        return moment

    def farthest(self, directions: Floats, count: int) -> Ints:
        """Return, each once, columns of the largest ``|u'v_p|`` for each direction u.

        The winners of ``count`` interleaved shares of each chunk compete for ``count`` places.
        """

        def winners(rows: Floats, at: slice, first: int) -> tuple[Floats, Ints]:
            reach = np.abs(rows @ directions[:, at].T)
            shares = [range(share, rows.shape[0], count) for share in range(count)]
            best = np.array(
                [
                    share[0] + count * reach[share.start :: count].argmax(axis=0)
                    for share in shares
                    if share
                ]
            )
            return np.take_along_axis(reach, best, axis=0), best + first

        chunks = self._over_chunks(winners)
        reach = np.concatenate([chunk[0] for chunk in chunks])
        top = np.argsort(-reach, axis=0, kind="stable")[:count]
        return np.unique(
            np.take_along_axis(np.concatenate([chunk[1] for chunk in chunks]), top, axis=0)
        )

    def rows(self, columns: Ints) -> Floats:
        """Return some columns as rows, (m, D)."""
        return self._dense(self.identities[columns])

    def supports(self, columns: Ints) -> set[frozenset[int]]:
        """Return the sets of blocks that some columns fill."""
        filled = self.rows(columns).reshape(-1, self.n_blocks, self._d).any(axis=2)
        return {frozenset(np.flatnonzero(row).tolist()) for row in np.unique(filled, axis=0)}

    def _over_chunks(self, work: Callable[[Floats, slice, int], _Result]) -> list[_Result]:
        """Call ``work(rows, coordinates that they fill, number of the first)`` for all columns."""
        chunks: list[tuple[Ints, int | None, int]] = []
        seen = 0
        for block, removals in [*enumerate(self._single), (None, self._multiple)]:
            chunks += [
                (removals[first : first + _CHUNK], block, seen + first)
                for first in range(0, removals.size, _CHUNK)
            ]
            seen += removals.size

        def run(chunk: tuple[Ints, int | None, int]) -> _Result:
            removals, block, first = chunk
            if block is None:
                return work(self._dense(removals), slice(0, self.dimension), first)
            at = slice(block * self._d, (block + 1) * self._d)
            return work(self._runs.own_shift[removals], at, first)

        if len(chunks) <= 1:
            return [run(chunk) for chunk in chunks]
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(run, chunks))

    def _dense(self, removals: Ints) -> Floats:
        runs = self._runs
        rows = np.zeros((removals.size, self.n_blocks, self._d))
        rows[np.arange(removals.size), self._place[runs.labels[removals]]] = runs.own_shift[
            removals
        ]
        first = np.searchsorted(runs.other_removal, removals)
        count = np.searchsorted(runs.other_removal, removals, side="right") - first
        row = np.repeat(np.arange(removals.size), count)
        entry = np.arange(row.size) + np.repeat(first - (np.cumsum(count) - count), count)
        rows[row, self._place[runs.other_cluster[entry]]] = runs.other_shift[entry]
        return rows.reshape(removals.size, self.dimension)
