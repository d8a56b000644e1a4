"""Folders of a lake: on another file system than the driver's, taken, half-written, unknown."""

import datetime as dt
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from wattveil import hours_from_readings, profiles_from_readings, read_readings
from wattveil.cli import app
from wattveil.engines.spark import spark_session as session_module
from wattveil.engines.spark.executor import shuffle_partitions
from wattveil.engines.spark.spark_engine import SparkEngine
from wattveil.engines.spark.spark_rows import SparkRows
from wattveil.engines.spark.spark_sources import (
    FileSplit,
    open_source,
    read_splits,
    schema_of,
    split_files,
)
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.privacy.private_data import Released, ReleasedRows
from wattveil.profiles import Profiles, TimeGrid
from wattveil.readings.options import ReadOptions

HOMES = 5


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> str:
    """Return the address of a folder in Hadoop's viewfs: which Python cannot open."""
    place = tmp_path.name.replace("_", "-")
    spark.conf.set(f"fs.viewfs.mounttable.{place}.link./data", tmp_path.as_uri())
    return f"viewfs://{place}/data"


def _readings(folder: Path) -> Path:
    duckdb.sql(f"""
        COPY (
            SELECT 'home ' || c AS id,
                   make_timestamptz(1672531200000000 + h * 3600000000) AS start_utc,
                   (c + h % 24) / 10 AS kwh
            FROM range({HOMES}) AS homes(c), range({24 * 20}) AS hours(h)
        ) TO '{folder}/readings.parquet' (FORMAT parquet)
    """)
    return folder / "readings.parquet"


def _block(number: int) -> Profiles:
    names = tuple(f"S{number}{place}" for place in range(3))
    return Profiles(
        customer_ids=names,
        load_kw=np.ones((3, 24)),
        grid=TimeGrid(),
        timezone="UTC",
        rules={"synthetic": True},
    )


def _broken_block(number: int) -> Profiles:
    return replace(_block(number), load_kw=np.ones((3, 24)) / (number - 1 or np.nan))


