"""Results of the public API: tables, charts and notebook output, found by walking the API."""

import builtins
import datetime as dt
import importlib
import inspect
import io
import re
import types
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wattveil
from tests.sample_bundles import EVERYTHING, make_bundle, only, without_plan_simulation
from wattveil import Profiles
from wattveil.bundle.plan import ReleasePlan, plan_release
from wattveil.bundle.series_request import Calendar
from wattveil.declaration import Declaration
from wattveil.errors import InvalidParameterError, MissingExtraError
from wattveil.grid import Feeder, Flow, GridComparison, OptimalFlow
from wattveil.grid.experiment import GridRow
from wattveil.grid.large_customers import SetAside
from wattveil.lab.audit.release_audit import audit_release
from wattveil.lab.audit.replay_audit import replay_release
from wattveil.lab.baselines.accuracy_limit import AccuracyLimit
from wattveil.lab.baselines.baseline_comparison import BaselineComparison, MeasuredRun, RunKey
from wattveil.lab.evaluation.customer_samples import SampleLayout
from wattveil.lab.evaluation.fidelity_comparison import evaluate_load
from wattveil.numerics.measures.verdicts import Verdict
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.products.clusters import KMeansPlan
from wattveil.products.labels import plan_labels
from wattveil.products.load import LoadPlan
from wattveil.products.released_channel import label_channel
from wattveil.products.shares import plan_shares
from wattveil.products.synthesis import SyntheticPlan
from wattveil.products.years import YearPlan
from wattveil.profiles import TimeGrid, build_profiles
from wattveil.readings import Readings
from wattveil.server.client import (
    Quote,
    RemoteBudget,
    RemoteDatasets,
    RemoteRelease,
    RemoteReleases,
)
from wattveil.server.client_transport import Transport
from wattveil.web.results import ChartedResult, PrivateResult, Result

API_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
ID, PLANTED_KW = "PLANTED-ID-{:03}", 7.654321
PLANTED = ("PLANTED-ID", "7.65")
NOT_RESULTS = {
    "LoadSeries": "a series on disk; its method result returns the tables",
    "SeriesDesign": "public choices",
    "Erasure": "numbers of ids in a receipt of the data holder, which is private",
    "Deleted": "names of folders that the end of a series deleted",
    "Levels": "curves with their bands, of which SeriesResult makes a table",
    "Trend": "a part of SeriesResult, which has it as a table",
    "Guarantee": "a value of the kernel; its sentence is its text",
    "Connection": "a handle: what it returns are results",
    "RemoteDataset": "a handle, as above",
    "RowChecks": "SQL of the readings package",
    "PlanningRow": "a line of the summary of a feeder comparison, which is a result",
    "Reconciliation": "SQL of the readings package",
    "SlotTotals": "batches of the readings package",
    "Rows": "private rows, which only mechanisms may read",
    "SparkRows": "as above",
    "SparkReadings": "private rows of an engine",
    "SparkProfiles": "private rows of an engine",
    "BoundedTotals": "exact sums, which only mechanisms may read",
    "PlanSummary": "JSON of a plan",
    "TemperatureResponse": "slopes of one regression; its statement is its text",
    "PaperMechanism": "internals of the figures of the paper",
    "StudyCustomers": "internals of the figures of the paper",
}


# --- the walk -------------------------------------------------------------------------------------


def public_objects() -> Iterator[Any]:
    """Yield `__all__` and everything that the page of the Python API names."""
    for name in wattveil.__all__:
        yield getattr(wattveil, name)
    for dotted in re.findall(r"^::: (\S+)$", API_PAGE.read_text(), re.MULTILINE):
        module, _, name = dotted.rpartition(".")
        yield getattr(importlib.import_module(module), name)


