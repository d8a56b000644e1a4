"""What an attacker gets out of synthetic customers and released labels.

Every figure here reads real customers: private, and in house. Each is a lower bound on what could
be wrong, never the guarantee.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.neighbors import NearestNeighbors

from wattveil import checks
from wattveil.errors import InvalidParameterError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RECONSTRUCTED = 0.3
"""An outlier is found again if a synthetic customer is nearer than this part of its length."""
_FEWEST = 2
_LOW_PERCENTILE = 5.0


# --- exact copies -----------------------------------------------------------------------------


def copied_share(real: Floats, synthetic: Floats) -> float:
    """Return the share of synthetic values that equal a real reading of their slot.

    Zero is left out: a model of customers who never export ends there, as meters do.
    """
    _check_columns(real, synthetic)
    copies = [
        np.isin(made, measured) & (made != 0.0)
        for measured, made in zip(real.T, synthetic.T, strict=True)
    ]
    return float(np.mean(copies))


def shared_maxima(real: Floats, synthetic: Floats) -> float:
    """Return the share of slots in which both have the same largest value."""
    _check_columns(real, synthetic)
    return float((real.max(axis=0) == synthetic.max(axis=0)).mean())


# --- closest records --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClosestRecords:
    """Distances to the closest record, of members against a hold-out of equal size."""

    member_share: float
    """Share of synthetic customers whose closest real one is a member, not a hold-out: 1/2 where
    nobody is remembered, 1 for copies. Ties count half."""
    low_ratio: float
    """5 % quantile of the members' distance to the closest synthetic customer, over that of the
    hold-out: 1 where nobody is remembered, 0 for copies."""


def closest_distances(rows: Floats, others: Floats) -> Floats:
    """Return the distance of each row to the closest of the others, min_j |x - y_j|."""
    _check_columns(rows, others)
    found, _ = NearestNeighbors(n_neighbors=1).fit(others).kneighbors(rows)
    distances: Floats = found[:, 0]
    return distances


def closest_records(members: Floats, holdout: Floats, synthetic: Floats) -> ClosestRecords:
    """Compare members with a hold-out of the same number, drawn from the same population."""
    if len(members) != len(holdout) or len(members) < _FEWEST:
        raise InvalidParameterError("holdout", f"{len(members)} customers, as members", "others")
    to_members = closest_distances(synthetic, members)
    to_holdout = closest_distances(synthetic, holdout)
    low = [
        float(np.percentile(closest_distances(side, synthetic), _LOW_PERCENTILE))
        for side in (members, holdout)
    ]
    closer, tied = (to_members < to_holdout).mean(), (to_members == to_holdout).mean()
    ratio = low[0] / low[1] if low[1] > 0.0 else math.inf
    return ClosestRecords(member_share=float(closer + tied / 2.0), low_ratio=ratio)


# --- membership -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MembershipInference:
    """How well a score tells members from others."""

    auc: float
    """Chance that a member scores higher than a non-member, ties half: 1/2 for nothing."""
    tpr_at_1_percent: float
    """Share of members found where 1 in 100 others is taken for one."""
    tpr_at_01_percent: float
    """The same where 1 in 1,000 is."""


def membership_inference(member_scores: Floats, other_scores: Floats) -> MembershipInference:
    """Judge any score that is high for members: AUC = P[member > other] + P[equal] / 2."""
    if min(member_scores.size, other_scores.size) < _FEWEST:
        raise InvalidParameterError("scores", "of two members and two others at least", "fewer")
    ranks = stats.rankdata(np.concatenate((member_scores, other_scores)))
    n, m = member_scores.size, other_scores.size
    auc = (float(ranks[:n].sum()) - n * (n + 1) / 2.0) / (n * m)

    def found(false_positives: float) -> float:
        # The lowest threshold that so few others pass: beyond it stands an allowed number of them.
        allowed = math.floor(false_positives * m)
        threshold = np.sort(other_scores)[::-1][allowed]
        return float((member_scores > threshold).mean())

    return MembershipInference(auc=auc, tpr_at_1_percent=found(0.01), tpr_at_01_percent=found(1e-3))


def membership_by_distance(
    members: Floats, others: Floats, synthetic: Floats
) -> MembershipInference:
    """Attack with the score -min_j |x - s_j|: who lies close to a synthetic customer was in."""
    scores = [-closest_distances(side, synthetic) for side in (members, others)]
    return membership_inference(*scores)


# --- planted outliers -------------------------------------------------------------------------


def nearest_ratios(outliers: Floats, synthetic: Floats) -> Floats:
    """Return min_j |o - s_j| / |o| of each planted outlier: 0 for a copy, about 1 for nothing."""
    ratios: Floats = closest_distances(outliers, synthetic) / np.linalg.norm(outliers, axis=1)
    return ratios


def reconstructed_share(outliers: Floats, synthetic: Floats) -> float:
    """Return the share of planted outliers that are found again: ratio below 0.3."""
    return float((nearest_ratios(outliers, synthetic) < RECONSTRUCTED).mean())


# --- labels -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LabelInference:
    """How often the best guess of a true label is right."""

    right: float
    """Knowing the released label."""
    without: float
    """Knowing only which label is the most common."""
    most: float
    """No guess is right more often on average over the labels: the channel's own bound, which is
    e^epsilon / (e^epsilon + K - 1) for K-ary randomised response."""


def label_inference(
    labels: Ints, released: Ints, *, channel: Floats, prior: Floats
) -> LabelInference:
    """Guess argmax_k prior_k Q_kj from the released label j (Bayes).

    Parameters
    ----------
    labels, released : (P,)
        True and released label of each customer.
    channel : (K, K)
        Q_kj, the chance that label k leaves as j; the identity for labels as they are.
    prior : (K,)
        What the attacker knows of how common the labels are.
    """
    n_labels = checks.columns("channel", channel)
    if channel.shape != (n_labels, n_labels) or prior.shape != (n_labels,):
        raise InvalidParameterError("channel, prior", "K x K and K", (channel.shape, prior.shape))
    if labels.shape != released.shape or labels.ndim != 1 or labels.size == 0:
        raise InvalidParameterError("released", "one a true label", released.shape)
    guess = np.argmax(prior[:, None] * channel, axis=0)
    return LabelInference(
        right=float((guess[released] == labels).mean()),
        without=float((labels == np.argmax(prior)).mean()),
        # sum_j max_k Q_kj / K: with equal labels, the chance of the best guess.
        most=float(channel.max(axis=0).sum()) / n_labels,
    )


def _check_columns(rows: Floats, others: Floats) -> None:
    """Refuse tables of different days, and empty ones."""
    columns = checks.columns("real", rows)
    if checks.columns("synthetic", others) != columns:
        raise InvalidParameterError("synthetic", f"of {columns} columns", others.shape[1])
    if min(len(rows), len(others)) == 0:
        raise InvalidParameterError("real, synthetic", "at least one customer each", "none")
