"""Randomised labels: words that choose them, ids and pseudonyms, and words from keys."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from tests.single_queries import (
    channel_of,
    customer_ids,
    given_cells,
    keep_probability,
    respond_to_labels,
)
from wattveil.arrays import Ints, Texts
from wattveil.engines.local import LocalRows
from wattveil.errors import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
    SimulatedNoiseError,
)
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours
from wattveil.privacy.mechanisms import response as module
from wattveil.privacy.mechanisms.response import (
    PARTS,
    Channel,
    checked_labels,
    fresh_key,
    respond,
    response_channel,
)
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import row_function
from wattveil.privacy.pseudonyms import pseudonyms

Ample = Callable[..., Budget]
Scripted = Callable[..., NoiseSource]


ROWS = [[5, 2, 1], [2, 4, 2], [1, 1, 6], [2, 2, 4]]


class RepeatingRows(LocalRows[Any]):  # type: ignore[misc]  # final elsewhere
    """Rows of an engine that may run a task twice."""

    computes_once = False


Kind = type[LocalRows[Any]]
KINDS: list[Kind] = [LocalRows, RepeatingRows]


def drawn(
    labels: Any,  # noqa: ANN401 - any sequence
    budget: Budget,
    channel: Channel,
    *,
    ids: Texts | None = None,
    kind: Kind = LocalRows,
    real_ids: bool = True,
) -> tuple[list[str], list[int]]:
    """Release labels through a channel; return ids and labels in the order of the ids."""
    own = np.asarray(labels, dtype=np.int64)
    listed = kind(customer_ids(len(own)) if ids is None else ids)
    released = respond(
        kind(own),
        listed,
        given_cells.bind(),
        channel=channel,
        budget=budget,
        tag="t",
        real_ids=real_ids,
    )
    names, found = released.here()
    return names.tolist(), found.tolist()


def test_charge_is_what_the_channel_costs(ample: Ample) -> None:
    """The epsilon of the channel for the budget's own neighbours, computed, not claimed."""
    channel = channel_of(*ROWS)
    for neighbours in Neighbours:
        budget = ample(neighbours)
        drawn([0, 1], budget, channel)
        assert [spend.response_epsilon for spend in budget.spends] == [channel.epsilon(neighbours)]


def test_a_channel_beyond_the_grant_is_refused(make_guarantee: Callable[..., Guarantee]) -> None:
    """A grant of epsilon 1 and a channel of log 4: nothing is charged or drawn."""
    channel = channel_of(*ROWS)
    for kind in KINDS:
        budget = Budget(make_guarantee(epsilon=1.0, delta=0.0), response_epsilon=1.0)
        with pytest.raises(BudgetExceededError, match=r"response_epsilon requested 1\.386"):
            drawn([99], budget, channel, kind=kind)
        assert budget.spends == ()


def test_every_word_has_its_label(ample: Ample, scripted: Scripted) -> None:
    """The parts of a row, one after the other: the last word of each and the first of the next."""
    channel, part = channel_of(*ROWS), PARTS // 8
    for label, row in ((0, ROWS[0]), (1, ROWS[1]), (2, ROWS[2]), (-1, ROWS[3])):
        ends = np.cumsum(row)
        words = [w for end in ends for w in (int(end) * part - 1, int(end) * part)]
        with noise.simulate(scripted([0, *words], genuine=True)):
            _, found = drawn([label] * (len(words) + 1), ample(), channel)
        # A word at 2^62 starts over: words are taken modulo 2^62.
        assert found == [0, 0, 1, 1, 2, 2, 0]


