"""Numbers of customers by cluster, from all releases that counted them, and which clusters export.

Post-processing of released counts and centroids.
"""

from typing import NamedTuple, Self

import numpy as np

from wattveil.arrays import Floats, Ints

_SURE, _PERHAPS = 3.0, 2.0
"""Standard errors that make export significant, by itself or beside a centroid that exports."""
_DEEP_EXPORT = 0.3
"""Export of a centroid, in its root-mean-square load, that is more than a smoothing error."""


class ClusterCounts(NamedTuple):
    """Noisy numbers of customers, (K,), and their standard errors."""

    customers: Floats
    customers_std: Floats
    exporting: Floats
    exporting_std: float

    @classmethod
    def of(cls, counts: Floats, std: float, known: Floats) -> Self:
        """Return the counts of this release, averaged with known ones by their variances.

        ``counts`` are (K, 2), without and with export, of standard deviation ``std``; ``known`` are
        numbers of customers with their standard errors, which may be infinite.
        """
        own, variance = counts.sum(axis=1), 2.0 * std**2
        weight = variance / (variance + np.square(known[1]))
        return cls(
            customers=own + weight * (known[0] - own),
            customers_std=1.0 / np.sqrt(1.0 / variance + 1.0 / np.square(known[1])),
            exporting=counts[:, 1],
            exporting_std=std,
        )

    def exports(self, centroids: Floats) -> Ints:
        """Return 1 for clusters with export.

        Either the customers who export are certain, or the centroid exports and the cluster is not
        empty: most of those nearest to a curve far below 0 are below 0 too.
        """
        some = self.exporting > _SURE * self.exporting_std
        occupied = (self.customers > _PERHAPS * self.customers_std) | (
            self.exporting > _PERHAPS * self.exporting_std
        )
        rms = np.sqrt(np.square(centroids).mean(axis=1))
        deep = centroids.min(axis=1) < -_DEEP_EXPORT * rms
        return np.asarray(some | (occupied & deep), dtype=np.int64)
