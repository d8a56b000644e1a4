"""The differences of leave-one-out runs as columns of V, without storing their zeros.

Columns live in R^{K d}, K blocks of d coordinates. A removal that moves one centroid fills one
block; only the others are spread out, a few thousand at a time, when they are multiplied.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from wattveil.clustering.leave_one_out import LeaveOneOut
from wattveil.compiled import THREADS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wattveil.clustering._kernels import Floats, Indices

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
        spread = np.zeros(n_removals, np.bool_)
        spread[runs.other_removal] = True
        inside = self._place[runs.labels] >= 0
        inside[runs.other_removal[self._place[runs.other_cluster] < 0]] = False
        self._single = [np.flatnonzero(inside & ~spread & (runs.labels == k)) for k in blocks]
        self._spread = np.flatnonzero(inside & spread)
        self.identities = np.concatenate([*self._single, self._spread])
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

    def within(self, blocks: Sequence[int]) -> Columns:
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

    def farthest(self, directions: Floats, count: int) -> Indices:
        """Return, each once, columns of the largest ``|u'v_p|`` for each direction u.

        The winners of ``count`` interleaved shares of each chunk compete for ``count`` places.
        """

        def winners(rows: Floats, at: slice, first: int) -> tuple[Floats, Indices]:
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

    def rows(self, columns: Indices) -> Floats:
        """Return some columns as rows, (m, D)."""
        return self._spread_out(self.identities[columns])

    def supports(self, columns: Indices) -> set[frozenset[int]]:
        """Return the sets of blocks that some columns fill."""
        filled = self.rows(columns).reshape(-1, self.n_blocks, self._d).any(axis=2)
        return {frozenset(np.flatnonzero(row).tolist()) for row in np.unique(filled, axis=0)}

    def _over_chunks(self, work: Callable[[Floats, slice, int], _Result]) -> list[_Result]:
        """Call ``work(rows, coordinates that they fill, number of the first)`` for all columns."""
        chunks: list[tuple[Indices, int | None, int]] = []
        seen = 0
        for block, removals in [*enumerate(self._single), (None, self._spread)]:
            chunks += [
                (removals[first : first + _CHUNK], block, seen + first)
                for first in range(0, removals.size, _CHUNK)
            ]
            seen += removals.size

        def run(chunk: tuple[Indices, int | None, int]) -> _Result:
            removals, block, first = chunk
            if block is None:
                return work(self._spread_out(removals), slice(0, self.dimension), first)
            at = slice(block * self._d, (block + 1) * self._d)
            return work(self._runs.own_shift[removals], at, first)

        if len(chunks) <= 1:
            return [run(chunk) for chunk in chunks]
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(run, chunks))

    def _spread_out(self, removals: Indices) -> Floats:
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