def test_readings_and_profiles_in_a_lake(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same calls as in memory give the same profiles; nothing is written over."""
    source, engine = _readings(tmp_path), SparkEngine(spark)
    here = profiles_from_readings(read_readings(source, minutes=60), timezone="Europe/London")
    readings = read_readings(f"{lake}/readings.parquet", minutes=60, engine=engine)
    there = profiles_from_readings(readings, timezone="Europe/London")
    there.write_parquet(f"{lake}/profiles")
    kept = Profiles.read_parquet(f"{lake}/profiles", engine=engine)
    rows = kept.customer_ids.beside(kept.load_kw, field="load_kw")
    _, load_kw = ReleasedRows(Released(value=rows, spends=(), simulated=False)).here()
    assert sorted(load_kw.tolist()) == sorted(here.load_kw.tolist())
    assert Profiles.read_parquet(tmp_path / "profiles").load_kw.tobytes() == here.load_kw.tobytes()
    with pytest.raises(InvalidParameterError, match="out must be a new folder"):
        there.write_parquet(f"{lake}/profiles")

    monkeypatch.setattr(session_module, "spark_session", lambda _: spark)
    monkeypatch.setattr(
        "wattveil.engines.spark.spark_profiles.open_source", None
    )  # it does not start
    command = ["profiles", f"{lake}/readings.parquet", "--engine", "spark", "--master", "local"]
    for out, rule in {
        f"{lake}/profiles": "a new folder",
        tmp_path.as_uri(): "a new folder",
        "nowhere://profiles": "at an address that Spark resolves",
    }.items():
        refused = CliRunner().invoke(app, [*command, "--out", out])
        assert refused.exit_code == 2
        assert rule in " ".join(refused.output.replace("│", " ").split())


def test_an_unfinished_folder_is_reported(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    """A job that dies leaves no mark: neither engine reads the folder; only force replaces it."""
    engine, out = SparkEngine(spark), f"{lake}/some.parquet"
    with pytest.raises(Exception, match="finite load"):
        engine.write_profiles(_broken_block, 3, out, force=False)
    with pytest.raises(InvalidFileError):
        engine.read_profiles(out)
    with pytest.raises(InvalidParameterError, match="a new folder"):
        engine.write_profiles(_block, 3, out, force=False)
    engine.write_profiles(_block, 3, out, force=True)
    assert len(Profiles.read_parquet(tmp_path / "some.parquet")) == 9
    engine.read_profiles(out)
    (tmp_path / "some.parquet" / "_SUCCESS").unlink()
    with pytest.raises(
        InvalidFileError, match="_SUCCESS: expected the file that Spark writes last"
    ):
        engine.read_profiles(out)
    with pytest.raises(InvalidFileError, match="_SUCCESS"):
        Profiles.read_parquet(tmp_path / "some.parquet")


def test_a_folder_of_others_needs_no_mark(tmp_path: Path) -> None:
    """Only Spark marks what it has finished: pyarrow, pandas and DuckDB do not."""
    for number in range(2):
        _block(number).write_parquet(tmp_path / f"{number}.parquet")
    assert len(Profiles.read_parquet(tmp_path)) == 6


def test_force_replaces_synthetic_customers_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A folder of readings, of files in folders or of real profiles stays, and so does a file."""
    engine = SparkEngine(spark)
    (tmp_path / "readings.parquet" / "2024").mkdir(parents=True)
    _readings(tmp_path / "readings.parquet" / "2024")
    (tmp_path / "profiles.parquet").mkdir()
    replace(_block(1), rules={}).write_parquet(tmp_path / "profiles.parquet" / "1.parquet")
    _block(1).write_parquet(tmp_path / "file.parquet")
    before = sorted(tmp_path.rglob("*"))
    for name in ("readings.parquet", "profiles.parquet", "file.parquet"):
        with pytest.raises(InvalidParameterError, match="with --force one of synthetic customers"):
            engine.write_profiles(_block, 1, tmp_path / name, force=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_addresses_at_which_nothing_is(spark: SparkSession, tmp_path: Path) -> None:
    """They are rejected with our errors, by whatever name."""
    engine = SparkEngine(spark)
    for address in (f"{tmp_path.as_uri()}/none", "nowhere://lake/none"):
        with pytest.raises(InvalidFileError, match="a Parquet table that Spark finds"):
            engine.read_profiles(address)
        with pytest.raises(InvalidFileError, match="a Parquet table that Spark finds"):
            profiles_from_readings(read_readings(address, engine=engine))
    readings = read_readings(_readings(tmp_path).as_uri(), engine=engine)
    with pytest.raises(InvalidParameterError, match="readings must be read in memory"):
        hours_from_readings(readings, first_day=dt.date(2023, 1, 1), n_days=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidFileError, match="on Spark or in a file of the driver"):
        engine.read_profiles(f"{tmp_path.as_uri()}/readings.parquet")


def test_folders_named_after_a_value_are_a_column(spark: SparkSession, tmp_path: Path) -> None:
    """Without it the channels of a meter would be taken for one: both ways of reading keep it."""
    for channel in ("delivered", "received"):
        folder = tmp_path / "r [1]" / f"channel={channel}"
        folder.mkdir(parents=True)
        _readings(folder)
    source = tmp_path / "r [1]"
    here = read_readings(source, minutes=60).source.rows.scan.names
    assert open_source(spark, source, ReadOptions()).names == tuple(here)
    assert "channel" in here


def test_a_number_of_partitions_is_needed() -> None:
    """Some platforms set it to ``auto``."""
    session: Any = SimpleNamespace(conf={"spark.sql.shuffle.partitions": "auto"})
    with pytest.raises(InvalidParameterError, match=r"partitions must be a whole number.*'auto'"):
        shuffle_partitions(session)


def test_a_file_that_is_written_anew_is_not_read_on(tmp_path: Path) -> None:
    """Rows of the old file and of the new one would be mixed."""
    path = _readings(tmp_path)
    whole, schema = FileSplit(0, path, path.stat().st_size), schema_of(path)
    numbers = pa.record_batch({"id": [0]})
    assert sum(map(len, read_splits(split_files([whole], 2), schema)([numbers]))) == HOMES * 24 * 20
    later = replace(whole, size=whole.size + 1)
    with pytest.raises(InvalidFileError, match="bytes, as when the job began, found"):
        list(read_splits([[later]], schema)([numbers]))


def test_many_labels_are_in_files_by_their_names_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However customers were kept, each file has the same ones, in order; here all are in order."""
    monkeypatch.setattr("wattveil.engines.spark.spark_rows._ROWS_PER_FILE", 100)
    files = []
    for partitions in (1, 3):
        frame = spark.range(450).selectExpr("sha2(string(id), 256) AS name", "id AS label")
        no_rows = np.zeros(0, dtype=np.object_), np.zeros(0, dtype=np.int64)
        kept = SparkRows(frame.repartition(partitions), *no_rows)
        rows = ReleasedRows(Released(value=kept, spends=(), simulated=False))
        rows.write_parquet(tmp_path / f"{partitions}", ("customer", "label"))
        parts = sorted((tmp_path / f"{partitions}").glob("*.parquet"))
        files.append([pq.read_table(part)["customer"].to_pylist() for part in parts])
        assert rows.here()[0].tolist() == sorted(name for part in files[-1] for name in part)
    assert files[0] == files[1]
    assert len(files[0]) == 5
    assert all(part == sorted(part) for part in files[0])
