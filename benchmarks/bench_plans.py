"""Plans of clusters against releases of the families of roughness.

Run: ``python benchmarks/bench_plans.py [--split held-out] [--runs 12] [--save FILE]``. For each
family, kind (shape or kW) and epsilon, `plan_kmeans` is given what is public: number of customers,
slots, median size and roughness. Its error of a load curve, accuracy loss and number of supported
clusters are compared with those of releases, each with noise of its own seed. K = 6, delta = 1e-6.

A cell is right if the median of its releases is within 25 % of the plan (supported clusters: within
25 % or half a cluster). The range of a plan should hold the value of a single release in nine of
ten releases.

``--split tuning --fit`` repeats the calibration: it prints the constants of
`products.plan_calibration`. ``--save`` keeps the cells, and a later run computes only others.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import bench_families
import families
import numpy as np
import scipy.stats
from float_queries import with_noise_of
from global_tier_cases import DELTA, say

from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import clustering_loss
from wattveil.products import plan_calibration
from wattveil.products.clusters import centroid_error, plan_kmeans
from wattveil.products.plan_calibration import Quantity, Roughness
from wattveil.release.kmeans import PrivateKMeans

WITHIN = 0.25
Cell = dict[str, Any]
QUANTITIES: tuple[Quantity, ...] = ("error", "loss")


def estimator(kind: str, epsilon: float) -> PrivateKMeans:
    """Return the estimator of a cell."""
    return PrivateKMeans(
        n_clusters=bench_families.N_CLUSTERS,
        epsilon=epsilon,
        delta=DELTA,
        normalise=kind == "shape",
    )


def measure(name: str, kind: str, epsilon: float, runs: int) -> Cell:
    """Return plan and releases of one cell."""
    rows = bench_families.rows_of(name, kind)
    assert rows is not None
    roughness = Roughness(families.FAMILIES[name].roughness)
    plan = plan_kmeans(
        estimator(kind, epsilon),
        n_customers=len(rows),
        n_slots=rows.shape[1],
        typical_kw=None if kind == "shape" else typical_kw(rows),
        roughness=roughness,
    )
    factors = {
        of: plan_calibration.factor(of, is_shape=kind == "shape", roughness=roughness)
        for of in QUANTITIES
    }
    cell: Cell = {
        "error simulated": plan.expected_error / factors["error"],
        "loss simulated": plan.expected_loss / factors["loss"],
        "supported simulated": plan.supported_clusters,
        **{of: [] for of in (*QUANTITIES, "supported")},
    }
    for seed in range(runs):
        with with_noise_of(seed):
            model = estimator(kind, epsilon).fit(rows)
        centres = model.cluster_centers_
        best = bench_families.reference(name, kind)
        cell["error"].append(centroid_error(rows, centres))
        cell["loss"].append(clustering_loss(rows, centres) / best - 1.0)
        cell["supported"].append(int(model.supported_.sum()))
    return cell


def typical_kw(rows: Floats) -> float:
    """Return the median root-mean-square load."""
    return float(np.median(np.sqrt(np.square(rows).mean(axis=1))))


def cells_of(split: families.Split, runs: int, stored: Path | None) -> dict[str, Cell]:
    """Return the cells of all small families of a split, from the file as far as it has them."""
    known: dict[str, Cell] = {}
    if stored is not None and stored.exists():
        known = json.loads(stored.read_text())
    found: dict[str, Cell] = {}
    for name in families.names(split):
        for kind in bench_families.KINDS:
            if bench_families.rows_of(name, kind) is None:
                continue
            for epsilon in bench_families.EPSILONS:
                key = f"{name}|{kind}|{epsilon:g}"
                found[key] = known[key] if key in known else measure(name, kind, epsilon, runs)
                known[key] = found[key]
                if stored is not None:
                    stored.write_text(json.dumps(known))
    return found


def planned(key: str, of: Quantity, cell: Cell) -> tuple[float, tuple[float, float]]:
    """Return what the plan states of a cell: value and range."""
    name, kind, _ = key.split("|")
    return plan_calibration.calibrated(
        cell[f"{of} simulated"],
        of,
        is_shape=kind == "shape",
        roughness=Roughness(families.FAMILIES[name].roughness),
    )


def report(cells: Mapping[str, Cell]) -> None:
    """Print a line per cell, and how many are right."""
    say("| family | kind | epsilon | error, plan / release | loss | supported | in range |")
    say("|---" * 7 + "|")
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    inside: dict[tuple[str, str], list[bool]] = defaultdict(list)
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key, cell in cells.items():
        name, kind, epsilon = key.split("|")
        texts, held = [], []
        for of, value, low, high in stated(key, cell):
            runs = np.array(cell[of], dtype=np.float64)
            middle = float(np.mean(runs) if of == "supported" else np.median(runs))
            apart = abs(middle - value)
            limit = WITHIN * value if of != "supported" else max(WITHIN * value, 0.5)
            right[kind, of].append(apart <= limit)
            is_held = (runs >= low) & (runs <= high)
            inside[kind, of].extend(is_held.tolist())
            held.append(f"{is_held.mean():.2f}")
            if of != "supported":
                ratios[kind, of].append(math.log(value / middle))
            texts.append(f"{value:.3g} / {middle:.3g}")
        say(f"| {name} | {kind} | {epsilon} | {' | '.join(texts)} | {', '.join(held)} |")
    for (kind, of), cells_right in right.items():
        some = ratios.get((kind, of))
        bias = "" if some is None else f"plan over release {math.exp(np.mean(some)):.2f}; "
        say(
            f"{kind}, {of}: {np.mean(cells_right):.2f} of the cells within 25 %; {bias}"
            f"{np.mean(inside[kind, of]):.2f} of the releases in the range"
        )


def stated(key: str, cell: Cell) -> Iterator[tuple[str, float, float, float]]:
    """Yield name, value and range of each quantity of a plan."""
    for of in QUANTITIES:
        value, (low, high) = planned(key, of, cell)
        yield of, value, low, high
    number = int(cell["supported simulated"])
    yield (
        "supported",
        number,
        *plan_calibration.supported_range(number, bench_families.N_CLUSTERS),
    )


def fit(cells: Mapping[str, Cell]) -> None:
    """Print the constants of `plan_calibration` that these cells give.

    The ratio of release to simulation is averaged over epsilon, in logarithms. How it changes with
    the period that a profile averages is read off the same homes of London, over a year and over
    four weeks; the level is the median over all families. The spread is a 90 % prediction interval
    for a release of another family: with m families, t sqrt((1 + 1/m) between + within) of their
    variances, where t is Student's quantile of m - 1 degrees of freedom.
    """
    for of in QUANTITIES:
        for kind in bench_families.KINDS:
            by_family: dict[str, list[float]] = defaultdict(list)
            runs: dict[str, list[float]] = defaultdict(list)
            for key, cell in cells.items():
                name, own, _ = key.split("|")
                if own == kind:
                    ratios = np.log(np.array(cell[of]) / cell[f"{of} simulated"])
                    by_family[name].append(float(np.median(ratios)))
                    runs[name] += ratios.tolist()
            means = {name: float(np.mean(some)) for name, some in by_family.items()}
            longer = (means["london year"] - means["london 4 weeks"]) / 2.0
            level = float(np.median([one - longer * steps(name) for name, one in means.items()]))
            away = [one - longer * steps(name) for name, one in means.items()]
            between = (1.0 + 1.0 / len(away)) * float(np.var(away, ddof=1))
            within = float(np.mean([np.var(some) for some in runs.values()]))
            quantile = float(scipy.stats.t.ppf(0.95, len(away) - 1))
            spread = math.exp(quantile * math.sqrt(between + within))
            say(
                f"{of}, {kind}: level {math.exp(level):.2f}, longer {math.exp(longer):.2f},"
                f" spread {spread:.2f}"
            )
    apart = [
        one - cell["supported simulated"] for cell in cells.values() for one in cell["supported"]
    ]
    say(f"supported, releases minus plan: {np.quantile(apart, [0.05, 0.95]).tolist()} in 9 of 10")


def steps(name: str) -> int:
    """Return how many steps of roughness a family is smoother than a single month."""
    return plan_calibration.steps(Roughness(families.FAMILIES[name].roughness))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=["tuning", "held-out"], default="held-out")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--fit", action="store_true", help="print the constants of a calibration")
    options = parser.parse_args()
    cells = cells_of(options.split, options.runs, options.save)
    report(cells)
    if options.fit:
        fit(cells)


if __name__ == "__main__":
    main()
