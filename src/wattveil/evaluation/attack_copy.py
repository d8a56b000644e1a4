"""Who can be found in a set of synthetic customers: copies, members, planted outliers.

A release is any function from customers to synthetic ones. It is given one half of the customers;
the other half, of the same number, is what nobody could have remembered.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil.errors import InvalidParameterError
from wattveil.evaluation import privacy_attacks
from wattveil.evaluation.canaries import Lots
from wattveil.evaluation.populations import of_profiles
from wattveil.profiles import Profiles
from wattveil.release.synthetic import LoadSynthesizer

Floats = NDArray[np.float64]
Release = Callable[[Floats], Floats]

_OUTLIERS = 20
_PLAUSIBLE_KW = (0.04, 400.0)
"""Wide enough for planted outliers; chosen without looking at the customers."""
_FEWEST = 40


@dataclass(frozen=True, kw_only=True)
class CopyAttack:
    """What was found in one release: lower bounds on what can be wrong with it."""

    copied: float
    """Share of synthetic values that are a real reading of their slot."""
    maxima: float
    """Share of slots whose largest synthetic value is the largest reading."""
    closest_is_member: float | None = None
    """Share of synthetic customers who lie closer to a member than to any of the others; 1/2 is
    nothing. None, as what follows, of a release that was not made here."""
    membership_auc: float | None = None
    tpr_at_1_percent: float | None = None
    tpr_at_01_percent: float | None = None
    outliers_found: float | None = None
    """Share of planted outliers that are found again."""

    def to_json(self) -> dict[str, object]:
        """Return the figures as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Halves:
    """Customers in two halves, and outliers to plant among the first."""

    members: Floats
    others: Floats
    outliers: Floats

    @classmethod
    def of(cls, load_kw: Floats, lots: Lots) -> "Halves":
        """Split the customers at random; one is left out if their number is odd."""
        if len(load_kw) < _FEWEST:
            raise InvalidParameterError("profiles", f"{_FEWEST} customers or more", "fewer")
        half = len(load_kw) // 2
        order = lots.order(len(load_kw))
        return cls(
            members=load_kw[order[:half]],
            others=load_kw[order[half : 2 * half]],
            outliers=lots.planted_outliers(load_kw, _OUTLIERS),
        )


def copy_attack(halves: Halves, release: Release) -> CopyAttack:
    """Release the members, alone and with the outliers, and look for each of them."""
    made = release(halves.members)
    members, others = halves.members, halves.others
    membership = privacy_attacks.membership_by_distance(members, others, made)
    closest = privacy_attacks.closest_records(members, others, made)
    with_outliers = release(np.vstack([members, halves.outliers]))
    return CopyAttack(
        copied=privacy_attacks.copied_share(members, made),
        maxima=privacy_attacks.shared_maxima(members, made),
        closest_is_member=closest.member_share,
        membership_auc=membership.auc,
        tpr_at_1_percent=membership.tpr_at_1_percent,
        tpr_at_01_percent=membership.tpr_at_01_percent,
        outliers_found=privacy_attacks.reconstructed_share(halves.outliers, with_outliers),
    )


def given_release(real: Profiles, synthetic: Profiles) -> CopyAttack:
    """Look for copies in synthetic customers whoever made them; all real ones may be members."""
    both = of_profiles(real, synthetic)
    return CopyAttack(
        copied=privacy_attacks.copied_share(both.real_kw, both.synthetic_kw),
        maxima=privacy_attacks.shared_maxima(both.real_kw, both.synthetic_kw),
    )


def demonstrated_releases(
    lots: Lots, *, epsilon: float, delta: float, n_clusters: int
) -> Mapping[str, Release]:
    """Return two releases as they are often made, and one that is differentially private."""

    def without_names(rows: Floats) -> Floats:
        return rows[lots.order(len(rows))]

    def slots_shuffled(rows: Floats) -> Floats:
        return np.column_stack([slot[lots.order(len(rows))] for slot in rows.T])

    def private(rows: Floats) -> Floats:
        synthesizer = LoadSynthesizer(
            n_clusters=n_clusters, epsilon=epsilon, delta=delta, plausible_kw=_PLAUSIBLE_KW
        )
        return synthesizer.fit(rows).sample(len(rows), seed=1)[0]

    return {
        "names removed": without_names,
        "readings shuffled in each slot": slots_shuffled,
        f"global tier, ε = {epsilon:g}": private,
    }