def returned(function: types.FunctionType) -> Iterator[type]:
    """Yield the classes in the return annotation of a function."""
    try:
        names = {**vars(typing), **function.__globals__, **lazily_imported(function.__module__)}
        hints = inspect.get_annotations(function, globals=names, eval_str=True)
    except (AttributeError, NameError, TypeError) as error:
        raise AssertionError(f"{function} cannot be read") from error
    pending = [hints.get("return")]
    while pending:
        hint = pending.pop()
        origin = typing.get_origin(hint)
        if origin is None and isinstance(hint, type):
            yield hint
        if origin is not None:
            pending += [origin, *typing.get_args(hint)]


@cache
def lazily_imported(module: str) -> dict[str, Any]:
    """Return the names that a module imports for type checkers alone."""
    source = inspect.getsource(importlib.import_module(module))
    found: dict[str, Any] = {}
    blocks = re.findall(r"^if TYPE_CHECKING:.*?\n((?:    .*\n|\n)+)", source, re.MULTILINE)
    for block in blocks:
        exec(inspect.cleandoc("\n" + block), found)  # noqa: S102 - imports of the module itself
    return found


def functions_of(one: object) -> Iterator[types.FunctionType]:
    """Yield a public function, or the public methods and properties of a class."""
    if not isinstance(one, type):
        if callable(one) and isinstance(plain := inspect.unwrap(one), types.FunctionType):
            yield plain
        return
    for name, member in inspect.getmembers_static(one):
        inner = {property: "fget", cached_property: "func"}.get(type(member), "__func__")
        function = getattr(member, inner, member)
        ours = str(getattr(function, "__module__", "")).startswith("wattveil.")
        if ours and not name.startswith("_") and isinstance(function, types.FunctionType):
            yield function


@cache
def result_classes() -> frozenset[type]:
    """Return every class of the package that a public function or method returns."""
    found: set[type] = set()
    pending = [one for one in public_objects() if callable(one)]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, type) and issubclass(one, Result):
            found.add(one)
        for function in functions_of(one):
            for kind in returned(function):
                plain = issubclass(kind, (Declaration, Enum)) or kind.__module__ == "typing"
                if kind.__module__.startswith("wattveil.") and not plain:
                    found.add(kind)
                    if issubclass(kind, Result):
                        pending.append(kind)
    return frozenset(found)


def test_every_class_that_the_api_returns_is_a_result() -> None:
    """A class is a result or has a reason why it is none; no reason is left over."""
    others = {kind.__name__ for kind in result_classes() if not issubclass(kind, Result)}
    assert others <= set(NOT_RESULTS)
    known = {kind.__name__ for kind in result_classes()}
    assert {"LoadShapes", "PrivateKMeans", "Profiles", "VerificationReport", "Quote"} <= known


# --- one instance of each -------------------------------------------------------------------------


@cache
def load_kw() -> np.ndarray:
    """Return the load of 60 customers, one of which is planted."""
    rows = np.array(wattveil.simulate.simulate_load_kw(customers=60))
    rows[7] = PLANTED_KW
    return rows


@cache
def profiles() -> Profiles:
    """Return profiles with planted names and a planted load."""
    return Profiles(
        customer_ids=tuple(map(ID.format, range(60))),
        load_kw=load_kw().copy(),
        grid=TimeGrid(),
        timezone="UTC",
        attributes={"class": tuple("ab"[row % 2] for row in range(60))},
    )


@cache
def clusters() -> wattveil.PrivateKMeans:
    """Return released clusters."""
    return wattveil.PrivateKMeans(n_clusters=2, epsilon=5.0).fit(load_kw())


@cache
def synthesizer() -> wattveil.LoadSynthesizer:
    """Return a released model of days."""
    return wattveil.LoadSynthesizer(n_clusters=2, epsilon=5.0).fit(load_kw())


@cache
def years() -> wattveil.YearSynthesizer:
    """Return a released model of two weeks."""
    hours = np.tile(load_kw(), (1, 14))
    made = wattveil.YearSynthesizer(
        first_day=dt.date(2025, 1, 6),
        n_clusters=2,
        epsilon=5.0,
        split=wattveil.profiles.Split.WEEKDAY_WEEKEND,
    )
    return made.fit(hours)


