"""How alike the loads of slots are, one by one and together."""

import numpy as np
from numpy.typing import NDArray

from wattveil.measures.samples import slot_distances, sorted_slots

Floats = NDArray[np.float64]


def slot_distance(rows: Floats, sampled: Floats) -> float:
    """Return W1 between the loads of a slot over their standard deviation, mean of all slots."""
    apart, _ = slot_distances(sorted_slots(rows), sorted_slots(sampled))
    return float((apart / np.maximum(rows.std(axis=0), 1e-12)).mean())


def correlation_error(rows: Floats, sampled: Floats) -> float:
    """Return the mean absolute difference of the correlations of two slots."""
    pairs = np.triu_indices(rows.shape[1], 1)
    apart = correlations(covariance(rows)) - correlations(covariance(sampled))
    return float(np.abs(apart[pairs]).mean())


def covariance(rows: Floats) -> Floats:
    """Return ``1/P sum_p (x_p - m)(x_p - m)'``."""
    centred = rows - rows.mean(axis=0)
    found: Floats = centred.T @ centred / len(rows)
    return found


def correlations(covariance: Floats) -> Floats:
    """Return the correlations of two slots from their covariance; 0 with a slot of one value."""
    std = np.sqrt(np.maximum(np.diag(covariance), 1e-24))
    found: Floats = covariance / np.outer(std, std)
    return found
