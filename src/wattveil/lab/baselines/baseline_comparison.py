"""Comparison of all mechanisms and baselines on the same customers, in several processes.

PRIVATE: a comparison reads exact customers, for internal use only. Finished runs are kept in a file
whose first line identifies data and settings; every run is one more line. A process that is
killed leaves complete lines and at most one partial line, which is dropped, so that the same
command resumes.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.lab.baselines import diffprivlib_baseline
from wattveil.lab.baselines.accuracy_limit import AccuracyLimit, accuracy_limits
from wattveil.lab.baselines.baseline_interface import (
    Fit,
    PublicChoices,
    accuracy_loss,
    exact_answer,
    finite_rows,
)
from wattveil.lab.baselines.diffprivlib_baseline import Diffprivlib
from wattveil.lab.baselines.histogram_baselines import FedDpKMeans, PeMeans
from wattveil.lab.baselines.lloyd_baselines import (
    Blum2005,
    GaussianLloyd,
    Ni2021,
    Ren2017,
    Su2016,
    Yu2016,
)
from wattveil.lab.baselines.non_lloyd_baselines import (
    MAX_GRID_SLOTS,
    Balcan2017,
    LuShen2020,
    PrivateMean,
    UniformGrid,
    Xia2020,
)
from wattveil.lab.baselines.relative_lloyd_baselines import CentredLloyd, FastLloyd
from wattveil.lab.baselines.tree_baselines import Dpm, GoogleLsh
from wattveil.lab.baselines.wattveil_mechanisms import (
    GlobalTier,
    fit_coloured,
    fit_paper,
    fit_white,
)
from wattveil.privacy.guarantee import Guarantee
from wattveil.web.results import PrivateResult, ResultTable, records_table


@dataclass(frozen=True)
class BaselineEntry:
    """One mechanism of a comparison."""

    title: str
    fit: Fit
    max_slots: int | None = None
    """Maximum number of columns; None without a limit."""
    compiles: bool = False
    """Whether its first use compiles code, unless the compiled code is cached on disk."""


MECHANISMS = {
    "global": BaselineEntry("Wattveil, global tier", GlobalTier.fit),
    "instance-coloured": BaselineEntry(
        "Wattveil, instance tier, coloured", fit_coloured, compiles=True
    ),
    "instance-white": BaselineEntry("Wattveil, instance tier, white", fit_white, compiles=True),
    "paper": BaselineEntry("The paper's calibration, coloured", fit_paper, compiles=True),
    "gaussian-lloyd": BaselineEntry("DP-Lloyd, Gaussian", GaussianLloyd.fit),
    "blum-2005": BaselineEntry("DP-Lloyd, Laplace (Blum et al. 2005)", Blum2005.fit),
    "su-2016": BaselineEntry("DP-Lloyd, improved (Su et al. 2016)", Su2016.fit),
    "uniform-grid": BaselineEntry(
        "Uniform grid (Su et al. 2016)", UniformGrid.fit, max_slots=MAX_GRID_SLOTS
    ),
    "yu-2016": BaselineEntry("Yu et al. 2016", Yu2016.fit),
    "balcan-2017": BaselineEntry("Balcan et al. 2017", Balcan2017.fit),
    "ren-2017": BaselineEntry("Ren et al. 2017", Ren2017.fit),
    "xia-2020": BaselineEntry("Xia et al. 2020, local", Xia2020.fit),
    "lu-shen-2020": BaselineEntry("Lu and Shen 2020", LuShen2020.fit),
    "ni-2021": BaselineEntry("Ni et al. 2021", Ni2021.fit),
    "google-lsh": BaselineEntry("Google LSH clustering (2021)", GoogleLsh.fit),
    "dpm": BaselineEntry("DPM (Liebenow et al. 2023)", Dpm.fit),
    "fast-lloyd": BaselineEntry("FastLloyd (Diaa et al. 2024)", FastLloyd.fit),
    "feddp-kmeans": BaselineEntry("FedDP-KMeans (Scott et al. 2025)", FedDpKMeans.fit),
    "pe-means": BaselineEntry("PE-means (Humphries et al. 2026)", PeMeans.fit),
    "centred-lloyd": BaselineEntry("DP-Lloyd around a private mean", CentredLloyd.fit),
    "diffprivlib": BaselineEntry("diffprivlib 0.6", Diffprivlib.fit),
    "mean": BaselineEntry("One private mean for all", PrivateMean.fit),
}


# --- finished runs --------------------------------------------------------------------------------


class RunKey(NamedTuple):
    """Key of one run: mechanism, epsilon and repeat."""

    mechanism: str
    epsilon: float
    repeat: int


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """Result of one run."""

    key: RunKey
    nearest: float
    """DP accuracy loss with the nearest released centroids."""
    labels: float | None
    """DP accuracy loss with released labels; None without them."""
    cpu_seconds: float
    claimed: Guarantee
    true: Guarantee | None
    true_with_labels: Guarantee | None
    known_violations: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            **self.key._asdict(),
            "nearest": self.nearest,
            "labels": self.labels,
            "cpu_seconds": self.cpu_seconds,
            **{
                name: claimed_guarantee and claimed_guarantee.to_json()
                for name, claimed_guarantee in self._guarantees().items()
            },
            "known_violations": list(self.known_violations),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        claimed, true, both = (
            None if fields[name] is None else Guarantee.from_json(fields[name])
            for name in ("claimed", "true", "true_with_labels")
        )
        if claimed is None:
            raise ValueError("claimed is missing")
        return cls(
            key=RunKey(str(fields["mechanism"]), float(fields["epsilon"]), int(fields["repeat"])),
            nearest=float(fields["nearest"]),
            labels=None if fields["labels"] is None else float(fields["labels"]),
            cpu_seconds=float(fields["cpu_seconds"]),
            claimed=claimed,
            true=true,
            true_with_labels=both,
            known_violations=tuple(map(str, fields["known_violations"])),
        )

    def _guarantees(self) -> dict[str, Guarantee | None]:
        return {
            "claimed": self.claimed,
            "true": self.true,
            "true_with_labels": self.true_with_labels,
        }


class RunFile:
    """Finished runs on disk, of one data set and one setting.

    Parameters
    ----------
    path
        Created if it does not exist.
    rows : (P, d)
        The customers; the file holds their hash.
    setting
        Other settings that the runs depend on.
    """

    def __init__(self, path: Path, rows: Floats, setting: dict[str, float]) -> None:
        self._path = path
        data = sha256(repr(rows.shape).encode() + rows.tobytes()).hexdigest()
        key = {"wattveil": version("wattveil"), "data": data, **setting}
        if not path.exists():
            path.write_text(json.dumps(key) + "\n")
        self._drop_partial_line()
        self.done = {one.key: one for one in self._read(key)}

    def append(self, measured: MeasuredRun) -> None:
        """Append a finished run."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measured.to_json()) + "\n")
        self.done[measured.key] = measured

    def _drop_partial_line(self) -> None:
        with self._path.open("rb+") as file:
            text = file.read()
            file.truncate(text.rfind(b"\n") + 1)
            os.fsync(file.fileno())

    def _read(self, key: dict[str, Any]) -> Iterator[MeasuredRun]:
        lines = self._path.read_text(encoding="utf-8").splitlines()
        found = self._parsed(lines[0], 1) if lines else None
        if found != key:
            changed = [
                name for name in key if not isinstance(found, dict) or found.get(name) != key[name]
            ]
            rule = f"a new folder, or one of the same {', '.join(changed)}"
            raise InvalidParameterError("out", rule, str(self._path.parent))
        for number, line in enumerate(lines[1:], start=2):
            fields = self._parsed(line, number)
            try:
                yield MeasuredRun.from_json(fields)
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidFileError(self._path, f"line {number}", "a run", line) from error

    def _parsed(self, line: str, number: int) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return json.loads(line)
        except ValueError as error:
            raise InvalidFileError(self._path, f"line {number}", "JSON", line) from error


