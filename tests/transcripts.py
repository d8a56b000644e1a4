"""Two roads through one release: record what it drew, and replay that with other data.

Everything between the asks is a function of what was released. So a second run that is handed the
noisy numbers of the first asks exactly the same questions, and the difference of the exact answers
is what a customer changes, ask by ask.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.mechanisms import gaussian
from wattveil.privacy.mechanisms.gaussian import NoisyVector
from wattveil.privacy.secret import Released
from wattveil.privacy.sensitivity import FloatArray, IntArray, Region


@dataclass(frozen=True)
class Draw:
    """One ask: its exact integers, what left, and the noise scale."""

    tag: str
    exact: IntArray
    noisy: IntArray
    sigma: float


def record(run: Callable[[], object]) -> list[Draw]:
    """Run a release and return its draws."""
    with _watched([]) as draws:
        run()
    return draws


def replay(run: Callable[[], object], draws: list[Draw]) -> list[Draw]:
    """Run a release that is handed the noisy numbers of an earlier one."""
    with _watched(draws) as replayed:
        run()
    assert [draw.tag for draw in replayed] == [draw.tag for draw in draws]
    return replayed


def squared_signal(first: list[Draw], second: list[Draw]) -> float:
    """Return s^2 = sum |m - m'|^2 / sigma^2 of two transcripts: what tells them apart."""
    return sum(
        float(np.square((a.exact - b.exact) / a.sigma).sum())
        for a, b in zip(first, second, strict=True)
    )


def privacy_loss(first: list[Draw], second: list[Draw]) -> float:
    """Return log p(transcript | first data) / p(transcript | second data)."""

    def misfit(draws: list[Draw]) -> FloatArray:
        return np.concatenate([(d.noisy - d.exact) / d.sigma for d in draws])

    return float((np.square(misfit(second)) - np.square(misfit(first))).sum() / 2.0)


@contextmanager
def _watched(handed: list[Draw]) -> Iterator[list[Draw]]:
    """Watch every Gaussian draw of the kernel; hand it the numbers of an earlier run, if any."""
    draws: list[Draw] = []
    original = gaussian._draw

    def watched(
        exact: Callable[[], IntArray],
        spend: Spend,
        budget: Budget,
        region: Region,
        sizes: tuple[int, int],
    ) -> Released[NoisyVector]:
        seen: list[IntArray] = []

        def kept() -> IntArray:
            seen.append(exact())
            return seen[0]

        released = original(kept, spend, budget, region, sizes)
        steps = handed[len(draws)].noisy if handed else released.value.steps
        sigma = released.value.noise_scale
        draws.append(Draw(tag=spend.tag, exact=seen[0], noisy=steps, sigma=sigma))
        return replace(released, value=replace(released.value, steps=steps))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian, "_draw", watched)
        yield draws
