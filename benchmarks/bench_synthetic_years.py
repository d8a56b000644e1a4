"""Years of synthetic customers compared with real ones, and with days of unrelated customers.

Run: ``python benchmarks/bench_synthetic_years.py [customers]``. London's homes need the data folder
(`WATTVEIL_DATA`, by default ``../shared/data`` beside the repository); without it simulated homes
are measured alone. All figures are private: internal use only.

Constants were chosen on every other London home, from the first; the others are measured here, and
as many simulated homes. `wattveil.numerics.measures.year_measures` defines the figures. A ratio is
synthetic over real; a distance is Kolmogorov and Smirnov's, between the customers' values. Medians
of five releases. "Other homes" are real homes that were not released; "random halves" are medians
over divisions of all homes in two, and "drawn again" over samples of the measured homes with
replacement: the distance that a model without any error would have. "No customer" takes every day
of a year from another synthetic customer, as generators of single days do.
"""

import sys
import time
from datetime import date

import numpy as np
from measured_homes import LONDON, london_year

from wattveil import YearSynthesizer
from wattveil.arrays import Floats
from wattveil.numerics.measures.fidelity_measures import kolmogorov_smirnov
from wattveil.numerics.measures.year_measures import (
    lag_correlation,
    year_distances,
    year_ratios,
)
from wattveil.numerics.synthesis.day_deviations import YearCalendar
from wattveil.profiles import Split
from wattveil.simulate import LONDON_MIX, simulate_kwh

FIRST_DAY = date(2013, 1, 1)
DAYS, SLOTS = 365, 24
EPSILONS = (3.0, 1e4)
RUNS = 5
PARTS = YearCalendar(
    first_day=FIRST_DAY, n_days=DAYS, n_slots=SLOTS, split=Split.SEASON_WEEKDAY_WEEKEND
).parts
SPEED_CUSTOMERS = 2000
DIVISIONS = 200


def main(customers: int = 476) -> None:
    """Print a table for each population."""
    homes = simulated_homes(2 * customers)
    populations = {"simulated homes": (homes[1::2], homes[::2])}
    if LONDON.is_file():
        homes = london_year()[: 2 * customers]
        populations["London homes"] = homes[1::2], homes[::2]
    for name, (measured, others) in populations.items():
        say(f"\n{name}: {len(measured)} customers")
        report("other homes", [compare(measured, others)])
        report_chance(measured, others)
        for epsilon in EPSILONS:
            samples = []
            for seed in range(RUNS):
                model = YearSynthesizer(first_day=FIRST_DAY, epsilon=epsilon).fit(measured)
                samples.append(model.sample(len(measured), random_state=seed)[0])
            report(f"epsilon {epsilon:g}", [compare(measured, sample) for sample in samples])
        report("no customer", [compare(measured, without_customers(samples[0]))])
    began = time.process_time()
    model.sample(SPEED_CUSTOMERS, random_state=0)
    say(f"\n{SPEED_CUSTOMERS / (time.process_time() - began):,.0f} years per CPU second")


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


def compare(real: Floats, synthetic: Floats) -> dict[str, float]:
    """Return ratios of figures, and distances between customers."""
    return year_ratios(real, synthetic, day_groups=PARTS) | year_distances(real, synthetic)


def report_chance(measured: Floats, others: Floats) -> None:
    """Print the distances that chance causes, of figures of real customers."""
    generator = np.random.default_rng(0)
    halves, again = [], []
    figures = customer_figures(measured, others)
    for figure in figures.values():
        own = figure[: len(measured)]
        divided = (np.array_split(generator.permutation(figure), 2) for _ in range(DIVISIONS))
        halves.append(np.median([distance(*parts) for parts in divided]))
        drawn = (generator.choice(own, own.size) for _ in range(DIVISIONS))
        again.append(np.median([distance(own, sample) for sample in drawn]))
    for name, found in (("random halves", halves), ("drawn again", again)):
        report(name, [dict(zip(figures, map(float, found), strict=True))])


def customer_figures(measured: Floats, others: Floats) -> dict[str, Floats]:
    """Return annual energy and autocorrelation of measured and other homes."""
    homes = np.vstack([measured, others])
    found = {"annual energy": np.nanmean(homes, axis=1)}
    for hours in (1, 24, 168):
        found[f"autocorrelation {hours} h"] = lag_correlation(homes, hours)
    return found


def distance(one: Floats, other: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples."""
    return kolmogorov_smirnov(np.sort(one), np.sort(other))


def report(name: str, runs: list[dict[str, float]]) -> None:
    """Print the medians over the runs."""
    cells = [f"{title} {np.median([run[title] for run in runs]):.3f}" for title in runs[0]]
    say(f"{name:14s} {', '.join(cells)}")


def say(text: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
