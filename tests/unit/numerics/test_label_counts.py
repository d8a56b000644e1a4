"""Counts behind randomised labels, and counts that fit together."""

import numpy as np
import pytest

from wattveil.numerics.label_channel import debiased_counts, nearest_with_total


def test_expected_counts_give_the_true_ones() -> None:
    """What a channel makes of counts on average is undone exactly."""
    channel = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    true = np.array([500.0, 300.0, 200.0])
    for prior in (np.ones(3) / 3.0, np.array([1.0, 0.0, 0.0])):
        counts, _ = debiased_counts(true @ channel, channel, prior=prior)
        assert counts == pytest.approx(true)


def test_standard_error_by_hand() -> None:
    """Two labels kept with chance 0.8: n^ = (y - 0.2 P) / 0.6, variance P 0.16 / 0.36."""
    channel = np.array([[0.8, 0.2], [0.2, 0.8]])
    counts, std = debiased_counts(np.array([60.0, 40.0]), channel, prior=np.ones(2) / 2.0)
    assert counts == pytest.approx([(60.0 - 20.0) / 0.6, (40.0 - 20.0) / 0.6])
    assert std == pytest.approx([np.sqrt(100.0 * 0.16 / 0.36)] * 2)


def test_labels_as_they_are_have_no_error() -> None:
    """The channel that changes nothing."""
    counts, std = debiased_counts(np.array([6.0, 4.0]), np.eye(2), prior=np.ones(2) / 2.0)
    assert counts == pytest.approx([6.0, 4.0])
    assert std == pytest.approx([0.0, 0.0])


def test_what_cannot_be_seen_comes_from_the_prior() -> None:
    """Two of three true labels have the same law: their sum is known, not their ratio."""
    channel = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.2, 0.8, 0.0]])
    true = np.array([500.0, 300.0, 200.0])
    counts, std = debiased_counts(true @ channel, channel, prior=np.array([0.2, 0.2, 0.6]))
    assert counts[0] == pytest.approx(500.0)
    assert counts[1:].sum() == pytest.approx(500.0)
    assert counts[2] - counts[1] == pytest.approx(400.0)  # of 1000 customers, as the prior has it
    assert np.isfinite(std).tolist() == [True, False, False]


def test_no_customers() -> None:
    """No customers: no counts, no error."""
    counts, std = debiased_counts(np.zeros(2), np.array([[0.8, 0.2], [0.2, 0.8]]), prior=np.ones(2))
    assert counts.tolist() == std.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "total", "expected"),
    [
        ([3.0, 1.0], 4.0, [3.0, 1.0]),
        ([3.0, 1.0], 2.0, [2.0, 0.0]),
        ([3.0, 1.0], 6.0, [4.0, 2.0]),
        ([5.0, -3.0, 1.0], 4.0, [4.0, 0.0, 0.0]),
        ([5.0, -3.0, 2.0], 6.0, [4.5, 0.0, 1.5]),
        ([-1.0, -2.0], 0.0, [0.0, 0.0]),
        ([7.0], 3.0, [3.0]),
    ],
)
def test_nearest_by_hand(values: list[float], total: float, expected: list[float]) -> None:
    """The excess is taken from all alike until some are at 0, then from the rest."""
    found = nearest_with_total(np.array(values), np.array(total))
    assert found == pytest.approx(expected)


def test_nearest_by_independent_computation() -> None:
    """What is subtracted from all before cutting at 0 is where the sum is the total: bisection."""
    generator = np.random.default_rng(0)
    values, totals = generator.normal(1.0, 3.0, (40, 5)), generator.uniform(0.5, 9.0, 40)
    found = nearest_with_total(values, totals)
    for row, total, mine in zip(values, totals, found, strict=True):
        low, high = -20.0, 20.0
        for _ in range(80):
            midpoint = (low + high) / 2.0
            is_less = np.maximum(row - midpoint, 0.0).sum() < total
            low, high = (low, midpoint) if is_less else (midpoint, high)
        assert mine == pytest.approx(np.maximum(row - low, 0.0), abs=1e-9)
