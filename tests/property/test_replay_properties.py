"""Replay audit of every public release function, in memory and on Spark, with planted faults.

A release is run again with one customer changed and is handed the noisy integers of the first run.
Each query may change by its sensitivity, and no released value may change. `CASES` is checked
against what `wattveil.release` exports: a new release function without a case fails.

`make test` takes 0, 1 and 40 customers in memory, and a few small cases on Spark. WATTVEIL_SOAK
adds 3,000 customers, and on Spark all cases and all ten hostile rows.
"""

import datetime as dt
import importlib
import inspect
import os
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import wattveil.release
from tests.repeated_runs import remember_constants
from tests.sample_bundles import walk_few_steps
from wattveil.arrays import Floats
from wattveil.bundle.plan import ReleasePlan, requested_products, split_budget
from wattveil.bundle.produce import release_products
from wattveil.engines.local import LocalRows
from wattveil.engines.spark.spark_profiles import SparkProfiles
from wattveil.engines.spark.spark_rows import SparkRows
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.lab.audit.replay_audit import (
    Neighbour,
    ReplayAudit,
    hostile_rows,
    replay_audit,
    rows_without_data,
)
from wattveil.numerics.synthesis import year_model
from wattveil.numerics.synthesis.day_deviations import DayToDay
from wattveil.numerics.synthesis.year_paths import score_tables
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import global_guarantee
from wattveil.privacy.mechanisms import contributions
from wattveil.privacy.mechanisms.contributions import NO_DATA, STEP
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import row_function
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles, Split, TimeGrid
from wattveil.release import group_load, randomised_labels
from wattveil.release.cluster_shares import cluster_shares
from wattveil.release.group_load import load_duration_curve, load_shapes
from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class
from wattveil.release.load_series import ReleasedSeries, SeriesDesign, release_load_period
from wattveil.release.randomised_labels import release_labels
from wattveil.release.rows import load_features
from wattveil.release.synthetic import LoadSynthesizer, YearSynthesizer
from wattveil.simulate import simulate_load_kw

Release = Callable[[Any], object]

SOAK = bool(os.environ.get("WATTVEIL_SOAK"))
LEVELS = ("home", "shop")
CENTROIDS = np.array([[0.2] * 24, [2.0] * 24])
GUARANTEE: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}
TWO: dict[str, Any] = {**GUARANTEE, "n_clusters": 2}
ADDED = "hostile customer"
HOSTILE = 10
REQUEST = ReleaseRequest(
    **TWO, clip_kw=5.0, by="class", levels=LEVELS, label_epsilon=2.0, real_ids=True
)
YEAR_REQUEST = ReleaseRequest(
    **TWO,
    clip_kw=5.0,
    weights={"clusters": 0.0, "load": 0.0, "years": 1.0},
    options={"years": {"split": Split.WEEKDAY_WEEKEND}},
)
KEPT_DAYS = 14
PLAN, YEAR_PLAN = (
    ReleasePlan(
        request=request,
        products=requested_products(request),
        allotments=split_budget(request),
        expected={},
    )
    for request in (REQUEST, YEAR_REQUEST)
)


@dataclass(frozen=True, eq=False)
class Customers:
    """What a release is given, wherever an engine keeps it: load, groups and ids."""

    load: Any
    groups: Any
    ids: Any
    listed: tuple[str, ...]
    profiles: Profiles | SparkProfiles


@dataclass(frozen=True, eq=False)
class Rows:
    """Customers before an engine has them."""

    load: Floats
    groups: tuple[str, ...]
    ids: tuple[str, ...]

    def with_row(self, row: Floats) -> "Rows":
        """Return one customer more, of the first group, before all others: they may not notice."""
        load = np.vstack([row, self.load])
        return Rows(load, (LEVELS[0], *self.groups), (ADDED, *self.ids))

    def without(self, place: int, *, zero_out: bool) -> "Rows":
        """Return these customers with one removed, or with its data gone and its id still there."""
        load = self.load.copy()
        load[place] = np.nan
        if zero_out:
            return replace(self, load=load)
        kept = [row for row in range(len(load)) if row != place]
        names = (tuple(values[row] for row in kept) for values in (self.groups, self.ids))
        return Rows(load[kept], *names)


Engine = Callable[[Rows, tuple[str, ...]], Customers]


