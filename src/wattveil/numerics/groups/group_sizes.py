"""From noisy sizes by group to clip radii, the correction for clipping, and customer numbers.

Post-processing: it sees released counts and public bounds only.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.size_distribution import (
    MIN_KW,
    LogNormals,
    checked_range,
    log_normal_grid,
    log_normals,
    penalty,
    public_penalty,
)

ALL_CUSTOMERS = ("all",)
"""The levels when there are no groups."""
UNCORRECTED = 0.5
"""Share of the clipping bias that the correction is expected to miss."""

_SIZE_RATIO = 1.6
"""Between the bounds of the size cells, about."""
_APART = (0.15, 0.3, 0.6, 1.2, 2.4)
"""Standard deviations that the log medians of groups may have around the pooled one."""
_APART_PRIOR = (math.log(0.4), 0.8)
_OUTLYING = (0.1, 1.2)
"""Share of outlying groups, and the standard deviation of their log medians."""
_NEVER = 1e-300
"""Probability small enough to be negligible, and large enough to have a logarithm."""
_LOG_STD_APART = 0.3
"""Standard deviation of a group's log log-SD around the pooled one."""
_SURE = (3.0, 5.0)
"""Standard deviations that make a tail beyond the fitted curve significant: near the bulk, and far
beyond it, where a false positive is costly."""
_NEAR_BULK = 0.006
"""Share of the customers beyond 2.5 standard deviations, where the bulk ends."""
_FAR, _FAT, _WINDOW = 0.001, 5.0, 3
"""A fat tail begins where the fitted curve has less than this share of the customers, and this many
standard deviations more are seen in so many size cells. All cells up to the largest size would add
noise alone. At 0.004 the tail of 10,000 homes at epsilon 3 was taken for a fat one, and the error
was 0.016 instead of 0.005. At 4 standard deviations noise is taken for very large customers in one
release of about 5,000, whose error is then ten times the usual."""
_REFUTED = 2.0
"""Standard deviations below which a histogram refutes what a fat tail would have."""
_FILTERED = 3.0
"""Coordinates' worth of noise that the filter leaves in a curve."""
_MAX_CORRECTION = 2.0
_TAIL_ERROR = 0.5
"""Relative error of the customers above a bound, as the fitted curve has them."""
_FINE, _FINE_BELOW = 10, 32
"""Fine log sizes in a size cell, and below the first bound."""
_AT_EDGES = slice(_FINE_BELOW, None, _FINE)
_FIT_ERROR = 0.03
"""Share of the customers that a log-normal which does not quite fit puts into a wrong size cell."""
_UPPER_QUANTILE = 1.96
"""Standard deviations above which noise lies in 2.5 % of all releases."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupSizes:
    """Estimates of each group from its released sizes."""

    customers: Floats
    customers_std: Floats
    radii: Floats
    """Clip radius, in kW."""
    correction: Floats
    """Mean size over mean clipped size."""
    correction_error: Floats
    """Relative error of it."""
    typical: Floats
    """Mean clipped size, in kW."""
    typical_error: Floats
    """Relative error of it."""
    clipped_share: Floats
    clipped_share_std: Floats
    max_clipping_bias: Floats
    """Maximum clipping bias of the mean size in kW that the counts do not rule out."""


def checked_levels(levels: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Accept a public list of groups, each once."""
    if not levels or len(set(levels)) != len(levels):
        rule = "a list of at least one value, without repetition"
        raise InvalidParameterError("levels", rule, tuple(levels))
    return tuple(levels)


def checked_limits(
    clip_kw: float | None, max_clip_kw: float | None, plausible_kw: tuple[float, float]
) -> tuple[tuple[float, float], Floats]:
    """Return the range in which clip radii are chosen, and the bounds of the size cells.

    Those are geometric between the plausible sizes. A given radius outside would leave open how
    many customers are above it.
    """
    min_kw, max_kw = checked_range(plausible_kw)
    edges = np.geomspace(
        min_kw, max_kw, round(math.log(max_kw / min_kw) / math.log(_SIZE_RATIO)) + 1
    )
    if max_clip_kw is not None:
        max_kw = checks.positive("max_clip_kw", max_clip_kw)
        if clip_kw is not None or max_kw < MIN_KW:
            rule = f"at least {MIN_KW:g}, and omitted beside clip_kw"
            raise InvalidParameterError("max_clip_kw", rule, max_clip_kw)
        return (0.0, max_kw), edges
    if clip_kw is None:
        return (0.0, math.inf), edges
    if not min_kw <= checks.positive("clip_kw", clip_kw) <= max_kw:
        rule = f"within plausible_kw, {min_kw:g} to {max_kw:g}"
        raise InvalidParameterError("clip_kw", rule, clip_kw)
    return (clip_kw, clip_kw), edges


def expected_counts(
    customers: Floats, edges: Floats, *, typical_kw: float, log_std: float
) -> Floats:
    """Return the customers to be expected in each size cell of each group, under a log-normal."""
    below = ndtr((np.log(edges) - math.log(typical_kw)) / log_std)
    return customers[:, None] * np.diff(below, prepend=0.0, append=1.0)


