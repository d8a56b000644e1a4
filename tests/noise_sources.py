"""Fixtures of guarantees, budgets and noise sources (silent, seeded, scripted)."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Tier, Unit
from wattveil.privacy.noise import NoiseSource

Draw = tuple[str, float, int]


class Silent(NoiseSource):
    """Adds no noise, moves no label, and records each call."""

    def __init__(self, recorded: list[Draw]) -> None:
        self.recorded = recorded

    def discrete_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
        """Return no noise."""
        self.recorded.append(("gaussian", scale, size))
        return np.zeros(size, dtype=np.int64)

    def words(self, size: int) -> NDArray[np.uint64]:
        """Return the word with the largest residue modulo any power of two: no draw is true."""
        self.recorded.append(("words", 0.0, size))
        return np.full(size, 2**62 - 1, dtype=np.uint64)


class Seeded(NoiseSource):
    """Noise from a seeded generator."""

    def __init__(self, number: int) -> None:
        self.generator = np.random.default_rng(number)

    def discrete_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
        """Return rounded normal numbers."""
        return np.rint(self.generator.normal(0.0, scale, size)).astype(np.int64)

    def words(self, size: int) -> NDArray[np.uint64]:
        """Return uniform words."""
        return self.generator.integers(0, 2**64, size, dtype=np.uint64)


class Scripted(NoiseSource):
    """Returns chosen words, in order; ``genuine`` makes what is drawn publishable."""

    def __init__(self, words: list[int], *, genuine: bool = False) -> None:
        self.left = list(words)
        self.is_genuine = genuine

    def words(self, size: int) -> NDArray[np.uint64]:
        """Return the next chosen words."""
        taken, self.left = self.left[:size], self.left[size:]
        if len(taken) < size:
            pytest.fail("more words were drawn than were chosen")
        return np.array(taken, dtype=np.uint64)


@pytest.fixture
def recorded() -> list[Draw]:
    """Return the list of draws (kind, scale, size) that `silent` fills."""
    return []


@pytest.fixture
def silent(recorded: list[Draw]) -> NoiseSource:
    """Return a source without noise."""
    return Silent(recorded)


@pytest.fixture
def seeded() -> Callable[[int], NoiseSource]:
    """Return a function that makes repeatable sources."""
    return Seeded


@pytest.fixture
def scripted() -> Callable[..., NoiseSource]:
    """Return a function that makes sources of chosen words."""
    return Scripted


@pytest.fixture
def make_guarantee() -> Callable[..., Guarantee]:
    """Return a function that makes guarantees; default (1, 1e-6), global, zero-out, customer."""

    def make(**fields: object) -> Guarantee:
        usual: dict[str, object] = {
            "epsilon": 1.0,
            "delta": 1e-6,
            "tier": Tier.GLOBAL,
            "neighbours": Neighbours.ZERO_OUT,
            "unit": Unit.CUSTOMER,
        }
        return Guarantee(**{**usual, **fields})  # type: ignore[arg-type]  # wrong on purpose

    return make


@pytest.fixture
def ample(make_guarantee: Callable[..., Guarantee]) -> Callable[..., Budget]:
    """Return a function that makes budgets for any mechanism: rho = 30, response (20, 0.01)."""

    def make(neighbours: Neighbours = Neighbours.ZERO_OUT, tier: Tier = Tier.GLOBAL) -> Budget:
        whole = make_guarantee(epsilon=120.0, delta=0.02, neighbours=neighbours, tier=tier)
        return Budget(whole, response_epsilon=20.0, response_delta=0.01)

    return make
