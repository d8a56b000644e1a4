"""NEM12 files: what is read, what is counted, what is refused."""

import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.reported_problems import ReportedProblems
from wattveil.errors import InvalidFileError
from wattveil.readings import ReadOptions, batches
from wattveil.readings.explain import explain
from wattveil.readings.formats.nem12 import nem12_batches
from wattveil.readings.schema import READINGS_SCHEMA

HEAD = "100,NEM12,200405011135,MDA1,Ret1"
END = "900"
NMI = "VABD000163"


def stream(suffix: str = "E1", *, nmi: str = NMI, unit: str = "kWh", minutes: object = 30) -> str:
    """Write a 200 record."""
    return f"200,{nmi},E1B1,1,{suffix},N1,METSER123,{unit},{minutes},20040120"


def day(
    values: Sequence[object], date: str = "20040201", *, quality: str = "A", updated: str = ""
) -> str:
    """Write a 300 record."""
    return f"300,{date},{','.join(map(str, values))},{quality},,,{updated},"


def read(
    tmp_path: Path, *records: str, problems: ReportedProblems | None = None
) -> list[dict[str, object]]:
    """Read a file of the records, between a head and an end."""
    return read_text(tmp_path, "\r\n".join((HEAD, *records, END, "")), problems)


def read_text(
    tmp_path: Path, content: str | bytes, problems: ReportedProblems | None = None
) -> list[dict[str, object]]:
    """Read a file with the content."""
    path = tmp_path / "nem12.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = problems or ReportedProblems()
    readings = nem12_batches(path, problems=problems)
    rows: list[dict[str, object]] = pa.Table.from_batches(
        readings, schema=READINGS_SCHEMA
    ).to_pylist()
    assert not problems.notes  # this reader reports lost readings only
    return rows


# --- numbers computed by hand --------------------------------------------------------------------


def test_a_day_by_hand(tmp_path: Path) -> None:
    """1 February in market time (UTC+10) starts at 14:00 UTC on 31 January, summer or not."""
    rows = read(tmp_path, stream(), day([0.461, *[0] * 46, 1.5]))
    assert len(rows) == 48
    assert rows[0] == {
        "customer_id": NMI,
        "start_utc": datetime(2004, 1, 31, 14, tzinfo=UTC),
        "minutes": 30,
        "kwh": 0.461,
        "channel": "delivered",
        "quality": "valid",
    }
    assert rows[47]["start_utc"] == datetime(2004, 2, 1, 13, 30, tzinfo=UTC)
    assert rows[47]["kwh"] == 1.5


@pytest.mark.parametrize(("minutes", "values"), [(5, 288), (15, 96), (30, 48)])
def test_interval_lengths(tmp_path: Path, minutes: int, values: int) -> None:
    """A day has 288, 96 or 48 values, one interval after the other."""
    rows = read(tmp_path, stream(minutes=minutes), day(range(values)))
    assert [row["kwh"] for row in rows] == list(range(values))
    assert {row["minutes"] for row in rows} == {minutes}
    first = datetime(2004, 1, 31, 14, tzinfo=UTC)
    steps = [first + i * timedelta(minutes=minutes) for i in range(values)]
    assert [row["start_utc"] for row in rows] == steps


@pytest.mark.parametrize(
    ("unit", "kwh"),
    [("Wh", 0.0025), ("KWH", 2.5), ("MWh", 2500.0), ("kW", 1.25), ("W", 0.00125), ("MW", 1250.0)],
)
def test_units(tmp_path: Path, unit: str, kwh: float) -> None:
    """Energy is scaled to kWh, and power is the mean of its half hour."""
    rows = read(tmp_path, stream(unit=unit), day([2.5] * 48))
    assert {row["kwh"] for row in rows} == {kwh}


def test_export_to_the_grid_is_received_and_negative(tmp_path: Path) -> None:
    """B is what the market takes in: energy from the customer."""
    rows = read(tmp_path, stream("B1"), day([0.5, *[0] * 47]))
    assert {row["channel"] for row in rows} == {"received"}
    assert str(rows[0]["kwh"]) == "-0.5"
    assert str(rows[1]["kwh"]) == "0.0"


