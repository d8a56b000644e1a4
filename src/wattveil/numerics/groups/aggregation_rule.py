"""N/X aggregation rules on released counts: which cells may be published, and coarser ones instead.

A cell is a group of customers, or several groups that stand together. Post-processing: it sees
noisy counts and released means only, and costs no privacy budget.

>>> AggregationRule.parse("15/15")
AggregationRule(min_customers=15, max_share_percent=15.0)
>>> [cell.members for cell in cells_of(3)]
[(0,), (1,), (2,), (0, 1), (0, 1, 2)]
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np
from scipy import stats

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError

ALL_TOGETHER = "all groups together"
"""Name of the cell of all groups."""
ALPHA = 1e-3
"""Largest probability, over the noise, that a cell below a limit of the rule is published."""
_ROUNDING = 1e-6
"""Added to normal quantiles: counts are drawn on a grid, whose law differs from the normal one by
far less."""
Z_COUNT = float(stats.norm.isf(ALPHA)) + _ROUNDING
_Z_SHARE = float(stats.norm.isf(ALPHA / 2.0)) + _ROUNDING
"""Of each of two bounds, on the number of customers and on their mean load."""


@dataclass(frozen=True, kw_only=True)
class AggregationRule:
    """At least N customers, and no customer above X % of the load."""

    min_customers: int
    max_share_percent: float

    def __post_init__(self) -> None:
        """Check the limits."""
        checks.integer("rule N", self.min_customers, minimum=2)
        if not 0.0 < checks.finite("rule X", self.max_share_percent) <= 100.0:
            raise InvalidParameterError("rule X", "above 0 and at most 100", self.max_share_percent)

    def __str__(self) -> str:
        """Return the rule as ``N/X``."""
        return f"{self.min_customers}/{self.max_share_percent:g}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``"N/X"``, such as 15/15, 100/15, 6/40 or 4/50."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,3}(?:\.[0-9]{1,9})?)", text)
        if found is None:
            raise InvalidParameterError("rule", "N/X, such as 15/15", text)
        return cls(min_customers=int(found[1]), max_share_percent=float(found[2]))

    def min_count(self, std: float) -> float:
        """Return the least noisy count that is published; ``std`` is that of its noise.

        A cell of at most N - 1 customers reaches N - 1 + z std with probability ALPHA at most.
        """
        return self.min_customers - 1 + Z_COUNT * std


class CellStatus(StrEnum):
    """What became of a cell."""

    PUBLISHED = "published"
    TOO_FEW = "too few customers, or too few to be sure"
    TOO_LARGE_SHARE = "one customer may have too large a share"
    COARSER = "part of a coarser cell"
    FINER = "divided into finer cells"


class Cell(NamedTuple):
    """Groups that stand together: one, or neighbours in the public list."""

    members: tuple[int, ...]
    parts: tuple[int, int] | None
    """The two cells, by number, of which it consists; None for a single group."""


def cells_of(n_groups: int) -> tuple[Cell, ...]:
    """Return all cells: the groups, then pairs, fours, ... of neighbours, and last all together.

    The cells follow from the number of groups alone. So a cell is tested whatever the noise, and
    the probability of a test needs no correction for having chosen it.
    """
    cells = [Cell((group,), None) for group in range(n_groups)]
    level = list(range(n_groups))
    while len(level) > 1:
        above = []
        for left, right in zip(level[::2], level[1::2], strict=False):
            cells.append(Cell(cells[left].members + cells[right].members, (left, right)))
            above.append(len(cells) - 1)
        level = above + level[len(level) - len(level) % 2 :]
    return tuple(cells)


def cell_names(levels: Sequence[str]) -> tuple[str, ...]:
    """Return the name of each cell."""
    names = []
    for cell in cells_of(len(levels)):
        own = [levels[member] for member in cell.members]
        if cell.parts is None:
            names += own
        elif len(own) == len(levels):
            names += [ALL_TOGETHER]
        elif len(own) == 2:
            names += [f"{own[0]} + {own[1]}"]
        else:
            names += [f"{own[0]} to {own[-1]} ({len(own)} groups)"]
    if len(set(names)) < len(names):
        rule = "values that are not the names of several values together"
        raise InvalidParameterError("levels", rule, tuple(levels))
    return tuple(names)


@dataclass(frozen=True, kw_only=True, eq=False)
class CellLimits:
    """Released numbers of each cell that the rule is applied to."""

    counts: Floats
    """Noisy numbers of customers, as drawn."""
    counts_std: Floats
    max_share: Floats
    """Upper bound on the share of one customer in the published load."""

    @classmethod
    def of(
        cls,
        cells: Sequence[Cell],
        counts: Floats,
        std: float,
        *,
        mean_kw: Floats,
        std_kw: Floats,
        clip_kw: Floats,
    ) -> "CellLimits":
        """Add up groups to cells.

        Parameters
        ----------
        counts, std
            Noisy number of customers of each group, and the standard deviation of their noise.
        mean_kw, std_kw
            Mean load of each cell over all slots, and a standard error of it.
        clip_kw
            The largest contribution of a customer to the load of a cell.
        """
        numbers = np.array([counts[list(cell.members)].sum() for cell in cells])
        errors = np.array([std * math.sqrt(len(cell.members)) for cell in cells])
        shares = max_shares(numbers, errors, mean_kw=mean_kw, std_kw=std_kw, clip_kw=clip_kw)
        return cls(counts=numbers, counts_std=errors, max_share=shares)


def max_shares(
    counts: Floats, counts_std: Floats, *, mean_kw: Floats, std_kw: Floats, clip_kw: Floats
) -> Floats:
    """Return the largest share of one customer in the published load of each cell.

    A customer contributes at most ``clip_kw`` to the load, so its share is at most::

        clip_kw / ((count - z count_std) (mean_kw - z std_kw))

    at confidence 1 - ALPHA. It is 1 where the load is not surely above 0.
    """
    customers = np.maximum(counts - _Z_SHARE * counts_std, 0.0)
    total = customers * np.maximum(mean_kw - _Z_SHARE * std_kw, 0.0)
    whole = np.maximum(np.maximum(total, clip_kw), np.finfo(float).tiny)
    shares: Floats = clip_kw / whole
    return shares


def decide(
    rule: AggregationRule, cells: Sequence[Cell], limits: CellLimits
) -> tuple[CellStatus, ...]:
    """Return what becomes of each cell; published cells have no group in common.

    A cell of several groups is published where one of its groups could not be: then its parts are
    not, since the difference of both would be the group that is hidden.
    """
    status = [_tested(rule, limits, place) for place in range(len(cells))]
    passes = [one is CellStatus.PUBLISHED for one in status]
    is_covered = list(passes)
    for place, cell in enumerate(cells):
        if cell.parts is None:
            continue
        if all(is_covered[part] for part in cell.parts):
            status[place], is_covered[place] = CellStatus.FINER, True
        elif passes[place]:
            _cover(cells, status, place)
    return tuple(status)


def _tested(rule: AggregationRule, limits: CellLimits, place: int) -> CellStatus:
    if limits.counts[place] < rule.min_count(float(limits.counts_std[place])):
        return CellStatus.TOO_FEW
    if limits.max_share[place] * 100.0 > rule.max_share_percent:
        return CellStatus.TOO_LARGE_SHARE
    return CellStatus.PUBLISHED


def _cover(cells: Sequence[Cell], status: list[CellStatus], place: int) -> None:
    """Mark everything below a published cell as part of it."""
    for part in cells[place].parts or ():
        status[part] = CellStatus.COARSER
        _cover(cells, status, part)
