"""Sources of noise: exact rational draws, refusals, simulated noise that cannot be published."""

import contextlib
import hmac
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import gaussian_histogram, respond_to_labels, sum_of
from wattveil.errors import InvalidParameterError, SimulatedNoiseError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Tier
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid, gaussian_answer
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import Released, Secret
from wattveil.release.group_load import load_shapes

Scripted = Callable[[list[int]], NoiseSource]
WORD = 2**64
LABELS = np.array([0, 1, 2, 1])

MECHANISMS: list[Callable[[Budget], Released[Any]]] = [
    lambda budget: sum_of(np.ones((4, 2)), rho_units=10**15, budget=budget),
    lambda budget: gaussian_histogram(LABELS, n_cells=3, rho_units=10**15, budget=budget),
    lambda budget: gaussian_answer(
        Secret(np.ones(2)),
        differences=Ellipsoid(shape=np.eye(2)),
        rho_units=10**15,
        budget=budget,
        tag="t",
    ),
    lambda budget: modulo_labels(
        Secret(LABELS),
        unstable=Secret(np.array([1])),
        changed=1,
        n_labels=3,
        epsilon=0.5,
        delta=1e-3,
        budget=budget,
        tag="t",
    ),
]


def drawn(*, scale: float, size: int) -> NDArray[np.int64]:
    """Return noise alone: what is added to zeros."""
    return noise.add_discrete_gaussian(np.zeros(size, dtype=np.int64), scale=scale)


# --- exact rational draws -------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(5, 8)])
def test_bernoulli_counts_words_exactly(scripted: Scripted, probability: Fraction) -> None:
    """Of every run of `denominator` words exactly `numerator` come up true; 0 never, 1 always."""
    words = list(range(24)) + list(range(2**63, 2**63 + 24))
    with noise.simulate(scripted(words)):
        outcomes = noise.bernoulli(probability=probability, size=48)
    residues = [word % probability.denominator for word in words]
    assert outcomes.tolist() == [residue < probability.numerator for residue in residues]
    assert int(outcomes[:24].sum()) == 24 * probability


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1)])
def test_certain_outcomesare_certain(probability: Fraction) -> None:
    """With the system's source, probability 0 is never true and probability 1 always."""
    outcomes = noise.bernoulli(probability=probability, size=10_000)
    assert outcomes.dtype == np.bool_
    assert bool(outcomes.all()) == bool(probability)
    assert bool(outcomes.any()) == bool(probability)


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 1000, 2**62, 2**63 - 25, 2**63])
def test_unfair_words_are_drawn_again(scripted: Scripted, bound: int) -> None:
    """The last fair word is used; the words after the largest multiple of bound are not."""
    last_fair = WORD - WORD % bound - 1
    unfair = list(range(last_fair + 1, min(last_fair + 4, WORD)))
    script = [*unfair, last_fair, 0][: len(unfair) + 2]
    with noise.simulate(scripted([*script, *[bound - 1] * len(unfair)])):
        found = noise.uniform_below(bound=bound, size=len(script))
    assert found.tolist() == [*[bound - 1] * len(unfair), bound - 1, 0]


def test_words_are_redrawn_until_fair(scripted: Scripted) -> None:
    """Redrawn words are checked like the first ones."""
    top = WORD - 1  # 2^64 = 1 modulo 3: one unfair word
    with noise.simulate(scripted([top, 4, top, top, 5])):
        assert noise.uniform_below(bound=3, size=2).tolist() == [2, 1]


def test_every_value_below_the_bound_is_reached() -> None:
    """With the system's source all values of [0, bound) come, and no others."""
    found = noise.uniform_below(bound=7, size=5000)
    assert found.dtype == np.int64
    assert set(found.tolist()) == set(range(7))
    assert noise.uniform_below(bound=7, size=0).size == 0


