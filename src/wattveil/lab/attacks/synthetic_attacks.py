"""Attacks on synthetic customers and released labels: copies, membership, outliers, labels.

PRIVATE: every figure reads real customers. Each is an empirical lower bound on leakage, never a
guarantee. A release under attack is any function from customers to synthetic customers. It gets one
half of the customers, the members; the other half is a hold-out of the same size.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
from scipy import stats
from sklearn.neighbors import NearestNeighbors

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError, wrong_width
from wattveil.lab.evaluation.customer_samples import of_profiles
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.numerics.measures.verdicts import Interval, auc_interval, share_interval
from wattveil.profiles import Profiles
from wattveil.release.synthetic import LoadSynthesizer

SyntheticRelease = Callable[[Floats], Floats]

RECONSTRUCTED = 0.3
"""An outlier is reconstructed if a synthetic customer is closer than this share of its norm."""
_MIN_CUSTOMERS = 2
_MIN_SPLIT = 40
_OUTLIERS = 20
_PLAUSIBLE_KW = (0.04, 400.0)
"""Wide enough for planted outliers; chosen without inspecting the customers."""
_LOW_PERCENTILE = 5.0


# --- exact copies -----------------------------------------------------------------------------


def copied_share(real: Floats, synthetic: Floats) -> float:
    """Return the share of synthetic values that equal a real reading of their slot.

    Zeros are excluded: models and meters of customers without export both end at 0.
    """
    _check_columns(real, synthetic)
    copies = [
        np.isin(made, measured) & (made != 0.0)
        for measured, made in zip(real.T, synthetic.T, strict=True)
    ]
    return float(np.mean(copies))


def shared_maxima(real: Floats, synthetic: Floats) -> float:
    """Return the share of slots in which both have the same maximum."""
    _check_columns(real, synthetic)
    return float((real.max(axis=0) == synthetic.max(axis=0)).mean())


# --- closest records --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClosestRecords:
    """Distance to the closest record: members against a hold-out of equal size."""

    member_share: float
    """Share of synthetic customers whose closest real customer is a member: 1/2 without
    memorisation,
    1 for copies. Ties count half."""
    low_ratio: float
    """5 % quantile of the distance of members to the closest synthetic customer over that of the
    hold-out: 1 without memorisation, 0 for copies."""


def closest_distances(rows: Floats, others: Floats) -> Floats:
    """Return the distance of each row to the closest of the others, min_j |x - y_j|."""
    _check_columns(rows, others)
    found, _ = NearestNeighbors(n_neighbors=1).fit(others).kneighbors(rows)
    distances: Floats = found[:, 0]
    return distances


def closest_records(members: Floats, holdout: Floats, synthetic: Floats) -> ClosestRecords:
    """Compare members with a hold-out of the same number, drawn from the same population."""
    if len(members) != len(holdout) or len(members) < _MIN_CUSTOMERS:
        raise InvalidParameterError(
            "holdout", f"of {len(members)} customers, as the members", len(holdout)
        )
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
    """Accuracy of a membership score."""

    auc_interval: Interval
    """95 %, after DeLong."""
    auc: float
    """P[member scores higher than a non-member], ties half: 1/2 for an uninformative score."""
    tpr_at_1_percent: float
    """True-positive rate at 1 % false-positive rate."""
    tpr_at_01_percent: float
    """True-positive rate at 0.1 % false-positive rate."""


def membership_inference(member_scores: Floats, other_scores: Floats) -> MembershipInference:
    """Evaluate a score that is high for members: AUC = P[member > other] + P[equal] / 2."""
    if min(member_scores.size, other_scores.size) < _MIN_CUSTOMERS:
        raise InvalidParameterError("scores", "of at least two members and two others", "fewer")
    ranks = stats.rankdata(np.concatenate((member_scores, other_scores)))
    n, m = member_scores.size, other_scores.size
    auc = (float(ranks[:n].sum()) - n * (n + 1) / 2.0) / (n * m)

    def found(false_positives: float) -> float:
        # The lowest threshold that at most this share of the others exceeds.
        allowed = math.floor(false_positives * m)
        threshold = np.sort(other_scores)[::-1][allowed]
        return float((member_scores > threshold).mean())

    return MembershipInference(
        auc=auc,
        auc_interval=auc_interval(member_scores, other_scores),
        tpr_at_1_percent=found(0.01),
        tpr_at_01_percent=found(1e-3),
    )


def membership_by_distance(
    members: Floats, others: Floats, synthetic: Floats
) -> MembershipInference:
    """Membership inference with the score -min_j |x - s_j|: members lie close to synthetic rows."""
    scores = [-closest_distances(side, synthetic) for side in (members, others)]
    return membership_inference(*scores)


# --- planted outliers -------------------------------------------------------------------------


def nearest_ratios(outliers: Floats, synthetic: Floats) -> Floats:
    """Return min_j |o - s_j| / |o| of each planted outlier: 0 for a copy, about 1 for none."""
    ratios: Floats = closest_distances(outliers, synthetic) / np.linalg.norm(outliers, axis=1)
    return ratios


def reconstructed_share(outliers: Floats, synthetic: Floats) -> float:
    """Return the share of planted outliers that are reconstructed: ratio below 0.3."""
    return float((nearest_ratios(outliers, synthetic) < RECONSTRUCTED).mean())


# --- labels -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LabelInference:
    """Accuracy of the best guess of a true label."""

    accuracy: float
    """With the released label."""
    prior_accuracy: float
    """Without the released label: the commonest label is guessed."""
    bound: float
    """Maximum accuracy, averaged over the labels, that the channel permits:
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
        Q_kj, the probability that label k is released as j; the identity for unprotected labels.
    prior : (K,)
        Label frequencies known to the attacker.
    """
    n_labels = checks.columns("channel", channel)
    if channel.shape != (n_labels, n_labels) or prior.shape != (n_labels,):
        raise InvalidParameterError("channel, prior", "K x K and K", (channel.shape, prior.shape))
    if labels.shape != released.shape or labels.ndim != 1 or labels.size == 0:
        raise InvalidParameterError("released", "one per true label", released.shape)
    guess = np.argmax(prior[:, None] * channel, axis=0)
    return LabelInference(
        accuracy=float((guess[released] == labels).mean()),
        prior_accuracy=float((labels == np.argmax(prior)).mean()),
        # sum_j max_k Q_kj / K: the probability of the best guess under a uniform prior.
        bound=float(channel.max(axis=0).sum()) / n_labels,
    )


def _check_columns(rows: Floats, others: Floats) -> None:
    """Reject tables of different widths and empty tables."""
    columns = checks.columns("real", rows)
    if checks.columns("synthetic", others) != columns:
        raise wrong_width("synthetic", columns, others.shape[1])
    if min(len(rows), len(others)) == 0:
        raise InvalidParameterError("real, synthetic", "at least one customer each", "none")


# --- a release of synthetic customers under attack ------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CopyAttack:
    """Attack on one release of synthetic customers: empirical lower bounds on leakage.

    Fields that need a hold-out are None for a release that was made elsewhere.
    """

    copied: float
    """Share of synthetic values that equal a real reading of their slot."""
    maxima: float
    """Share of slots with the same maximum."""
    closest_is_member: float | None = None
    """Share of synthetic customers that are closer to a member than to any hold-out customer."""
    membership_auc: float | None = None
    tpr_at_1_percent: float | None = None
    tpr_at_01_percent: float | None = None
    outliers_found: float | None = None
    """Share of planted outliers that are reconstructed."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % interval of each field that is an estimate; the others count all values of a release.
    Shares of customers: Clopper-Pearson; AUC: DeLong."""

    def to_json(self) -> dict[str, object]:
        """Return the figures as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberSplit:
    """Customers split at random into members and a hold-out, with outliers to plant."""

    members: Floats
    holdout: Floats
    outliers: Floats

    @classmethod
    def of(cls, load_kw: Floats, assignment: RandomAssignment) -> "MemberSplit":
        """Split the customers at random; one is dropped if their number is odd."""
        if len(load_kw) < _MIN_SPLIT:
            raise InvalidParameterError("profiles", f"at least {_MIN_SPLIT} customers", "fewer")
        half = len(load_kw) // 2
        order = assignment.order(len(load_kw))
        return cls(
            members=load_kw[order[:half]],
            holdout=load_kw[order[half : 2 * half]],
            outliers=assignment.planted_outliers(load_kw, _OUTLIERS),
        )