def test_a_label_of_probability_zero_is_never_drawn(ample: Ample, scripted: Scripted) -> None:
    """At the word where an empty part would begin, the next label is drawn."""
    channel = channel_of([3, 0, 1], [3, 0, 1], [3, 0, 1], [3, 0, 1])
    edge = 3 * (PARTS // 4)
    with noise.simulate(scripted([edge - 1, edge, edge + 1], genuine=True)):
        assert drawn([1, 1, -1], ample(), channel)[1] == [0, 2, 2]


def test_keys_are_fresh_and_long(seeded: Callable[[int], NoiseSource]) -> None:
    """Two keys differ and have 64 bytes; they come from the source of the noise."""
    first, second = fresh_key(), fresh_key()
    assert first != second
    assert len(first) == len(second) == 64
    assert len(set(first)) > 16
    words = np.frombuffer(first, dtype=np.int64)
    assert (words >= 0).all()
    assert (words < PARTS).all()
    keys = []
    for number in (1, 1, 2):
        with noise.simulate(seeded(number)):
            keys.append(fresh_key())
    assert keys[0] == keys[1] != keys[2]


# --- labels and ids -------------------------------------------------------------------------------


def test_labels_out_of_range_are_refused_by_position() -> None:
    """Only -1 .. n - 1 are labels; the positions of the others are for the data holder."""
    with pytest.raises(InvalidDataError, match="labels between 0 and 2, or -1") as caught:
        checked_labels(np.array([0, 3, -1, -2, 2]), 3)
    assert caught.value.row_ids == (1, 3)


@pytest.mark.parametrize(
    "labels", [np.array([0.5]), np.array([np.nan]), np.array([[0, 1]]), np.array(0)], ids=range(4)
)
def test_labels_are_a_vector_of_whole_numbers(labels: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """Fractions, missing values and matrices are not labels; the error names none of them."""
    with pytest.raises(InvalidDataError, match="unstable is a vector of whole numbers") as caught:
        checked_labels(labels, 3, field="unstable")
    assert caught.value.row_ids == ()


@pytest.mark.parametrize("labels", [["customer 4711"], [1j], [None, "a"]], ids=range(3))
def test_labels_are_numbers(labels: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """What is no number is refused by the name of the field, without quoting it."""
    with pytest.raises(InvalidDataError, match="'unstable is an array of real numbers'") as caught:
        checked_labels(labels, 3, field="unstable")
    assert "4711" not in str(caught.value)


def test_labels_are_copied() -> None:
    """What comes back can be changed without changing the private original."""
    original = np.array([0, 1, 2])
    checked_labels(original, 3)[0] = 2
    assert original.tolist() == [0, 1, 2]
    assert checked_labels(original.astype(np.uint8), 3).dtype == np.int64


@pytest.mark.parametrize("label", [2, 3, -2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_accepts_its_own_labels_only(ample: Ample, kind: Kind, label: int) -> None:
    """K is no label: its row of the channel is that of a customer without data."""
    channel = response_channel(n_labels=2, epsilon=0.5, neighbours=Neighbours.ZERO_OUT)
    with pytest.raises(InvalidDataError, match="labels between 0 and 1, or -1"):
        drawn([0, label], ample(), channel, kind=kind)


def test_labels_are_released_in_the_order_of_the_ids(ample: Ample, scripted: Scripted) -> None:
    """Whatever the order of the rows: it would reveal where a customer is in the data."""
    channel = channel_of([7, 1], [1, 7], [4, 4])
    ids = np.array(["c", "a", "b"], dtype=np.object_)
    with noise.simulate(scripted([PARTS // 2] * 3, genuine=True)):
        assert drawn([0, 1, 0], ample(), channel, ids=ids) == (["a", "b", "c"], [1, 0, 0])


def test_pseudonyms_are_the_start_of_a_digest() -> None:
    """The first 16 bytes of HMAC-SHA256, in hexadecimal digits; also of lone halves."""
    names = ["", "meter 4711", "\u00e4", "\ud800"]
    found = pseudonyms(names, key=b"key")
    inner, outer = (bytes(b ^ pad for b in b"key".ljust(64, b"\0")) for pad in (0x36, 0x5C))
    codes = [name.encode("utf-8", "surrogatepass") for name in names]
    digests = [sha256(outer + sha256(inner + code).digest()).hexdigest() for code in codes]
    assert found.tolist() == [digest[:32] for digest in digests]
    assert found.dtype == np.object_


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_replaced_by_pseudonyms(
    ample: Ample, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless real ids are requested: then they are released unchanged."""
    channel = response_channel(n_labels=3, epsilon=15.0, neighbours=Neighbours.ZERO_OUT)
    ids = customer_ids(50)
    names, _ = drawn(np.arange(50) % 3, ample(), channel, kind=kind)
    assert names == ids.tolist()
    first, second = (
        drawn(np.arange(50) % 3, ample(), channel, kind=kind, real_ids=False)[0] for _ in range(2)
    )
    assert not set(first) & {*second, *names}  # a key of its own for each release
    keys = iter([b"first", b"second"])
    monkeypatch.setattr(module, "fresh_key", lambda: next(keys))
    names, labels = drawn(np.arange(50) % 3, ample(), channel, kind=kind, real_ids=False)
    key = b"first" if kind is LocalRows else b"second"  # the first key is that of the words
    expected = pseudonyms(ids, key=key)
    assert names == sorted(expected)
    order = np.argsort(expected)
    kept = np.mean(np.array(labels) == (np.arange(50) % 3)[order])
    assert kept > 0.9  # at epsilon 15 a label belongs to its own id


@row_function
def label_of_load(load: Any, *, limits: Any) -> tuple[Ints]:  # noqa: ANN401 - arrays
    """Return a label from two numbers per customer."""
    return ((load > limits).all(axis=1).astype(np.int64),)


def test_labels_are_computed_from_the_rows_and_not_from_the_ids(ample: Ample) -> None:
    """The list of ids is no input of the row function."""
    rows = LocalRows(np.array([[1.0, 9.0], [3.0, 9.0], [5.0, 0.0]]))
    work = label_of_load.bind(limits=np.array([2.0, 4.0]))
    channel = response_channel(n_labels=2, epsilon=15.0, neighbours=Neighbours.ZERO_OUT)
    found: list[int] = []
    for _ in range(3):
        ids = LocalRows(customer_ids(3))
        released = respond(rows, ids, work, channel=channel, budget=ample(), tag="t", real_ids=True)
        found += released.here()[1].tolist()
    assert found == [0, 1, 0] * 3  # another label has a chance of 1e-6


@row_function
def label_of_two(load: Any, limits: Any) -> tuple[Ints]:  # noqa: ANN401 - arrays
    """Return a label from two columns."""
    return ((load[:, 0] > limits).astype(np.int64),)


def test_labels_are_computed_from_all_columns_of_the_rows(ample: Ample) -> None:
    """Rows of two columns: both are inputs of the row function, in their order."""
    rows = LocalRows(np.array([[1.0], [3.0], [5.0]]), np.array([2.0, 2.0, 9.0]))
    channel = response_channel(n_labels=2, epsilon=15.0, neighbours=Neighbours.ZERO_OUT)
    ids, work = LocalRows(customer_ids(3)), label_of_two.bind()
    released = respond(rows, ids, work, channel=channel, budget=ample(), tag="t", real_ids=True)
    assert released.here()[1].tolist() == [0, 1, 0]  # another label has a chance of 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ids", [["a", "b", "a"], ["a", None, "b"], ["a", "b"], list("abcd")])
def test_a_list_of_other_ids_is_refused(ample: Ample, kind: Kind, ids: list[str | None]) -> None:
    """One id per row, none twice and none missing: the list is public, and nothing is charged."""
    budget, channel = ample(), channel_of(*ROWS)
    with pytest.raises(InvalidParameterError, match="customer_ids must be one ") as caught:
        drawn([0, 1, 2], budget, channel, ids=np.array(ids, dtype=np.object_), kind=kind)
    assert caught.value.field == "customer_ids"
    assert "a" not in str(caught.value.value).split()
    assert budget.spends == ()


def test_a_repeated_id_is_reported(ample: Ample) -> None:
    """The error names the rule, and quotes no id."""
    with pytest.raises(InvalidParameterError) as caught:
        drawn([0, 1], ample(), channel_of(*ROWS), ids=np.array(["a", "a"], dtype=np.object_))
    assert (caught.value.rule, caught.value.value) == ("one per row, no two the same", "repeated")


@dataclass(frozen=True, eq=False)
class Loose(Channel):
    """A channel that claims to cost nothing."""

    def epsilon(self, neighbours: Neighbours) -> float:
        """Return less than it costs."""
        assert neighbours in Neighbours
        return 0.0


@pytest.mark.parametrize("channel", [Loose(channel_of(*ROWS).parts), None, channel_of(*ROWS).parts])
def test_only_a_channel_draws_labels(ample: Ample, channel: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """A subclass could state another epsilon than that of its parts; nothing is charged."""
    budget = ample()
    with pytest.raises(TypeError, match=r"^the kernel accepts a Channel only$"):
        drawn([0, 1], budget, channel)
    assert budget.spends == ()


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
        respond_to_labels(np.array([0]), budget=budget, **arguments)  # type: ignore[arg-type]
    assert budget.spends == ()


def test_number_of_draws_does_not_depend_on_who_has_data(
    ample: Ample, silent: NoiseSource, recorded: list[tuple[str, float, int]]
) -> None:
    """All, some or none without data: the same draws."""
    seen = []
    for labels in ([0, 1, 2], [-1, 1, -1], [-1, -1, -1]):
        recorded.clear()
        with noise.simulate(silent), pytest.raises(SimulatedNoiseError):
            respond_to_labels(np.array(labels), n_labels=3, epsilon=1.0, budget=ample())
        seen.append(list(recorded))
    assert seen[0] == seen[1] == seen[2] == [("words", 0.0, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_list_has_no_labels(ample: Ample, kind: Kind) -> None:
    """An empty list of customers gives an empty list of labels, at the same price."""
    budget = ample()
    channel = response_channel(n_labels=3, epsilon=1.0, neighbours=Neighbours.ZERO_OUT)
    assert drawn([], budget, channel, kind=kind) == ([], [])
    assert budget.spends[0].response_epsilon == pytest.approx(1.0, rel=1e-15)


# --- words from keys ------------------------------------------------------------------------------


def test_mechanism_names_the_source_of_words(ample: Ample) -> None:
    """An engine that may repeat a task gets keyed words: a computational guarantee."""
    for kind, name in zip(KINDS, ("channel_response", "keyed_response"), strict=True):
        budget = ample()
        drawn([0, 1], budget, channel_of(*ROWS), kind=kind)
        assert [(spend.tag, spend.mechanism) for spend in budget.spends] == [("t", name)]


def test_a_keyed_word_is_the_end_of_a_digest(ample: Ample, monkeypatch: pytest.MonkeyPatch) -> None:
    """Label by label from the definition of HMAC and of the channel, in Python's integers."""
    monkeypatch.setattr(module, "fresh_key", lambda: b"key")
    labels = [i % 4 - 1 for i in range(200)]
    names, found = drawn(labels, ample(), channel_of(*ROWS), kind=RepeatingRows)
    inner, outer = (bytes(b ^ pad for b in b"key".ljust(64, b"\0")) for pad in (0x36, 0x5C))
    for name, label, one in zip(names, labels, found, strict=True):
        digest = sha256(outer + sha256(inner + name.encode()).digest()).digest()
        eighth = int.from_bytes(digest[-8:], "little") % PARTS // (PARTS // 8)
        assert one == sum(eighth >= end for end in np.cumsum(ROWS[label])[:-1])


def test_keyed_labels_are_the_same_in_any_order(
    ample: Ample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed again, in other blocks and another order: each customer has the same label."""
    monkeypatch.setattr(module, "fresh_key", lambda: b"key")
    channel = response_channel(n_labels=3, epsilon=0.5, neighbours=Neighbours.ZERO_OUT)
    ids, labels = customer_ids(100), np.arange(100) % 3
    _, once = drawn(labels, ample(), channel, ids=ids, kind=RepeatingRows)
    for part in np.array_split(np.random.default_rng(1).permutation(100), 7):
        names, found = drawn(labels[part], ample(), channel, ids=ids[part], kind=RepeatingRows)
        assert names == sorted(ids[part])
        assert found == [once[int(name)] for name in names]


def test_keys_of_two_releases_differ(ample: Ample) -> None:
    """The same rows twice: other labels."""
    channel = response_channel(n_labels=3, epsilon=0.5, neighbours=Neighbours.ZERO_OUT)
    first, second = (drawn([0] * 200, ample(), channel, kind=RepeatingRows)[1] for _ in range(2))
    assert first != second


def test_keyed_labels_follow_the_channel(ample: Ample) -> None:
    """Of 100,000 customers of a row its shares come out, and not those of the last row."""
    _, found = drawn(np.zeros(100_000), ample(), channel_of(*ROWS), kind=RepeatingRows)
    counts = np.bincount(found)

    def misfit(row: list[int]) -> float:
        expected = np.array(row) * 100_000 / 8
        return float((np.square(counts - expected) / expected).sum())

    assert misfit(ROWS[0]) < 27.7 < misfit(ROWS[3])  # chi-square of 2 degrees, 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_simulated_labels_are_not_released(
    ample: Ample,
    seeded: Callable[[int], NoiseSource],
    kind: Kind,
) -> None:
    """Whether words or keys came from a test's own source."""
    with noise.simulate(seeded(1)), pytest.raises(SimulatedNoiseError):
        drawn([0, 1], ample(), channel_of(*ROWS), kind=kind)
