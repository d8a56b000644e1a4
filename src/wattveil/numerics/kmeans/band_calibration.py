"""Calibration of the standard errors of centroids: what the filter does not know of its error.

Post-processing of released numbers. The variance of the filter is that of the noise and the prior.
It does not include that the count of a small cluster, by which sums are divided, is itself
uncertain; that customers change clusters; nor the bias of clipping, which is in proportion to the
width of a cluster and remains when the noise is small. With s = n / std(n), the count of a cluster
in its standard errors, the standard error of its centroid is multiplied by::

    f(s) = g(s) sqrt(1 + (s / b)^2)

where g interpolates between measured values. Both were read off the tuning families of
`benchmarks/families.py`, such that 95 % bands cover the mean of the rows nearest the released
centroid in 95 % of slots; `benchmarks/bench_families.py` reports the coverage of held-out ones.
"""

import numpy as np

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import kmeans_tuning


def band_factors(counts: Floats, counts_std: Floats, *, is_shape: bool) -> Floats:
    """Return the factor f of the standard error of each centroid, by its released count."""
    known = np.maximum(counts, 0.0) / np.maximum(counts_std, 1e-12)
    factors, bias_at = (
        (kmeans_tuning.SHAPE_BAND_FACTORS, kmeans_tuning.SHAPE_BIAS_AT)
        if is_shape
        else (kmeans_tuning.LOAD_BAND_FACTORS, kmeans_tuning.LOAD_BIAS_AT)
    )
    found: Floats = np.interp(known, kmeans_tuning.BAND_COUNTS, factors)
    found *= np.sqrt(1.0 + np.square(known / bias_at))
    return found
