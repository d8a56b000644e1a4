"""Profiles on Spark: the same to the bit as on one machine, and the same account of every row."""

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from wattveil.cli import app
from wattveil.cli.shown_account import extreme, large_load
from wattveil.engines.spark import spark_session as session_module
from wattveil.engines.spark.executor import Batches, _database
from wattveil.engines.spark.spark_engine import SparkEngine
from wattveil.engines.spark.spark_profiles import SparkBuild
from wattveil.errors import InvalidFileError, InvalidParameterError, NoUsableReadingError
from wattveil.profiles import Profiles, Split, TimeGrid, build_profiles
from wattveil.profiles.profiles import ProfileRules
from wattveil.readings import read_readings
from wattveil.readings.options import ReadOptions

LONDON = ZoneInfo("Europe/London")
FIRST_DAY = dt.datetime(2013, 10, 20, tzinfo=dt.UTC)  # a week before clocks go back
DAYS, HOMES = 12, 9


def _stamps() -> list[str]:
    """Return the half-hours that a clock in London shows; an hour of them twice."""
    moments = (FIRST_DAY + dt.timedelta(minutes=30 * half) for half in range(48 * DAYS))
    return [f"{moment.astimezone(LONDON):%Y-%m-%d %H:%M:%S}" for moment in moments]


