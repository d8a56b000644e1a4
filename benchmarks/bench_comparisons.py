"""Coverage of the 95 % intervals of `Bundle.compare`: two groups, and two clusters.

Run: ``python benchmarks/bench_comparisons.py [--runs 20]``. The measured homes need the data folder
(`WATTVEIL_DATA`). Groups are those of `bench_load_shapes` with at least 50 customers, which share a
filter and sizes; clusters are the supported ones of `PrivateKMeans` on held-out families, K = 4.
The true curve of a cluster is the mean of the customers nearest to its released centroid.

Printed: the share of slots, and of means over slots, in which the interval of a difference, and of
a ratio, holds the true one.
"""

import argparse
import itertools
from collections import defaultdict
from collections.abc import Iterator

import bench_families
import bench_load_shapes
import families
import numpy as np
from float_queries import with_noise_of
from global_tier_cases import DELTA, say

from wattveil.arrays import Floats
from wattveil.bundle.comparison import Comparison
from wattveil.numerics.segment_support import segment_support
from wattveil.release.group_load import load_shapes
from wattveil.release.kmeans import PrivateKMeans
from wattveil.web.curves import Curve

EPSILONS = (0.3, 1.0, 3.0)
MIN_CUSTOMERS = 50
N_CLUSTERS = 4
MAX_GROUPS = 6
Released = tuple[list[Curve], Floats]


def of_groups(load_kw: Floats, names: list[str], epsilon: float, runs: int) -> Iterator[Released]:
    """Yield released and true curves of the groups that are large enough."""
    groups = np.array(names)
    levels = sorted(set(names))
    large = [place for place, one in enumerate(levels) if (groups == one).sum() >= MIN_CUSTOMERS]
    true = np.array([load_kw[groups == levels[place]].mean(axis=0) for place in large])
    for _ in range(runs):
        found = load_shapes(load_kw, groups=names, levels=levels, epsilon=epsilon, delta=DELTA)
        drawn = [curve(found.mean_kw[place], found.std_kw[place]) for place in large]
        yield drawn[:MAX_GROUPS], true[:MAX_GROUPS]


def of_clusters(rows: Floats, epsilon: float, runs: int) -> Iterator[Released]:
    """Yield released and true curves of the supported clusters."""
    for seed in range(runs):
        with with_noise_of(seed):
            model = PrivateKMeans(n_clusters=N_CLUSTERS, epsilon=epsilon, delta=DELTA).fit(rows)
        centres, std = model.cluster_centers_, model.cluster_centers_std_
        flags = segment_support(centres, std, model.cluster_sizes_, model.cluster_sizes_std_)
        labels = np.square(rows[:, None] - centres[None]).sum(axis=2).argmin(axis=1)
        kept = [k for k in range(N_CLUSTERS) if flags.curve[k] and flags.size[k]]
        kept = [k for k in kept if (labels == k).any()]
        true = np.array([rows[labels == k].mean(axis=0) for k in kept])
        yield [curve(centres[k], std[k]) for k in kept], true


def curve(load: Floats, std: Floats) -> Curve:
    """Return a curve without a name."""
    return Curve("", 0, [str(slot) for slot in range(load.size)], load, std)


def coverage(released: Iterator[Released]) -> dict[str, float]:
    """Return the coverage of differences and ratios, by slot and of the mean."""
    inside: dict[str, list[bool]] = defaultdict(list)
    for drawn, true in released:
        for a, b in itertools.permutations(range(len(drawn)), 2):
            found = Comparison(first=drawn[a], second=drawn[b])
            for table, first, second in (
                ("slots", true[a], true[b]),
                ("mean", true[a].mean(keepdims=True), true[b].mean(keepdims=True)),
            ):
                columns = {k: v.to_numpy() for k, v in zip(*_named(found, table), strict=True)}
                low, high = columns["difference_low_kw"], columns["difference_high_kw"]
                inside[f"difference, {table}"] += list(
                    (low <= first - second) & (first - second <= high)
                )
                low, high = columns["ratio_low"], columns["ratio_high"]
                kept = ~np.isnan(low)
                ratio = first[kept] / second[kept]
                inside[f"ratio, {table}"] += list((low[kept] <= ratio) & (ratio <= high[kept]))
    return {name: float(np.mean(values)) for name, values in inside.items() if values}


def _named(found: Comparison, table: str) -> tuple[list[str], list[object]]:
    data = found.to_arrow(table)
    return data.column_names, data.columns


def main() -> None:
    """Print the coverage of each population, and its range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    seen: dict[str, list[float]] = defaultdict(list)

    def report(name: str, kind: str, epsilon: float, released: Iterator[Released]) -> None:
        found = coverage(released)
        for measure, share in found.items():
            seen[f"{kind}, {measure}"].append(share)
        texts = ", ".join(f"{measure} {share:.3f}" for measure, share in found.items())
        say(f"{kind}: {name}, epsilon {epsilon:g}: {texts}")

    for name, (load_kw, groups) in bench_load_shapes.populations().items():
        if len(set(groups)) > 1 and name not in bench_load_shapes.WIDE:
            for epsilon in EPSILONS:
                report(name, "groups", epsilon, of_groups(load_kw, groups, epsilon, runs))
    for name in families.names("held-out"):
        rows = bench_families.rows_of(name, "kw")
        if rows is not None:
            for epsilon in EPSILONS:
                report(name, "clusters", epsilon, of_clusters(rows, epsilon, runs))
    for name, shares in seen.items():
        say(f"{name}: {min(shares):.3f} to {max(shares):.3f}, mean {np.mean(shares):.3f}")


if __name__ == "__main__":
    main()
