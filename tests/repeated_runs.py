"""Patches that make thousands of runs of one experiment affordable."""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from wattveil.arrays import Floats, Ints
from wattveil.privacy import accounting
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms import modulo, response
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid
from wattveil.privacy.noise import NoiseSource

_BLOCK = 4096


def remember_constants(patch: pytest.MonkeyPatch) -> None:
    """Compute once what no run can change."""
    patch.setattr(accounting, "noise_scale", cache(accounting.noise_scale))
    patch.setattr(modulo, "modulo_flip", cache(modulo.modulo_flip))
    patch.setattr(response, "response_channel", cache(response.response_channel))

    largest_rho, round_answer = Budget._largest_rho, Ellipsoid.round_answer
    units: dict[tuple[object, ...], int] = {}
    answers: dict[tuple[object, ...], Ints] = {}

    def remembered_rho(budget: Budget, aside: Composition) -> int:
        key = (budget.guarantee, aside)
        if key not in units:
            units[key] = largest_rho(budget, aside)
        return units[key]

    def remembered_answer(ellipsoid: Ellipsoid, vector: Floats) -> Ints:
        key = (ellipsoid, *vector.tolist())  # ellipsoids compare by identity
        if key not in answers:
            answers[key] = round_answer(ellipsoid, vector)
        return answers[key].copy()

    patch.setattr(Budget, "_largest_rho", remembered_rho)
    patch.setattr(Ellipsoid, "round_answer", remembered_answer)


def draw_in_blocks(patch: pytest.MonkeyPatch) -> None:
    """Draw the system's noise in blocks, and return each number once."""
    draw = NoiseSource.discrete_gaussian
    left: dict[float, Ints] = defaultdict(lambda: np.zeros(0, dtype=np.int64))

    def next_numbers(source: NoiseSource, scale: float, size: int) -> Ints:
        if left[scale].size < size:
            left[scale] = np.concatenate((left[scale], draw(source, scale, max(size, _BLOCK))))
        taken, left[scale] = np.split(left[scale], [size])
        return taken.copy()

    patch.setattr(NoiseSource, "discrete_gaussian", next_numbers)
