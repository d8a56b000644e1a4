"""Where readings come from: files, folders, globs, compression, databases, and what is refused."""

import datetime as dt
import gzip
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.profiles import profiles_from_readings
from wattveil.profiles.attributes import attribute_table
from wattveil.readings import ReadingReport, read_readings
from wattveil.readings.batches import ProblemLog
from wattveil.readings.csv_files import scan_csv
from wattveil.readings.schema import READINGS_SCHEMA
from wattveil.readings.sources import numbered, read_texts, scan_parquet
from wattveil.simulate import simulate_readings

Write = Callable[..., Path]

_HEADER = "id,timestamp,kwh"
_LINES = (_HEADER, "a,2013-01-01 00:00,1", "a,2013-01-01 01:00,2")


def test_a_folder_a_glob_and_a_list_are_the_same_files(write: Write, tmp_path: Path) -> None:
    """All ways of naming files give the same readings."""
    paths = [write(_HEADER, f"{name},2013-01-01 00:00,1", name=f"{name}.csv") for name in "ab"]
    (tmp_path / "notes.pdf").write_bytes(b"%PDF")
    sources: list[Path | str | list[Path]] = [tmp_path, str(tmp_path / "*.csv"), paths]
    tables = [read_readings(source, minutes=60).to_arrow() for source in sources]
    assert all(table.equals(tables[0]) for table in tables)
    assert tables[0].num_rows == 2


@pytest.mark.parametrize("method", ["gzip", "zstd"])
@pytest.mark.parametrize("name", ["readings.csv", "readings.csv.xyz"])
def test_compression_is_detected_from_the_content(tmp_path: Path, method: str, name: str) -> None:
    """Gzip and zstd are read, whatever the file is called."""
    path = tmp_path / name
    with pa.output_stream(str(path), compression=method) as stream:
        stream.write("\n".join(_LINES).encode())
    assert read_readings(path).report.rows_out == 2


def test_parquet_and_csv_agree(write: Write, tmp_path: Path) -> None:
    """The table written as Parquet is read back unchanged, and no option is inferred."""
    first = read_readings(write(*_LINES))
    first.write_parquet(tmp_path / "out.parquet")
    second = read_readings(tmp_path / "out.parquet")
    assert second.assumptions == ()
    assert second.to_arrow().equals(first.to_arrow())
    assert second.to_arrow().schema.equals(READINGS_SCHEMA)


@pytest.mark.parametrize("kind", ["timestamp[s]", "timestamp[ns]", "date32", "int64"])
def test_typed_stamps_of_parquet(tmp_path: Path, kind: str) -> None:
    """Times without zone, dates and seconds since 1970 are read from Parquet."""
    seconds = pa.array([1_356_998_400, 1_357_084_800], pa.int64())
    stamps = {
        "timestamp[s]": seconds.cast(pa.timestamp("s")),
        "timestamp[ns]": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("ns")),
        "date32": seconds.cast(pa.timestamp("s")).cast(pa.date32()),
        "int64": seconds,
    }[kind]
    table = pa.table({"id": ["a", "a"], "timestamp": stamps, "kwh": [1.0, float("nan")]})
    pq.write_table(table, tmp_path / "typed.parquet")
    readings = read_readings(tmp_path / "typed.parquet", minutes=60)
    assert [row["start_utc"].day for row in readings.to_arrow().to_pylist()] == [1]
    assert readings.report.dropped == {"no value": 1}


