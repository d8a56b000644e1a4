"""Accuracy, time and memory of the global tier, compared with named peers.

Run: ``python benchmarks/bench_global_tier.py [part ...] [--full] [--runs N] [--out FOLDER]``.
Parts:

accuracy
    Loss against scikit-learn's K-means, beside plain Gaussian DP-Lloyd, Su et al. (2016), Balcan
    et al. (2017) and diffprivlib.
robustness
    How far single runs lie from the median of their kind.
sweep
    Number of clusters, slots of the day, and customers.
speed
    Time and memory for a million customers, against one scikit-learn fit in the same run.
trivial
    Against one private mean profile released with the whole budget.
grid
    Cost of the integer grid.

Without arguments every part runs in a short form, about ten minutes on two idle cores; ``--full``
takes an hour or more. Tables are Markdown; every single figure goes to ``FOLDER/<part>.json``.
Measured data are read from `WATTVEIL_DATA` (by default ``../shared/data`` beside the repository),
diffprivlib runs in the interpreter that `WATTVEIL_DIFFPRIVLIB_PYTHON` names; what is absent is left
out. All losses are measured on the customers themselves: internal use only.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from float_queries import grid_with_noise_of, without_grid
from global_tier_cases import (
    ACCURACY,
    BALLS,
    DELTA,
    MEASURED,
    Case,
    accuracy_loss,
    fitted,
    median_error,
    our_losses,
    part_of,
    reference,
    rows_of,
    say,
    simulated_case,
)
from global_tier_targets import EPSILONS, K_SWEEP, TARGETS
from populations import six_kinds
from sklearn.cluster import KMeans

from wattveil.errors import MissingExtraError
from wattveil.lab.baselines import lloyd_baselines, non_lloyd_baselines
from wattveil.lab.baselines.baseline_interface import PublicChoices
from wattveil.lab.baselines.diffprivlib_baseline import centroids_of_runs
from wattveil.release.kmeans import PrivateKMeans

if TYPE_CHECKING:
    from collections.abc import Callable

K = 6
LARGE = 50_000  # customers from which fewer runs have to do
MEAN_RADII = (0.35, 0.6, 1.2)  # the private mean gets the best of them for free
BASELINES = {
    "plain, 3 steps": partial(lloyd_baselines.GaussianLloyd.fit, rounds=3),
    "plain, 7 steps": partial(lloyd_baselines.GaussianLloyd.fit, rounds=7),
    "Su et al.": lloyd_baselines.Su2016.fit,
    "Balcan et al.": non_lloyd_baselines.Balcan2017.fit,
}
BASELINE_RUNS = 6  # baselines are far off: their median need not be exact


@dataclass
class Plan:
    """Extent of the measurement, and its results."""

    full: bool
    runs: int | None
    """Instead of the usual number."""
    customers: tuple[int, int]
    """Minimum and maximum number of customers of the data sets of `accuracy`."""
    path: Path
    figures: list[dict[str, Any]] = field(default_factory=list)

    def times(self, case: Case, *, usual: int) -> int:
        """Return the number of runs of a case: a quarter in short form, fewer if it is large."""
        runs = self.runs or (usual if self.full else max(5, usual // 4))
        if case.n_customers < LARGE:
            return runs
        return min(runs, 4) if case.n_customers < 10 * LARGE else min(runs, 2)

    def record(self, figure: dict[str, Any]) -> None:
        """Store a figure, also on disk, since a long run may be interrupted."""
        self.figures.append(figure)
        self.path.write_text(json.dumps(self.figures, indent=1))


# --- accuracy -------------------------------------------------------------------------------------


def accuracy(plan: Plan) -> None:
    """Print and record the loss of ours and of baselines on every data set and epsilon."""
    cases = [case for case in ACCURACY if plan.full or case.n_customers < LARGE]
    lowest, highest = plan.customers
    say("median loss: ours / best baseline; * = few constants were chosen with this data set\n")
    say(f"| data | P | runs | {' | '.join(f'epsilon {epsilon:g}' for epsilon in EPSILONS)} |")
    say("|---" * (3 + len(EPSILONS)) + "|")
    for case in cases:
        if not lowest <= case.n_customers <= highest or rows_of(case) is None:
            continue
        runs = plan.times(case, usual=20)
        found = [
            {
                "data": case.name,
                "customers": case.n_customers,
                "fresh": case.is_fresh,
                "epsilon": epsilon,
                "ours": our_losses(case, epsilon, runs=runs),
                **baselines,
            }
            for epsilon, baselines in zip(
                EPSILONS, baseline_losses(case, min(runs, BASELINE_RUNS)), strict=True
            )
        ]
        cells = [f"{np.median(one['ours']):.3f} / {best_baseline(one):.2f}" for one in found]
        say(f"| {case.label} | {runs} | {' | '.join(cells)} |")
        for one in found:
            plan.record(one)
        rows_of.cache_clear()
        reference.cache_clear()
    summarise(plan.figures)


def baseline_losses(case: Case, runs: int) -> list[dict[str, list[float]]]:
    """Return, for every epsilon, the losses of each baseline."""
    rows = rows_of(case)
    assert rows is not None
    public = PublicChoices.taken_from(rows, K)
    found = [
        {
            name: [
                accuracy_loss(
                    case,
                    fit(
                        rows,
                        epsilon=epsilon,
                        delta=DELTA,
                        public=public,
                        generator=np.random.default_rng(run),
                    ).centroids_kw,
                    K,
                )
                for run in range(runs)
            ]
            for name, fit in BASELINES.items()
        }
        for epsilon in EPSILONS
    ]
    try:
        released = centroids_of_runs(rows, EPSILONS, public, range(runs))
    except MissingExtraError as error:
        say(f"skipped a baseline: {error}")
        return found
    for of_epsilon, losses in zip(released, found, strict=True):
        losses["diffprivlib"] = [accuracy_loss(case, run, K) for run in of_epsilon]
    return found


def best_baseline(figure: dict[str, Any]) -> float:
    """Return the minimum median of the baselines."""
    names = [name for name in figure if name in {*BASELINES, "diffprivlib"}]
    return min(float(np.median(figure[name])) for name in names)


def summarise(figures: list[dict[str, Any]]) -> None:
    """Print ratios over all cells, and every cell that misses its target by more than 10 %."""
    floored = [max(float(np.median(one["ours"])), 1e-3) for one in figures]
    for name in ("best baseline", "plain", *list(BASELINES)[2:], "diffprivlib"):
        of_baseline = [
            best_baseline(
                {key: one[key] for key in one if name == "best baseline" or key[:5] == name[:5]}
            )
            if name == "best baseline" or any(key[:5] == name[:5] for key in one)
            else np.nan
            for one in figures
        ]
        ratios = np.array(of_baseline) / floored
        if np.isfinite(ratios).all():
            mean = np.exp(np.log(ratios).mean())
            say(
                f"\n{name} / ours over {len(ratios)} cells: geometric mean {mean:.1f}, "
                f"minimum {ratios.min():.2f}"
            )
    total = sum(len(one["ours"]) for one in figures)
    above = [
        (one["data"], one["customers"], one["epsilon"], round(loss, 3))
        for one in figures
        for loss in one["ours"]
        if loss > 3.0 * np.median(one["ours"]) + 0.02
    ]
    say(f"\n{len(above)} of {total} runs above 3 medians + 0.02: {above}")
    say("\ncells more than 10 % above the target (errors: one standard error of our median):\n")
    compared = []
    for one in figures:
        target = TARGETS.get((one["data"], one["customers"]))
        if target is None:
            continue
        goal = target[EPSILONS.index(one["epsilon"])]
        ours, error = float(np.median(one["ours"])), median_error(one["ours"])
        compared.append((max(ours, 1e-3), max(goal, 1e-3)))
        if ours > 1.1 * goal + 5e-4:
            # The target is a median too, with the same standard error.
            sure = ours - 2.0 * np.sqrt(2.0) * error > 1.1 * goal + 5e-4
            say(
                f"- {one['data']} {one['customers']:,}, epsilon {one['epsilon']:g}: {ours:.3f} +- "
                f"{error:.3f}, target {goal:.3f}{'' if sure else ' (within sampling error)'}"
            )
    if compared:
        ratios = np.array([ours / goal for ours, goal in compared])
        say(
            f"\nours / target over {len(ratios)} cells: geometric mean "
            f"{np.exp(np.log(ratios).mean()):.3f}"
        )


# --- robustness -----------------------------------------------------------------------------------


def robustness(plan: Plan) -> None:
    """Print and record the distribution of many runs; no run should exceed 3 medians + 0.02."""
    cases = [
        *(simulated_case(name, 1_409) for name in ("res", "shape", "mix", "gp")),
        *(simulated_case(name, 10_000) for name in ("res", "gp shape")),
        *(MEASURED[name] for name in ("lcl raw", "lcl shape", "pv raw", "city shape")),
    ]
    epsilons = (0.3, 1.0, 3.0, 10.0) if plan.full else (1.0, 10.0)
    say("| data | P | epsilon | runs | median | 95 % | worst | above 3 medians + 0.02 |")
    say("|---" * 8 + "|")
    for case in cases:
        if rows_of(case) is None:
            continue
        runs = plan.times(case, usual=25)
        for epsilon in epsilons:
            losses, notes = [], []
            for _ in range(runs):
                model = fitted(case, epsilon, K)
                losses.append(accuracy_loss(case, model.cluster_centers_, K))
                notes.append(
                    {
                        "count_distinguishable": model.n_distinguishable_,
                        "sizes": np.round(model.cluster_sizes_, 1).tolist(),
                        "lengths": np.linalg.norm(model.cluster_centers_, axis=1).tolist(),
                    }
                )
            median = float(np.median(losses))
            wild = [run for run, one in enumerate(losses) if one > 3.0 * median + 0.02]
            say(
                f"| {case.label} | {epsilon:g} | {runs} | {median:.3f} | "
                f"{np.quantile(losses, 0.95):.3f} | {max(losses):.3f} | {len(wild)} |"
            )
            plan.record(
                {
                    "data": case.name,
                    "customers": case.n_customers,
                    "epsilon": epsilon,
                    "ours": losses,
                    "wild": [{"loss": losses[run], **notes[run]} for run in wild],
                }
            )
    total = sum(len(one["ours"]) for one in plan.figures)
    wild_runs = sum(len(one["wild"]) for one in plan.figures)
    say(f"\n{wild_runs} of {total} runs above 3 medians + 0.02")
    wanted = [
        (loss, TARGETS[key][EPSILONS.index(one["epsilon"])])
        for one in plan.figures
        if (key := (one["data"], one["customers"])) in TARGETS
        for loss in one["ours"]
    ]
    above = sum(loss > 3.0 * target + 0.02 for loss, target in wanted)
    say(f"{above} of {len(wanted)} above 3 targets + 0.02")


# --- sweep ----------------------------------------------------------------------------------------


def sweep(plan: Plan) -> None:
    """Print and record the loss over clusters, slots of the day and customers."""
    runs = plan.times(simulated_case("res", 1_409), usual=20)

    def measure(case: Case, epsilon: float, n_clusters: int, runs: int) -> str:
        losses = our_losses(case, epsilon, runs=runs, n_clusters=n_clusters)
        plan.record(
            {
                "data": case.name,
                "customers": case.n_customers,
                "clusters": n_clusters,
                "slots": case.rows().shape[1] if case.n_customers < LARGE else 24,
                "epsilon": epsilon,
                "ours": losses,
            }
        )
        return f"{np.median(losses):.3f}"

    numbers = (2, 3, 4, 6, 8, 12, 20)
    say(f"loss over K at epsilon 1, {runs} runs\n")
    say(f"| data | P | {' | '.join(f'K = {number}' for number in numbers)} |")
    say("|---" * (2 + len(numbers)) + "|")
    for case in [
        simulated_case("res", 1_409),
        simulated_case("shape", 10_000),
        *_if_there("lcl shape"),
    ]:
        cells = [measure(case, 1.0, number, runs) for number in numbers]
        say(f"| {case.label} | {' | '.join(cells)} |")
    goals = [f"{K_SWEEP[number]:.3f}" if number in K_SWEEP else "" for number in numbers]
    say(f"| target for res | 1,409 | {' | '.join(goals)} |")

    epsilons = (0.3, 1.0, 3.0)
    say(f"\nloss over slots of the day, res, {runs} runs\n")
    say(f"| P | slots | {' | '.join(f'epsilon {epsilon:g}' for epsilon in epsilons)} |")
    say("|---" * (2 + len(epsilons)) + "|")
    for n_customers in (1_409, 10_000):
        for n_slots in (24, 48, 96):
            case = simulated_case("res", n_customers, n_slots=n_slots)
            cells = [measure(case, epsilon, K, runs) for epsilon in epsilons]
            say(f"| {n_customers:,} | {n_slots} | {' | '.join(cells)} |")

    say("\nloss over customers\n")
    say(f"| data | P | runs | {' | '.join(f'epsilon {epsilon:g}' for epsilon in epsilons)} |")
    say("|---" * (3 + len(epsilons)) + "|")
    for n_customers in (300, 1_000, 3_000, 10_000, *((100_000, 1_000_000) if plan.full else ())):
        for name in ("res", "shape"):
            case = simulated_case(name, n_customers)
            times = plan.times(case, usual=20)
            cells = [measure(case, epsilon, K, times) for epsilon in epsilons]
            say(f"| {case.label} | {times} | {' | '.join(cells)} |")
            rows_of.cache_clear()


def _if_there(*names: str) -> list[Case]:
    return [MEASURED[name] for name in names if rows_of(MEASURED[name]) is not None]


# --- speed ----------------------------------------------------------------------------------------


def speed(plan: Plan) -> None:
    """Print and record time against one scikit-learn fit, and memory over the data's."""
    n_customers = 1_000_000 if plan.full else 200_000
    rows = six_kinds(n_customers, seed=101)
    fits: dict[str, Callable[[int], object]] = {
        "ours": lambda _: PrivateKMeans(n_clusters=K, epsilon=1.0).fit(rows),
        "scikit-learn": lambda run: KMeans(K, n_init=1, random_state=run).fit(rows),
    }
    PrivateKMeans().fit(rows[:20_000])  # compiles
    for repeat in range(3):
        figure: dict[str, Any] = {"customers": n_customers}
        for name, fit in fits.items():
            wall, cpu = time.perf_counter(), time.process_time()
            fit(repeat)
            figure[f"{name}, wall s"] = time.perf_counter() - wall
            figure[f"{name}, CPU s"] = time.process_time() - cpu
        plan.record(figure)
    for clock in ("wall s", "CPU s"):
        ratios = [one[f"ours, {clock}"] / one[f"scikit-learn, {clock}"] for one in plan.figures]
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        say(
            f"P = {n_customers:,}, d = 24, K = {K}: ours / scikit-learn (n_init=1), {clock[:-2]}: "
            f"{np.median(ratios):.2f} ({shown})"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, rows)
        for normalise in (False, True):
            command = [sys.executable, __file__, "--memory-of", str(path)]
            command += ["--normalise"] if normalise else []
            done = subprocess.run(  # noqa: S603 - this very file
                command, check=True, capture_output=True, text=True
            )
            memory = {key: value / rows.nbytes for key, value in json.loads(done.stdout).items()}
            say(
                f"memory of the fit beside the data, over the data's, normalise={normalise}: "
                + ", ".join(f"{key} {value:.2f}" for key, value in memory.items())
            )
            plan.record({"customers": n_customers, "normalise": normalise, **memory})


