"""Stages of private K-means between noisy queries: codebook, filter, coarse, refining, smoothing.

Post-processing of released numbers, in the order of the algorithm:

1. `codebooks`: cells at public shapes and released size levels;
2. `coarse_stage`: counts and centres of these cells, filtered over a few queries;
3. `population_mean_stage`: with little signal, the mean of all customers as one more cluster;
4. `refining_stage`: private Lloyd steps around the K merged clusters (`cluster_merge`);
5. `smooth_steps`: all refining steps once more, by the likelihood of their results;
6. `finish_clusters`: shrinkage and standard errors.

A cell has a centre c, a clip radius rho and a count n. A query releases, for every cell, noisy
counts and the noisy sum S of the clipped offsets (z - c) / (rho a) of its customers, with a the
public noise scale of each coordinate. With n known, c should move by rho a S / n. The noise of that
move is known exactly, so a Kalman filter weighs it against earlier queries and the public prior::

    v   += (DRIFT_t rho)^2 p_j            customers changed cells since
    w    = v / (v + noise^2)
    c   += w rho a S / n,   v *= 1 - w

So many queries cost hardly more than one, and a cell without signal keeps its centre.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.kmeans_tuning import Tuning
from wattveil.numerics.load_basis import harmonics


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """Released counts and sums of one query over all cells."""

    counts: Floats
    """(K, J): noisy customers in each cell and shell."""
    counts_std: float
    sums: Floats
    """(K, r): noisy sums of clipped offsets, in radii and colour."""
    sums_std: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Estimated centres, radii and counts of cells, with the variances of the estimates."""

    centres: Floats
    """(K, r) in basis coordinates."""
    radii: Floats
    counts: Floats
    counts_variance: Floats
    variance: Floats
    """(K, r): of the centres."""


def start_cells(
    centres: Floats, radii: Floats, counts: Floats, *, counts_std: Floats, spread: float
) -> Cells:
    """Return cells whose centres have a prior standard deviation of ``spread`` radii."""
    return Cells(
        centres=centres,
        radii=radii,
        counts=counts,
        counts_variance=np.square(np.maximum(counts_std, 1.0)),
        variance=np.square(spread * radii)[:, None] * smoothness(centres.shape[1]),
    )


def smoothness(n_coordinates: int) -> Floats:
    """Return the prior share p_j of each coordinate in the variance of a curve: smooth first."""
    falling: Floats = (1.0 + harmonics(n_coordinates)) ** -kmeans_tuning.PRIOR_ROUGHNESS
    shares: Floats = falling / falling.sum()
    return shares


def noise_colour(n_coordinates: int, exponent: float) -> Floats:
    """Return the public scale a_j of the noise of each coordinate, of mean square 1."""
    falling: Floats = (1.0 + harmonics(n_coordinates)) ** -exponent
    colour: Floats = falling / np.sqrt(np.mean(np.square(falling)))
    return colour


def update(cells: Cells, observed: Statistics, *, step: int, colour: Floats) -> Cells:
    """Return the cells after the Kalman update with one released query."""
    drift = kmeans_tuning.DRIFT_DECAY**step if step else 0.0
    n_shells = observed.counts.shape[1]
    count_std = observed.counts_std * np.sqrt(n_shells)

    counts_variance = cells.counts_variance + np.square(
        kmeans_tuning.COUNT_DRIFT * drift * np.maximum(cells.counts, 0.0)
    )
    weight = counts_variance / (counts_variance + count_std**2)
    counts = cells.counts + weight * (observed.counts.sum(axis=1) - cells.counts)
    counts_variance = (1.0 - weight) * counts_variance
    counted = replace(cells, counts=counts, counts_variance=counts_variance)
    found, noise = observed_centres(counted, observed, counts=counted, colour=colour)
    variance = cells.variance + drift_variance(cells, kmeans_tuning.DRIFT * drift)
    gain = variance / (variance + noise)
    return replace(
        counted,
        centres=cells.centres + gain * (found - cells.centres),
        variance=(1.0 - gain) * variance,
    )


