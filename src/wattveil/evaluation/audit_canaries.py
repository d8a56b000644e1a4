"""Releases with many canaries, each in by the toss of a coin: one run of each is one audit.

Where a release speaks of every group or every customer, each canary has a group, or a label, of its
own, and the observer reads off it. Of synthetic customers he asks whom they lie close to.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattveil.evaluation.canaries import Lots, giant
from wattveil.evaluation.privacy_attacks import closest_distances
from wattveil.privacy.guarantee import Guarantee
from wattveil.publish.request import ReleaseRequest
from wattveil.release.labels import release_labels
from wattveil.release.shapes import load_shapes
from wattveil.release.shares import cluster_shares
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.simulate import simulate_load_kw

Floats = NDArray[np.float64]

_SLOTS = 24
_SYNTHETIC = 2_000


class Coins(NamedTuple):
    """One release: which canaries were in, what it says of each, what was claimed."""

    included: NDArray[np.bool_]
    observed: Floats
    claim: Guarantee


def shares_by_group(request: ReleaseRequest, canaries: int, lots: Lots) -> Coins:
    """Release cluster shares of groups of one canary or none."""
    included, names = _tossed(canaries, lots)
    centroids = np.array([[0.0] * _SLOTS, giant(_SLOTS).tolist()])
    released = cluster_shares(
        np.tile(giant(_SLOTS), (int(included.sum()), 1)),
        centroids=centroids,
        groups={"canary": names[included].tolist()},
        levels={"canary": names.tolist()},
        epsilon=request.epsilon,
        delta=request.delta,
    )
    return Coins(included, released.counts, released.guarantee)


def load_by_group(request: ReleaseRequest, canaries: int, lots: Lots) -> Coins:
    """Release the load of groups of one canary or none."""
    included, names = _tossed(canaries, lots)
    released = load_shapes(
        np.tile(giant(_SLOTS), (int(included.sum()), 1)),
        groups=names[included].tolist(),
        levels=names.tolist(),
        epsilon=request.epsilon,
        delta=request.delta,
        clip_kw=request.clip_kw,
        plausible_kw=request.plausible_kw,
    )
    mean_kw, customers = released.mean_kw.mean(axis=1), released.customers
    observed = np.column_stack([mean_kw, customers, mean_kw * customers])
    return Coins(included, observed, released.guarantee)


def labels(request: ReleaseRequest, canaries: int, lots: Lots) -> Coins:
    """Release a label of every canary."""
    included, names = _tossed(canaries, lots)
    rows = np.where(included[:, None], giant(_SLOTS), np.nan)
    centroids = np.linspace(1.0, 0.0, request.n_clusters)[:, None] * giant(_SLOTS)
    released = release_labels(
        rows,
        centroids=centroids,
        sizes=np.ones(request.n_clusters),
        epsilon=request.label_epsilon or request.epsilon,
        customer_ids=names.tolist(),
        real_ids=True,
    )
    return Coins(included, np.eye(request.n_clusters)[released.labels], released.guarantee)


def synthetic_customers(request: ReleaseRequest, canaries: int, lots: Lots) -> Coins:
    """Synthesise from ordinary homes; the observer looks how close synthetic customers come."""
    included, _ = _tossed(canaries, lots)
    homes = simulate_load_kw(customers=canaries)
    fitted = LoadSynthesizer(
        n_clusters=request.n_clusters,
        epsilon=request.epsilon,
        delta=request.delta,
        clip_kw=request.clip_kw,
        plausible_kw=request.plausible_kw,
    ).fit(homes[included])
    made, _ = fitted.sample(_SYNTHETIC, seed=1)
    return Coins(included, closest_distances(homes, made)[:, None], fitted.guarantee_)


ONE_RUN: Mapping[str, Callable[[ReleaseRequest, int, Lots], Coins]] = MappingProxyType(
    {
        "shares": shares_by_group,
        "load": load_by_group,
        "labels": labels,
        "synthesis": synthetic_customers,
    }
)


def _tossed(canaries: int, lots: Lots) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
    """Toss the coins; return them with names in the order of which the canaries stay."""
    return lots.coins(canaries), np.array([f"{number:09}" for number in range(canaries)])
