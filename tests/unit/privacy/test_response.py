"""Randomised response: the keep probability in exact arithmetic, and words that choose labels.

The second road to e^epsilon is Python's decimal arithmetic, whose exp is correctly rounded.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.response import keep_probability, move_labels, randomised_response
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Secret

Ample = Callable[..., Budget]
GRID = [(k, e) for k in (2, 3, 6, 50) for e in (1e-9, 1e-3, 0.5, 1.0, 3.0, 20.0, 200.0)]


def exp_between(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return two fractions around e^epsilon, a relative 1e-118 apart."""
    with localcontext() as context:
        context.prec = 120
        value = Decimal(epsilon).exp()
        ulp = value.scaleb(-118)
        return Fraction(value - ulp), Fraction(value + ulp)


@pytest.mark.parametrize(
    ("epsilon", "neighbours", "expected"),
    [
        (1.0, Neighbours.ZERO_OUT, 0.453),
        (3.0, Neighbours.ZERO_OUT, 0.9585),
        (3.0, Neighbours.REPLACE_ONE, 0.80),
    ],
)
def test_known_numbers(epsilon: float, neighbours: Neighbours, expected: float) -> None:
    """Six labels: what was computed by hand before the code was written."""
    p = keep_probability(n_labels=6, epsilon=epsilon, neighbours=neighbours)
    assert float(p) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(
    ("epsilon", "replace_one", "zero_out"),
    [
        (0.5, 0.752, 0.725),
        (1.0, 0.648, 0.547),
        (2.0, 0.404, 0.113),
        (3.0, 0.199, 0.041),
        (4.0, 0.084, 0.015),
    ],
)
def test_known_label_errors(epsilon: float, replace_one: float, zero_out: float) -> None:
    """The share of wrong labels among six, for both relations."""
    for neighbours, error in (
        (Neighbours.REPLACE_ONE, replace_one),
        (Neighbours.ZERO_OUT, zero_out),
    ):
        p = keep_probability(n_labels=6, epsilon=epsilon, neighbours=neighbours)
        assert 1.0 - float(p) == pytest.approx(error, abs=6e-4)


@pytest.mark.parametrize(("n_labels", "epsilon"), GRID)
def test_zero_out_inequalities(n_labels: int, epsilon: float) -> None:
    """Each chance is within e^epsilon of 1/K both ways; 2^-62 more and one of them fails."""
    p = keep_probability(n_labels=n_labels, epsilon=epsilon, neighbours=Neighbours.ZERO_OUT)
    low, _ = exp_between(epsilon)
    uniform = Fraction(1, n_labels)

    def private(p: Fraction) -> bool:
        q = (1 - p) / (n_labels - 1)
        return all(max(x / uniform, uniform / x) <= low for x in (p, q) if x) and q > 0

    assert private(p)
    assert p + Fraction(1, 2**62) >= 1 or not private(p + Fraction(1, 2**62))


@pytest.mark.parametrize(("n_labels", "epsilon"), GRID)
def test_replace_one_inequalities(n_labels: int, epsilon: float) -> None:
    """Exactly p <= e^epsilon q; 2^-62 more and it fails."""
    p = keep_probability(n_labels=n_labels, epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE)
    low, high = exp_between(epsilon)
    assert p * (n_labels - 1) <= low * (1 - p)
    more = p + Fraction(1, 2**62)
    assert more * (n_labels - 1) > high * (1 - more)
    assert p <= keep_probability(n_labels=n_labels, epsilon=epsilon, neighbours=Neighbours.ZERO_OUT)


