"""Recorded releases: exact and noisy integers of each query, and a second run on other data."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import gaussian_histogram, respond_to_labels, sum_of
from wattveil.errors import SimulatedNoiseError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.private_data import Released
from wattveil.privacy.transcript import Transcript, record

if TYPE_CHECKING:
    from wattveil.privacy.mechanisms.gaussian import NoisyTotals

Ample = Callable[..., Budget]
RHO = 10**15
CELLS = np.array([0, 2, 2, -1])
FEATURES = np.array([[0.5, 0.0], [0.25, -0.5], [3e9, 0.0], [np.nan, 1.0]])


class Release:
    """A release of two Gaussian queries and randomised labels, and what it returned."""

    def __init__(self, budget: Budget, cells: NDArray[np.int64] = CELLS, rho: int = RHO) -> None:
        self.budget, self.cells, self.rho = budget, cells, rho
        self.totals: list[Released[NoisyTotals]] = []
        self.labels: list[int] = []

    def __call__(self) -> None:
        """Run it."""
        price = {"rho_units": self.rho, "budget": self.budget}
        self.totals = [
            gaussian_histogram(self.cells, n_cells=3, **price),  # type: ignore[arg-type]
            sum_of(FEATURES, **price),  # type: ignore[arg-type]
        ]
        drawn = respond_to_labels(self.cells, n_labels=3, epsilon=0.5, budget=self.budget)
        self.labels = drawn.tolist()

    @property
    def steps(self) -> list[list[int]]:
        """The noisy integers that were released."""
        return [one.value.steps.tolist() for one in self.totals]


def exact(transcript: Transcript) -> list[list[int]]:
    """Return the exact integers of each query."""
    return [draw.exact.tolist() for draw in transcript.draws]


def test_a_record_has_the_exact_and_the_released_integers(ample: Ample) -> None:
    """Query by query: what was computed, what was released, the noise scale; and the words."""
    release = Release(ample())
    found = record(release)
    assert exact(found) == [
        [2**25, 0, 2 * 2**25],
        [2**24 + 2**23 + 2**25, -(2**24)],
    ]
    assert [draw.noisy.tolist() for draw in found.draws] == release.steps
    assert [draw.scale for draw in found.draws] == [one.value.noise_scale for one in release.totals]
    assert all((draw.noisy != draw.exact).all() for draw in found.draws)
    assert [words.size for words in found.words] == [4]


def test_a_record_without_a_seed_has_the_noise_of_the_system(ample: Ample) -> None:
    """Drawn anew each time."""
    first, second = Release(ample()), Release(ample())
    transcripts = [record(first), record(second)]
    assert exact(transcripts[0]) == exact(transcripts[1])
    assert first.steps != second.steps
    assert transcripts[0].words[0].tolist() != transcripts[1].words[0].tolist()
    assert not noise.is_simulated()


def test_a_seed_repeats_the_noise(ample: Ample) -> None:
    """The noisy integers and words, for a seed; others for another seed."""
    runs = {seed: [Release(ample()) for _ in range(2)] for seed in (3, 4)}
    found = {
        seed: [record(run, generator=np.random.default_rng(seed)) for run in runs[seed]]
        for seed in runs
    }
    for seed, (one, two) in runs.items():
        assert one.steps == two.steps
        assert one.labels == two.labels
        words = [[word.tolist() for word in transcript.words] for transcript in found[seed]]
        assert words[0] == words[1]
    assert runs[3][0].steps != runs[4][0].steps
    assert exact(found[3][0]) == exact(found[4][0])
    draws = [draw for seed in found for draw in found[seed][0].draws]
    assert all((np.abs(draw.noisy - draw.exact) < 9 * draw.scale).all() for draw in draws)
    assert any((np.abs(draw.noisy - draw.exact) > draw.scale / 9).any() for draw in draws)


@pytest.mark.parametrize("seed", [None, 0])
def test_a_recorded_release_cannot_be_published(ample: Ample, seed: int | None) -> None:
    """Its noise is known to the audit: a release runs to its end, and is never published."""
    first, second = Release(ample()), Release(ample())
    genuine: list[bool] = []

    def run() -> None:
        genuine.append(not noise.is_simulated())
        first()
        assert [one.publish() for one in first.totals] == [one.value for one in first.totals]

    generator = None if seed is None else np.random.default_rng(seed)
    earlier = record(run, generator=generator)
    record(second, handed=earlier)
    assert genuine == [False]
    for one in (*first.totals, *second.totals):
        assert one.simulated
        with pytest.raises(SimulatedNoiseError):
            one.publish()


def test_a_replay_on_the_same_data_is_the_same(ample: Ample) -> None:
    """Identical exact integers, and the noisy integers, words and labels of the first run."""
    first, second = Release(ample()), Release(ample())
    earlier = record(first)
    later = record(second, handed=earlier)
    assert exact(later) == exact(earlier)
    assert second.steps == first.steps
    assert second.labels == first.labels
    assert [draw.noisy.tolist() for draw in later.draws] == first.steps
    assert [draw.scale for draw in later.draws] == [draw.scale for draw in earlier.draws]
    assert [w.tolist() for w in later.words] == [w.tolist() for w in earlier.words]


def test_a_replay_on_other_data_differs_by_what_they_contribute(ample: Ample) -> None:
    """One customer moves from cell 0 to cell 1: the noisy integers stay, the exact ones move."""
    first = Release(ample())
    second = Release(ample(), cells=np.array([1, 2, 2, -1]))
    earlier = record(first)
    later = record(second, handed=earlier)
    moved = later.draws[0].exact - earlier.draws[0].exact
    assert moved.tolist() == [-(2**25), 2**25, 0]
    assert exact(later)[1] == exact(earlier)[1]
    assert second.steps == first.steps


def test_a_transcript_does_not_change_with_the_release(ample: Ample) -> None:
    """It keeps copies: neither array of a later run is that of the transcript."""
    earlier = record(Release(ample()))
    kept = [draw.noisy.copy() for draw in earlier.draws]
    second = Release(ample())
    later = record(second, handed=earlier)
    for draw, again, one in zip(earlier.draws, later.draws, second.totals, strict=True):
        for array in (draw.noisy, again.noisy):
            assert not np.shares_memory(array, one.value.steps)
        again.noisy[:] = 0
        again.exact[:] = 0
    assert all((d.noisy == k).all() for d, k in zip(earlier.draws, kept, strict=True))
    assert exact(earlier)[0] == [2**25, 0, 2 * 2**25]


def test_a_record_ends_also_when_the_release_fails() -> None:
    """The system's noise is back afterwards, and simulated noise is refused again."""
    before = noise._source.get()

    def fail() -> None:
        assert noise._source.get() is not before
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        record(fail)
    assert noise._source.get() is before
    with pytest.raises(SimulatedNoiseError):
        Released(value=1, spends=(), simulated=True).publish()