def _write(path: Path, header: str, lines: list[str]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def _local_clock(folder: Path) -> Path:
    """Write two files with the repeated hour, duplicates, conflicts, gaps and bad rows.

    Before them is one without rows; their names are such as Spark and DuckDB might misread.
    """
    draw = np.random.default_rng(1)
    lines = [
        f"{' ' if home == 3 else ''}home {home},{stamp},{draw.random():.7f}"
        for home in range(HOMES)
        for stamp in _stamps()
        if not (home == 4 and "2013-10-25" < stamp < "2013-10-27 12")
    ]
    again = [line for line in lines if draw.random() < 0.05]
    differ = [line + "1" for line in lines if draw.random() < 0.03]
    bad = [
        "home 1,someday,1.0",
        ",2013-10-21 00:00:00,1.0",
        "home 2,2013-10-21 00:07:00,1.0",
        "home 2,1970-01-01 00:00:00,1.0",
        "home 5,2013-10-21 00:00:00,inf",
        "home 5,2013-10-21 00:30:00,much",
        "home 5,2013-10-21 01:00:00,",
        "nobody,never,1.0",
        "brief,2013-10-21 01:00:00,2.5",
    ]
    rest = [*again, *differ, *bad]
    draw.shuffle(rest)
    source = folder / "100%20 [été]+{x}"
    _write(source / "a 0.csv", "id,timestamp,kwh", [])
    _write(source / "z.csv", "id,timestamp,kwh", lines)
    _write(source / "é.csv", "id,timestamp,kwh", rest)
    (source / "readme.md").write_text("not meter data")
    return source


def _clock_files(folder: Path) -> Path:
    """Write the same as Parquet: in small row groups, in types that differ, names unlike.

    The first has no rows, the last has numbers for names and is a link, and one is half-written.
    """
    source = _local_clock(folder).rename(folder / "texts")
    (folder / "files" / "_temporary").mkdir(parents=True)
    (folder / "files" / "_temporary" / "half.parquet").write_bytes(b"PAR1")
    number = "try_cast(kwh AS DOUBLE)"
    for name, text, kwh, home in (
        ("files/0", "a 0", "kwh", "id"),
        ("files/a", "z", "kwh", "id"),
        ("files/b", "é", number, "id"),
        ("elsewhere", "é", number, "7"),
    ):
        duckdb.sql(f"""
            COPY (
                SELECT {kwh} AS kwh, {home} AS id, timestamp FROM read_csv('{source}/{text}.csv',
                    header = true, all_varchar = true)
            ) TO '{folder}/{name}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)
        """)
    (folder / "files" / "c.parquet").symlink_to(folder / "elsewhere.parquet")
    return folder / "files"


def _channels(folder: Path) -> Path:
    """Write a Parquet folder of two channels, qualities and lengths, in instants."""
    draw = np.random.default_rng(2)
    lines = []
    for home in range(HOMES):
        minutes = 15 if home % 2 else 30
        for place in range(24 * DAYS * 60 // minutes):
            start = FIRST_DAY + dt.timedelta(minutes=minutes * place)
            for channel in ("delivered", "received")[: 1 + home % 3]:
                if draw.random() < 0.98:
                    quality = draw.choice(["valid"] * 8 + ["estimated", "missing", "E"])
                    value = f"{draw.random():.6f}"
                    lines.append(
                        f"{home},{start:%Y-%m-%dT%H:%M:%SZ},{value},{minutes},{channel},{quality}"
                    )
                    if draw.random() < 0.03:
                        lines.append(lines[-1].replace("valid", "estimated"))
    header = "customer_id,start_utc,kwh,minutes,channel,quality"
    text = _write(folder / "readings.csv", header, lines)
    (folder / "parts").mkdir()
    for half, condition in enumerate(("< 4", ">= 4")):
        duckdb.sql(f"""
            COPY (SELECT * FROM read_csv('{text}', header = true) WHERE customer_id {condition})
            TO '{folder}/parts/{half}.parquet' (FORMAT parquet)
        """)
    return folder / "parts"


def _registers(folder: Path) -> Path:
    """Write running totals of meters, one of them swapped, one that rolls over."""
    draw = np.random.default_rng(3)
    lines = []
    for meter in ("old", "new", "m2", "m3", "unlisted"):
        register = 99_990.0 if meter == "m2" else 100.0
        hours = {"old": range(150), "new": range(150, 288)}.get(meter, range(288))
        for hour in hours:
            register = (register + draw.random()) % 100_000
            start = FIRST_DAY + dt.timedelta(hours=hour)
            lines.append(f" {meter},{start:%Y-%m-%d %H:%M}Z,{register:.3f}")
    draw.shuffle(lines)
    return _write(folder / "registers.csv", "meter_id,timestamp,register", lines)


def _wide(folder: Path) -> Path:
    """Write a row a day with the columns of the long day."""
    draw = np.random.default_rng(4)
    slots = ",".join(f"h{slot:02}" for slot in range(25))
    lines = [
        f"home {home},{FIRST_DAY + dt.timedelta(days=day):%Y-%m-%d},"
        + ",".join(
            "" if slot == 24 and draw.random() < 0.5 else f"{draw.random():.4f}"
            for slot in range(25)
        )
        for home in range(HOMES)
        for day in range(DAYS)
    ]
    return _write(folder / "wide.csv", f"id,date,{slots}", lines)


def _texts(folder: Path) -> Path:
    """Write Parquet in which some names are padded and values are texts with decimal commas."""
    draw = np.random.default_rng(5)
    hours = [FIRST_DAY + dt.timedelta(hours=hour) for hour in range(24 * DAYS)]
    names = [f"home {home}" for home in range(HOMES) for _ in hours]
    values = [f"{value:.3f}".replace(".", ",") for value in draw.random(len(names))]
    table = {
        "id": [name + " " * int(draw.integers(2)) for name in names],
        "start": pa.array(hours * HOMES, pa.timestamp("us", tz="UTC")),
        "kwh": ["1.234,5", "1.500", *values[2:]],
    }
    path = folder / "texts.parquet"
    pq.write_table(pa.table(table), path)
    return path


CASES: dict[str, tuple[Callable[[Path], Path], dict[str, Any], dict[str, Any]]] = {
    "local clock": (
        _local_clock,
        {"timezone": "Europe/London", "conflicts": "first"},
        {"grid": TimeGrid(minutes=30), "max_gap_hours": 12.0},
    ),
    "clock of another zone": (
        _local_clock,
        {"timezone": "Europe/London", "conflicts": "last"},
        {"timezone": "America/Chicago"},
    ),
    "channels, qualities, lengths": (
        _channels,
        {"estimated": "flag", "conflicts": "mean"},
        {"grid": TimeGrid(split=Split.WEEKDAY_WEEKEND, minutes=30), "timezone": "Europe/London"},
    ),
    "files of a local clock": (
        _clock_files,
        {"timezone": "Europe/London", "conflicts": "last"},
        {"grid": TimeGrid(minutes=30), "timezone": "America/Chicago"},
    ),
    "registers": (
        _registers,
        {"cumulative": True, "register_rollover": 100_000.0, "meters": "meters.csv"},
        {"grid": TimeGrid(closing_midnight=True)},
    ),
    "texts": (_texts, {"decimal": "comma", "minutes": 60}, {}),
    "wide": (_wide, {"timezone": "Europe/London", "period": ("2013-10-22", "2013-11-01")}, {}),
}


@pytest.fixture(scope="module")
def parted(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session that leaves small and empty partitions apart, and compiles no queries."""
    plain = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    for name in plain:
        spark.conf.set(name, "false")
    yield spark
    for name in plain:
        spark.conf.unset(name)


def _rules(given: dict[str, Any]) -> ProfileRules:
    rules = {"grid": TimeGrid(), "timezone": "UTC", "min_days": 2, "max_gap_hours": None}
    return ProfileRules(**{**rules, **given})


def _build(
    session: SparkSession,
    source: Path | list[Path] | DataFrame,
    options: ReadOptions,
    rules: ProfileRules,
    *,
    attributes: Path | None = None,
) -> SparkBuild:
    readings = SparkEngine(session).read_readings(source, options, memory_mb=300)
    return readings.build(rules, attributes=attributes)


@pytest.mark.filterwarnings("ignore::wattveil.errors.UnmatchedAttributesWarning")
@pytest.mark.parametrize("case", CASES)
def test_profiles_and_accounts_are_those_of_one_machine(
    parted: SparkSession, tmp_path: Path, case: str
) -> None:
    """To the bit, in the same order, with the same rules, guesses and reasons."""
    make, reading, given = CASES[case]
    source = make(tmp_path)
    listed = _write(
        tmp_path / "meters.csv", "meter_id,customer_id", ["old,a", "new ,a", "m2,b", "m3,c"]
    )
    reading = {**reading, **({"meters": listed} if "meters" in reading else {})}
    classes = _write(
        tmp_path / "classes.csv", "customer_id,class,zip", ["home 1,r,", "a,c,60601", "4,,"]
    )
    build = build_profiles(
        read_readings(source, **reading), min_days=2, attributes=classes, **given
    )
    options = ReadOptions.parse(reading)
    rules = _rules({"timezone": options.timezone or "UTC", **given})
    out = tmp_path / "profiles"
    made = _build(parted, source, options, rules, attributes=classes)
    made.profiles.write_parquet(out)

    here, there = build.profiles, Profiles.read_parquet(out)
    assert len(here) > 0
    assert there.customer_ids == here.customer_ids
    assert there.load_kw.tobytes() == here.load_kw.tobytes()
    assert there.attributes == here.attributes
    assert there.rules == here.rules
    assert there.account == here.account
    assert (there.grid, there.timezone) == (here.grid, here.timezone)
    if here.estimated_share is not None:
        assert there.estimated_share is not None
        assert there.estimated_share.tobytes() == here.estimated_share.tobytes()
    assert made.account == build.account
    assert made.largest_kw == pytest.approx(here.load_kw.mean(axis=1).max())
    assert Profiles.are_in(out)


_CHECK = "check their unit, such as Wh among kWh"


def test_warnings_of_large_loads(parted: SparkSession, tmp_path: Path) -> None:
    """The median and the number of extreme customers are those of one machine."""
    hours = [f"2025-01-{day:02} {hour:02}:00" for day in (1, 2) for hour in range(24)]
    loads = {"a": 7.0, "b": 8.0, "c": 9.0, "d": 2000.0}
    rows = [f"{name},{hour},{kwh}" for name, kwh in loads.items() for hour in hours]
    source = _write(tmp_path / "readings.csv", "id,timestamp,kwh", rows)
    reading: dict[str, Any] = {"timezone": "UTC", "minutes": 60}
    here = build_profiles(read_readings(source, **reading), min_days=2)
    there = _build(parted, source, ReadOptions.parse(reading), _rules({}))
    assert there.n_extreme == here.n_extreme == 1
    assert extreme(there) == ("1 customer with over 100 times the median load; " + _CHECK,)
    assert extreme(here) == ("1 customer with over 100 times the median load: d; " + _CHECK,)
    (large,) = large_load(there)
    assert "above 5 kW" in large
    assert large_load(here)


def test_a_parquet_file_with_another_role_is_refused(parted: SparkSession, tmp_path: Path) -> None:
    """Executors would not read its qualities."""
    table = pa.table({"id": ["a"], "timestamp": ["2025-01-01 00:00"], "kwh": [1.0]})
    pq.write_table(table, tmp_path / "1.parquet")
    pq.write_table(table.append_column("quality", pa.array(["E"])), tmp_path / "2.parquet")
    files = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    with pytest.raises(InvalidFileError, match=r"2\.parquet, header: expected quality no column"):
        _build(parted, files, ReadOptions.parse({"timezone": "UTC"}), _rules({}))


def test_a_table_is_a_source(parted: SparkSession, tmp_path: Path) -> None:
    """A DataFrame gives the profiles of the file it was read from; it has no first row."""
    source = _channels(tmp_path)
    reading: dict[str, Any] = {"timezone": "Europe/London", "estimated": "drop"}
    build = build_profiles(read_readings(source, **reading), min_days=2)
    frame = parted.read.parquet(str(source))
    rules = _rules({"timezone": "Europe/London"})
    options = ReadOptions.parse(reading)
    made = _build(parted, frame, options, rules)
    made.profiles.write_parquet(tmp_path / "out")
    there = Profiles.read_parquet(tmp_path / "out")
    assert there.load_kw.tobytes() == build.profiles.load_kw.tobytes()
    assert made.account.customers_dropped == build.account.customers_dropped
    assert made.account.readings.dropped == build.account.readings.dropped
    wrong = ReadOptions.parse({"conflicts": "last"})
    with pytest.raises(InvalidParameterError, match="drop or mean"):
        _build(parted, frame, wrong, rules)


REFUSED = {
    "a row of another length": (
        ["id,timestamp,kwh", "a,2013-01-01 00:00,1", "a,2013-01-01 01:00"],
        InvalidFileError,
        "readings.csv, content: expected a readable table",
    ),
    "a format that may be two": (
        ["id,timestamp,kwh", "a,01/02/2013 00:00,1", "a,01/02/2013 01:00,1"],
        InvalidFileError,
        "stamp_format",
    ),
    "no reading that can stay": (
        ["id,timestamp,kwh", "a,2013-01-01 00:00,", "b,2013-01-01 01:00,much"],
        NoUsableReadingError,
        r"dropped: 1 \(value is not a number\), 1 \(no value\)",
    ),
    "no row": (["id,timestamp,kwh"], NoUsableReadingError, "expected a reading, found nothing"),
    "a matrix": (["timestamp,a,b", "2013-01-01 00:00,1,2"], InvalidParameterError, "long or wide"),
}


def test_readings_of_a_killed_task_are_removed_by_spark(spark: SparkSession) -> None:
    """They are in a folder that goes with the executor, for its owner alone."""

    def where(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            folder = _database(100).folder
            said = f"{folder.parent.name} {folder.exists()}"
            yield pa.RecordBatch.from_arrays([pa.array([said])], ["said"])

    [row] = spark.range(1).mapInArrow(where, "said string").collect()
    assert re.fullmatch(r"blockmgr-\S+ False", row.said)  # and without a kill it goes by itself


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_our_words(
    parted: SparkSession, tmp_path: Path, case: str
) -> None:
    """Whether the driver or an executor finds it out."""
    lines, error, words = REFUSED[case]
    source = _write(tmp_path / "readings.csv", lines[0], lines[1:])
    options = ReadOptions(minutes=60)
    with pytest.raises(error, match=words):
        _build(parted, source, options, _rules({}))


def test_files_come_in_the_order_of_their_paths(parted: SparkSession, tmp_path: Path) -> None:
    """Another order of appearance than that of paths would be lost, so it is refused."""
    files = [
        _write(tmp_path / name, "id,timestamp,kwh", ["a,2013-01-01 00:00,1"])
        for name in ("b.csv", "a.csv")
    ]
    options = ReadOptions(minutes=60)
    with pytest.raises(InvalidParameterError, match="order of their paths"):
        _build(parted, files, options, _rules({}))
    with pytest.raises(InvalidParameterError, match="skip_lines must be 0 on Spark"):
        _build(parted, files, ReadOptions(skip_lines=1), _rules({}))


def test_the_command(parted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--engine spark` writes a folder and prints the same account as one machine."""
    source = _wide(tmp_path)
    monkeypatch.setattr(session_module, "spark_session", lambda _: parted)
    words = ["profiles", str(source), "--timezone", "Europe/London", "--min-days", "2", "--json"]
    printed = {}
    for place, more in {"here": [], "there": ["--engine", "spark", "--master", "local[1]"]}.items():
        result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / place), *more])
        assert result.exit_code == 0, result.output
        printed[place] = {**json.loads(result.stdout), "out": None}
    assert printed["here"] == printed["there"]
    here, there = (Profiles.read_parquet(tmp_path / place) for place in printed)
    assert here.load_kw.tobytes() == there.load_kw.tobytes()
    no_customers = [*words, "--out", str(tmp_path / "none"), *more, "--min-days", "300"]
    assert CliRunner().invoke(app, no_customers).exit_code == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "spark"], "master must be given with --engine spark"),
        (
            ["--master", "local[1]"],
            "--master must be omitted without --engine spark; got local[1]",
        ),
        (["--engine", "dask"], "engine must be one of"),
        (
            ["--engine", "spark", "--master", "yarn", "--sql", "SELECT 1"],
            "sql must be omitted with --engine spark",
        ),
    ],
)
def test_flags_that_do_not_go_together(tmp_path: Path, words: list[str], said: str) -> None:
    """They are refused before Spark starts."""
    source = _write(tmp_path / "readings.csv", "id,timestamp,kwh", ["a,2013-01-01 00:00,1"])
    out = str(tmp_path / "out")
    result = CliRunner().invoke(app, ["profiles", str(source), "--out", out, *words])
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
