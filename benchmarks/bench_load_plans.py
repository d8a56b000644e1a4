"""Plans of mean load against releases of the families of roughness.

Run: ``python benchmarks/bench_load_plans.py [--split fresh] [--runs 40]``. For each family,
epsilon and number of groups (random ones), `plan_load_shapes` is given what is public: number and
median size of the customers, both rounded as a request rounds them. Its error is compared with
the standard error that releases state: root mean square over slots, of the group in which it is
largest.

The range of a plan should hold the standard error of nine of ten releases of any population of
homes. ``--split tuning`` prints the constants of `products.plan_calibration`: the range of released
over planned errors from the smallest 5 % quantile of a cell to the largest 95 % quantile; level is
its geometric centre, and spread the factor from there to its ends. ``--split fresh`` measures
simulated homes of seeds and mixes that no constant was chosen on. Families of large buildings,
above a median of 5 kW, are left out: the default range of plausible sizes is that of homes.
"""

import argparse
from collections.abc import Iterator
from datetime import date

import bench_families
import families
import numpy as np
from global_tier_cases import DELTA, say

from wattveil.arrays import Floats
from wattveil.products.load import plan_load_shapes
from wattveil.products.plan_calibration import mean_load_range
from wattveil.products.public_estimate import rounded_customers, rounded_kw
from wattveil.release.group_load import load_shapes
from wattveil.simulate import HOMES_MIX, LONDON_MIX, simulate_kwh

EPSILONS = (0.3, 1.0, 3.0)
GROUPS = (1, 4)
LARGE_KW = 5.0
TAILS = (0.05, 0.95)
FRESH = [
    (mix, seed, n) for mix in ("London", "town") for seed, n in ((71, 200), (72, 500), (73, 1400))
]
MIXES = {"London": LONDON_MIX, "town": HOMES_MIX}


def populations(split: str) -> Iterator[tuple[str, Floats]]:
    """Yield the customers of each population of a split, by name."""
    if split == "fresh":
        for mix, seed, number in FRESH:
            kwh = simulate_kwh(
                customers=number,
                days=21,
                start=date(2025, 11, 3),
                timezone="Europe/London",
                minutes=60,
                seed=seed,
                mix=MIXES[mix],
            )
            yield f"{mix}, seed {seed}", kwh.reshape(number, 21, 24).mean(axis=1)
        return
    for name in families.names("tuning" if split == "tuning" else "held-out"):
        rows = bench_families.rows_of(name, "kw")
        if rows is not None and np.median(np.sqrt(np.square(rows).mean(axis=1))) <= LARGE_KW:
            yield name, rows


def measure(rows: Floats, epsilon: float, n_groups: int, runs: int) -> tuple[float, Floats]:
    """Return the planned error and the stated ones of releases, in kW."""
    typical = float(np.median(np.sqrt(np.square(rows).mean(axis=1))))
    number = max(rounded_customers(len(rows)) // n_groups, 1)
    plan = plan_load_shapes(
        customers=[number] * n_groups,
        epsilon=epsilon,
        delta=DELTA,
        typical_kw=rounded_kw(typical),
        n_slots=rows.shape[1],
    )
    levels = list(range(n_groups))
    stated = []
    for seed in range(runs):
        groups = np.random.default_rng(seed).integers(n_groups, size=len(rows))
        found = load_shapes(rows, groups=groups, levels=levels, epsilon=epsilon, delta=DELTA)
        stated.append(np.sqrt(np.square(found.std_kw).mean(axis=1)).max())
    return float(plan.error_kw.max()), np.array(stated)


def main() -> None:
    """Print the ratios of each cell, and how many releases are within the range of their plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=("tuning", "held-out", "fresh"), default="fresh")
    parser.add_argument("--runs", type=int, default=40)
    chosen = parser.parse_args()
    ratios: dict[bool, list[Floats]] = {False: [], True: []}
    inside: dict[bool, list[float]] = {False: [], True: []}
    for name, rows in populations(chosen.split):
        for n_groups in GROUPS:
            for epsilon in EPSILONS:
                planned, stated = measure(rows, epsilon, n_groups, chosen.runs)
                low, high = mean_load_range(planned, n_groups)[1]
                held = (low <= stated) & (stated <= high)
                inside[n_groups > 1].append(float(held.mean()))
                ratios[n_groups > 1].append(np.log(stated / planned))
                say(
                    f"{name:24} {len(rows):6,} customers, {n_groups} groups, epsilon {epsilon:g}:"
                    f" released / planned {np.median(stated) / planned:.2f},"
                    f" within the range {held.mean():.2f}"
                )
    for several, cells in ratios.items():
        low, high = np.array([np.quantile(cell, TAILS) for cell in cells]).T
        level, spread = 0.5 * (high.max() + low.min()), 0.5 * (high.max() - low.min())
        say(
            f"{chosen.split}, {'several groups' if several else 'one group'}: level"
            f" {np.exp(level):.2f}, spread {np.exp(spread):.2f}; within the range"
            f" {np.mean(inside[several]):.3f} of all releases, {min(inside[several]):.2f} in the"
            " worst cell"
        )


if __name__ == "__main__":
    main()
