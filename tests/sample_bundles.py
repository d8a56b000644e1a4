"""A small release with every part, for tests that look at bundles."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from wattveil import Profiles
from wattveil.bundle.keys import read_key, write_key
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.kmeans_tuning import Tuning, choose_tuning
from wattveil.products import clusters, labels, synthesis, years
from wattveil.products.clusters import KMeansPlan
from wattveil.products.labels import plan_labels
from wattveil.products.registry import default_weights, products_of
from wattveil.products.request import ReleaseRequest
from wattveil.products.synthesis import SyntheticPlan
from wattveil.products.years import YearPlan
from wattveil.profiles import TimeGrid
from wattveil.simulate import LONDON_MIX, simulate_load_kw

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


def only(*names: str) -> dict[str, float]:
    """Return weights that leave out every product but these, which keep their default weight."""
    return {name: 0.0 for name in default_weights() if name not in names}


def product_names(request: ReleaseRequest) -> list[str]:
    """Return the names of the registered products that a request includes, in order of release."""
    known = products_of(request.tier)
    return [product.name for product in known if product.is_requested(request)]


@cache
def some_profiles(customers: int = 300) -> Profiles:
    """Return profiles of simulated customers of two classes."""
    return Profiles(
        customer_ids=tuple(f"CUSTOMER-{number:05}" for number in range(customers)),
        load_kw=np.array(simulate_load_kw(customers=customers)),
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={"class": tuple(LEVELS[number % 3 == 0] for number in range(customers))},
        rules={"min_days": 14, "readings": {"unit": "kWh", "meters": "secret/meters.csv"}},
        account={"customers_dropped": {"a gap": 77}},
    )


def walk_few_steps(patch: pytest.MonkeyPatch) -> None:
    """Let K-means go through the customers a few times only: on Spark each time is a job."""

    def fewest(signal: float, *, n_slots: int, n_clusters: int) -> Tuning:
        chosen = choose_tuning(signal, n_slots=n_slots, n_clusters=n_clusters)
        return replace(chosen, coarse_steps=1, refine_steps=1)

    patch.setattr(kmeans_tuning, "choose_tuning", fewest)


def simulate_plans_once(patch: pytest.MonkeyPatch) -> None:
    """Let a plan simulate one release of each kind: what it computes is tested with all of them."""
    patch.setattr(labels, "_POPULATIONS", 1)
    for product in (clusters, synthesis):
        patch.setattr(product, "_POPULATIONS", 1)
        patch.setattr(product, "_RUNS", 1)
    patch.setattr(years, "_MIXES", (LONDON_MIX,))
    patch.setattr(years, "_RELEASES", 1)


@contextmanager
def without_plan_simulation() -> Iterator[None]:
    """Replace the simulations of plans, which take seconds and have tests of their own."""
    quick = KMeansPlan(
        queries={},
        signal=1.0,
        expected_loss=0.1,
        loss_range=(0.05, 0.2),
        expected_error=0.05,
        error_range=(0.01, 0.3),
        supported_clusters=3,
        supported_range=(2, 4),
        distinguishable_clusters=3,
    )
    like = SyntheticPlan(slot_distance=0.2, correlation_error=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "plan_kmeans", lambda *_, **__: quick)
        named = plan_labels(n_clusters=3, epsilon=2.0, n_customers=300)
        patch.setattr(labels, "simulated_plans", lambda *_: [named])
        patch.setattr(synthesis, "plan_synthesizer", lambda *_, **__: like)
        year = YearPlan(peak_bias=(-0.1, -0.2, 0.1), energy_bias=(0.0, -0.1, 0.1))
        patch.setattr(years, "plan_years", lambda *_, **__: year)
        yield


def broken(bundle: Path) -> dict[str, str]:
    """Return the checks that fail, and what they saw."""
    return {one.check: one.seen for one in verify_bundle(bundle).findings if not one.holds}


def make_bundle(out: Path, request: ReleaseRequest = EVERYTHING) -> Manifest:
    """Release to a folder, signed with a key beside it."""
    key = out.with_name("utility.key")
    if not key.exists():
        write_key(key)
    with without_plan_simulation():
        plan = plan_release(request, TimeGrid())
        profiles, signing = some_profiles(), read_key(key)
        listed = profiles.customer_ids
        return release_bundle(profiles, plan, out, key=signing, customer_list=listed)
