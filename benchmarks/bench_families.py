"""Loss and coverage of private K-means on the families of roughness, against another version.

Run: ``python benchmarks/bench_families.py [--split held-out] [--runs 24] [--save FILE]``. Each run
has noise of its own seed, and queries of the same name have the same noise in every version, so
that two versions are compared under the same noise. To compare with an older version, save its runs
first and name them in ``--against``::

    PYTHONPATH=old/src python benchmarks/bench_families.py --save old.json
    python benchmarks/bench_families.py --against old.json

``--set NAME=VALUE`` changes a constant of `kmeans_tuning`, to choose it on the tuning families.

The output has for each family, kind (shape or kW) and epsilon: mean loss (r - r*) / r*, its ratio
to the older version, coverage of the 95 % bands of centroids (truth: mean of the rows nearest the
released centroid) and of sizes, the number of distinguishable clusters, and wild runs (above three
medians + 0.02). K = 6, delta = 1e-6.
"""

import argparse
import ast
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import families
import numpy as np
from float_queries import with_noise_of
from global_tier_cases import DELTA, say
from populations import normalised
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import clustering_loss
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.release.kmeans import PrivateKMeans

EPSILONS = (0.3, 1.0, 3.0)
N_CLUSTERS = 6
KINDS = ("shape", "kw")
Z95 = 1.959964
Key = tuple[str, str, float]
Runs = dict[Key, list[dict[str, float]]]


@cache
def rows_of(name: str, kind: str) -> Floats | None:
    """Return the rows that are clustered, or None if there are none of this kind."""
    loaded = families.load(name)
    if loaded is None or (kind == "kw" and not families.FAMILIES[name].has_sizes):
        return None
    rows = loaded.rows[loaded.rows.any(axis=1)]
    return normalised(rows) if kind == "shape" else rows


@cache
def reference(name: str, kind: str) -> float:
    """Return the loss of scikit-learn's best of ten starts, from the cache if it is there."""
    stored = families.CACHE / "references.json"
    known = json.loads(stored.read_text()) if stored.exists() else {}
    key = f"{name}, {kind}, {N_CLUSTERS}"
    if key not in known:
        rows = rows_of(name, kind)
        assert rows is not None
        with threadpool_limits(limits=1):
            fit = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit(rows)
        known[key] = float(fit.inertia_) / len(rows)
        stored.write_text(json.dumps(known, indent=1))
    return float(known[key])


def one_run(name: str, kind: str, epsilon: float, seed: int) -> dict[str, float]:
    """Return loss, coverage and support of one release."""
    rows = rows_of(name, kind)
    assert rows is not None
    with with_noise_of(seed):
        model = PrivateKMeans(
            n_clusters=N_CLUSTERS, epsilon=epsilon, delta=DELTA, normalise=kind == "shape"
        ).fit(rows)
    centres = model.cluster_centers_
    labels = np.square(rows[:, None] - centres[None]).sum(axis=2).argmin(axis=1)
    counts = np.bincount(labels, minlength=N_CLUSTERS)
    inside = [
        np.abs(rows[labels == k].mean(axis=0) - centres[k]) <= Z95 * model.cluster_centers_std_[k]
        for k in np.flatnonzero(counts)
    ]
    sized = np.abs(counts - model.cluster_sizes_) <= Z95 * model.cluster_sizes_std_
    return {
        "loss": clustering_loss(rows, centres) / reference(name, kind) - 1.0,
        "curves": float(np.mean(inside)),
        "sizes": float(sized.mean()),
        "distinguishable": float(model.n_distinguishable_),
    }


def measure(chosen: list[str], kinds: list[str], epsilons: list[float], runs: int) -> Runs:
    """Return the runs of all cells."""
    found: Runs = {}
    for name in chosen:
        for kind in kinds:
            if rows_of(name, kind) is None:
                continue
            for epsilon in epsilons:
                found[name, kind, epsilon] = [
                    one_run(name, kind, epsilon, seed) for seed in range(runs)
                ]
    return found


def column(runs: list[dict[str, float]], name: str) -> Floats:
    """Return one measure of all runs."""
    return np.array([run[name] for run in runs])


def report(found: Runs, older: Runs) -> None:
    """Print a line per cell, and means by kind."""
    say(
        "| family | kind | epsilon | loss | ratio | curves covered | sizes covered | "
        "distinguishable | wild |"
    )
    say("|---" * 9 + "|")
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    covered: dict[str, list[tuple[float, float]]] = defaultdict(list)
    wild: dict[str, list[float]] = defaultdict(list)
    for key, runs in found.items():
        name, kind, epsilon = key
        losses = column(runs, "loss")
        old = column(older[key][: len(runs)], "loss") if key in older else losses
        ratio = max(losses.mean(), 1e-3) / max(old.mean(), 1e-3)
        for group in (f"{epsilon:g}", "all"):
            ratios[kind, group].append(ratio)
        both = column(runs, "curves"), column(runs, "sizes")
        covered[kind].append((both[0].mean(), both[1].mean()))
        is_wild = losses > 3.0 * np.median(losses) + 0.02
        wild[kind].extend(is_wild)
        curves, sizes = (f"{one.mean():.3f}" for one in both)
        say(
            f"| {name} | {kind} | {epsilon:g} | {losses.mean():.4f} | {ratio:.2f} | {curves} | "
            f"{sizes} | {column(runs, 'distinguishable').mean():.1f} | {int(is_wild.sum())} |"
        )
    for (kind, group), some in ratios.items():
        say(f"{kind}, epsilon {group}: geometric mean of ratios {np.exp(np.log(some).mean()):.3f}")
    for kind, pairs in covered.items():
        curves, sizes = np.mean(pairs, axis=0)
        share = float(np.mean(wild[kind]))
        say(f"{kind}: curves {curves:.3f}, sizes {sizes:.3f} covered; wild runs {share:.4f}")


def save(found: Runs, path: Path) -> None:
    """Write the runs of all cells."""
    path.write_text(json.dumps([[*key, runs] for key, runs in found.items()]))


def saved(path: Path) -> Runs:
    """Return the runs of a file."""
    cells: list[Any] = json.loads(path.read_text())
    return {(name, kind, epsilon): runs for name, kind, epsilon, runs in cells}


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=["tuning", "held-out"], default="held-out")
    parser.add_argument("--large", action="store_true", help="families of 5,000 customers or more")
    parser.add_argument("--families", help="only names that contain one of these, with slashes")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    for text in options.set:
        name, value = text.split("=")
        assert hasattr(kmeans_tuning, name), name
        setattr(kmeans_tuning, name, ast.literal_eval(value))
    chosen = families.names(options.split, large=options.large)
    if options.families:
        parts = options.families.split("/")
        chosen = [name for name in chosen if any(part in name for part in parts)]
    epsilons = [float(one) for one in options.epsilons.split(",")]
    found = measure(chosen, options.kinds.split(","), epsilons, options.runs)
    if options.save:
        save(found, options.save)
    report(found, saved(options.against) if options.against else {})


if __name__ == "__main__":
    main()
