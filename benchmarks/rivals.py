"""What the global tier is measured against. Each gets for free what it should have to buy.

`plain_lloyd` and `private_mean` draw floating-point noise: they are yardsticks, not releases.
"""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattveil.calibration import gaussian_s
from wattveil.clustering.geometry import harmonics, public_basis, shape_library

Floats = NDArray[np.float64]

DELTA = 1e-6
DIFFPRIVLIB_PYTHON = os.environ.get("WATTVEIL_DIFFPRIVLIB_PYTHON", "")
_RUNNER = Path(__file__).with_name("run_diffprivlib.py")
_COUNT_PART = 0.1
"""Of each step of plain DP-Lloyd for the counts: .05 to .2 differ by a tenth, .5 is worse."""


def loss(rows: Floats, centroids: Floats) -> float:
    """Return the mean squared distance to the nearest centroid."""
    total = 0.0
    for first in range(0, len(rows), 50_000):
        block = rows[first : first + 50_000]
        squares = np.square(centroids).sum(axis=1) - 2.0 * block @ centroids.T
        total += float((squares.min(axis=1) + np.square(block).sum(axis=1)).sum())
    return total / len(rows)


def plain_lloyd(
    rows: Floats, n_clusters: int, epsilon: float, *, steps: int, generator: np.random.Generator
) -> Floats:
    """Return the centroids of Lloyd's steps with Gaussian noise on sums and counts.

    Exact accounting of the Gaussian. Rows are clipped at the true 99 % quantile of their length,
    for free. Starts at random points of the ball of half that radius around zero.
    """
    lengths = np.linalg.norm(rows, axis=1)
    radius = float(np.quantile(lengths, 0.99))
    clipped = rows * np.minimum(1.0, radius / np.maximum(lengths, 1e-12))[:, None]
    mu = _signal(epsilon) / np.sqrt(steps)
    counts_std, sums_std = 1.0 / (mu * np.sqrt([_COUNT_PART, 1.0 - _COUNT_PART]))
    n_slots = rows.shape[1]
    centroids = generator.standard_normal((n_clusters, n_slots))
    centroids *= 0.5 * radius / np.linalg.norm(centroids, axis=1, keepdims=True)
    for _ in range(steps):
        nearest = (np.square(centroids).sum(axis=1) - 2.0 * clipped @ centroids.T).argmin(axis=1)
        member = np.zeros((len(rows), n_clusters))
        member[np.arange(len(rows)), nearest] = 1.0
        sums = member.T @ clipped + radius * sums_std * generator.standard_normal(centroids.shape)
        counts = member.sum(axis=0) + counts_std * generator.standard_normal(n_clusters)
        moved = sums / np.maximum(counts, 1.0)[:, None]
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        moved *= np.minimum(1.0, radius / length)  # a centroid cannot lie outside the ball
        centroids = np.where(counts[:, None] > counts_std, moved, centroids)
    return centroids


def private_mean(
    rows: Floats, epsilon: float, *, relative_radius: float, generator: np.random.Generator
) -> Floats:
    """Return one private mean profile bought with the whole budget, as a matrix of one row.

    A strong one: the sum of offsets from the mean of public shapes at the true mean size (for
    free), clipped at a radius in mean sizes, in nine smooth coordinates, weighed against a prior;
    the number of customers is free too. Prior: the best of five on 100 and 246 London homes.
    """
    coordinates = 9
    basis = public_basis(rows.shape[1])[:coordinates]
    size = float(np.linalg.norm(rows, axis=1).mean())
    middle = shape_library(rows.shape[1], 12).mean(axis=0)
    centre = basis @ (size * middle / np.linalg.norm(middle))
    smooth = (1.0 + harmonics(coordinates)) ** -2.0
    variance = np.square(0.4 * size) * smooth / smooth.sum()
    radius = relative_radius * size
    offsets = rows @ basis.T - centre
    lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
    total = (offsets * np.minimum(1.0, radius / np.maximum(lengths, 1e-12))).sum(axis=0)
    std = radius / _signal(epsilon)
    total += std * generator.standard_normal(coordinates)
    weight = variance / (variance + np.square(std / len(rows)))
    profile: Floats = ((centre + weight * total / len(rows)) @ basis)[None]
    return profile


@cache
def _signal(epsilon: float) -> float:
    """Return the mu of the Gaussian; certified arithmetic takes its time."""
    return gaussian_s(epsilon=epsilon, delta=DELTA)


def diffprivlib_runs(
    rows: Floats, n_clusters: int, epsilons: Sequence[float], *, runs: int
) -> Floats | None:
    """Return the centroids of diffprivlib, (epsilons, runs, K, d); None if it is not there.

    It needs an older scikit-learn, so it runs in an interpreter of its own, which
    ``WATTVEIL_DIFFPRIVLIB_PYTHON`` names. Its box is the true 0.5 to 99.5 % range of each hour.
    """
    if not DIFFPRIVLIB_PYTHON:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.npy", Path(folder) / "centroids.npy"
        np.save(source, rows)
        command = [DIFFPRIVLIB_PYTHON, _RUNNER, source, target, n_clusters, runs, *epsilons]
        subprocess.run([str(word) for word in command], check=True)  # noqa: S603 - our own runner
        centroids: Floats = np.load(target)
        return centroids
