"""Segments over time: clusters that are found once and followed from period to period.

Period 1 is a private K-means. Later periods query counts and sums of offsets around predicted
centroids, as a refining step does, and all periods together are filtered: a centroid has a level,
a random walk, a season and a slope (`period_filter`). Labels keep their meaning: cluster k of a
period is the continuation of cluster k of the last one.

Sizes are counted by a query of their own, at the centroids as they are published: the counts of
refining steps belong to other centroids, and their bands covered 0.65 to 0.89.

How the budget is divided depends on nu = n mu_t / K, the signal per cluster and period, with
mu_t^2 / 2 the budget of a later period:

* below 5 refining would follow noise: the first clusters get 0.9 and are kept, and later periods
  query their sizes alone (at nu = 9.8 kept clusters lost 0.77, by seasons, and refined ones 0.26);
* below 100 the first period gets 0.4 and each later one two steps;
* above, the first gets 0.3 and each later one four steps.

A public decision may have clusters found anew: that period gets the first share of what is left.

Post-processing of released numbers; rows are reached through the queries alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.kmeans_stages import (
    Cells,
    StepQuery,
    drift_variance,
    follow_shells,
    noise_colour,
    observed_centres,
    shrink_together,
    smoothness,
    update,
)
from wattveil.numerics.kmeans.rough_coordinates import curves_of
from wattveil.numerics.series.period_filter import (
    Change,
    Observed,
    Posterior,
    filter_periods,
    joined,
)

KEEP_BELOW, STRONG = 5.0, 100.0
"""Signals nu below which the first clusters are kept, and from which on periods get more."""
_KEPT_FIRST, _WEAK_FIRST, _STRONG_FIRST = 0.9, 0.4, 0.3
_WEAK_STEPS, _STRONG_STEPS = 2, 4
SIZE_PART = 0.06
"""Of a later period for the sizes at the published centroids."""
_STEP_COUNT_PART = 0.08
"""Of a refining step for counts, which only scale the moves of centroids."""
_SETTLED = 3
"""One in so many steps comes before the centroids have moved, and is not averaged."""
_MOVES = 0.1
"""Drift between the periods, in radii, that the filter within a period allows for."""
_COLOUR = 0.1
_CLIP_QUANTILE = 0.85
_SHELLS_FROM = 30.0
"""Signal from which on radii follow counts of shells."""
_ROUGHER = (3, 9)
"""Coordinates from which on curves are rougher, and rougher still."""
_PRIOR_VARIANCE = 9.0
"""Factor of the variance of the first centroids and sizes in the prior of their level."""

_FOLLOWED_ERRORS = 1.8
"""Factor of the standard errors of followed centroids. Those of noise and filter know nothing of
clipping and of customers who change their cluster. Chosen on simulated homes of seed 101, 1,400 and
10,000 of them: `benchmarks/bench_series.py bands --pool 101 --seed 200`."""

_CENTROID_CHANGES = tuple(
    Change(walk=walk, season=season, slope=0.03, white=white)
    for walk in (0.02, 0.08, 0.3)
    for season in (0.05, 0.2, 0.6)
    for white in (0.02, 0.1)
)
_SIZE_CHANGES = tuple(
    Change(walk=walk, season=season, slope=slope, white=white)
    for walk in (0.02, 0.1)
    for season in (0.02, 0.3)
    for slope in (0.01, 0.1)
    for white in (0.02, 0.1, 0.3)
)


class WarmPlan(NamedTuple):
    """Division of the budget of the segments over the horizon."""

    first_share: float
    """Of the first period; the rest is divided evenly over the others."""
    steps: int
    """Refining steps in each later period; 0 keeps the first clusters and counts their sizes."""
    signal: float
    """nu of a later period."""


def plan_segments(*, customers: float, rho: float, n_clusters: int, horizon: int) -> WarmPlan:
    """Return the division by a public estimate of the number of customers.

    ``rho`` is the budget of the segments over the whole horizon.
    """
    checks.positive("customers", customers)
    checks.positive("rho", rho)
    checks.integer("horizon", horizon, minimum=1)
    if horizon == 1:
        return WarmPlan(1.0, 0, 0.0)

    def signal(first_share: float) -> float:
        later = (1.0 - first_share) * rho / (horizon - 1)
        return customers * math.sqrt(2.0 * later) / n_clusters

    weak = signal(_WEAK_FIRST)
    if weak < KEEP_BELOW:
        return WarmPlan(_KEPT_FIRST, 0, weak)
    if weak < STRONG:
        return WarmPlan(_WEAK_FIRST, _WEAK_STEPS, weak)
    return WarmPlan(_STRONG_FIRST, _STRONG_STEPS, signal(_STRONG_FIRST))


class Schedule(NamedTuple):
    """Division of the budget in force in a period, and what all periods up to it may spend."""

    plan: WarmPlan
    accrued: int


def segment_schedule(
    *,
    units: int,
    unit: int,
    customers: float,
    n_clusters: int,
    horizon: int,
    found_in: Sequence[int],
    period: int,
) -> Schedule:
    """Return the division of a period and the units that have accrued by it.

    Clusters are found in the periods ``found_in``, counted from 0: such a period gets the first
    share of what is left, every other one an even share of it. What accrues in a skipped period
    is for the next one. ``units`` of ``unit`` per rho are for the whole horizon.
    """
    accrued, plan = 0, WarmPlan(1.0, 0, 0.0)
    for place in range(period + 1):
        left, periods = units - accrued, horizon - place
        if place == 0 or place in found_in:
            plan = plan_segments(
                customers=customers, rho=left / unit, n_clusters=n_clusters, horizon=periods
            )
            accrued += int(Fraction(plan.first_share) * left)
        else:
            accrued += left // periods
    return Schedule(plan, accrued)


class SizeQuery(Protocol):
    """Query of sizes: customers nearest to each centroid, and the standard deviation of noise."""

    def __call__(self, centres: Floats, /, *, rho_units: int, tag: str) -> tuple[Floats, float]:
        """Release the number of customers nearest to each of the centres (K, r)."""


class Refined(NamedTuple):
    """Centroids as the refining steps of one period observed them."""

    centres: Floats
    """(K, r)"""
    noise: Floats
    """(K,): variance of their noise in units of the colour, the same for each coordinate."""


class Counted(NamedTuple):
    """Sizes at the published centroids of one period."""

    sizes: Floats
    """(K,)"""
    std: float


@dataclass(frozen=True, kw_only=True, eq=False)
class WarmClusters:
    """Clusters of a series up to period t: the first ones and what later periods released."""

    first: Cells
    """Of period 1, finished."""
    radii: Floats
    """(K,): of the next period."""
    colour: Floats
    periods_per_year: int
    signal: float
    places: tuple[int, ...] = ()
    """Later periods that were released, counted from the first clusters."""
    refined: tuple[Refined, ...] = ()
    """Of each of them; none if the first clusters are kept."""
    counted: tuple[Counted, ...] = ()

    @property
    def periods(self) -> int:
        """Number of periods so far, with those that were skipped."""
        return 1 + (self.places[-1] if self.places else 0)


def start_following(first: Cells, *, periods_per_year: int, signal: float) -> WarmClusters:
    """Return the series of clusters after its first period."""
    return WarmClusters(
        first=first,
        radii=first.radii,
        colour=noise_colour(first.centres.shape[1], _COLOUR),
        periods_per_year=periods_per_year,
        signal=signal,
    )


def add_period(
    query: StepQuery,
    size_query: SizeQuery,
    clusters: WarmClusters,
    *,
    place: int,
    units: int,
    steps: int,
    tag: str,
) -> tuple[WarmClusters, Cells]:
    """Query one more period; return the series, and the clusters to publish for the period.

    ``place`` counts periods from the first clusters. ``units`` of the budget are divided over
    ``steps`` refining steps and the sizes.
    """
    checks.integer("place", place, minimum=clusters.periods)
    for_sizes = int(SIZE_PART * units) if steps else units
    now = predicted_cells(clusters, place)
    following = replace(clusters, places=(*clusters.places, place))
    if steps:
        refined, radii = _refine(
            query, clusters, now, units=units - for_sizes, steps=steps, tag=tag
        )
        following = replace(following, refined=(*clusters.refined, refined), radii=radii)
        found = _centre_posteriors(following, periods=place + 1)
        now = shrink_together(replace(now, **_estimate(following, found, place)))
    sizes, std = size_query(now.centres, rho_units=for_sizes, tag=f"{tag}, sizes")
    following = replace(following, counted=(*clusters.counted, Counted(sizes, std)))
    of_size = size_posterior(following)
    counts, error = of_size.mean[:, place], of_size.std[:, place]
    return following, replace(now, counts=counts, counts_variance=np.square(error))


def _refine(
    query: StepQuery, clusters: WarmClusters, cells: Cells, *, units: int, steps: int, tag: str
) -> tuple[Refined, Floats]:
    """Return the centroids that refining steps around the predicted ones observe, and radii."""
    tuning = replace(
        kmeans_tuning.choose_tuning(150.0, n_slots=24, n_clusters=len(clusters.radii)),
        shells=kmeans_tuning.SHELLS if clusters.signal >= _SHELLS_FROM else (),
        clip_quantile=_CLIP_QUANTILE,
    )
    begin = cells
    cells = replace(cells, variance=cells.variance + drift_variance(cells, _MOVES))
    seen = []
    for step, of_step in enumerate(kmeans_tuning.split_units(units, steps)):
        observed = query(
            cells,
            colour=clusters.colour,
            shells=tuning.shells,
            rho_units=kmeans_tuning.counts_and_sums(of_step, _STEP_COUNT_PART),
            tag=f"{tag}, step {step + 1}",
        )
        centres, noise = observed_centres(cells, observed, counts=cells, colour=clusters.colour)
        seen.append((centres, noise[:, :1] / clusters.colour[0] ** 2))
        cells = update(cells, observed, step=0, colour=clusters.colour)
        begin = follow_shells(replace(begin, radii=clusters.radii), observed, tuning)
    late = seen[steps // _SETTLED :]
    noise = 1.0 / sum(1.0 / noise for _, noise in late)
    mean = noise * sum(centres / noise for centres, noise in late)
    return Refined(mean, noise[:, 0]), begin.radii


def published_curves(cells: Cells, basis: Floats, *, is_found: bool) -> tuple[Floats, Floats]:
    """Return the shapes (K, slots) of published clusters, and their standard errors.

    ``is_found`` says that the clusters were found in the period, not followed to it.
    """
    shapes, std = curves_of(cells, basis, is_shape=True)
    return shapes, std if is_found else _FOLLOWED_ERRORS * std


def predicted_cells(clusters: WarmClusters, place: int) -> Cells:
    """Return the cells that a later period queries around."""
    sizes = size_posterior(clusters, ahead=place + 1 - clusters.periods)
    return Cells(
        radii=clusters.radii,
        counts=np.maximum(sizes.mean[:, place], 1.0),
        counts_variance=np.square(sizes.std[:, place]),
        **_estimate(clusters, _centre_posteriors(clusters, periods=place + 1), place),
    )


def smoothed_centres(clusters: WarmClusters) -> tuple[Floats, Floats]:
    """Return the centroids of all periods by everything released, and their standard errors.

    Both are (K, r, t). The past is revised: the published centroids of each period stay what they
    were.
    """
    found = _centre_posteriors(clusters, periods=clusters.periods)
    colour = clusters.colour[:, None]
    return (
        np.array([one.mean for one in found]) * colour,
        np.array([one.std for one in found]) * colour,
    )


def drift_lengths(clusters: WarmClusters) -> Floats:
    """Return how far each centroid is from that of period 1, in radii: (K, t)."""
    centres, _ = smoothed_centres(clusters)
    apart = np.linalg.norm(centres - centres[:, :, :1], axis=1)
    drift: Floats = apart / clusters.first.radii[:, None]
    return drift


def size_posterior(clusters: WarmClusters, *, ahead: int = 0) -> Posterior:
    """Return the sizes over periods, (K, t + ahead)."""
    first = clusters.first
    usual = max(float(first.counts.sum()), 10.0) / len(first.counts)
    later = clusters.counted
    blocks = [
        Observed(
            values=np.array([[first.counts[k], *(one.sizes[k] for one in later)]]),
            prior=first.counts[k : k + 1],
            scale=np.array([usual]),
            level=_PRIOR_VARIANCE * float(first.counts_variance[k]) / usual**2,
            noise=np.diag([first.counts_variance[k], *(one.std**2 for one in later)]),
        )
        for k in range(len(first.counts))
    ]
    seen = np.isin(np.arange(clusters.periods + ahead), (0, *clusters.places))
    return joined(
        filter_periods(
            blocks, seen=seen, periods_per_year=clusters.periods_per_year, changes=_SIZE_CHANGES
        )
    )


def _centre_posteriors(clusters: WarmClusters, *, periods: int) -> Sequence[Posterior]:
    """Return the centroids over periods, in colour: one posterior per cluster.

    Coordinates of similar roughness form a block: the error of the first centroids depends on it.
    """
    first, colour = clusters.first, clusters.colour
    shape = np.sqrt(smoothness(colour.size)) / colour
    own = first.variance / np.square(colour)
    parts = [slice(a, b) for a, b in pairwise((0, *_ROUGHER, colour.size)) if a < colour.size]
    blocks = []
    for k, radius in enumerate(first.radii):
        values = (
            np.array([first.centres[k], *(one.centres[k] for one in clusters.refined)]) / colour
        )
        later = [one.noise[k] for one in clusters.refined]
        for part in parts:
            scale, variance = radius * shape[part], float(own[k, part].mean())
            blocks.append(
                Observed(
                    values=values[:, part].T,
                    prior=values[0, part],
                    scale=scale,
                    level=_PRIOR_VARIANCE * variance / float(np.square(scale).mean()),
                    noise=np.diag([variance, *later]),
                )
            )
    found = filter_periods(
        blocks,
        seen=np.isin(np.arange(periods), (0, *(clusters.places if clusters.refined else ()))),
        periods_per_year=clusters.periods_per_year,
        changes=_CENTROID_CHANGES,
    )
    return [
        joined(found[first_block : first_block + len(parts)])
        for first_block in range(0, len(found), len(parts))
    ]


def _estimate(clusters: WarmClusters, found: Sequence[Posterior], period: int) -> dict[str, Floats]:
    """Return centres and variance of one period, in basis coordinates."""
    return {
        "centres": np.array([one.mean[:, period] for one in found]) * clusters.colour,
        "variance": np.square([one.std[:, period] for one in found]) * np.square(clusters.colour),
    }
