"""Accuracy of a series of periods under one budget, against what else a budget could be used for.

Run: ``python benchmarks/bench_series.py [load | flat | segments | bands | kernel] [--customers N]
[--epsilon E …] [--runs N] [--months M] [--seed S] [--homes FILE] [--pool P] [--share X]``.
``load``: mean load by group, slope of the evening load (17 to 21 h), coverage of the bands;
``flat``: the same without any trend, which shows false trends; ``segments``: six clusters of daily
shapes, through the kernel, with the share of the budget that `wattveil series` gives to them, or X;
``bands``: their bands alone; ``kernel``: load by group through the kernel and in floating point, on
the same customers.
``--customers 0`` takes the London homes of `WATTVEIL_DATA` in months. Other homes are simulated
over five years with seed P (202; constants were chosen on seed 101) and stored in FILE for the next
call; each run draws customers, joins, leavers and adopters anew, with seed S and those after it.

Baselines spend the same epsilon: ``independent`` releases every period with rho / T, ``+ filter``
filters these over periods, ``yearly`` releases each year once. The mechanism of ``load`` and
``flat`` is that of the kernel in floating point (`float_series`), which is three times as fast.
Every cell is one line of the output.
"""

import argparse
import math
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from float_series import FloatSeries
from measured_homes import london_home_months
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from wattveil import PrivateKMeans
from wattveil.arrays import Bools, Floats, Ints
from wattveil.calibration import gaussian_epsilon
from wattveil.engines.local import load_rows
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.numerics.load_basis import Calendar, row_basis
from wattveil.numerics.series.centres import LENGTH_EDGES, SeriesRadii, choose_radii
from wattveil.numerics.series.period_filter import Observed, filter_periods
from wattveil.numerics.series.smoothing import (
    FirstEstimate,
    Levels,
    PeriodMeans,
    SeriesCounts,
    SeriesSums,
    coordinate_sizes,
    duration_curves,
    levels,
    period_means,
    smooth_counts,
    smooth_means,
    trend,
)
from wattveil.numerics.series.strategy import (
    design_membership_strategy,
    design_strategy,
    has_trend,
    slope_weights,
)
from wattveil.numerics.series.warm_clusters import published_curves
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import Budget, global_guarantee
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.release import load_series
from wattveil.release.group_load import release_means
from wattveil.release.load_series import (
    MEMBERS,
    ReleasedSeries,
    SeriesDesign,
    release_load_period,
)
from wattveil.release.queries import KMeansQueries
from wattveil.release.rows.load_features import calendar_coordinates
from wattveil.release.segment_series import (
    SegmentDesign,
    SegmentPeriod,
    all_segments,
    release_segments,
)
from wattveil.simulate.simulated_series import HomeMonths, simulate_home_months, simulate_series

DELTA, POOL_HOMES, N_CLUSTERS, BAND = 1e-6, 3200, 6, 1.96
FIRST_SHARE, LENGTHS_SHARE, COUNT_SHARE = 0.15, 0.02, 0.06
LIMITS = (None, None, (0.04, 40.0))
CALENDAR = Calendar(n_days=1, n_slots=24, n_coordinates=24)
CURVES = CALENDAR.colour[:, None] * CALENDAR.weights
EVENING = np.bincount(np.arange(17, 21), minlength=24) / 4.0
EXHAUSTED = 0.98
TAILS = (0.05, 0.95)
Figures = dict[str, list[object]]