def in_memory(rows: Rows, listed: tuple[str, ...]) -> Customers:
    """Return customers as arrays; profiles are of those with data."""
    kept = np.flatnonzero(np.isfinite(rows.load).all(axis=1))
    width = rows.load.shape[1]
    keeps_days = width == 24 * KEPT_DAYS
    profiles = Profiles(
        customer_ids=tuple(rows.ids[row] for row in kept),
        load_kw=rows.load[kept] if width == 24 else np.zeros((len(kept), 24)),
        grid=TimeGrid(first_day=YEARS["first_day"], n_days=KEPT_DAYS) if keeps_days else TimeGrid(),
        days_kw=rows.load[kept] if keeps_days else None,
        timezone="Europe/London",
        attributes={"class": tuple(rows.groups[row] for row in kept)},
    )
    return Customers(rows.load, rows.groups, rows.ids, listed, profiles)


def on_spark(session: SparkSession, rows: Rows, listed: tuple[str, ...]) -> Customers:
    """Return customers as columns of a DataFrame in two partitions."""
    record = {"grid": TimeGrid().to_json(), "timezone": "UTC", "attributes": ["class"], "rules": {}}
    load = pa.array(rows.load.tolist(), pa.list_(pa.float64()))
    names = {
        "customer_id": pa.array(rows.ids, pa.string()),
        "class": pa.array(rows.groups, pa.string()),
    }
    frame = session.createDataFrame(pa.table({**names, "load_kw": load})).repartition(2)
    profiles = SparkProfiles.of(frame, record)
    width = {"load_kw": np.zeros((0, rows.load.shape[1]))}  # of years, not that of the grid
    texts = dict.fromkeys(names, np.zeros(0, dtype=np.object_))
    columns = SparkRows.columns_of(frame, {**texts, **width})
    return Customers(columns["load_kw"], columns["class"], columns["customer_id"], listed, profiles)


@dataclass(frozen=True, eq=False)
class Case:
    """A release function, how it is called, and the columns of its rows."""

    covers: str
    release: Release
    width: int = 24
    has_list: bool = False
    """Whether it releases one row per customer of a public list: neighbours are zero-out."""
    on_spark: bool = field(default=False, kw_only=True)
    """Whether `make test` runs it on Spark too."""
    in_memory_only: bool = field(default=False, kw_only=True)


@cache
def public_clusters() -> PrivateKMeans:
    """Return clusters of other customers than the audited: public for labels."""
    return PrivateKMeans(**TWO).fit(simulate_load_kw(customers=200, seed=9))


def labels_of_clusters(who: Customers) -> object:
    """Release labels of public clusters.

    The cheapest design would draw one label for all, at no cost, for some clusters.
    """
    return public_clusters().release_labels(
        who.load, epsilon=1.0, customer_ids=who.ids, real_ids=True, design="response"
    )


def whole_series(who: Customers) -> ReleasedSeries:
    """Release all periods of a short series; loads change, and customers change their group."""
    design = SeriesDesign(
        horizon=3,
        periods_per_year=1,
        guarantee=global_guarantee(**GUARANTEE),
        levels={"class": LEVELS},
        properties=(("class", LEVELS[0]),),
        n_segments=2,
        customers=10**6,  # much signal: refining steps in every later period
    )
    state = MemoryState(names_key=bytes(32))
    found = ReleasedSeries(design=design)
    for period, factor in enumerate((1.0, -3.0, 0.5)):
        other = dict(zip(LEVELS, LEVELS[::-1], strict=True)) if period == 1 else {}
        found = release_load_period(
            who.load * factor,
            groups={"class": [other.get(one, one) for one in who.groups]},
            customer_ids=who.ids,
            past=found,
            period=period,
            state=state,
            recluster=period == 2,
        )
    return found


