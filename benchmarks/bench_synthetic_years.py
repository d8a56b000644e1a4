"""Years of synthetic customers compared with real ones, and with days of unrelated customers.

Run: ``python benchmarks/bench_synthetic_years.py [customers]``. London's homes need the data folder
(`WATTVEIL_DATA`, by default ``../shared/data`` beside the repository); without it simulated homes
are measured alone. All figures are private: internal use only.

Each figure is synthetic over real, and in brackets the Kolmogorov-Smirnov distance between the
customers' figures: standard deviation of annual energy between customers; a customer's
autocorrelation at 1, 24 and 168 hours; standard deviation of its daily energy over the mean; its
load factor. W1 is the Wasserstein distance of the loads of an hour of the day, over their standard
deviation, mean of 24. "One half of the homes" compares real homes with other real homes. "No
customer" takes every day of a year from another synthetic customer, as generators of single days
do.
"""

import sys
import time
from datetime import date

import numpy as np
from measured_homes import LONDON, london_year
from scipy.stats import ks_2samp

from wattveil import YearSynthesizer
from wattveil.arrays import Floats
from wattveil.simulate import LONDON_MIX, simulate_kwh

FIRST_DAY = date(2013, 1, 1)
DAYS, SLOTS = 365, 24
EPSILONS = (1.0, 3.0, 10.0, 1e4)
RUNS = 2
SPEED_CUSTOMERS = 2000
LAGS = (1, 24, 168)


def main(customers: int = 1024) -> None:
    """Print a table for each population."""
    populations = {"simulated homes": simulated_homes(customers)}
    if LONDON.is_file():
        populations["London homes"] = london_year()[:customers]
    for name, hours_kw in populations.items():
        say(f"\n{name}: {len(hours_kw)} customers")
        half = len(hours_kw) // 2
        report("one half of the homes", [compare(hours_kw[:half], hours_kw[half:])])
        for epsilon in EPSILONS:
            samples = []
            for seed in range(RUNS):
                model = YearSynthesizer(first_day=FIRST_DAY, epsilon=epsilon).fit(hours_kw)
                samples.append(model.sample(len(hours_kw), random_state=seed)[0])
            report(f"epsilon {epsilon:g}", [compare(hours_kw, sample) for sample in samples])
        report("no customer", [compare(hours_kw, without_customers(samples[0]))])
    began = time.perf_counter()
    model.sample(SPEED_CUSTOMERS, random_state=0)
    say(f"\n{SPEED_CUSTOMERS / (time.perf_counter() - began):,.0f} years per second")


def simulated_homes(customers: int) -> Floats:
    """Return a year of simulated homes, with nothing missing."""
    return simulate_kwh(
        customers=customers,
        days=DAYS,
        start=FIRST_DAY,
        timezone="UTC",
        minutes=60,
        mix=LONDON_MIX,
        seed=5,
    )


def without_customers(sample: Floats) -> Floats:
    """Take every day from another customer."""
    generator = np.random.default_rng(0)
    days = sample.reshape(len(sample), DAYS, SLOTS)
    return np.stack(
        [days[generator.permutation(len(days)), day] for day in range(DAYS)], axis=1
    ).reshape(sample.shape)


def compare(real: Floats, synthetic: Floats) -> list[tuple[float, float]]:
    """Return ratio and Kolmogorov-Smirnov distance of every figure; W1 comes last."""
    ours, theirs = figures(synthetic), figures(real)
    found = [(float(np.std(ours[0]) / np.std(theirs[0])), distance(ours[0], theirs[0]))]
    found += [
        (float(np.nanmean(one) / np.nanmean(other)), distance(one, other))
        for one, other in zip(ours[1:], theirs[1:], strict=True)
    ]
    return [*found, (hourly_distance(real, synthetic), np.nan)]


def figures(hours_kw: Floats) -> list[Floats]:
    """Return every customer's mean load, autocorrelations, standard deviation and load factor."""
    daily = hours_kw.reshape(len(hours_kw), -1, SLOTS).mean(axis=2)
    mean = np.nanmean(hours_kw, axis=1)
    return [
        mean,
        *(autocorrelation(hours_kw, lag) for lag in LAGS),
        np.nanstd(daily, axis=1) / np.nanmean(daily, axis=1),
        mean / np.nanmax(hours_kw, axis=1),
    ]


def autocorrelation(hours_kw: Floats, lag: int) -> Floats:
    """Return each customer's correlation of hours so far apart, where both are known."""
    both = np.isfinite(hours_kw[:, :-lag]) & np.isfinite(hours_kw[:, lag:])
    one = np.where(both, hours_kw[:, :-lag], np.nan)
    other = np.where(both, hours_kw[:, lag:], np.nan)
    one = one - np.nanmean(one, axis=1, keepdims=True)
    other = other - np.nanmean(other, axis=1, keepdims=True)
    product = np.nanmean(one * other, axis=1)
    return product / np.sqrt(np.nanmean(one**2, axis=1) * np.nanmean(other**2, axis=1))


def hourly_distance(real: Floats, synthetic: Floats) -> float:
    """Return W1 over the standard deviation, mean over the hours of a day."""
    chances = (np.arange(2000) + 0.5) / 2000
    distances = []
    for hour in range(SLOTS):
        truth = real[:, hour::SLOTS]
        truth = truth[np.isfinite(truth)]
        drawn = synthetic[:, hour::SLOTS]
        drawn = drawn[np.isfinite(drawn)]
        apart = np.quantile(truth, chances) - np.quantile(drawn, chances)
        distances.append(np.abs(apart).mean() / truth.std())
    return float(np.mean(distances))


def distance(one: Floats, other: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance."""
    return float(ks_2samp(one[np.isfinite(one)], other[np.isfinite(other)]).statistic)


def report(name: str, runs: list[list[tuple[float, float]]]) -> None:
    """Print the means over the runs."""
    names = ("annual sd", "1 h", "24 h", "168 h", "daily sd", "load factor")
    ratios, distances = np.mean(runs, axis=0).T
    cells = [
        f"{title} {ratio:.2f} ({far:.2f})"
        for title, ratio, far in zip(names, ratios, distances, strict=False)
    ]
    say(f"{name:22s} {', '.join(cells)}, W1 {ratios[-1]:.3f}")


def say(text: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
