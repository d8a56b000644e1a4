"""Rows in Spark: the same integers as in memory, to the bit, however they are partitioned."""

import functools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.example_row_functions import (
    adding,
    by_number,
    by_sign_sums,
    counting,
    halved,
    named_of_positive,
    of_even,
    of_finite,
    sign_of_first,
)
from tests.release_transcripts import record, replay
from tests.sample_bundles import walk_few_steps
from wattveil import LoadSynthesizer, PrivateKMeans
from wattveil.arrays import Floats
from wattveil.engines.local import LocalRows
from wattveil.engines.spark import spark_rows as module
from wattveil.engines.spark.spark_rows import SparkRows
from wattveil.errors import InvalidDataError, InvalidParameterError, SimulatedNoiseError
from wattveil.numerics.load_basis import Calendar
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Neighbours
from wattveil.privacy.mechanisms.contributions import UNIT, BlockSums, BoundedTotals, Query
from wattveil.privacy.mechanisms.response import respond, response_channel
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import Released, ReleasedRows, Rows
from wattveil.release.rows.load_features import group_size_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

CUSTOMERS, FEW, SLOTS = 1500, 7, 24


@pytest.fixture(scope="module")
def load_kw() -> Floats:
    """Return customers with missing values, export, very large loads and zeros."""
    rows = np.random.default_rng(5).lognormal(-1.0, 0.8, size=(CUSTOMERS, SLOTS))
    rows[3, 7], rows[4], rows[5], rows[6, 0] = np.nan, 0.0, 1e6, -np.inf
    rows[7:40, 12] *= -1.0
    return rows


@pytest.fixture(scope="module")
def frame(spark: SparkSession, load_kw: Floats) -> DataFrame:
    """Return them in three partitions: with nearly all, with a few, and without customers."""
    parts = (load_kw[FEW:], load_kw[:FEW], load_kw[:0])
    kind = pa.schema([("load_kw", pa.list_(pa.float64()))])
    tables = [pa.table({"load_kw": part.tolist()}, schema=kind) for part in parts]
    return functools.reduce(DataFrame.union, map(spark.createDataFrame, tables))


@pytest.fixture
def rows(frame: DataFrame) -> SparkRows[Floats]:
    """Return the customers as rows of Spark."""
    return SparkRows(frame, np.zeros((0, SLOTS)))


