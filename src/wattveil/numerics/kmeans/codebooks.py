"""Codebooks of the coarse stage: public shapes at released sizes, around a released mean if any.

Post-processing of released numbers and public shapes. `make_codebook` has library shapes at each
size level. Customers are alike: most differ from the mean shape by less than library shapes do. So
with the population mean known, cells around it find clusters with less budget: `shape_codebook` for
normalised rows, `load_codebook` for kW.
"""

from dataclasses import dataclass, replace

import numpy as np

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.kmeans_stages import Cells, full_length, start_cells
from wattveil.numerics.kmeans.kmeans_tuning import Tuning
from wattveil.numerics.size_distribution import SizeLevels

_CONFIRM_ABOVE = 1.8
"""Log standard deviations above the median from which the coarse stage must confirm a level."""
_CONFIRMED = 2.5
"""Standard deviations of a count that confirm it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Codebook:
    """Coarse cells, and the size level of each."""

    cells: Cells
    level: Floats
    unconfirmed: Floats
    """Size levels that the coarse stage must confirm."""

    def confirmed(self, observed: Cells) -> Cells:
        """Return the cells after the coarse stage, those of unconfirmed levels emptied.

        An empty level far above the bulk would occupy a cluster of its own.
        """
        counts = observed.counts.copy()
        for level in self.unconfirmed:
            here = self.level == level
            if counts[here].sum() < _CONFIRMED * np.sqrt(observed.counts_variance[here].sum()):
                counts[here] = 0.0
        return replace(observed, counts=counts)


def shapes_per_level(tuning: Tuning, sizes: SizeLevels) -> list[int]:
    """Return the number of library shapes at each size level, from small to large."""
    if sizes.levels.size == 1:
        return [tuning.cells_normalised]
    low, inner, top = tuning.cells_per_level
    return [low, *[inner] * (sizes.levels.size - 2), top]


def make_codebook(shapes: Floats, sizes: SizeLevels, tuning: Tuning) -> Codebook:
    """Return one cell for each shape (in working coordinates) and size level.

    The prior distributes the customers of a level evenly over its shapes.
    """
    shapes = full_length(shapes)
    numbers = np.minimum(shapes_per_level(tuning, sizes), len(shapes))
    level = np.repeat(sizes.levels, numbers)
    expected = np.repeat(sizes.customers / numbers, numbers)
    centres = level[:, None] * np.concatenate([shapes[:number] for number in numbers])
    return _codebook(centres, kmeans_tuning.CELL_RADIUS * level, expected, level, sizes)


def shape_codebook(shapes: Floats, mean: Cells, sizes: SizeLevels, n_clusters: int) -> Codebook:
    """Return cells around the population mean of shapes that are alike, and at library shapes.

    With m the mean, l_i the library shapes and l their mean, the cells are m, m + s (l_i - l) and
    l_i: offsets that are typical of load, at the scale s by which alike customers differ.
    """
    (size,) = sizes.levels
    number = max(kmeans_tuning.CENTRED_SHAPES, n_clusters)
    library = size * full_length(shapes[:number])
    around = kmeans_tuning.CENTRED_SCALE * (library - library.mean(axis=0))
    centres = np.vstack([mean.centres, mean.centres + around, library])
    radii = np.full(len(centres), kmeans_tuning.CENTRED_RADIUS * size)
    radii[-len(library) :] = kmeans_tuning.LIBRARY_RADIUS * size
    expected = np.full(len(centres), sizes.total / len(centres))
    return _codebook(centres, radii, expected, np.full(len(centres), size), sizes)


def load_codebook(shapes: Floats, mean: Cells, sizes: SizeLevels, n_clusters: int) -> Codebook:
    """Return cells at each size level: the direction of the mean, offsets from it, and the library.

    With u the direction, the cells of a level are its size times u, u + s (l_i - l) and l_i.
    """
    shapes = full_length(shapes)
    direction = mean.centres / np.maximum(np.linalg.norm(mean.centres), 1e-12)
    around = direction + kmeans_tuning.LOAD_SCALE * (
        shapes - shapes[: kmeans_tuning.CENTRED_SHAPES].mean(axis=0)
    )
    last = sizes.levels.size - 1
    library, offsets = kmeans_tuning.centred_load_cells(n_clusters)

    def at_level(place: int) -> Floats:
        kind = 0 if place == 0 else 2 if place == last else 1
        unit = np.vstack([shapes[: library[kind]], direction, around[: offsets[kind]]])
        cells: Floats = sizes.levels[place] * unit
        return cells

    parts = [at_level(place) for place in range(last + 1)]
    numbers = [len(part) for part in parts]
    level = np.repeat(sizes.levels, numbers)
    expected = np.repeat(sizes.customers / numbers, numbers)
    return _codebook(np.vstack(parts), kmeans_tuning.LOAD_RADIUS * level, expected, level, sizes)


def _codebook(
    centres: Floats, radii: Floats, expected: Floats, level: Floats, sizes: SizeLevels
) -> Codebook:
    """Return the cells with their prior: ``expected`` customers, centres that may move."""
    far = np.exp(sizes.log_median + _CONFIRM_ABOVE * sizes.log_std)
    return Codebook(
        cells=start_cells(
            centres,
            radii,
            expected,
            counts_std=kmeans_tuning.COUNT_PRIOR * expected,
            spread=kmeans_tuning.LIBRARY_SPREAD,
        ),
        level=level,
        unconfirmed=sizes.levels[1:][sizes.levels[1:] > far],
    )
