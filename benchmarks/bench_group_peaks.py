"""Peaks of random groups of synthetic homes over a year, beside those of real homes.

Run: ``python benchmarks/bench_group_peaks.py [customers]``. London's homes need the data folder
(`WATTVEIL_DATA`, by default ``../shared/data`` beside the repository); without it simulated homes
are measured alone. All figures are private: internal use only.

A group is drawn with replacement; its peak is the largest hourly mean of the year. For each size of
group: the mean peak and the 99th percentile of peaks, synthetic over real, for releases of the
homes on which no constant was chosen (as `bench_synthetic_years.py`). "Other homes" are real homes
that were not released.
"""

import sys

import numpy as np
from bench_synthetic_years import FIRST_DAY, say, simulated_homes
from measured_homes import LONDON, london_year

from wattveil import YearSynthesizer
from wattveil.arrays import Floats

EPSILONS = (3.0, 6.3)
"""Of the product; a bundle at 10 with years beside the other products leaves 6.3 for it."""
RUNS = 10
SIZES = (4, 16, 60, 200)
GROUPS = 2000


def main(customers: int = 476) -> None:
    """Print a table for each population."""
    homes = simulated_homes(2 * customers)
    populations = {"simulated homes": (homes[1::2], homes[::2])}
    if LONDON.is_file():
        homes = london_year()[: 2 * customers]
        populations["London homes"] = homes[1::2], homes[::2]
    for name, (measured, others) in populations.items():
        real = peaks(measured)
        texts = (
            f"{size}: {mean / size:.2f} kW" for size, (mean, _) in zip(SIZES, real, strict=True)
        )
        say(f"\n{name}: {len(measured)} customers; mean peak per home, {', '.join(texts)}")
        report("other homes", [peaks(others) / real])
        for epsilon in EPSILONS:
            found = []
            for seed in range(RUNS):
                model = YearSynthesizer(first_day=FIRST_DAY, epsilon=epsilon).fit(measured)
                found.append(peaks(model.sample(2000, random_state=seed)[0]) / real)
            report(f"epsilon {epsilon:g}", found)


def peaks(load_kw: Floats) -> Floats:
    """Return (sizes, 2): mean and 99th percentile of the peaks of random groups."""
    generator = np.random.default_rng(0)
    filled = np.where(np.isfinite(load_kw), load_kw, np.nanmean(load_kw, axis=1, keepdims=True))
    found = []
    for size in SIZES:
        group_kw = [
            filled[generator.integers(len(filled), size=size)].sum(axis=0).max()
            for _ in range(GROUPS)
        ]
        found.append((np.mean(group_kw), np.quantile(group_kw, 0.99)))
    return np.array(found)


def report(name: str, runs: list[Floats]) -> None:
    """Print median, lowest and highest ratio of the releases."""
    middle, low, high = (f(np.array(runs), axis=0) for f in (np.median, np.min, np.max))
    for row, size in enumerate(SIZES):
        cells = [
            f"{title} {middle[row, column]:.2f} ({low[row, column]:.2f} to {high[row, column]:.2f})"
            for column, title in enumerate(("mean", "99th percentile"))
        ]
        say(f"{name:14s} {size:4d} homes: {', '.join(cells)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