@pytest.mark.parametrize(
    "estimator",
    [
        lambda: PrivateKMeans(n_clusters=3, epsilon=4.0),
        lambda: LoadSynthesizer(n_clusters=2, epsilon=8.0, centroids=np.eye(2, SLOTS)),
    ],
    ids=["clusters", "model"],
)
def test_releases_are_the_same_to_the_bit(
    estimator: Callable[[], PrivateKMeans],
    load_kw: Floats,
    rows: SparkRows[Floats],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given the same noisy numbers, all exact integers and all released numbers are the same."""
    walk_few_steps(monkeypatch)
    here, there = estimator(), estimator()
    draws = record(lambda: here.fit(load_kw))
    again = replay(lambda: there.fit(rows), draws)
    for one, two, spend in zip(draws, again, here.spends_, strict=True):
        assert np.array_equal(one.exact, two.exact), spend.tag
    assert np.array_equal(here.cluster_centers_, there.cluster_centers_)
    assert np.array_equal(here.cluster_sizes_, there.cluster_sizes_)
    assert here.spends_ == there.spends_


@pytest.fixture
def table(spark: SparkSession, load_kw: Floats) -> dict[str, SparkRows[Any]]:
    """Return columns of one table: load, names and numbers of the customers."""
    names = [f"meter {number:04}" for number in range(CUSTOMERS)]
    numbers = np.arange(CUSTOMERS)
    kinds = [("load_kw", pa.list_(pa.float64())), ("name", pa.string()), ("number", pa.int64())]
    arrow = pa.table(
        {"load_kw": load_kw.tolist(), "name": names, "number": numbers}, schema=pa.schema(kinds)
    )
    no_rows: dict[str, NDArray[Any]] = {
        "load_kw": np.zeros((0, SLOTS)),
        "name": np.zeros(0, dtype=np.object_),
        "number": np.zeros(0, dtype=np.int64),
    }
    return SparkRows.columns_of(spark.createDataFrame(arrow).repartition(3), no_rows)


@pytest.fixture
def local(load_kw: Floats) -> dict[str, LocalRows[Any]]:
    """Return the same columns in memory."""
    names = np.array([f"meter {number:04}" for number in range(CUSTOMERS)], dtype=np.object_)
    columns: dict[str, Any] = {"load_kw": load_kw, "name": names, "number": np.arange(CUSTOMERS)}
    return {name: LocalRows(column) for name, column in columns.items()}


def totals(rows: Rows[*tuple[Any, ...]], work: BlockSums) -> list[list[int]]:
    """Return the exact integers of each query."""
    return [part.tolist() for part in work.split(rows.add_up(work))]


def released(rows: Rows[*tuple[Any, ...]], *, simulated: bool = False) -> ReleasedRows[Any, Any]:
    """Return rows as a mechanism releases them."""
    value: Any = rows
    return ReleasedRows(Released(value=value, spends=(), simulated=simulated))


# --- sums -----------------------------------------------------------------------------------------


def test_sums_are_those_of_memory(rows: SparkRows[Floats], load_kw: Floats) -> None:
    """Counts and sums of several queries in one pass, over uneven and empty partitions."""
    work = by_sign_sums(SLOTS)
    assert totals(rows, work) == totals(LocalRows(load_kw), work)


def test_large_totals_are_added_up_by_executors_first(
    rows: SparkRows[Floats], load_kw: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver receives few partial sums, and the same total."""
    work = adding(SLOTS)
    monkeypatch.setattr(module, "_FEW_BYTES", len(work.pack(work(load_kw[:0]))) - 1)
    assert totals(rows, work) == totals(LocalRows(load_kw), work)


def test_no_rows_add_nothing(spark: SparkSession) -> None:
    """A frame without rows gives zeros, also after map and select."""
    empty = spark.createDataFrame([], "load_kw array<double>")
    rows = SparkRows(empty, np.zeros((0, SLOTS)))
    assert rows.width == SLOTS
    assert totals(rows, adding(SLOTS)) == [[0] * SLOTS]
    selected = rows.map(halved.bind()).select(of_finite.bind())
    assert selected.width == SLOTS
    assert totals(selected, counting()) == [[0]]


@pytest.mark.parametrize("large", [False, True])
def test_totals_with_a_wrong_code_are_refused(
    rows: SparkRows[Floats], monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    """What arrives must have the code of this query: on the driver, and in adding tasks."""
    work = counting()
    if large:
        monkeypatch.setattr(module, "_FEW_BYTES", 0)
    honest = module._packed

    def changed(sums: BlockSums, parts: Any) -> pa.RecordBatch:  # noqa: ANN401
        [packed] = honest(sums, parts)[0].to_pylist()
        last = bytes([packed[-1] ^ 1])
        return pa.RecordBatch.from_arrays([pa.array([packed[:-1] + last])], ["totals"])

    monkeypatch.setattr(module, "_packed", changed)
    with pytest.raises(Exception, match="these totals were not computed by this query"):
        rows.add_up(work)


def test_totals_of_another_query_are_refused(rows: SparkRows[Floats]) -> None:
    """Each query has a key of its own: totals cannot be passed from one to the other."""
    one, other = counting(), counting()
    found = rows.add_up(one)
    assert isinstance(found, BoundedTotals)
    with pytest.raises(ValueError, match="these totals were not computed by this query"):
        other.unpack(one.pack(found))
    with pytest.raises(TypeError, match="these totals were not computed by this query"):
        other.split(found)


# --- map, select, beside --------------------------------------------------------------------------


def test_a_selection_drops_rows_and_keeps_types(rows: SparkRows[Floats], load_kw: Floats) -> None:
    """Integers stay integers, columns stay together: the sums are those of memory."""
    selected, expected = rows.select(of_finite.bind()), LocalRows(load_kw).select(of_finite.bind())
    assert selected.width == SLOTS
    work = by_sign_sums(SLOTS)
    assert totals(selected, work) == totals(expected, work)
    by_negative = BlockSums([Query(tag="by", rho_units=1, n_cells=SLOTS + 1)], by_number.bind())
    [found] = totals(selected, by_negative)
    kept = load_kw[np.isfinite(load_kw).all(axis=1)]
    counts = np.bincount((kept < 0.0).sum(axis=1), minlength=SLOTS + 1)
    assert found == (UNIT * counts).tolist()


def test_a_map_is_that_of_memory(
    table: dict[str, SparkRows[Any]], local: dict[str, LocalRows[Any]]
) -> None:
    """A mapped column still fits beside unchanged columns of its table, as in memory."""
    found, expected = (
        columns["load_kw"].map(halved.bind()).beside(columns["number"], field="numbers")
        for columns in (table, local)
    )
    assert found.width == SLOTS
    work = by_sign_sums(SLOTS)
    assert totals(found, work) == totals(expected, work)
    even, expected_even = (rows.select(of_even.bind()) for rows in (found, expected))
    assert totals(even, work) == totals(expected_even, work)


def test_released_rows_are_those_of_memory(
    table: dict[str, SparkRows[Any]], local: dict[str, LocalRows[Any]], tmp_path: Path
) -> None:
    """Columns in the order of the first, counts of the last, and files: no value differs."""
    there, here = (
        released(
            columns["load_kw"]
            .beside(columns["name"], field="names")
            .select(named_of_positive.bind())
        )
        for columns in (table, local)
    )
    for one, other in zip(there.here(), here.here(), strict=True):
        assert one.tolist() == other.tolist()
        assert one.dtype == other.dtype
    assert there.counted(SLOTS + 1).tolist() == here.counted(SLOTS + 1).tolist()
    written = []
    for name, rows in (("there", there), ("here", here)):
        rows.write_parquet(tmp_path / name, ("customer", "label"))
        written.append(pq.read_table(tmp_path / name).to_pydict())
    assert written[0] == written[1]
    with pytest.raises(SimulatedNoiseError):
        released(table["name"], simulated=True)


def test_no_rows_are_released(spark: SparkSession) -> None:
    """An empty table has columns of the right types and widths."""
    empty = spark.createDataFrame([], "name string, load_kw array<double>")
    no_rows = np.zeros(0, dtype=np.object_), np.zeros((0, SLOTS))
    names, load = released(SparkRows(empty, *no_rows)).here()
    assert (names.shape, load.shape) == ((0,), (0, SLOTS))


@pytest.mark.parametrize("real_ids", [False, True])
def test_labels_are_the_same_when_tasks_run_again(
    table: dict[str, SparkRows[Any]], ample: Callable[..., Budget], *, real_ids: bool
) -> None:
    """Random words are derived from id and key: no cache or partition changes a label."""
    channel = response_channel(n_labels=2, epsilon=0.5, neighbours=Neighbours.ZERO_OUT)
    budget = ample()
    found = respond(
        table["load_kw"],
        table["name"],
        sign_of_first.bind(),
        channel=channel,
        budget=budget,
        tag="labels",
        real_ids=real_ids,
    )
    names, labels = found.here()
    assert [spend.mechanism for spend in budget.spends] == ["keyed_response"]
    assert len(set(names)) == CUSTOMERS
    kept: Any = found._rows
    kept._own_frame.sparkSession.catalog.clearCache()
    again = kept._own_frame.repartition(5).sort("column_0").toArrow().to_pydict()
    assert again == {"column_0": names.tolist(), "column_1": labels.tolist()}
    assert found.counted(2).tolist() == np.bincount(labels, minlength=2).tolist()


def test_labels_of_a_simulation_are_refused(
    table: dict[str, SparkRows[Any]], ample: Callable[..., Budget], silent: NoiseSource
) -> None:
    """Keys that an injected source drew make no release."""
    channel = response_channel(n_labels=2, epsilon=0.5, neighbours=Neighbours.ZERO_OUT)
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError):
        respond(
            table["load_kw"],
            table["name"],
            sign_of_first.bind(),
            channel=channel,
            budget=ample(),
            tag="labels",
            real_ids=True,
        )


def test_a_selection_fits_beside_nothing(table: dict[str, SparkRows[Any]]) -> None:
    """Which row is whose would be unknown."""
    selected = table["load_kw"].select(of_finite.bind())
    pairs: list[tuple[Any, Any]] = [(selected, table["number"]), (table["number"], selected)]
    for one, other in pairs:
        with pytest.raises(InvalidParameterError, match="a column of the same table"):
            one.beside(other, field="numbers")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [lambda load_kw: (load_kw,), halved], ids=["lambda", "unbound"])
