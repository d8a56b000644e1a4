"""Public bases of a day: the axes of its guessed covariance, and the waves of its margins."""

import math

import numpy as np

from wattveil.clustering._kernels import Floats
from wattveil.synthesis import tuning
from wattveil.synthesis.margins import margin_colour, waves


def day_guess(n_slots: int) -> Floats:
    """Return the public guess of the correlations within a day, (slots, slots)."""
    hours = np.arange(n_slots) * 24.0 / n_slots
    fading = tuning.DAY_PRIOR_PERSISTENCE ** np.abs(hours[:, None] - hours[None])
    level, spread = tuning.DAY_PRIOR_LEVEL, tuning.DAY_PRIOR_SPREAD
    shared: Floats = level + spread * fading
    return shared + (1.0 - level - spread) * np.eye(n_slots)


def day_axes(n_slots: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors (as rows) of the guess, largest first."""
    values, vectors = np.linalg.eigh(day_guess(n_slots))
    return values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1].T)


def day_bases(n_slots: int) -> tuple[Floats, Floats, Floats]:
    """Return what makes coordinates of a day, and the curves and weights of its margins."""
    values, vectors = day_axes(n_slots)
    colour, radius = margin_colour(n_slots)
    whiten = vectors / np.sqrt(values)[:, None]
    return whiten, waves(n_slots) / math.sqrt(n_slots), math.sqrt(2.0) * colour / radius
