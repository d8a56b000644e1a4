"""Attacks whose answer is known: a release that leaks is caught, one that does not is not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import roc_auc_score, roc_curve

from wattveil.errors import InvalidParameterError
from wattveil.lab.attacks import synthetic_attacks as attacks
from wattveil.lab.seeded_draws import RandomAssignment

RNG = np.random.default_rng(8)
MEMBERS, OTHERS, FRESH = RNG.gamma(2.0, 0.3, (3, 300, 6))


def test_copied_values_are_counted() -> None:
    """By hand: of six values two are readings of their slot, one is another slot's, one is 0."""
    real = np.array([[1.0, 2.0], [0.0, 4.0]])
    made = np.array([[1.0, 4.0], [0.0, 1.0], [3.0, 5.0]])
    assert attacks.copied_share(real, made) == pytest.approx(2 / 6)
    assert attacks.copied_share(MEMBERS, FRESH) == 0.0
    assert attacks.copied_share(MEMBERS, MEMBERS[::-1]) == 1.0


def test_shared_maxima() -> None:
    """Clipping at the largest reading is seen."""
    clipped = np.minimum(10.0 * FRESH, MEMBERS.max(axis=0))
    assert attacks.shared_maxima(MEMBERS, clipped) == 1.0
    assert attacks.shared_maxima(MEMBERS, FRESH) == 0.0


def test_closest_distances_by_independent_computation() -> None:
    """All pairs."""
    direct = np.sqrt(np.square(MEMBERS[:, None] - FRESH[None]).sum(axis=2)).min(axis=1)
    assert attacks.closest_distances(MEMBERS, FRESH) == pytest.approx(direct)


def test_closest_records() -> None:
    """Half and one for fresh customers, one and nought for copies, and near-copies in between."""
    fair = attacks.closest_records(MEMBERS, OTHERS, FRESH)
    assert fair.member_share == pytest.approx(0.5, abs=0.12)
    assert fair.low_ratio == pytest.approx(1.0, abs=0.3)
    copies = attacks.closest_records(MEMBERS, OTHERS, MEMBERS)
    assert copies == attacks.ClosestRecords(member_share=1.0, low_ratio=0.0)
    near = attacks.closest_records(MEMBERS, OTHERS, MEMBERS + 0.05 * RNG.normal(size=MEMBERS.shape))
    assert near.member_share > 0.9
    tied = attacks.closest_records(MEMBERS, MEMBERS, FRESH)
    assert tied == attacks.ClosestRecords(member_share=0.5, low_ratio=1.0)
    assert attacks.closest_records(OTHERS, MEMBERS, MEMBERS).low_ratio == math.inf


@given(
    arrays.arrays(np.float64, 40, elements=st.sampled_from([0.0, 1.0, 2.0, 3.5])),
    arrays.arrays(np.float64, 200, elements=st.sampled_from([0.0, 1.0, 2.0, 3.5])),
)
@settings(max_examples=25, deadline=None)
def test_membership_agrees_with_scikit_learn(
    members: np.ndarray[tuple[int], np.dtype[np.float64]],
    others: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> None:
    """AUC and points of the curve, ties included."""
    found = attacks.membership_inference(members, others)
    truth = np.repeat([1, 0], [members.size, others.size])
    scores = np.concatenate((members, others))
    assert found.auc == pytest.approx(roc_auc_score(truth, scores))
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert found.tpr_at_1_percent == pytest.approx(true[false <= 0.01].max())
    assert found.tpr_at_01_percent == pytest.approx(true[false <= 0.001].max())


def test_membership_by_distance() -> None:
    """Copies reveal every member; fresh customers reveal none beyond chance."""
    caught = attacks.membership_by_distance(MEMBERS, OTHERS, MEMBERS)
    assert (caught.auc, caught.tpr_at_1_percent, caught.tpr_at_01_percent) == (1.0, 1.0, 1.0)
    fair = attacks.membership_by_distance(MEMBERS, OTHERS, FRESH)
    assert fair.auc == pytest.approx(0.5, abs=0.1)
    assert fair.tpr_at_1_percent < 0.1


def test_planted_outliers() -> None:
    """Found where they are copied, even roughly; not where they are not."""
    outliers = RandomAssignment(3).planted_outliers(MEMBERS, 100)
    assert outliers.shape == (100, 6)
    assert outliers.mean() == pytest.approx(20.0 * MEMBERS.mean(), rel=0.15)
    assert attacks.reconstructed_share(outliers, FRESH) == 0.0
    assert attacks.reconstructed_share(outliers, np.vstack([FRESH, outliers])) == 1.0
    assert attacks.nearest_ratios(outliers[:1], 1.1 * outliers[:1]) == pytest.approx([0.1])
    half = attacks.reconstructed_share(outliers, np.vstack([FRESH, 1.1 * outliers[:50]]))
    assert 0.5 <= half < 0.9


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_labels_through_randomised_response(epsilon: float) -> None:
    """The best guess is right as often as e^epsilon / (e^epsilon + K - 1); exact labels always."""
    keep = math.exp(epsilon) / (math.exp(epsilon) + 3)
    channel = np.full((4, 4), (1.0 - keep) / 3)
    np.fill_diagonal(channel, keep)
    labels = np.arange(40_000) % 4
    moved = RNG.random(labels.size) >= keep
    released = (labels + moved * RNG.integers(1, 4, labels.size)) % 4
    even = np.full(4, 0.25)
    found = attacks.label_inference(labels, released, channel=channel, prior=even)
    assert found.bound == pytest.approx(keep)
    assert found.accuracy == pytest.approx(keep, abs=0.015)
    assert found.prior_accuracy == pytest.approx(0.25)
    exact = attacks.label_inference(labels, labels, channel=np.eye(4), prior=even)
    assert (exact.accuracy, exact.bound) == (1.0, 1.0)


def test_a_common_label_is_guessed_whatever_was_released() -> None:
    """Where the channel carries less information than the prior, the prior decides."""
    labels = np.array([0] * 9 + [1])
    channel = np.array([[0.6, 0.4], [0.4, 0.6]])
    found = attacks.label_inference(labels, 1 - labels, channel=channel, prior=np.array([0.9, 0.1]))
    assert found.accuracy == found.prior_accuracy == 0.9


def test_bad_input_is_explained() -> None:
    """Field, rule and value."""
    with pytest.raises(InvalidParameterError, match="synthetic must be an array with 6 columns"):
        attacks.copied_share(MEMBERS, FRESH[:, :5])
    with pytest.raises(InvalidParameterError, match="at least one customer"):
        attacks.shared_maxima(MEMBERS, FRESH[:0])
    with pytest.raises(InvalidParameterError, match="holdout must be of 300 customers"):
        attacks.closest_records(MEMBERS, OTHERS[1:], FRESH)
    with pytest.raises(InvalidParameterError, match="scores"):
        attacks.membership_inference(np.zeros(1), np.zeros(5))
    even = np.full(2, 0.5)
    with pytest.raises(InvalidParameterError, match="channel, prior"):
        attacks.label_inference(np.zeros(1, int), np.zeros(1, int), channel=np.eye(3), prior=even)
    with pytest.raises(InvalidParameterError, match="released"):
        attacks.label_inference(np.zeros(2, int), np.zeros(1, int), channel=np.eye(2), prior=even)