@pytest.mark.parametrize("bound", [1, 2, 2**20, 2**62])
def test_keyed_words_are_the_end_of_a_digest(bound: int) -> None:
    """The last eight bytes of HMAC-SHA256, little-endian, modulo the bound; also of lone halves."""
    names = ["", "a", "meter 4711", "\u00e4", "\ud800"]
    found = noise.keyed_below(names, key=b"key", bound=bound)
    digests = [hmac.digest(b"key", n.encode("utf-8", "surrogatepass"), "sha256") for n in names]
    assert found.tolist() == [int.from_bytes(d[-8:], "little") % bound for d in digests]
    assert found.dtype == np.int64
    assert noise.keyed_below([], key=b"key", bound=bound).size == 0


def test_keyed_words_depend_on_the_key() -> None:
    """Another key, other words; the same key, the same words."""
    words = [noise.keyed_below(["a"], key=key, bound=2**62).item() for key in (b"1", b"2", b"1")]
    assert words[0] == words[2] != words[1]


def test_fresh_bytes_are_fresh(silent: NoiseSource) -> None:
    """The requested number, never the same, and no part of simulated noise."""
    with noise.simulate(silent):
        keys = {noise.fresh_bytes(32) for _ in range(20)}
    assert len(keys) == 20
    assert {len(key) for key in keys} == {32}
    assert len(noise.fresh_bytes(7)) == 7


# --- OpenDP ---------------------------------------------------------------------------------------


def test_noise_is_whole_and_different_every_time() -> None:
    """Draws are int64, one per number, independent of each other and of earlier ones."""
    first, second = drawn(scale=2.0**40, size=500), drawn(scale=2.0**40, size=500)
    assert first.dtype == np.int64
    assert first.shape == (500,)
    assert np.unique(np.concatenate([first, second])).size == 1000


def test_noise_is_added_to_the_exact_integers() -> None:
    """What comes back is around the exact integers, which are not changed."""
    exact = np.array([2**50, -(2**50)])
    noisy = noise.add_discrete_gaussian(exact, scale=2.0**20)
    assert exact.tolist() == [2**50, -(2**50)]
    assert (np.abs(noisy - exact) < 9 * 2**20).all()


def test_a_source_gets_scale_and_size(
    silent: NoiseSource, recorded: list[tuple[str, float, int]]
) -> None:
    """A test's own source may override the noise alone, or the whole addition."""

    class Fixed(NoiseSource):
        def add_discrete_gaussian(self, exact: NDArray[np.int64], scale: float) -> Any:  # noqa: ANN401
            return exact + int(scale)

    exact = np.array([5, 6, 7])
    with noise.simulate(silent):
        assert noise.add_discrete_gaussian(exact, scale=3).tolist() == [5, 6, 7]
    assert recorded == [("gaussian", 3.0, 3)]
    with noise.simulate(Fixed()):
        assert noise.add_discrete_gaussian(exact, scale=3).tolist() == [8, 9, 10]


def test_the_system_source_adds_noise_and_outcomeswords() -> None:
    """The methods that a test's own source overrides draw from the system otherwise."""
    source = NoiseSource()
    assert not source.is_genuine
    assert np.unique(source.discrete_gaussian(2.0**40, 50)).size == 50
    assert np.unique(source.add_discrete_gaussian(np.zeros(50, np.int64), 2.0**40)).size == 50
    words = source.words(50)
    assert words.dtype == np.uint64
    assert np.unique(words).size == 50


def test_largest_scale_does_not_saturate() -> None:
    """At the largest scale that is accepted no draw comes near the ends of int64."""
    found = drawn(scale=noise.LARGEST_SCALE, size=5000)
    farthest = np.abs(found.astype(np.float64)).max() / noise.LARGEST_SCALE
    assert 1.0 < farthest < 100.0
    assert noise.LARGEST_SCALE * 2**15 <= 2**63


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**49, 2.0**48 + 1, float("nan"), float("inf")])
def test_scales_that_publish_or_saturate_are_refused(scale: float) -> None:
    """No scale of 0 or below, none that could meet the end of int64, no NaN."""
    with pytest.raises(InvalidParameterError, match="scale must be above 0 and at most") as caught:
        drawn(scale=scale, size=1)
    assert caught.value.value is scale
    with pytest.raises(InvalidParameterError, match="scale must be"):
        noise.check_scale(scale)


