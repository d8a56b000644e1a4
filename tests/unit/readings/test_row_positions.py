"""The list of problems states where each row is, and lengths that contradict the stamps."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil import read_readings
from wattveil.errors import InvalidFileError

SDGE = "Meter Number,Date,Start Time,Duration,Consumption,Generation,Net"


def positions(source: object, folder: Path, **options: Any) -> list[tuple[str, ...]]:  # noqa: ANN401 - of readings
    """Return reason, position and text of the problems of a source."""
    problems = folder / "problems.csv"
    given: Any = source
    assert read_readings(given, problems_to=problems, **options).report.rows_in
    with problems.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def written(path: Path, *lines: str) -> Path:
    """Write lines to a file."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def sdge(path: Path, *values: str, duration: int = 60) -> Path:
    """Write hours of one meter, then quarter-hours, all with one stated length."""
    hours = [f"{hour}:00 am" for hour in (12, *range(1, 12))]
    hours += [f"{hour}:00 pm" for hour in (12, *range(1, 12))]
    rows = [
        f"7,4/1/2023,{hour},{duration},1.0,{value}"
        for hour, value in zip(hours, values, strict=True)
    ]
    return written(path, "Name,A B", "", SDGE.removesuffix(",Net"), *rows)


def test_a_line_with_two_channels_is_one_line(tmp_path: Path) -> None:
    """Both readings of a line have its number; the text says which of them it is."""
    path = sdge(tmp_path / "export.csv", "0.1", "", "x", *["0.1"] * 21)
    found = positions(path, tmp_path, timezone="America/Los_Angeles")
    lines = path.read_text().splitlines()
    assert [row[0] for row in found] == ["no value", "value is not a number"]
    assert [row[1] for row in found] == ["line 5", "line 6"]
    assert all(row[2].endswith("received") for row in found)
    assert "1:00 am" in lines[5 - 1]
    assert "2:00 am" in lines[6 - 1]


def test_a_wide_row_and_a_matrix_row_are_one_line(tmp_path: Path) -> None:
    """All values of a row have the number of its line."""
    slots = [f"h{hour:02}" for hour in range(24)]
    wide = written(
        tmp_path / "wide.csv",
        ",".join(["customer", "date", *slots]),
        ",".join(["a", "2013-01-01", *["1"] * 24]),
        ",".join(["a", "2013-01-02", *["1"] * 22, "x", "y"]),
    )
    found = positions(wide, tmp_path)
    assert [row[1] for row in found] == ["line 3", "line 3"]
    assert "slot 23" in found[0][2]
    matrix = written(
        tmp_path / "matrix.csv",
        "timestamp,home1,home2,home3",
        "2013-01-01 00:00,1,1,1",
        "2013-01-01 01:00,1,x,1",
        "2013-01-01 02:00,1,1,1",
    )
    assert [row[1] for row in positions(matrix, tmp_path)] == ["line 3"]


def test_several_files_are_named(tmp_path: Path) -> None:
    """Lines are those of the file, in any order of files."""
    head = "id,timestamp,kwh"
    one = written(tmp_path / "one.csv", head, "a,2013-01-01 00:00,1", "a,2013-01-01 01:00,1")
    two = written(tmp_path / "two.csv", head, "b,2013-01-01 00:00,1", "b,2013-01-01 01:00,x")
    assert [row[1] for row in positions([one, two], tmp_path)] == ["two.csv, line 3"]
    assert [row[1] for row in positions([two, one], tmp_path)] == ["two.csv, line 3"]


def test_several_staged_files_are_named(tmp_path: Path) -> None:
    """Files of one format, of which only the first line of data is counted from their header."""
    one = sdge(tmp_path / "one.csv", *["0.1"] * 24)
    two = written(tmp_path / "two.csv", *one.read_text().replace("7,4/1/", "8,4/1/").splitlines())
    two.write_text(two.read_text().replace("3:00 am,60,1.0,0.1", "3:00 am,60,1.0,?"))
    found = positions([one, two], tmp_path, timezone="America/Los_Angeles")
    assert [row[1] for row in found] == ["two.csv, line 7"]


def test_rows_of_a_table_without_lines_are_counted(tmp_path: Path) -> None:
    """A Parquet file has rows."""
    stamps = ["2013-01-01 00:00", "someday", "2013-01-01 01:00"]
    path = tmp_path / "readings.parquet"
    pq.write_table(pa.table({"id": ["a"] * 3, "timestamp": stamps, "kwh": [1.0] * 3}), path)
    assert [row[1] for row in positions(path, tmp_path)] == ["row 2"]


