"""From noisy sizes by group to clip radii, the correction for clipping, and customer numbers.

Post-processing: it sees released counts and public bounds only.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from wattveil.clustering.calendar import Calendar
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_table import UNLISTED, places_among
from wattveil.clustering.sizes import checked_range
from wattveil.compiled import over_spans

EVERYBODY = ("all",)
"""The levels when there are no groups."""
NOWHERE = UNLISTED
"""The cell of a customer who contributes to no group."""
UNCORRECTED = 0.5
"""Share of the clipping bias that the correction is expected to miss."""

_SIZE_RATIO = 1.6
"""Between the bounds of the size cells."""
_NEAR_POOLED = (0.7, 0.3)
"""Standard deviation of a group's log median and log log-spread around the pooled ones."""
_LOG_SPREAD = (math.log(0.6), 0.5)
"""Median of the spread of log sizes, as a logarithm, and the standard deviation around it."""
_SURE = (3.0, 4.5)
"""Standard deviations that make a tail beyond the fitted curve believed: near the bulk, and beyond
2.5 spreads, where a false belief is costly."""
_FILTERED = 3.0
"""Coordinates' worth of noise that the filter leaves in a curve."""
_MOST_CORRECTION = 2.0
_TAIL_ERROR = 0.5
"""Relative error of the customers above a bound, as the fitted curve has them."""
_FIT_ERROR = 0.1
"""Relative error of the number of customers under a log-normal that does not quite fit."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupSizes:
    """What the released sizes say of each group."""

    customers: Floats
    customers_std: Floats
    radii: Floats
    """Clip radius, in kW."""
    correction: Floats
    """Mean size over mean clipped size."""
    typical: Floats
    """Mean clipped size, in kW."""
    clipped_share: Floats
    clipped_share_std: Floats


def group_cells(
    groups: Sequence[Hashable] | None, levels: Sequence[Hashable], *, customers: int
) -> NDArray[np.int64]:
    """Return the place of each customer's group among the levels, or `NOWHERE`."""
    own = [*levels[:1]] * customers if groups is None else groups
    return places_among(own, levels, field="groups", n_rows=customers)


def size_edges(plausible_kw: tuple[float, float]) -> Floats:
    """Return the bounds of the size cells, geometric between the plausible sizes."""
    least, most = checked_range(plausible_kw)
    steps = np.arange(math.log(least), math.log(most) + 1e-9, math.log(_SIZE_RATIO))
    return np.asarray(np.exp(steps), dtype=np.float64)


def size_cells(
    load_kw: Floats, cells: NDArray[np.int64], edges: Floats, calendar: Calendar
) -> NDArray[np.int64]:
    """Return each customer's place among groups and sizes, or `NOWHERE`."""

    def of_span(_: int, first: int, last: int) -> NDArray[np.int64]:
        size = calendar.project(load_kw, (first, last))[1]
        own = cells[first:last]
        place = own * (edges.size + 1) + np.searchsorted(edges, size, side="right")
        return np.where(own == NOWHERE, NOWHERE, place)

    return np.concatenate(over_spans(len(load_kw), of_span))


def expected_counts(
    customers: Floats, edges: Floats, *, typical_kw: float, log_spread: float
) -> Floats:
    """Return the customers to be expected in each size cell of each group, under a log-normal."""
    below = ndtr((np.log(edges) - math.log(typical_kw)) / log_spread)
    return customers[:, None] * np.diff(below, prepend=0.0, append=1.0)


