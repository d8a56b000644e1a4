"""Wattveil's own mechanisms through the interface of the baselines: global and instance tier.

Their noise has no seed and the generator is not used. Epsilon and delta are those of the centroids;
labels are released with the same epsilon in addition. For the instance tier, the
initialisations of K-means are those of the exact answer that losses are compared with.
"""

import dataclasses
import warnings
from typing import Literal

from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.errors import WeakGuaranteeWarning
from wattveil.lab.baselines.baseline_interface import (
    EXACT_INITS,
    EXACT_SEED,
    BaselineResult,
    PublicChoices,
    checked,
    claimed_guarantee,
)
from wattveil.privacy.guarantee import Tier
from wattveil.release.instance import LeaveOneOutKMeans
from wattveil.release.kmeans import PrivateKMeans


class GlobalTier:
    """Wattveil's own release under differential privacy, through the interface of the baselines.

    The noise is that of `PrivateKMeans`: it has no seed, and the generator is not used; nor are the
    bounds, since it estimates its own. Epsilon and delta are those of the centroids; labels are
    released with the same epsilon in addition.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,  # noqa: ARG004 - the interface of all
    ) -> BaselineResult:
        """Return released centroids and labels."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        model = PrivateKMeans(n_clusters=public.n_clusters, epsilon=epsilon, delta=delta).fit(rows)
        digits = len(str(len(rows)))
        labels = model.release_labels(
            rows,
            epsilon=epsilon,
            customer_ids=[f"{row:0{digits}}" for row in range(len(rows))],
            real_ids=True,  # these sort as the rows do
        )
        return BaselineResult(
            centroids_kw=model.cluster_centers_,
            labels=labels.labels,
            claimed=model.guarantee_,
            true=model.guarantee_,
            true_with_labels=model.guarantee_with(labels),
            known_violations=(),
        )


_INSTANCE_VIOLATIONS = (
    "the scale of the noise is computed from the data: not differential privacy",
    "labels that no removal changes are published as they are",
)


def fit_coloured(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,  # noqa: ARG001 - the interface of all
) -> BaselineResult:
    """Return centroids and labels with coloured leave-one-out noise, calibrated exactly."""
    return _fit_instance(load_kw, epsilon, delta, public)


def fit_white(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,  # noqa: ARG001 - the interface of all
) -> BaselineResult:
    """Return centroids and labels with white leave-one-out noise, calibrated exactly."""
    return _fit_instance(load_kw, epsilon, delta, public, noise="white")


def fit_paper(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,  # noqa: ARG001 - the interface of all
) -> BaselineResult:
    """Return centroids and labels with the paper's calibration, which is claimed to be DP."""
    found = _fit_instance(load_kw, epsilon, delta, public, calibration="paper")
    violation = "its formula for the scale is proved for small epsilon only"
    return dataclasses.replace(
        found,
        claimed=claimed_guarantee(epsilon, delta),
        known_violations=(*found.known_violations, violation),
    )


def _fit_instance(
    load_kw: ArrayLike,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    *,
    noise: Literal["coloured", "white"] = "coloured",
    calibration: Literal["exact", "paper"] = "exact",
) -> BaselineResult:
    rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
    model = LeaveOneOutKMeans(
        n_clusters=public.n_clusters,
        epsilon_c=epsilon,
        delta_c=delta,
        epsilon_l=epsilon,
        delta_l=0.0,
        noise=noise,
        calibration=calibration,
        n_init=EXACT_INITS,
        random_state=EXACT_SEED,
    )
    with warnings.catch_warnings():  # what it warns of is in the outcome
        warnings.simplefilter("ignore", WeakGuaranteeWarning)
        model.fit(rows)
    both = model.guarantee_
    return BaselineResult(
        centroids_kw=model.cluster_centers_,
        labels=model.labels_,
        claimed=dataclasses.replace(claimed_guarantee(epsilon, delta), tier=Tier.INSTANCE),
        true=dataclasses.replace(both, epsilon=both.epsilon - epsilon),  # without the labels
        true_with_labels=both,
        known_violations=_INSTANCE_VIOLATIONS,
    )
