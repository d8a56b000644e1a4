"""Time and memory of a series on disk, by the number of customers.

Run: ``python benchmarks/bench_series_scale.py [--customers N …] [--periods T] [--segments K]
[--master M]``. A
number of customers has a series in a folder of its own, deleted afterwards, with random
loads of 24 hours around a common day, of one group. One line per period: time of `add`,
size of the private state, and the peak memory of the process so far, of which a part is the
interpreter with its libraries and the loads themselves. With a Spark master, periods come from
Spark, and processor time and memory are those of the driver.
"""

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from wattveil import LoadSeries, Profiles
from wattveil.engines.local import DistributedProfiles
from wattveil.profiles import TimeGrid


def main() -> None:
    """Release the periods of each size."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", type=int, nargs="+", default=[10_000, 20_000])
    parser.add_argument("--periods", type=int, default=20)
    parser.add_argument("--segments", type=int, default=0)
    parser.add_argument("--master", help="Spark master, such as local[1]")
    options = parser.parse_args()
    for customers in options.customers:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), customers, options)


def measure(folder: Path, customers: int, options: argparse.Namespace) -> None:
    """Print one line per period."""
    series = LoadSeries.begin(
        folder / "series",
        epsilon=2.0,
        delta=1e-8,
        periods=options.periods,
        first="2026-Q1",
        segments=options.segments,
        customers=customers,
    )
    rng = np.random.default_rng(1)
    ids = tuple(f"customer {row:09}" for row in range(customers))
    day = 0.4 + 0.2 * np.sin(np.arange(24) / 4.0)
    size = np.exp(rng.normal(0.0, 0.5, (customers, 1)))
    total = 0.0
    for period in range(options.periods):
        load = day * size * np.exp(rng.normal(0.0, 0.3, (customers, 24)))
        profiles = Profiles(customer_ids=ids, load_kw=load, grid=TimeGrid(), timezone="UTC")
        place = on_spark(profiles, folder, options.master) if options.master else profiles
        begun, clock = time.process_time(), time.monotonic()
        series.add(place)
        spent, clock = time.process_time() - begun, time.monotonic() - clock
        total += spent
        state = sum(file.stat().st_size for file in (folder / "series" / "private").rglob("*"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(  # noqa: T201 - output of the benchmark
            f"{customers:,} customers, period {period + 1}: {spent:.1f} s, in all {total:.1f} s"
            f" (wall clock {clock:.1f} s);"
            f" state {state / 2**20:,.0f} MiB; peak memory {peak:.2f} GiB",
            flush=True,
        )


def on_spark(profiles: Profiles, folder: Path, master: str) -> DistributedProfiles:
    """Return the profiles on Spark."""
    from wattveil.engines.spark.spark_engine import SparkEngine  # noqa: PLC0415 - an extra
    from wattveil.engines.spark.spark_session import spark_session  # noqa: PLC0415 - an extra

    profiles.write_parquet(folder / "profiles.parquet")
    return SparkEngine(spark_session(master)).read_profiles(folder / "profiles.parquet")


if __name__ == "__main__":
    main()
