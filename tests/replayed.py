"""A transcript of a baseline, replayed on other customers."""

import numpy as np
from numpy.typing import NDArray

from wattveil.baselines.noise import Noise

Floats = NDArray[np.float64]


class Recorded(Noise):
    """Keeps exact answers; gives the noisy ones of another transcript, if there is one."""

    def __init__(self, seed: int, told: "Recorded | None" = None) -> None:
        super().__init__(np.random.default_rng(seed))
        self.exact: list[Floats] = []
        self.noisy: list[Floats] = []
        self.told = told

    def laplace(self, exact: Floats, *, sensitivity: float, epsilon: float, step: str) -> Floats:
        """Draw or replay."""
        drawn = super().laplace(exact, sensitivity=sensitivity, epsilon=epsilon, step=step)
        return self._kept(exact, drawn)

    def gaussian(self, exact: Floats, *, sensitivity: float, mu: float, step: str) -> Floats:
        """Draw or replay."""
        return self._kept(exact, super().gaussian(exact, sensitivity=sensitivity, mu=mu, step=step))

    def _kept(self, exact: Floats, drawn: Floats) -> Floats:
        self.exact.append(exact.copy())
        self.noisy.append(drawn if self.told is None else self.told.noisy[len(self.noisy)])
        return self.noisy[-1]

    def reached(self) -> list[float]:
        """Return the change of each exact answer over its sensitivity."""
        assert self.told is not None
        return [
            float(np.linalg.norm((one - two).ravel(), 1 if ask.pure else 2)) / ask.sensitivity
            for one, two, ask in zip(self.exact, self.told.exact, self.asks, strict=True)
        ]
