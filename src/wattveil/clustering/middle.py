"""The middle of everybody: what is left to find where clusters cannot be told apart.

Post-processing: it sees public shapes and released numbers only. With little signal K clusters cost
K times the noise variance of one mean, and on customers without clusters one mean profile is the
better answer. So part of the budget finds the middle of all customers first, as one cell that is
filtered like all cells, and refining begins with it as one of the K clusters: whatever the others
are, no customer is farther from the nearest centroid than from that middle.
"""

from dataclasses import replace

import numpy as np

from wattveil.clustering import tuning
from wattveil.clustering.cells import Cells, start_cells
from wattveil.clustering.codebook import full_length
from wattveil.clustering.geometry import Floats

_COMMON_SHAPES = 12
"""Of the library, the most common first: their mean is the public guess."""


def public_middle(shapes: Floats, *, size: float, customers: float, std: float) -> Cells:
    """Return one cell of all customers around the mean of public shapes, before anything is asked.

    ``shapes`` are in working coordinates, the most common first; ``std`` is of their number.
    """
    mean = shapes[:_COMMON_SHAPES].mean(axis=0, keepdims=True)
    radius = tuning.MIDDLE_RADII[0]
    return start_cells(
        size * full_length(mean),
        np.array([radius * size]),
        np.array([customers]),
        counts_std=np.array([std]),
        spread=tuning.MIDDLE_SPREAD / radius,
    )


def join_middle(clusters: Cells, middle: Cells) -> Cells:
    """Return the clusters and the middle as one more, expected to have as many customers."""
    return Cells(
        middles=np.vstack([clusters.middles, middle.middles]),
        radii=np.append(clusters.radii, min(middle.radii[0], np.median(clusters.radii))),
        counts=np.append(clusters.counts, clusters.counts.mean()),
        counts_variance=np.append(clusters.counts_variance, clusters.counts_variance.mean()),
        variance=np.vstack([clusters.variance, middle.variance]),
    )


def widened(middle: Cells, *, size: float) -> Cells:
    """Return the middle as the only cluster: of a wide radius, as a mean of all is wanted."""
    return replace(middle, radii=np.array([tuning.MIDDLE_RADII[0] * size]))
