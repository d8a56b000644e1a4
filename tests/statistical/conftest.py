"""What the audits share: the same experiment thousands of times without waiting for constants."""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget
from wattveil.privacy.mechanisms import modulo, response
from wattveil.privacy.noise import NoiseSource

_BLOCK = 4096


@pytest.fixture
def many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute functions of public parameters once; draw the system's noise in blocks.

    A block comes from the same sampler with the same scale, and each number is handed out once: a
    run has the law it would have without. That calls are independent is tested without this.
    """
    monkeypatch.setattr(accounting, "noise_scale", cache(accounting.noise_scale))
    monkeypatch.setattr(modulo, "modulo_flip", cache(modulo.modulo_flip))
    monkeypatch.setattr(response, "keep_probability", cache(response.keep_probability))

    largest_rho = Budget._largest_rho
    known: dict[tuple[object, ...], int] = {}

    def remembered(budget: Budget) -> int:
        key = (budget.guarantee, budget._grant)
        if key not in known:
            known[key] = largest_rho(budget)
        return known[key]

    monkeypatch.setattr(Budget, "_largest_rho", remembered)

    for law in ("discrete_gaussian", "discrete_laplace"):
        monkeypatch.setattr(NoiseSource, law, _in_blocks(law))


def _in_blocks(law: str) -> object:
    draw = getattr(NoiseSource, law)
    left: dict[float, NDArray[np.int64]] = defaultdict(lambda: np.zeros(0, dtype=np.int64))

    def hand_out(source: NoiseSource, scale: float, size: int) -> NDArray[np.int64]:
        if left[scale].size < size:
            left[scale] = np.concatenate((left[scale], draw(source, scale, max(size, _BLOCK))))
        taken, left[scale] = np.split(left[scale], [size])
        return taken.copy()

    return hand_out
