"""Noise of the baselines, and a record of what each draw costs.

What a baseline guarantees is added up from this record, never from what it was meant to spend.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from wattveil import calibration

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One noisy answer.

    Attributes
    ----------
    step : str
        What it is for.
    sensitivity : float
        Of the answer, for one customer: L1 for Laplace, L2 for Gaussian, of the cost for a choice.
    scale : float
        Of the noise: Laplace's b, the standard deviation, the temperature of a choice.
    pure : bool
        Whether it costs epsilon = sensitivity / scale, or mu = sensitivity / scale of the Gaussian.
    """

    step: str
    sensitivity: float
    scale: float
    pure: bool = True

    @property
    def price(self) -> float:
        """Epsilon, or mu of a Gaussian answer."""
        return self.sensitivity / self.scale


class Noise:
    """Draws noise and remembers what it was asked.

    Parameters
    ----------
    generator : numpy.random.Generator
        Given by the caller: repeats a comparison, protects nobody.
    """

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.asks: list[Ask] = []

    def laplace(self, exact: Floats, *, sensitivity: float, epsilon: float, step: str) -> Floats:
        """Add Laplace noise of scale sensitivity / epsilon to every number."""
        ask = Ask(step=step, sensitivity=sensitivity, scale=sensitivity / epsilon)
        self.asks.append(ask)
        return exact + self.generator.laplace(scale=ask.scale, size=exact.shape)

    def gaussian(self, exact: Floats, *, sensitivity: float, mu: float, step: str) -> Floats:
        """Add Gaussian noise of standard deviation sensitivity / mu to every number."""
        ask = Ask(step=step, sensitivity=sensitivity, scale=sensitivity / mu, pure=False)
        self.asks.append(ask)
        return exact + ask.scale * self.generator.standard_normal(exact.shape)

    def choose(self, costs: Floats, *, sensitivity: float, epsilon: float, step: str) -> int:
        """Choose i with probability proportional to exp(-epsilon costs_i / sensitivity).

        The exponential mechanism of monotone costs: a customer more raises every cost by at most
        the sensitivity and lowers none, so epsilon is paid once and not twice.
        """
        ask = Ask(step=step, sensitivity=sensitivity, scale=sensitivity / epsilon)
        self.asks.append(ask)
        # The largest of scores with Gumbel noise has just this distribution.
        scores = -costs / ask.scale + self.generator.gumbel(size=costs.shape)
        return int(scores.argmax())

    def respond(self, labels: Ints, n_labels: int, *, epsilon: float, step: str) -> Ints:
        """Keep each label with probability e^epsilon / (e^epsilon + K - 1), else draw another."""
        self.asks.append(Ask(step=step, sensitivity=1.0, scale=1.0 / epsilon))
        keeps = self.generator.random(labels.shape) < keep_chance(n_labels, epsilon)
        others = (labels + self.generator.integers(1, n_labels, size=labels.shape)) % n_labels
        return np.where(keeps, labels, others)

    def took_one_of(self, branches: "Sequence[Noise]") -> None:
        """Record branches on disjoint customers: each customer pays for one of them."""
        self.asks += max(branches, key=lambda branch: total_epsilon(branch.asks)).asks


def keep_chance(n_labels: int, epsilon: float) -> float:
    """Return e^epsilon / (e^epsilon + K - 1), the chance that a response is the truth."""
    return 1.0 / (1.0 + (n_labels - 1) * math.exp(-epsilon))


def total_epsilon(asks: Sequence[Ask]) -> float:
    """Return the epsilon of all answers together, none of them Gaussian: their sum."""
    return math.fsum(ask.price for ask in asks if ask.pure)


def total_delta(asks: Sequence[Ask], *, epsilon: float) -> float:
    """Return the delta of all answers together at epsilon, all of them Gaussian.

    They compose as one with mu = sqrt(sum mu_i^2).
    """
    mu = calibration.compose_s(*(ask.price for ask in asks if not ask.pure))
    return calibration.gaussian_delta(epsilon=epsilon, s=mu)
