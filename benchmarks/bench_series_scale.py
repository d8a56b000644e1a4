"""Time and memory of a series on disk, by the number of customers.

Run: ``python benchmarks/bench_series_scale.py [--customers N …] [--periods T] [--segments K]``. A
number of customers has a series in a folder of its own, deleted afterwards, with random
loads of 24 hours around a common day, of one group. One line per period: processor time of `add`,
size of the private state, and the peak memory of the process so far, of which a part is the
interpreter with its libraries and the loads themselves.
"""

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from wattveil import LoadSeries, Profiles
from wattveil.profiles import TimeGrid


def main() -> None:
    """Release the periods of each size."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", type=int, nargs="+", default=[10_000, 20_000])
    parser.add_argument("--periods", type=int, default=20)
    parser.add_argument("--segments", type=int, default=0)
    options = parser.parse_args()
    for customers in options.customers:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), customers, options.periods, options.segments)


def measure(folder: Path, customers: int, periods: int, segments: int) -> None:
    """Print one line per period."""
    series = LoadSeries.begin(
        folder / "series",
        epsilon=2.0,
        delta=1e-8,
        periods=periods,
        first="2026-Q1",
        segments=segments,
        customers=customers,
    )
    rng = np.random.default_rng(1)
    ids = tuple(f"customer {row:09}" for row in range(customers))
    day = 0.4 + 0.2 * np.sin(np.arange(24) / 4.0)
    size = np.exp(rng.normal(0.0, 0.5, (customers, 1)))
    total = 0.0
    for period in range(periods):
        load = day * size * np.exp(rng.normal(0.0, 0.3, (customers, 24)))
        profiles = Profiles(customer_ids=ids, load_kw=load, grid=TimeGrid(), timezone="UTC")
        begun = time.process_time()
        series.add(profiles)
        spent = time.process_time() - begun
        total += spent
        state = sum(file.stat().st_size for file in (folder / "series" / "private").rglob("*"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(  # noqa: T201 - output of the benchmark
            f"{customers:,} customers, period {period + 1}: {spent:.1f} s, in all {total:.1f} s;"
            f" state {state / 2**20:,.0f} MiB; peak memory {peak:.2f} GiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
