"""Each customer's nearest cell and offset from its middle, in compiled loops.

What is computed of a row depends on that row alone, to the last bit (`_kernels`, rules 1 and 2): a
customer who leaves changes nothing that others contribute.
"""

import math

import numpy as np
from numpy.typing import NDArray

from wattveil.clustering._kernels import BLOCK, Counts, Floats, block_distances
from wattveil.clustering.cells import Cells
from wattveil.compiled import compiled, over_spans

_LARGEST = 1e9
"""Values saturate here, in kW: no customer can overflow a sum of squares."""


def project_rows(load_kw: Floats, basis: Floats, *, normalise: bool, longest: float) -> Floats:
    """Return the basis coordinates of the rows that count, one row a customer.

    A row with NaN or infinity, and in ``normalise`` one of length 0, has no coordinates and is left
    out. Rows longer than ``longest`` are scaled back to it.
    """
    coordinates, counts = _projected(load_kw, basis, (normalise, longest))
    return coordinates if counts.all() else coordinates[counts]


def comparable_rows(load_kw: Floats, *, normalise: bool, longest: float) -> Floats:
    """Return every row as `project_rows` takes it, in its own coordinates; without data as NaN."""
    rows, counts = _projected(load_kw, np.eye(load_kw.shape[1]), (normalise, longest))
    rows[~counts] = math.nan
    return rows


def nearest_offsets(
    rows: Floats, cells: Cells, colour: Floats, shells: Floats
) -> tuple[Counts, Counts, Floats]:
    """Return cell, shell and offset ``(z - c) / (rho a)`` of each row."""
    labels = np.empty(len(rows), dtype=np.int64)
    shell_of = np.empty(len(rows), dtype=np.int64)
    offsets = np.empty(rows.shape)
    _fill_offsets(rows, (cells.middles, cells.radii, colour, shells), (labels, shell_of), offsets)
    return labels, shell_of, offsets


def cost_features(rows: Floats, centroids: Floats, features: Floats) -> Floats:
    """Return what each row's costs d_m = min_k |z - c_mk|^2 under M sets of centroids amount to.

    ``sum_m (d_m - d_1) features_mq``, added in the order of m. ``centroids`` is (M, K, r).
    """
    found = np.empty((len(rows), features.shape[1]))
    _fill_costs(rows, centroids.reshape(-1, centroids.shape[2]), features, found)
    return found


def size_cells(rows: Floats, edges: Floats, *, coordinates: int) -> Counts:
    """Return between which bounds the length of each row's first coordinates lies."""

    def cells_of(_: int, first: int, last: int) -> Counts:
        # A running sum has one order of additions, whatever rows stand beside.
        squares = np.cumsum(np.square(rows[first:last, :coordinates]), axis=1)[:, -1]
        cells: Counts = np.searchsorted(edges, np.sqrt(squares), side="right").astype(np.int64)
        return cells

    return np.concatenate(over_spans(rows.shape[0], cells_of))


def _projected(
    load_kw: Floats, basis: Floats, rule: tuple[bool, float]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the coordinates of all rows, and which rows count."""
    coordinates = np.empty((load_kw.shape[0], basis.shape[0]))
    counts = np.zeros(load_kw.shape[0], dtype=np.bool_)
    over_spans(
        load_kw.shape[0],
        lambda _, *span: _project_span((load_kw, basis), span, rule, coordinates, counts),
    )
    return coordinates, counts


@compiled
def _project_span(
    data: tuple[Floats, Floats],
    span: tuple[int, int],
    rule: tuple[bool, float],
    coordinates: Floats,
    counts: NDArray[np.bool_],
) -> None:
    """Fill the coordinates of a span: z_j = scale sum_h B_jh x_h, added in the order of h."""
    rows, basis = data
    normalise, longest = rule
    r, d = basis.shape
    columns = np.zeros((d, BLOCK))
    totals = np.empty(BLOCK)
    scale = np.empty(BLOCK)
    for begin in range(span[0], span[1], BLOCK):
        end = min(begin + BLOCK, span[1])
        for i in range(begin, end):
            squares = 0.0
            finite = True
            for h in range(d):
                finite = finite and math.isfinite(rows[i, h])
                value = min(max(rows[i, h], -_LARGEST), _LARGEST)
                columns[h, i - begin] = value
                squares += value * value
            length = math.sqrt(squares)
            counts[i] = finite and (length > 0.0 or not normalise)
            scale[i - begin] = 1.0
            if normalise and counts[i]:
                scale[i - begin] = 1.0 / length
            elif length > longest:
                scale[i - begin] = longest / length
        for j in range(r):
            totals[:] = 0.0
            for h in range(d):
                weight = basis[j, h]
                for b in range(BLOCK):
                    totals[b] += weight * columns[h, b]
            for b in range(end - begin):
                coordinates[begin + b, j] = scale[b] * totals[b]


@compiled
def _fill_offsets(
    rows: Floats,
    cells: tuple[Floats, Floats, Floats, Floats],
    found: tuple[Counts, Counts],
    offsets: Floats,
) -> None:
    """Fill label, shell and offset of each row."""
    middles, radii, colour, shells = cells
    labels, shell_of = found
    n_cells, r = middles.shape
    columns = np.zeros((r, BLOCK))
    distances = np.empty((n_cells, BLOCK))
    smallest = np.empty(BLOCK)
    nearest = np.empty(BLOCK, np.int64)
    scale = np.empty((n_cells, r))
    for k in range(n_cells):
        for j in range(r):
            scale[k, j] = 1.0 / (radii[k] * colour[j])
    for begin in range(0, rows.shape[0], BLOCK):
        end = min(begin + BLOCK, rows.shape[0])
        block_distances(rows, (begin, end), middles, columns, distances)
        smallest[:] = np.inf
        nearest[:] = 0
        for k in range(n_cells):
            for b in range(BLOCK):
                closer = distances[k, b] < smallest[b]
                smallest[b] = distances[k, b] if closer else smallest[b]
                nearest[b] = k if closer else nearest[b]
        for b in range(end - begin):
            i = begin + b
            k = nearest[b]
            squares = 0.0
            for j in range(r):
                offset = (rows[i, j] - middles[k, j]) * scale[k, j]
                offsets[i, j] = offset
                squares += offset * offset
            length = math.sqrt(squares)
            shell = 0
            while shell < shells.size and length >= shells[shell]:
                shell += 1
            labels[i] = k
            shell_of[i] = shell


@compiled
def _fill_costs(rows: Floats, centroids: Floats, features: Floats, found: Floats) -> None:
    """Fill the cost features of each row."""
    n_sets, n_features = features.shape
    n_clusters = centroids.shape[0] // n_sets
    columns = np.zeros((rows.shape[1], BLOCK))
    distances = np.empty((centroids.shape[0], BLOCK))
    costs = np.empty((n_sets, BLOCK))
    for begin in range(0, rows.shape[0], BLOCK):
        end = min(begin + BLOCK, rows.shape[0])
        block_distances(rows, (begin, end), centroids, columns, distances)
        costs[:] = np.inf
        for m in range(n_sets):
            for k in range(m * n_clusters, (m + 1) * n_clusters):
                for b in range(BLOCK):
                    costs[m, b] = min(costs[m, b], distances[k, b])
        for b in range(end - begin):
            for q in range(n_features):
                total = 0.0
                for m in range(1, n_sets):
                    total += (costs[m, b] - costs[0, b]) * features[m, q]
                found[begin + b, q] = total