@pytest.mark.parametrize(
    ("flag", "quality"),
    [("A", "valid"), ("S14", "estimated"), ("F16", "estimated"), ("E52", "estimated")],
)
def test_quality_of_a_day(tmp_path: Path, flag: str, quality: str) -> None:
    """Actual is valid; substituted, finally or not, and estimated are estimated."""
    rows = read(tmp_path, stream(), day([1] * 48, quality=flag))
    assert {row["quality"] for row in rows} == {quality}


def test_null_days_and_empty_values_are_missing(tmp_path: Path) -> None:
    """Quality N marks a missing value, whatever the field contains; so does an empty value."""
    rows = read(tmp_path, stream(), day([0] * 48, quality="N"), day([1] * 47 + [""], "20040202"))
    missing = [row["quality"] == "missing" for row in rows]
    assert missing == [True] * 48 + [False] * 47 + [True]
    assert [row["kwh"] is None for row in rows] == missing


def test_variable_quality_by_ranges(tmp_path: Path) -> None:
    """The 400 records below a V day give the quality of their intervals, counted from 1."""
    ranges = ("400,1,20,F14,76,", "400,21,24,A,,", "400,25,47,S14,1,Fault", "400,48,48,N,,")
    rows = read(tmp_path, stream(), day([1] * 48, quality="V"), *ranges)
    words = [row["quality"] for row in rows]
    assert words == ["estimated"] * 20 + ["valid"] * 4 + ["estimated"] * 23 + ["missing"]
    assert rows[47]["kwh"] is None


def test_ranges_below_an_actual_day(tmp_path: Path) -> None:
    """A 400 record may single out intervals of any day."""
    rows = read(tmp_path, stream(), day([1] * 48), "400,3,4,S14,,")
    assert [i for i, row in enumerate(rows) if row["quality"] == "estimated"] == [2, 3]


# --- customers and registers ---------------------------------------------------------------------


def test_registers_of_one_direction_are_added(tmp_path: Path) -> None:
    """E1 + E2 is the customer's energy; the readings of E2 are counted as merged."""
    problems = ReportedProblems()
    rows = read(
        tmp_path,
        *(stream("E1"), day([1.5] * 48)),
        *(stream("E2"), day([0.25] * 47 + [""], quality="S14")),
        *(stream("B1"), day([2] * 48)),
        problems=problems,
    )
    delivered = [row for row in rows if row["channel"] == "delivered"]
    assert [row["kwh"] for row in delivered] == [1.75] * 47 + [None]
    assert [row["quality"] for row in delivered] == ["estimated"] * 47 + ["missing"]
    assert sum(row["channel"] == "received" for row in rows) == 48
    assert problems.lost == {"merged: added to another register of the same direction": 48}
    assert problems.rows[1] == (
        "line 5",
        {"customer_id": NMI, "suffix": "E2", "date": "2004-02-01", "minute": 30, "kwh": 0.25},
    )


def test_several_customers(tmp_path: Path) -> None:
    """Each NMI is a customer; an eleventh character is its check digit."""
    rows = read(
        tmp_path,
        *(stream(nmi="6305856194"), day([1] * 48)),
        *(stream(nmi="63058561957"), day([2] * 48)),
        "500,O,S01009,20040301,",
    )
    assert Counter(row["customer_id"] for row in rows) == {"6305856194": 48, "6305856195": 48}


def test_a_customer_who_comes_again(tmp_path: Path) -> None:
    """An NMI may come again with other days; for days already given, a sum would be too late."""
    other = (stream(nmi="6305856194"), day([1] * 48))
    first = (stream("E1"), day([1] * 48))
    again = (stream("E2"), day([1] * 48, "20040202"))
    assert len(read(tmp_path, *first, *other, *again)) == 3 * 48
    with pytest.raises(InvalidFileError, match=r"line 7.*all registers of one NMI together"):
        read(tmp_path, *first, *other, stream("E2"), day([1] * 48))


