"""The middle of everybody: what is left to find where clusters cannot be told apart.

Post-processing: it sees public shapes and released numbers only. With little signal K clusters cost
K times the noise variance of one mean, and on customers without clusters one mean profile is the
better answer. So part of the budget finds the middle of all customers first, as one cell that is
filtered like all cells, and refining begins with it as one of the K clusters: at that time no
customer is farther from the nearest middle than from that of everybody, whatever the others are.
"""

from dataclasses import replace

import numpy as np

from wattveil.clustering import tuning
from wattveil.clustering.cells import Cells, smoothness, start_cells
from wattveil.clustering.codebook import full_length
from wattveil.clustering.geometry import Floats

_COMMON_SHAPES = 12
"""Of the library, the most common first: their mean is the public guess."""


def public_middle(shapes: Floats, *, size: float, customers: float, std: float) -> Cells:
    """Return one cell of all customers around the mean of public shapes, before anything is asked.

    ``shapes`` are in working coordinates, the most common first; ``std`` is that of ``customers``.
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
    """Return the clusters and the middle as one more.

    It may be next to all customers, or to hardly any.
    """
    n_clusters, total = len(clusters.counts) + 1, clusters.counts.sum()
    return Cells(
        middles=np.vstack([clusters.middles, middle.middles]),
        radii=np.append(clusters.radii, min(middle.radii[0], np.median(clusters.radii))),
        counts=np.append((1.0 - 1.0 / n_clusters) * clusters.counts, total / n_clusters),
        counts_variance=np.append(
            clusters.counts_variance, np.square(tuning.MERGED_COUNT_PRIOR[0] * total)
        ),
        variance=np.vstack([clusters.variance, middle.variance]),
    )


def doubt_middle(cells: Cells) -> Cells:
    """Return refined clusters of which the last began as the middle, with an honest error of it.

    The filter knows how surely the middle of everybody was found. A cluster's middle is that of its
    own customers: if there are clusters, they are anywhere within the usual width of one, or as far
    off as the next cluster is, on its other side. So it is never told apart from that one.
    """
    width = tuning.CENTRE_SPREAD * np.median(cells.radii[:-1])
    next_one = np.square(cells.middles[:-1] - cells.middles[-1]).sum(axis=1).min()
    own = np.maximum(np.square(width), next_one) * smoothness(cells.middles.shape[1])
    return replace(cells, variance=np.vstack([cells.variance[:-1], cells.variance[-1] + own]))


def widened(middle: Cells, *, size: float) -> Cells:
    """Return the middle as the only cluster: of a wide radius, as a mean of all is wanted."""
    return replace(middle, radii=np.array([tuning.MIDDLE_RADII[0] * size]))