def readings(folder: Path) -> Readings:
    """Return readings of two customers over 15 days, one planted."""
    lines = ["customer_id,start,kwh"]
    for day in range(15):
        for hour in range(24):
            start = dt.datetime(2025, 1, 6) + dt.timedelta(days=day, hours=hour)  # noqa: DTZ001
            lines += [f"{ID.format(n)},{start:%Y-%m-%dT%H:%M},{PLANTED_KW}" for n in range(2)]
    path = folder / "readings.csv"
    path.write_text("\n".join(lines))
    return wattveil.read_readings(path, timezone="UTC")


def remote(folder: Path) -> RemoteRelease:
    """Return a release whose server is a folder."""

    class Local(Transport):
        def fetch(self, path: str, *, max_bytes: int = 0) -> bytes:
            del max_bytes
            name = path.rpartition("/")[2]
            return (folder / ("" if name == "manifest" else "tables") / name).read_bytes()

        def get(self, path: str) -> dict[str, Any]:
            del path
            return dict(wattveil.read_bundle(folder).manifest)

    return RemoteRelease(Local("http://localhost", "token"), "r")


def flow() -> Flow:
    """Return a flow of two snapshots, three buses and two branches."""
    whole, per_bus, per_branch = np.full(2, PLANTED_KW), np.ones((2, 3)), np.ones((2, 2))
    return Flow(
        voltage_pu=per_bus,
        angle_deg=per_bus,
        current_a=PLANTED_KW * per_branch,
        loss_kw=whole,
        source_kw=whole,
        source_kvar=whole,
        failures={},
    )


def feeder() -> Feeder:
    """Return a feeder of two buses."""
    zeros = np.zeros(2)
    return Feeder(
        name="two buses",
        base_kv=11.0,
        bus_names=("a", "b"),
        slack=0,
        slack_pu=1.0,
        nominal_kw=np.ones(2),
        nominal_kvar=zeros,
        capacitor_kvar=zeros,
        from_bus=np.array([0]),
        to_bus=np.array([1]),
        r_ohm=np.ones(1),
        x_ohm=np.ones(1),
        b_us=np.zeros(1),
        rated_a=np.full(1, np.nan),
    )


def grid_comparison() -> GridComparison:
    """Return a comparison with planted figures; its samples are not shown."""
    names = "real synthetic difference_low difference_high distance low high noise"
    numbers = dict.fromkeys([*names.split(), "smallest_detectable"], PLANTED_KW)
    row = GridRow(
        metric="loss",
        unit="kW",
        compares="value",
        ratio=0.5,
        control_ratio=2.0,
        verdict=next(iter(Verdict)),
        shown="",
        **numbers,
    )
    named = types.SimpleNamespace
    sample: Any = None
    setting: Any = named(feeder=feeder(), placement=named(houses=3), power_factor=0.9)
    return GridComparison(
        rows=(row,),
        setting=setting,
        real=sample,
        synthetic=sample,
        control=sample,
        class_names=(),
        class_mix_distance=0.0,
        synthetic_failures={},
        set_aside=SetAside(0, 0, 0.0, 0.0),
        redraws=100,
    )


def optimal_flow() -> OptimalFlow:
    """Return set points of two snapshots."""
    per_bus, whole = np.full((2, 3), PLANTED_KW), np.ones(2)
    return OptimalFlow(
        flow=flow(),
        pv_kw=per_bus,
        inverter_kvar=per_bus,
        capacitor_kvar=per_bus,
        slack_pu=whole,
        cone_error_pu=whole,
        failures={},
    )


