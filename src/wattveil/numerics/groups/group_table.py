"""Tables of clusters by groups: their public shape, and consistent shares from noisy counts.

Groups are the combinations of the listed values of a few attributes (area, class); the last axis of
a table is the cluster. All that is done to noisy counts here is post-processing.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.label_channel import nearest_with_total

Groups = Mapping[str, Sequence[Hashable]]
"""Maps each attribute to its values: one per customer, or the list of possible values."""


@dataclass(frozen=True)
class GroupTable:
    """The public shape of a table."""

    levels: dict[str, tuple[Hashable, ...]]
    shape: tuple[int, ...]
    """How many values each attribute has, then how many clusters there are."""

    @classmethod
    def of(cls, levels: Groups, *, n_clusters: int) -> Self:
        """Check the list of values of each attribute."""
        public = {name: tuple(values) for name, values in levels.items()}
        for name, values in public.items():
            if not values or len(set(values)) < len(values):
                rule = "a list of at least one value, without repetition"
                raise InvalidParameterError(f"levels[{name!r}]", rule, values)
        return cls(public, (*map(len, public.values()), n_clusters))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConsistentShares:
    """Counts that fit together, and shares with standard errors."""

    consistent_counts: Floats
    """The nearest counts of at least 0 that add up to ``totals`` in every group; not unbiased."""
    totals: Floats
    """Customers in each group: as given, or the sum of its noisy counts, at least 0."""
    shares: Floats
    """``consistent_counts`` over ``totals``; equal shares where the total is 0."""
    shares_std: Floats
    """Standard error of each share from the known noise, to first order, at most 1."""


def consistent_shares(counts: Floats, *, std: float, totals: Floats | None) -> ConsistentShares:
    """Return counts of at least 0 that add up in every group, and their shares.

    The nearest such counts to noisy ones of equal standard deviation are those of least squares.

    Parameters
    ----------
    counts : (..., K)
        Noisy counts.
    std
        Standard deviation of the noise of each.
    totals : (...)
        Known totals of the groups; otherwise the sums of the noisy counts, at least 0.
    """
    sums = np.maximum(counts.sum(axis=-1), 0.0) if totals is None else totals
    consistent = nearest_with_total(counts, sums)
    some = sums[..., None] > 0.0
    shares = np.where(some, consistent / np.where(some, sums[..., None], 1.0), 1 / counts.shape[-1])
    errors = share_errors(shares, sums, std=std, known_totals=totals is not None)
    return ConsistentShares(
        consistent_counts=consistent, totals=sums, shares=shares, shares_std=errors
    )


def share_errors(shares: Floats, totals: Floats, *, std: float, known_totals: bool) -> Floats:
    """Return the standard error of s = count / total, first order, at most 1.

    A known total takes its part of the noise away: var = (1 - 1/K) std^2 / total^2. An unknown one
    is the sum of K noisy counts: var = ((1 - s)^2 + (K - 1) s^2) std^2 / total^2.
    """
    n_clusters = shares.shape[-1]
    unknown = np.square(1.0 - shares) + (n_clusters - 1) * np.square(shares)
    scale = np.full_like(shares, 1.0 - 1.0 / n_clusters) if known_totals else unknown
    size = np.maximum(totals, np.finfo(float).tiny)[..., None]
    errors: Floats = np.minimum(std * np.sqrt(scale), size) / size
    return errors


def checked_counts(field: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Accept finite numbers of at least 0 in this shape."""
    numbers = checks.numbers(field, value)
    if numbers.shape != shape or not ((numbers >= 0.0) & (numbers < np.inf)).all():
        raise InvalidParameterError(field, f"finite, at least 0, of shape {shape}", numbers.shape)
    return numbers
