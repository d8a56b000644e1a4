"""Channels: their epsilon in exact arithmetic, words that choose labels, what is no channel.

The second road to e^epsilon is Python's decimal arithmetic, whose exp is correctly rounded.
"""

import math
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest

from tests.responding import keep_probability, randomised_response
from wattveil.errors import BudgetExceededError, InvalidParameterError, RehearsalError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Guarantee, Neighbours
from wattveil.privacy.mechanisms import response as module
from wattveil.privacy.mechanisms.response import (
    PARTS,
    Channel,
    channel_response,
    fresh_key,
    keyed_response,
    response_channel,
)
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import IntArray

Ample = Callable[..., Budget]
KeyedDraw = Callable[[Secret[IntArray], Iterable[str]], IntArray]
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
    """The least epsilon and the most labels that are accepted: still a channel within it."""
    channel = response_channel(n_labels=1_000, epsilon=1e-12, neighbours=Neighbours.REPLACE_ONE)
    assert channel.epsilon(Neighbours.REPLACE_ONE) <= 1e-12
    assert channel.parts[0, 0] >= channel.parts[0, 1]


@pytest.mark.parametrize("neighbours", Neighbours)
def test_no_epsilon_keeps_for_sure(neighbours: Neighbours) -> None:
    """Even an absurd epsilon leaves each other label a part of 2^62."""
    p = keep_probability(n_labels=6, epsilon=1e4, neighbours=neighbours)
    assert p == 1 - Fraction(5, 2**62)


# --- any channel --------------------------------------------------------------------------------


