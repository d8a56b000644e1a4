"""Run every mechanism on the same customers, again and again, in several processes.

A comparison reads the customers exactly: all of it is private and stays in house.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.baselines import ibm_diffprivlib
from wattveil.baselines.cells import Cell, CellFile, Measured
from wattveil.baselines.loss import accuracy_loss, exact_answer
from wattveil.baselines.mechanisms import MECHANISMS
from wattveil.baselines.outcome import Floats, PublicChoices, finite_rows
from wattveil.errors import InvalidParameterError, MissingExtraError

COMPILING = "compiling, the first time a minute or more"
RUNNING = "running"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is compared.

    Parameters
    ----------
    mechanisms : tuple of str or None
        Names of `MECHANISMS`; None takes all that run on these customers here.
    epsilons : tuple of float
        Budgets of the centroids; released labels cost as much again.
    delta : float
        Of those that have one.
    n_clusters, repeats : int
        K, and how often each mechanism is run at each epsilon.
    seed : int
        Of the rivals. Wattveil's own noise has no seed.
    """

    mechanisms: tuple[str, ...] | None = None
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    delta: float = 1e-6
    n_clusters: int = 6
    repeats: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        if not self.epsilons or len(set(self.epsilons)) < len(self.epsilons):
            raise InvalidParameterError("epsilon", "one or more different numbers", self.epsilons)
        for epsilon in self.epsilons:
            checks.positive_epsilon("epsilon", epsilon)
        checks.probability("delta", self.delta)
        checks.integer("n_clusters", self.n_clusters, least=2)
        checks.integer("repeats", self.repeats, least=1)
        checks.integer("seed", self.seed, least=0)
        names = self.mechanisms or ()
        for name in names:
            if name not in MECHANISMS:
                raise InvalidParameterError("mechanism", f"one of {', '.join(MECHANISMS)}", name)
        if len(set(names)) < len(names):
            raise InvalidParameterError("mechanism", "names of which no two are the same", names)

    def fitting(self, n_slots: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the mechanisms that run, and why others are left out; a named one must run."""
        names, left_out = [], []
        for name in self.mechanisms or MECHANISMS:
            try:
                _check_runs(name, n_slots)
            except (InvalidParameterError, MissingExtraError) as error:
                if self.mechanisms:
                    raise
                left_out.append(str(error))
            else:
                names.append(name)
        return tuple(names), tuple(left_out)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All cells of a setting, measured, and what was left out."""

    setting: Setting
    mechanisms: tuple[str, ...]
    cells: tuple[Measured, ...]
    left_out: tuple[str, ...]


def compare_mechanisms(
    load_kw: ArrayLike,
    setting: Setting,
    *,
    cells: Path,
    jobs: int = 1,
    advance: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> Comparison:
    """Measure what is not yet in the file ``cells``, and return all of the setting.

    Parameters
    ----------
    load_kw : (P, d)
        One row a customer; finite.
    setting : Setting
        What is compared.
    cells : Path
        Where finished cells are kept. A later run of the same data, K, delta and seed goes on
        there, also with further mechanisms, epsilons or repeats.
    jobs : int
        Processes.
    advance : callable
        Told what is being done, how many cells are done, and of how many.
    """
    checks.integer("jobs", jobs, least=1)
    rows = finite_rows(load_kw)
    names, left_out = setting.fitting(rows.shape[1])
    if len(rows) < setting.n_clusters:
        raise InvalidParameterError("n_clusters", "at most the customers", setting.n_clusters)
    bench = Bench(
        rows=rows,
        public=PublicChoices.taken_from(rows, setting.n_clusters),
        exact=exact_answer(rows, setting.n_clusters).loss,
        delta=setting.delta,
        seed=setting.seed,
    )
    file = CellFile(
        cells,
        rows,
        {"n_clusters": setting.n_clusters, "delta": setting.delta, "seed": setting.seed},
    )
    wanted = [
        Cell(name, epsilon, repeat)
        for repeat in range(setting.repeats)
        for epsilon in setting.epsilons
        for name in names
    ]
    missing = [cell for cell in wanted if cell not in file.done]
    done = len(wanted) - len(missing)
    # The first one that compiles leaves machine code on disk for all processes.
    compiling = next((cell for cell in missing if MECHANISMS[cell.mechanism].compiles), None)
    if compiling is not None:
        advance(COMPILING, done, len(wanted))
        file.append(bench.measure(compiling))
        missing.remove(compiling)
        done += 1
    advance(RUNNING, done, len(wanted))
    for measured in _run(bench, missing, jobs):
        file.append(measured)
        done += 1
        advance(RUNNING, done, len(wanted))
    return Comparison(
        setting=setting,
        mechanisms=names,
        cells=tuple(file.done[cell] for cell in wanted),
        left_out=left_out,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Bench:
    """The customers, and what every mechanism is given."""

    rows: Floats
    public: PublicChoices
    exact: float
    """Loss of the exact answer."""
    delta: float
    seed: int

    def measure(self, cell: Cell) -> Measured:
        """Run one cell; the same cell draws the same, in whatever order cells are run."""
        drawn_by = (self.seed, crc32(cell.mechanism.encode()), crc32(repr(cell.epsilon).encode()))
        begin = sum(os.times()[:4])  # of this process and its children
        found = MECHANISMS[cell.mechanism].fit(
            self.rows,
            epsilon=cell.epsilon,
            delta=self.delta,
            public=self.public,
            generator=np.random.default_rng([*drawn_by, cell.repeat]),
        )
        seconds = sum(os.times()[:4]) - begin
        centroids, labels = found.centroids_kw, found.labels
        return Measured(
            cell=cell,
            nearest=accuracy_loss(self.rows, centroids, exact=self.exact),
            labels=None
            if labels is None
            else accuracy_loss(self.rows, centroids, labels, exact=self.exact),
            cpu_seconds=seconds,
            claimed=found.claimed,
            true=found.true,
            true_with_labels=found.true_with_labels,
            doubts=found.doubts,
        )


def _check_runs(name: str, n_slots: int) -> None:
    most = MECHANISMS[name].most_slots
    if most is not None and n_slots > most:
        rule = f"one for {n_slots} slots (this one does {most} at most)"
        raise InvalidParameterError("mechanism", rule, name)
    if name == "diffprivlib":
        ibm_diffprivlib.check_installed()


def _run(bench: Bench, cells: Sequence[Cell], jobs: int) -> Iterator[Measured]:
    """Measure cells, in any order."""
    if jobs == 1:
        yield from map(bench.measure, cells)
        return
    # A forked process would inherit locks of the threads of this one.
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(bench,)
    ) as pool:
        futures = [pool.submit(_measure, cell) for cell in cells]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:
            pool.shutdown(cancel_futures=True)


_benches: list[Bench] = []
"""Of a process of the pool: the customers are sent once, not with every cell."""


def _begin(bench: Bench) -> None:
    _benches[:] = [bench]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it was killed: it would wait for cells forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _measure(cell: Cell) -> Measured:
    return _benches[0].measure(cell)
