"""Randomised labels: one public label a customer, each drawn by itself through a public channel."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting, noise, rounding
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.cells import check_cells
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import IntArray

PARTS = 2**62
"""Chances are whole multiples of 2^-62: drawn exactly from one word, added up exactly."""

_MOST_LABELS = 1_000
"""Up to here the nearest channel to uniform in whole parts is within any epsilon we accept."""


@dataclass(frozen=True, eq=False)
class Channel:
    """What is drawn for each true label; who made it need not be trusted: `epsilon` is computed.

    ``parts`` has a row a true label and a last one for a customer without data, a column a released
    label; every row adds up to `PARTS`. A released label is possible in every row or in none.
    """

    parts: IntArray

    def __post_init__(self) -> None:
        """Refuse what is not such a table."""
        own = np.array(self.parts)  # nobody else's array: it must not change
        is_table = own.dtype == np.int64 and own.ndim == 2 and len(own) == own.shape[1] + 1 > 1  # noqa: PLR2004 - rows and columns
        # Python's integers add up exactly; with no part below 0 none is above the sum.
        whole = is_table and own.min() >= 0 and {sum(row) for row in own.tolist()} == {PARTS}
        if not whole or ((own.min(axis=0) > 0) != (own.max(axis=0) > 0)).any():
            rule = "K + 1 rows of K whole numbers that add up to 2^62, each column all 0 or none"
            raise InvalidParameterError("parts", rule, own.shape)
        own.setflags(write=False)
        object.__setattr__(self, "parts", own)

    def epsilon(self, neighbours: Neighbours) -> float:
        """Return the least epsilon for which a draw is epsilon-DP, rounded up.

        Zero-out compares each row with the last, both ways; replace-one all rows with each other.
        """
        most, least = self.parts.max(axis=0).tolist(), self.parts.min(axis=0).tolist()
        if neighbours is Neighbours.ZERO_OUT:
            absent = self.parts[-1].tolist()
            most, least = most + absent, absent + least
        # A label that is never drawn, in any row, tells nothing.
        ratios = [Fraction(*pair) for pair in zip(most, least, strict=True) if pair[1]]
        return accounting.log_ratio(*max(ratios).as_integer_ratio())


def response_channel(*, n_labels: int, epsilon: float, neighbours: Neighbours) -> Channel:
    """Return K-ary randomised response: a label stays with chance p, each other one has chance q.

    A customer without data gets each label with chance 1 / K. With the smallest q, in whole parts,
    that is epsilon-DP; in real numbers

    * zero-out needs p <= e^epsilon / K and q >= e^-epsilon / K:
      p = min(e^epsilon / K, 1 - (K - 1) e^-epsilon / K)
    * replace-one needs p <= e^epsilon q: p = e^epsilon / (e^epsilon + K - 1)
    """
    n_labels = checks.integer("n_labels", n_labels, least=2, most=_MOST_LABELS)
    epsilon = checks.positive_epsilon("epsilon", epsilon)  # float32 would compare as float32
    uniform, rest = divmod(PARTS, n_labels)

    def table(q: int) -> Channel:
        parts = np.full((n_labels + 1, n_labels), q)
        np.fill_diagonal(parts, PARTS - (n_labels - 1) * q)
        parts[-1] = uniform + (np.arange(n_labels) < rest)
        return Channel(parts)

    above = rounding.last_accepted(lambda q: table(q).epsilon(neighbours) > epsilon, 0, uniform)
    return table(above + 1)


def channel_response(
    labels: Secret[IntArray], *, channel: Channel, budget: Budget, tag: str
) -> Released[IntArray]:
    """Release one label a customer; the list of customers is public, who is who is not.

    `NO_DATA` in ``labels`` is a customer on the list without data.

    Formal guarantee
    ----------------
    The caller ensures that a customer has one label, and that it depends on the customer's own
    data and on released values alone. Then the released list is epsilon-DP for the budget's
    neighbours, with epsilon = ``channel.epsilon(neighbours)``, which is what is charged. Proof:
    docs/proofs/randomised-response.md.
    """
    spend = _charge(channel, budget, tag, "channel_response")
    words = noise.uniform_below(bound=PARTS, size=np.size(labels.reveal()))
    drawn = _draw(channel, labels, words)
    return Released(value=drawn, spends=(spend,), rehearsal=noise.is_rehearsal())


def keyed_response(
    *, channel: Channel, budget: Budget, tag: str
) -> Callable[[Secret[IntArray], Iterable[str]], IntArray]:
    """Charge for labels that are drawn elsewhere; return the function that draws them.

    It takes the labels of some customers and their ids, and may be run again: a customer's word is
    a function of the id and of a key, which is drawn here, known to this function alone, and must
    stay in the house as the data do.

    Formal guarantee
    ----------------
    As `channel_response`, for whoever cannot tell HMAC-SHA256 under a random key from random words,
    and if each customer has one id, and each id one label. Proof:
    docs/proofs/randomised-response.md.
    """
    _charge(channel, budget, tag, "keyed_response")
    key = fresh_key().publish()

    def draw(labels: Secret[IntArray], names: Iterable[str]) -> IntArray:
        return _draw(channel, labels, noise.keyed_below(names, key=key, bound=PARTS))

    return draw


def fresh_key() -> Released[bytes]:
    """Draw a key of 64 bytes, 496 bits of them random, for pseudonyms; it depends on no data.

    Formal guarantee
    ----------------
    None is needed: nothing of the data enters. Proof: docs/proofs/randomised-response.md.
    """
    key = noise.uniform_below(bound=PARTS, size=8).tobytes()
    return Released(value=key, spends=(), rehearsal=noise.is_rehearsal())


def _charge(channel: Channel, budget: Budget, tag: str, mechanism: str) -> Spend:
    cost = channel.epsilon(budget.guarantee.neighbours)
    return budget.charge(Spend(tag=tag, mechanism=mechanism, response_epsilon=cost))


def _draw(channel: Channel, labels: Secret[IntArray], words: IntArray) -> IntArray:
    """Draw one label a customer, from one word a customer, whatever the true label is."""
    own = check_cells(labels, len(channel.parts) - 1, field="labels")
    drawn = np.zeros_like(own)
    for ends in np.cumsum(channel.parts, axis=1).T[:-1]:
        drawn += words >= ends[own]  # `NO_DATA` = -1 is the last row
    drawn.setflags(write=False)
    return drawn