def memory_of(path: Path, *, normalise: bool) -> None:
    """Print the peak memory of a fit beside the data, by two measures, as JSON."""
    rows = np.load(path)
    PrivateKMeans(normalise=normalise).fit(rows[:20_000])  # compiles
    before = resident_bytes("VmRSS")
    PrivateKMeans(normalise=normalise).fit(rows)
    resident = resident_bytes("VmHWM") - before
    tracemalloc.start()
    PrivateKMeans(normalise=normalise).fit(rows)
    traced = tracemalloc.get_traced_memory()[1]
    say(json.dumps({"resident": resident, "traced": traced}))


def resident_bytes(field: str) -> int:
    """Return the memory of this process now (VmRSS) or at its peak (VmHWM).

    Linux's ru_maxrss will not do: a child begins with the peak of its parent, who made the rows.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    words = next(line.split() for line in status.read_text().splitlines() if field in line)
    return 1024 * int(words[1])


# --- trivial --------------------------------------------------------------------------------------


def trivial(plan: Plan) -> None:
    """Print and record the loss beside that of one private mean profile.

    The mean receives the number of customers and their size as public facts. Ours is therefore
    measured twice: without either, as in all other parts, and with the size. It always estimates
    the number of customers with noise.
    """
    runs = plan.times(simulated_case("res", 1_409), usual=20)
    bases = [
        *_if_there("lcl shape", "lcl raw", "city shape", "city raw", "uci shape"),
        *(simulated_case(name, 1_409) for name in ("shape", "res", "gp shape", "gp")),
        *(simulated_case(name, 1_409) for ball in BALLS for name in (f"{ball} shape", ball)),
    ]
    epsilons = (0.1, 0.3, 1.0)
    say(f"loss: ours / ours, given the size / one private mean, given size and number; {runs} runs")
    say(
        "< marks where the second has the larger loss; (<) where by less than two standard errors\n"
    )
    say(f"| data | P | {' | '.join(f'epsilon {epsilon:g}' for epsilon in epsilons)} |")
    say("|---" * (2 + len(epsilons)) + "|")
    for base in bases:
        for n_customers in (100, 246, 1_000):
            if n_customers > 1.2 * base.n_customers:
                continue
            case = part_of(base, min(n_customers, base.n_customers))
            cells = [_beside_the_mean(case, epsilon, runs, plan) for epsilon in epsilons]
            say(f"| {case.label} | {' | '.join(cells)} |")


def _beside_the_mean(case: Case, epsilon: float, runs: int, plan: Plan) -> str:
    """Measure one cell of the table, record it, and return it as text."""
    rows = rows_of(case)
    assert rows is not None
    kw = PublicChoices.taken_from(rows, K).typical_kw
    ours = our_losses(case, epsilon, runs=runs)
    told = our_losses(case, epsilon, runs=runs, plausible_kw=(kw / 2.0, 2.0 * kw))
    means = (mean_losses(case, epsilon, radius, 5 * runs) for radius in MEAN_RADII)
    mean = min(means, key=np.median)
    plan.record(
        {
            "data": case.name,
            "customers": case.n_customers,
            "epsilon": epsilon,
            "ours": ours,
            "told": told,
            "mean": mean,
        }
    )
    behind = np.median(told) - np.median(mean)
    sure = behind > 2.0 * np.hypot(median_error(told), median_error(mean))
    mark = " <" if sure else " (<)" if behind > 0.0 else ""
    return f"{np.median(ours):.3f} / {np.median(told):.3f} / {np.median(mean):.3f}{mark}"


def mean_losses(case: Case, epsilon: float, radius: float, runs: int) -> list[float]:
    """Return the loss of each of some private means."""
    rows = rows_of(case)
    assert rows is not None
    generator = np.random.default_rng(0)
    public = PublicChoices.taken_from(rows, K)
    means = (
        non_lloyd_baselines.PrivateMean.fit(
            rows,
            epsilon=epsilon,
            delta=DELTA,
            public=public,
            generator=generator,
            relative_radius=radius,
        )
        for _ in range(runs)
    )
    return [accuracy_loss(case, mean.centroids_kw, K) for mean in means]


# --- grid -----------------------------------------------------------------------------------------


def grid(plan: Plan) -> None:
    """Print and record the loss with the integer grid and without it."""
    runs = plan.times(simulated_case("shape", 10_000), usual=40)
    say(f"{runs} runs each; paired: the same noise rounded to the grid, or not\n")
    say(
        "| data | P | epsilon | product | without grid | paired: grid | paired: none "
        "| mean change | largest change |"
    )
    say("|---" * 9 + "|")
    for case in [simulated_case("shape", 10_000), *_if_there("lcl shape")]:
        for epsilon in (1.0, 10.0):
            product = our_losses(case, epsilon, runs=runs)
            free, rounded = [], []
            for run in range(runs):
                with without_grid(np.random.default_rng(run)):
                    free += our_losses(case, epsilon, runs=1)
                with grid_with_noise_of(np.random.default_rng(run)):
                    rounded += our_losses(case, epsilon, runs=1)
            change = (np.array(rounded) - free) / np.mean(free)
            say(
                f"| {case.label} | {epsilon:g} | {np.median(product):.4f} +- "
                f"{median_error(product):.4f} | {np.median(free):.4f} +- {median_error(free):.4f} "
                f"| {np.mean(rounded):.5f} | {np.mean(free):.5f} | {100 * change.mean():+.1e} % "
                f"| {100 * np.abs(change).max():.1e} % |"
            )
            plan.record(
                {
                    "data": case.name,
                    "customers": case.n_customers,
                    "epsilon": epsilon,
                    "product": product,
                    "without": free,
                    "paired": rounded,
                }
            )


# --------------------------------------------------------------------------------------------------

PARTS = {
    "accuracy": accuracy,
    "robustness": robustness,
    "sweep": sweep,
    "speed": speed,
    "trivial": trivial,
    "grid": grid,
}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description="Benchmark of the global tier")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="part")
    parser.add_argument("--full", action="store_true", help="every data set, 20 runs and more")
    parser.add_argument("--runs", type=int, help="of each cell, instead of the usual number")
    parser.add_argument(
        "--customers",
        type=int,
        nargs=2,
        default=(0, 1_000_000),
        metavar=("MIN", "MAX"),
        help="of the data sets of accuracy",
    )
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--normalise", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_of:
        memory_of(given.memory_of, normalise=given.normalise)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for part in given.parts or PARTS:
        say(f"\n## {part}\n")
        begin = time.perf_counter()
        plan = Plan(given.full, given.runs, tuple(given.customers), given.out / f"{part}.json")
        PARTS[part](plan)
        say(f"\n{part}: {time.perf_counter() - begin:.0f} s")
        rows_of.cache_clear()
        reference.cache_clear()


if __name__ == "__main__":
    main()
