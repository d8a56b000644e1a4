"""Profiles: averages by hand, rules of coverage, weights, and the file both ways."""

import datetime as dt
import json
import re
from collections.abc import Iterable
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil.errors import InvalidDataError, InvalidFileError, InvalidParameterError
from wattveil.profiles import (
    Profiles,
    Split,
    TimeGrid,
    build_profiles,
    hours_from_readings,
    profiles_from_readings,
)
from wattveil.readings import read_readings

_FIRST = dt.datetime(2013, 1, 7, tzinfo=dt.UTC)  # a Monday
_HOUR = dt.timedelta(hours=1)

Row = tuple[str, dt.datetime, float]


def _hours(name: str, days: int, *, kwh: float = 1.0, first: dt.datetime = _FIRST) -> list[Row]:
    return [(name, first + hour * _HOUR, kwh) for hour in range(24 * days)]


def _write(path: Path, rows: Iterable[Row]) -> Path:
    lines = [f"{name},{start:%Y-%m-%d %H:%M:%S}Z,{kwh!r}" for name, start, kwh in rows]
    path.write_text("\n".join(["id,timestamp,kwh", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Name of a file to write readings to."""
    return tmp_path / "readings.csv"


def test_the_average_day_by_hand(source: Path) -> None:
    """Two days of hourly energy, 1 and 3 kWh in every hour, average 2 kW."""
    rows = _hours("a", 1, kwh=1.0) + _hours("a", 1, kwh=3.0, first=_FIRST + 24 * _HOUR)
    profiles = profiles_from_readings(read_readings(_write(source, rows)), min_days=2)
    assert profiles.customer_ids == ("a",)
    assert profiles.load_kw.tolist() == [[2.0] * 24]


def test_kw_do_not_depend_on_the_length_of_the_interval(source: Path) -> None:
    """A quarter of a kWh in a quarter of an hour is 1 kW."""
    quarter = dt.timedelta(minutes=15)
    rows = [("a", _FIRST + quarter * place, 0.25) for place in range(96)]
    readings = read_readings(_write(source, rows))
    assert np.allclose(profiles_from_readings(readings, min_days=1).load_kw, 1.0)
    grid = TimeGrid(minutes=15)
    assert profiles_from_readings(readings, grid=grid, min_days=1).load_kw.shape == (1, 96)


def test_customers_are_the_same_in_one_part_or_many(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Customers averaged together or one by one: the same names in order, figures and gaps."""
    names = ["b", "é", "a", "z", "B", "10", "9"]
    rows = [
        row
        for place, name in enumerate(names)
        for row in _hours(name, 10, kwh=place + 0.1)[: 200 - 7 * place]
        if row[1].hour != 3 + place or row[1].day != 10 + place % 3
    ]
    readings = read_readings(_write(source, rows))
    whole = build_profiles(readings, min_days=1, max_gap_hours=4)
    assert whole.averages.customer_ids == tuple(sorted(names))
    monkeypatch.setattr("wattveil.profiles.build._MASKS_AT_ONCE", 24)
    monkeypatch.setattr("wattveil.profiles.build._CUSTOMERS_AT_ONCE", 1)
    parts = build_profiles(readings, min_days=1, max_gap_hours=4)
    assert parts.averages.customer_ids == whole.averages.customer_ids
    assert parts.averages.max_gap_hours.tolist() == [1.0] * len(names)
    for field in ("load_kw", "rows", "days", "max_gap_hours", "estimated_share"):
        same = np.array_equal(getattr(parts.averages, field), getattr(whole.averages, field))
        assert same, field


def test_ten_times_the_readings_have_the_same_weight(source: Path) -> None:
    """A customer with ten times the days counts once, with the profile of one with fewer days."""
    rows = (
        _hours("brief", 14, kwh=2.0) + _hours("long", 140, kwh=2.0) + _hours("other", 14, kwh=8.0)
    )
    profiles = profiles_from_readings(read_readings(_write(source, rows)))
    assert profiles.customer_ids == ("brief", "long", "other")
    assert np.array_equal(profiles.load_kw[0], profiles.load_kw[1])
    assert profiles.load_kw.mean() == 4.0  # (2 + 2 + 8) / 3, not drawn towards the long record


def test_repeating_rows_changes_nothing(source: Path) -> None:
    """A customer whose rows come ten times has the same profile as if they came once."""
    once = profiles_from_readings(read_readings(_write(source, _hours("a", 14))))
    again = build_profiles(read_readings(_write(source, _hours("a", 14) * 10)))
    assert np.array_equal(once.load_kw, again.profiles.load_kw)
    assert again.account.readings.merged == {"equal duplicate": 14 * 24 * 9}


def test_hours_are_local(source: Path) -> None:
    """A load at 18:00 London time stays at 18:00 through the year."""
    start = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    london = ZoneInfo("Europe/London")
    starts = [start + hour * _HOUR for hour in range(24 * 365)]
    rows = [("a", moment, float(moment.astimezone(london).hour == 18)) for moment in starts]
    readings = read_readings(_write(source, rows))
    profile = profiles_from_readings(readings, timezone="Europe/London").load_kw[0]
    assert profile.tolist() == [float(hour == 18) for hour in range(24)]
    smeared = profiles_from_readings(readings, timezone="UTC").load_kw[0]
    assert 0.5 < smeared[17] < 0.6


@pytest.mark.parametrize(
    ("split", "columns"),
    [
        ("day", 24),
        ("weekday-weekend", 48),
        ("season", 96),
        ("season-weekday-weekend", 192),
        ("week", 168),
    ],
)
def test_splits_by_hand(source: Path, split: str, columns: int) -> None:
    """The load is the number of the day in the week, plus ten times the month: plain averages."""
    start = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    starts = [start + hour * _HOUR for hour in range(24 * 365)]
    rows = [("a", moment, 10.0 * moment.month + moment.weekday()) for moment in starts]
    grid = TimeGrid(split=Split(split))
    profiles = profiles_from_readings(read_readings(_write(source, rows)), grid=grid)
    assert profiles.load_kw.shape == (1, columns)
    assert len(set(grid.labels)) == columns
    season = {12: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2, 8: 2, 9: 3, 10: 3, 11: 3}

    def part(moment: dt.datetime) -> int:
        weekend = int(moment.weekday() > 4)
        return {
            "day": 0,
            "weekday-weekend": weekend,
            "season": season[moment.month],
            "season-weekday-weekend": 2 * season[moment.month] + weekend,
            "week": moment.weekday(),
        }[split]

    for cell in range(0, columns, 7):
        values = [kwh for _, moment, kwh in rows if 24 * part(moment) + moment.hour == cell]
        assert profiles.load_kw[0, cell] == pytest.approx(np.mean(values), rel=1e-12)


def test_the_closing_midnight(source: Path) -> None:
    """The paper's d = 25: 24:00 is the 0:00 of the average day after."""
    rows = [("a", start, float(start.hour)) for _, start, _ in _hours("a", 2)]
    grid = TimeGrid(closing_midnight=True)
    profiles = profiles_from_readings(read_readings(_write(source, rows)), grid=grid, min_days=1)
    assert profiles.load_kw[0].tolist() == [*map(float, range(24)), 0.0]
    assert grid.labels[-1] == "24:00"


def test_customers_are_left_out_for_a_reason_each(source: Path) -> None:
    """Each rule of coverage drops whom it should, counts them, and stands in the rules."""
    gap = [row for row in _hours("gap", 20) if not 100 <= (row[1] - _FIRST) / _HOUR < 130]
    noon = [row for row in _hours("no noon", 20) if row[1].hour != 12]
    rows = _hours("full", 20) + _hours("brief", 3) + gap + noon
    torn = [("torn", _FIRST, 1.0), ("torn", _FIRST, 2.0)]  # two values, neither of them kept
    path = _write(source, [*rows, *torn, ("empty", _FIRST, float("nan"))])
    build = build_profiles(read_readings(path), min_days=10, max_gap_hours=29.5)
    assert build.profiles.customer_ids == ("full",)
    assert build.account.customers_dropped == {
        "no usable reading": 2,
        "readings on fewer than 10 days": 1,
        "no reading for at least one hour of the profile": 1,
        "a gap of more than 29.5 hours": 1,
    }
    assert build.account.customers_in == 6
    assert build.profiles.rules["min_days"] == 10
    kept = build_profiles(read_readings(path), min_days=10, max_gap_hours=30)
    assert kept.profiles.customer_ids == ("full", "gap")


def test_the_change_of_clocks_is_no_gap(source: Path) -> None:
    """A full year of readings has no gap, by UTC or by the clock."""
    start = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    rows = _hours("a", 365, first=start)
    build = build_profiles(
        read_readings(_write(source, rows)), timezone="Europe/London", max_gap_hours=1
    )
    assert build.averages.max_gap_hours.tolist() == [0.0]
    local = source.with_name("local.csv")
    london = ZoneInfo("Europe/London")
    lines = [f"a,{moment.astimezone(london):%Y-%m-%d %H:%M:%S},1" for _, moment, _ in rows]
    local.write_text("\n".join(["id,timestamp,kwh", *lines]), encoding="utf-8")
    build = build_profiles(read_readings(local, timezone="Europe/London"), max_gap_hours=1)
    assert build.averages.max_gap_hours.tolist() == [0.0]


def test_one_wild_stamp_does_no_harm(source: Path) -> None:
    """A meter whose clock was reset to 2000 costs neither memory nor the profile."""
    wild = ("a", dt.datetime(2000, 1, 1, tzinfo=dt.UTC), 1.0)
    readings = read_readings(_write(source, [*_hours("a", 20), wild]))
    assert build_profiles(readings).averages.days.tolist() == [21]
    totals = readings.slot_totals(TimeGrid(), "UTC")
    assert totals.frame.days.size < 40


def test_days_that_the_first_rows_do_not_show(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file by time, of which the beginning is one day: the rest is found and counted."""
    monkeypatch.setattr("wattveil.readings.slot_totals._SAMPLE_ROWS", 5)
    monkeypatch.setattr("wattveil.readings.slot_totals._MARGIN_US", 86_400_000_000)
    build = build_profiles(read_readings(_write(source, _hours("a", 40))))
    assert build.averages.days.tolist() == [40]
    assert build.averages.rows.tolist() == [[40] * 24]


def test_one_bad_field_far_down_the_file(source: Path) -> None:
    """The fast pass gives up at the first odd field, and the pass over every row counts it."""
    _write(source, _hours("a", 200))
    with source.open("a", encoding="utf-8") as file:
        file.write("a,2014-01-01 00:00:00Z,lots\n a ,2014-01-01 01:00:00Z,1\n")
    build = build_profiles(read_readings(source))
    assert build.account.readings.dropped == {"value is not a number": 1}
    assert build.profiles.customer_ids == ("a",)
    assert build.averages.days.tolist() == [201]


def test_an_hour_that_lies_in_two_cells(source: Path) -> None:
    """Hours that begin at half past have no cell of a grid of hours: counted, not bent."""
    lines = [f"a,{start:%Y-%m-%d %H:%M},1" for _, start, _ in _hours("a", 14)]
    lines.append("a,2013-01-08 12:30,7")
    source.write_text("\n".join(["id,timestamp,kwh", *lines]), encoding="utf-8")
    readings = read_readings(source)
    build = build_profiles(readings)
    assert build.account.straddling == 1
    assert build.account.readings.rows_out == len(lines)
    assert np.allclose(build.profiles.load_kw, 1.0)
    india = build_profiles(readings, timezone="Asia/Kolkata")
    assert india.account.straddling == len(lines) - 1


def test_mixed_interval_lengths_agree_with_one_length(source: Path) -> None:
    """Half a record in hours and half in quarters of hours: the same average."""
    hourly = [f"a,{start:%Y-%m-%d %H:%M},2,60" for _, start, _ in _hours("a", 1)]
    next_day = _FIRST + 24 * _HOUR
    quarters = [next_day + dt.timedelta(minutes=15 * place) for place in range(96)]
    lines = hourly + [f"a,{start:%Y-%m-%d %H:%M},1,15" for start in quarters]
    source.write_text("\n".join(["id,timestamp,kwh,minutes", *lines]), encoding="utf-8")
    readings = read_readings(source)
    load_kw = profiles_from_readings(readings, min_days=1).load_kw
    assert np.allclose(load_kw, 3.0)  # 2 kW on one day, 4 kW on the other
    build = build_profiles(readings, grid=TimeGrid(minutes=30), min_days=1)
    assert build.account.unfit == 24
    assert np.allclose(build.profiles.load_kw, 4.0)


def test_a_grid_finer_than_the_readings_is_refused(source: Path) -> None:
    """Hourly readings do not determine half-hours."""
    with pytest.raises(InvalidParameterError, match="multiple of the readings' 60 minutes"):
        build_profiles(read_readings(_write(source, _hours("a", 1))), grid=TimeGrid(minutes=30))


@pytest.mark.filterwarnings("ignore::wattveil.errors.UnmatchedAttributesWarning")
def test_attributes_are_looked_up(source: Path, tmp_path: Path) -> None:
    """Class and ZIP come along for releases by group; who has none is counted."""
    table = tmp_path / "customers.csv"
    table.write_text("customer_id,class,zip\n\u00a0b ,C23,60601\na,C24,\n", encoding="utf-8")
    rows = _hours("a", 14) + _hours("b", 14) + _hours("c", 14)
    build = build_profiles(read_readings(_write(source, rows)), attributes=table)
    assert build.profiles.attributes == {
        "class": ("C24", "C23", None),
        "zip": (None, "60601", None),
    }
    assert build.profiles.account["customers_without_attributes"] == 1
    table.write_text("customer_id,class\na,1\na,2\n", encoding="utf-8")
    with pytest.raises(InvalidFileError, match="each customer once"):
        build_profiles(read_readings(source), attributes=table)
    table.write_text("name,class\na,1\n", encoding="utf-8")
    with pytest.raises(InvalidFileError, match="customer_id or meter_id"):
        build_profiles(read_readings(source), attributes=table)


def test_estimated_share(source: Path) -> None:
    """The share of flagged estimates is stored with the profile."""
    lines = [
        f"a,{start:%Y-%m-%d %H:%M},1,{'E' if start.hour < 6 else 'A'}"
        for _, start, _ in _hours("a", 14)
    ]
    source.write_text("\n".join(["id,timestamp,kwh,quality", *lines]), encoding="utf-8")
    flagged = profiles_from_readings(read_readings(source, estimated="flag"))
    assert flagged.estimated_share is not None
    assert flagged.estimated_share.tolist() == [0.25]
    assert profiles_from_readings(read_readings(source)).estimated_share is None


def test_parquet_both_ways(source: Path, tmp_path: Path) -> None:
    """What is written is read back to the last bit, with its metadata."""
    attributes = tmp_path / "customers.csv"
    attributes.write_text("customer_id,class\na,C23\n", encoding="utf-8")
    readings = read_readings(_write(source, _hours("a", 14, kwh=0.1)), estimated="flag")
    first = profiles_from_readings(readings, grid=TimeGrid(split=Split.WEEK), attributes=attributes)
    first.write_parquet(tmp_path / "profiles.parquet")
    second = Profiles.read_parquet(tmp_path / "profiles.parquet")
    assert second.customer_ids == first.customer_ids
    assert np.array_equal(second.load_kw, first.load_kw)
    assert (second.grid, second.timezone) == (first.grid, first.timezone)
    assert second.attributes == first.attributes
    assert json.dumps(second.rules) == json.dumps(first.rules)
    assert json.dumps(second.account) == json.dumps(first.account)
    assert second.estimated_share is not None
    assert not second.load_kw.flags.writeable
    metadata = pq.read_schema(tmp_path / "profiles.parquet").metadata
    assert json.loads(metadata[b"wattveil.profiles"])["labels"] == list(first.grid.labels)


def test_files_that_are_no_profiles_are_refused(tmp_path: Path) -> None:
    """A foreign file, a foreign Parquet file and a changed one are refused by name."""
    path = tmp_path / "x.parquet"
    path.write_bytes(b"nothing")
    with pytest.raises(InvalidFileError, match="a Parquet file"):
        Profiles.read_parquet(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(InvalidFileError, match="schema metadata"):
        Profiles.read_parquet(path)
    for record in ({}, {"version": 2}, {"version": 1, "grid": 1, "attributes": 2}):
        metadata = {b"wattveil.profiles": json.dumps(record).encode()}
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(metadata), path)
        with pytest.raises(InvalidFileError, match="profiles"):
            Profiles.read_parquet(path)


def test_profiles_check_what_they_hold() -> None:
    """One finite row per customer, no customer twice, one attribute per customer."""
    load_kw = np.ones((2, 24))
    with pytest.raises(InvalidDataError, match="one profile per customer"):
        Profiles(customer_ids=("a", "a"), load_kw=load_kw, grid=TimeGrid(), timezone="UTC")
    with pytest.raises(InvalidDataError, match="finite"):
        Profiles(customer_ids=("a", "b"), load_kw=load_kw * np.nan, grid=TimeGrid(), timezone="UTC")
    with pytest.raises(InvalidParameterError, match="load_kw must be one row of 24 n") as error:
        Profiles(customer_ids=("a",), load_kw=load_kw, grid=TimeGrid(), timezone="UTC")
    assert "2" not in str(error.value).replace("24", "")  # the number of customers is private
    with pytest.raises(InvalidDataError, match="load_kw is no masked array"):
        Profiles(
            customer_ids=("a", "b"),
            load_kw=np.ma.masked_array(load_kw, mask=load_kw > 0.0),
            grid=TimeGrid(),
            timezone="UTC",
        )
    with pytest.raises(InvalidParameterError, match="attributes"):
        Profiles(
            customer_ids=("a", "b"),
            load_kw=load_kw,
            grid=TimeGrid(),
            timezone="UTC",
            attributes={"class": ("x",)},
        )


def test_grids_are_checked() -> None:
    """Slots that do not part an hour, and a closing midnight of a week, are refused."""
    with pytest.raises(InvalidParameterError, match=r"grid\.minutes"):
        TimeGrid(minutes=7)
    with pytest.raises(InvalidParameterError, match=r"grid\.closing_midnight"):
        TimeGrid(split=Split.WEEK, closing_midnight=True)


def test_a_source_without_a_usable_reading_is_refused(source: Path) -> None:
    """A source without usable readings raises an error with the reason."""
    source.write_text(
        "id,timestamp,kwh\na,2013-01-01 00:00,\na,2013-01-01 01:00,\n", encoding="utf-8"
    )
    with pytest.raises(InvalidFileError, match="no value"):
        build_profiles(read_readings(source))


def test_the_repr_of_profiles_shows_public_facts_only(source: Path) -> None:
    """No ids, loads, attribute values, rules or counts: a notebook would print them.

    Grid and time zone are public. All digits of the text are those of the grid.
    """
    profiles = Profiles(
        customer_ids=tuple(f"meter-{row}" for row in range(7)),
        load_kw=np.full((7, 24), 3.25),
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={"class": ("shop",) * 7},
        estimated_share=np.full(7, 0.125),
        account={"customers": 11},
    )
    text = f"Profiles(grid={TimeGrid()!r}, timezone='Europe/London', private rows not shown)"
    assert repr(profiles) == str(profiles) == f"{profiles}" == text
    few = Profiles(
        customer_ids=(), load_kw=np.zeros((0, 24)), grid=TimeGrid(), timezone="Europe/London"
    )
    assert repr(few) == text
    readings = read_readings(_write(source, _hours("meter-8", 2, kwh=3.25)))
    build = build_profiles(readings, min_days=1)
    hours = hours_from_readings(readings, first_day=_FIRST.date(), n_days=1)
    for private in (build, build.averages, hours):
        assert re.search(r"meter-8|3\.25|array", repr(private)) is None


def test_customers_are_chosen_by_an_attribute() -> None:
    """Rows of the listed values, in order; a name or value that does not occur is refused."""
    profiles = Profiles(
        customer_ids=("a", "b", "c"),
        load_kw=np.arange(72.0).reshape(3, 24),
        grid=TimeGrid(),
        timezone="UTC",
        attributes={"class": ("home", "shop", "flat")},
    )
    found = profiles.where("class", ["flat", "home"])
    assert found.customer_ids == ("a", "c")
    assert found.attributes == {"class": ("home", "flat")}
    np.testing.assert_array_equal(found.load_kw, profiles.load_kw[[0, 2]])
    assert profiles.where("class", "shop").customer_ids == ("b",)
    with pytest.raises(InvalidParameterError, match="attribute must be one of: class"):
        profiles.where("kind", ["home"])
    with pytest.raises(InvalidParameterError, match="values of class that occur"):
        profiles.where("class", ["hoem"])
