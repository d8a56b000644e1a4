"""What an analyst sees of two neighbouring data sets besides the release: time, size, order.

    PYTHONPATH=. OMP_NUM_THREADS=1 python benchmarks/bench_timing.py --runs 200

Two servers hold data sets that differ in one customer, the one whose absence should be easiest to
see: her load is the clipping bound in every interval. The same orders go to both, in random turn.
For each quantity the script prints how well it tells the worlds apart: the area under the ROC curve
(0.5: not at all) with its 95 % interval by bootstrap, for a single release.

* ``cpu``: CPU time of the computation. Analysts do not see it: a release is stored at a tick.
* ``ticks``: number of ticks of 5 s after which the release is stored, from the same CPU time. This
  is what they see, on a machine that has a core for the computation.
* ``zip``, ``manifest``: sizes of the files. They depend on the released values alone, and are
  therefore covered by the guarantee of the release; with them the interval must contain 0.5 up to
  what epsilon permits.
* ``order``: whether names and rows of all tables are the same in both worlds, and whether the list
  of releases is in the order of the orders.
"""

import argparse
import json
import math
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.live_server import put_profiles, registration
from tests.sample_bundles import some_profiles, without_plan_simulation
from wattveil import Profiles
from wattveil.bundle.bundle_files import MANIFEST, read_manifest, read_table
from wattveil.server import datasets
from wattveil.server.auth.principals import Principal, create_principal, principal_of_token
from wattveil.server.bundle_archives import tables
from wattveil.server.dataset_choices import DatasetBody
from wattveil.server.datasets import find_dataset
from wattveil.server.http.requests import ReleaseBody
from wattveil.server.jobs import compute_child, worker
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.amounts import Allowance
from wattveil.server.ledger.fulfilment import archive_of
from wattveil.server.ordered_releases import visible_releases
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import TICK_SECONDS, ServerState

CUSTOMERS = 300
CLIP_KW = 5.0
ABSENT = 7
EPSILON = 0.05
RESAMPLES = 2000
WARM_UP = 5
"""Runs that load modules, and are not counted."""
WORLDS = ("with", "without")


class TimedCompute:
    """Computes in this process, and records the CPU time of each release."""

    seconds: float = 0.0

    def run_task(self, task: dict[str, Any], **_: float) -> dict[str, Any]:
        """Run a task."""
        began = time.process_time()
        result = compute_child.run_task(task)
        if task["do"] == "release":
            TimedCompute.seconds = time.process_time() - began
        return result

    def stop(self) -> None:
        """Nothing runs."""


class World:
    """A server with one of the two data sets."""

    def __init__(self, folder: Path, profiles: Profiles, stack: ExitStack) -> None:
        put_profiles(folder, "homes.parquet", profiles)
        self.state = stack.enter_context(ServerState.open(folder, tick_seconds=1e-4))
        ledger = self.state.ledger
        allowance = {"epsilon": 50.0, "delta": 1e-6}
        choices = registration("homes.parquet", products=["load"], allowance=allowance)
        choices = {**choices, "customer_list_file": None, "clip_kw": CLIP_KW}
        datasets.register(
            ledger,
            folder,
            DatasetBody.model_validate(choices),
            by="owner",
            describe_profiles=self.state.describe_profiles,
        )
        token = create_principal(ledger, "ann", PrincipalKind.ANALYST, by="owner")
        budget = Allowance(epsilon=50.0, delta=1e-6)
        ledger.set_budget("homes", budget, by="owner", reason="r", principal="ann")
        with ledger.reading() as connection:
            ann, homes = principal_of_token(connection, token), find_dataset(connection, "homes")
        assert ann is not None
        assert homes is not None
        self.ann: Principal = ann
        self.homes = homes
        self.service = ReleaseService(self.state)
        self.ordered: list[str] = []

    def run(self, number: int) -> dict[str, Any]:
        """Order a release, wait for it, and return what can be seen."""
        body = ReleaseBody(epsilon=EPSILON + number * 1e-7, products=["load"])
        made = self.service.order(self.ann, self.homes, body, f"key-{number}")
        self.ordered.append(made.id)
        while (stored := self.state.ledger.release_of(made.charge)) is None:
            time.sleep(1e-3)
        bundle = self.state.bundles.find(stored)
        assert bundle is not None
        keys = {name: read_table(bundle, name).column(0).to_pylist() for name in tables(bundle)}
        payload = [entry["path"] for entry in read_manifest(bundle)["payload"]]
        return {
            "cpu": TimedCompute.seconds,
            "ticks": math.ceil(TimedCompute.seconds / TICK_SECONDS),
            "zip": archive_of(bundle).stat().st_size,
            "manifest": (bundle / MANIFEST).stat().st_size,
            "order": json.dumps([keys, payload], default=str),
        }

    def listed(self) -> list[str]:
        """Return the releases in the order of the list, the oldest first."""
        with self.state.ledger.reading() as connection:
            found = visible_releases(connection, "ann", limit=10**6)
        return [one.id for one in reversed(found)]


