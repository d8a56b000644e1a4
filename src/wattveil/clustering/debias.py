"""Counts behind randomised labels and noisy tables: post-processing of what was released.

>>> import numpy as np
>>> channel = np.array([[0.8, 0.2], [0.4, 0.6]])
>>> counts, std = debiased_counts(np.array([60.0, 40.0]), channel, prior=np.array([0.5, 0.5]))
>>> counts.round(6).tolist()
[50.0, 50.0]
"""

import numpy as np

from wattveil.clustering._kernels import Floats

_LEAST_SINGULAR = 1e-3
"""Directions that a channel shrinks more than this cannot be read from its output."""

_LARGEST_BIAS = 1e-6
"""Per customer of another cluster: above it a count is not an estimate of that cluster alone."""


def debiased_counts(observed: Floats, table: Floats, *, prior: Floats) -> tuple[Floats, Floats]:
    """Return how many customers have each true label, and the standard errors.

    The released labels are counted; their expectation is n Q for the true counts n. With V the
    inverse of Q the estimate is n^ = y V, unbiased, and its variance, from the known channel, is
    sum_j E[y_j] V_jk (V_jk - 1). Where Q has no inverse, ``prior`` fills the directions that cannot
    be seen, and the standard error of every count that they touch is infinite.

    Parameters
    ----------
    observed : (K,)
        How often each label was released.
    table : (K, K)
        Q, the chance of each released label (column) for each true one (row).
    prior : (K,)
        Shares, from elsewhere.
    """
    inverse = np.linalg.pinv(table, rcond=_LEAST_SINGULAR)
    guess = prior * observed.sum()
    counts = guess + (observed - guess @ table) @ inverse
    is_seen = np.abs(table @ inverse - np.eye(len(table))).max(axis=0) < _LARGEST_BIAS
    variance = np.maximum(observed @ (inverse * (inverse - 1.0)), 0.0)
    return counts, np.where(is_seen, np.sqrt(variance), np.inf)


def nearest_with_total(values: Floats, totals: Floats) -> Floats:
    """Return, row by row, the nearest numbers of at least 0 that add up to the row's total.

    Subtract one number from the row and cut at 0: of the candidates (sum of the m largest - total)
    / m, the largest is that number.
    """
    descending = -np.sort(-values, axis=-1)
    excess = np.cumsum(descending, axis=-1) - totals[..., None]
    shift = (excess / np.arange(1, values.shape[-1] + 1)).max(axis=-1, keepdims=True)
    nearest: Floats = np.maximum(values - shift, 0.0)
    return nearest