YEARS: dict[str, Any] = {
    "first_day": dt.date(2024, 1, 1),
    "slots_per_day": 4,
    "split": Split.WEEKDAY_WEEKEND,
}
CASES = {
    "kmeans": Case("PrivateKMeans.fit", lambda who: PrivateKMeans(**TWO).fit(who.load)),
    "kmeans, unit L2 norm": Case(
        "PrivateKMeans.fit",
        lambda who: PrivateKMeans(**TWO, normalise=True).fit(who.load),
    ),
    "kmeans, several days": Case(
        "PrivateKMeans.fit",
        lambda who: PrivateKMeans(**TWO, slots_per_day=12, clip_kw=5.0).fit(who.load),
    ),
    "kmeans by class": Case(
        "private_kmeans_by_class",
        lambda who: private_kmeans_by_class(PrivateKMeans(**TWO), who.load, who.groups, LEVELS),
    ),
    "load shapes": Case("load_shapes", lambda who: load_shapes(who.load, **GUARANTEE)),
    "load shapes by group": Case(
        "load_shapes",
        lambda who: load_shapes(who.load, groups=who.groups, levels=LEVELS, **GUARANTEE),
        on_spark=True,
    ),
    "duration curve": Case(
        "load_duration_curve", lambda who: load_duration_curve(who.load, clip_kw=5.0, **GUARANTEE)
    ),
    "duration curve, several days": Case(
        "load_duration_curve",
        lambda who: load_duration_curve(who.load, slots_per_day=4, **GUARANTEE),
    ),
    "cluster shares": Case(
        "cluster_shares",
        lambda who: cluster_shares(
            who.load,
            centroids=CENTROIDS,
            groups={"class": who.groups},
            levels={"class": LEVELS},
            **GUARANTEE,
        ),
        on_spark=True,
    ),
    "labels": Case(
        "release_labels",
        lambda who: release_labels(
            who.load, centroids=CENTROIDS, sizes=[1.0, 1.0], epsilon=1.0, customer_ids=who.ids
        ),
        has_list=True,
        on_spark=True,
    ),
    "labels of clusters": Case("PrivateKMeans.release_labels", labels_of_clusters, has_list=True),
    "synthesizer": Case("LoadSynthesizer.fit", lambda who: LoadSynthesizer(**TWO).fit(who.load)),
    "synthesizer, given centroids": Case(
        "LoadSynthesizer.fit",
        lambda who: LoadSynthesizer(**TWO, centroids=CENTROIDS).fit(who.load),
    ),
    "years": Case(
        "YearSynthesizer.fit",
        lambda who: YearSynthesizer(**TWO, **YEARS).fit(who.load),
        width=4 * 14,
    ),
    "bundle, years": Case(
        "release_products",
        lambda who: release_products(who.profiles, YEAR_PLAN),
        width=24 * KEPT_DAYS,
        in_memory_only=True,
    ),
    "series": Case("release_load_period", whole_series, in_memory_only=True),
    "bundle": Case(
        "release_products",
        lambda who: release_products(who.profiles, PLAN, customer_list=who.listed),
    ),
}
NOT_RELEASED = {
    "PrivateKMeans.guarantee": "public",
    "PrivateKMeans.guarantee_with": "public",
    "LoadSynthesizer.guarantee": "public",
    "LoadSynthesizer.sample": "drawn from the released model",
    "YearSynthesizer.sample": "drawn from the released model",
    "composed_guarantee": "public",
    "label_design": "a channel, from released clusters",
    "PrivateKMeans.predict": "exact labels for the data holder; nothing is released",
    "PrivateKMeans.fit_predict": "a fit, and exact labels for the data holder",
    "PrivateKMeans.comparable": "exact rows for the data holder",
    "PrivateKMeans.comparable_rows": "private rows",
    "release_means": "what load_shapes and load_duration_curve call",
    "means_within": "what release_means and release_load_period call",
    "first_radii": "from released numbers",
    "period_units": "public",
    "check_noise": "public: a design and its past periods",
    "day_calendar": "public",
    "release_segments": "what release_load_period calls",
    "all_segments": "from released numbers",
    "follow_segments": "from released numbers",
    "found_in": "from released numbers",
    "numbered": "from released numbers",
}
INTERNAL = {"rows", "queries", "instance", "pipeline_check", "estimator", "weak_guarantees"}
"""Modules without a release of the global tier."""


