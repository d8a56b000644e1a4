"""Effect of two stages of private K-means: selection of a merge, and the population mean.

Run: ``python benchmarks/bench_stages.py [selection | population-mean] [--runs N]``. Each
run is made twice under the same noise, with the stage and without it; its part of the budget then
goes to the stages after it. Without the selection the cheapest merge is refined. The output is the
loss with over the loss without, for the mean and the median of the runs, and the runs above three
medians + 0.02. Measured data are read from `WATTVEIL_DATA`; what is absent is left out. The peer is
the release without the stage, in the same run.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from unittest import mock

import numpy as np
from float_queries import with_noise_of
from global_tier_cases import (
    MEASURED,
    Case,
    accuracy_loss,
    fitted,
    part_of,
    rows_of,
    say,
    simulated_case,
)

from wattveil.numerics.kmeans import cluster_merge, kmeans_tuning

Cell = tuple[Case, float, int]
"""Data, epsilon and K."""
Without = Callable[[], AbstractContextManager[object]]
"""Releases inside the block lack a stage."""


def cells_of(*cases: tuple[Case, tuple[float, ...]], n_clusters: int = 6) -> list[Cell]:
    """Return a cell for every epsilon of every case."""
    return [(case, epsilon, n_clusters) for case, epsilons in cases for epsilon in epsilons]


SIGNAL = cells_of(
    (simulated_case("res", 1_409), (3.0, 10.0)),
    (simulated_case("gp", 1_409), (3.0, 10.0)),
    (simulated_case("res", 10_000), (1.0, 3.0)),
    (simulated_case("shape", 10_000), (1.0,)),
    (simulated_case("mix", 10_000), (1.0, 3.0)),
    (simulated_case("gp", 10_000), (1.0, 10.0)),
    (simulated_case("gp shape", 10_000), (1.0,)),
    (MEASURED["pv raw"], (1.0,)),
    (MEASURED["city raw"], (3.0,)),
    (MEASURED["lcl month raw"], (1.0, 3.0)),
    (MEASURED["lcl month shape"], (1.0, 3.0)),
)
LITTLE_SIGNAL = cells_of(
    (simulated_case("res", 1_409), (0.3,)),
    (simulated_case("shape", 1_409), (0.3, 1.0)),
    (simulated_case("mix", 1_409), (1.0,)),
    (simulated_case("gp shape", 1_409), (0.1, 1.0)),
    (simulated_case("res", 10_000), (0.3,)),
    (simulated_case("gp", 10_000), (0.3,)),
    (MEASURED["lcl raw"], (0.3, 3.0)),
    (MEASURED["lcl shape"], (0.3, 1.0)),
    (MEASURED["pv shape"], (0.3,)),
    (MEASURED["city shape"], (1.0,)),
    (MEASURED["uci shape"], (1.0,)),
    (MEASURED["lcl month raw"], (0.3,)),
)


def few_customers(n_clusters: int, *names: str) -> list[Cell]:
    """Return cells whose n mu is between 3 and 27, where the population mean is queried."""
    budgets = {100: (0.3, 1.0), 300: (0.1, 0.3), 1_000: (0.1,)}
    return [
        (data(name, n_customers), epsilon, n_clusters)
        for name in names
        for n_customers, epsilons in budgets.items()
        for epsilon in epsilons
    ]


def data(name: str, n_customers: int) -> Case:
    """Return simulated customers, or a sample of measured ones."""
    if name in MEASURED:
        return part_of(MEASURED[name], n_customers)
    return simulated_case(name, n_customers)


def losses(cell: Cell, seeds: range, without: Without) -> list[float]:
    """Return the loss of some runs, each with noise of its own seed."""
    case, epsilon, n_clusters = cell

    def one(seed: int) -> float:
        with with_noise_of(seed), without():
            return accuracy_loss(
                case, fitted(case, epsilon, n_clusters).cluster_centers_, n_clusters
            )

    return [one(seed) for seed in seeds]


def wild(runs: list[float]) -> int:
    """Return how many runs are above three medians + 0.02."""
    return int((np.array(runs) > 3.0 * np.median(runs) + 0.02).sum())


def compare(name: str, cells: list[Cell], runs: int, without: Without) -> None:
    """Print a table of cells, and its summary."""
    say(f"\n{name}, {runs} runs\n")
    say("| data | P | epsilon | K | mean, without | mean | median | wild | wild, without |")
    say("|---" * 9 + "|")
    ratios, counts = [], np.zeros(2, dtype=int)
    for cell in cells:
        case, epsilon, n_clusters = cell
        if rows_of(case) is None:
            continue
        pair = [losses(cell, range(runs), stages) for stages in (nullcontext, without)]
        means, medians = np.mean(pair, axis=1), np.median(pair, axis=1)
        ratios.append((means[0] / means[1], medians[0] / medians[1]))
        counts += [wild(one) for one in pair]
        say(
            f"| {case.label} | {epsilon:g} | {n_clusters} | {means[1]:.4f} | {ratios[-1][0]:.2f} | "
            f"{ratios[-1][1]:.2f} | {wild(pair[0])} | {wild(pair[1])} |"
        )
    if ratios:
        of_means, of_medians = np.exp(np.log(ratios).mean(axis=0))
        say(
            f"\n{len(ratios)} cells: means {of_means:.3f}, medians {of_medians:.3f} of those "
            f"without; {counts[0]} wild runs, {counts[1]} without, of {runs * len(ratios)}"
        )


def compare_selection(runs: int) -> None:
    """Print the effect of selecting a merge by a query."""

    def without() -> AbstractContextManager[object]:
        return mock.patch.object(cluster_merge, "selection_query", return_value=None)

    compare("Selection, with signal", SIGNAL, runs, without)
    compare("Selection, with little signal", LITTLE_SIGNAL, runs, without)


def compare_population_mean(runs: int) -> None:
    """Print the effect of the population mean stage, by the number of clusters."""

    def without() -> AbstractContextManager[object]:
        return mock.patch.object(kmeans_tuning, "population_mean_share", return_value=0.0)

    def tables() -> Iterator[tuple[str, list[Cell]]]:
        for n_clusters in (1, 2, 3, 6):
            clustered = ("res", "shape", "gp shape", "lcl raw", "lcl shape")
            yield f"with clusters, K = {n_clusters}", few_customers(n_clusters, *clustered)
            balls = ("ball", "ball shape")
            yield f"without clusters, K = {n_clusters}", few_customers(n_clusters, *balls)

    for name, cells in tables():
        compare(f"Population mean, {name}", cells, runs, without)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {"selection": compare_selection, "population-mean": compare_population_mean}
    parser.add_argument("part", nargs="?", choices=parts)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for name, part in parts.items():
        if options.part in (None, name):
            part(options.runs)


if __name__ == "__main__":
    main()
