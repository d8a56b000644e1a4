"""Coverage of intervals for the population: random samples of simulated homes, each released.

Run: ``PYTHONPATH=. python benchmarks/bench_population_intervals.py [releases]``. The target is 93
to 97 %. Each line has, over the slots of all releases and with its standard error over releases:
the share of the slots whose population mean is inside its interval; the same if the true spread of
the population is used instead of that of the synthetic customers; and with privacy noise alone.
"Band" is the share of the slots whose mean over the sample itself is inside the band of the noise.
"Spread" is the spread of the population over that of the synthetic customers, the quantity that the
constant of `wattveil.bundle.statistical_bias` stands for.
"""

import sys
from dataclasses import dataclass

import numpy as np

from tests.sampled_releases import plan_without_errors, released_tables
from wattveil.arrays import Floats
from wattveil.bundle.statistical_bias import population_intervals
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Table
from wattveil.simulate import simulate_load_kw
from wattveil.web.charts import TWO_SIDED_95

POPULATION, SEED = 20_000, 30
SAMPLES, EPSILONS = (300, 800, 3000), (1.0, 3.0, 6.0)
RELEASES = 40


def main() -> None:
    """Print a line for each number of homes and epsilon."""
    releases = int(sys.argv[1]) if len(sys.argv) > 1 else RELEASES
    homes = np.array(simulate_load_kw(customers=POPULATION, seed=SEED))
    print("| homes | epsilon | coverage | with the true spread | noise alone | band | spread |")  # noqa: T201
    for sample in SAMPLES:
        for epsilon in EPSILONS:
            request = ReleaseRequest(epsilon=epsilon, customers=sample)
            print(line(request, homes, sample, releases), flush=True)  # noqa: T201


@dataclass(frozen=True)
class Coverage:
    """Shares of the slots of one release, and the ratio of spreads."""

    stated: float
    true_spread: float
    noise: float
    band: float
    spread: float


def line(request: ReleaseRequest, homes: Floats, sample: int, releases: int) -> str:
    """Return a row of the table of docs/release.md."""
    plan = plan_without_errors(request)
    random = np.random.default_rng(SEED)
    found = []
    for _ in range(releases):
        rows = homes[random.choice(len(homes), sample, replace=False)]
        found.append(coverage(released_tables(rows, plan), homes, rows))

    def shown(name: str) -> str:
        shares = np.array([getattr(one, name) for one in found])
        return f"{shares.mean():.3f} ± {shares.std(ddof=1) / np.sqrt(releases):.3f}"

    shares = " | ".join(shown(name) for name in Coverage.__dataclass_fields__)
    return f"| {sample:,} | {request.epsilon:g} | {shares} |"


def coverage(tables: dict[str, Table], homes: Floats, rows: Floats) -> Coverage:
    """Compare the intervals of one release with the mean of the population."""
    truth, spread = homes.mean(axis=0), homes.std(axis=0, ddof=1)
    stated = {
        "selection": "random sample",
        "all_meters": str(len(homes)),
        "request": {"levels": ()},
    }
    intervals = population_intervals(stated, tables)
    if intervals is None:
        raise ValueError(stated)
    load, std = (tables["load_shapes"].column(name) for name in ("load_kw", "std_kw"))
    sampling = spread * np.sqrt((1.0 - len(rows) / len(homes)) / len(rows))
    reach = TWO_SIDED_95 * std
    made = tables["synthetic"].column("load_kw").reshape(-1, truth.size)
    return Coverage(
        stated=float(((intervals[0] <= truth) & (truth <= intervals[1])).mean()),
        true_spread=float((np.abs(load - truth) <= TWO_SIDED_95 * np.hypot(std, sampling)).mean()),
        noise=float((np.abs(load - truth) <= reach).mean()),
        band=float((np.abs(load - rows.mean(axis=0)) <= reach).mean()),
        spread=float(np.median(spread / made.std(axis=0, ddof=1))),
    )


if __name__ == "__main__":
    main()