def main() -> None:
    """Run the chosen cells."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="load", choices=[*MEASURED])
    parser.add_argument("--customers", type=int, default=1400)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--months", type=int, default=3, help="months per period")
    parser.add_argument("--seed", type=int, default=5000, help="of the customers of the first run")
    parser.add_argument("--pool", type=int, default=202, help="seed of the homes, if FILE is new")
    parser.add_argument("--homes", type=Path, default=Path("series_homes.npz"))
    parser.add_argument("--share", type=float, default=load_series.SEGMENTS_SHARE)
    options = parser.parse_args()
    load_series.SEGMENTS_SHARE = options.share
    homes = stored_homes(options.homes, seed=options.pool) if options.customers else None
    measure, report = MEASURED[options.what]
    found: dict[float, Figures] = {epsilon: defaultdict(list) for epsilon in options.epsilon}
    for run in range(options.runs):
        data = population(homes, options, run)
        for epsilon, figures in found.items():
            rng = np.random.default_rng([202, options.seed + run])
            measure(data, epsilon, rng, figures)
            cell = f"{options.what} {options.customers or 'London'} epsilon {epsilon:g}"
            print(f"{cell} runs {run + 1}: {report(figures)}", flush=True)  # noqa: T201


def stored_homes(path: Path, *, seed: int) -> HomeMonths:
    """Return the simulated homes of a file, which is written if it is missing."""
    if not path.exists():
        homes = simulate_home_months(customers=POOL_HOMES, seed=seed)
        np.savez(path, **vars(homes))
    with np.load(path) as stored:
        return HomeMonths(**{name: stored[name] for name in stored.files})


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Customers over periods."""

    load_kw: Floats
    """(customers, periods, 24)"""
    groups: Ints
    per_year: int

    @cached_property
    def exact(self) -> list[tuple[float, Floats]]:
        """Exact K-means of each period, the same for every epsilon."""
        return exact_clusters(self.load_kw)


def population(homes: HomeMonths | None, options: argparse.Namespace, run: int) -> Population:
    """Return the customers of a run."""
    if homes is None:
        months = london_home_months()
        return Population(load_kw=months, groups=np.zeros(len(months), dtype=np.int64), per_year=12)
    drawn = simulate_series(
        homes,
        customers=options.customers,
        months_per_period=options.months,
        trend=options.what != "flat",
        seed=options.seed + run,
    )
    # Two per cent work at night: too few for a group of their own among 1,400.
    names = [name for name in drawn.levels if name != "night_shift"]
    place = [names.index(name if name in names else "retired") for name in drawn.levels]
    return Population(
        load_kw=drawn.load_kw,
        groups=np.array(place)[drawn.groups],
        per_year=drawn.periods_per_year,
    )


def rho_of(epsilon: float) -> float:
    """Return the budget of a guarantee."""
    units = Budget(global_guarantee(epsilon=epsilon, delta=DELTA)).rho_units
    return units / accounting.RHO_UNITS


def epsilon_of(rho: float) -> float:
    """Return the epsilon of a part of a budget."""
    return gaussian_epsilon(s=math.sqrt(2.0 * rho) * (1.0 - 1e-6), delta=DELTA)