@pytest.mark.parametrize(("first", "second", "kwh"), [("1", "2", 2.0), ("2", "1", 1.0)])
def test_the_later_update_of_a_day_is_used(
    tmp_path: Path, first: str, second: str, kwh: float
) -> None:
    """If a day of a register comes twice, the one updated last stays and the other is counted."""
    problems = ReportedProblems()
    days = (
        day([1] * 48, updated=f"2004030100000{first}"),
        day([2] * 48, updated=f"2004030100000{second}"),
    )
    rows = read(tmp_path, stream(), *days, problems=problems)
    assert [row["kwh"] for row in rows] == [kwh] * 48
    assert problems.lost == {"day of a register came twice, the later update is used": 48}


def test_registers_of_different_lengths_are_counted(tmp_path: Path) -> None:
    """Half a sum is no load: neither register of the day is passed on."""
    problems = ReportedProblems()
    rows = read(
        tmp_path,
        *(stream("E1"), day([1] * 48), day([1] * 48, "20040202")),
        *(stream("E2", minutes=15), day([1] * 96)),
        problems=problems,
    )
    assert len(rows) == 48
    assert problems.lost == {"registers of one day differ in interval length": 48 + 96}


@pytest.mark.parametrize(
    ("suffix", "unit", "reason"),
    [
        ("K1", "kVArh", "stream is not active energy"),
        ("Q1", "kVArh", "stream is not active energy"),
        ("E1", "kVAh", "stream is not active energy"),
        ("K1", "kWh", "stream is not active energy"),
        ("F1", "kWh", "check meter or average, repeats the meter of record"),
        ("A1", "kWh", "check meter or average, repeats the meter of record"),
    ],
)
def test_other_streams_are_counted(tmp_path: Path, suffix: str, unit: str, reason: str) -> None:
    """Reactive energy and check meters are no load: each reading is counted."""
    problems = ReportedProblems()
    assert read(tmp_path, stream(suffix, unit=unit), day([-1] * 48), problems=problems) == []
    assert problems.lost == {reason: 48}


def test_many_days_come_in_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One customer's days need not fit into one batch."""
    monkeypatch.setattr(batches, "BATCH_ROWS", 96)
    days = (day([i] * 48, f"2004020{i}") for i in range(1, 6))
    path = tmp_path / "nem12.csv"
    path.write_text("\n".join((HEAD, stream(), *days, END)), encoding="utf-8")
    sizes = [batch.num_rows for batch in nem12_batches(path, problems=ReportedProblems())]
    assert sizes == [96, 96, 48]


def test_the_explanation_states_the_market_time(tmp_path: Path) -> None:
    """Times of NEM12 are UTC+10, whatever the zone of the profiles."""
    path = tmp_path / "nem12.csv"
    path.write_text("\n".join((HEAD, stream(), day([1] * 48), END)), encoding="utf-8")
    assert "UTC+10" in explain(path, ReadOptions(timezone="Australia/Perth")).format


# --- the file around the records -----------------------------------------------------------------


def test_files_one_after_the_other(tmp_path: Path) -> None:
    """A 900 record may be followed by another file."""
    one = "\n".join((HEAD, stream(), day([1] * 48), END))
    two = "\n".join((HEAD, stream(nmi="6305856194"), day([1] * 48), END))
    assert len(read_text(tmp_path, f"{one}\n\n{two}")) == 96


def test_spreadsheet_leftovers(tmp_path: Path) -> None:
    """A byte-order mark, quotes, blanks and columns filled up with commas change nothing."""
    plain = read(tmp_path, stream(), day([1] * 48, quality="S14"))
    record = day(["1 "] * 48, quality='"S14"').replace(",,,,", ',51,"Faulty, or not",,,,,')
    lines = (HEAD + ",,", stream() + ",,", record, ",,,,", END + ",,,")
    assert read_text(tmp_path, "\ufeff" + "\r\n".join(lines)) == plain


def zstd(content: bytes) -> bytes:
    """Compress as zstd does."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(content)
    result: bytes = sink.getvalue().to_pybytes()
    return result


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_compressed_files(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Gzip and zstd files read as the plain one, and a cut one is refused."""
    content = "\n".join((HEAD, stream(), day(range(48)), END)).encode()
    assert read_text(tmp_path, pack(content)) == read_text(tmp_path, content)
    with pytest.raises(InvalidFileError, match="a complete compressed file"):
        read_text(tmp_path, pack(content)[:-12])


