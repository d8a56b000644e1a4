"""The cells of the coarse stage: public shapes at the size levels that were found."""

from dataclasses import dataclass, replace

import numpy as np

from wattveil.clustering import tuning
from wattveil.clustering.cells import Cells, start_cells
from wattveil.clustering.geometry import Floats
from wattveil.clustering.sizes import SizeLevels
from wattveil.clustering.tuning import Tuning

_SHORTEST = 0.3
"""A shape that the working coordinates hardly see is not blown up to full length."""
_DOUBTFUL = 1.8
"""Spreads above the median size from which a level must be confirmed by the coarse stage."""
_CONFIRMED = 2.5
"""Standard deviations that confirm it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Codebook:
    """Coarse cells, and the size level of each."""

    cells: Cells
    level: Floats
    doubtful: Floats
    """Size levels that must be confirmed."""

    def confirmed(self, seen: Cells) -> Cells:
        """Return the cells after the coarse stage, those of unconfirmed levels emptied.

        A level far above the bulk that holds nobody would take a whole cluster with it.
        """
        counts = seen.counts.copy()
        for level in self.doubtful:
            here = self.level == level
            if counts[here].sum() < _CONFIRMED * np.sqrt(seen.counts_variance[here].sum()):
                counts[here] = 0.0
        return replace(seen, counts=counts)


def full_length(shapes: Floats) -> Floats:
    """Return shapes in working coordinates at length 1, but for those that they hardly see."""
    lengths = np.linalg.norm(shapes, axis=1, keepdims=True)
    scaled: Floats = shapes / np.maximum(lengths, _SHORTEST)
    return scaled


def shapes_per_level(how: Tuning, sizes: SizeLevels) -> list[int]:
    """Return how many library shapes stand at each size level, from small to large."""
    if sizes.levels.size == 1:
        return [how.cells_normalised]
    low, middle, top = how.cells_per_level
    return [low, *[middle] * (sizes.levels.size - 2), top]


def make_codebook(shapes: Floats, sizes: SizeLevels, how: Tuning) -> Codebook:
    """Return one cell for each shape (in working coordinates) and size level.

    Customers are expected evenly over the shapes of a level.
    """
    shapes = full_length(shapes)
    numbers = np.minimum(shapes_per_level(how, sizes), len(shapes))
    level = np.repeat(sizes.levels, numbers)
    expected = np.repeat(sizes.customers / numbers, numbers)
    return Codebook(
        cells=start_cells(
            level[:, None] * np.concatenate([shapes[:number] for number in numbers]),
            tuning.CELL_RADIUS * level,
            expected,
            counts_std=tuning.COUNT_PRIOR * expected,
            spread=tuning.LIBRARY_SPREAD,
        ),
        level=level,
        doubtful=sizes.levels[1:][
            sizes.levels[1:] > np.exp(sizes.log_median + _DOUBTFUL * sizes.log_spread)
        ],
    )