class LoadRun:
    """Mean load by group through the series mechanism: everything that a release would show."""

    def __init__(
        self, load_kw: Floats, groups: Ints, per_year: int, rho: float, rng: np.random.Generator
    ) -> None:
        customers, horizon = load_kw.shape[:2]
        self.per_year, self.n_groups = per_year, int(groups.max()) + 1
        here = np.isfinite(load_kw[:, :, 0])
        coordinates = [
            calendar_coordinates(np.ascontiguousarray(load_kw[:, t]), CALENDAR.curves)[0]
            for t in range(horizon)
        ]
        first = self._first(load_kw[:, 0], groups, FIRST_SHARE * rho)
        left = (1.0 - FIRST_SHARE - LENGTHS_SHARE) * rho
        strategy = design_strategy(horizon=horizon, periods_per_year=per_year)
        members = design_membership_strategy(horizon=horizon, periods_per_year=per_year)
        shape = {"customers": customers, "generator": rng}
        sums = FloatSeries(strategy, rho=(1.0 - COUNT_SHARE) * left, width=24, **shape)
        counts = FloatSeries(members, rho=COUNT_SHARE * left, width=1, **shape)
        centre = first.mean
        apart = np.linalg.norm(coordinates[0] - centre[groups], axis=1)[here[:, 0]]
        lengths_std = math.sqrt(1.0 / (2.0 * LENGTHS_SHARE * rho))
        places = np.searchsorted(LENGTH_EDGES, apart / first.typical_kw[groups[here[:, 0]]])
        lengths = np.bincount(places, minlength=21) + rng.normal(0.0, lengths_std, 21)
        self.radii: SeriesRadii = choose_radii(
            lengths,
            lengths_std=lengths_std,
            typical_kw=first.typical_kw,
            customers=first.customers,
            level_std=sums.sums_std * math.sqrt(np.square(strategy.feedback).sum(axis=1).mean()),
        )
        radii = self.radii.radii_kw
        seen, counted, centres, published, numbers = [], [], [], [], []
        for t in range(horizon):
            offsets = (coordinates[t] - centre[groups]) / radii[groups, None]
            centres.append(centre)
            seen.append(sums.add(np.where(here[:, t, None], offsets, 0.0), groups, self.n_groups))
            present = here[:, t, None].astype(np.float64)
            counted.append(counts.add(present, groups, self.n_groups)[:, 0])
            shared = {"periods_per_year": per_year, "released": np.ones(t + 1, dtype=np.bool_)}
            number = smooth_counts(
                SeriesCounts(
                    strategy=members,
                    sums=np.array(counted),
                    sums_std=counts.sums_std,
                    **shared,
                ),
                first=first.customers,
                first_std=first.customers_std,
            )
            series = SeriesSums(
                strategy=strategy,
                sums=np.array(seen),
                sums_std=sums.sums_std,
                centres=np.array(centres),
                radii_kw=radii,
                **shared,
            )
            found = smooth_means(series, first, customers=number.mean, calendar=CALENDAR)
            shown = levels(found, calendar=CALENDAR, clipping=self.radii.level_clipping)
            published.append((shown.mean_kw[:, t], shown.std_kw[:, t]))
            numbers.append((number.mean[:, t], number.std[:, t]))
            centre = found.mean.reshape(self.n_groups, 24, -1)[:, :, t + 1]
        self.customers = number.mean[:, :horizon]
        self.means: PeriodMeans = period_means(series, customers=self.customers)
        self.mean_kw, self.std_kw = (
            np.stack(part, axis=1) for part in zip(*published, strict=True)
        )
        self.counts, self.counts_std = (
            np.stack(part, axis=1) for part in zip(*numbers, strict=True)
        )
        self.exhausted = float((sums.used > EXHAUSTED).mean())

    def _first(self, load_kw: Floats, groups: Ints, rho: float) -> FirstEstimate:
        """Release the first estimate."""
        shapes, means, calendar = release_means(
            load_kw,
            groups,
            list(range(self.n_groups)),
            cost=(epsilon_of(rho), DELTA),
            limits=LIMITS,
        )
        variance = means.variance / np.square(calendar.colour)
        shared = np.square(means.counted) + np.square(means.missed)
        variance[:, 0] += shared * np.square(means.mean[:, 0])
        return FirstEstimate(
            mean=means.mean / calendar.colour,
            variance=variance,
            typical_kw=np.maximum(shapes.mean_kw.mean(axis=1), 0.05),
            customers=shapes.customers,
            customers_std=shapes.customers_std,
        )