@pytest.mark.parametrize("duration", [60, 15])
def test_stated_lengths_that_the_stamps_contradict_are_counted(
    tmp_path: Path, duration: int
) -> None:
    """The lengths of an export that states them wrongly are those of its stamps."""
    path = sdge(tmp_path / "export.csv", *["0.1"] * 24, duration=duration)
    report = read_readings(path, timezone="America/Los_Angeles").report
    contradicted = 0 if duration == 60 else 48  # two readings in each of 24 lines
    noted = [rows for note, rows in report.notes.items() if "contradicted" in note]
    assert sum(noted) == contradicted
    assert any("contradicted" in warning for warning in report.warnings) == bool(contradicted)
    assert any("Duration" in one and "not used" in one for one in report.assumptions)
    stated = read_readings(path, timezone="America/Los_Angeles", minutes=60).report
    assert not any("contradicted" in warning for warning in stated.warnings)


def test_every_format_of_a_source_is_stated(tmp_path: Path) -> None:
    """Formats whose rows can be one table may be mixed."""
    one = sdge(tmp_path / "one.csv", *["0.1"] * 24)
    two = written(
        tmp_path / "two.csv", *one.read_text().replace("Consumption,Generation", "Net").splitlines()
    )
    two.write_text(two.read_text().replace(",1.0,0.1", ",1.0").replace("7,4/1/", "8,4/1/"))
    readings = read_readings([one, two], timezone="America/Los_Angeles")
    formats = [one.split(", by")[0] for one in readings.assumptions if one.startswith("format: ")]
    assert formats == ["format: SDG&E", "format: SDG&E, net"]
    assert readings.customer_ids() == ["7", "8"]


def test_a_table_in_memory_is_read_like_a_file(tmp_path: Path) -> None:
    """Whatever exports Arrow streams: the same checks, positions are rows."""
    table = pa.table(
        {
            "id": ["a", "a", "b"],
            "timestamp": ["2013-01-01 00:00", "2013-01-01 01:00", "someday"],
            "kwh": [1.0, 2.0, 3.0],
        }
    )
    path = tmp_path / "readings.parquet"
    pq.write_table(table, path)
    from_file = read_readings(path)
    for given in (table, table.to_pandas(), table.to_reader()):
        readings = read_readings(given)
        assert readings.to_arrow().equals(from_file.to_arrow())
        assert readings.report.dropped == from_file.report.dropped
        assert readings.assumptions == from_file.assumptions
    assert [row[1] for row in positions(table, tmp_path)] == ["row 3"]
    with pytest.raises(InvalidFileError, match="recognised as value"):
        read_readings(table.drop_columns("kwh"))


EXPORTS = Path(__file__).parents[2] / "data" / "exports"


@pytest.mark.parametrize("name", ["eloverblik_hourly.csv", "engie_nl_hourly.csv"])
def test_rows_that_a_format_leaves_out_are_listed(name: str, tmp_path: Path) -> None:
    """Bills and gas are dropped by the rule of a format; each has its line."""
    problems = tmp_path / "problems.csv"
    report = read_readings(
        EXPORTS / name, problems_to=problems, timezone="Europe/Copenhagen"
    ).report
    with problems.open(encoding="utf-8", newline="") as file:
        found = [*csv.DictReader(file)]
    assert Counter(row["reason"] for row in found) == Counter(report.dropped)
    assert found
    lines = (EXPORTS / name).read_text("utf-8").splitlines()
    for row in found:
        number = int(row["source_row"].removeprefix("line "))
        assert row["written"].partition(",")[0] in lines[number - 1]


def test_notes_on_the_source_are_no_part_of_kept_rows() -> None:
    """What counts kept rows is at most their number; other notes are below the table."""
    source = EXPORTS / "greenbutton_sce_15min.xml"
    report = read_readings(source, timezone="America/Los_Angeles").report
    counts = dict(report.lines())
    kept = [rows for text, rows in counts.items() if text.startswith("of these: ")]
    assert all(rows <= report.rows_out for rows in kept)
    assert "in the source: local-time rules ignored; start times are UTC" in counts
    assert report.table().row_count == len(counts) - len(report.remarks)