def copy_attack(split: MemberSplit, release: SyntheticRelease) -> CopyAttack:
    """Release the members, alone and with planted outliers, and attack both releases."""
    members, holdout = split.members, split.holdout
    made = release(members)
    membership = membership_by_distance(members, holdout, made)
    closest = closest_records(members, holdout, made)
    with_outliers = release(np.vstack([members, split.outliers]))
    shares = {
        "closest_is_member": (closest.member_share, len(made)),
        "tpr_at_1_percent": (membership.tpr_at_1_percent, len(members)),
        "tpr_at_01_percent": (membership.tpr_at_01_percent, len(members)),
        "outliers_found": (reconstructed_share(split.outliers, with_outliers), len(split.outliers)),
    }
    return CopyAttack(
        copied=copied_share(members, made),
        maxima=shared_maxima(members, made),
        membership_auc=membership.auc,
        **{name: share for name, (share, _) in shares.items()},
        intervals={
            "membership_auc": membership.auc_interval,
            **{
                name: share_interval(round(share * trials), trials)
                for name, (share, trials) in shares.items()
            },
        },
    )


def copy_attack_on_file(real: Profiles, synthetic: Profiles) -> CopyAttack:
    """Search given synthetic customers for copies; every real customer may be a member."""
    both = of_profiles(real, synthetic)
    return CopyAttack(
        copied=copied_share(both.real_kw, both.synthetic_kw),
        maxima=shared_maxima(both.real_kw, both.synthetic_kw),
    )


def demonstrated_releases(
    assignment: RandomAssignment, *, epsilon: float, delta: float, n_clusters: int
) -> Mapping[str, SyntheticRelease]:
    """Return two common unprotected releases and a differentially private one."""

    def names_removed(rows: Floats) -> Floats:
        return rows[assignment.order(len(rows))]

    def slots_shuffled(rows: Floats) -> Floats:
        return np.column_stack([slot[assignment.order(len(rows))] for slot in rows.T])

    def private(rows: Floats) -> Floats:
        synthesizer = LoadSynthesizer(
            n_clusters=n_clusters, epsilon=epsilon, delta=delta, plausible_kw=_PLAUSIBLE_KW
        )
        return synthesizer.fit(rows).sample(len(rows), random_state=1)[0]

    return {
        "names removed": names_removed,
        "readings shuffled in each slot": slots_shuffled,
        f"global tier, ε = {epsilon:g}": private,
    }
