"""Lloyd against scikit-learn's: time for a round and memory beside the points, in one run.

Run: ``python benchmarks/bench_lloyd.py [points]``. Ratios above 1 mean that ours is better.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable

from clustered_profiles import clustered_profiles
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._testing import ignore_warnings

from wattveil.numerics.kmeans.lloyd import lloyd

REPEATS = 5
SHORT, LONG = 2, 12


def seconds(call: Callable[[], object]) -> float:
    """Return the minimum time of one call."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the peak memory of one call."""
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@ignore_warnings(category=ConvergenceWarning)
def main() -> None:
    """Print one line of ratios."""
    n_points = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    points = clustered_profiles(n_points, 24, 6, seed=0)
    start = points[:6].copy()
    lloyd(points[:1_000], start)  # compiles

    def ours(rounds: int) -> Callable[[], object]:
        return lambda: lloyd(points, start, max_rounds=rounds)

    def theirs(rounds: int) -> Callable[[], object]:
        return lambda: KMeans(6, init=start, n_init=1, max_iter=rounds, tol=0.0).fit(points)

    our_round = (seconds(ours(LONG)) - seconds(ours(SHORT))) / (LONG - SHORT)
    their_round = (seconds(theirs(LONG)) - seconds(theirs(SHORT))) / (LONG - SHORT)
    our_memory, their_memory = peak_bytes(ours(SHORT)), peak_bytes(theirs(SHORT))
    print(f"P = {n_points:,}, d = 24, K = 6; scikit-learn / ours")  # noqa: T201
    print(f"  time of a round        {their_round / our_round:8.2f}")  # noqa: T201
    print(f"  peak memory            {their_memory / our_memory:8.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
