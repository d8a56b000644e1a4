"""The nearest centroid of each row, offsets from it, and costs under sets of centroids.

Distances are added up in the order of the coordinates (`clustering._kernels`, rules 1 and 2), so
that what is computed of a row does not depend on the rows beside it.
"""

import math

import numpy as np

from wattveil.clustering._kernels import BLOCK, block_distances
from wattveil.compiled import compiled
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.rows import FloatArray, IntArray, Mask, row_function
from wattveil.release.rows.projection import check_width


@row_function
def nearest_centroid(load_kw: FloatArray, *, centroids: FloatArray) -> tuple[IntArray]:
    """Return the nearest centroid of each row, or `NO_DATA`; of equally near ones the first."""
    check_width(load_kw, centroids.shape[1])
    has_data = np.asarray(np.isfinite(load_kw).all(axis=1))
    # Loads saturate far out, where the distances to two centroids can still be told apart.
    reach = min(1e6 * (1.0 + float(np.abs(centroids).max())), 1e100)
    filled = np.clip(np.where(has_data[:, None], load_kw, 0.0), -reach, reach)
    labels = np.empty(len(filled), dtype=np.int64)
    _fill_nearest(filled, np.ascontiguousarray(centroids), labels)
    return (np.where(has_data, labels, NO_DATA),)


@row_function
def with_nearest(
    load_kw: FloatArray, *, centroids: FloatArray
) -> tuple[FloatArray, IntArray, Mask]:
    """Return the rows with data, and the nearest centroid of each."""
    (labels,) = nearest_centroid(load_kw, centroids=centroids)
    return load_kw, labels, labels != NO_DATA


@row_function
def nearest_cells(
    load_kw: FloatArray, places: IntArray, *, centroids: FloatArray
) -> tuple[IntArray]:
    """Return the cell of each customer among groups and nearest centroids, or `NO_DATA`."""
    (labels,) = nearest_centroid(load_kw, centroids=centroids)
    inside = (labels != NO_DATA) & (places != NO_DATA)
    return (np.where(inside, places * len(centroids) + labels, NO_DATA),)


@row_function
def nearest_offsets(
    rows: FloatArray,
    *,
    centres: FloatArray,
    radii: FloatArray,
    colour: FloatArray,
    shells: FloatArray,
) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the nearest cell, the offset ``(z - c) / (rho a)``, and the cell and shell of it."""
    check_width(rows, centres.shape[1])
    labels = np.empty(len(rows), dtype=np.int64)
    shell_of = np.empty(len(rows), dtype=np.int64)
    offsets = np.empty(rows.shape)
    _fill_offsets(rows, (centres, radii, colour, shells), (labels, shell_of), offsets)
    return labels, offsets, labels * (shells.size + 1) + shell_of


@row_function
def cost_features(
    rows: FloatArray, *, centroids: FloatArray, features: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return cell 0 and features of the costs d_m = min_k |z - c_mk|^2 under M sets of centroids.

    ``sum_m (d_m - d_1) features_mq``, added in the order of m. ``centroids`` is (M, K, r).
    """
    check_width(rows, centroids.shape[2])
    found = np.empty((len(rows), features.shape[1]))
    _fill_costs(rows, centroids.reshape(-1, centroids.shape[2]), features, found)
    return np.zeros(len(rows), dtype=np.int64), found


@compiled
def _fill_nearest(rows: FloatArray, centroids: FloatArray, labels: IntArray) -> None:
    """Fill the label of each row: the first of the smallest distances."""
    n_clusters, d = centroids.shape
    columns = np.zeros((d, BLOCK))
    distances = np.empty((n_clusters, BLOCK))
    for begin in range(0, rows.shape[0], BLOCK):
        end = min(begin + BLOCK, rows.shape[0])
        block_distances(rows, (begin, end), centroids, columns, distances)
        for b in range(end - begin):
            label = 0
            for k in range(1, n_clusters):
                if distances[k, b] < distances[label, b]:
                    label = k
            labels[begin + b] = label


@compiled
def _fill_offsets(
    rows: FloatArray,
    cells: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    found: tuple[IntArray, IntArray],
    offsets: FloatArray,
) -> None:
    """Fill label, shell and offset of each row."""
    centres, radii, colour, shells = cells
    labels, shell_of = found
    n_cells, r = centres.shape
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
        block_distances(rows, (begin, end), centres, columns, distances)
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
                offset = (rows[i, j] - centres[k, j]) * scale[k, j]
                offsets[i, j] = offset
                squares += offset * offset
            length = math.sqrt(squares)
            shell = 0
            while shell < shells.size and length >= shells[shell]:
                shell += 1
            labels[i] = k
            shell_of[i] = shell


@compiled
def _fill_costs(
    rows: FloatArray, centroids: FloatArray, features: FloatArray, found: FloatArray
) -> None:
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