def baselines() -> BaselineComparison:
    """Return one run of one mechanism."""
    claimed = clusters().guarantee_
    run = MeasuredRun(
        key=RunKey("ours", 1.0, 0),
        nearest=PLANTED_KW,
        labels=None,
        cpu_seconds=0.1,
        claimed=claimed,
        true=claimed,
        true_with_labels=None,
        known_violations=(),
    )
    setting: Any = None
    limit = AccuracyLimit(
        epsilon=1.0,
        mu=0.2,
        one_draw=PLANTED_KW,
        first_order=PLANTED_KW,
        no_small_clusters=PLANTED_KW,
        min_customers=25.0,
        bound=PLANTED_KW,
    )
    return BaselineComparison(
        setting=setting, mechanisms=("ours",), runs=(run,), limits=(limit,), left_out=()
    )


def quote() -> Quote:
    """Return a quote as a server sends it."""
    expected = {"quantity": "error", "value": 0.1, "unit": "kW"}
    product = {"name": "load", "epsilon": "1.0", "delta": "1e-6", "share_of_rho": 1.0}
    plan = {"products": [{**product, "expected": [expected]}], "customers_estimate": 500}
    return Quote({"epsilon": "1.0", "delta": "1e-6", "plan": plan})


def plan() -> ReleasePlan:
    """Return the plan of one product; nothing is simulated."""
    request = EVERYTHING.replace(weights=only("load"), label_epsilon=None)
    with without_plan_simulation():
        return plan_release(request, TimeGrid())


LOAD: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}
BY: dict[str, Any] = {"groups": ["a", "b"] * 30, "levels": ["a", "b", "ü <c>"]}


@cache
def two_years(folder: Path, *, segments: int = 0) -> wattveil.LoadSeries:
    """Return a series of two years with a period each; with segments, after the first."""
    series = wattveil.LoadSeries.begin(
        folder / f"series{segments}",
        **LOAD,
        periods=2,
        every=Calendar.YEAR,
        first="2026",
        by="class",
        levels=("a", "b", "ü <c>"),
        segments=segments,
    )
    for _ in range(2 if not segments else 1):
        series.add(profiles())
    return series


