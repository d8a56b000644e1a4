"""A transcript of a baseline, replayed on other customers."""

import numpy as np

from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import Noise


class Recorded(Noise):
    """Records exact answers; returns the noisy answers of another transcript, if given."""

    def __init__(self, seed: int, replayed: "Recorded | None" = None) -> None:
        super().__init__(np.random.default_rng(seed))
        self.exact: list[Floats] = []
        self.noisy: list[Floats] = []
        self.replayed = replayed

    def laplace(self, exact: Floats, *, sensitivity: float, epsilon: float, step: str) -> Floats:
        """Draw or replay."""
        drawn = super().laplace(exact, sensitivity=sensitivity, epsilon=epsilon, step=step)
        return self._kept(exact, drawn)

    def gaussian(self, exact: Floats, *, sensitivity: float, mu: float, step: str) -> Floats:
        """Draw or replay."""
        return self._kept(exact, super().gaussian(exact, sensitivity=sensitivity, mu=mu, step=step))

    def _kept(self, exact: Floats, drawn: Floats) -> Floats:
        self.exact.append(exact.copy())
        self.noisy.append(drawn if self.replayed is None else self.replayed.noisy[len(self.noisy)])
        return self.noisy[-1]

    def reached(self) -> list[float]:
        """Return the change of each exact answer over its sensitivity."""
        assert self.replayed is not None
        return [
            float(np.linalg.norm((one - two).ravel(), 1 if step.pure else 2)) / step.sensitivity
            for one, two, step in zip(self.exact, self.replayed.exact, self.steps, strict=True)
        ]