def test_plain_callables_are_refused(rows: SparkRows[Floats], plain: Any) -> None:  # noqa: ANN401
    """Only a bound row function reads rows, and only `BlockSums` adds them up."""
    for method in (rows.map, rows.select):
        with pytest.raises(TypeError, match="the kernel accepts a BoundRowFunction only"):
            method(plain)


def test_a_value_that_is_no_number_is_not_quoted(spark: SparkSession) -> None:
    """Neither in the error nor in the message of the executor behind it."""
    frame = spark.createDataFrame(
        [(["1.0", "flat 7"], "flat 7")], "load_kw array<string>, size string"
    )
    columns = SparkRows.columns_of(frame, {"load_kw": np.zeros((0, 2)), "size": np.zeros(0)})
    for column in columns.values():
        with pytest.raises(InvalidDataError, match="can be read as float64") as refused:
            column.add_up(counting())
        assert "flat 7" not in "".join(traceback.format_exception(refused.value))


def test_public_numbers_are_sent_with_the_function(
    rows: SparkRows[Floats], load_kw: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A basis that is computed when it is needed is computed once, on the driver."""
    calendar = Calendar(n_days=1, n_slots=SLOTS, n_coordinates=SLOTS)
    edges = np.geomspace(0.1, 10.0, 5)
    work = group_size_cells.bind(edges=edges, curves=calendar.curves)
    monkeypatch.setattr(np.linalg, "eigh", None)
    sizes = BlockSums([Query(tag="sizes", rho_units=1, n_cells=6)], work)
    numbers = np.zeros(len(load_kw), dtype=np.int64)
    expected = [part.tolist() for part in sizes.split(sizes(load_kw, numbers))]
    both = SparkRows(rows._own_frame.selectExpr("*", "0L"), np.zeros((0, SLOTS)), numbers[:0])
    assert totals(both, sizes) == expected


def test_files_do_not_reveal_how_customers_were_stored(spark: SparkSession, tmp_path: Path) -> None:
    """One sorted file, whatever the partitions were."""
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        names = spark.range(100).selectExpr("sha2(cast(id AS string), 256) AS name")
        written = []
        for place, parts in enumerate((1, 5)):
            rows = SparkRows(names.repartition(parts), np.zeros(0, dtype=np.object_))
            released(rows).write_parquet(tmp_path / str(place), ["customer"])
            [file] = (tmp_path / str(place)).glob("*.parquet")
            written.append(file)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    one, other = written
    assert one.read_bytes() == other.read_bytes()
    found = pq.read_table(one)["customer"].to_pylist()
    assert found == sorted(found)
    assert len(found) == 100


def test_the_web_interface_of_spark_is_off(spark: SparkSession) -> None:
    """Its pages contain the exact number of rows of every step."""
    assert spark.sparkContext.uiWebUrl is None


def test_a_row_of_another_length_is_refused(spark: SparkSession) -> None:
    """Each customer has an array of the stated length; null is not one."""
    for bad in ([1.0, 2.0], None):
        frame = spark.createDataFrame([([1.0, 2.0, 3.0],), (bad,)], "load_kw array<double>")
        with pytest.raises(Exception, match="an array of 3 numbers for each customer"):
            SparkRows(frame, np.zeros((0, 3))).add_up(adding(3))
