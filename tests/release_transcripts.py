"""Record the draws of a release, and run it again on other data with the same noisy numbers.

Everything between the queries is a function of what was released. So a second run that is given the
noisy numbers of the first runs exactly the same queries, and the difference of the exact integers
is what a customer changes, query by query. Draws are matched by their order.
"""

from collections.abc import Callable, Sequence

import numpy as np

from wattveil.arrays import Floats
from wattveil.privacy import transcript as kernel
from wattveil.privacy.transcript import Draw, Transcript

__all__ = ["Draw", "Draws", "privacy_loss", "record", "replay", "squared_signal"]


class Draws(list[Draw]):
    """The Gaussian draws of a release, in order, and the uniform words that it drew."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript.draws)
        self.words = transcript.words


def record(run: Callable[[], object]) -> Draws:
    """Run a release and return its draws."""
    return Draws(kernel.record(run))


def replay(run: Callable[[], object], draws: Draws) -> Draws:
    """Run a release that is given the noisy numbers of an earlier one; return its draws."""
    replayed = Draws(kernel.record(run, Transcript(tuple(draws), draws.words)))
    assert len(replayed) == len(draws)
    return replayed


def squared_signal(first: Sequence[Draw], second: Sequence[Draw]) -> float:
    """Return s^2 = sum |m - m'|^2 / sigma^2 of two transcripts: what distinguishes them."""
    return sum(
        float(np.square((a.exact - b.exact) / a.scale).sum())
        for a, b in zip(first, second, strict=True)
    )


def privacy_loss(first: Sequence[Draw], second: Sequence[Draw]) -> float:
    """Return log p(transcript | first data) / p(transcript | second data)."""

    def misfit(draws: Sequence[Draw]) -> Floats:
        return np.concatenate([(draw.noisy - draw.exact) / draw.scale for draw in draws])

    return float((np.square(misfit(second)) - np.square(misfit(first))).sum() / 2.0)
