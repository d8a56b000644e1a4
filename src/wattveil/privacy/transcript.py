"""Record the exact and noisy integers of a release, and run it again on other data.

All computation between two queries is a function of released values. So a second run that receives
the noisy integers of the first makes exactly the same queries, and the difference of the exact
integers is the contribution of the changed data, query by query. The replay audit
(`wattveil.lab.audit.replay_audit`) uses this module.

The audit seeds the noise of the first run, so that it can be repeated; anyone who knows the seed
can subtract that noise. So what either run releases is for comparison only: all of it is marked as
simulated, and cannot be published once the run has ended. The exact integers are private: they stay
with the data holder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats, Ints
from wattveil.privacy import noise
from wattveil.privacy.private_data import IN_AUDIT


@dataclass(frozen=True, eq=False, repr=False)
class Draw:
    """One Gaussian query: exact integers (private), released integers, and the noise scale."""

    exact: Ints
    noisy: Ints
    scale: float


@dataclass(frozen=True, eq=False, repr=False)
class Transcript:
    """All Gaussian draws of a release, and the uniform words of its labels and keys."""

    draws: tuple[Draw, ...]
    words: tuple[NDArray[np.uint64], ...]


class Generator(Protocol):
    """A seeded generator of NumPy."""

    def normal(self, loc: float, scale: float, size: int, /) -> Floats:
        """Draw normal numbers."""

    def bytes(self, length: int, /) -> bytes:
        """Draw bytes."""


def record(
    run: Callable[[], object],
    handed: Transcript | None = None,
    *,
    generator: Generator | None = None,
) -> Transcript:
    """Run a release and return its transcript.

    Noise is that of an earlier transcript, if one is handed; else it comes from the generator;
    without one it is drawn by the system. What the run releases can never be published.
    """
    own = noise.NoiseSource() if generator is None else _SeededNoise(generator)
    source = _Recorder(handed, own)
    token = IN_AUDIT.set(True)
    try:
        with noise.simulate(source):
            run()
    finally:
        IN_AUDIT.reset(token)
    return Transcript(tuple(source.draws), tuple(source.drawn_words))


class _SeededNoise(noise.NoiseSource):
    """Rounded normal numbers and words of a seeded generator: for comparison, no protection."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def discrete_gaussian(self, scale: float, size: int) -> Ints:
        """Draw normal numbers, rounded."""
        return np.rint(self._generator.normal(0.0, scale, size)).astype(np.int64)

    def words(self, size: int) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words."""
        return np.frombuffer(self._generator.bytes(8 * size), dtype=np.uint64)


class _Recorder(noise.NoiseSource):
    """Noise source that records the noise of another source, or of an earlier transcript."""

    def __init__(self, handed: Transcript | None, source: noise.NoiseSource) -> None:
        self._handed = handed
        self._source = source
        self.draws: list[Draw] = []
        self.drawn_words: list[NDArray[np.uint64]] = []

    def add_discrete_gaussian(self, exact: Ints, scale: float) -> Ints:
        """Draw, or return the noisy integers of the same query in the earlier transcript."""
        if self._handed is None:
            noisy = self._source.add_discrete_gaussian(exact, scale)
        else:
            place = len(self.draws)
            earlier = self._handed.draws[place : place + 1]  # empty, if it made fewer queries
            if [(draw.scale, draw.exact.shape) for draw in earlier] != [(scale, exact.shape)]:
                raise ValueError("the second run made another query than the first")
            noisy = earlier[0].noisy.copy()
        self.draws.append(Draw(exact.copy(), noisy.copy(), scale))
        return noisy

    def words(self, size: int) -> NDArray[np.uint64]:
        """Draw, or return the words of the same call in the earlier transcript."""
        if self._handed is None:
            words = self._source.words(size)
        else:
            place = len(self.drawn_words)
            earlier = self._handed.words[place : place + 1]
            if [one.size for one in earlier] != [size]:
                raise ValueError("the second run drew another number of words than the first")
            words = earlier[0]
        self.drawn_words.append(words)
        return words
