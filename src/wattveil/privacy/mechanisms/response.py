"""Randomised labels: one label per customer, each drawn independently through a public channel."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from wattveil import checks
from wattveil.arrays import Ints, Texts
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Budget, Neighbours, Spend
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.private_data import (
    BoundRowFunction,
    Released,
    ReleasedRows,
    Rows,
    checked_rows,
    exactly,
)
from wattveil.privacy.pseudonyms import pseudonyms

PARTS = 2**62
"""Probabilities are multiples of 2^-62: drawn exactly from one word, added up exactly."""

_MAX_LABELS = 1_000
"""Up to here the nearest channel to uniform, in multiples of 2^-62, meets any epsilon accepted."""


@dataclass(frozen=True, eq=False)
class Channel:
    """Distribution of the released label for each true label; `epsilon` is computed from it.

    ``parts`` has one row per true label, a last row for a customer without data, and one column per
    released label; every row adds up to `PARTS`. A released label is possible in every row or in
    none. The code that computes the channel need not be trusted.
    """

    parts: Ints

    def __post_init__(self) -> None:
        """Refuse an array that is not such a table."""
        own = np.array(self.parts)  # a copy that no other code can change
        is_table = own.dtype == np.int64 and own.ndim == 2 and len(own) == own.shape[1] + 1 > 1  # noqa: PLR2004 - rows and columns
        # Python's integers add up exactly; with no part below 0 none is above the sum.
        whole = is_table and own.min() >= 0 and {sum(row) for row in own.tolist()} == {PARTS}
        if not whole or ((own.min(axis=0) > 0) != (own.max(axis=0) > 0)).any():
            rule = "K + 1 rows of K whole numbers that add up to 2^62, each column all 0 or none"
            raise InvalidParameterError("parts", rule, own.shape)
        own.setflags(write=False)
        object.__setattr__(self, "parts", own)

    def epsilon(self, neighbours: Neighbours) -> float:
        """Return the smallest epsilon for which a draw is epsilon-DP, rounded up.

        Zero-out compares each row with the last, both ways; replace-one all rows with each other.
        """
        largest, smallest = self.parts.max(axis=0).tolist(), self.parts.min(axis=0).tolist()
        if neighbours is Neighbours.ZERO_OUT:
            absent = self.parts[-1].tolist()
            largest, smallest = largest + absent, absent + smallest
        # A label that is never drawn, in any row, reveals nothing.
        ratios = [Fraction(*pair) for pair in zip(largest, smallest, strict=True) if pair[1]]
        return accounting.log_ratio(*max(ratios).as_integer_ratio())


def response_channel(*, n_labels: int, epsilon: float, neighbours: Neighbours) -> Channel:
    """Return K-ary randomised response: p for the true label, q for each other label.

    A customer without data gets each label with probability 1 / K. q is the smallest multiple of
    2^-62 that is epsilon-DP; in real numbers

    * zero-out needs p <= e^epsilon / K and q >= e^-epsilon / K:
      p = min(e^epsilon / K, 1 - (K - 1) e^-epsilon / K)
    * replace-one needs p <= e^epsilon q: p = e^epsilon / (e^epsilon + K - 1)
    """
    n_labels = checks.integer("n_labels", n_labels, minimum=2, maximum=_MAX_LABELS)
    epsilon = checks.positive_epsilon("epsilon", epsilon)  # float32 would compare as float32
    uniform, rest = divmod(PARTS, n_labels)

    def table(q: int) -> Channel:
        parts = np.full((n_labels + 1, n_labels), q)
        np.fill_diagonal(parts, PARTS - (n_labels - 1) * q)
        parts[-1] = uniform + (np.arange(n_labels) < rest)
        return Channel(parts)

    above = accounting.last_accepted(lambda q: table(q).epsilon(neighbours) > epsilon, 0, uniform)
    return table(above + 1)


def respond(
    rows: Rows[*tuple[Any, ...]],
    ids: Rows[Texts],
    label_of: BoundRowFunction[tuple[Ints]],
    *,
    channel: Channel,
    budget: Budget,
    tag: str,
    real_ids: bool,
) -> ReleasedRows[Texts, Ints]:
    """Release one randomised label per customer of a public list.

    ``ids`` is the public list, one id for each row. ``label_of`` returns the true label of each
    customer, `NO_DATA` for one without data. Unless ``real_ids``, an id is replaced by HMAC-SHA256
    under a key that is drawn here and not stored.

    Formal guarantee
    ----------------
    The caller ensures that the list of ids is public, each customer having one id, and that the
    parameters of ``label_of`` are public or released. Then the released list is epsilon-DP for the
    budget's neighbours, with epsilon = ``channel.epsilon(neighbours)``, which is what is charged.
    Where an engine may run a task twice, a customer's random word is HMAC-SHA256 of its id under a
    fresh key, and the guarantee is computational: it holds against observers who cannot distinguish
    such words from random ones. Proof: docs/proofs/randomised-response.md.
    """
    exactly(channel, Channel)
    exactly(label_of, BoundRowFunction)
    if checked_rows(ids)._has_repeats():  # noqa: SLF001 - a public list
        raise InvalidParameterError("customer_ids", "one per row, no two the same", "repeated")
    listed = checked_rows(rows).beside(ids, field="customer_ids")
    mechanism = "channel_response" if rows.computes_once else "keyed_response"
    cost = channel.epsilon(budget.guarantee.neighbours)
    spend = Spend(tag=tag, mechanism=mechanism, response_epsilon=cost)
    exactly(budget, Budget).charge(spend)
    work = _Response(
        label_of=label_of,
        parts=channel.parts,
        word_key=None if rows.computes_once else fresh_key(),
        name_key=None if real_ids else fresh_key(),
    )
    drawn = listed._draw(work)  # noqa: SLF001 - after the charge
    return ReleasedRows(Released(value=drawn, spends=(spend,), simulated=noise.is_simulated()))


def fresh_key() -> bytes:
    """Draw a key of 64 bytes, 496 bits of them random; it depends on no data."""
    return noise.uniform_below(bound=PARTS, size=8).tobytes()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Response:
    """Computation of `respond` on a block: name and drawn label of each customer."""

    label_of: BoundRowFunction[tuple[Ints]]
    parts: Ints
    word_key: bytes | None
    name_key: bytes | None

    def __call__(self, *columns: Any) -> tuple[Texts, Ints]:  # noqa: ANN401 - arrays
        """Draw one label per customer, from one word per customer, whatever the true label is."""
        *own, names = columns
        labels = checked_labels(self.label_of(*own)[0], len(self.parts) - 1)
        if self.word_key is None:
            words = noise.uniform_below(bound=PARTS, size=labels.size)
        else:
            words = noise.keyed_below(names, key=self.word_key, bound=PARTS)
        drawn = np.zeros_like(labels)
        for ends in np.cumsum(self.parts, axis=1).T[:-1]:
            drawn += words >= ends[labels]  # `NO_DATA` = -1 is the last row
        key = self.name_key
        return names if key is None else pseudonyms(names, key=key), drawn


def checked_labels(labels: Ints, n_labels: int, *, field: str = "labels") -> Ints:
    """Accept whole numbers in [0, n_labels) and `NO_DATA`; an error is for the data holder."""
    values = checks.numbers(field, labels)
    if values.ndim != 1 or (values != np.trunc(values)).any():
        raise InvalidDataError(f"{field} is a vector of whole numbers", [])
    bad = np.flatnonzero((values < NO_DATA) | (values >= n_labels))
    if bad.size:
        raise InvalidDataError(f"{field} between 0 and {n_labels - 1}, or -1", bad.tolist())
    return values.astype(np.int64)
