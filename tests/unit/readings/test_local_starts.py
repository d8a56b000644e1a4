"""Local time that Green Button files write as UTC is read file by file."""

import datetime as dt
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings
from wattveil.readings.batches import ProblemLog
from wattveil.readings.local_starts import RowRange, place_local_rows
from wattveil.readings.schema import READINGS_SCHEMA

_EXPORTS = Path(__file__).parents[2] / "data" / "exports"
_UTC_FILE = _EXPORTS / "greenbutton_sce_15min.xml"
_LOCAL_FILE = _EXPORTS / "greenbutton_sdge_hourly.xml"
_ZONE = "America/Los_Angeles"


def _rows(*files: Path) -> list[tuple[object, ...]]:
    table = read_readings(list(files), timezone=_ZONE).to_arrow()
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("files", [(_UTC_FILE, _LOCAL_FILE), (_LOCAL_FILE, _UTC_FILE)])
def test_files_read_together_are_read_as_each_alone(files: tuple[Path, Path]) -> None:
    """One file in local time shifts neither itself nor the other."""
    alone = [row for path in files for row in _rows(path)]
    assert sorted(_rows(*files)) == sorted(alone)
    report = read_readings(list(files), timezone=_ZONE).report
    note = next(count for text, count in report.notes.items() if "read as local time" in text)
    assert note == len(_rows(_LOCAL_FILE))


def test_without_a_zone_the_file_in_local_time_is_named() -> None:
    """Its starts cannot be placed beside those of the other file."""
    with pytest.raises(InvalidFileError, match=r"sdge_hourly\.xml.*timezone=…"):
        read_readings([_UTC_FILE, _LOCAL_FILE])


def test_unclear_days_are_refused_with_the_name_of_their_file(tmp_path: Path) -> None:
    """The file that states no offset is the cause, wherever it is in the list."""
    text = _LOCAL_FILE.read_text(encoding="utf-8")
    unclear = tmp_path / "unclear.xml"
    unclear.write_text(text.replace("tzOffset>0<", "tzOffset>-28800<"), encoding="utf-8")
    for files in ([_UTC_FILE, unclear], [unclear, _UTC_FILE]):
        with pytest.raises(InvalidFileError, match=r"unclear\.xml, IntervalBlock") as caught:
            read_readings(files, timezone=_ZONE)
        assert "implausible='accept' for UTC" in str(caught.value)


def test_changes_of_the_clocks_are_placed_as_in_a_single_file(tmp_path: Path) -> None:
    """Two passes of the repeated hour in order; the skipped hour is left out and counted."""
    starts = [
        dt.datetime(2019, 3, 10, 2, 0),  # noqa: DTZ001 - skipped
        dt.datetime(2019, 3, 10, 3, 0),  # noqa: DTZ001
        dt.datetime(2019, 11, 3, 1, 0),  # noqa: DTZ001 - first pass
        dt.datetime(2019, 11, 3, 1, 0),  # noqa: DTZ001 - second pass
        dt.datetime(2019, 11, 3, 1, 0),  # noqa: DTZ001 - of the file in UTC
    ]
    rows = [
        {
            "customer_id": "home",
            "start_utc": start.replace(tzinfo=dt.UTC),
            "minutes": 60,
            "kwh": float(kwh),
            "channel": "delivered",
            "quality": "valid",
        }
        for kwh, start in enumerate(starts)
    ]
    source = tmp_path / "streamed.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=READINGS_SCHEMA), source)
    log = ProblemLog(tmp_path / "left_out.csv")
    placed = place_local_rows(duckdb.connect(), source, [RowRange(1, 5)], _ZONE, log)
    log.close()
    found = pq.read_table(placed).to_pylist()
    assert [(row["kwh"], f"{row['start_utc']:%m-%d %H}", row["row"]) for row in found] == [
        (1.0, "03-10 10", 2),
        (2.0, "11-03 08", 3),
        (3.0, "11-03 09", 4),
        (4.0, "11-03 01", 5),
    ]
    assert dict(log.dropped) == {"local time that does not exist (clocks forward)": 1}
    assert log.notes["repeated hour (clocks back), assigned by order of appearance"] == 2
