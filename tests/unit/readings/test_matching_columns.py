"""Several files read together: columns match by name, and no file is misread."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import Readings, read_readings
from wattveil.readings.csv_files import csv_headers, scan_by_name, scan_csv
from wattveil.readings.options import UNREAD
from wattveil.readings.row_positions import rows_by_file
from wattveil.readings.sources import numbered

Table = dict[str, list[str]]
HOURS = [f"2025-01-01 {hour:02}:00" for hour in range(24)]


def home(name: str, kwh: str = "0.5") -> Table:
    """Return a day of a home."""
    return {"meter": [name] * 24, "timestamp": HOURS, "kwh": [kwh] * 24}


@pytest.fixture(params=["csv", "parquet"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, Table], Path]:
    """Write a table to a file of either kind, with its columns in the order that they have."""

    def written(name: str, table: Table) -> Path:
        path = tmp_path / f"{name}.{request.param}"
        if request.param == "parquet":
            pq.write_table(pa.table(table), path)
        else:
            rows = zip(*table.values(), strict=True)
            path.write_text("\n".join(map(",".join, [tuple(table), *rows])) + "\n")
        return path

    return written


def total(readings: Readings) -> dict[str, float]:
    """Return the energy of each customer."""
    rows = readings.to_arrow().select(["customer_id", "kwh"]).group_by("customer_id")
    found = rows.aggregate([("kwh", "sum")]).to_pylist()
    return {row["customer_id"]: round(row["kwh_sum"], 6) for row in found}


def test_columns_match_by_name(write: Callable[[str, Table], Path]) -> None:
    """In another order, with additional columns, and without one that has no role."""
    first = home("a") | {"note": ["x"] * 24}
    other = {name: home("b", "0.25")[name] for name in ("kwh", "meter", "timestamp")}
    more = {"region": ["7.5"] * 24, "note": ["y"] * 24} | home("c", "0.125")
    files = [write("1", first), write("2", other), write("3", more), write("4", home("d"))]
    found = read_readings(files, timezone="UTC")
    assert total(found) == {"a": 12.0, "b": 6.0, "c": 3.0, "d": 12.0}
    (noted,) = (one for one in found.report.assumptions if "region" in one)
    assert noted.startswith(UNREAD)
    assert noted.endswith(f"(in {files[2].name})")


@pytest.mark.parametrize(
    ("columns", "expected", "found"),
    [
        ({"meter": "a", "kwh": "1"}, "time stamp", "kwh"),
        ({"timestamp": "", "kwh": "1"}, "customer", "timestamp"),
        ({"meter": "a", "timestamp": ""}, "value", "timestamp"),
        ({"meter": "a", "timestamp": "", "wh": "1"}, "value 'kwh', as in", "'wh'"),
        ({"meter": "a", "timestamp": "", "kwh": "1", "channel": "net"}, "channel no", "'channel'"),
        ({"meter": "a", "timestamp": "", "kwh": "1", "quality": "E"}, "quality no", "'quality'"),
        ({"meter": "a", "timestamp": "", "kwh": "1", "unit": "Wh"}, "of units no", "'unit'"),
        ({"meter": "a", "timestamp": "", "kwh": "1", "pv_kwh": "1"}, "several", "pv_kwh"),
        ({"meter": "a", "interval_end": "", "kwh": "1"}, "stamp 'timestamp'", "'interval_end'"),
    ],
)
def test_a_file_that_would_be_read_otherwise_is_refused(
    write: Callable[[str, Table], Path], columns: dict[str, str], expected: str, found: str
) -> None:
    """With its name, the role and both columns: no role is dropped, and none is guessed."""
    table = {name: [value] * 24 if value else HOURS for name, value in columns.items()}
    files = [write("first", home("a")), write("other", table)]
    with pytest.raises(InvalidFileError) as caught:
        _ = read_readings(files, timezone="UTC").report
    assert "other" in str(caught.value.path)
    assert expected in caught.value.expected
    assert found in str(caught.value)


def test_a_matrix_with_other_customers_is_refused(write: Callable[[str, Table], Path]) -> None:
    """Its columns are customers: one that is missing would be read as empty."""
    first = {"timestamp": HOURS, "home 1": ["1"] * 24, "home 2": ["2"] * 24}
    swapped = {name: first[name] for name in ("home 2", "timestamp", "home 1")}
    next_day = swapped | {"timestamp": [one.replace("01-01", "01-02") for one in HOURS]}
    both = [write("1", first), write("2", next_day)]
    assert total(read_readings(both, timezone="UTC")) == {"home 1": 48.0, "home 2": 96.0}
    other = {"timestamp": HOURS, "home 1": ["1"] * 24, "home 3": ["2"] * 24}
    with pytest.raises(InvalidFileError, match="home 3"):
        read_readings([both[0], write("3", other)], timezone="UTC")


def test_another_delimiter_is_refused(tmp_path: Path) -> None:
    """Such a file has another sender, who may write numbers and dates in another way."""
    for name, sign in (("a", ","), ("b", ";")):
        rows = zip(*home(name).values(), strict=True)
        (tmp_path / f"{name}.csv").write_text("\n".join(map(sign.join, [tuple(home("")), *rows])))
    with pytest.raises(InvalidFileError, match=r"b\.csv, line 1: .*between columns, as in"):
        read_readings([tmp_path / "a.csv", tmp_path / "b.csv"], timezone="UTC")


def test_problems_are_found_at_their_line(tmp_path: Path) -> None:
    """The list of problems names file and line, whatever the order of columns."""
    rows = [",".join(row) for row in zip(*home("a").values(), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["meter,timestamp,kwh", *rows]))
    turned = [f"{n},{stamp},b" for n, stamp in enumerate(HOURS)]
    turned[3] = f"nothing,{HOURS[3]},b"
    (tmp_path / "b.csv").write_text("\n".join(["kwh,timestamp,meter", *turned]))
    report = tmp_path / "problems.csv"
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert read_readings(files, timezone="UTC", problems_to=report).report.rows_out == 47
    assert "b.csv, line 5" in report.read_text()


def test_rows_keep_the_order_of_files(tmp_path: Path) -> None:
    """File by file and row by row, on files large enough to be read by several threads."""
    connection = duckdb.connect()
    files = [tmp_path / f"part{part}.csv" for part in range(3)]
    for part, path in enumerate(files):
        columns = "s, i" if part == 1 else "i, s"
        rows = f"SELECT i + {part * 500_000} AS i, repeat('x', 20) AS s FROM range(500000) t(i)"
        connection.execute(f"COPY (SELECT {columns} FROM ({rows})) TO '{path}' (FORMAT csv)")
    scan = scan_by_name(csv_headers(files, skip_lines=0), skip_lines=0)
    wrong = f"SELECT count(*) FROM {numbered(scan)} WHERE i::BIGINT <> source_row - 1"
    assert connection.execute(wrong).fetchall() == [(0,)]
    assert set(rows_by_file(connection, scan).values()) == {500_000}
    with pytest.raises(InvalidFileError, match=r"part1\.csv, header: expected the header of"):
        scan_csv(files, skip_lines=0)  # Spark reads columns by their position
