"""Coverage of the 95 % bands of clusters in kW where homes and businesses are clustered together.

Run: ``python benchmarks/bench_mixed_clusters.py [releases]``, by default 6 of each of five
populations (500 or 1,000 simulated customers), K = 3 and 6, epsilon 1 and 3. The truth is the mean
of the clipped customers nearest to a released centroid. Only supported clusters are counted, by the
size of the centroid in mean sizes. The factor is that of the standard error at which 95 % were
covered.
"""

import sys
from datetime import date
from itertools import pairwise

import families
import numpy as np
from global_tier_cases import DELTA, say

from wattveil.numerics.kmeans.band_calibration import sizes_and_exports
from wattveil.numerics.kmeans.lloyd import assign
from wattveil.release.kmeans import PrivateKMeans
from wattveil.simulate import DEFAULT_MIX

CLIP_KW, Z95 = 10.0, 1.96
POPULATIONS = ((7101, 500), (7102, 1000), (7103, 500), (7104, 1000), (7105, 500))
EDGES = (0.0, 0.5, 0.9, 1.3, 2.0, 3.5, np.inf)


def main(releases: int = 6) -> None:
    """Print coverage and factor by size of the centroid."""
    sizes, away = [], []
    for seed, n_customers in POPULATIONS:
        rows = families.simulated(
            n_customers,
            days=14,
            start=date(2013, 1, 7),
            minutes=60,
            mix=DEFAULT_MIX,
            seed=seed,
        )
        for n_clusters, epsilon in ((3, 1.0), (3, 3.0), (6, 1.0), (6, 3.0)):
            for _ in range(releases):
                model = PrivateKMeans(
                    n_clusters=n_clusters, epsilon=epsilon, delta=DELTA, clip_kw=CLIP_KW
                ).fit(rows)
                clipped = np.asarray(model.comparable(rows))
                labels = assign(clipped, model.cluster_centers_)
                own = sizes_and_exports(model.cluster_centers_, model.cluster_sizes_)[0]
                for k in np.flatnonzero(model.supported_):
                    if (labels == k).any():
                        error = clipped[labels == k].mean(axis=0) - model.cluster_centers_[k]
                        sizes.append(own[k])
                        away.append(error / model.cluster_centers_std_[k])
    for low, high in pairwise(EDGES):
        inside = [z for size, z in zip(sizes, away, strict=True) if low <= size < high]
        z = np.concatenate(inside)
        factor = np.quantile(np.abs(z), 0.95) / Z95
        say(
            f"{low:g} to {high:g} mean sizes: {len(inside)} clusters,"
            f" covered {(np.abs(z) < Z95).mean():.2f}, factor {factor:.1f}, mean z {z.mean():+.1f}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
