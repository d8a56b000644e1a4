"""The fast pass over plain tables against the pass that checks every row."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil.profiles import ProfileBuild, build_profiles
from wattveil.readings import read_readings, slot_totals
from wattveil.readings.readings import Readings
from wattveil.readings.slot_counts import Calendar, count_plain_rows

_FIRST = dt.datetime(2013, 10, 20, tzinfo=dt.UTC)  # a week before clocks go back
_HALF_HOURS = [_FIRST + dt.timedelta(minutes=30 * half) for half in range(48 * 16)]

Count = Callable[[Readings, str, Calendar], bool]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each quick pass could count."""
    seen: list[bool] = []

    def spy(readings: Readings, target: str, calendar: Calendar) -> bool:
        seen.append(count_plain_rows(readings, target, calendar))
        return seen[-1]

    monkeypatch.setattr(slot_totals, "count_plain_rows", spy)
    return seen


def _lines(form: str) -> list[str]:
    """Two customers, with a field left empty and a row that comes twice."""
    lines = [
        f"{name},{start:{form}},{(start.hour + place) / 8}"
        for place, name in enumerate("ab")
        for start in _HALF_HOURS
    ]
    lines[100] = lines[100].rpartition(",")[0] + ","
    return [*lines, lines[7]]


def _checked_row_by_row(
    build: Callable[[], ProfileBuild], monkeypatch: pytest.MonkeyPatch
) -> ProfileBuild:
    with monkeypatch.context() as patch:
        patch.setattr(slot_totals, "count_plain_rows", lambda *_: False)
        return build()


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("%Y-%m-%d %H:%M:%S", {}),
        ("%Y-%m-%d %H:%M:%S", {"timezone": "Europe/London"}),
        ("%Y-%m-%dT%H:%MZ", {"unit": "kW"}),
        ("%Y-%m-%d %H:%M", {"unit": "Wh", "stamp": "end"}),
        ("%d/%m/%Y %H:%M", {}),
        ("%m/%d/%y %I.%M %p", {"stamp_format": "%m/%d/%y %I.%M %p"}),
    ],
)
def test_both_passes_agree(
    form: str,
    options: dict[str, str],
    tmp_path: Path,
    quick: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Same profiles, same account: clocks that go back, units, formats, gaps and duplicates."""
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["id,timestamp,value", *_lines(form)]), encoding="utf-8")

    def build() -> ProfileBuild:
        return build_profiles(
            read_readings(path, **options),  # type: ignore[call-overload]  # a table of options
            timezone="Europe/London",
            min_days=1,
            max_gap_hours=24,
        )

    first, second = build(), _checked_row_by_row(build, monkeypatch)
    to_resolve = options.get("stamp") == "end" and "timezone" in options
    assert quick == ([] if to_resolve else [True])
    assert first.account.readings == second.account.readings
    assert first.account.readings.dropped["no value"] == 1
    assert first.account.readings.merged == {"equal duplicate": 1}
    assert first.profiles.customer_ids == ("a", "b")
    assert np.array_equal(first.profiles.load_kw, second.profiles.load_kw)
    for name in ("days", "rows", "max_gap_hours"):
        assert np.array_equal(getattr(first.averages, name), getattr(second.averages, name))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_typed_stamps(unit: str, tmp_path: Path, quick: list[bool]) -> None:
    """Numbers as names, times of any resolution, decimals and whole numbers as values."""
    hours = [moment.replace(tzinfo=None) for moment in _HALF_HOURS[::2]]
    for values in (pa.array([2] * len(hours)), pa.array([2.0] * len(hours), pa.float32())):
        table = pa.table(
            {"id": [17] * len(hours), "ts": pa.array(hours, pa.timestamp(unit)), "kwh": values}
        )
        pq.write_table(table, tmp_path / "readings.parquet", version="2.6")
        build = build_profiles(read_readings(tmp_path / "readings.parquet"))
        assert build.profiles.customer_ids == ("17",)
        assert (build.profiles.load_kw == 2.0).all()
    assert quick == [True, True]


@pytest.mark.parametrize(
    "line",
    [
        "a,2013-10-25 00:00:00.5,1",
        "a,2013-10-25 0:00:00,1",
        ",2013-10-25 00:00:00,1",
        " a,2013-10-25 00:00:00,1",
        "a,2013-10-25 00:00:00,inf",
        "a,2013-10-25 00:00:00,much",
        "a,1985-10-25 00:00:00,1",
    ],
)
def test_irregular_lines_use_the_general_reader(
    line: str, tmp_path: Path, quick: list[bool]
) -> None:
    """An odd stamp, name or value makes the fast pass give up."""
    lines = [f"a,{start:%Y-%m-%d %H:%M:%S},1" for start in _HALF_HOURS]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["id,timestamp,kwh", *lines, line]), encoding="utf-8")
    report = build_profiles(read_readings(path, minutes=30)).account.readings
    assert quick == [False]
    assert report.rows_in == len(lines) + 1
    assert report == read_readings(path, minutes=30).report


@pytest.mark.parametrize(
    "stamp",
    [
        None,
        _FIRST + dt.timedelta(microseconds=1),  # the low bits of a stamp that is there
        _FIRST + dt.timedelta(minutes=15),
    ],
)
def test_an_irregular_time_uses_the_general_reader(
    stamp: dt.datetime | None, tmp_path: Path, quick: list[bool]
) -> None:
    """Parquet's statistics and one filter tell that a stamp is not of the calendar."""
    stamps = [*_HALF_HOURS, stamp]
    table = pa.table({"id": ["a"] * len(stamps), "ts": stamps, "kwh": [1.0] * len(stamps)})
    pq.write_table(table, tmp_path / "readings.parquet")
    readings = read_readings(tmp_path / "readings.parquet", minutes=30)
    report = build_profiles(readings, min_days=1).account.readings
    assert not any(quick)
    assert report.rows_in == len(stamps)
    assert report == readings.report


def test_stamps_that_do_not_tell_the_year(tmp_path: Path, quick: list[bool]) -> None:
    """A format by which two stamps are written alike would double rows in the join: refused."""
    lines = [f"a,{start:%d %H:%M},1" for start in _HALF_HOURS[:48]]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["id,timestamp,kwh", *lines]), encoding="utf-8")
    readings = read_readings(path, stamp_format="%d %H:%M", minutes=30)
    assert readings.report.dropped == {"year outside 1990-2099": 48}
    with pytest.raises(Exception, match="no reading is usable"):
        build_profiles(readings)
    assert not any(quick)


@pytest.mark.parametrize("name", ["slot", "stamp", "stamp_us", "as_written", "customer", "mask"])
def test_a_column_may_have_any_name(name: str, tmp_path: Path, quick: list[bool]) -> None:
    """A stamp column called like one of our own does not get in the way."""
    lines = [f"a,{start:%Y-%m-%d %H:%M},1" for start in _HALF_HOURS]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join([f"id,{name},kwh", *lines]), encoding="utf-8")
    columns = {"customer": "id", "stamp": name}
    assert build_profiles(read_readings(path, columns=columns)).profiles.load_kw.min() == 2.0
    assert quick == [True]