def read_sizes(
    counts: Floats, edges: Floats, *, std: float, sums_std: float, clip_kw: float | None
) -> GroupSizes:
    """Fit a log-normal to each group's noisy size counts and choose its clip radius.

    The radius has the least ``3 (sums_std R)^2 + (0.5 n E(size - R)+)^2``: noise that the filter
    leaves against bias that the correction misses. ``clip_kw`` overrides the choice.
    """
    log_edges = np.log(edges)
    wide = (0.5 * (log_edges[0] + log_edges[-1]), 0.25 * (log_edges[-1] - log_edges[0]))
    pooled = _fit(counts.sum(axis=0), log_edges, std * math.sqrt(len(counts)), wide, _LOG_SPREAD)
    near = (pooled[0], _NEAR_POOLED[0]), (math.log(pooled[1]), _NEAR_POOLED[1])
    alone = len(counts) == 1
    fits = [pooled if alone else _fit(row, log_edges, std, *near) for row in counts]
    median, spread, total, total_std = np.array(fits).T[:, :, None]

    # Customers above each bound: curve and histogram, each by its error; more if sure of more.
    seen = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1][:, 1:]
    seen_std = std * np.sqrt(np.arange(edges.size, 0, -1.0))
    fitted = total * ndtr((median - log_edges) / spread)
    model = np.square(_TAIL_ERROR * fitted)
    blended = np.maximum(fitted + model / (model + seen_std**2) * (seen - fitted), 0.0)
    sure = np.where(log_edges < median + 2.5 * spread, *_SURE)
    above = np.maximum(blended, np.where(seen > sure * seen_std, seen, 0.0))
    above = np.minimum(np.maximum.accumulate(above[:, ::-1], axis=1)[:, ::-1], total)

    # n E(size - R)+ is the integral of the customers above s over s > R.
    fine = np.arange(log_edges[0] - 1.5, log_edges[-1] + 1e-9, 0.05)
    ends = np.concatenate([[log_edges[0] - math.log(_SIZE_RATIO)], log_edges])
    tails = np.array([np.interp(fine, ends, row) for row in np.hstack([total, above])])
    pieces = tails * np.gradient(np.exp(fine))
    excess = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1] - pieces
    everything = total[:, 0] * math.exp(fine[0]) + excess[:, 0]
    risk = _FILTERED * np.square(sums_std * np.exp(fine)) + np.square(UNCORRECTED * excess)
    chosen = risk.argmin(axis=1)
    if clip_kw is not None:
        chosen = np.full_like(chosen, np.abs(fine - math.log(clip_kw)).argmin())
    rows = np.arange(len(counts))
    inside = np.maximum(everything - excess[rows, chosen], 1e-9)
    cells_above = np.maximum(edges.size - np.searchsorted(log_edges, fine[chosen]), 1)
    return GroupSizes(
        customers=total[:, 0],
        customers_std=np.hypot(total_std[:, 0], _FIT_ERROR * total[:, 0]),
        radii=np.exp(fine[chosen]) if clip_kw is None else np.full(len(counts), clip_kw),
        correction=np.minimum(everything / inside, _MOST_CORRECTION),
        typical=inside / total[:, 0],
        clipped_share=tails[rows, chosen] / total[:, 0],
        clipped_share_std=std * np.sqrt(cells_above) / total[:, 0],
    )


def join_counts(counts: Floats, std: float, sizes: GroupSizes) -> tuple[Floats, Floats]:
    """Return the customers of each group from their own count and from the sizes, with errors."""
    precision, from_sizes = std**-2, sizes.customers_std**-2
    error = 1.0 / np.sqrt(precision + from_sizes)
    customers = (counts * precision + sizes.customers * from_sizes) * np.square(error)
    # A count near 0 would blow the mean up; half its own error is a floor that cannot.
    return np.maximum(customers, np.maximum(0.5 * error, 1.0)), error


def _fit(
    counts: Floats,
    log_edges: Floats,
    std: float,
    median_prior: tuple[float, float],
    spread_prior: tuple[float, float],
) -> tuple[float, float, float, float]:
    """Return log median, log spread, customers and their error, by penalised least squares.

    For each median and spread on a grid the best number is ``n = q'h / q'q``, with q the shares of
    the cells and h the counts; its error is std / |q|.
    """
    medians, spreads, shares = _grid(tuple(log_edges.tolist()))
    squares = np.square(shares).sum(axis=2)
    total = np.maximum((shares @ counts) / squares, 1.0)
    misfit = np.square(counts - total[..., None] * shares).sum(axis=2) / std**2
    misfit += np.square((medians - median_prior[0]) / median_prior[1])
    misfit += np.square((np.log(spreads) - spread_prior[0]) / spread_prior[1])
    i, j = np.unravel_index(misfit.argmin(), misfit.shape)
    error = std / math.sqrt(squares[i, j])
    return float(medians[i, 0]), float(spreads[j]), float(total[i, j]), error


@cache
def _grid(log_edges: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """Return medians, spreads, and the share of each size cell under each pair of them."""
    medians = np.linspace(log_edges[0] - 0.5, log_edges[-1] + 0.5, 120)[:, None]
    spreads = np.exp(np.linspace(math.log(0.15), math.log(2.2), 24))
    below = ndtr((np.array(log_edges) - medians[..., None]) / spreads[:, None])
    return medians, spreads, np.diff(below, axis=2, prepend=0.0, append=1.0)
