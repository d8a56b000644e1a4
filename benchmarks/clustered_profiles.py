"""Simulated load profiles with known clusters, for the benchmarks."""

import numpy as np
from numpy.typing import NDArray


def clustered_profiles(n_points: int, d: int, n_clusters: int, seed: int) -> NDArray[np.float64]:
    """Return daily profiles: a few shapes with two peaks, of different sizes."""
    generator = np.random.default_rng(seed)
    hours = np.linspace(0.0, 24.0, d, endpoint=False)
    morning, evening = generator.uniform([[6.0], [16.0]], [[11.0], [22.0]], size=(2, n_clusters))
    heights = generator.uniform(0.3, 2.0, size=(2, n_clusters))
    shapes = 0.3 + sum(
        height[:, None] * np.exp(-0.5 * np.square((hours - peak[:, None]) / 2.7))
        for height, peak in zip(heights, (morning, evening), strict=True)
    )
    sizes = np.exp(0.25 * generator.normal(size=(n_points, 1)))
    points = shapes[generator.integers(n_clusters, size=n_points)] * sizes
    points *= np.exp(0.25 * generator.normal(size=(n_points, d)))
    return points