def load_run(data: Population, epsilon: float, rng: np.random.Generator, figures: Figures) -> None:
    """Add the figures of one run."""
    load_kw, groups, per_year = data.load_kw, data.groups, data.per_year
    n_groups, horizon, rho = int(groups.max()) + 1, load_kw.shape[1], rho_of(epsilon)
    truth = np.array([np.nanmean(load_kw[groups == group], axis=0) for group in range(n_groups)])
    numbers = np.array(
        [np.isfinite(load_kw[groups == group, :, 0]).sum(axis=0) for group in range(n_groups)]
    )
    cost = (epsilon_of(rho / horizon), DELTA)
    names = list(range(n_groups))
    alone = [
        release_means(load_kw[:, t], groups, names, cost=cost, limits=LIMITS)[0]
        for t in range(horizon)
    ]
    mean, std = (
        np.stack([getattr(one, f"{x}_kw") for one in alone], axis=1) for x in ("mean", "std")
    )
    figures["independent"].append(relative(mean, truth))
    figures["independent covered"].append(np.abs(mean - truth) <= BAND * std)
    some = np.unique(np.linspace(horizon // 4, horizon - 1, 4).astype(np.int64))
    smooth = np.stack([filtered(mean, std, t, per_year) for t in some], axis=1)
    figures["filtered"].append(relative(smooth, truth[:, some]))
    run = LoadRun(load_kw, groups, per_year, rho, rng)
    figures["series"].append(relative(run.mean_kw, truth))
    figures["covered"].append(np.abs(run.mean_kw - truth) <= BAND * run.std_kw)
    figures["duration covered"].append(duration_covered(run, truth, numbers))
    figures["exhausted"].append(run.exhausted)
    if not has_trend(horizon=horizon, periods_per_year=per_year):
        return
    slope = slope_weights(horizon=horizon, periods_per_year=per_year)
    true_slope = truth @ EVENING @ slope
    size = truth.mean(axis=(1, 2))
    found = trend(
        run.means,
        released=np.ones(horizon, dtype=np.bool_),
        periods_per_year=per_year,
        weights=CURVES @ EVENING,
        clipping_kw=run.radii.trend_clipping_kw(run.customers.mean(axis=1)),
    )
    below, above = found.band
    figures["slope"].append((found.slope - true_slope) / size)
    figures["slope covered"].append((below <= true_slope) & (true_slope <= above))
    figures["slope found"].append((below > 0.0) | (above < 0.0))
    figures["visible"].append(found.smallest_visible / size)
    figures["independent slope"].append((mean @ EVENING @ slope - true_slope) / size)
    weights = numbers / numbers.sum(axis=0)
    all_true = np.nanmean(load_kw, axis=0) @ EVENING @ slope
    evening = np.einsum("grt,r->gt", run.means.mean, CURVES @ EVENING)
    figures["all slope"].append((weights * evening).sum(axis=0) @ slope - all_true)
    alone_all = (weights * (mean @ EVENING)).sum(axis=0) @ slope - all_true
    figures["independent all slope"].append(alone_all)
    years = horizon // per_year
    by_year = load_kw.reshape(len(load_kw), years, per_year, 24)
    whole = np.isfinite(by_year[..., 0]).sum(axis=2) >= per_year // 2
    by_year = np.where(whole[..., None], np.nanmean(by_year, axis=2), np.nan)
    cost = (epsilon_of(rho / years), DELTA)
    yearly = np.stack(
        [
            release_means(by_year[:, y], groups, names, cost=cost, limits=LIMITS)[0].mean_kw
            for y in range(years)
        ],
        axis=1,
    )
    figures["yearly"].append(relative(np.repeat(yearly, per_year, axis=1), truth))
    line = slope_weights(horizon=years, periods_per_year=1)
    figures["yearly slope"].append((yearly @ EVENING @ line - true_slope) / size)


def duration_covered(run: LoadRun, truth: Floats, numbers: Ints) -> Bools:
    """Return whether the bands of duration curves cover the sorted load of whole groups."""
    found = duration_curves(
        Levels(run.mean_kw, run.std_kw), customers=run.counts, customers_std=run.counts_std
    )
    true = -np.sort(-truth, axis=2) * numbers[:, :, None]
    return np.abs(found.mean_kw - true) <= BAND * found.std_kw


def filtered(mean: Floats, std: Floats, period: int, per_year: int) -> Floats:
    """Return independent means (G, T, 24) of a period, filtered over those up to it."""
    n_groups = len(mean)
    inverse = np.linalg.pinv(CURVES)
    sizes = coordinate_sizes(np.maximum(mean.mean(axis=(1, 2)), 0.05), CALENDAR)
    blocks = []
    for group in range(n_groups):
        values = (mean[group, : period + 1] @ inverse).T
        noise = np.square(std[group, : period + 1]).mean(axis=1)
        for part, share in ((slice(0, 1), 0.7), (slice(1, None), 0.3 / 6.0)):
            own = share * noise / np.square(CALENDAR.colour[part]).mean()
            scale = sizes[group, part]
            blocks.append(
                Observed(
                    values=values[part],
                    prior=values[part, 0],
                    scale=scale,
                    level=4.0 * float(own[0] / np.square(scale).mean()),
                    noise=np.diag(own),
                    of=group,
                )
            )
    seen = np.ones(period + 1, dtype=np.bool_)
    parts = filter_periods(blocks, seen=seen, periods_per_year=per_year)
    last = np.concatenate([part.mean[:, -1] for part in parts]).reshape(n_groups, 24)
    return last @ CURVES


def relative(found: Floats, truth: Floats) -> Floats:
    """Return the relative root-mean-square error of each group and period."""
    error: Floats = np.sqrt(np.square(found - truth).mean(axis=2) / np.square(truth).mean(axis=2))
    return error


def load_line(figures: Figures) -> str:
    """Return the figures so far: errors are medians over runs and periods of geometric means."""

    def error(name: str) -> str:
        return f"{median_error(np.array(figures[name])):.4f}"

    def rms(name: str) -> str:
        return f"{mean_square_root(np.array(figures[name])):.4f}"

    line = (
        f"error independent {error('independent')}, + filter {error('filtered')}, "
        f"series {error('series')}, ratio {ratio(figures, '', median_error)}; "
        f"level bands cover {np.mean(figures['covered']):.3f} "
        f"(independent {np.mean(figures['independent covered']):.3f}), of duration curves "
        f"{np.mean(figures['duration covered']):.3f}; "
        f"exhausted {np.mean(figures['exhausted']):.3f}"
    )
    if not figures["slope"]:
        return line
    return (
        f"{line}; yearly error {error('yearly')}; slope per year in mean loads: independent "
        f"{rms('independent slope')}, yearly {rms('yearly slope')}, series "
        f"{rms('slope')}, ratio {ratio(figures, ' slope', mean_square_root)}; of all, kW: "
        f"{rms('independent all slope')}, {rms('all slope')}; "
        f"trend bands cover {np.mean(figures['slope covered']):.3f}, "
        f"exclude 0 {np.mean(figures['slope found']):.3f}; "
        f"smallest visible {np.median(np.array(figures['visible'], dtype=float)):.4f}"
    )


def median_error(errors: Floats) -> float:
    """Return the median over runs and periods of geometric means over groups."""
    return float(np.median(np.exp(np.log(errors).mean(axis=1))))


def mean_square_root(errors: Floats) -> float:
    """Return the root of the mean square of everything."""
    return float(np.sqrt(np.square(errors).mean()))


def ratio(figures: Figures, name: str, measure: Callable[[Floats], float]) -> str:
    """Return a figure of the series over that of independent releases.

    With its 5 and 95 % quantiles if the runs are drawn again.
    """
    series = np.array(figures[name.strip() or "series"])
    alone = np.array(figures[f"independent{name}"])
    drawn = np.random.default_rng(0).integers(0, len(series), (500, len(series)))
    low, high = np.quantile([measure(series[one]) / measure(alone[one]) for one in drawn], TAILS)
    return f"{measure(series) / measure(alone):.3f} ({low:.2f} to {high:.2f})"


def bands_run(
    data: Population,
    epsilon: float,
    rng: np.random.Generator,  # noqa: ARG001 - noise is that of the kernel
    figures: Figures,
) -> None:
    """Add the figures of the bands of one run, without baselines."""
    followed_centroids(data, epsilon, figures)


def segment_design(data: Population, epsilon: float) -> SegmentDesign:
    """Return the segments of `wattveil series` under a whole guarantee, with their share of it."""
    design = SeriesDesign(
        horizon=data.load_kw.shape[1],
        periods_per_year=data.per_year,
        guarantee=global_guarantee(epsilon=epsilon, delta=DELTA),
        n_segments=N_CLUSTERS,
        customers=int(np.isfinite(data.load_kw[:, 0, 0]).sum()),
        midsummer=data.per_year // 2,  # the first period begins in January
    )
    if design.segments is None:
        raise ValueError("the design has no segments")
    return design.segments


def followed_centroids(data: Population, epsilon: float, figures: Figures) -> list[Floats]:
    """Release the segments of all periods; add the coverage of bands, return the centroids."""
    load_kw = data.load_kw
    here = np.isfinite(load_kw[:, :, 0])
    design = segment_design(data, epsilon)
    budget = Budget(global_guarantee(epsilon=epsilon, delta=DELTA))
    past: tuple[SegmentPeriod, ...] = ()
    basis = row_basis(24, 1)
    for t in range(design.horizon):
        table = PrivateTable(load_rows(load_kw[here[:, t], t]), budget)
        queries = KMeansQueries(table, basis=basis, normalise=True, longest=math.inf)
        found = release_segments(queries, budget, design, past, n_slots=24, period=t, anew=False)
        past = (*past, found)
    warm = []
    spans = all_segments(design, past)
    for t, cells in (period for span in spans for period in span.published):
        is_found = past[t].first is not None
        centroids, std = published_curves(cells, basis, is_found=is_found)
        warm.append(centroids)
        shapes = unit_rows(load_kw[here[:, t], t])
        nearest = distances(shapes, centroids).argmin(axis=1)
        there = [k for k in range(N_CLUSTERS) if (nearest == k).any()]
        true = np.array([shapes[nearest == k].mean(axis=0) for k in there])
        kind = "found" if is_found else "followed"
        figures[f"{kind} centroid errors"].append(np.abs(true - centroids[there]) / std[there])
        error = np.abs(cells.counts - np.bincount(nearest, minlength=N_CLUSTERS))
        figures[f"{kind} size errors"].append(error / np.sqrt(cells.counts_variance))
    return warm


def bands_line(figures: Figures) -> str:
    """Return coverage of bands of 1.96 standard errors, and the factor that would give 95 %."""
    parts = []
    for name in ("found size", "followed size", "found centroid", "followed centroid"):
        if not figures[f"{name} errors"]:
            continue
        errors = np.concatenate([np.ravel(one) for one in figures[f"{name} errors"]])
        factor = np.quantile(errors, 0.95) / BAND
        parts.append(f"{name} {(errors <= BAND).mean():.3f} (95 % with factor {factor:.2f})")
    return "bands cover: " + ", ".join(parts)


def segments_run(
    data: Population,
    epsilon: float,
    rng: np.random.Generator,  # noqa: ARG001 - noise is that of the kernel
    figures: Figures,
) -> None:
    """Add the figures of one run; the baselines spend what a series has for its segments."""
    load_kw = data.load_kw
    design = segment_design(data, epsilon)
    horizon, rho = design.horizon, design.rho_units / accounting.RHO_UNITS
    here = np.isfinite(load_kw[:, :, 0])
    exact = data.exact
    shapes = [unit_rows(load_kw[here[:, t], t]) for t in range(horizon)]
    private = {"n_clusters": N_CLUSTERS, "delta": DELTA, "normalise": True}
    alone = [
        PrivateKMeans(epsilon=epsilon_of(rho / horizon), **private).fit(load_kw[here[:, t], t])
        for t in range(horizon)
    ]
    once = PrivateKMeans(epsilon=epsilon_of(rho), **private).fit(load_kw[here[:, 0], 0])
    warm = followed_centroids(data, epsilon, figures)
    for name, centroids in (
        ("independent", [one.cluster_centers_ for one in alone]),
        ("once", [once.cluster_centers_] * horizon),
        ("warm", warm),
        ("exact", [centres for _, centres in exact]),
    ):
        figures[f"{name} loss"].append(
            [
                distances(shapes[t], centroids[t]).min(axis=1).mean() / exact[t][0] - 1.0
                for t in range(horizon)
            ]
        )
        moved = [
            moved_share(load_kw[:, t - 1 : t + 1], *centroids[t - 1 : t + 1])
            for t in range(1, horizon)
        ]
        figures[f"{name} moved"].append(np.mean(moved))


def segment_line(figures: Figures) -> str:
    """Return the figures so far."""
    names = ("independent", "once", "warm")
    losses = {name: np.array(figures[f"{name} loss"]) for name in names}
    alone, warm = (np.median(losses[name], axis=1) for name in ("independent", "warm"))
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(alone), (1000, len(alone)))
    low, high = np.quantile(warm[drawn].mean(axis=1) / alone[drawn].mean(axis=1), TAILS)
    return (
        f"ratio of mean medians {warm.mean() / alone.mean():.2f} (90 % of runs drawn again"
        f" {low:.2f} to {high:.2f}), above independent in {(warm > alone).sum()}; "
        "loss, median (mean): "
        + ", ".join(f"{n} {np.median(x):.3f} ({x.mean():.3f})" for n, x in losses.items())
        + "; labels that move: "
        + ", ".join(f"{n} {np.mean(figures[f'{n} moved']):.2f}" for n in (*names, "exact"))
        + f"; {bands_line(figures)}"
    )


def kernel_run(
    data: Population, epsilon: float, rng: np.random.Generator, figures: Figures
) -> None:
    """Add the figures of one run through the kernel, and in floating point."""
    load_kw, groups, per_year = data.load_kw, data.groups, data.per_year
    n_groups, horizon = int(groups.max()) + 1, load_kw.shape[1]
    truth = np.array([np.nanmean(load_kw[groups == group], axis=0) for group in range(n_groups)])
    past = ReleasedSeries(
        design=SeriesDesign(
            horizon=horizon,
            periods_per_year=per_year,
            guarantee=global_guarantee(epsilon=epsilon, delta=DELTA),
            levels={"class": tuple(range(n_groups))},
        )
    )
    state = MemoryState(names_key=bytes(32))
    ids = np.array([f"customer {row}" for row in range(len(load_kw))])
    published = []
    for t in range(horizon):
        past = release_load_period(
            load_kw[:, t],
            groups={"class": groups},
            customer_ids=ids,
            past=past,
            period=t,
            state=state,
        )
        clipping = past.begun().radii.level_clipping
        published.append(levels(past.means(), calendar=CALENDAR, clipping=clipping).mean_kw[:, t])
    of_kernel = period_means(past.sums(), customers=past.counts(MEMBERS).mean)
    run = LoadRun(load_kw, groups, per_year, rho_of(epsilon), rng)
    slope = slope_weights(horizon=horizon, periods_per_year=per_year)
    for name, mean_kw, means in (
        ("kernel", np.stack(published, axis=1), of_kernel),
        ("float", run.mean_kw, run.means),
    ):
        figures[name].append(relative(mean_kw, truth))
        evening = np.einsum("grt,r->gt", means.mean, CURVES @ EVENING)
        error = (evening - truth @ EVENING) @ slope / truth.mean(axis=(1, 2))
        figures[f"{name} slope"].append(error)


def kernel_line(figures: Figures) -> str:
    """Return the figures so far; the smallest group dominates the mean square of slopes."""
    parts = []
    for name in ("kernel", "float"):
        error = np.median(np.exp(np.log(np.array(figures[name])).mean(axis=1)))
        slopes = np.array(figures[f"{name} slope"])
        by_group = np.sqrt(np.square(slopes).mean(axis=0))
        each = " ".join(f"{one:.4f}" for one in by_group)
        rms = np.sqrt(np.square(slopes).mean())
        parts.append(f"{name}: error {error:.4f}, slope {rms:.4f} (by group {each})")
    ratio = np.sqrt(
        np.square(figures["kernel slope"]).mean() / np.square(figures["float slope"]).mean()
    )
    return f"{'; '.join(parts)}; ratio of slope errors {ratio:.2f}"


def unit_rows(rows: Floats) -> Floats:
    """Return rows at unit norm, without those of zeros."""
    lengths = np.linalg.norm(rows, axis=1)
    unit: Floats = rows[lengths > 0.0] / lengths[lengths > 0.0, None]
    return unit


def distances(rows: Floats, centroids: Floats) -> Floats:
    """Return squared distances (rows, centroids)."""
    squares = np.square(rows).sum(axis=1)[:, None] + np.square(centroids).sum(axis=1)
    return np.maximum(squares - 2.0 * rows @ centroids.T, 0.0)


def exact_clusters(load_kw: Floats) -> list[tuple[float, Floats]]:
    """Return inertia per customer and centroids of exact K-means, period after period."""
    found: list[tuple[float, Floats]] = []
    for t in range(load_kw.shape[1]):
        rows = unit_rows(load_kw[np.isfinite(load_kw[:, t, 0]), t])
        fits = [KMeans(N_CLUSTERS, n_init=3, random_state=0).fit(rows)]
        if found:
            fits.append(KMeans(N_CLUSTERS, n_init=1, init=found[-1][1]).fit(rows))
        best = min(fits, key=lambda fit: float(fit.inertia_))
        found.append((best.inertia_ / len(rows), best.cluster_centers_))
    return found


def moved_share(pair_kw: Floats, before: Floats, after: Floats) -> float:
    """Return the share of customers in both periods whose label changes, labels matched best."""
    there = np.isfinite(pair_kw).all(axis=(1, 2)) & pair_kw.any(axis=2).all(axis=1)
    first, second = (
        distances(unit_rows(pair_kw[there, t]), centroids).argmin(axis=1)
        for t, centroids in enumerate((before, after))
    )
    table = np.zeros((len(before), len(after)))
    np.add.at(table, (first, second), 1.0)
    rows, columns = linear_sum_assignment(-table)
    return float(1.0 - table[rows, columns].sum() / table.sum())


MEASURED = {
    "load": (load_run, load_line),
    "flat": (load_run, load_line),
    "segments": (segments_run, segment_line),
    "bands": (bands_run, bands_line),
    "kernel": (kernel_run, kernel_line),
}


if __name__ == "__main__":
    main()