MAKERS: dict[str, Callable[[Path], Any]] = {
    "SeriesPlan": lambda folder: two_years(folder).plan(),
    "SeriesResult": lambda folder: two_years(folder).result(),
    "SegmentPrices": lambda folder: two_years(folder, segments=2).segment_prices(),
    "SegmentsOverTime": lambda folder: two_years(folder, segments=3).result().segments,
    "AuditReport": lambda _: audit_release(
        EVERYTHING.replace(weights=only("load"), label_epsilon=None, by=None, levels=()),
        profiles(),
        runs=4,
        canaries=32,
        confidence=0.9,
    ),
    "BaselineComparison": lambda _: baselines(),
    "Bundle": lambda folder: wattveil.read_bundle(bundle(folder)),
    "Comparison": lambda folder: wattveil.read_bundle(bundle(folder)).compare(0, 1),
    "ClusterShares": lambda _: wattveil.cluster_shares(
        load_kw(),
        centroids=clusters().cluster_centers_,
        groups={"zip": ["a", "b"] * 30},
        levels={"zip": ["a", "b"]},
        **LOAD,
    ),
    "Evaluation": lambda _: evaluate_load(
        load_kw(), load_kw() + 0.01, SampleLayout(slots_per_day=24), n_clusters=2
    ),
    "Feeder": lambda _: feeder(),
    "Flow": lambda _: flow(),
    "GridComparison": lambda _: grid_comparison(),
    "Hours": lambda folder: wattveil.hours_from_readings(
        readings(folder), first_day=dt.date(2025, 1, 6), n_days=2
    ),
    "KMeansByClass": lambda _: wattveil.private_kmeans_by_class(
        wattveil.PrivateKMeans(n_clusters=2), load_kw(), ["a", "b"] * 30, ["a", "b"]
    ),
    "KMeansPlan": lambda _: KMeansPlan(
        queries={"customers": 0.1},
        signal=10.0,
        expected_loss=0.1,
        loss_range=(0.05, 0.2),
        expected_error=0.1,
        error_range=(0.01, 0.3),
        supported_clusters=2,
        supported_range=(2, 4),
        distinguishable_clusters=2,
    ),
    "LabelChannel": lambda _: label_channel(
        np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]]), np.ones(2)
    ),
    "LabelPlan": lambda _: plan_labels(n_clusters=3, epsilon=1.0, n_customers=100),
    "LeaveOneOutKMeans": lambda _: wattveil.LeaveOneOutKMeans(n_clusters=2).fit(load_kw()),
    "LoadDuration": lambda _: wattveil.load_duration_curve(load_kw(), **BY, **LOAD),
    "LoadPlan": lambda _: LoadPlan(error_kw=np.ones(2), clip_kw=np.ones(2)),
    "LoadShapes": lambda _: wattveil.load_shapes(load_kw(), **BY, **LOAD),
    "LoadSynthesizer": lambda _: synthesizer(),
    "MeanLoad": lambda folder: wattveil.read_bundle(bundle(folder)).mean_load(),
    "OptimalFlow": lambda _: optimal_flow(),
    "PrivateKMeans": lambda _: clusters(),
    "ProfileBuild": lambda folder: build_profiles(readings(folder)),
    "Profiles": lambda _: profiles(),
    "Quote": lambda _: quote(),
    "ReadingReport": lambda folder: readings(folder).report,
    "Readings": readings,
    "ReleasePlan": lambda _: plan(),
    "ReleasedLabels": lambda _: clusters().release_labels(
        load_kw(), epsilon=1.0, customer_ids=profiles().customer_ids
    ),
    "RemoteBudget": lambda _: RemoteBudget(
        own={"epsilon_cap": "1.0", "epsilon_spent": "0.5", "share_spent": 0.5}, dataset=None
    ),
    "RemoteDatasets": lambda _: RemoteDatasets(
        [{"name": "homes", "closed": False, "customers": 500, "clip_kw": 5.0}]
    ),
    "RemoteReleases": lambda _: RemoteReleases(
        [{"id": "1-1", "dataset": "homes", "state": "ok", "request": {"epsilon": "1"}}]
    ),
    "RemoteRelease": lambda folder: remote(bundle(folder)),
    "ReplayAudit": lambda _: replay_release(
        EVERYTHING.replace(weights=only("load"), label_epsilon=None, by=None, levels=()),
        profiles(),
        removals=1,
    ),
    "SharesPlan": lambda _: plan_shares(
        n_clusters=2, levels={"zip": ["a", "b"]}, n_customers=100, **LOAD
    ),
    "SyntheticCustomers": lambda _: synthesizer().sample(5, random_state=1),
    "SyntheticModel": lambda _: synthesizer().model_,
    "YearPlan": lambda _: YearPlan(peak_bias=(-0.1, -0.2, 0.1), energy_bias=(0.0, -0.1, 0.1)),
    "SyntheticPlan": lambda _: SyntheticPlan(slot_distance=0.1, correlation_error=0.1),
    "VerificationReport": lambda folder: wattveil.read_bundle(bundle(folder)).verify(),
    "YearModel": lambda _: years().year_model_,
    "YearSynthesizer": lambda _: years(),
}


