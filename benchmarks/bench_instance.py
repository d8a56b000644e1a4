"""Effect of each public parameter of the instance tier on the clustering loss, on real homes.

Run: ``python benchmarks/bench_instance.py``. Needs the data folder (`WATTVEIL_DATA`, by default
``../shared/data`` beside the repository). All figures are private: internal use only.

The loss is that of the centroids, r(X, c~) / r(X, c) - 1 with every customer at the nearest
centroid, measured on the customers and in the coordinates that were clustered; median of the runs.
"""

import gzip
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattveil.errors import WeakGuaranteeWarning
from wattveil.numerics.kmeans.instance_query import Transform, clip_rms
from wattveil.privacy.opening import reveal
from wattveil.release.instance import LeaveOneOutKMeans

DATA = Path(os.environ.get("WATTVEIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
RUNS = 5
FILES = {
    "London, 1,014 homes": "lcl1014/lcl1014_hourly_2013_wide.csv.gz",
    "Portugal, 203 clients": "uci203/uci203_hourly_wide.csv.gz",
}
CHOICES: dict[str, dict[str, object]] = {
    "as the paper": {"min_cluster_size": 0},
    "min_cluster_size 2": {"min_cluster_size": 2},
    "min_cluster_size 20": {"min_cluster_size": 20},
    "clip at the median rms": {"clip_kw": None},
    "asinh, 0.25 kW": {"load_transform": "asinh", "transform_kw": 0.25},
    "asinh and 20": {"load_transform": "asinh", "transform_kw": 0.25, "min_cluster_size": 20},
}


def main() -> None:
    """Print one table per data set."""
    for name, file in FILES.items():
        path = DATA / file
        if not path.exists():
            sys.exit(f"{path} is not there: set WATTVEIL_DATA")
        load_kw = mean_days(path)
        median_rms = float(np.median(np.sqrt(np.square(load_kw).mean(axis=1))))
        print(f"\n{name}: K = 6, epsilon_c = 1, delta_c = 1e-6")  # noqa: T201
        print(f"{'choice':24} {'white':>9} {'coloured':>9} {'trace ratio':>12}  sizes")  # noqa: T201
        for label, choice in CHOICES.items():
            options = {**choice, "clip_kw": median_rms} if "clip_kw" in choice else choice
            white, _ = loss(load_kw, noise="white", **options)
            coloured, fitted = loss(load_kw, noise="coloured", **options)
            inside = reveal(fitted.diagnostics_)
            sizes = sorted(inside.sizes.tolist())
            print(  # noqa: T201
                f"{label:24} {white:9.3g} {coloured:9.3g} {inside.white_trace_ratio:12.4f}  {sizes}"
            )


def loss(load_kw: NDArray[np.float64], **options: object) -> tuple[float, LeaveOneOutKMeans]:
    """Return the median loss of some releases, and the last of them."""
    losses = []
    for run in range(RUNS):
        model = LeaveOneOutKMeans(epsilon_c=1.0, delta_c=1e-6, random_state=run, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakGuaranteeWarning)
            model.fit(load_kw)
        rows = load_kw if model.clip_kw is None else clip_rms(load_kw, model.clip_kw)
        transform = Transform(name=model.load_transform, scale_kw=model.transform_kw)
        exact = reveal(model.diagnostics_).centroids
        released = transform.forward(model.cluster_centers_)
        rows = transform.forward(rows)
        losses.append(distortion(rows, released) / distortion(rows, exact) - 1.0)
    return float(np.median(losses)), model


def distortion(rows: NDArray[np.float64], centroids: NDArray[np.float64]) -> float:
    """Return the mean squared distance to the nearest centroid."""
    distances = [np.square(rows - centroid).sum(axis=1) for centroid in centroids]
    return float(np.min(distances, axis=0).mean())


def mean_days(path: Path) -> NDArray[np.float64]:
    """Return the mean day of each customer in kW, 24 hours."""
    with gzip.open(path, "rt") as lines:
        header = next(lines).rstrip("\n").split(",")
        table = [line.rstrip("\n").split(",") for line in lines]
    if header[0] == "timestamp":  # one column per customer, one row per hour
        hours = np.array([row[1:] for row in table], dtype=np.float64)
        days = hours[: len(hours) // 24 * 24].reshape(-1, 24, hours.shape[1])
        return np.ascontiguousarray(days.mean(axis=0).T)
    days_of: dict[str, list[list[str]]] = {}  # one row per customer and day
    for row in table:
        if "" not in row:
            days_of.setdefault(row[0], []).append(row[2:])
    return np.array([np.array(days, dtype=np.float64).mean(axis=0) for days in days_of.values()])


if __name__ == "__main__":
    main()
