"""A small release with every part, for tests that look at bundles."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from wattveil import Profiles, planning
from wattveil.clustering.tuning import Tuning, choose_tuning
from wattveil.planning import KMeansPlan, SyntheticPlan
from wattveil.profiles import Grid
from wattveil.publish.keys import read_key, write_key
from wattveil.publish.manifest import Manifest
from wattveil.publish.plan import plan_release
from wattveil.publish.produce import release_bundle
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.verify import verify_bundle
from wattveil.release import kmeans
from wattveil.simulate import simulate_load_kw

LEVELS = ("home", "shop")
EVERYTHING = ReleaseRequest(
    epsilon=4.0,
    delta=1e-6,
    n_clusters=3,
    clip_kw=5.0,
    by="class",
    levels=LEVELS,
    label_epsilon=2.0,
    customers=300,
)


@cache
def some_profiles(customers: int = 300) -> Profiles:
    """Return profiles of made-up customers of two classes."""
    return Profiles(
        customer_ids=tuple(f"CUSTOMER-{number:05}" for number in range(customers)),
        load_kw=np.array(simulate_load_kw(customers=customers)),
        grid=Grid(),
        timezone="Europe/London",
        attributes={"class": tuple(LEVELS[number % 3 == 0] for number in range(customers))},
        rules={"least_days": 14, "readings": {"unit": "kWh", "meters": "secret/meters.csv"}},
        account={"customers_dropped": {"a gap": 77}},
    )


def walk_few_steps(patch: pytest.MonkeyPatch) -> None:
    """Let K-means go through the customers a few times only: on Spark each time is a job."""

    def fewest(signal: float, *, n_slots: int, n_clusters: int) -> Tuning:
        chosen = choose_tuning(signal, n_slots=n_slots, n_clusters=n_clusters)
        return replace(chosen, coarse_steps=1, refine_steps=1)

    patch.setattr(kmeans, "choose_tuning", fewest)


@contextmanager
def no_rehearsal() -> Iterator[None]:
    """Spare the plan its rehearsals: they take seconds, and are tested where they are made."""
    quick = KMeansPlan(
        asks={}, signal=1.0, expected_loss=0.1, expected_error=0.05, clusters_told_apart=3
    )
    like = SyntheticPlan(slot_distance=0.2, correlation_error=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "plan_kmeans", lambda *_, **__: quick)
        patch.setattr(planning, "plan_synthesizer", lambda *_, **__: like)
        yield


def broken(bundle: Path) -> dict[str, str]:
    """Return the checks that fail, and what they saw."""
    return {one.check: one.seen for one in verify_bundle(bundle).findings if not one.holds}


def make_bundle(out: Path, request: ReleaseRequest = EVERYTHING) -> Manifest:
    """Release to a folder, signed with a key beside it."""
    key = out.with_name("utility.key")
    if not key.exists():
        write_key(key)
    with no_rehearsal():
        plan = plan_release(request, Grid())
        profiles, signing = some_profiles(), read_key(key)
        listed = profiles.customer_ids
        return release_bundle(profiles, plan, out, key=signing, customer_list=listed)
