"""Calibrate the standard errors of centroids on the tuning families: the constants of bands.

Run: ``python benchmarks/fit_bands.py [--runs 8] [--split held-out]``. Releases of the families are
made without factors. Each slot of each cluster then has z, the distance of the released centroid
from the mean of the rows nearest to it in standard errors. Factors are chosen such that |z| is
below 1.96 times the factor in 95 % of slots at every count and, in kW, at every size, with and
without export; they are fitted in turn (`numerics.kmeans.band_calibration`). The output are the
constants of `kmeans_tuning`, and the coverage of each family with those in force. With ``--split
held-out`` nothing is fitted.
"""

import argparse
from typing import Any
from unittest import mock

import bench_families
import families
import numpy as np
from float_queries import with_noise_of
from global_tier_cases import DELTA, say

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import band_calibration, kmeans_tuning, rough_coordinates
from wattveil.release.kmeans import PrivateKMeans

ROUNDS = 4
Record = dict[str, Any]


def collect(split: families.Split, runs: int) -> list[Record]:
    """Return a record per cluster: family, kind, count and z of each slot."""
    found: list[Record] = []
    for name in families.names(split):
        for kind in bench_families.KINDS:
            rows = bench_families.rows_of(name, kind)
            if rows is None:
                continue
            for epsilon in bench_families.EPSILONS:
                for seed in range(runs):
                    found += _clusters(rows, kind, epsilon, seed, {"family": name, "kind": kind})
    return found


def _clusters(
    rows: Floats, kind: str, epsilon: float, seed: int, own: dict[str, str]
) -> list[Record]:
    """Return the records of one release."""
    with (
        with_noise_of(seed),
        mock.patch.object(
            rough_coordinates, "band_factors", lambda centres, *_, **__: np.ones(len(centres))
        ),
    ):
        model = PrivateKMeans(
            n_clusters=bench_families.N_CLUSTERS,
            epsilon=epsilon,
            delta=DELTA,
            normalise=kind == "shape",
        ).fit(rows)
    centres, counts = model.cluster_centers_, model.cluster_sizes_
    noise = np.square(model.cluster_sizes_std_) - np.square(kmeans_tuning.COUNT_BIAS * counts)
    counts_std = np.sqrt(noise)
    labels = np.square(rows[:, None] - centres[None]).sum(axis=2).argmin(axis=1)
    sizes, exports = band_calibration.sizes_and_exports(centres, counts)
    factors = band_calibration.band_factors(centres, counts, counts_std, is_shape=kind == "shape")
    return [
        {
            **own,
            "known": float(counts[k] / counts_std[k]),
            "size": float(sizes[k]),
            "exports": bool(exports[k]),
            "factor": float(factors[k]),
            "z": np.abs(rows[labels == k].mean(axis=0) - centres[k])
            / model.cluster_centers_std_[k],
        }
        for k in np.unique(labels)
    ]


def fit(records: list[Record], kind: str) -> None:
    """Print the constants of one kind."""
    is_shape = kind == "shape"
    own = [one for one in records if one["kind"] == kind]
    known, sizes = (np.array([one[name] for one in own]) for name in ("known", "size"))
    exports = np.array([one["exports"] for one in own])
    bias_at = kmeans_tuning.SHAPE_BIAS_AT if is_shape else kmeans_tuning.LOAD_BIAS_AT
    bias = np.sqrt(1.0 + np.square(known / bias_at))
    counts, knots = np.array(kmeans_tuning.BAND_COUNTS), np.array(kmeans_tuning.BAND_SIZES)
    by_count, by_size, of_exports = np.ones(counts.size), np.ones(knots.size), 1.0
    for _ in range(1 if is_shape else ROUNDS):
        rest = bias * np.interp(sizes, knots, by_size) * np.where(exports, of_exports, 1.0)
        by_count = _at_knots(own, known, rest, counts)
        if not is_shape:
            rest = bias * np.interp(known, counts, by_count) * np.where(exports, of_exports, 1.0)
            by_size = _at_knots(own, sizes, rest, knots)
            rest = bias * np.interp(known, counts, by_count) * np.interp(sizes, knots, by_size)
            of_exports = _needed(own, exports, rest) / _needed(own, ~exports, rest)
    say(f"{kind}: by count {np.round(by_count, 2).tolist()}")
    if not is_shape:
        say(f"{kind}: by size {np.round(by_size, 2).tolist()}, exports {of_exports:.2f}")


def _at_knots(own: list[Record], values: Floats, rest: Floats, knots: Floats) -> Floats:
    """Return the factor that the clusters nearest each knot need."""
    nearest = np.abs(values[:, None] - knots).argmin(axis=1)
    return np.array([_needed(own, nearest == place, rest) for place in range(knots.size)])


def _needed(own: list[Record], chosen: Any, rest: Floats) -> float:  # noqa: ANN401 - a mask
    """Return the 95 % quantile of |z| over its factor, in 1.96; every cluster counts the same."""
    places = np.flatnonzero(chosen)
    z = np.concatenate([np.array(own[i]["z"]) / rest[i] for i in places])
    weights = np.concatenate([np.full(len(own[i]["z"]), 1.0 / len(own[i]["z"])) for i in places])
    order = np.argsort(z)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(z[order][np.searchsorted(share, 0.95)] / bench_families.Z95)


def report(records: list[Record]) -> None:
    """Print the coverage of each family with the constants in force."""
    covered: dict[tuple[str, str], list[float]] = {}
    for one in records:
        inside = np.mean(one["z"] <= bench_families.Z95 * one["factor"])
        covered.setdefault((one["kind"], one["family"]), []).append(float(inside))
    for (kind, name), shares in covered.items():
        say(f"{kind}, {name}: {np.mean(shares):.3f}")
    for kind in bench_families.KINDS:
        means = [np.mean(shares) for (own, _), shares in covered.items() if own == kind]
        say(f"{kind}: {np.mean(means):.3f}, families from {min(means):.3f} to {max(means):.3f}")


def main() -> None:
    """Read the arguments, collect, fit and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=["tuning", "held-out"], default="tuning")
    parser.add_argument("--runs", type=int, default=8)
    options = parser.parse_args()
    records = collect(options.split, options.runs)
    if options.split == "tuning":
        for kind in bench_families.KINDS:
            fit(records, kind)
    report(records)


if __name__ == "__main__":
    main()
