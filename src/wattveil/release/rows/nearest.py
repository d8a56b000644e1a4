"""The nearest centroid of each row, offsets from it, and costs under sets of centroids.

Distances are added up in the order of the coordinates (`clustering._kernels`, rules 1 and 2), so
that the result for a row does not depend on the other rows of the block.
"""

import math

import numpy as np

from wattveil.clustering._kernels import BLOCK, block_distances
from wattveil.compiled import compiled
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.private_rows import FloatArray, IntArray, Mask, row_function
from wattveil.release.rows.projection import check_shapes, check_width


@row_function
def nearest_centroid(load_kw: FloatArray, *, centroids: FloatArray) -> tuple[IntArray]:
    """Return the nearest centroid of each row, or `NO_DATA`; the first one in case of a tie."""
    has_data = np.asarray(np.isfinite(load_kw).all(axis=1))
    # Loads saturate where the distances to two centroids can still be distinguished.
    reach = min(1e6 * (1.0 + float(np.abs(centroids).max())), 1e100)
    filled = np.clip(np.where(has_data[:, None], load_kw, 0.0), -reach, reach)
    return (np.where(has_data, nearest(filled, centroids)[0], NO_DATA),)


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
    """Return the nearest cell, the offset ``(z - c) / (rho a)``, and the cell-and-shell index."""
    labels, _ = nearest(rows, centres)
    check_shapes((radii, centres.shape[:1]), (colour, centres.shape[1:]))
    offsets, lengths = np.empty(rows.shape), np.empty(len(rows))
    _fill_offsets((rows, labels), centres, 1.0 / (radii[:, None] * colour), offsets, lengths)
    shell_of = np.searchsorted(shells, lengths, side="right")
    return labels, offsets, labels * (shells.size + 1) + shell_of


@row_function
def cost_features(
    rows: FloatArray, *, centroids: FloatArray, features: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return cell 0 and features of the costs d_m = min_k |z - c_mk|^2 under M sets of centroids.

    ``sum_m (d_m - d_1) features_mq``, added in the order of m. ``centroids`` is (M, K, r).
    """
    found = np.zeros((len(rows), features.shape[1]))
    costs = [nearest(rows, one)[1] for one in centroids]
    for cost, weights in zip(costs[1:], features[1:], strict=True):
        found += (cost - costs[0])[:, None] * weights
    return np.zeros(len(rows), dtype=np.int64), found


def nearest(rows: FloatArray, centroids: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the nearest centroid of each row, and the squared distance to it."""
    check_width(rows, centroids.shape[1])
    labels, distances = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    whole = np.ascontiguousarray(rows), np.ascontiguousarray(centroids)
    _fill_nearest(*whole, labels, distances)
    return labels, distances


@compiled
def _fill_nearest(
    rows: FloatArray, centroids: FloatArray, labels: IntArray, smallest: FloatArray
) -> None:
    """Fill the label of each row, the first at the minimum distance, and that squared distance."""
    n_clusters, d = centroids.shape
    columns = np.zeros((d, BLOCK))
    distances = np.empty((n_clusters, BLOCK))
    least = np.empty(BLOCK)
    label = np.empty(BLOCK, np.int64)
    for begin in range(0, rows.shape[0], BLOCK):
        end = min(begin + BLOCK, rows.shape[0])
        block_distances(rows, (begin, end), centroids, columns, distances)
        least[:] = np.inf
        label[:] = 0
        for k in range(n_clusters):
            for b in range(BLOCK):
                closer = distances[k, b] < least[b]
                least[b] = distances[k, b] if closer else least[b]
                label[b] = k if closer else label[b]
        labels[begin:end] = label[: end - begin]
        smallest[begin:end] = least[: end - begin]


@compiled
def _fill_offsets(
    assigned: tuple[FloatArray, IntArray],
    centres: FloatArray,
    scale: FloatArray,
    offsets: FloatArray,
    lengths: FloatArray,
) -> None:
    """Fill the scaled offset of each row from the centre of its cell, and its length."""
    rows, labels = assigned
    for i in range(rows.shape[0]):
        squares = 0.0
        for j in range(rows.shape[1]):
            offset = (rows[i, j] - centres[labels[i], j]) * scale[labels[i], j]
            offsets[i, j] = offset
            squares += offset * offset
        lengths[i] = math.sqrt(squares)