def bundle(folder: Path) -> Path:
    """Return the bundle that every test of this module reads."""
    out = folder / "bundle"
    if not out.exists():
        make_bundle(out)
    return out


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the files of all tests."""
    return tmp_path_factory.mktemp("results")


@cache
def made_once(name: str, folder: Path) -> Result:
    """Return the instance that all tests share."""
    made: Result = MAKERS[name](folder)
    return made


@pytest.fixture(params=sorted(MAKERS))
def result(request: pytest.FixtureRequest, shared: Path) -> Result:
    """One instance of every class."""
    made = made_once(request.param, shared)
    assert type(made).__name__ == request.param
    return made


def test_there_is_an_instance_of_every_class() -> None:
    """A new result of the API is tested as soon as it is there."""
    found = {kind.__name__ for kind in result_classes() if issubclass(kind, Result)}
    bases = {"ReleaseTables"}
    assert found - bases == set(MAKERS)


def test_tables_agree_and_survive_parquet(result: Result) -> None:
    """A data frame has the columns of Arrow, its keys as index; Parquet returns the same table."""
    assert result.tables
    for name in result.tables:
        data = result.to_arrow(name)
        assert data.num_rows >= 1
        frame = result.to_pandas(name)
        flat = frame if frame.index.names == [None] else frame.reset_index()
        assert list(flat.columns) == data.column_names
        assert frame.index.is_unique
        pd.testing.assert_frame_equal(flat, data.to_pandas())
        buffer = io.BytesIO()
        pq.write_table(data, buffer)
        stored = pq.read_table(buffer)
        assert stored.schema.equals(data.schema)
        pd.testing.assert_frame_equal(stored.to_pandas(), data.to_pandas())
        buffer = io.BytesIO()
        frame.to_parquet(buffer)
        assert pq.read_table(buffer).num_rows == data.num_rows
    first = result.to_arrow(result.tables[0]).to_pandas()
    pd.testing.assert_frame_equal(result.to_arrow().to_pandas(), first)
    with pytest.raises(InvalidParameterError, match="table"):
        result.to_arrow("no such table")


def test_profiles_have_a_column_per_slot_by_default() -> None:
    """One row per customer, indexed by id; loads are numbers under the names of their slots."""
    made = profiles()
    frame = made.to_pandas()
    assert list(frame.index) == list(made.customer_ids)
    slots = [f"load_kw {label}" for label in made.grid.labels]
    assert list(frame.columns) == [*made.attributes, *slots]
    np.testing.assert_array_equal(frame[slots].to_numpy(), made.load_kw)
    assert "load_kw" in made.to_pandas("profiles").columns  # the table of the file


def test_notebook_output_is_well_formed_and_shows_nothing_private(result: Result) -> None:
    """HTML parses strictly; neither it nor the text has an id or a private value."""
    html = result._repr_html_()
    root = ET.fromstring(html)  # noqa: S314 - our own
    shown = "".join(root.itertext())
    assert type(result).__name__ in shown
    outputs = result._repr_mimebundle_()
    assert outputs == {"text/plain": repr(result), "text/html": html}
    for text in outputs.values():
        assert not [word for word in PLANTED[:1] if word in text]
    if isinstance(result, PrivateResult):
        assert not [word for text in outputs.values() for word in PLANTED if word in text]
        assert "not shown" in shown
    assert "<script" not in html


def test_released_results_lead_with_their_guarantee(result: Result) -> None:
    """One line states epsilon, delta and for whom; or that no bound holds for the release."""
    guarantee = getattr(result, "guarantee_", getattr(result, "guarantee", None))
    if isinstance(guarantee, Guarantee):
        shown = result._repr_html_()
        if guarantee.tier is Tier.INSTANCE:
            assert "No bound holds for the release as a whole." in shown
            return
        assert f"({guarantee.epsilon}, {guarantee.delta})-" in shown
        assert "for each customer" in shown


def test_texts_state_the_guarantee_and_no_arrays(result: Result) -> None:
    """The text of a result fits a terminal: what it is and its guarantee, not its numbers."""
    assert len(repr(result)) < 2000
    guarantee = getattr(result, "guarantee", None)
    if isinstance(guarantee, Guarantee):
        assert f"{guarantee.epsilon:g}" in repr(result)
        assert "array(" not in repr(result)


def test_charts_have_bands_of_their_standard_errors(result: Result) -> None:
    """A band reaches 1.96 standard errors to each side; without errors there is none."""
    if not isinstance(result, ChartedResult):
        assert not hasattr(result, "plot")
        return
    chart = result._chart()
    assert chart.curves
    figure = result.plot()
    bars = [trace for trace in figure.data if trace.type == "bar"]
    bands = [] if bars else [trace for trace in figure.data if trace.fill == "toself"]
    errors = [curve for curve in chart.curves if curve.std is not None]
    assert len(bands) + sum(bar.error_y.visible for bar in bars) == len(errors)
    for curve, band in zip(errors, bands, strict=False):
        high = np.asarray(band.y, float)[: len(curve.load)]
        np.testing.assert_allclose(high - curve.load, 1.96 * np.asarray(curve.std))
    for curve, bar in zip(errors, bars, strict=False):
        reach = np.asarray(bar.error_y.array, float)
        np.testing.assert_allclose(reach, 1.96 * np.asarray(curve.std))
    assert ("1.96 standard errors" in str(figure.layout.title.text)) == bool(errors)


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow works; pandas is optional."""
    plain = builtins.__import__

    def without_pandas(name: str, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401
        if name == "pandas":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    shapes = LoadPlan(error_kw=np.ones(2), clip_kw=np.ones(2))
    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(MissingExtraError, match="pandas"):
        shapes.to_pandas()
    assert shapes.to_arrow().num_rows == 2


def test_levels_of_several_types_become_texts() -> None:
    """Arrow has one type per column."""
    shapes = wattveil.load_shapes(load_kw(), groups=[1, "b"] * 30, levels=[1, "b"], **LOAD)
    assert set(shapes.to_arrow()["group"].to_pylist()) == {"1", "b"}
    assert isinstance(shapes.to_arrow(), pa.Table)


def test_shapes_have_columns_without_a_unit() -> None:
    """Rows of unit L2 norm are not in kW, and neither are their centroids."""
    shapes = wattveil.PrivateKMeans(n_clusters=2, epsilon=5.0, normalise=True).fit(load_kw())
    assert shapes.to_arrow().column_names == ["cluster", "slot", "shape", "shape_std"]
    assert "kW" not in shapes.plot().layout.yaxis.title.text


def test_a_bundle_draws_the_curves_that_are_asked_for(shared: Path) -> None:
    """A table of load curves is drawn, any other refused with the names of those that can be."""
    published = wattveil.read_bundle(bundle(shared))
    assert "% of the average day" in published.plot("load_duration").layout.xaxis.title.text
    assert "local time" in published.plot("load_shapes").layout.xaxis.title.text
    titles = [published.plot(name).layout.title.text for name in ("load_shapes", "load_duration")]
    assert [one.partition("<br>")[0] for one in titles] == [
        "Mean load per customer",
        "Load duration curve",
    ]
    with pytest.raises(InvalidParameterError, match="load_shapes"):
        published.plot("groups")


def test_a_release_without_curves_has_an_empty_chart(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its notebook output is a table."""
    published = wattveil.read_bundle(bundle(shared))
    monkeypatch.setattr(type(published), "tables", ("groups",))
    assert not published._chart().curves
    assert "<polyline" not in published._repr_html_()


def test_texts_of_results_are_short(shared: Path) -> None:
    """A bundle states its guarantee; a sample states how many customers it has, not their rows."""
    published = wattveil.read_bundle(bundle(shared))
    assert "differentially private" in repr(published)
    assert repr(published.model.sample(2000)).startswith("SyntheticCustomers(2,000 customers, 24 ")


def test_an_estimator_shows_its_parameters_before_fit() -> None:
    """scikit-learn's diagram, until there is something to show; the text always has the budget."""
    estimator = wattveil.PrivateKMeans(n_clusters=4)
    assert "PrivateKMeans" in estimator._repr_html_()
    assert repr(estimator) == "PrivateKMeans(delta=1e-06, epsilon=1.0, n_clusters=4)"
    assert "delta=1e-06, epsilon=0.5" in repr(wattveil.PrivateKMeans(epsilon=0.5))


def test_random_state_repeats_a_sample_and_none_does_not() -> None:
    """Sampling is post-processing: a number fixes it, None draws anew."""
    model = synthesizer().model_
    first, second = (model.sample(20, random_state=3).load_kw for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(model.sample(20).load_kw, model.sample(20).load_kw)
    with pytest.raises(InvalidParameterError, match="random_state"):
        model.sample(20, random_state=-1)
