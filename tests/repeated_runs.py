"""Patches that make thousands of runs of one experiment affordable."""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from wattveil.arrays import Floats, Ints
from wattveil.numerics.kmeans import cluster_merge
from wattveil.privacy import accounting
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms import modulo, response
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid
from wattveil.privacy.noise import NoiseSource

_BLOCK = 4096
_largest_rho = Budget._largest_rho
_noise_scale = cache(accounting.noise_scale)
_modulo_flip = cache(modulo.modulo_flip)
_response_channel = cache(response.response_channel)
_composed_epsilon = cache(Composition.epsilon)
_units: dict[tuple[object, ...], int] = {}


def share_constants(patch: pytest.MonkeyPatch) -> None:
    """Compute once per process what is a function of public numbers: scales, channels, grants."""
    patch.setattr(accounting, "noise_scale", _noise_scale)
    patch.setattr(modulo, "modulo_flip", _modulo_flip)
    patch.setattr(response, "response_channel", _response_channel)
    patch.setattr(Budget, "_largest_rho", _remembered_rho)
    patch.setattr(Composition, "epsilon", _composed_epsilon)


def _remembered_rho(budget: Budget, aside: Composition) -> int:
    key = (budget.guarantee, aside)
    if key not in _units:
        _units[key] = _largest_rho(budget, aside)
    return _units[key]


def restart_seldom(patch: pytest.MonkeyPatch) -> None:
    """Look for fewer local optima: the best of twenty matters where accuracy is tested."""
    patch.setattr(cluster_merge, "_RESTARTS", 2)


def remember_constants(patch: pytest.MonkeyPatch) -> None:
    """Compute once in a test what no run of it can change: a planted fault may change it."""
    patch.setattr(accounting, "noise_scale", cache(accounting.noise_scale))
    patch.setattr(modulo, "modulo_flip", cache(modulo.modulo_flip))
    patch.setattr(response, "response_channel", cache(response.response_channel))
    largest_rho = Budget._largest_rho
    units: dict[tuple[object, ...], int] = {}

    def remembered_rho(budget: Budget, aside: Composition) -> int:
        key = (budget.guarantee, aside)
        if key not in units:
            units[key] = largest_rho(budget, aside)
        return units[key]

    patch.setattr(Budget, "_largest_rho", remembered_rho)
    round_answer = Ellipsoid.round_answer
    answers: dict[tuple[object, ...], Ints] = {}

    def remembered_answer(ellipsoid: Ellipsoid, vector: Floats) -> Ints:
        key = (ellipsoid, *vector.tolist())  # ellipsoids compare by identity
        if key not in answers:
            answers[key] = round_answer(ellipsoid, vector)
        return answers[key].copy()

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
