"""Leaderboard: private K-means methods on all families, in kW and as shapes, beside the limit.

Run: ``make leaderboard``, or ``python benchmarks/leaderboard.py [--split held-out] [--runs 16]
[--peer-runs 8] [--large] [--method FILE] [--out FOLDER] [--page docs/leaderboard.md]``.

For each family of `families.py`, kind of row and epsilon (0.3, 1, 3), every method runs several
times with K = 6 and delta = 1e-6. Each finished cell is stored in ``FOLDER/cells.jsonl`` with a
hash of data and code: the same command resumes, and measures again only what changed. The result is
``leaderboard.csv`` (every method and cell), ``leaderboard.md`` and ``leaderboard.svg``; ``--page``
also puts table and chart into a page. `leaderboard_methods.py` says how to add a method.

The loss is (r(private) - r(exact)) / r(exact), r the mean squared distance from the nearest
centroid. All figures are computed from exact customers: internal, except on open and simulated
data.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from inspect import getsource
from pathlib import Path
from typing import Any, NamedTuple, get_args
from zlib import crc32

import families
import numpy as np
from global_tier_cases import say
from leaderboard_methods import METHODS, Kind, Method, method_of
from leaderboard_report import Cell, write_page, write_report
from populations import normalised

from wattveil.arrays import Floats
from wattveil.lab.baselines import accuracy_limit
from wattveil.lab.baselines.accuracy_limit import AccuracyLimit
from wattveil.lab.baselines.baseline_interface import (
    PublicChoices,
    clustering_loss,
    exact_answer,
)

EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-6
K = 6
LIMIT = "limit"


class Key(NamedTuple):
    """What a stored figure is about."""

    family: str
    kind: str
    epsilon: float
    method: str
    variant: str


class Store:
    """Finished cells on disk, one line each; a partial line is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        text = path.read_bytes()
        with path.open("rb+") as file:
            file.truncate(text.rfind(b"\n") + 1)
        self.done: dict[Key, dict[str, Any]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            stored = json.loads(line)
            self.done[Key(*stored["key"])] = stored

    def get(self, key: Key, digest: str, runs: int) -> dict[str, Any] | None:
        """Return a figure of the same data and code with as many runs, None if there is none."""
        found = self.done.get(key)
        if found is None or found["digest"] != digest or len(found.get("losses", ())) < runs:
            return None
        return found

    def put(self, key: Key, digest: str, **figure: Any) -> dict[str, Any]:  # noqa: ANN401
        """Store a figure."""
        stored = {"key": list(key), "digest": digest, **figure}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(stored) + "\n")
        self.done[key] = stored
        return stored


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of a family in one kind, and what is computed from them once."""

    family: str
    kind: Kind
    rows: Floats = field(repr=False)

    @cached_property
    def public(self) -> PublicChoices:
        """Return the bounds that peers are given."""
        return PublicChoices.taken_from(self.rows, K)

    @cached_property
    def exact(self) -> float:
        """Return the loss of exact K-means."""
        return exact_answer(self.rows, K).loss

    @cached_property
    def digest(self) -> str:
        """Return a hash of the rows."""
        return sha256(self.rows.tobytes()).hexdigest()[:16]


def data_sets(names: Sequence[str]) -> Iterator[Data]:
    """Yield the families in kW and as shapes; customers without load have no shape."""
    for name in names:
        loaded = families.load(name)
        if loaded is None:
            continue
        if families.FAMILIES[name].has_sizes:
            yield Data(name, "kW", loaded.rows)
        yield Data(name, "shapes", normalised(loaded.rows[loaded.rows.any(axis=1)]))


def limits(data: Data, store: Store) -> dict[float, AccuracyLimit]:
    """Return A, B and the bound at each epsilon."""
    digest = data.digest + sha256(getsource(accuracy_limit).encode()).hexdigest()[:16]
    keys = {epsilon: Key(data.family, data.kind, epsilon, LIMIT, "") for epsilon in EPSILONS}
    if any(store.get(key, digest, 0) is None for key in keys.values()):
        found = accuracy_limit.accuracy_limits(data.rows, K, epsilons=EPSILONS, delta=DELTA)
        for limit in found:
            store.put(keys[limit.epsilon], digest, limit=asdict(limit))
    return {epsilon: AccuracyLimit(**store.done[key]["limit"]) for epsilon, key in keys.items()}


def losses_of(
    data: Data, epsilon: float, method: Method, runs: int, store: Store
) -> dict[str, list[float]]:
    """Return the losses of each variant; those of finished cells from the store."""
    found = {}
    digest = data.digest + method.digest()
    for variant, keywords in method.variants(data.kind).items():
        key = Key(data.family, data.kind, epsilon, method.name, variant)
        stored = store.get(key, digest, runs)
        if stored is None:
            begin = time.process_time()
            losses = [
                clustering_loss(
                    data.rows,
                    method.fit(
                        data.rows,
                        epsilon=epsilon,
                        delta=DELTA,
                        public=data.public,
                        generator=np.random.default_rng([crc32(repr(key).encode()), run]),
                        **keywords,
                    ).centroids_kw,
                )
                / data.exact
                - 1.0
                for run in range(runs)
            ]
            seconds = (time.process_time() - begin) / runs
            stored = store.put(key, digest, losses=losses, cpu_seconds=seconds)
        found[variant] = list(stored["losses"])
    return found


def measure(
    names: Sequence[str], methods: Sequence[Method], store: Store, *, runs: int, peer_runs: int
) -> list[Cell]:
    """Return every cell, measured now or before."""
    cells = []
    for data in data_sets(names):
        begin = time.process_time()
        of_data = limits(data, store)
        for epsilon in EPSILONS:
            losses = {
                method.name: losses_of(
                    data, epsilon, method, runs if method.role == "ours" else peer_runs, store
                )
                for method in methods
            }
            family = families.FAMILIES[data.family]
            cells.append(
                Cell(
                    family=data.family,
                    split=family.split,
                    kind=data.kind,
                    customers=len(data.rows),
                    slots=data.rows.shape[1],
                    epsilon=epsilon,
                    limit=of_data[epsilon],
                    losses=losses,
                    roles={method.name: method.role for method in methods},
                )
            )
        lead = ", ".join(f"{cell.ratio:.2f}" for cell in cells[-len(EPSILONS) :])
        say(
            f"{data.family}, {data.kind}: best peer / ours {lead}"
            f" ({time.process_time() - begin:.0f} CPU s)"
        )
    return cells


def main() -> None:
    """Measure, and write table and chart."""
    parser = argparse.ArgumentParser(description="Leaderboard of private K-means")
    parser.add_argument("--split", choices=get_args(families.Split), help="one split only")
    parser.add_argument("--family", nargs="*", help="these families only")
    parser.add_argument("--large", action="store_true", help="also families of 5,000 and more")
    parser.add_argument("--runs", type=int, default=16, help="of our method in each cell")
    parser.add_argument("--peer-runs", type=int, default=8, help="of each variant of a peer")
    parser.add_argument("--method", type=Path, nargs="*", default=[], help="file with a METHOD")
    parser.add_argument("--out", type=Path, default=Path("bench-results") / "leaderboard")
    parser.add_argument("--page", type=Path, help="page to put table and chart into")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    methods = [*METHODS, *(method_of(path) for path in given.method)]
    names = given.family or families.names(given.split, large=None if given.large else False)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    cells = measure(
        names,
        methods,
        Store(given.out / "cells.jsonl"),
        runs=given.runs,
        peer_runs=given.peer_runs,
    )
    titles = {method.name: method.title for method in methods}
    text = write_report(cells, titles, given.out)
    say(text)
    if given.page:
        write_page(text, given.out / "leaderboard.svg", given.page)


if __name__ == "__main__":
    main()