def test_an_accepted_scale_is_a_float() -> None:
    """A whole number is accepted and comes back as a float."""
    assert type(noise.check_scale(3)) is float
    assert noise.check_scale(2.0**48) == 2.0**48


@pytest.mark.parametrize("scale", [1.0, 0.5, 1e-9, 5e-324])
def test_any_scale_above_zero_draws(scale: float) -> None:
    """How small noise may be is for the mechanism to say; here it need only be noise."""
    assert noise.check_scale(scale) == scale


def test_bad_bound_is_refused() -> None:
    """There is nothing below 0."""
    with pytest.raises(InvalidParameterError, match="bound must be"):
        noise.uniform_below(bound=0, size=1)


# --- simulated noise ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(MECHANISMS)))
def test_simulated_noise_marks_everything(
    ample: Callable[..., Budget], silent: NoiseSource, number: int
) -> None:
    """Whatever a mechanism releases with simulated noise is marked, and cannot be published."""
    budget = ample(tier=Tier.INSTANCE)
    with noise.simulate(silent):
        released = MECHANISMS[number](budget)
    assert released.simulated
    assert len(budget.spends) >= 1
    with pytest.raises(SimulatedNoiseError, match="simulated noise"):
        released.publish()


@pytest.mark.parametrize("number", range(len(MECHANISMS)))
def test_what_the_system_drew_can_be_published(ample: Callable[..., Budget], number: int) -> None:
    """With genuine noise the same mechanisms give publishable values, paid by their spends."""
    budget = ample(tier=Tier.INSTANCE)
    released = MECHANISMS[number](budget)
    assert not released.simulated
    assert released.publish() is released.value
    assert released.spends == budget.spends


def test_labels_from_simulated_noise_are_not_released(
    ample: Callable[..., Budget], silent: NoiseSource
) -> None:
    """They are charged and drawn, and refused where they would be released."""
    budget = ample()
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError, match="simulated noise"):
        respond_to_labels(LABELS, n_labels=3, epsilon=0.5, budget=budget)
    assert len(budget.spends) == 1


def test_a_seeded_source_repeats_itself_and_is_marked(
    ample: Callable[..., Budget], seeded: Callable[[int], NoiseSource]
) -> None:
    """A test may repeat noise; what it draws cannot be published."""
    steps = []
    for number in (1, 1, 2):
        with noise.simulate(seeded(number)):
            released = sum_of(np.ones((4, 2)), rho_units=10**15, budget=ample())
        steps.append(released.value.steps.tolist())
        assert released.simulated
    assert steps[0] == steps[1] != steps[2]


def test_a_release_with_simulated_noise_fails(silent: NoiseSource) -> None:
    """A release publishes, so it refuses to run on a test source."""
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError):
        load_shapes(np.ones((5, 24)), clip_kw=2.0, epsilon=1.0, delta=1e-6)


def test_simulated_noise_ends_with_its_block(silent: NoiseSource) -> None:
    """Also when the block fails, and block by block when nested."""
    assert not noise.is_simulated()
    with contextlib.suppress(ZeroDivisionError), noise.simulate(silent):
        assert noise.is_simulated()
        raise ZeroDivisionError
    assert not noise.is_simulated()
    with noise.simulate(silent):
        with noise.simulate(silent):
            assert noise.is_simulated()
        assert noise.is_simulated()
    assert not noise.is_simulated()
    assert np.unique(drawn(scale=1e12, size=50)).size > 1


def test_simulated_noise_does_not_leak_to_other_threads(silent: NoiseSource) -> None:
    """A release that runs in another thread at the same time gets the system's noise."""
    seen: list[tuple[bool, int]] = []

    def release() -> None:
        found = drawn(scale=1e12, size=50)
        seen.append((noise.is_simulated(), int(np.unique(found).size)))

    with noise.simulate(silent):
        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
    assert seen == [(False, 50)]
