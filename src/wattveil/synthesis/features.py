"""First and second moments of the clusters, from noisy sums.

A customer contributes (sqrt(p) a, sqrt(1 - p) a a'): `wattveil.release.rows.synthesis_features`.
"""

import math

import numpy as np

from wattveil.clustering._kernels import Floats
from wattveil.synthesis import tuning

_ROOT_TWO = math.sqrt(2.0)


def moment_width(n_coordinates: int) -> int:
    """Return how many numbers first and second moments are."""
    return n_coordinates + n_coordinates * (n_coordinates + 1) // 2


def read_moments(sums: Floats, radius: float, n_coordinates: int) -> tuple[Floats, Floats]:
    """Return the sums of a and of a a' in the units of the scores, from noisy sums by cluster."""
    r = n_coordinates
    means = sums[:, :r] * (radius / math.sqrt(tuning.MEAN_PART))
    first, second = np.triu_indices(r)
    weights = np.where(first == second, 1.0, _ROOT_TWO) * math.sqrt(1.0 - tuning.MEAN_PART)
    seconds = np.empty((len(sums), r, r))
    seconds[:, first, second] = sums[:, r:] * (radius**2 / weights)
    seconds[:, second, first] = seconds[:, first, second]
    return means, seconds


def moments_std(std: float, radius: float, n_coordinates: int) -> tuple[float, Floats]:
    """Return the standard deviations of the noise in what `read_moments` returns."""
    of_second = np.full((n_coordinates, n_coordinates), 1.0 / _ROOT_TWO)
    np.fill_diagonal(of_second, 1.0)
    mean_std = std * radius / math.sqrt(tuning.MEAN_PART)
    return mean_std, of_second * (std * radius**2 / math.sqrt(1.0 - tuning.MEAN_PART))