def observed_centres(
    cells: Cells, observed: Statistics, *, counts: Cells, colour: Floats
) -> tuple[Floats, Floats]:
    """Return the centres by one query, c + rho a S / n, and the variance of their noise."""
    # Half its own error bounds a count near 0 from below, and so the move.
    error = np.sqrt(counts.counts_variance)
    divisor = np.maximum(counts.counts, np.maximum(0.5 * error, 1.0))
    scale = (cells.radii / divisor)[:, None] * colour
    return cells.centres + observed.sums * scale, np.square(observed.sums_std * scale)


def drift_variance(cells: Cells, radii: float) -> Floats:
    """Return the variance added by a drift of ``radii``, as customers change cells."""
    moved: Floats = np.square(radii * cells.radii)[:, None] * smoothness(cells.centres.shape[1])
    return moved


def follow_shells(cells: Cells, observed: Statistics, tuning: kmeans_tuning.Tuning) -> Cells:
    """Return the cells with radii moved towards the quantile radius of their customers."""
    if not tuning.shells:
        return cells
    factors = np.ones_like(cells.radii)
    for cell, counts in enumerate(observed.counts):
        # A cell without signal keeps its radius.
        if counts.sum() > 3.0 * observed.counts_std * np.sqrt(counts.size):
            found = _shell_quantile(np.maximum(counts, 0.0), tuning.shells, tuning.clip_quantile)
            factors[cell] = np.clip(found, 0.5, 1.6) ** kmeans_tuning.RADIUS_DAMPING
    return replace(cells, radii=cells.radii * factors)


def _shell_quantile(counts: Floats, shells: tuple[float, ...], quantile: float) -> float:
    """Return the quantile radius of the counted customers, in units of the current radius."""
    outer = np.array([*shells, 1.4 * shells[-1]])
    share = np.cumsum(counts) / max(float(counts.sum()), 1e-9)
    shell = min(int(np.searchsorted(share, quantile)), outer.size - 1)
    share_inside, inner = (0.0, 0.1) if shell == 0 else (share[shell - 1], outer[shell - 1])
    part = (quantile - share_inside) / max(float(share[shell] - share_inside), 1e-9)
    return float(inner + (outer[shell] - inner) * part)


_SHORTEST = 0.3
"""Minimum norm, in the working coordinates, of a shape that is scaled to unit norm."""


def full_length(shapes: Floats) -> Floats:
    """Return shapes at unit norm in working coordinates, unless their norm there is very small."""
    lengths = np.linalg.norm(shapes, axis=1, keepdims=True)
    scaled: Floats = shapes / np.maximum(lengths, _SHORTEST)
    return scaled


_COMMON_SHAPES = 12
"""Number of shapes, the most common first, whose mean is the prior population mean."""


def prior_population_mean(shapes: Floats, *, size: float, customers: float, std: float) -> Cells:
    """Return one cell of all customers around the mean of public shapes, before any query.

    ``shapes`` are in working coordinates, the most common first; ``std`` is that of ``customers``.
    """
    mean = shapes[:_COMMON_SHAPES].mean(axis=0, keepdims=True)
    radius = kmeans_tuning.POPULATION_MEAN_RADII[0]
    return start_cells(
        size * full_length(mean),
        np.array([radius * size]),
        np.array([customers]),
        counts_std=np.array([std]),
        spread=kmeans_tuning.POPULATION_MEAN_SPREAD / radius,
    )


def add_population_mean(clusters: Cells, mean: Cells) -> Cells:
    """Return the clusters with the population mean as one more.

    Its prior count is wide: it may be nearest to all customers or to very few.
    """
    n_clusters, total = len(clusters.counts) + 1, clusters.counts.sum()
    return Cells(
        centres=np.vstack([clusters.centres, mean.centres]),
        radii=np.append(clusters.radii, min(mean.radii[0], np.median(clusters.radii))),
        counts=np.append((1.0 - 1.0 / n_clusters) * clusters.counts, total / n_clusters),
        counts_variance=np.append(
            clusters.counts_variance, np.square(kmeans_tuning.MERGED_COUNT_PRIOR[0] * total)
        ),
        variance=np.vstack([clusters.variance, mean.variance]),
    )