def worlds_of_profiles() -> tuple[Profiles, Profiles]:
    """Return profiles with a customer at the clipping bound, and without that customer."""
    whole = some_profiles(CUSTOMERS)
    load = np.array(whole.load_kw)
    load[ABSENT] = CLIP_KW
    whole = replace(whole, load_kw=load)
    kept = [number for number in range(CUSTOMERS) if number != ABSENT]
    fewer = replace(
        whole,
        customer_ids=tuple(whole.customer_ids[number] for number in kept),
        load_kw=load[kept],
        attributes={
            name: tuple(values[number] for number in kept)
            for name, values in whole.attributes.items()
        },
    )
    return whole, fewer


def auc(first: np.ndarray, second: np.ndarray) -> float:
    """Return the probability that a value of the second is larger, ties counted half."""
    order = np.sort(first)
    below = np.searchsorted(order, second, side="left")
    not_above = np.searchsorted(order, second, side="right")
    return float(np.mean((below + not_above) / 2.0) / len(first))


def interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the area, by bootstrap."""
    draw = np.random.default_rng(1)
    areas = [
        auc(draw.choice(first, len(first)), draw.choice(second, len(second)))
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(areas, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Run both worlds in random turn, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    worker.ComputeProcess = TimedCompute  # type: ignore[assignment,misc] # its time is measured
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(without_plan_simulation())
        worlds = {}
        for name, profiles in zip(WORLDS, worlds_of_profiles(), strict=True):
            (Path(folder) / name).mkdir()
            worlds[name] = World(Path(folder) / name, profiles, stack)
        seen: dict[str, list[dict[str, Any]]] = {name: [] for name in WORLDS}
        turn = random.Random(2)  # noqa: S311 - order of measurements, no noise
        for number in range(runs + WARM_UP):
            for name in turn.sample(WORLDS, 2):
                found = worlds[name].run(number)
                if number >= WARM_UP:
                    seen[name].append(found)
            if number % 20 == 0:
                sys.stderr.write(f"{number} runs\n")
        for quantity in ("cpu", "ticks", "zip", "manifest"):
            first, second = (
                np.array([one[quantity] for one in seen[name]], dtype=float) for name in WORLDS
            )
            low, high = interval(first, second)
            row = {
                "quantity": quantity,
                "runs": runs,
                "mean_with": round(float(first.mean()), 4),
                "mean_without": round(float(second.mean()), 4),
                "auc": round(auc(first, second), 3),
                "interval": [round(low, 3), round(high, 3)],
            }
            sys.stdout.write(json.dumps(row) + "\n")
        orders = {one["order"] for name in WORLDS for one in seen[name]}
        in_order = all(worlds[name].listed() == worlds[name].ordered for name in WORLDS)
        row = {"quantity": "order", "different_orders": len(orders), "list_in_order": in_order}
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