# --- comparison -----------------------------------------------------------------------------------


COMPILING = "compiling, the first time a minute or more"
RUNNING = "running"
LIMITS = "limits of accuracy"


@dataclass(frozen=True, kw_only=True)
class ComparisonSetting:
    """Settings of a comparison.

    Parameters
    ----------
    mechanisms
        Names of `MECHANISMS`; None takes all that can run.
    epsilons
        Budgets of the centroids; released labels cost the same again.
    delta
        Of mechanisms that have one.
    n_clusters, repeats
        K, and the number of runs of each mechanism at each epsilon.
    seed
        Of the baselines. Wattveil's own noise has no seed.
    """

    mechanisms: tuple[str, ...] | None = None
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    delta: float = 1e-6
    n_clusters: int = 6
    repeats: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        """Validate the settings."""
        if not self.epsilons or len(set(self.epsilons)) < len(self.epsilons):
            raise InvalidParameterError("epsilon", "one or more different numbers", self.epsilons)
        for epsilon in self.epsilons:
            checks.positive_epsilon("epsilon", epsilon)
        checks.probability("delta", self.delta)
        checks.integer("n_clusters", self.n_clusters, minimum=2)
        checks.integer("repeats", self.repeats, minimum=1)
        checks.integer("seed", self.seed, minimum=0)
        names = self.mechanisms or ()
        for name in names:
            if name not in MECHANISMS:
                raise InvalidParameterError("mechanism", f"one of {', '.join(MECHANISMS)}", name)
        if len(set(names)) < len(names):
            raise InvalidParameterError("mechanism", "names of which no two are the same", names)

    def fitting(self, n_slots: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the mechanisms that can run, and why others are omitted; a named one must run."""
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


@dataclass(frozen=True, kw_only=True, repr=False)
class BaselineComparison(PrivateResult):
    """All runs of a setting, the limits of accuracy, and why mechanisms were omitted."""

    setting: ComparisonSetting
    mechanisms: tuple[str, ...]
    runs: tuple[MeasuredRun, ...]
    limits: tuple[AccuracyLimit, ...]
    """One for each epsilon of the setting."""
    left_out: tuple[str, ...]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        records = [
            {
                **run.key._asdict(),
                "nearest": run.nearest,
                "labels": run.labels,
                "cpu_seconds": run.cpu_seconds,
            }
            for run in self.runs
        ]
        return {
            "runs": lambda: records_table(records, *RunKey._fields),
            "limits": lambda: records_table([asdict(one) for one in self.limits], "epsilon"),
        }


def compare_mechanisms(
    load_kw: ArrayLike,
    setting: ComparisonSetting,
    *,
    path: Path,
    jobs: int = 1,
    advance: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> BaselineComparison:
    """Run what is not yet in the file, and return all runs of the setting.

    Parameters
    ----------
    load_kw : (P, d)
        One row per customer; finite.
    setting
        Settings of the comparison.
    path
        File of finished runs. A later call with the same data, K, delta and seed resumes, also with
        further mechanisms, epsilons or repeats.
    jobs
        Number of processes.
    advance
        Called with the current activity, the number of finished runs, and their total.
    """
    checks.integer("jobs", jobs, minimum=1)
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
    file = RunFile(
        path,
        rows,
        {"n_clusters": setting.n_clusters, "delta": setting.delta, "seed": setting.seed},
    )
    wanted = [
        RunKey(name, epsilon, repeat)
        for repeat in range(setting.repeats)
        for epsilon in setting.epsilons
        for name in names
    ]
    missing = [key for key in wanted if key not in file.done]
    done = len(wanted) - len(missing)
    # The first one that compiles caches the code on disk for all processes.
    compiling = next((key for key in missing if MECHANISMS[key.mechanism].compiles), None)
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
    advance(LIMITS, done, len(wanted))
    return BaselineComparison(
        setting=setting,
        mechanisms=names,
        runs=tuple(file.done[key] for key in wanted),
        limits=accuracy_limits(
            rows, setting.n_clusters, epsilons=setting.epsilons, delta=setting.delta
        ),
        left_out=left_out,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Bench:
    """The customers and the public choices of every mechanism."""

    rows: Floats
    public: PublicChoices
    exact: float
    """Loss of the exact answer."""
    delta: float
    seed: int

    def measure(self, key: RunKey) -> MeasuredRun:
        """Execute one run; its random numbers depend on its key only."""
        drawn_by = (self.seed, crc32(key.mechanism.encode()), crc32(repr(key.epsilon).encode()))
        begin = sum(os.times()[:4])  # of this process and its children
        found = MECHANISMS[key.mechanism].fit(
            self.rows,
            epsilon=key.epsilon,
            delta=self.delta,
            public=self.public,
            generator=np.random.default_rng([*drawn_by, key.repeat]),
        )
        seconds = sum(os.times()[:4]) - begin
        centroids, labels = found.centroids_kw, found.labels
        return MeasuredRun(
            key=key,
            nearest=accuracy_loss(self.rows, centroids, exact=self.exact),
            labels=None
            if labels is None
            else accuracy_loss(self.rows, centroids, labels, exact=self.exact),
            cpu_seconds=seconds,
            claimed=found.claimed,
            true=found.true,
            true_with_labels=found.true_with_labels,
            known_violations=found.known_violations,
        )


def _check_runs(name: str, n_slots: int) -> None:
    maximum = MECHANISMS[name].max_slots
    if maximum is not None and n_slots > maximum:
        rule = f"one for {n_slots} slots (this one supports at most {maximum})"
        raise InvalidParameterError("mechanism", rule, name)
    if name == "diffprivlib":
        diffprivlib_baseline.check_installed()


def _run(bench: Bench, keys: Sequence[RunKey], jobs: int) -> Iterator[MeasuredRun]:
    """Execute runs, in any order."""
    if jobs == 1:
        yield from map(bench.measure, keys)
        return
    # A forked process would inherit locks of the threads of this one.
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(bench,)
    ) as pool:
        futures = [pool.submit(_measure, key) for key in keys]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:
            pool.shutdown(cancel_futures=True)


_benches: list[Bench] = []
"""State of a worker process: the customers are sent once, not with every run."""


def _begin(bench: Bench) -> None:
    _benches[:] = [bench]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent was killed: it would wait for runs forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _measure(key: RunKey) -> MeasuredRun:
    return _benches[0].measure(key)