def widen_population_mean(cells: Cells) -> Cells:
    """Return refined clusters with the standard error of the last one as a cluster centre.

    The last cell began as the population mean, and the filter tracks the error of that mean. The
    centre of its own customers may lie anywhere within the usual width of a cluster, or as far away
    as the nearest other cluster, on the opposite side. So the two are never distinguishable.
    """
    width = kmeans_tuning.CENTRE_SPREAD * np.median(cells.radii[:-1])
    next_one = np.square(cells.centres[:-1] - cells.centres[-1]).sum(axis=1).min()
    own = np.maximum(np.square(width), next_one) * smoothness(cells.centres.shape[1])
    return replace(cells, variance=np.vstack([cells.variance[:-1], cells.variance[-1] + own]))


def as_only_cluster(mean: Cells, *, size: float) -> Cells:
    """Return the population mean as the only cluster, with the widest radius."""
    return replace(mean, radii=np.array([kmeans_tuning.POPULATION_MEAN_RADII[0] * size]))


Steps = Sequence[tuple[Cells, Statistics]]
"""The cells of each query, and the statistics it released."""


def smooth_steps(last: Cells, steps: Steps, *, colour: Floats) -> Cells:
    """Return the last cells with centres smoothed over all refining steps.

    During the steps the filter must assume a number of customers and a drift for each cluster; at
    the end both are known better. Where no customer changed cells all steps observed the same
    centre, and their average is best; where many did, the last steps are. So the steps are filtered
    under several drifts g, and the results are weighted by their likelihood::

        L(g) = prod_t N(y_t; c_t, v_t + n_t^2)

    with y_t observed in step t, n_t its noise, and c_t and v_t predicted by the filter. The
    variance is not below that of the last cells: the likelihood does not include the errors of
    clipping and counts.
    """
    passes = [_filter(last, steps, colour, drift) for drift in kmeans_tuning.DRIFTS]
    centres, variance, misfit = (np.array(one) for one in zip(*passes, strict=True))
    chance = np.exp(-0.5 * (misfit - misfit.min(axis=0)))[..., None]
    chance /= chance.sum(axis=0)
    mean = (chance * centres).sum(axis=0)
    found = (chance * (variance + np.square(centres - mean))).sum(axis=0)
    return replace(last, centres=mean, variance=np.maximum(found, last.variance))


def _filter(
    last: Cells, steps: Steps, colour: Floats, drift: float
) -> tuple[Floats, Floats, Floats]:
    """Return centres, their variance, and -2 log-likelihood of each cluster, for one drift."""
    centres, variance = steps[0][0].centres, steps[0][0].variance
    misfit = np.zeros(len(centres))
    for step, (cells, observed) in enumerate(steps):
        if step:
            variance = variance + drift_variance(cells, drift * kmeans_tuning.DRIFT_DECAY**step)
        found, noise = observed_centres(cells, observed, counts=last, colour=colour)
        apart, spread = found - centres, variance + noise
        misfit += (np.log(spread) + np.square(apart) / spread).sum(axis=1)
        gain = variance / spread
        centres, variance = centres + gain * apart, (1.0 - gain) * variance
    return centres, variance, misfit


