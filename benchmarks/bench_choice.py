"""What it brings to ask the customers which merge of the coarse cells to refine.

Run: ``python benchmarks/bench_choice.py [--runs N]``. Each run is made twice under the same noise:
with the question, and without it, when the cheapest merge is refined and the 5 % go to refining.
Printed is the loss with over the loss without, for the mean and the median of the runs, and the
runs above three medians + 0.02. Measured data are read from `WATTVEIL_DATA`; what is absent is left
out. The peer is the release without the question, in the same run.
"""

import argparse
from contextlib import nullcontext
from unittest import mock

import numpy as np
from float_asks import with_noise_of
from global_tier_cases import MEASURED, Case, accuracy_loss, fitted, made_up, rows_of, say

from wattveil.clustering import choice

K = 6
SIGNAL: list[tuple[Case, tuple[float, ...]]] = [
    (made_up("res", 1_409), (3.0, 10.0)),
    (made_up("gp", 1_409), (3.0, 10.0)),
    (made_up("res", 10_000), (1.0, 3.0)),
    (made_up("shape", 10_000), (1.0,)),
    (made_up("mix", 10_000), (1.0, 3.0)),
    (made_up("gp", 10_000), (1.0, 10.0)),
    (made_up("gp shape", 10_000), (1.0,)),
    (MEASURED["pv raw"], (1.0,)),
    (MEASURED["city raw"], (3.0,)),
    (MEASURED["lcl month raw"], (1.0, 3.0)),
    (MEASURED["lcl month shape"], (1.0, 3.0)),
]
LITTLE_SIGNAL: list[tuple[Case, tuple[float, ...]]] = [
    (made_up("res", 1_409), (0.3,)),
    (made_up("shape", 1_409), (0.3, 1.0)),
    (made_up("mix", 1_409), (1.0,)),
    (made_up("gp shape", 1_409), (0.1, 1.0)),
    (made_up("res", 10_000), (0.3,)),
    (made_up("gp", 10_000), (0.3,)),
    (MEASURED["lcl raw"], (0.3, 3.0)),
    (MEASURED["lcl shape"], (0.3, 1.0)),
    (MEASURED["pv shape"], (0.3,)),
    (MEASURED["city shape"], (1.0,)),
    (MEASURED["uci shape"], (1.0,)),
    (MEASURED["lcl month raw"], (0.3,)),
]


def losses(case: Case, epsilon: float, seeds: range, *, asked: bool) -> list[float]:
    """Return the loss of some runs, each with noise of its own seed."""

    def one(seed: int) -> float:
        silent = mock.patch.object(choice, "open_question", return_value=None)
        with with_noise_of(seed), nullcontext() if asked else silent:
            return accuracy_loss(case, fitted(case, epsilon, K).cluster_centers_, K)

    return [one(seed) for seed in seeds]


def wild(runs: list[float]) -> int:
    """Return how many runs are above three medians + 0.02."""
    return int((np.array(runs) > 3.0 * np.median(runs) + 0.02).sum())


def compare(name: str, cells: list[tuple[Case, tuple[float, ...]]], runs: int) -> None:
    """Print a table of cells, and what it comes to."""
    say(f"\n{name}, {runs} runs\n")
    say("| data | P | epsilon | mean, without | mean | median | wild | wild, without |")
    say("|---" * 8 + "|")
    ratios, counts = [], np.zeros(2, dtype=int)
    for case, epsilons in cells:
        if rows_of(case) is None:
            continue
        for epsilon in epsilons:
            pair = [losses(case, epsilon, range(runs), asked=asked) for asked in (True, False)]
            means, medians = np.mean(pair, axis=1), np.median(pair, axis=1)
            ratios.append((means[0] / means[1], medians[0] / medians[1]))
            counts += [wild(one) for one in pair]
            say(
                f"| {case.label} | {epsilon:g} | {means[1]:.4f} | {ratios[-1][0]:.2f} | "
                f"{ratios[-1][1]:.2f} | {wild(pair[0])} | {wild(pair[1])} |"
            )
    of_means, of_medians = np.exp(np.log(ratios).mean(axis=0))
    say(
        f"\n{len(ratios)} cells: means {of_means:.3f}, medians {of_medians:.3f} of those without; "
        f"{counts[0]} wild runs, {counts[1]} without, of {runs * len(ratios)}"
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    compare("with signal", SIGNAL, runs)
    compare("with little signal", LITTLE_SIGNAL, runs)


if __name__ == "__main__":
    main()
