"""Canary customers, and releases with many canaries for one-run audits.

Each canary is included by a fair coin. Where a release has figures per group or per customer, each
canary has a group, or a label, of its own, which the observer reads. Of synthetic customers the
observer measures the distance to the closest one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.lab.attacks.synthetic_attacks import closest_distances
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.privacy.guarantee import Guarantee
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles
from wattveil.release.cluster_shares import cluster_shares
from wattveil.release.group_load import load_shapes
from wattveil.release.randomised_labels import release_labels
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.simulate import simulate_load_kw

_CANARY_KW = 1e6


def canary_load_kw(columns: int) -> Floats:
    """Return the worst case for a clipped sum: a load that is clipped to the bound in every query.

    No two of its readings are equal, so that a copy of one of them is recognised.
    """
    return _CANARY_KW + np.pi * np.arange(1.0, columns + 1.0)


def numbered_customers(profiles: Profiles) -> Profiles:
    """Return profiles with numbers in place of ids.

    Observers read labels by id, and a release refuses to publish some ids. Audits publish nothing,
    and need no id of a customer.
    """
    return replace(profiles, customer_ids=tuple(str(number) for number in range(len(profiles))))


_SLOTS = 24
_SYNTHETIC = 2_000


class CanaryRelease(NamedTuple):
    """One release: included canaries, observed numbers of each, and the claim."""

    included: NDArray[np.bool_]
    observed: Floats
    claim: Guarantee


def shares_by_group(
    request: ReleaseRequest, canaries: int, assignment: RandomAssignment
) -> CanaryRelease:
    """Release cluster shares of groups of one canary or none."""
    included, names = _included(canaries, assignment)
    centroids = np.array([[0.0] * _SLOTS, canary_load_kw(_SLOTS).tolist()])
    released = cluster_shares(
        np.tile(canary_load_kw(_SLOTS), (int(included.sum()), 1)),
        centroids=centroids,
        groups={"canary": names[included].tolist()},
        levels={"canary": names.tolist()},
        epsilon=request.epsilon,
        delta=request.delta,
    )
    return CanaryRelease(included, released.counts, released.guarantee)


def load_by_group(
    request: ReleaseRequest, canaries: int, assignment: RandomAssignment
) -> CanaryRelease:
    """Release the load of groups of one canary or none."""
    included, names = _included(canaries, assignment)
    released = load_shapes(
        np.tile(canary_load_kw(_SLOTS), (int(included.sum()), 1)),
        groups=names[included].tolist(),
        levels=names.tolist(),
        epsilon=request.epsilon,
        delta=request.delta,
        clip_kw=request.clip_kw,
        plausible_kw=request.plausible_kw,
    )
    mean_kw, customers = released.mean_kw.mean(axis=1), released.customers
    observed = np.column_stack([mean_kw, customers, mean_kw * customers])
    return CanaryRelease(included, observed, released.guarantee)


def labels(request: ReleaseRequest, canaries: int, assignment: RandomAssignment) -> CanaryRelease:
    """Release one label per canary."""
    included, names = _included(canaries, assignment)
    rows = np.where(included[:, None], canary_load_kw(_SLOTS), np.nan)
    centroids = np.linspace(1.0, 0.0, request.n_clusters)[:, None] * canary_load_kw(_SLOTS)
    released = release_labels(
        rows,
        centroids=centroids,
        sizes=np.ones(request.n_clusters),
        epsilon=request.label_epsilon or request.epsilon,
        customer_ids=names.tolist(),
        real_ids=True,
    )
    return CanaryRelease(included, np.eye(request.n_clusters)[released.labels], released.guarantee)


def synthetic_customers(
    request: ReleaseRequest, canaries: int, assignment: RandomAssignment
) -> CanaryRelease:
    """Synthesise from ordinary homes; observe the distance to the closest synthetic customer."""
    included, _ = _included(canaries, assignment)
    homes = simulate_load_kw(customers=canaries)
    fitted = LoadSynthesizer(
        n_clusters=request.n_clusters,
        epsilon=request.epsilon,
        delta=request.delta,
        clip_kw=request.clip_kw,
        plausible_kw=request.plausible_kw,
    ).fit(homes[included])
    made, _ = fitted.sample(_SYNTHETIC, random_state=1)
    return CanaryRelease(included, closest_distances(homes, made)[:, None], fitted.guarantee_)


ONE_RUN: Mapping[str, Callable[[ReleaseRequest, int, RandomAssignment], CanaryRelease]] = (
    MappingProxyType(
        {
            "shares": shares_by_group,
            "load": load_by_group,
            "labels": labels,
            "synthesis": synthetic_customers,
        }
    )
)


def _included(
    canaries: int, assignment: RandomAssignment
) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
    """Return fair coins, and names whose order is that of the canaries."""
    return assignment.fair_coins(canaries), np.array([f"{number:09}" for number in range(canaries)])