def some_rows(customers: int, width: int) -> Rows:
    """Return simulated customers of two groups, of as many columns."""
    homes = np.array(simulate_load_kw(customers=max(customers, 1)))[:customers]
    load = np.tile(homes, (1, -(-width // 24)))[:, :width]
    if width > 24:  # days that differ
        load = load * (1.0 + 0.1 * np.sin(np.arange(load.size)).reshape(load.shape))
    names = tuple(f"customer {row:05}" for row in range(customers))
    return Rows(load, tuple(LEVELS[row % 2] for row in range(customers)), names)


def neighbours_of(
    case: Case, rows: Rows, engine: Engine, hostile: int
) -> Iterator[Neighbour[Customers]]:
    """Yield neighbours: hostile rows added, rows without data added, a customer removed.

    Fewer than ten hostile rows are a quick look: then no row without data is added.
    """
    listed = (*rows.ids, ADDED)
    nothing = rows_without_data(case.width)
    added = dict(list(hostile_rows(rows.load).items())[:hostile])
    added |= nothing if hostile == HOSTILE else {}
    # Pseudonyms hide whose label changed.
    own_id = None if case.covers == "release_labels" else ADDED
    for name, row in added.items():
        data = engine(rows.with_row(row), listed)
        yield Neighbour(name=name, data=data, customer_id=own_id, adds_nothing=name in nothing)
    for place in range(min(len(rows.load), 1)):
        for zero_out in (True, False)[: 1 if case.has_list or hostile < HOSTILE else 2]:
            fewer = rows.without(place, zero_out=zero_out)
            fewer = fewer.with_row(nothing["NaN"]) if case.has_list else fewer
            own_id = own_id and rows.ids[place]
            yield Neighbour(name="removed", data=engine(fewer, listed), customer_id=own_id)


def audit(
    case: Case,
    *,
    customers: int,
    engine: Engine = in_memory,
    release: Release | None = None,
    hostile: int = HOSTILE,
) -> ReplayAudit:
    """Audit one release function at one number of customers."""
    public_clusters()  # before anything is recorded
    rows = some_rows(customers, case.width)
    base = rows.with_row(np.full(case.width, np.nan)) if case.has_list else rows
    first = engine(base, (*rows.ids, ADDED))
    return replay_audit(release or case.release, first, neighbours_of(case, rows, engine, hostile))


@pytest.fixture(scope="module", autouse=True)
def constants() -> Iterator[None]:
    """Compute once what no run can change: noise scales and grants."""
    with pytest.MonkeyPatch.context() as patch:
        remember_constants(patch)
        tables: dict[bytes, tuple[Floats, Floats]] = {}

        def remembered(days: DayToDay, fresh: Floats) -> tuple[Floats, Floats]:
            key = pickle.dumps((days, fresh))  # equal in every replay, unless something leaks
            if key not in tables:
                tables[key] = score_tables(days, fresh)
            return tables[key]

        patch.setattr(year_model, "score_tables", remembered)
        yield


def check(found: ReplayAudit, case: Case) -> None:
    """No fault, and every ratio at most 1, in exact arithmetic."""
    assert not found.faults, [str(fault) for fault in found.faults]
    for part in found.parts:
        assert part.budget_ratio <= 1, part
        assert all(query.ratio <= 1 for query in part.queries), part
    assert found.holds, case
    assert found.worst_ratio > 0.99  # the bound is reached, so the audit compares something


@pytest.mark.parametrize("customers", [0, 1, 40, *([3_000] if SOAK else [])])
@pytest.mark.parametrize("name", CASES)
def test_no_customer_exceeds_the_sensitivity(name: str, customers: int) -> None:
    """Ten hostile rows, rows without data, removal and zero-out: in memory.

    With no customer or one, three hostile rows are added, and all ten in `make soak`.
    """
    hostile = HOSTILE if customers >= 40 or SOAK else 3
    check(audit(CASES[name], customers=customers, hostile=hostile), CASES[name])


@pytest.mark.parametrize("customers", [40, *([0, 1, 3_000] if SOAK else [])])
@pytest.mark.parametrize(
    "name",
    [name for name, case in CASES.items() if case.on_spark or (SOAK and not case.in_memory_only)],
)
def test_no_customer_exceeds_it_on_spark(
    name: str, customers: int, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same on Spark.

    K-means, of which each step is a job, is left to `make soak`, with few steps: its integers are
    those of memory, to the bit (`test_spark_rows`).
    """
    walk_few_steps(monkeypatch)
    engine = partial(on_spark, spark)
    hostile = HOSTILE if SOAK else 1
    check(audit(CASES[name], customers=customers, engine=engine, hostile=hostile), CASES[name])


CHEAP = ["load shapes by group", "duration curve", "cluster shares", "synthesizer, given centroids"]


@settings(max_examples=15, deadline=None)
@given(row=arrays.arrays(np.float64, 24, elements=st.floats(width=64)), name=st.sampled_from(CHEAP))
def test_no_row_at_all_exceeds_it(row: Floats, name: str) -> None:
    """Any 24 floats as the row of a customer; with NaN or infinity among them, no data."""
    rows = some_rows(5, 24)
    nothing = not np.isfinite(row).all()
    other = Neighbour(name="drawn", data=in_memory(rows.with_row(row), ()), adds_nothing=nothing)
    found = replay_audit(CASES[name].release, in_memory(rows, ()), [other])
    assert found.holds, [str(fault) for fault in found.faults]


def exported() -> set[str]:
    """Return every public function, and every public method of every estimator, of the releases."""
    found = set()
    for module in pkgutil.iter_modules(wattveil.release.__path__):
        if module.name in INTERNAL:
            continue
        own = importlib.import_module(f"wattveil.release.{module.name}")
        for name, value in vars(own).items():
            if name.startswith("_") or getattr(value, "__module__", "") != own.__name__:
                continue
            if inspect.isfunction(value):
                found.add(name)
            elif inspect.isclass(value) and hasattr(value, "fit"):
                methods = {
                    method for method in vars(value) if inspect.isfunction(vars(value)[method])
                }
                found |= {f"{name}.{method}" for method in methods | {"fit"} if method[0] != "_"}
    return found


def test_every_release_function_has_a_case() -> None:
    """What `wattveil.release` exports is audited here, or listed with the reason why not."""
    audited = {case.covers for case in CASES.values()} - {"release_products"}
    assert audited.isdisjoint(NOT_RELEASED)
    assert exported() == audited | set(NOT_RELEASED)


# --- planted faults -------------------------------------------------------------------------------


def forget_clipping(patch: pytest.MonkeyPatch) -> None:
    """Features are added as they are."""

    def unclipped(features: Floats, cells: NDArray[np.int64], totals: NDArray[np.int64]) -> bool:
        for row, cell in zip(features, cells, strict=True):
            if cell != NO_DATA:
                totals[cell] += np.clip(np.nan_to_num(row) / STEP, -(2.0**60), 2.0**60).astype(int)
        return True

    patch.setattr(contributions, "_add_clipped", unclipped)


def count_twice(patch: pytest.MonkeyPatch) -> None:
    """Every block is added up twice."""

    def twice(rows: LocalRows[Any], work: contributions.BlockSums) -> contributions.BoundedTotals:
        return work.total([*rows._over_blocks(work), *rows._over_blocks(work)])

    patch.setattr(LocalRows, "add_up", twice)


def patched_rows(patch: pytest.MonkeyPatch, name: str, divisor: Callable[[Floats], float]) -> None:
    """Let a row function divide the load by a number that depends on the whole block."""
    genuine = getattr(load_features, name)

    def divided(load_kw: Floats, *others: Any, **public: Any) -> Any:  # noqa: ANN401 - of any
        return genuine(load_kw / divisor(load_kw), *others, **public)

    patch.setattr(load_features, name, row_function(divided))


def halve_the_scale(patch: pytest.MonkeyPatch) -> None:
    """The noise scale is half of what the charge pays for."""
    genuine = accounting.noise_scale
    patch.setattr(accounting, "noise_scale", lambda **how: 0.5 * genuine(**how))


def largest(load_kw: Floats) -> float:
    """Return the largest load of a block."""
    return float(np.nanmax(np.abs(load_kw), initial=1.0))


PATCHES: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "clipping forgotten": ("load shapes by group", forget_clipping),
    "clipping forgotten in a bundle": ("bundle", forget_clipping),
    "a customer counted twice": ("cluster shares", count_twice),
    "divided by the largest load of the block": (
        "kmeans",
        partial(patched_rows, name="project_rows", divisor=largest),
    ),
    "divided by the number of rows": (
        "kmeans",
        partial(patched_rows, name="project_rows", divisor=lambda rows: max(len(rows), 1.0)),
    ),
    "scaled by the number of customers": (
        "load shapes by group",
        partial(
            patched_rows,
            name="group_coordinates",
            divisor=lambda rows: 40.0 / max(len(rows), 1),
        ),
    ),
    "half the noise scale": ("load shapes", halve_the_scale),
}


@pytest.mark.parametrize("fault", PATCHES)
def test_an_exceeded_sensitivity_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ratio above 1, for a fault planted in the source."""
    name, plant = PATCHES[fault]
    plant(monkeypatch)
    # A second row halves what the only customer of the first run contributes.
    found = audit(CASES[name], customers=1 if "number of rows" in fault else 40, hostile=2)
    assert found.worst_ratio > 1
    assert "sensitivity exceeded" in {part.verdict for part in found.parts}
    assert not found.holds


def exact_group_counts(who: Customers) -> object:
    """Publish how many customers each group really has."""
    exact = np.array([who.groups.count(level) for level in LEVELS], dtype=np.float64)
    released = load_shapes(who.load, groups=who.groups, levels=LEVELS, **GUARANTEE)
    return replace(released, customers=exact)


def share_by_count(who: Customers) -> object:
    """Choose the noise by the exact number of customers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_load, "SIZE_SHARE", 0.1 + 1e-3 * len(who.load))
        return load_shapes(who.load, **GUARANTEE)


def keep_rows(who: Customers) -> object:
    """Keep private rows in what is published."""
    fit = PrivateKMeans(**TWO).fit(who.load)
    fit.rows_ = LocalRows(who.load)
    return fit


def stop_at_large_loads(who: Customers) -> object:
    """Refuse a customer by its exact load."""
    if np.nanmax(who.load, initial=0.0) > 1e5:
        raise ZeroDivisionError
    return load_shapes(who.load, **GUARANTEE)


def one_more_query(who: Customers) -> object:
    """Send another query if a customer is large."""
    if np.nanmax(who.load, initial=0.0) > 1e5:
        load_shapes(who.load, **GUARANTEE)
    return load_shapes(who.load, **GUARANTEE)


def exact_sizes(who: Customers) -> object:
    """Publish exact cluster sizes beside randomised labels."""
    (own,) = load_features.nearest_centroid(who.load, centroids=CENTROIDS)
    sizes = np.bincount(own[own != NO_DATA], minlength=2).astype(np.float64)
    return replace(CASES["labels"].release(who), sizes=sizes)  # type: ignore[type-var]


def charge_half(who: Customers) -> object:
    """State half of what the labels cost."""
    released: Any = CASES["labels"].release(who)
    (spend,) = released.spends
    half = replace(spend, response_epsilon=0.5 * spend.response_epsilon)
    return replace(released, spends=(half,))


def labels_of_others(who: Customers) -> object:
    """Let the labels of all depend on whether a customer is large."""

    def shifted(load_kw: Floats, *, centroids: Floats) -> tuple[NDArray[np.int64]]:
        (own,) = load_features.nearest_centroid(load_kw, centroids=centroids)
        return (np.where(own == NO_DATA, own, own ^ int(np.nanmax(load_kw, initial=0.0) > 1e5)),)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomised_labels, "nearest_centroid", row_function(shifted))
        return CASES["labels"].release(who)


@pytest.mark.parametrize(
    ("name", "release", "words"),
    [
        ("load shapes by group", exact_group_counts, "customers is not the same"),
        ("load shapes", share_by_count, "made another query"),
        ("load shapes", one_more_query, "made another query"),
        ("load shapes", stop_at_large_loads, "stopped: ZeroDivisionError"),
        ("kmeans", keep_rows, "rows_ is not the same"),
        ("labels", exact_sizes, "sizes is not the same"),
        ("labels", labels_of_others, "table is not the same"),
    ],
)
def test_an_exact_value_that_leaves_is_caught(name: str, release: Release, words: str) -> None:
    """A released value, a query or an error that depends on more than noisy numbers."""
    found = audit(CASES[name], customers=40, release=release)
    assert not found.holds
    assert any(words in fault.text for fault in found.faults), found.faults


def test_labels_that_cost_more_than_their_charge_are_caught() -> None:
    """The epsilon of the channel is twice what was charged."""
    assert audit(CASES["labels"], customers=1, release=charge_half).worst_ratio == 2


def test_noise_below_its_scale_is_not_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the audit cannot see: a sampler that draws less than the scale that it is given.

    tests/statistical has the law of the sampler.
    """
    genuine = NoiseSource.discrete_gaussian
    monkeypatch.setattr(
        NoiseSource, "discrete_gaussian", lambda own, scale, size: genuine(own, 0.5 * scale, size)
    )
    assert audit(CASES["load shapes"], customers=40).holds
