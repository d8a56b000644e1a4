"""Customers in Spark: the same integers as in memory, to the bit, however they are divided."""

import functools
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from tests.transcripts import record, replay
from wattveil import LoadSynthesizer, PrivateKMeans
from wattveil.clustering.calendar import Calendar
from wattveil.engines import spark as module
from wattveil.engines.local import LocalRows
from wattveil.engines.spark import SparkRows
from wattveil.errors import InvalidDataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CUSTOMERS, FEW, SLOTS = 1500, 7, 24


@pytest.fixture(scope="module")
def load_kw() -> Floats:
    """Return customers with gaps, export, giants and nothing at all."""
    rows = np.random.default_rng(5).lognormal(-1.0, 0.8, size=(CUSTOMERS, SLOTS))
    rows[3, 7], rows[4], rows[5], rows[6, 0] = np.nan, 0.0, 1e6, -np.inf
    rows[7:40, 12] *= -1.0
    return rows


@pytest.fixture(scope="module")
def frame(spark: SparkSession, load_kw: Floats) -> DataFrame:
    """Return them in three partitions: one with nearly all, one with a few, one with nobody."""
    parts = (load_kw[FEW:], load_kw[:FEW], load_kw[:0])
    kind = pa.schema([("load_kw", pa.list_(pa.float64()))])
    tables = [pa.table({"load_kw": part.tolist()}, schema=kind) for part in parts]
    return functools.reduce(DataFrame.union, map(spark.createDataFrame, tables))


@pytest.fixture
def rows(frame: DataFrame) -> SparkRows[Floats]:
    """Return the customers as an engine's."""
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
    estimator: Callable[[], PrivateKMeans], load_kw: Floats, rows: SparkRows[Floats]
) -> None:
    """Handed the same noise, every ask has the same integers and the release the same numbers."""
    here, there = estimator(), estimator()
    draws = record(lambda: here.fit(load_kw))
    again = replay(lambda: there.fit(rows), draws)
    for one, two in zip(draws, again, strict=True):
        assert np.array_equal(one.exact, two.exact), one.tag
    assert np.array_equal(here.cluster_centers_, there.cluster_centers_)
    assert np.array_equal(here.cluster_sizes_, there.cluster_sizes_)
    assert here.spends_ == there.spends_


def _steps(rows: Floats) -> Integers:
    finite = np.nan_to_num(rows, posinf=0.0, neginf=0.0)
    total: Integers = np.trunc(finite * 2**30).astype(np.int64).sum(axis=0)
    return total


def test_sums_of_partitions_wrap_as_in_memory(rows: SparkRows[Floats], load_kw: Floats) -> None:
    """int64 has an end; beyond it both engines go on at the other."""

    def beyond(rows: Floats) -> Integers:
        far: Integers = np.full((len(rows), SLOTS), 2**57).sum(axis=0)
        return _steps(rows) + far

    expected = LocalRows(load_kw).add_up(beyond, size=SLOTS)
    assert np.array_equal(rows.add_up(beyond, size=SLOTS), expected)


def test_large_tables_are_added_up_by_executors_first(
    rows: SparkRows[Floats], load_kw: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver gets few partial sums, and the same total."""
    monkeypatch.setattr(module, "_FEW_NUMBERS", SLOTS - 1)
    assert np.array_equal(rows.add_up(_steps, size=SLOTS), _steps(load_kw))


def test_nobody_adds_nothing(spark: SparkSession) -> None:
    """A frame without rows gives zeros, mapped or not."""
    empty = spark.createDataFrame([], "load_kw array<double>")
    rows = SparkRows(empty, np.zeros((0, SLOTS)))
    assert rows.width == SLOTS
    assert rows.add_up(_steps, size=SLOTS).tolist() == [0] * SLOTS
    mapped = rows.map(lambda load: (load[:, :2], np.arange(len(load))))
    assert mapped.width == 2
    total = mapped.add_up(lambda load, _: np.array([len(load)]), size=1)
    assert total.tolist() == [0]


def test_a_map_leaves_out_and_keeps_types(rows: SparkRows[Floats], load_kw: Floats) -> None:
    """Integers stay integers, rows stay together."""

    def of_finite(load: Floats) -> tuple[Floats, Integers]:
        kept = np.isfinite(load).all(axis=1)
        return load[kept], (load[kept] < 0.0).sum(axis=1)

    def together(load: Floats, negative: Integers) -> Integers:
        assert negative.dtype == np.int64
        return np.array([len(load), negative.sum(), ((load < 0.0).sum(axis=1) == negative).sum()])

    kept = load_kw[np.isfinite(load_kw).all(axis=1)]
    found = rows.map(of_finite).add_up(together, size=3)
    assert found.tolist() == [len(kept), (kept < 0.0).sum(), len(kept)]


def test_a_value_that_is_no_number_is_not_quoted(spark: SparkSession) -> None:
    """Neither in the error nor in the executor's words behind it."""
    frame = spark.createDataFrame(
        [(["1.0", "flat 7"], "flat 7")], "load_kw array<string>, size string"
    )
    columns = SparkRows.columns_of(frame, {"load_kw": np.zeros((0, 2)), "size": np.zeros(0)})
    for column in columns.values():
        with pytest.raises(InvalidDataError, match="can be read as float64") as refused:
            column.add_up(lambda rows: np.array([len(rows)]), size=1)
        assert "flat 7" not in "".join(traceback.format_exception(refused.value))


def test_public_numbers_are_found_once_and_travel(rows: SparkRows[Floats]) -> None:
    """A basis that is found when it is needed is found on the driver, for all executors."""
    calendar = Calendar(n_days=1, n_slots=SLOTS, n_coordinates=SLOTS)

    def found_there(load: Floats) -> Integers:
        missing = not {"slot_curves", "day_curves", "places", "colour"} <= {*vars(calendar)}
        calendar.project(load)
        return np.array([int(missing)])

    assert rows.add_up(found_there, size=1).tolist() == [0]


def test_nobody_comes_here(spark: SparkSession) -> None:
    """No rows are rows of every length."""
    empty = spark.createDataFrame([], "load_kw array<double>")
    assert SparkRows(empty, np.zeros((0, SLOTS))).here()[0].shape == (0, SLOTS)


def test_the_files_tell_nothing_of_how_customers_were_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One file in order, of whatever partitions: borders of several would be sampled from them."""
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        names = spark.range(100).selectExpr("sha2(cast(id AS string), 256) AS name")
        written = []
        for place, parts in enumerate((1, 5)):
            rows = SparkRows(names.repartition(parts), np.zeros(0, dtype=np.object_)).in_order()
            rows.write_parquet(tmp_path / str(place), ["customer"])
            [file] = (tmp_path / str(place)).glob("*.parquet")
            written.append(file)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    one, other = written
    assert one.read_bytes() == other.read_bytes()
    found = pq.read_table(one)["customer"].to_pylist()
    assert found == sorted(found)
    assert len(found) == 100


def test_spark_shows_nobody_how_many_customers_there_are(spark: SparkSession) -> None:
    """Its pages have the exact number of rows of every step, for whoever reaches the port."""
    assert spark.sparkContext.uiWebUrl is None


def test_a_row_of_another_length_is_refused(spark: SparkSession) -> None:
    """Each customer has as many numbers as was said; null is none."""
    for bad in ([1.0, 2.0], None):
        frame = spark.createDataFrame([([1.0, 2.0, 3.0],), (bad,)], "load_kw array<double>")
        with pytest.raises(Exception, match="an array of 3 numbers for each customer"):
            SparkRows(frame, np.zeros((0, 3))).add_up(_steps, size=3)
