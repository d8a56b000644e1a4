"""Record the exact and noisy integers of a release, and run it again on other data.

All computation between two queries is a function of released values. So a second run that receives
the noisy integers of the first makes exactly the same queries, and the difference of the exact
integers is the contribution of the changed data, query by query. The replay audit
(`wattveil.lab.audit.replay_audit`) uses this module.

The noisy integers of both runs are those of the first, a genuine release. Labels of a changed
customer may differ, so what the second run releases is for comparison only and must not be
published. The exact integers are private: they stay with the data holder.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Ints
from wattveil.privacy import noise


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


def record(run: Callable[[], object], handed: Transcript | None = None) -> Transcript:
    """Run a release and return its transcript; reuse the draws of an earlier one, if given."""
    source = _Recorder(handed)
    with noise.rehearse(source):
        run()
    return Transcript(tuple(source.draws), tuple(source.drawn_words))


class _Recorder(noise.NoiseSource):
    """Noise source that records: the system's noise, or that of an earlier transcript."""

    is_genuine = True

    def __init__(self, handed: Transcript | None) -> None:
        self._handed = handed
        self.draws: list[Draw] = []
        self.drawn_words: list[NDArray[np.uint64]] = []

    def add_discrete_gaussian(self, exact: Ints, scale: float) -> Ints:
        """Draw, or return the noisy integers of the same query in the earlier transcript."""
        if self._handed is None:
            noisy = super().add_discrete_gaussian(exact, scale)
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
            words = super().words(size)
        else:
            place = len(self.drawn_words)
            earlier = self._handed.words[place : place + 1]
            if [one.size for one in earlier] != [size]:
                raise ValueError("the second run drew another number of words than the first")
            words = earlier[0]
        self.drawn_words.append(words)
        return words
