"""The paper's mechanism and white noise in its place, through the interface of the baselines.

The noise is that of `LeaveOneOutKMeans`: it has no seed, and the generator is not used. The starts
of K-means are those of the exact answer that losses are measured against.

Epsilon and delta buy the centroids, as in the paper; labels are released beside them for as much
epsilon again and no delta.
"""

import dataclasses
import warnings
from typing import Literal

from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.loss import EXACT_SEED, EXACT_STARTS
from wattveil.baselines.outcome import Outcome, PublicChoices, checked, promise
from wattveil.errors import WeakGuaranteeWarning
from wattveil.instance.kmeans import LeaveOneOutKMeans
from wattveil.privacy.guarantee import Tier

_DOUBTS = (
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
) -> Outcome:
    """Return what coloured leave-one-out noise of exact calibration leaves."""
    return _fit(load_kw, epsilon, delta, public)


def fit_white(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,  # noqa: ARG001 - the interface of all
) -> Outcome:
    """Return what white leave-one-out noise of exact calibration leaves."""
    return _fit(load_kw, epsilon, delta, public, noise="white")


def fit_paper(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,  # noqa: ARG001 - the interface of all
) -> Outcome:
    """Return what the paper's calibration leaves; it claims differential privacy."""
    found = _fit(load_kw, epsilon, delta, public, calibration="paper")
    doubt = "its formula for the scale is proved for small epsilon only"
    return dataclasses.replace(
        found, claimed=promise(epsilon, delta), doubts=(*found.doubts, doubt)
    )


def _fit(
    load_kw: ArrayLike,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    *,
    noise: Literal["coloured", "white"] = "coloured",
    calibration: Literal["exact", "paper"] = "exact",
) -> Outcome:
    rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
    model = LeaveOneOutKMeans(
        n_clusters=public.n_clusters,
        epsilon_c=epsilon,
        delta_c=delta,
        epsilon_l=epsilon,
        delta_l=0.0,
        noise=noise,
        calibration=calibration,
        n_init=EXACT_STARTS,
        random_state=EXACT_SEED,
    )
    with warnings.catch_warnings():  # what it warns of is in the outcome
        warnings.simplefilter("ignore", WeakGuaranteeWarning)
        model.fit(rows)
    both = model.guarantee_
    return Outcome(
        centroids_kw=model.cluster_centers_,
        labels=model.labels_,
        claimed=dataclasses.replace(promise(epsilon, delta), tier=Tier.INSTANCE),
        true=dataclasses.replace(both, epsilon=both.epsilon - epsilon),  # without the labels
        true_with_labels=both,
        doubts=_DOUBTS,
    )
