"""All leave-one-out runs against one scikit-learn fit and against the naive loop, in one run.

Run: ``python benchmarks/bench_leave_one_out.py``. Prints, for each P, the seconds of the naive
warm-started loop (a sample of removals times P) and of one scikit-learn fit (n_init = 1), both over
the seconds of all removals here; and how the latter grow with P.
"""

import time

import numpy as np
from clustered_profiles import clustered_profiles
from sklearn.cluster import KMeans

from wattveil.numerics.kmeans.lloyd import k_means, lloyd
from wattveil.numerics.leave_one_out.leave_one_out_runs import leave_one_out

SAMPLE = 10


def main() -> None:
    """Print the table."""
    small = clustered_profiles(10_000, 24, 6, seed=1)
    start = k_means(small, 6, seed=0)  # the same partition for every P, or growth would mean little
    leave_one_out(small, start)  # compiles
    print("        P   loop/ours   fit/ours   growth/10   flipping removals")  # noqa: T201
    before = None
    for n_points in (10_000, 100_000, 1_000_000):
        points = clustered_profiles(n_points, 24, 6, seed=1)
        generator = np.random.default_rng(1)
        fit = lloyd(points, start.centroids)
        begin = time.perf_counter()
        runs = leave_one_out(points, fit)
        ours = time.perf_counter() - begin
        begin = time.perf_counter()
        KMeans(6, n_init=1, random_state=0).fit(points)
        one_fit = time.perf_counter() - begin
        begin = time.perf_counter()
        for p in generator.integers(n_points, size=SAMPLE):
            lloyd(np.delete(points, p, axis=0), fit.centroids)
        loop = (time.perf_counter() - begin) * n_points / SAMPLE
        growth = f"{ours / before / 10:9.2f}" if before else " " * 9
        share = np.unique(runs.changed_removal).size / n_points
        print(  # noqa: T201
            f"{n_points:9,} {loop / ours:11,.0f} {one_fit / ours:10.2f}   {growth}   {share:.2%}"
        )
        before = ours


if __name__ == "__main__":
    main()
