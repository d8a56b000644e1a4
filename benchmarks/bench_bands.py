"""Coverage of the 95 % bands of load by group, duration curves and shares, by family of roughness.

Run: ``python benchmarks/bench_bands.py [--split held-out] [--runs 8]``. Customers are in groups of
40, 30, 20 and 10 %: at random, or by size, with a wrong group for a third of them. Each run is a
release. What is counted, over groups and slots, ranks or clusters:

* load: mean load in kW; with ``beyond``, the bound on the bias of clipping is added above the band;
* all: mean load of all customers, from the groups; ``day`` is its mean over all slots;
* duration: load duration curve of the group;
* customers: number of customers of the group;
* shares: share of each cluster of exact K-means in the group, of shapes.

`bench_families.py` has the bands of clusters. K = 6, delta = 1e-6, epsilon 0.3, 1 and 3.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator

import bench_families
import families
import numpy as np
from global_tier_cases import DELTA, say

from wattveil.arrays import Floats, Ints
from wattveil.numerics.kmeans.lloyd import assign, k_means
from wattveil.products.mean_load import mean_of_groups
from wattveil.release.cluster_shares import cluster_shares
from wattveil.release.group_load import load_duration_curve

PARTS = (0.4, 0.3, 0.2, 0.1)
LEVELS = tuple(range(len(PARTS)))
WRONG = 1 / 3
Covered = dict[str, list[float]]


def groupings(rows: Floats) -> dict[str, Ints]:
    """Return the group of each customer, at random and by size."""
    generator = np.random.default_rng(len(rows))
    edges = np.cumsum(PARTS)[:-1] * len(rows)
    drawn = np.searchsorted(edges, generator.permutation(len(rows)), side="right")
    ranks = np.argsort(np.argsort(-np.square(rows).sum(axis=1)))[::-1]
    by_size = np.searchsorted(edges, ranks, side="right")
    is_wrong = generator.random(len(rows)) < WRONG
    return {"random": drawn, "by size": np.where(is_wrong, drawn, by_size)}


def load_coverage(rows: Floats, groups: Ints, epsilon: float) -> Iterator[tuple[str, float]]:
    """Yield what one release of load and duration curves covers."""
    found = load_duration_curve(
        rows,
        groups=groups.tolist(),
        levels=LEVELS,
        epsilon=epsilon,
        delta=DELTA,
        slots_per_day=rows.shape[1],
    )
    truth = np.array([rows[groups == level].mean(axis=0) for level in LEVELS])
    numbers = np.bincount(groups, minlength=len(LEVELS))
    shapes, z = found.shapes, bench_families.Z95
    away, band = truth - shapes.mean_kw, z * shapes.std_kw
    yield "load", float((np.abs(away) <= band).mean())
    sizes = shapes.customers, shapes.customers_std
    mean, std = mean_of_groups(shapes.mean_kw, shapes.std_kw, *sizes)
    off = mean - rows.mean(axis=0)
    yield "all", float((np.abs(off) <= z * std).mean())
    yield "day", float(abs(off.mean()) <= z * std.mean())
    above = band + shapes.max_clipping_bias_kw[:, None]
    yield "beyond", float(((away >= -band) & (away <= above)).mean())
    curves = -np.sort(-truth * numbers[:, None], axis=1)
    yield "duration", float((np.abs(found.load_kw - curves) <= z * found.std_kw).mean())
    yield (
        "customers",
        float((np.abs(shapes.customers - numbers) <= z * shapes.customers_std).mean()),
    )


def share_coverage(
    rows: Floats, centroids: Floats, groups: Ints, epsilon: float
) -> Iterator[tuple[str, float]]:
    """Yield what one release of shares covers."""
    found = cluster_shares(
        rows,
        centroids=centroids,
        groups={"group": groups.tolist()},
        levels={"group": LEVELS},
        epsilon=epsilon,
        delta=DELTA,
    )
    labels = assign(rows, centroids)
    cells = groups * len(centroids) + labels
    counts = np.bincount(cells, minlength=found.shares.size).reshape(found.shares.shape)
    truth = counts / counts.sum(axis=1, keepdims=True)
    z = bench_families.Z95
    yield "shares", float((np.abs(found.shares - truth) <= z * found.shares_std).mean())


def measure(name: str, epsilons: list[float], runs: int) -> dict[tuple[str, float], Covered]:
    """Return the coverage of each run, by grouping and epsilon."""
    load, shapes = (bench_families.rows_of(name, kind) for kind in ("kw", "shape"))
    assert shapes is not None
    centroids = k_means(shapes, bench_families.N_CLUSTERS, seed=0, n_init=3).centroids
    found: dict[tuple[str, float], Covered] = {}
    for grouping, groups in groupings(shapes if load is None else load).items():
        for epsilon in epsilons:
            covered: Covered = defaultdict(list)
            for _ in range(runs):
                if load is not None:
                    for of, share in load_coverage(load, groups, epsilon):
                        covered[of].append(share)
                for of, share in share_coverage(shapes, centroids, groups, epsilon):
                    covered[of].append(share)
            found[grouping, epsilon] = covered
    return found


def main() -> None:
    """Print a line per family and grouping, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=["tuning", "held-out"], default="held-out")
    parser.add_argument("--epsilons", default=",".join(map(str, bench_families.EPSILONS)))
    parser.add_argument("--runs", type=int, default=8)
    options = parser.parse_args()
    epsilons = [float(one) for one in options.epsilons.split(",")]
    names = ("load", "beyond", "all", "day", "duration", "customers", "shares")
    everything: Covered = defaultdict(list)
    say(f"| family | groups | {' | '.join(names)} |")
    say("|---" * (len(names) + 2) + "|")
    for name in families.names(options.split):
        if families.load(name) is None:
            continue
        cells = measure(name, epsilons, options.runs)
        for grouping in ("random", "by size"):
            texts = []
            for of in names:
                means = [
                    np.mean(cells[grouping, one][of])
                    for one in epsilons
                    if cells[grouping, one][of]
                ]
                texts.append(" ".join(f"{one:.2f}" for one in means) if means else "")
                everything[of] += [float(one) for one in means]
            say(f"| {name} | {grouping} | {' | '.join(texts)} |")
    for of, means in everything.items():
        say(f"{of}: mean {np.mean(means):.3f}, cells from {min(means):.2f} to {max(means):.2f}")


if __name__ == "__main__":
    main()
