"""Steps around K-means in the instance tier: public transform, and merge of small clusters.

Raw load is heavy-tailed: a few large customers become clusters of their own, and small clusters
have large leave-one-out differences. A public transform, chosen before the data are inspected,
shortens the tail (`Transform`, `clip_rms`).

A cluster of few customers nearly publishes them. With ``min_cluster_size = m`` the clusters of
K-means pass one more rule, which is part of the query and so of each of its leave-one-out runs::

    while a group has fewer than m points and two groups have any:
        s = the smallest such group                      ties: the lowest index
        t = the non-empty group nearest to s by centroid ties: the lowest index
        s joins t; the centroid of t becomes the mean of all its points

Row k of the result is the centroid of the group that contains cluster k, and the label of a point
is the index of its group, so results with different merges are comparable.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.compiled import compiled
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.numerics.kmeans.kernels import add_to_sum, cluster_sums, squared_distance
from wattveil.numerics.kmeans.lloyd import LloydResult, checked_points

TransformName = Literal["none", "asinh", "log"]


@dataclass(frozen=True, kw_only=True)
class Transform:
    """``x``, ``asinh(x / scale_kw)`` or ``log(x + scale_kw)``."""

    name: TransformName
    scale_kw: float

    def __post_init__(self) -> None:
        """Reject an unknown name and an invalid scale."""
        names = get_args(TransformName)
        if self.name not in names:
            raise InvalidParameterError("load_transform", f"one of {names}", self.name)
        checks.positive("transform_kw", self.scale_kw)

    def forward(
        self, load_kw: NDArray[np.float64], row_ids: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return transformed load; an error names rows by ``row_ids``."""
        if self.name == "none":
            return load_kw
        if self.name == "asinh":
            return np.arcsinh(load_kw / self.scale_kw)
        too_low = np.flatnonzero((load_kw <= -self.scale_kw).any(axis=1))
        if too_low.size:
            rule = f"load above -transform_kw = {-self.scale_kw} kW, for the logarithm"
            ids = too_low if row_ids is None else row_ids[too_low]
            raise InvalidDataError(rule, ids.tolist())
        return np.log(load_kw + self.scale_kw)

    def backward(self, clustered: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return centroids in kW; of released numbers this is post-processing."""
        if self.name == "none":
            return clustered
        # Noise can carry a centroid far out; past e^300 a load in kW would overflow.
        bounded = np.clip(clustered, -300.0, 300.0)
        if self.name == "asinh":
            return np.asarray(self.scale_kw * np.sinh(bounded))
        return np.asarray(np.exp(bounded) - self.scale_kw)


def clip_rms(load_kw: NDArray[np.float64], clip_kw: float) -> NDArray[np.float64]:
    """Clip customers whose root-mean-square load exceeds ``clip_kw``."""
    checks.positive("clip_kw", clip_kw)
    rms = np.sqrt(np.square(load_kw).mean(axis=1, keepdims=True))
    return np.asarray(load_kw * (clip_kw / np.maximum(rms, clip_kw)))


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
    """Reject a negative size; 0 merges nothing, not even empty clusters."""
    if min_cluster_size < 0:
        raise InvalidParameterError("min_cluster_size", "at min_distance 0", min_cluster_size)


@compiled
def merge_kernel(
    sums: Floats, counts: Ints, centroids: Floats, min_cluster_size: int
) -> tuple[Ints, Floats]:
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
def _smallest_group(group: Ints, counts: Ints, min_cluster_size: int) -> int:
    """Return the smallest group below the minimum, or -1."""
    smallest = -1
    for k in range(counts.shape[0]):
        small = group[k] == k and counts[k] < min_cluster_size
        if small and (smallest < 0 or counts[k] < counts[smallest]):
            smallest = k
    return smallest


@compiled
def _nearest_group(source: int, group: Ints, counts: Ints, centroids: Floats) -> int:
    """Return the non-empty group nearest to another, or -1 if there is none."""
    target, min_distance = -1, np.inf
    for k in range(counts.shape[0]):
        if k != source and group[k] == k and counts[k] > 0:
            distance = squared_distance(centroids, source, centroids, k)
            if distance < min_distance:
                target, min_distance = k, distance
    return target
