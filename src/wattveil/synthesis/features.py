"""What each customer adds to the sums: a vector of length at most 1, of its own row alone."""

import math

import numpy as np

from wattveil.clustering._kernels import Floats
from wattveil.compiled import compiled
from wattveil.synthesis import tuning

_ROOT_TWO = math.sqrt(2.0)


def moment_width(n_coordinates: int) -> int:
    """Return how many numbers first and second moments are."""
    return n_coordinates + n_coordinates * (n_coordinates + 1) // 2


def moment_features(scores: Floats, radius: float) -> Floats:
    """Return (sqrt(p) a, sqrt(1 - p) a a') of each row, with a = scores / radius clipped to 1.

    The matrix travels as its upper triangle, off-diagonal entries times sqrt 2, which keeps its
    norm |a|^2; so the length is sqrt(p |a|^2 + (1 - p) |a|^4) <= 1. p is `tuning.MEAN_PART`.
    """
    found = np.empty((len(scores), moment_width(scores.shape[1])))
    _fill_moments(np.ascontiguousarray(scores), radius, tuning.MEAN_PART, found)
    return found


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


@compiled
def _fill_moments(scores: Floats, radius: float, part: float, found: Floats) -> None:
    """Fill the features of each row."""
    r = scores.shape[1]
    a = np.empty(r)
    for i in range(scores.shape[0]):
        squares = 0.0
        for j in range(r):
            squares += scores[i, j] * scores[i, j]
        length = math.sqrt(squares)
        scale = 1.0 / max(length, radius)
        place = r
        for j in range(r):
            a[j] = scores[i, j] * scale
            found[i, j] = math.sqrt(part) * a[j]
        for j in range(r):
            for m in range(j, r):
                weight = 1.0 if j == m else _ROOT_TWO
                found[i, place] = math.sqrt(1.0 - part) * weight * a[j] * a[m]
                place += 1