def channel_of(*rows: list[int]) -> Channel:
    """Return a channel from small whole numbers of one sum, a power of two."""
    return Channel(np.array(rows) * (PARTS // sum(rows[0])))


def test_epsilon_by_hand() -> None:
    """Rows (5, 2, 1), (2, 4, 2), (1, 1, 6) against (2, 2, 4): 5/2; among each other 6/1."""
    channel = channel_of([5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4])
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
def test_zero_out_looks_both_ways(rows: tuple[list[int], ...], ratio: int) -> None:
    """Each row against the last, larger over smaller whichever it is."""
    epsilon = channel_of(*rows).epsilon(Neighbours.ZERO_OUT)
    assert epsilon == pytest.approx(math.log(ratio), rel=1e-15)


def test_a_label_never_drawn_costs_nothing() -> None:
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
        np.array([[PARTS, 0], [HALF, HALF], [HALF, HALF]]),  # told apart by a label for sure
        np.array([[HALF, HALF], [HALF, HALF], [PARTS, 0]]),
        np.array([[HALF, HALF], [HALF, HALF], [0, PARTS]]),
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
    ):
        Channel(parts)


def test_a_channel_is_nobody_elses() -> None:
    """A change of the array it was made from does not reach it, and it cannot be changed."""
    parts = np.full((3, 2), HALF)
    channel = Channel(parts)
    parts[0] = [PARTS, 0]
    assert channel.parts.tolist() == [[HALF, HALF]] * 3
    assert not channel.parts.flags.writeable
    with pytest.raises(AttributeError):
        channel.parts = parts  # type: ignore[misc]  # frozen


def test_charge_is_what_the_channel_costs(ample: Ample) -> None:
    """The epsilon of the channel for the budget's own neighbours, computed, not claimed."""
    channel = channel_of([5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4])
    for neighbours in Neighbours:
        budget = ample(neighbours)
        channel_response(Secret(np.array([0, 1])), channel=channel, budget=budget, tag="t")
        assert [spend.response_epsilon for spend in budget.spends] == [channel.epsilon(neighbours)]


def test_a_channel_beyond_the_grant_is_refused(promise: Callable[..., Guarantee]) -> None:
    """One asked for epsilon 1 and brought a channel of log 4: nothing is charged or drawn."""
    channel = channel_of([5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4])
    budget = Budget(promise(epsilon=1.0, delta=0.0), response_epsilon=1.0)
    with pytest.raises(BudgetExceededError, match=r"response_epsilon requested 1\.386"):
        channel_response(Secret(np.array([99])), channel=channel, budget=budget, tag="t")
    assert budget.spends == ()


def test_every_word_has_its_label(
    ample: Ample, scripted: Callable[[list[int]], NoiseSource]
) -> None:
    """The parts of a row, one after the other: the last word of each and the first of the next."""
    rows = [[5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4]]
    channel, part = channel_of(*rows), PARTS // 8
    for label, row in ((0, rows[0]), (1, rows[1]), (2, rows[2]), (-1, rows[3])):
        ends = np.cumsum(row)
        words = [w for end in ends for w in (int(end) * part - 1, int(end) * part)]
        with noise.rehearse(scripted([0, *words])):
            released = channel_response(
                Secret(np.full(len(words) + 1, label)), channel=channel, budget=ample(), tag="t"
            )
        # A word at 2^62 starts over: words are taken modulo 2^62.
        assert released.value.tolist() == [0, 0, 1, 1, 2, 2, 0]
        assert not released.value.flags.writeable


def test_a_label_never_drawn_is_never_drawn(
    ample: Ample, scripted: Callable[[list[int]], NoiseSource]
) -> None:
    """At the word where an empty part would begin, the next label is drawn."""
    channel = channel_of([3, 0, 1], [3, 0, 1], [3, 0, 1], [3, 0, 1])
    edge = 3 * (PARTS // 4)
    with noise.rehearse(scripted([edge - 1, edge, edge + 1])):
        released = channel_response(
            Secret(np.array([1, 1, -1])), channel=channel, budget=ample(), tag="t"
        )
    assert released.value.tolist() == [0, 2, 2]


def test_keys_are_fresh_and_long(seeded: Callable[[int], NoiseSource]) -> None:
    """Two keys differ, have 64 bytes, cost nothing; a rehearsed one cannot be published."""
    first, second = fresh_key(), fresh_key()
    assert first.publish() != second.publish()
    assert len(first.value) == len(second.value) == 64
    assert len(set(first.value)) > 16
    assert first.spends == ()
    with noise.rehearse(seeded(1)):
        rehearsed = fresh_key()
    with pytest.raises(RehearsalError):
        rehearsed.publish()


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("n_labels", 1),
        ("n_labels", 1_001),
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
    assert seen[0] == seen[1] == seen[2] == [("words", 0.0, 3)]


def test_nobody_has_no_labels(ample: Ample) -> None:
    """An empty list of customers gives an empty list of labels, at the same price."""
    budget = ample()
    released = randomised_response(
        Secret(np.zeros(0, dtype=np.int64)), n_labels=3, epsilon=1.0, budget=budget, tag="t"
    )
    assert released.publish().size == 0
    assert budget.spends[0].response_epsilon == pytest.approx(1.0, rel=1e-15)


# --- labels drawn elsewhere ----------------------------------------------------------------------


def _keyed(ample: Ample, channel: Channel, monkeypatch: pytest.MonkeyPatch) -> KeyedDraw:
    """Return the function that draws, under a known key."""

    class Known:
        def publish(self) -> bytes:
            return b"key"

    monkeypatch.setattr(module, "fresh_key", Known)
    return keyed_response(channel=channel, budget=ample(), tag="t")


def test_a_keyed_word_is_the_end_of_a_digest(ample: Ample, monkeypatch: pytest.MonkeyPatch) -> None:
    """Label by label from the definition of HMAC and of the channel, in Python's integers."""
    rows = [[5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4]]
    names, labels = [f"id {i}" for i in range(200)], [i % 4 - 1 for i in range(200)]
    drawn = _keyed(ample, channel_of(*rows), monkeypatch)(Secret(np.array(labels)), names)
    inner, outer = (bytes(b ^ pad for b in b"key".ljust(64, b"\0")) for pad in (0x36, 0x5C))
    for name, label, found in zip(names, labels, drawn.tolist(), strict=True):
        digest = sha256(outer + sha256(inner + name.encode()).digest()).digest()
        eighth = int.from_bytes(digest[-8:], "little") % PARTS // (PARTS // 8)
        assert found == sum(eighth >= end for end in np.cumsum(rows[label])[:-1])


def test_keyed_labels_come_again_in_any_order(ample: Ample) -> None:
    """Asked twice, in other blocks and another order: each customer has the same label."""
    channel = response_channel(n_labels=3, epsilon=0.5, neighbours=Neighbours.ZERO_OUT)
    budget = ample()
    draw = keyed_response(channel=channel, budget=budget, tag="t")
    names, labels = np.array([f"{i}" for i in range(100)]), np.arange(100) % 3
    once = draw(Secret(labels), names)
    order = np.random.default_rng(1).permutation(100)
    parts = [draw(Secret(labels[part]), names[part]) for part in np.array_split(order, 7)]
    assert np.concatenate(parts).tolist() == once[order].tolist()
    assert draw(Secret(labels[:0]), names[:0]).size == 0
    assert [spend.response_epsilon for spend in budget.spends] == [
        channel.epsilon(Neighbours.ZERO_OUT)
    ]


def test_keyed_labels_follow_the_channel(ample: Ample) -> None:
    """Of 100,000 customers of a row its shares come out, and not those of the next row."""
    rows = [[5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4]]
    draw = keyed_response(channel=channel_of(*rows), budget=ample(), tag="t")
    counts = np.bincount(draw(Secret(np.zeros(100_000, np.int64)), map(str, range(100_000))))

    def misfit(row: list[int]) -> float:
        expected = np.array(row) * 100_000 / 8
        return float((np.square(counts - expected) / expected).sum())

    assert misfit(rows[0]) < 27.7 < misfit(rows[3])  # chi-square of 2 degrees, 1e-6


def test_a_keyed_channel_is_charged_first_and_never_rehearsed(
    promise: Callable[..., Guarantee], ample: Ample, seeded: Callable[[int], NoiseSource]
) -> None:
    """Beyond the grant there is no key; a rehearsed key does not leave."""
    channel = channel_of([5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4])
    budget = Budget(promise(epsilon=1.0, delta=0.0), response_epsilon=1.0)
    with pytest.raises(BudgetExceededError):
        keyed_response(channel=channel, budget=budget, tag="t")
    with noise.rehearse(seeded(1)), pytest.raises(RehearsalError):
        keyed_response(channel=channel, budget=ample(), tag="t")
