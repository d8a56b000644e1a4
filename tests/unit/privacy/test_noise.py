"""Where noise comes from: exact rational draws, refusals, and rehearsals that never leave."""

import contextlib
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.counting import gaussian_histogram
from tests.responding import randomised_response
from wattveil.errors import InvalidParameterError, RehearsalError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Tier
from wattveil.privacy.mechanisms.gaussian import gaussian_answer, gaussian_sum
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.moments import gaussian_second_moment
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import Ball, Ellipsoid
from wattveil.release.shapes import load_shapes

Scripted = Callable[[list[int]], NoiseSource]
WORD = 2**64
LABELS = Secret(np.array([0, 1, 2, 1]))
ROWS = Secret(np.ones((4, 2)))

MECHANISMS: list[Callable[[Budget], Released[Any]]] = [
    lambda budget: gaussian_sum(
        ROWS, region=Ball(radius=1.0), rho_units=10**15, budget=budget, tag="t"
    ),
    lambda budget: gaussian_histogram(LABELS, n_cells=3, rho_units=10**15, budget=budget, tag="t"),
    lambda budget: gaussian_answer(
        Secret(np.ones(2)),
        differences=Ellipsoid(shape=np.eye(2)),
        rho_units=10**15,
        budget=budget,
        tag="t",
    ),
    lambda budget: gaussian_second_moment(
        ROWS, radius=1.0, rho_units=10**15, budget=budget, tag="t"
    ),
    lambda budget: randomised_response(LABELS, n_labels=3, epsilon=0.5, budget=budget, tag="t"),
    lambda budget: noisy_quantile(
        Secret(np.ones(4)),
        quantile=0.5,
        interval=(0.0, 2.0),
        n_steps=3,
        rho_units=10**15,
        budget=budget,
        tag="t",
    ),
    lambda budget: modulo_labels(
        LABELS,
        unstable=Secret(np.array([1])),
        changed=1,
        n_labels=3,
        epsilon=0.5,
        delta=1e-3,
        budget=budget,
        tag="t",
    ),
]


# --- exact rational draws -------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(5, 8)])
def test_coin_counts_words_exactly(scripted: Scripted, probability: Fraction) -> None:
    """Of every run of `denominator` words exactly `numerator` come up true; 0 never, 1 always."""
    words = list(range(24)) + list(range(2**63, 2**63 + 24))
    with noise.rehearse(scripted(words)):
        coins = noise.bernoulli(probability=probability, size=48)
    residues = [word % probability.denominator for word in words]
    assert coins.tolist() == [residue < probability.numerator for residue in residues]
    assert int(coins[:24].sum()) == 24 * probability


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1)])
def test_sure_coins_are_sure(probability: Fraction) -> None:
    """With the system's source, a chance of 0 is never true and a chance of 1 always."""
    coins = noise.bernoulli(probability=probability, size=10_000)
    assert coins.dtype == np.bool_
    assert bool(coins.all()) == bool(probability)
    assert bool(coins.any()) == bool(probability)


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 1000, 2**62, 2**63 - 25, 2**63])
def test_unfair_words_are_drawn_again(scripted: Scripted, bound: int) -> None:
    """The last fair word is used; the words after the largest multiple of bound are not."""
    last_fair = WORD - WORD % bound - 1
    unfair = list(range(last_fair + 1, min(last_fair + 4, WORD)))
    script = [*unfair, last_fair, 0][: len(unfair) + 2]
    with noise.rehearse(scripted([*script, *[bound - 1] * len(unfair)])):
        drawn = noise.uniform_below(bound=bound, size=len(script))
    assert drawn.tolist() == [*[bound - 1] * len(unfair), bound - 1, 0]


def test_again_and_again_until_fair(scripted: Scripted) -> None:
    """Redrawn words are looked at like the first ones."""
    top = WORD - 1  # 2^64 = 1 modulo 3: one unfair word
    with noise.rehearse(scripted([top, 4, top, top, 5])):
        assert noise.uniform_below(bound=3, size=2).tolist() == [2, 1]


def test_every_value_below_the_bound_is_reached() -> None:
    """With the system's source all values of [0, bound) come, and no others."""
    drawn = noise.uniform_below(bound=7, size=5000)
    assert drawn.dtype == np.int64
    assert set(drawn.tolist()) == set(range(7))
    assert noise.uniform_below(bound=7, size=0).size == 0


# --- OpenDP ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [noise.discrete_gaussian, noise.discrete_laplace])
def test_noise_is_whole_and_different_every_time(
    draw: Callable[..., np.typing.NDArray[np.int64]],
) -> None:
    """Draws are int64, as many as asked for, independent of each other and of earlier ones."""
    first, second = draw(scale=2.0**40, size=500), draw(scale=2.0**40, size=500)
    assert first.dtype == np.int64
    assert first.shape == (500,)
    assert np.unique(np.concatenate([first, second])).size == 1000


