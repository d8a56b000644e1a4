"""Segments over time: clusters that are found and then followed from period to period.

Period 1 is a private K-means, and few others are. Later periods query counts and sums of offsets
around predicted centroids, as a refining step does, and all periods together are filtered: a
centroid has a level, a random walk, a season and a slope (`period_filter`). Labels keep their
meaning: cluster k of a period is the continuation of cluster k of the last one.

Sizes are counted by a query of their own, at the centroids as they are published: the counts of
refining steps belong to other centroids, and their bands covered 0.65 to 0.89.

`segment_plan` divides the budget. When clusters are found again, as planned or by a public
decision, each gets the number of the nearest one before (`numbered_as`).

Post-processing of released numbers; rows are reached through the queries alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

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
from wattveil.numerics.series.segment_plan import CLEAR

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

_SMALL, _SMALL_ERRORS = 0.5, 1.7
"""Size, in average sizes, below which the standard errors of a found centroid have this factor.
Most of their customers are beyond the clip radius, so that steps see about half of the distance to
the mean; this is the likely cause. On 1,400 simulated homes of seed 101, bands of small clusters
covered 0.80 to 0.82 without it, those of others 0.97."""

_WEAK_SIZE_ERRORS = 1.2
"""Factor of the standard errors of sizes in later periods, if clusters with little signal are
refined. They were found in midsummer, and the filter knows nothing of seasons for a year. Chosen on
1,400 simulated homes of seed 101, whose bands covered 0.90 (epsilon 4) and 0.95 without it."""

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


def numbered_as(found: Cells, before: Cells) -> Cells:
    """Return clusters that were found in the order of those before them.

    The pairs are those with the least sum of squared distances of their centroids. Coordinates
    beyond those that were kept are 0.
    """
    width = max(found.centres.shape[1], before.centres.shape[1])
    here, there = (
        np.pad(cells.centres, ((0, 0), (0, width - cells.centres.shape[1])))
        for cells in (found, before)
    )
    apart = np.square(there[:, None] - here[None]).sum(axis=2)
    order = linear_sum_assignment(apart)[1]
    return Cells(
        centres=found.centres[order],
        variance=found.variance[order],
        radii=found.radii[order],
        counts=found.counts[order],
        counts_variance=found.counts_variance[order],
    )


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
    counts, error = (part[:, place] for part in published_sizes(following))
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
    is_small = cells.counts < _SMALL * cells.counts.mean()
    factors = np.where(is_small, _SMALL_ERRORS, 1.0) if is_found else _FOLLOWED_ERRORS
    return shapes, std * np.reshape(factors, (-1, 1))


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


def published_sizes(clusters: WarmClusters) -> tuple[Floats, Floats]:
    """Return the sizes over periods to publish, and their standard errors: both (K, t)."""
    found = size_posterior(clusters)
    is_weak = bool(clusters.refined) and clusters.signal < CLEAR
    factors = np.full(clusters.periods, _WEAK_SIZE_ERRORS if is_weak else 1.0)
    factors[0] = 1.0
    return found.mean, found.std * factors


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