@pytest.mark.parametrize("n_labels", [10**6, 2**61])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_no_epsilon_makes_a_label_less_likely_than_others(
    neighbours: Neighbours, n_labels: int
) -> None:
    """Next to nothing allowed among many labels: never less likely than uniform."""
    p = keep_probability(n_labels=n_labels, epsilon=1e-12, neighbours=neighbours)
    assert p >= Fraction(1, n_labels)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_no_epsilon_keeps_for_sure(neighbours: Neighbours) -> None:
    """Even an absurd epsilon leaves a chance to move, drawn exactly in parts of 2^-62."""
    p = keep_probability(n_labels=6, epsilon=1e4, neighbours=neighbours)
    assert p == 1 - Fraction(1, 2**62)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("n_labels", 1),
        ("n_labels", 2.0),
        ("n_labels", True),
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("epsilon", math.nan),
        ("epsilon", math.inf),
        ("epsilon", "1"),
    ],
)
def test_bad_arguments_are_named(
    ample: Ample, neighbours: Neighbours, field: str, bad: object
) -> None:
    """K below 2 and an epsilon that is none are refused by name; nothing is charged."""
    arguments: dict[str, object] = {"n_labels": 3, "epsilon": 1.0, field: bad}
    with pytest.raises(InvalidParameterError, match=f"{field} must be") as caught:
        keep_probability(neighbours=neighbours, **arguments)  # type: ignore[arg-type]
    assert caught.value.value is bad
    budget = ample(neighbours)
    with pytest.raises(InvalidParameterError, match=f"{field} must be"):
        randomised_response(Secret(np.array([0])), budget=budget, tag="t", **arguments)  # type: ignore[arg-type]
    assert budget.spends == ()


def test_labels_without_noise_stay(ample: Ample, silent: NoiseSource) -> None:
    """When no coin is true every label stays; nothing of it can be written over."""
    labels = np.array([0, 1, 2, 3, 3, 0])
    with noise.rehearse(silent):
        released = randomised_response(
            Secret(labels), n_labels=4, epsilon=1.0, budget=ample(), tag="t"
        )
    assert released.value.tolist() == labels.tolist()
    assert not released.value.flags.writeable


@pytest.mark.parametrize("n_labels", [2, 3, 5])
def test_every_word_has_its_label(
    scripted: Callable[[list[int]], NoiseSource], n_labels: int
) -> None:
    """Coins in order, then offsets: a true coin adds 1 + word mod (K - 1), modulo K."""
    flip = Fraction(1, 4)
    values = np.repeat(np.arange(n_labels), n_labels - 1)
    offsets = np.tile(np.arange(n_labels - 1), n_labels)
    coins = [0] * values.size  # 0 < 1: true
    with noise.rehearse(scripted([*coins, *offsets.tolist()])):
        moved = move_labels(values, n_labels=n_labels, flip=flip)
    assert moved.tolist() == ((values + offsets + 1) % n_labels).tolist()
    # From each label, each other label is reached by exactly one offset.
    pairs = set(zip(values.tolist(), moved.tolist(), strict=True))
    assert len(pairs) == n_labels * (n_labels - 1)
    assert all(a != b for a, b in pairs)


def test_no_data_takes_a_uniform_label(
    ample: Ample, scripted: Callable[[list[int]], NoiseSource]
) -> None:
    """A customer without data gets word mod K, the others ignore that word; all draw alike."""
    labels = np.array([-1, 2, -1])
    never = 2**62 - 1
    words = [4, 5, 8, *[never] * 3, 0, 0, 0]
    with noise.rehearse(scripted(words)):
        released = randomised_response(
            Secret(labels), n_labels=3, epsilon=1.0, budget=ample(), tag="t"
        )
    assert released.value.tolist() == [4 % 3, 2, 8 % 3]
    assert labels.tolist() == [-1, 2, -1]


def test_number_of_draws_does_not_depend_on_who_has_data(
    ample: Ample, silent: NoiseSource, recorded: list[tuple[str, float, int]]
) -> None:
    """All, some or none without data: the same draws."""
    seen = []
    for labels in ([0, 1, 2], [-1, 1, -1], [-1, -1, -1]):
        recorded.clear()
        with noise.rehearse(silent):
            randomised_response(
                Secret(np.array(labels)), n_labels=3, epsilon=1.0, budget=ample(), tag="t"
            )
        seen.append(list(recorded))
    assert seen[0] == seen[1] == seen[2] == [("words", 0.0, 3)] * 3


def test_nobody_has_no_labels(ample: Ample) -> None:
    """An empty list of customers gives an empty list of labels, at the same price."""
    budget = ample()
    released = randomised_response(
        Secret(np.zeros(0, dtype=np.int64)), n_labels=3, epsilon=1.0, budget=budget, tag="t"
    )
    assert released.publish().size == 0
    assert budget.spends[0].response_epsilon == 1.0