def read_sizes(
    counts: tuple[Floats, float],
    counted: tuple[Floats, float],
    edges: Floats,
    *,
    sums_std: float,
    within: tuple[float, float],
) -> GroupSizes:
    """Fit log-normals to each group's noisy size counts and choose its clip radius.

    The radius minimises ``3 (sums_std R)^2 + (0.5 n E(size - R)+)^2``: noise that the filter
    leaves against bias that the correction misses. It is moved into the range ``within``.

    Parameters
    ----------
    counts : (G, cells)
        Customers of each group in each size cell, and the standard deviation of their noise.
    counted : (G,)
        Customers of each group, counted once more, and the standard deviation of that.
    sums_std
        Standard deviation of the noise of the sums that will be queried.
    """
    log_edges = np.log(edges)
    chances, customers, customers_std = _posteriors(counts, counted, log_edges)
    fine, beyond, clipped = _tails(tuple(log_edges.tolist()))
    fitted = customers[:, None] * (chances @ beyond)
    above = _above_edges(counts, customers, chances, beyond[:, _AT_EDGES], edges)
    missing = above - fitted[:, _AT_EDGES]
    tails = fitted + np.array([np.interp(fine, log_edges, row, left=0.0) for row in missing])
    tails = np.clip(tails, 0.0, customers[:, None])
    tails = np.maximum.accumulate(tails[:, ::-1], axis=1)[:, ::-1]

    # n E(size - R)+ is the integral of the customers above s over s > R.
    widths = np.gradient(np.exp(fine))
    excess = np.cumsum((tails * widths)[:, ::-1], axis=1)[:, ::-1] - tails * widths
    everything = customers * math.exp(fine[0]) + excess[:, 0]
    risk = _FILTERED * np.square(sums_std * np.exp(fine)) + np.square(UNCORRECTED * excess)
    radii = np.clip(np.exp(fine[risk.argmin(axis=1)]), *within)
    chosen = np.abs(fine - np.log(radii)[:, None]).argmin(axis=1)
    rows = np.arange(customers.size)
    inside = np.maximum(everything - excess[rows, chosen], 1e-9)
    correction = np.minimum(everything / inside, _MAX_CORRECTION)
    typical_error, unsure = _errors(chances, clipped[:, chosen], clipped[:, -1])
    cells_above = np.maximum(edges.size - np.searchsorted(log_edges, fine[chosen]), 1)
    return GroupSizes(
        customers=customers,
        customers_std=customers_std,
        radii=radii,
        correction=correction,
        correction_error=np.hypot(UNCORRECTED * (1.0 - 1.0 / correction), unsure),
        typical=inside / customers,
        typical_error=typical_error,
        clipped_share=tails[rows, chosen] / customers,
        clipped_share_std=counts[1] * np.sqrt(cells_above) / customers,
        # No customer is clipped by more than the end of the plausible range less the radius.
        max_clipping_bias=np.minimum(
            _max_clipping_bias(counts, radii, edges) / customers,
            np.maximum(edges[-1] - radii, 0.0),
        ),
    )


