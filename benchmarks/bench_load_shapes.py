"""Load shapes by group and load duration curves against plain clipped noise.

Run: ``python benchmarks/bench_load_shapes.py``. The real data need the data folder
(`WATTVEIL_DATA`, by default ``../shared/data`` beside the repository); without it the simulated
populations are measured alone. All figures are private: internal use only.

A shape's error is the root-mean-square over slots relative to that of the true mean: the median of
the runs, and the geometric mean over groups. The baseline adds noise to clipped sums and counts,
under the same budget, and gets the best clip of the grid in hindsight, which a release cannot know.
A band's coverage is the share of slots, groups and runs in which the 95 % band holds the true mean.
"""

import csv
import gzip
import math
import os
from collections import defaultdict
from datetime import date
from pathlib import Path

import numpy as np

from wattveil.arrays import Floats
from wattveil.privacy.guarantee import Budget, global_guarantee
from wattveil.release.group_load import load_duration_curve, load_shapes
from wattveil.simulate import DEFAULT_MIX, LONDON_MIX, simulate_attributes, simulate_kwh

DATA = Path(os.environ.get("WATTVEIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6
RUNS = 12
CLIPS = 0.125 * 2.0 ** np.arange(0.0, 15.0, 0.5)
WIDE = {"Portugal, all": (1.0, 20000.0), "mixed, all": (0.04, 2000.0), "mixed, class": (0.04, 2e3)}
GENERATOR = np.random.default_rng(0)


def main() -> None:
    """Print the tables of shapes, of their bands, and of duration curves."""
    factors, bands = [], []
    print("error of the mean, plain / ours = factor; [ours with the baseline's clip]")  # noqa: T201
    for name, (load_kw, groups) in populations().items():
        cells, covered = [], []
        for epsilon in EPSILONS:
            plain, clip = min((plain_error(load_kw, groups, epsilon, c), c) for c in CLIPS)
            own, inside = shape_error(name, load_kw, groups, epsilon, None)
            covered.append(" / ".join(f"{share:.2f}" for share in inside))
            factors.append(plain / own)
            text = f"{plain:.3f} / {own:.3f} = {plain / own:.2f}"
            if own > plain:
                given, _ = shape_error(name, load_kw, groups, epsilon, 1.3 * clip)
                text += f" [{plain / given:.2f}]"
            cells.append(text)
        bands.append(f"{name:16} {' | '.join(covered)}")
        print(f"{name:16}", " | ".join(cells), flush=True)  # noqa: T201
    mean = math.exp(np.mean(np.log(factors)))
    print(f"geometric mean {mean:.2f}, minimum {min(factors):.2f}")  # noqa: T201
    print("\ncoverage of 95 % bands: all groups, worst group, all with clipping bias")  # noqa: T201
    print("\n".join(bands), flush=True)  # noqa: T201
    print("\nduration curve: error / mean load, bias of the 10 highest and of the 10 lowest hours")  # noqa: T201
    for name, load_kw in years().items():
        for epsilon in (0.3, 1.0, 3.0):
            naive = min(
                (curve_error(naive_curve(load_kw, epsilon, c), load_kw) for c in (0.2, 0.5, 1.0)),
                key=lambda found: found[0],
            )
            curves = [curve_error(our_curve(load_kw, epsilon), load_kw) for _ in range(RUNS)]
            own = np.median(curves, axis=0)
            text = " / ".join(" ".join(f"{x:6.3f}" for x in found) for found in (naive, own))
            print(f"{name:16} epsilon {epsilon:g}: {text} = {naive[0] / own[0]:.1f}", flush=True)  # noqa: T201


def populations() -> dict[str, tuple[Floats, list[str]]]:
    """Return mean days with the group of each customer."""
    found = {}
    for name, customers, mix in (
        ("homes 1,409", 1409, LONDON_MIX),
        ("homes 10,000", 10_000, LONDON_MIX),
        ("mixed", 3000, DEFAULT_MIX),
    ):
        load_kw = simulated(customers, 14, mix).reshape(customers, 14, 24).mean(axis=1)
        public = simulate_attributes(customers=customers, mix=mix, seed=1)
        found[f"{name}, all"] = load_kw, ["all"] * customers
        for column in ("class", "zip") if mix is LONDON_MIX else ("class",):
            found[f"{name}, {column}"] = load_kw, public[column].to_pylist()
    if DATA.exists():
        days = mean_days(DATA / "lcl1014" / "lcl1014_hourly_2013_wide.csv.gz")
        london = np.array(list(days.values()))
        known = attributes(DATA / "lcl1014" / "lcl1014_meters.csv")
        found["London, all"] = london, ["all"] * len(london)
        for column in ("stdorToU", "Acorn_grouped"):
            found[f"London, {column[:5]}"] = london, [known[meter][column] for meter in days]
        folder = DATA / "lcl300_pv_semisynthetic"
        days = mean_days(folder / "lcl300_net_hourly_2013MarMay_wide.csv.gz")
        known = attributes(folder / "lcl300_pv_meters.csv")
        groups = [known[meter]["has_pv"] for meter in days]
        found["with panels"] = np.array(list(days.values())), groups
        with gzip.open(DATA / "uci203" / "uci203_hourly_wide.csv.gz", "rt") as file:
            hours = np.genfromtxt(file, delimiter=",", skip_header=1)[:984, 1:]
        clients = hours.reshape(41, 24, -1).mean(axis=0).T
        found["Portugal, all"] = clients, ["all"] * len(clients)
    return found


def years() -> dict[str, Floats]:
    """Return whole years of 8,760 hours."""
    found = {"600 simulated homes": simulated(600, 365, LONDON_MIX)}
    path = DATA / "lcl1014" / "lcl1014_hourly_2013_wide.csv.gz"
    if path.exists():
        whole = [np.array(days) for days in by_meter(path).values() if len(days) == 365]  # noqa: PLR2004
        whole = [np.where(np.isnan(days), np.nanmean(days, axis=0), days) for days in whole]
        found["London homes"] = np.array(whole).reshape(len(whole), -1)
    return found


def simulated(customers: int, days: int, mix: dict[str, float]) -> Floats:
    """Return hourly load in UTC, where every day has 24 hours."""
    return simulate_kwh(
        customers=customers,
        days=days,
        start=date(2025, 1, 1) if days > 14 else date(2025, 3, 3),  # noqa: PLR2004
        timezone="UTC",
        minutes=60,
        mix=mix,
        seed=1,
    )


def signal(epsilon: float) -> float:
    """Return mu of the whole budget."""
    units = Budget(global_guarantee(epsilon=epsilon, delta=DELTA)).rho_units
    return math.sqrt(2e-18 * units)


def relative(mean: Floats, truth: Floats) -> Floats:
    """Return each group's error relative to its mean."""
    found: Floats = np.sqrt(np.square(mean - truth).mean(axis=1) / np.square(truth).mean(axis=1))
    return found


def summary(errors: list[Floats]) -> float:
    """Return the median over runs, as geometric mean over groups."""
    return float(np.exp(np.log(np.median(errors, axis=0)).mean()))


def group_sums(rows: Floats, groups: list[str]) -> tuple[Floats, Floats]:
    """Return exact sums and numbers by group."""
    names, places = np.unique(groups, return_inverse=True)
    sums = np.zeros((names.size, rows.shape[1]))
    np.add.at(sums, places, rows)
    return sums, np.bincount(places)[:, None].astype(float)


def plain_error(load_kw: Floats, groups: list[str], epsilon: float, clip_kw: float) -> float:
    """Return the error of noisy clipped sums over noisy counts, 95 and 5 % of the budget."""
    sums, numbers = group_sums(load_kw, groups)
    truth, mu = sums / numbers, signal(epsilon)
    rms = np.sqrt(np.square(load_kw).mean(axis=1, keepdims=True))
    clipped, _ = group_sums(load_kw * np.minimum(1.0, clip_kw / np.maximum(rms, 1e-9)), groups)
    scale = clip_kw * math.sqrt(load_kw.shape[1] / 0.95) / mu
    errors = []
    for _ in range(2 * RUNS):
        counts = numbers + GENERATOR.normal(0.0, 1.0 / (mu * math.sqrt(0.05)), numbers.shape)
        noisy = clipped + GENERATOR.normal(0.0, scale, clipped.shape)
        errors.append(relative(noisy / np.maximum(counts, 1.0), truth))
    return summary(errors)


def shape_error(
    name: str, load_kw: Floats, groups: list[str], epsilon: float, clip_kw: float | None
) -> tuple[float, tuple[float, float, float]]:
    """Return the error of `load_shapes` and the coverage of its bands."""
    sums, numbers = group_sums(load_kw, groups)
    truth = sums / numbers
    options = {"plausible_kw": WIDE.get(name, (0.04, 40.0)), "clip_kw": clip_kw}
    levels = np.unique(groups).tolist()
    errors, inside, with_hidden = [], [], []
    for _ in range(RUNS):
        shapes = load_shapes(
            load_kw, groups=groups, levels=levels, epsilon=epsilon, delta=DELTA, **options
        )
        errors.append(relative(shapes.mean_kw, truth))
        away, band = truth - shapes.mean_kw, 1.96 * shapes.std_kw
        inside.append((np.abs(away) <= band).mean(axis=1))
        with_hidden.append((away >= -band) & (away <= band + shapes.max_clipping_bias_kw[:, None]))
    by_group = np.mean(inside, axis=0)
    return summary(errors), (by_group.mean(), by_group.min(), float(np.mean(with_hidden)))


def naive_curve(load_kw: Floats, epsilon: float, clip_kw: float) -> Floats:
    """Add noise to each hour of the clipped aggregate, then sort."""
    rms = np.sqrt(np.square(load_kw).mean(axis=1, keepdims=True))
    total = (load_kw * np.minimum(1.0, clip_kw / rms)).sum(axis=0)
    scale = clip_kw * math.sqrt(total.size) / signal(epsilon)
    return -np.sort(-(total + GENERATOR.normal(0.0, scale, total.size)))


def our_curve(load_kw: Floats, epsilon: float) -> Floats:
    """Release a duration curve."""
    return load_duration_curve(load_kw, epsilon=epsilon, delta=DELTA).load_kw[0]


def curve_error(curve: Floats, load_kw: Floats) -> tuple[float, float, float]:
    """Return relative error, and the relative bias of the ten highest and ten lowest hours."""
    truth = -np.sort(-load_kw.sum(axis=0))
    ends = (curve[part].mean() / truth[part].mean() - 1.0 for part in (slice(10), slice(-10, None)))
    return (float(np.sqrt(np.square(curve - truth).mean()) / truth.mean()), *ends)


def by_meter(path: Path) -> dict[str, list[list[float]]]:
    """Read meter, date and 24 hours per line."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    with gzip.open(path, "rt") as file:
        lines = csv.reader(file)
        next(lines)
        for meter, _, *hours in lines:
            found[meter].append([float(hour or "nan") for hour in hours])
    return found


def mean_days(path: Path) -> dict[str, Floats]:
    """Return the mean day of each meter."""
    return {meter: np.nanmean(days, axis=0) for meter, days in by_meter(path).items()}


def attributes(path: Path) -> dict[str, dict[str, str]]:
    """Read the attributes of each meter."""
    with path.open() as file:
        return {line["meter_id"]: line for line in csv.DictReader(file)}


if __name__ == "__main__":
    main()
