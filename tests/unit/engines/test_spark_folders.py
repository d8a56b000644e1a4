"""Folders of a lake: on another file system than the driver's, taken, half-written, unknown."""

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from wattveil import profiles_from_readings, read_readings
from wattveil.cli import app
from wattveil.engines import session
from wattveil.engines.spark import SparkRows
from wattveil.engines.spark_engine import SparkEngine
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.profiles import Grid, Profiles

HOMES = 5


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> str:
    """Return the address of a folder in Hadoop's viewfs: Python does not know its paths."""
    place = tmp_path.name.replace("_", "-")
    spark.conf.set(f"fs.viewfs.mounttable.{place}.link./house", tmp_path.as_uri())
    return f"viewfs://{place}/house"


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
    return Profiles(customer_ids=names, load_kw=np.ones((3, 24)), grid=Grid(), timezone="UTC")


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
    [load_kw] = Profiles.read_parquet(f"{lake}/profiles", engine=engine).load_kw.here()
    assert sorted(load_kw.tolist()) == sorted(here.load_kw.tolist())
    assert Profiles.read_parquet(tmp_path / "profiles").load_kw.tobytes() == here.load_kw.tobytes()
    with pytest.raises(InvalidParameterError, match="out must be a new folder"):
        there.write_parquet(f"{lake}/profiles")

    monkeypatch.setattr(session, "spark_session", lambda _: spark)
    monkeypatch.setattr("wattveil.engines.spark_readings.open_source", None)  # it does not start
    command = ["profiles", f"{lake}/readings.parquet", "--engine", "spark", "--master", "local"]
    for out, rule in {
        f"{lake}/profiles": "a new folder",
        tmp_path.as_uri(): "a new folder",
        "nowhere://profiles": "at an address that Spark knows",
    }.items():
        refused = CliRunner().invoke(app, [*command, "--out", out])
        assert refused.exit_code == 2
        assert rule in " ".join(refused.output.replace("│", " ").split())


def test_a_folder_that_was_not_finished_is_told(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    """A job that dies leaves no mark: neither road reads the folder; only force replaces it."""
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
    with pytest.raises(InvalidFileError, match="_SUCCESS: expected the mark of a complete folder"):
        engine.read_profiles(out)
    with pytest.raises(InvalidFileError, match="_SUCCESS"):
        Profiles.read_parquet(tmp_path / "some.parquet")


def test_many_labels_are_in_files_by_their_names_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However customers were kept, each file has the same ones, in order; here all are in order."""
    monkeypatch.setattr("wattveil.engines.spark._ROWS_A_FILE", 100)
    files = []
    for partitions in (1, 3):
        frame = spark.range(450).selectExpr("sha2(string(id), 256) AS name", "id AS label")
        nobody = np.zeros(0, dtype=np.object_), np.zeros(0, dtype=np.int64)
        rows = SparkRows(frame.repartition(partitions), *nobody).in_order()
        rows.write_parquet(tmp_path / f"{partitions}", ("customer", "label"))
        parts = sorted((tmp_path / f"{partitions}").glob("*.parquet"))
        files.append([pq.read_table(part)["customer"].to_pylist() for part in parts])
        assert rows.here()[0].tolist() == sorted(name for part in files[-1] for name in part)
    assert files[0] == files[1]
    assert len(files[0]) == 5
    assert all(part == sorted(part) for part in files[0])
