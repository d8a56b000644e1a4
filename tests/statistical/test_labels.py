"""Released labels have the laws that their guarantees need."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.statistical.harness import (
    MARGIN,
    accepts,
    counts_p,
    draws,
    guarantee,
    label_law,
    refuses,
    table_p,
    tells,
)
from tests.statistical.releases import (
    instance_guarantee,
    label_budget,
    noisy_modulo,
    randomised_response,
)
from wattveil.arrays import Ints
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.contributions import NO_DATA

ZERO_OUT, REPLACE_ONE = Neighbours.ZERO_OUT, Neighbours.REPLACE_ONE


def respond(labels: Ints, n_labels: int, epsilon: float, neighbours: Neighbours) -> Ints:
    """Release one list of labels."""
    claim = guarantee(epsilon=epsilon, delta=0.0, neighbours=neighbours)
    return randomised_response(labels, n_labels, label_budget(claim))


def zero_out_keep(n_labels: int, epsilon: float) -> float:
    """Return min(e^epsilon / K, 1 - (K - 1) e^-epsilon / K)."""
    return min(math.exp(epsilon) / n_labels, 1.0 - (n_labels - 1) * math.exp(-epsilon) / n_labels)


def replace_one_keep(n_labels: int, epsilon: float) -> float:
    """Return e^epsilon / (e^epsilon + K - 1)."""
    return math.exp(epsilon) / (math.exp(epsilon) + n_labels - 1)


@pytest.mark.parametrize(
    ("n_labels", "epsilon"), [(2, 0.5), (3, 1.0), (6, 1.0), (6, 2.0), (20, 1.0)]
)
@pytest.mark.parametrize("neighbours", Neighbours)
def test_randomised_response(n_labels: int, epsilon: float, neighbours: Neighbours) -> None:
    """A label is kept with its stated probability; all others are equally likely."""
    size = draws(1_000_000)
    labels = np.arange(size) % n_labels
    moved = (respond(labels, n_labels, epsilon, neighbours) - labels) % n_labels
    counts = np.bincount(moved, minlength=n_labels)
    right = {ZERO_OUT: zero_out_keep, REPLACE_ONE: replace_one_keep}
    keep = right[neighbours](n_labels, epsilon)
    tells(lambda factor: counts_p(counts, label_law(factor * keep, n_labels)))
    right.pop(neighbours)
    refuses(counts_p(counts, label_law(right.popitem()[1](n_labels, epsilon), n_labels)))
    accepts(table_p(moved[1:], moved[:-1]))


def test_randomised_response_does_not_depend_on_the_label() -> None:
    """Each true label has the same channel: the table of true and moved is that of independence."""
    labels = np.arange(draws(300_000)) % 6
    moved = (respond(labels, 6, 1.0, ZERO_OUT) - labels) % 6
    accepts(table_p(labels, moved))
    one_in_ten = np.arange(labels.size) // 6 % 10 == 0
    refuses(table_p(labels, np.where((labels == 0) & one_in_ten, 0, moved)))


def test_a_customer_without_data_has_a_uniform_label() -> None:
    """`NO_DATA` becomes each label with equal probability, whatever the other customers have."""
    labels = np.where(np.arange(draws(2_000_000)) % 4 == 0, 1, NO_DATA)
    released = respond(labels, 6, 1.0, ZERO_OUT)
    absent = released[labels == NO_DATA]
    counts = np.bincount(absent, minlength=6)
    accepts(counts_p(counts, [1.0 / 6] * 6))
    for label in range(6):
        tilted = np.ones(6)
        tilted[label] += MARGIN
        refuses(counts_p(counts, (tilted / tilted.sum()).tolist()))
    accepts(table_p(absent[1:], absent[:-1]))
    kept = np.bincount((released[labels == 1] - 1) % 6, minlength=6)
    tells(lambda factor: counts_p(kept, label_law(factor * zero_out_keep(6, 1.0), 6)))


@pytest.mark.parametrize(
    ("n_labels", "changed", "epsilon", "delta"),
    [(6, 1, 1.0, 0.0), (2, 3, 2.0, 0.0), (2, 5, 1.0, 0.05), (6, 4, 2.0, 0.05), (4, 3, 1.0, 0.1)],
)
def test_modulo_labels(n_labels: int, changed: int, epsilon: float, delta: float) -> None:
    """Unstable labels move with the minimum probability that keeps the guarantee; stable never.

    The probability is computed independently: by a sum over all multinomial outcomes.
    """
    size = draws(1_000_000)
    budget = label_budget(instance_guarantee(epsilon=epsilon, delta=delta))
    labels = np.arange(size) % n_labels
    unstable = np.arange(0, size, 2)
    released = noisy_modulo(labels, unstable, changed=changed, n_labels=n_labels, budget=budget)
    moved = (released - labels) % n_labels
    assert not moved[1::2].any()
    counts = np.bincount(moved[unstable], minlength=n_labels)
    keep = 1.0 - min_flip(n_labels, changed, epsilon, delta)
    tells(lambda factor: counts_p(counts, label_law(factor * keep, n_labels)))
    accepts(table_p(moved[2::2], moved[:-2:2]))


def min_flip(n_labels: int, changed: int, epsilon: float, delta: float) -> float:
    """Return the least flip probability whose exact delta is at most ``delta``: 60 bisections."""
    low, high = 0.0, (n_labels - 1) / n_labels
    for _ in range(60):
        flip = (low + high) / 2.0
        enough = exact_delta(n_labels, changed, epsilon, flip) <= delta + 1e-15
        low, high = (low, flip) if enough else (flip, high)
    return high


def exact_delta(n_labels: int, changed: int, epsilon: float, flip: float) -> float:
    """Return E[(1 - e^(epsilon - loss))_+] over (kept, moved to the other's label, the rest)."""
    other = flip / (n_labels - 1)
    law = [1.0 - flip, other, max(flip - other, 0.0)]
    unit = math.log((1.0 - flip) / other)
    total = 0.0
    for kept in range(changed + 1):
        for crossed in range(changed + 1 - kept):
            chance = stats.multinomial.pmf([kept, crossed, changed - kept - crossed], changed, law)
            loss = (kept - crossed) * unit
            total += float(chance) * max(-math.expm1(epsilon - loss), 0.0)
    return total