@pytest.mark.parametrize("draw", [noise.discrete_gaussian, noise.discrete_laplace])
def test_largest_scale_does_not_saturate(
    draw: Callable[..., np.typing.NDArray[np.int64]],
) -> None:
    """At the largest scale that is accepted no draw comes near the ends of int64."""
    drawn = draw(scale=noise.LARGEST_SCALE, size=5000)
    farthest = np.abs(drawn.astype(np.float64)).max() / noise.LARGEST_SCALE
    assert 1.0 < farthest < 100.0
    assert noise.LARGEST_SCALE * 2**15 <= 2**63


@pytest.mark.parametrize("draw", [noise.discrete_gaussian, noise.discrete_laplace])
@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**49, float("nan"), float("inf")])
def test_scales_that_publish_or_saturate_are_refused(
    draw: Callable[..., object], scale: float
) -> None:
    """No scale of 0 or below, none that could meet the end of int64, no NaN."""
    with pytest.raises(InvalidParameterError, match="scale must be above 0 and at most") as caught:
        draw(scale=scale, size=1)
    assert caught.value.value is scale


@pytest.mark.parametrize("draw", [noise.discrete_gaussian, noise.discrete_laplace])
@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_bad_sizes_are_refused(draw: Callable[..., object], size: object) -> None:
    """At least one number is drawn."""
    with pytest.raises(InvalidParameterError, match="size must be a whole number of at least 1"):
        draw(scale=1.0, size=size)


def test_bad_bound_is_refused() -> None:
    """There is nothing below 0."""
    with pytest.raises(InvalidParameterError, match="bound must be"):
        noise.uniform_below(bound=0, size=1)


# --- rehearsals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(MECHANISMS)))
def test_a_rehearsal_marks_everything(
    ample: Callable[..., Budget], silent: NoiseSource, number: int
) -> None:
    """Whatever a mechanism gives out in a rehearsal is marked, and cannot be published."""
    budget = ample(tier=Tier.INSTANCE)
    with noise.rehearse(silent):
        released = MECHANISMS[number](budget)
    assert released.rehearsal
    assert len(budget.spends) >= 1
    with pytest.raises(RehearsalError, match="injected test source"):
        released.publish()


@pytest.mark.parametrize("number", range(len(MECHANISMS)))
def test_what_the_system_drew_can_be_published(ample: Callable[..., Budget], number: int) -> None:
    """Outside a rehearsal the same mechanisms give publishable values, paid by their spends."""
    budget = ample(tier=Tier.INSTANCE)
    released = MECHANISMS[number](budget)
    assert not released.rehearsal
    assert released.publish() is released.value
    assert released.spends == budget.spends


def test_a_seeded_source_repeats_itself_and_stays_inside(
    ample: Callable[..., Budget], seeded: Callable[[int], NoiseSource]
) -> None:
    """A test may repeat noise; a release may not come of it."""
    steps = []
    for number in (1, 1, 2):
        with noise.rehearse(seeded(number)):
            released = gaussian_sum(
                ROWS, region=Ball(radius=1.0), rho_units=10**15, budget=ample(), tag="t"
            )
        steps.append(released.value.steps.tolist())
        assert released.rehearsal
    assert steps[0] == steps[1] != steps[2]


def test_a_release_inside_a_rehearsal_fails(silent: NoiseSource) -> None:
    """The joint publishes, so it refuses to run on a test source."""
    with noise.rehearse(silent), pytest.raises(RehearsalError):
        load_shapes(np.ones((5, 24)), clip_kw=2.0, epsilon=1.0, delta=1e-6)


def test_a_rehearsal_ends_with_its_block(silent: NoiseSource) -> None:
    """Also when the block fails, and block by block when nested."""
    assert not noise.is_rehearsal()
    with contextlib.suppress(ZeroDivisionError), noise.rehearse(silent):
        assert noise.is_rehearsal()
        raise ZeroDivisionError
    assert not noise.is_rehearsal()
    with noise.rehearse(silent):
        with noise.rehearse(silent):
            assert noise.is_rehearsal()
        assert noise.is_rehearsal()
    assert not noise.is_rehearsal()
    assert np.unique(noise.discrete_gaussian(scale=1e12, size=50)).size > 1


def test_a_rehearsal_does_not_leak_to_other_threads(silent: NoiseSource) -> None:
    """A release that runs in another thread at the same time gets the system's noise."""
    seen: list[tuple[bool, int]] = []

    def release() -> None:
        draws = noise.discrete_gaussian(scale=1e12, size=50)
        seen.append((noise.is_rehearsal(), int(np.unique(draws).size)))

    with noise.rehearse(silent):
        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
    assert seen == [(False, 50)]
