"""The stages of private K-means, each of some steps: ask, filter what was released, ask again.

Post-processing: of the customers a stage has nothing but an `AskStep`, which releases noisy counts
and sums of the cells it is given and charges for them.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from wattveil.clustering import cells as filtering
from wattveil.clustering import tuning
from wattveil.clustering.cells import Cells, Statistics
from wattveil.clustering.geometry import Floats
from wattveil.clustering.look_back import look_back
from wattveil.clustering.merge import shrink_together
from wattveil.clustering.middle import doubt_middle
from wattveil.clustering.tuning import Tuning


class AskStep(Protocol):
    """Release what the customers add to cells: `wattveil.release.queries.KMeansQueries.step`."""

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


def middle_stage(ask: AskStep, middle: Cells, *, size: float, colour: Floats, units: int) -> Cells:
    """Return the cell of all customers around their mean, by steps of falling radius."""
    radii = tuning.MIDDLE_RADII
    for step, of_step in enumerate(tuning.split_units(units, len(radii))):
        middle = replace(middle, radii=np.array([radii[step] * size]))
        parts = tuning.counts_and_sums(of_step, tuning.REFINE_COUNT_PART)
        tag = f"middle step {step + 1}"
        seen = ask(middle, colour=colour, shells=(), rho_units=parts, tag=tag)
        middle = filtering.update(middle, seen, step=step, colour=colour)
    return middle


def coarse_stage(ask: AskStep, cells: Cells, *, colour: Floats, how: Tuning, units: int) -> Cells:
    """Return public cells, after the customers in them were counted and their middles found."""
    for step, of_step in enumerate(tuning.split_units(units, how.coarse_steps)):
        parts = tuning.counts_and_sums(of_step, tuning.COARSE_COUNT_PART)
        tag = f"coarse step {step + 1}"
        seen = ask(cells, colour=colour, shells=(), rho_units=parts, tag=tag)
        cells = filtering.update(cells, seen, step=step, colour=colour)
    return cells


def refining_stage(ask: AskStep, cells: Cells, *, colour: Floats, how: Tuning, units: int) -> Cells:
    """Return clusters after Lloyd steps around released middles."""
    steps: list[tuple[Cells, Statistics]] = []
    for step, of_step in enumerate(tuning.split_units(units, how.refine_steps)):
        parts = tuning.counts_and_sums(of_step, tuning.REFINE_COUNT_PART)
        tag = f"refining step {step + 1}"
        seen = ask(cells, colour=colour, shells=how.shells, rho_units=parts, tag=tag)
        steps += [(cells, seen)]
        cells = filtering.update(cells, seen, step=step, colour=colour)
        cells = filtering.follow_shells(cells, seen, how)
    return look_back(cells, steps, colour=colour)


def last_look(cells: Cells, *, is_shape: bool, has_middle: bool, std: float) -> Cells:
    """Return refined clusters as far as they differ by more than noise, with honest errors.

    ``std`` is of the number of customers, which all counts took for granted.
    """
    if has_middle and len(cells.counts) > 1:
        cells = doubt_middle(cells)
    elif is_shape and not has_middle:
        cells = shrink_together(cells)
    in_common = np.square(std / len(cells.counts))
    return replace(cells, counts_variance=cells.counts_variance + in_common)