def test_another_query_in_the_second_run_is_refused(ample: Ample) -> None:
    """Another noise scale, another number of integers, another number of words, one query more."""
    earlier = record(Release(ample()))
    with pytest.raises(ValueError, match=r"^the second run made another query than the first$"):
        record(Release(ample(), rho=RHO + 1000), handed=earlier)
    with pytest.raises(ValueError, match=r"^the second run made another query than the first$"):
        record(
            lambda: gaussian_histogram(CELLS, n_cells=4, rho_units=RHO, budget=ample()),
            handed=earlier,
        )
    with pytest.raises(
        ValueError, match=r"^the second run drew another number of words than the first$"
    ):
        record(
            lambda: respond_to_labels(CELLS[:3], n_labels=3, epsilon=0.5, budget=ample()),
            handed=earlier,
        )
    budget = ample()

    def twice() -> None:
        Release(budget)()
        Release(budget)()

    with pytest.raises(ValueError, match="made another query than the first"):
        record(twice, handed=earlier)

    def labels_twice() -> None:
        for _ in range(2):
            respond_to_labels(CELLS, n_labels=3, epsilon=0.5, budget=budget)

    with pytest.raises(ValueError, match="drew another number of words than the first"):
        record(labels_twice, handed=earlier)


def test_each_call_for_words_has_its_own(ample: Ample) -> None:
    """Two lists of labels: the second run gets the words of each in turn."""
    found: list[list[int]] = []

    def run() -> None:
        budget = ample()
        for cells in (CELLS, CELLS[:3]):
            labels = respond_to_labels(cells, n_labels=3, epsilon=0.5, budget=budget)
            found.append(labels.tolist())

    earlier = record(run)
    assert [words.size for words in earlier.words] == [4, 3]
    later = record(run, handed=earlier)
    assert found[:2] == found[2:]
    assert [words.tolist() for words in later.words] == [w.tolist() for w in earlier.words]