def _posteriors(
    counts: tuple[Floats, float], counted: tuple[Floats, float], log_edges: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the chance of each log-normal of the grid for each group, and its customers.

    Medians of groups are normal around the pooled one. Their standard deviation is estimated by the
    likelihood of the released counts, and its uncertainty is part of the posterior.
    """
    n_groups = len(counts[0])

    def fit(row: Floats, number: float, together: int) -> LogNormals:
        noise_std = math.sqrt(together) * np.array([counts[1], counted[1]])
        std = math.hypot(noise_std[0], _FIT_ERROR * number)
        return log_normals(row, log_edges, std=std, counted=(number, float(noise_std[1])))

    pooled = fit(counts[0].sum(axis=0), float(counted[0].sum()), n_groups)
    chance = _normalised(pooled.likelihood() * np.exp(-0.5 * public_penalty(log_edges)))
    fits, chances = [pooled], chance.reshape(1, -1)
    if n_groups > 1:
        medians, spreads = log_normal_grid(log_edges)
        centre = float((chance * medians).sum()), float((chance * np.log(spreads)).sum())
        fits = [fit(row, n, 1) for row, n in zip(counts[0], counted[0].tolist(), strict=True)]
        likely = np.array([fit.likelihood().ravel() for fit in fits])
        aparts = (*_APART, _OUTLYING[1])
        penalties = [
            penalty(log_edges, (centre[0], apart), (centre[1], _LOG_STD_APART)) for apart in aparts
        ]
        *priors, far = (_normalised(np.exp(-0.5 * row)).ravel() for row in penalties)
        evidence = np.log(likely @ np.transpose(priors) + _NEVER).sum(axis=0)
        evidence -= 0.5 * np.square((np.log(_APART) - _APART_PRIOR[0]) / _APART_PRIOR[1])
        shared = _normalised(np.exp(evidence - evidence.max())) @ np.array(priors)
        prior = (1.0 - _OUTLYING[0]) * shared + _OUTLYING[0] * far
        chances = np.array([_normalised(row * prior) for row in likely])
    number = np.array([fit.total.ravel() for fit in fits])
    squares = np.square([fit.total_std.ravel() for fit in fits]) + np.square(number)
    mean = (chances * number).sum(axis=1)
    std = np.sqrt((chances * squares).sum(axis=1) - np.square(mean))
    # A count near 0 would blow the mean up: numbers are positive, so the normal is cut at 0.
    signal = mean / std
    pull = np.exp(-0.5 * np.square(signal)) / math.sqrt(2.0 * math.pi) / ndtr(signal)
    return chances, mean + std * pull, std * np.sqrt(1.0 - signal * pull - pull**2)


def _above_edges(
    counts: tuple[Floats, float],
    customers: Floats,
    chances: Floats,
    beyond: Floats,
    edges: Floats,
) -> Floats:
    """Return the customers above each bound: curve and histogram, each by its error.

    The histogram alone where it is significantly above the curve. Many customers where the curve
    has none are the beginning of a power law of exponent 1, which sizes of enterprises follow: of N
    customers above s, N s / t are above t.
    """
    share = chances @ beyond
    fitted = customers[:, None] * share
    model = np.square(customers[:, None]) * (chances @ np.square(beyond) - np.square(share))
    model += np.square(_TAIL_ERROR * fitted)
    seen = np.cumsum(counts[0][:, ::-1], axis=1)[:, ::-1][:, 1:]
    seen_std = counts[1] * np.sqrt(np.arange(seen.shape[1], 0, -1.0))
    blended = np.maximum(fitted + model / (model + seen_std**2) * (seen - fitted), 0.0)
    sure = seen > np.where(share > _NEAR_BULK, *_SURE) * seen_std
    above = np.maximum(blended, np.where(sure, seen, 0.0))
    ahead = np.pad(seen - fitted, ((0, 0), (0, _WINDOW)))[:, _WINDOW:]
    surplus = seen - fitted - ahead  # in the next few cells
    fat = surplus > np.maximum(_FAT * counts[1] * math.sqrt(_WINDOW), fitted)
    in_window = 1.0 - edges[0] / edges[_WINDOW]  # of a law's customers above a bound
    begun = np.where(fat & (share < _FAR), surplus / in_window, 0.0)
    law = np.maximum.accumulate(begun * edges, axis=1) / edges
    not_refuted = np.maximum(seen, 0.0) + _REFUTED * seen_std
    found: Floats = np.maximum(above, np.minimum(law, not_refuted))
    return found


def _max_clipping_bias(counts: tuple[Floats, float], radii: Floats, edges: Floats) -> Floats:
    """Return the load above the radius that noisy counts do not rule out, but for 2.5 %.

    A customer in a cell of sizes up to u is clipped by at most u - R, so all are by at most
    ``sum h_c (u_c - R)+`` in counts h; its noise is normal, of standard deviation s |(u - R)+|.
    No customer is assumed to be above the plausible range.
    """
    upper = np.append(edges, edges[-1])
    by = np.maximum(upper - radii[:, None], 0.0)
    found: Floats = (counts[0] * by).sum(axis=1) + _UPPER_QUANTILE * counts[1] * np.linalg.norm(
        by, axis=1
    )
    return found


def _errors(chances: Floats, clipped: Floats, whole: Floats) -> tuple[Floats, Floats]:
    """Return the relative errors of each group's mean clipped size and of the mean over it."""
    typical = [_relative_std(*of) for of in zip(chances, clipped.T, strict=True)]
    rest = [_relative_std(*of) for of in zip(chances, whole / clipped.T, strict=True)]
    return np.array(typical), np.array(rest)


def _relative_std(chance: Floats, values: Floats) -> float:
    mean = float(chance @ values)
    return math.sqrt(max(float(chance @ np.square(values)) - mean**2, 0.0)) / mean


def _normalised(chances: Floats) -> Floats:
    found: Floats = chances / chances.sum()
    return found


@lru_cache(maxsize=4)
def _tails(log_edges: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """Return fine log sizes and, under each log-normal, what customers are clipped there.

    First the share of the customers above each, then the mean clipped size.
    """
    steps = np.arange(-_FINE_BELOW, _FINE * (len(log_edges) - 1) + 1)
    step = (log_edges[1] - log_edges[0]) / _FINE
    fine = np.asarray(log_edges[0] + steps * step, dtype=np.float64)
    medians, spreads = log_normal_grid(np.array(log_edges))
    beyond = ndtr((medians[..., None] - fine) / spreads[:, None]).reshape(-1, fine.size)
    widths = np.asarray(np.gradient(np.exp(fine)), dtype=np.float64)
    clipped: Floats = math.exp(fine[0]) + np.cumsum(beyond * widths, axis=1)
    return fine, beyond, clipped
