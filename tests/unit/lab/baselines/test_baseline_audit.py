"""Noise of the baselines against what one customer can really change.

A transcript on all customers is replayed without one of them: as long as every noisy answer is the
same, no exact answer may differ by more than its sensitivity. Crafted customers reach it.
"""

import sys
from itertools import pairwise

import numpy as np
import pytest

from tests.baseline_transcripts import Recorded
from wattveil.arrays import Floats
from wattveil.lab.baselines import non_lloyd_baselines
from wattveil.lab.baselines.baseline_interface import (
    Noise,
    PublicChoices,
    in_unit_ball,
    keep_chance,
)
from wattveil.lab.baselines.lloyd_baselines import GaussianLloyd, lap_lloyd
from wattveil.lab.baselines.non_lloyd_baselines import PrivateMean, UniformGrid


def test_noise_is_alike_on_sums_and_counts() -> None:
    """With the usual split every number gets Lap((d + 1) / epsilon)."""
    noise = Noise(np.random.default_rng(0))
    lap_lloyd(np.zeros((5, 24)), np.eye(2, 24), [0.25], noise)
    assert [step.scale for step in noise.steps] == pytest.approx([25 / 0.25, 25 / 0.25])


@pytest.mark.parametrize("baseline", [GaussianLloyd, PrivateMean, UniformGrid])
@pytest.mark.parametrize("wild", [[1e6, 1e6], [-1e6, 3.0], [5.0, 5.0]])
def test_whole_mechanisms(
    baseline: type[GaussianLloyd | PrivateMean | UniformGrid],
    wild: list[float],
    blobs: Floats,
    public: PublicChoices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A customer however large changes each answer by its sensitivity at most; wild ones do."""
    rows = np.vstack([blobs, [wild]])
    transcripts: list[Recorded] = []

    def recorded(_: object) -> Recorded:
        transcripts.append(Recorded(0, transcripts[0] if transcripts else None))
        return transcripts[-1]

    monkeypatch.setattr(sys.modules[baseline.__module__], "Noise", recorded)
    for data in (rows, rows[:-1]):
        baseline.fit(
            data, epsilon=1.0, delta=1e-6, public=public, generator=np.random.default_rng(9)
        )
    reached = transcripts[1].reached()
    assert max(reached) <= 1.0 + 1e-9
    if max(wild) == 1e6:
        assert reached == pytest.approx(np.ones(len(reached)))


def test_candidate_cells() -> None:
    """A customer is in one cell of each level, so a removal changes one count by one."""
    points = np.random.default_rng(2).uniform(-0.5, 0.5, (200, 2))

    def transcript(rows: Floats, first: Recorded | None = None) -> Recorded:
        noise = Recorded(3, first)
        non_lloyd_baselines.kept_cells(
            rows, np.full(2, -1.0), noise, side=2.0, prices=[3.0] * 3, threshold=0.0
        )
        return noise

    first = transcript(points)
    # Customer 0 shares its cells with others here, so that the same cells are queried.
    without = transcript(points[1:], first)
    assert [one.shape for one in first.exact] == [one.shape for one in without.exact]
    assert without.reached() == [1.0, 1.0, 1.0]


def test_swaps() -> None:
    """A removal lowers no cost by more than the squared diameter, and raises none."""
    generator = np.random.default_rng(4)
    points = in_unit_ball(generator.standard_normal((50, 2)))
    points[0] = [1.0, 0.0]
    middles = np.array([[-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [-0.9, 0.1]])
    seen: list[Floats] = []

    class Costs(Noise):
        def choose(self, costs: Floats, *, sensitivity: float, epsilon: float, step: str) -> int:
            assert sensitivity == 4.0
            seen.append(costs)
            super().choose(costs, sensitivity=sensitivity, epsilon=epsilon, step=step)
            return 0

    for rows in (points, points[1:]):
        non_lloyd_baselines.local_search(rows, middles, 2, 1.0, Costs(np.random.default_rng(0)))
    with_it, without = seen[:3], seen[3:]
    changes = np.concatenate([one - two for one, two in zip(with_it, without, strict=True)])
    assert changes.min() >= -1e-9
    assert 3.6 < changes.max() <= 4.0 + 1e-9


@pytest.mark.parametrize("n_labels", [2, 3, 16])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_response_is_worth_its_epsilon(n_labels: int, epsilon: float) -> None:
    """The chance of an answer differs by e^epsilon between two truths, and by no more."""
    keep = keep_chance(n_labels, epsilon)
    other = (1.0 - keep) / (n_labels - 1)
    assert np.log(keep / other) == pytest.approx(epsilon)


@pytest.mark.parametrize("fault", [1.0, 0.95, 1.05])
def test_laplace_has_its_scale(fault: float) -> None:
    """Draws have the requested mean size; one twentieth less or more is seen."""
    drawn = Noise(np.random.default_rng(0)).laplace(
        np.zeros(100_000), sensitivity=2.0, epsilon=0.5 / fault, step="test"
    )
    right = abs(np.abs(drawn).mean() / 4.0 - 1.0) < 0.02  # six standard errors
    assert right == (fault == 1.0)


@pytest.mark.parametrize("fault", [1.0, 0.95, 1.05])
def test_gaussian_has_its_scale(fault: float) -> None:
    """The same for the standard deviation."""
    drawn = Noise(np.random.default_rng(0)).gaussian(
        np.zeros(100_000), sensitivity=2.0, mu=0.5 / fault, step="test"
    )
    assert (abs(drawn.std() / 4.0 - 1.0) < 0.014) == (fault == 1.0)


@pytest.mark.parametrize("fault", [1.0, 1.3])
def test_choices_follow_their_costs(fault: float) -> None:
    """Options are chosen as exp(-epsilon cost / sensitivity) says, and not by another epsilon."""
    noise = Noise(np.random.default_rng(0))
    costs = np.array([0.0, 1.0, 2.0])
    drawn = np.bincount(
        [noise.choose(costs, sensitivity=2.0, epsilon=fault, step="test") for _ in range(20_000)]
    )
    expected = np.exp(-costs / 2.0) / np.exp(-costs / 2.0).sum()
    errors = np.abs(drawn / 20_000 - expected) / np.sqrt(expected * (1 - expected) / 20_000)
    assert (errors.max() < 5.0) == (fault == 1.0)
    assert all(one > two for one, two in pairwise(drawn))
