"""The minimum-trace ellipsoid against CVXPY, and at sizes that CVXPY does not reach.

Run: ``python benchmarks/bench_ellipsoid.py [--large]``. The first table has the time of the same
program in CVXPY over ours, and both traces; the second the gap and time at larger sizes.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import cvxpy as cp
import numpy as np
from clustered_profiles import clustered_profiles

from wattveil.arrays import Floats
from wattveil.numerics.kmeans.lloyd import k_means
from wattveil.numerics.leave_one_out.ellipsoid import (
    Ellipsoid,
    leave_one_out_ellipsoid,
    minimum_trace_ellipsoid,
)
from wattveil.numerics.leave_one_out.leave_one_out_runs import LeaveOneOut, leave_one_out

SCS_SECONDS = 100


def runs_of_loads(n_points: int, d: int) -> LeaveOneOut:
    """Return the leave-one-out runs of load-like points in six clusters."""
    points = clustered_profiles(n_points, d, 6, seed=0)
    fit = k_means(points, 6, seed=np.random.default_rng(0), n_init=2)
    return leave_one_out(points, fit)


def single_moves(runs: LeaveOneOut, count: int) -> LeaveOneOut:
    """Return the first removals that move one centroid only."""
    kept = np.setdiff1d(np.arange(runs.labels.size), runs.other_removal)[:count]
    return replace(
        runs,
        labels=runs.labels[kept],
        own_shift=runs.own_shift[kept],
        other_removal=runs.other_removal[:0],
        other_cluster=runs.other_cluster[:0],
        other_shift=runs.other_shift[:0],
    )


def timed(call: Callable[[], Ellipsoid]) -> tuple[Ellipsoid, float]:
    """Return what a call returns and its seconds."""
    begin = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begin


def by_cvxpy(differences: Floats, **options: object) -> tuple[float, float]:
    """Return the trace and the seconds of the program: min tr T, [[T, I], [I, G]] >= 0."""
    d = differences.shape[1]
    unit = np.linalg.norm(differences, axis=1).max()
    rows = differences / unit
    both = cp.Variable((2 * d, 2 * d), PSD=True)
    forms = cp.sum(cp.multiply(rows @ both[d:, d:], rows), axis=1)
    problem = cp.Problem(
        cp.Minimize(cp.trace(both[:d, :d])), [both[:d, d:] == np.eye(d), forms <= 1]
    )
    begin = time.perf_counter()
    problem.solve(**options)
    seconds = time.perf_counter() - begin
    precision = both.value[d:, d:]
    worst = np.einsum("pi,ij,pj->p", rows, precision, rows).max()
    return float(np.trace(np.linalg.inv(precision / worst))) * unit**2, seconds


def main() -> None:
    """Print the tables."""
    runs = single_moves(runs_of_loads(1_600, 25), 1_409)
    differences = np.stack([runs.difference(p).ravel() for p in range(1_409)])
    minimum_trace_ellipsoid(differences[:200], gamma_c=1.0)  # compiles
    joint, joint_seconds = timed(lambda: minimum_trace_ellipsoid(differences, gamma_c=1.0))
    blocks, block_seconds = timed(lambda: leave_one_out_ellipsoid(runs, gamma_c=1.0))
    white = differences.shape[1] * np.square(differences).sum(axis=1).max()
    print(f"Kd = 150, 1,409 columns: white / coloured {white / joint.trace:.1f}")  # noqa: T201
    print(f"  joint   gap {joint.gap:.1e}  trace {joint.trace:.6g}")  # noqa: T201
    print(f"  blocks  gap {blocks.gap:.1e}  trace {blocks.trace:.6g}")  # noqa: T201
    # No removal here moves two centroids, so K programs in R^25 have the same optimum; Clarabel
    # cannot hold the joint one, and SCS is given a limit.
    parts = [
        by_cvxpy(runs.own_shift[runs.labels == k], solver=cp.CLARABEL)
        for k in range(runs.n_clusters)
    ]
    trace, seconds = (sum(column) for column in zip(*parts, strict=True))
    print(  # noqa: T201
        f"  CVXPY + Clarabel, K programs: trace / ours {trace / joint.trace:.6f}, "
        f"time / joint {seconds / joint_seconds:.0f}, time / blocks {seconds / block_seconds:.0f}"
    )
    trace, seconds = by_cvxpy(differences, solver=cp.SCS, eps=1e-4, time_limit_secs=SCS_SECONDS)
    print(  # noqa: T201
        f"  CVXPY + SCS, joint, {SCS_SECONDS} s: trace / ours {trace / joint.trace:.4f}, "
        f"time / joint {seconds / joint_seconds:.0f}"
    )
    if "--large" not in sys.argv:
        return
    generator = np.random.default_rng(0)
    mixing = generator.normal(size=(576, 576)) * np.exp(-np.arange(576) / 100.0)[:, None]
    wide = generator.standard_t(6, size=(100_000, 576)) @ mixing
    runs = runs_of_loads(100_000, 96)
    many = generator.standard_t(6, size=(1_000_000, 24)) * np.exp(generator.normal(size=24))
    for name, call in {
        "K = 6, d = 96, 100,000 removals": lambda: leave_one_out_ellipsoid(
            runs, gamma_c=1.0, gap=1e-3
        ),
        "R^576, 100,000 columns": lambda: minimum_trace_ellipsoid(wide, gamma_c=1.0, gap=1e-3),
        "R^24, 1,000,000 columns": lambda: minimum_trace_ellipsoid(many, gamma_c=1.0),
    }.items():
        result, seconds = timed(call)
        print(f"{name}: gap {result.gap:.1e}, {seconds:.1f} s, rounds {result.rounds}")  # noqa: T201


if __name__ == "__main__":
    main()
