"""Channels of randomised labels: their epsilon in exact arithmetic, and what is no channel.

The independent computation of e^epsilon is Python's decimal arithmetic, whose exp is correctly
rounded.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from tests.single_queries import channel_of, keep_probability
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.response import PARTS, Channel, response_channel

GRID = [(k, e) for k in (2, 3, 6, 50) for e in (1e-9, 1e-3, 0.5, 1.0, 3.0, 20.0, 200.0)]
ROWS = [[5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4]]


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


def private(parts: list[list[int]], epsilon: float, neighbours: Neighbours) -> bool:
    """Whether every pair of rows that the relation compares is within e^epsilon, both ways."""
    low, _ = exp_between(epsilon)
    *with_data, absent = parts
    firsts = parts if neighbours is Neighbours.REPLACE_ONE else [absent]
    return all(
        max(a, b) <= low * min(a, b)
        for first in firsts
        for second in with_data
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("n_labels", "epsilon"), GRID)
def test_response_is_the_tightest(n_labels: int, epsilon: float, neighbours: Neighbours) -> None:
    """Within e^epsilon, and with one part less for each other label no more."""
    channel = response_channel(n_labels=n_labels, epsilon=epsilon, neighbours=neighbours)
    assert private(channel.parts.tolist(), epsilon, neighbours)
    other = int(channel.parts[0, 1])
    tighter = channel.parts.copy()
    tighter[:-1] = other - 1
    np.fill_diagonal(tighter, PARTS - (n_labels - 1) * (other - 1))
    assert other == 1 or not private(tighter.tolist(), epsilon, neighbours)
    assert channel.epsilon(neighbours) <= epsilon


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("n_labels", [2, 3, 6, 7, 50])
def test_response_treats_labels_alike(n_labels: int, neighbours: Neighbours) -> None:
    """One chance to stay, one for each other label, at most a part between labels without data."""
    parts = response_channel(n_labels=n_labels, epsilon=0.7, neighbours=neighbours).parts
    assert set(parts[:-1].diagonal().tolist()) == {int(parts[0, 0])}
    assert set(parts[:-1][~np.eye(n_labels, dtype=bool)].tolist()) == {int(parts[0, 1])}
    assert int(parts[-1].max()) - int(parts[-1].min()) == (PARTS % n_labels > 0)
    assert parts[-1].tolist() == sorted(parts[-1].tolist(), reverse=True)


@pytest.mark.parametrize(("n_labels", "epsilon"), GRID)
def test_zero_out_keeps_at_least_as_often(n_labels: int, epsilon: float) -> None:
    """Replace-one compares more rows, so it keeps a label no more often."""
    p = keep_probability(n_labels=n_labels, epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE)
    assert p <= keep_probability(n_labels=n_labels, epsilon=epsilon, neighbours=Neighbours.ZERO_OUT)


def test_next_to_nothing_among_many_labels() -> None:
    """Minimum epsilon and maximum number of labels: still a channel within it."""
    channel = response_channel(n_labels=1_000, epsilon=1e-12, neighbours=Neighbours.REPLACE_ONE)
    assert channel.epsilon(Neighbours.REPLACE_ONE) <= 1e-12
    assert channel.parts[0, 0] >= channel.parts[0, 1]


@pytest.mark.parametrize("neighbours", Neighbours)
def test_no_epsilon_keeps_for_sure(neighbours: Neighbours) -> None:
    """Even an absurd epsilon leaves each other label a part of 2^62."""
    p = keep_probability(n_labels=6, epsilon=1e4, neighbours=neighbours)
    assert p == 1 - Fraction(5, 2**62)


# --- any channel --------------------------------------------------------------------------------


def test_epsilon_by_hand() -> None:
    """Rows (5, 2, 1), (2, 4, 2), (1, 1, 6) against (2, 2, 4): 5/2; among each other 6/1."""
    channel = channel_of(*ROWS)
    for neighbours, ratio in ((Neighbours.ZERO_OUT, 4), (Neighbours.REPLACE_ONE, 6)):
        epsilon = channel.epsilon(neighbours)
        assert epsilon == pytest.approx(math.log(ratio), rel=1e-15)
        assert exp_between(epsilon)[0] >= ratio  # rounded up
        assert exp_between(math.nextafter(epsilon, 0.0))[1] < ratio  # by less than an ulp


@pytest.mark.parametrize(
    ("rows", "ratio"),
    [
        (([6, 2], [4, 4], [4, 4]), 2),  # without data likelier: 4 / 2
        (([2, 6], [4, 4], [2, 6]), 2),  # with data likelier: 4 / 2
        (([4, 4], [4, 4], [1, 7]), 4),  # the last row matters
        (([4, 4], [4, 4], [7, 1]), 4),
    ],
)
def test_zero_out_compares_both_ways(rows: tuple[list[int], ...], ratio: int) -> None:
    """Each row against the last, larger over smaller whichever it is."""
    epsilon = channel_of(*rows).epsilon(Neighbours.ZERO_OUT)
    assert epsilon == pytest.approx(math.log(ratio), rel=1e-15)


def test_a_label_of_probability_zero_costs_nothing() -> None:
    """A column of zeros is allowed and does not count; equal rows cost exactly 0."""
    channel = channel_of([3, 0, 1], [3, 0, 1], [3, 0, 1], [3, 0, 1])
    assert [channel.epsilon(neighbours) for neighbours in Neighbours] == [0.0, 0.0]
    lone = Channel(np.array([[PARTS], [PARTS]]))
    assert lone.epsilon(Neighbours.ZERO_OUT) == 0.0


HALF = PARTS // 2


@pytest.mark.parametrize(
    "parts",
    [
        np.full((3, 2), HALF - 1),  # too little
        np.full((3, 2), HALF + 1),  # too much
        np.array([[HALF, HALF], [HALF, HALF], [HALF, HALF - 1]]),  # the last row
        np.array([[HALF, HALF], [HALF, HALF]]),  # no row for customers without data
        np.full((3, 2), 0.5),
        np.full((3, 2), float(HALF)),
        np.array([[PARTS + 1, -1], [HALF, HALF], [HALF, HALF]]),
        np.array([[PARTS + 1, -1]] * 3),
        np.array(
            [[PARTS, 0], [HALF, HALF], [HALF, HALF]]
        ),  # distinguished by a label with certainty
        np.array([[HALF, HALF], [HALF, HALF], [PARTS, 0]]),
        np.array([[HALF, HALF], [HALF, HALF], [0, PARTS]]),
        np.array([[PARTS - 1, 1], [PARTS, 0], [PARTS, 0]]),  # with the smallest chance there is
        np.zeros((1, 0), dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.zeros((3, 2), dtype=np.int64),
        np.full((3, 2, 1), HALF),
        # Four times 2^62 and once more: 2^62 again in 64 bits.
        np.full((6, 5), PARTS),
    ],
)
def test_what_is_no_channel_is_refused(parts: np.typing.NDArray[np.int64]) -> None:
    """Rows that do not add up, zeros in some rows only, wrong shapes and kinds of numbers."""
    with pytest.raises(
        InvalidParameterError, match=r"parts must be K \+ 1 rows of K whole numbers"
    ) as caught:
        Channel(parts)
    assert caught.value.value == parts.shape


def test_the_smallest_chance_is_a_chance() -> None:
    """A label of one part in 2^62 is possible; where every row has it, it reveals nothing."""
    rare = Channel(np.array([[PARTS - 1, 1]] * 3))
    assert [rare.epsilon(neighbours) for neighbours in Neighbours] == [0.0, 0.0]
    twice = Channel(np.array([[PARTS - 2, 2], [PARTS - 1, 1], [PARTS - 1, 1]]))
    for neighbours in Neighbours:
        assert twice.epsilon(neighbours) == pytest.approx(math.log(2.0), rel=1e-15)


def test_a_channel_keeps_its_own_array() -> None:
    """A change of the array it was made from does not reach it, and it cannot be changed."""
    parts = np.full((3, 2), HALF)
    channel = Channel(parts)
    parts[0] = [PARTS, 0]
    assert channel.parts.tolist() == [[HALF, HALF]] * 3
    assert not channel.parts.flags.writeable
    with pytest.raises(AttributeError):
        channel.parts = parts  # type: ignore[misc]  # frozen