@pytest.mark.parametrize(
    ("records", "where", "expected", "found"),
    [
        ((), "line 1", "a 900 record", "the end"),
        (("100,NEM13,1,2,3",), "line 1", "NEM12", "NEM13"),
        ((HEAD, HEAD), "line 2", "a 900 record before", "100"),
        ((HEAD, stream(), day([1] * 48)), "line 4", "a 900 record at the end", "the end"),
        ((HEAD, END, stream()), "line 3", "a 100 record", "200"),
        ((HEAD, "250,x"), "line 2", "a record 100, 200", "250"),
        ((HEAD, "200,x"), "line 2", "at least 9 fields", "2"),
        ((HEAD, day([1] * 48)), "line 2", "a 200 record before", "None"),
        ((HEAD, stream(), "400,1,48,A,,"), "line 3", "a 300 record before", "None"),
        ((HEAD, stream(nmi="12 4")), "line 2", "an NMI of 10", "12 4"),
        ((HEAD, stream("E")), "line 2", "a suffix of 2", "E"),
        ((HEAD, stream(minutes=60)), "line 2", "length of 5, 15 or 30", "60"),
        ((HEAD, stream(unit="therm")), "line 2", "a unit of the NEM12 list", "THERM"),
        ((HEAD, stream(), day([1] * 47)), "line 3", "a quality A, S", ""),
        ((HEAD, stream(), "300,20040201,1,2,A"), "line 3", "48 values", "3 fields"),
        ((HEAD, stream(), day([1] * 96)), "line 3", "48 values", "fields"),
        ((HEAD, stream(), day([1] * 48, "20040230")), "line 3", "a day YYYYMMDD", "20040230"),
        ((HEAD, stream(), day([1] * 48, "1/2/2004")), "line 3", "a day YYYYMMDD", "1/2/2004"),
        ((HEAD, stream(), day([1] * 9 + ["x"] * 39)), "line 3, value 10", "a number", "x"),
        ((HEAD, stream(), day([1] * 47 + ["nan"])), "line 3, value 48", "a number", "nan"),
        ((HEAD, stream(), day([1] * 47 + ['"1,5"'])), "line 3, value 48", "a number", "1,5"),
        ((HEAD, stream(), day([1] * 47 + [-1])), "line 3, value 48", "at least 0", "-1"),
        ((HEAD, stream(), day([1] * 48, quality="X")), "line 3", "a quality A, S", "X"),
        ((HEAD, stream(), day([1] * 48, quality="V"), END), "line 3", "up to interval 48", "0"),
        ((HEAD, stream(), day([1] * 48), "400,2,1,A"), "line 4", "a range from above 0", "2 to 1"),
        ((HEAD, stream(), day([1] * 48), "400,1,49,A"), "line 4", "at most 48", "1 to 49"),
        ((HEAD, stream(), day([1] * 48), "400,1,x,A"), "line 4", "a range of intervals", "x"),
        ((HEAD, stream(), day([1] * 48), "400,1,9,V"), "line 4", "a quality A, S, F, E or N", "V"),
        ((HEAD, stream(), day([1] * 48, quality="V"), "400,2,9,A"), "line 4", "from 1", "2 to 9"),
        ((HEAD, '200,"x'), "line 2", "comma-separated text", "unexpected end"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(
    tmp_path: Path, records: tuple[str, ...], where: str, expected: str, found: str
) -> None:
    """The error names the file, the line, what was expected and what was found."""
    with pytest.raises(InvalidFileError) as caught:
        read_text(tmp_path, "\n".join(records))
    assert caught.value.path == tmp_path / "nem12.csv"
    assert caught.value.where == where
    assert expected in caught.value.expected
    assert found in str(caught.value.found)


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"100,NEM12,\xe9", b"1" * 3_000_000],
    ids=["utf-16", "latin-1", "no line ends"],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    """Bytes that are no UTF-8, and a line without end, are refused and not collected."""
    with pytest.raises(InvalidFileError, match="line 1"):
        read_text(tmp_path, content)
