"""Calibration of the standard errors of centroids: what the filter does not know of its error.

Post-processing of released numbers. The variance of the filter is that of the noise and the prior.
It does not include that the count of a small cluster, by which sums are divided, is itself
uncertain; that customers change clusters; nor the bias of clipping, which is in proportion to the
width of a cluster and remains when the noise is small. With s = n / std(n), the count of a cluster
in its standard errors, the standard error of its centroid is multiplied by::

    f(s) = g(s) sqrt(1 + (s / b)^2)

and for load in kW besides by h(r) e: r is the size of the centroid in mean sizes, as clusters of
large customers are wider, and e is above 1 for a centroid that exports. g and h interpolate between
measured values. All were read off the tuning families of `benchmarks/families.py`, such that 95 %
bands cover the mean of the rows nearest the released centroid in 95 % of slots:
`benchmarks/fit_bands.py` repeats it, and `benchmarks/bench_families.py` reports the coverage of
held-out families.
"""

import numpy as np

from wattveil.arrays import Bools, Floats
from wattveil.numerics.kmeans import kmeans_tuning

_EXPORTS = -0.01
"""Minimum of a curve over its largest absolute value below which it exports."""


def band_factors(centres: Floats, counts: Floats, counts_std: Floats, *, is_shape: bool) -> Floats:
    """Return the factor of the standard error of each centroid, by released numbers.

    Parameters
    ----------
    centres
        Released curves, one row per cluster.
    counts, counts_std
        Released numbers of customers with their standard errors.
    is_shape
        Whether rows have length 1.
    """
    known = np.maximum(counts, 0.0) / np.maximum(counts_std, 1e-12)
    factors, bias_at = (
        (kmeans_tuning.SHAPE_BAND_FACTORS, kmeans_tuning.SHAPE_BIAS_AT)
        if is_shape
        else (kmeans_tuning.LOAD_BAND_FACTORS, kmeans_tuning.LOAD_BIAS_AT)
    )
    found: Floats = np.interp(known, kmeans_tuning.BAND_COUNTS, factors)
    found *= np.sqrt(1.0 + np.square(known / bias_at))
    if not is_shape:
        sizes, exports = sizes_and_exports(centres, counts)
        found *= np.interp(sizes, kmeans_tuning.BAND_SIZES, kmeans_tuning.SIZE_BAND_FACTORS)
        found[exports] *= kmeans_tuning.EXPORT_BAND_FACTOR
    return found


def sizes_and_exports(centres: Floats, counts: Floats) -> tuple[Floats, Bools]:
    """Return the size of each centroid in mean sizes of a customer, and whether it exports."""
    lengths = np.sqrt(np.square(centres).sum(axis=1))
    weights = np.maximum(counts, 1e-9)  # all of them may be 0
    mean = float(weights @ lengths / weights.sum())
    exports: Bools = centres.min(axis=1) < _EXPORTS * np.abs(centres).max(axis=1)
    return lengths / max(mean, 1e-12), exports