def test_rows_are_numbered_in_the_order_of_the_files(tmp_path: Path) -> None:
    """Order of appearance is file by file and row by row, on files large enough to be cut up."""
    connection = duckdb.connect()
    for part in (0, 1):
        select = (
            f"SELECT i + {part * 2_000_000} AS i, repeat('x', 20) AS s FROM range(2000000) t(i)"
        )
        for kind in ("csv", "parquet"):
            path = tmp_path / f"part{part}.{kind}"
            connection.execute(f"COPY ({select}) TO '{path}' (FORMAT {kind})")
    csv_scan = scan_csv(sorted(tmp_path.glob("*.csv")), skip_lines=0)
    parquet_scan = scan_parquet(connection, sorted(tmp_path.glob("*.parquet")))
    for scan in (csv_scan, parquet_scan):
        wrong = f"SELECT count(*) FROM {numbered(scan)} WHERE i::BIGINT <> source_row - 1"
        assert connection.execute(wrong).fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("lines", "where", "expected"),
    [
        (("id,timestamp,kwh", "a,2013-01-01 00:00,1", "a,2013"), "line 3", "3 columns"),
        (("id,timestamp,kwh", 'a,"2013-01-01 00:00,1'), "line 2", "closing quote"),
        (("id,timestamp,colour", "a,2013-01-01 00:00,1"), "header", "as value"),
        (("id,timestamp,load_kwh,pv_kwh", "a,2013-01-01 00:00,1,1"), "header", "several"),
        (("timestamp", "2013-01-01 00:00"), "line 1", "columns separated by"),
        (("id,timestamp,kwh,KWH", "a,2013-01-01 00:00,1,1"), "line 1", "names that differ"),
        (("id,timestamp,kwh", "a,noon,1", "a,midnight,1"), "column", "stamp_format"),
        (("id,timestamp,kwh", "a,2013-01-01,1", "a,2013-01-02,1"), "time stamps", "minutes apart"),
    ],
)
def test_errors_of_malformed_files_name_place_and_rule(
    write: Write, lines: tuple[str, ...], where: str, expected: str
) -> None:
    """A file that cannot be read is refused with its name, the place and what was expected."""
    with pytest.raises(InvalidFileError) as caught:
        _ = read_readings(write(*lines)).report
    assert "readings.csv" in str(caught.value.path)
    assert caught.value.where.startswith(where)
    assert expected in caught.value.expected


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    """Empty, cut and foreign files are refused, each with a clear error."""
    whole = gzip.compress("\n".join(_LINES * 50).encode())
    for name, content in {
        "empty.csv": b"",
        "cut.csv.gz": whole[: len(whole) // 2],
        "false.parquet": b"PAR1 and nothing else",
        "latin.csv": "id,timestamp,kwh\nMüller,2013-01-01 00:00,1\n".encode("latin-1"),
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidFileError):
            _ = read_readings(tmp_path / name, minutes=60).report
    with pytest.raises(InvalidFileError, match="at least one file"):
        read_readings(tmp_path / "nothing-*.csv")


def test_files_of_one_source_must_be_alike(write: Write) -> None:
    """A file that lacks a column, or of another kind, is refused by name."""
    first = write(*_LINES, name="a.csv")
    other = write("id,when,kwh", name="b.csv")
    with pytest.raises(InvalidFileError, match=r"b\.csv has no column .* time stamp"):
        read_readings([first, other])
    xml = write("<feed/>", name="c.xml")
    with pytest.raises(InvalidFileError, match=r"c\.xml, first bytes: expected CSV"):
        read_readings([first, xml])


def test_lines_before_the_header(write: Write) -> None:
    """Utilities put a letterhead above the table."""
    path = write("Account,1234", "Address,Somewhere", *_LINES)
    assert read_readings(path, skip_lines=2).report.rows_out == 2


def test_a_matrix_has_one_column_per_customer(write: Write) -> None:
    """One row per time, one column per customer, as load-research files are."""
    path = write("timestamp,C1,C2", "2013-01-01 00:00,1,2", "2013-01-01 01:00,3,")
    readings = read_readings(path)
    assert "layout: matrix" in readings.assumptions
    assert readings.report.dropped == {"no value": 1}
    rows = readings.to_arrow().to_pylist()
    assert [(row["customer_id"], row["kwh"]) for row in rows] == [("C1", 1), ("C1", 3), ("C2", 2)]


@pytest.mark.parametrize("slots", [24, 48, 96, 288])
def test_wide_tables_of_any_resolution(write: Write, slots: int) -> None:
    """24, 48, 96 or 288 columns make a day."""
    names = ",".join(f"t{slot}" for slot in range(1, slots + 1))
    path = write(f"customer,day,{names}", "a,2013-01-01," + ",".join(["0.5"] * slots))
    table = read_readings(path).to_arrow()
    assert table.num_rows == slots
    assert set(table["minutes"].to_pylist()) == {1440 // slots}


def test_queries(tmp_path: Path) -> None:
    """SQLite and DuckDB give the same readings from the same rows."""
    rows = [("a", f"2013-01-01 0{hour}:00:00", 0.1 * hour) for hour in range(5)]
    with sqlite3.connect(tmp_path / "ami.sqlite") as lite:
        lite.execute("CREATE TABLE reads (id TEXT, ts TEXT, kwh REAL)")
        lite.executemany("INSERT INTO reads VALUES (?, ?, ?)", rows)
    lite.close()
    with duckdb.connect(str(tmp_path / "ami.duckdb")) as duck:
        duck.execute("CREATE TABLE reads (id VARCHAR, ts TIMESTAMP, kwh DOUBLE)")
        duck.executemany("INSERT INTO reads VALUES (?, ?, ?)", rows)
    query = "SELECT id, ts AS timestamp, kwh FROM reads"
    first = read_readings(f"sqlite:///{tmp_path / 'ami.sqlite'}", sql=query)
    second = read_readings(f"duckdb:///{tmp_path / 'ami.duckdb'}", sql=query)
    assert first.to_arrow().equals(second.to_arrow())
    assert first.to_arrow().num_rows == 5


def test_queries_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong query, a missing or unknown database and a missing driver have their own errors."""
    sqlite3.connect(tmp_path / "ami.sqlite").close()
    database = f"sqlite:///{tmp_path / 'ami.sqlite'}"
    with pytest.raises(InvalidFileError, match="a valid query"):
        read_readings(database, sql="SELECT * FROM nothing")
    with pytest.raises(InvalidFileError):
        read_readings(database, sql="DROP TABLE reads")
    with pytest.raises(InvalidFileError, match="a SQLite database"):
        read_readings("sqlite:////nowhere/x.sqlite", sql="SELECT 1")
    with pytest.raises(InvalidParameterError, match="source"):
        read_readings("oracle://x", sql="SELECT 1")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match="postgres"):
        read_readings("postgresql://x", sql="SELECT 1")


def test_green_button_rows_left_out_reach_the_file_of_problems(tmp_path: Path) -> None:
    """What a streaming reader leaves out is counted, noted and listed with the rest."""

    def batches(
        path: Path, *, problems: ProblemLog, clocks: list[object], units: set[str], home: str
    ) -> Iterator[pa.RecordBatch]:
        assert (clocks, home) == ([], path.stem)
        units.add("Wh")
        problems.count("noted: a remark", "line 1")
        problems.count("other unit", "line 7", {"customer": path.stem, "value": 3})
        start = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
        rows = [["a"], [start], [60], [1.0], ["delivered"], ["valid"]]
        arrays = [pa.array(c, f.type) for c, f in zip(rows, READINGS_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=READINGS_SCHEMA)

    (tmp_path / "feed.xml").write_text("<feed/>", encoding="utf-8")
    problems = tmp_path / "problems.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wattveil.readings.open_files.green_button_batches", batches)
        readings = read_readings(tmp_path / "feed.xml", problems_to=problems)
    report = readings.report
    assert (report.rows_in, report.rows_out) == (2, 1)
    assert report.dropped == {"other unit": 1}
    assert report.notes == {"a remark": 1}
    assert pq.read_table(problems).to_pylist() == [
        {"reason": "other unit", "source_row": "line 7", "written": "feed, 3"}
    ]


def test_a_report_has_to_balance() -> None:
    """A report that loses a row cannot be made."""
    balanced = ReadingReport(files=("x",), rows_in=3, rows_out=1, dropped={"a": 1}, merged={"b": 1})
    assert json.loads(json.dumps(balanced.to_json()))["rows_in"] == 3
    assert balanced.table().row_count == 4
    with pytest.raises(AssertionError, match="3 rows came in, 2"):
        ReadingReport(files=("x",), rows_in=3, rows_out=1, dropped={"a": 1})


def test_signs_in_file_names_are_no_wildcards(write: Write) -> None:
    """A file is read itself, and not what its name might match; quotes in it stay in it."""
    write("id,timestamp,kwh", "other,2013-01-01 00:00,1", name="a1.csv")
    for name in ("a[1].csv", "a*.csv", "a?.csv", "a'); DROP TABLE x --.csv"):
        path = write("id,timestamp,kwh", "mine,2013-01-01 00:00,1", name=name)
        assert read_readings(path, minutes=60).to_arrow()["customer_id"].to_pylist() == ["mine"]


def test_signs_in_column_names_stay_there(write: Write) -> None:
    """Quotes, brackets and commands in a header are a name like any other."""
    stamp, value = "t'); DROP TABLE cells --", 'kwh "net" [x]'
    lines = [f"a,2013-01-{day:02} {hour:02}:00,1" for day in range(1, 15) for hour in range(24)]
    header = ",".join(["id", f'"{stamp}"', '"' + value.replace('"', '""') + '"'])
    path = write(header, *lines)
    readings = read_readings(path, columns={"stamp": stamp, "value": value})
    assert profiles_from_readings(readings).load_kw.tolist() == [[1.0] * 24]


def test_files_that_are_passed_over_are_named(write: Write) -> None:
    """In a folder, what is not called like meter data is skipped and listed."""
    path = write("id,timestamp,kwh", "a,2013-01-01 00:00,1")
    for name in ("NOTES.doc", "b.bak", "c.bak", "d.bak"):
        write("hello", name=name)
    guess = read_readings(path.parent, minutes=60).assumptions[-1]
    assert guess == "files: NOTES.doc, b.bak, c.bak and 1 more are not meter data"


def test_hidden_files_of_a_data_lake_are_skipped(write: Write, tmp_path: Path) -> None:
    """Files that a job has not finished, or that are of its log, are no readings."""
    path = write("id,timestamp,kwh", "a,2013-01-01 00:00,1")
    for name in ("_temporary", "_delta_log", ".hidden"):
        (tmp_path / name / "0").mkdir(parents=True)
        (tmp_path / name / "0" / "part.parquet").write_bytes(b"PAR1")
    (tmp_path / "_b.csv").write_text("half")
    readings = read_readings(tmp_path, minutes=60)
    assert readings.source.files == (path,)
    assert "part.parquet" in readings.assumptions[-1]


def test_simulated_readings_need_no_inference(tmp_path: Path) -> None:
    """Every row of simulated readings is read, and no option is inferred."""
    path = tmp_path / "readings.parquet"
    start = dt.date(2025, 3, 29)  # clocks go forward the day after
    batches = list(
        simulate_readings(
            customers=3, days=2, start=start, timezone="Europe/London", minutes=30, seed=1
        )
    )
    pq.write_table(pa.Table.from_batches(batches), path)
    readings = read_readings(path)
    rows = sum(batch.num_rows for batch in batches)
    assert readings.assumptions == ()
    assert (readings.report.rows_in, readings.report.rows_out) == (rows, rows)


@pytest.mark.parametrize("names", [["home-1", "home-1 "], ["home-1 ", "home-1 "]])
def test_blanks_around_a_name_make_no_second_home_in_parquet(
    names: list[str], tmp_path: Path
) -> None:
    """Also where other columns are no texts, by the quick pass and by the table itself."""
    path = tmp_path / "readings.parquet"
    first = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    starts = [first + dt.timedelta(hours=hour) for hour in range(48)]
    table = {"id": [names[hour % 2] for hour in range(48)], "start": starts, "kwh": [0.5] * 48}
    pq.write_table(pa.table(table), path)
    readings = read_readings(path)
    assert set(readings.to_arrow()["customer_id"].to_pylist()) == {"home-1"}
    assert profiles_from_readings(readings, min_days=2).customer_ids == ("home-1",)


def test_tables_of_meters_are_known_by_their_content(tmp_path: Path) -> None:
    """Neither Parquet nor compression is recognised by the ending."""
    table = pa.table({"meter_id": ["m1", "m2"], "customer_id": ["a", "b"]})
    pq.write_table(table, tmp_path / "swaps.csv")
    text = b"meter_id,customer_id\nm1,a\nm2,b\n"
    (tmp_path / "swaps.parquet").write_bytes(text)
    (tmp_path / "swaps.txt").write_bytes(gzip.compress(text))
    for path in tmp_path.iterdir():
        assert read_texts(path).to_pylist() == table.to_pylist()
    (tmp_path / "swaps.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(InvalidFileError, match="XLSX"):
        read_texts(tmp_path / "swaps.xlsx")


def test_a_last_line_that_is_cut_off_is_said_to_be_truncated(tmp_path: Path) -> None:
    """A line in the middle has another cause."""
    rows = [f"a,2013-01-01 {hour:02}:00,1" for hour in range(24)]
    for name, lines, truncated in (
        ("cut", [*rows, "a,2013-01"], True),
        ("middle", [*rows, "a,2013-01", *rows], False),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["id,timestamp,kwh", *lines]), encoding="utf-8")
        with pytest.raises(InvalidFileError, match="line 26: expected 3 columns") as caught:
            read_readings(path, minutes=60, timezone="UTC").to_arrow()
        assert str(caught.value).endswith("the file may be truncated") is truncated


def test_mixed_line_ends_are_named(tmp_path: Path) -> None:
    """A header that ends in CRLF above rows that end in LF, with the command that helps."""
    rows = "".join(f"a,2013-01-{day:02} 00:00,1.5\n" for day in range(1, 29))
    (path := tmp_path / "r.csv").write_bytes(b"id,timestamp,kwh\r\n" + rows.encode())
    with pytest.raises(InvalidFileError, match=r"end in LF and lines that end in CRLF.*tr -d"):
        _ = read_readings(path, minutes=60, timezone="UTC").report


def test_a_list_of_meters_with_other_columns_is_refused(tmp_path: Path) -> None:
    """With the columns that it needs and has."""
    (path := tmp_path / "r.csv").write_text("id,timestamp,kwh\na,2013-01-01 00:00,1.5\n")
    (meters := tmp_path / "meters.csv").write_text("meter,owner\na,b\n")
    with pytest.raises(
        InvalidFileError, match=r"columns meter_id and customer_id.*'meter', 'owner'"
    ):
        read_readings(path, minutes=60, timezone="UTC", meters=meters)


def test_the_line_that_is_not_utf_8_is_quoted(tmp_path: Path) -> None:
    """Of a table of attributes, by number and text."""
    (path := tmp_path / "a.csv").write_bytes(b"customer_id,town\na,Bern\nb,Z\xfcrich\n")
    with pytest.raises(InvalidFileError, match=r"line 3: 'b,Z.rich'"):
        attribute_table(path)
