"""Merging clusters that are too small, as the last stage of the K-means query.

A cluster of few customers all but publishes them. With ``min_cluster_size = m`` the answer of
K-means is passed through one more rule, which is part of the query and so of each of its
leave-one-out runs::

    while a group has fewer than m points and two groups have any:
        s = the smallest such group                      ties: the lowest index
        t = the non-empty group nearest to s by centroid ties: the lowest index
        s joins t; the centroid of t becomes the mean of all its points

Row k of the answer is the centroid of the group that holds cluster k, and the label of a point is
the index of its group, so answers with different merges are still comparable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from wattveil.clustering._kernels import (
    Counts,
    Floats,
    Indices,
    add_to_sum,
    cluster_sums,
    squared_distance,
)
from wattveil.clustering.lloyd import checked_points
from wattveil.compiled import compiled
from wattveil.errors import InvalidParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from wattveil.clustering.lloyd import LloydResult


def merge_small_clusters(points: ArrayLike, fit: LloydResult, min_cluster_size: int) -> LloydResult:
    """Merge every cluster of fewer than ``min_cluster_size`` points into the nearest.

    Rows of merged clusters repeat the centroid of their group; their count is zero.
    """
    rows = checked_points(points)
    check_min_cluster_size(min_cluster_size)
    n_clusters = fit.centroids.shape[0]
    sums, counts = cluster_sums(rows, fit.labels, n_clusters)
    group, centroids = merge_kernel(sums, counts, fit.centroids, min_cluster_size)
    labels = group[fit.labels].astype(np.int32)
    return replace(
        fit,
        centroids=centroids,
        labels=labels,
        counts=np.bincount(labels, minlength=n_clusters),
        loss=float(np.square(rows - centroids[labels]).sum() / rows.shape[0]),
    )


def check_min_cluster_size(min_cluster_size: int) -> None:
    """Refuse a negative size; 0 merges nothing, not even empty clusters."""
    if min_cluster_size < 0:
        raise InvalidParameterError("min_cluster_size", "at least 0", min_cluster_size)


@compiled
def merge_kernel(
    sums: Floats, counts: Counts, centroids: Floats, min_cluster_size: int
) -> tuple[Indices, Floats]:
    """Return the group of each cluster and the centroid of its group, (K, d)."""
    n_clusters = counts.shape[0]
    group = np.arange(n_clusters)
    answer = centroids.copy()
    if counts.min() >= min_cluster_size:
        return group, answer
    sums, counts = sums.copy(), counts.copy()
    while True:
        smallest = _smallest_group(group, counts, min_cluster_size)
        target = -1 if smallest < 0 else _nearest_group(smallest, group, counts, answer)
        if target < 0:
            return group, answer[group]
        add_to_sum(sums, target, sums[0], smallest, 1.0)
        add_to_sum(sums, target, sums[1], smallest, 1.0)
        counts[target] += counts[smallest]
        for j in range(answer.shape[1]):
            answer[target, j] = sums[0, target, j] / counts[target]
        for k in range(n_clusters):
            if group[k] == smallest:
                group[k] = target


@compiled
def _smallest_group(group: Indices, counts: Counts, min_cluster_size: int) -> int:
    """Return the smallest group below the minimum, or -1."""
    smallest = -1
    for k in range(counts.shape[0]):
        small = group[k] == k and counts[k] < min_cluster_size
        if small and (smallest < 0 or counts[k] < counts[smallest]):
            smallest = k
    return smallest


@compiled
def _nearest_group(source: int, group: Indices, counts: Counts, centroids: Floats) -> int:
    """Return the non-empty group nearest to another, or -1 if there is none."""
    target, least = -1, np.inf
    for k in range(counts.shape[0]):
        if k != source and group[k] == k and counts[k] > 0:
            distance = squared_distance(centroids, source, centroids, k)
            if distance < least:
                target, least = k, distance
    return target