class StepQuery(Protocol):
    """Query of a stage: `wattveil.release.queries.KMeansQueries.step`."""

    def __call__(
        self,
        cells: Cells,
        /,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        """Release the counts and sums of the cells."""


def population_mean_stage(
    query: StepQuery,
    mean: Cells,
    *,
    radii: tuple[float, ...],
    size: float,
    colour: Floats,
    units: int,
    is_shape: bool,
) -> tuple[Cells, bool]:
    """Return the cell of all customers around their mean, and whether their shapes differ widely.

    The radii of the queries decrease. Of shapes, the last one counts the customers far from the
    mean.
    """
    is_wide = False
    for step, of_step in enumerate(kmeans_tuning.split_units(units, len(radii))):
        radius = radii[step] * size
        mean = replace(mean, radii=np.array([radius]))
        counts_far = is_shape and step == len(radii) - 1
        shells = (kmeans_tuning.FAR / radius,) if counts_far else ()
        part = kmeans_tuning.FAR_COUNT_PART if counts_far else kmeans_tuning.REFINE_COUNT_PART
        parts = kmeans_tuning.counts_and_sums(of_step, part)
        tag = f"population mean step {step + 1}"
        observed = query(mean, colour=colour, shells=shells, rho_units=parts, tag=tag)
        mean = update(mean, observed, step=step, colour=colour)
        if counts_far:
            near, far = observed.counts[0]
            is_wide = bool(far > kmeans_tuning.WIDE_SHARE * max(near + far, 1.0))
    return mean, is_wide


def coarse_stage(
    query: StepQuery, cells: Cells, *, colour: Floats, tuning: Tuning, units: int
) -> Cells:
    """Return the cells of the codebook with estimated counts and centres."""
    for step, of_step in enumerate(kmeans_tuning.split_units(units, tuning.coarse_steps)):
        parts = kmeans_tuning.counts_and_sums(of_step, kmeans_tuning.COARSE_COUNT_PART)
        tag = f"coarse step {step + 1}"
        observed = query(cells, colour=colour, shells=(), rho_units=parts, tag=tag)
        cells = update(cells, observed, step=step, colour=colour)
    return cells


def refining_stage(
    query: StepQuery, cells: Cells, *, colour: Floats, tuning: Tuning, units: int
) -> tuple[Cells, Steps]:
    """Return clusters after private Lloyd steps around released centres, smoothed; and steps."""
    steps: list[tuple[Cells, Statistics]] = []
    for step, of_step in enumerate(kmeans_tuning.split_units(units, tuning.refine_steps)):
        parts = kmeans_tuning.counts_and_sums(of_step, kmeans_tuning.REFINE_COUNT_PART)
        tag = f"refining step {step + 1}"
        observed = query(cells, colour=colour, shells=tuning.shells, rho_units=parts, tag=tag)
        steps += [(cells, observed)]
        cells = update(cells, observed, step=step, colour=colour)
        cells = follow_shells(cells, observed, tuning)
    return smooth_steps(cells, steps, colour=colour), steps


def finish_clusters(
    cells: Cells, *, is_shape: bool, has_population_mean: bool, std: float
) -> Cells:
    """Return refined clusters with standard errors, shrunk towards their common mean.

    ``std`` is the standard error of the number of customers, which all counts share.
    """
    if has_population_mean and len(cells.counts) > 1:
        cells = widen_population_mean(cells)
    elif is_shape and not has_population_mean:
        cells = shrink_together(cells)
    in_common = np.square(std / len(cells.counts))
    return replace(cells, counts_variance=cells.counts_variance + in_common)


def shrink_together(cells: Cells) -> Cells:
    """Return the cells drawn towards their common mean as far as noise makes them differ.

    With B the spread of the centres around their mean m and N the part of it that is noise, both
    weighted by counts, ``c = m + (1 - N / B)_+ (c - m)`` (James and Stein). The noise of a centre
    falls as 1 / n, so m weighs them by n^2: clusters that may be empty hardly count. Measured on
    shapes, the loss falls by 5 % at epsilon 0.1 and 0.3 (before the population mean was added
    for few customers). Raw load gains nothing: sizes differ by more than any noise.
    """
    weights = np.maximum(cells.counts, 1e-3)
    mean = np.square(weights) @ cells.centres / np.square(weights).sum()
    weights = weights / weights.sum()
    spread = float(weights @ np.square(cells.centres - mean).sum(axis=1))
    noise = float(weights @ cells.variance.sum(axis=1))
    kept = max(0.0, 1.0 - noise / spread) if spread > 0.0 else 0.0
    return replace(cells, centres=mean + kept * (cells.centres - mean))
