"""Long tables: units, stamps, channels, qualities, duplicates, each by hand on a few rows."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.readings import Readings, read_readings

Write = Callable[..., Path]
_UTC = dt.UTC


def _rows(readings: Readings) -> list[tuple[str, str, float]]:
    return [
        (row["customer_id"], f"{row['start_utc']:%d %H:%M}", round(row["kwh"], 6))
        for row in readings.to_arrow().to_pylist()
    ]


@pytest.mark.parametrize(
    ("unit", "value", "kwh"), [("kWh", "0.5", 0.5), ("Wh", "500", 0.5), ("kW", "1", 0.5)]
)
def test_units_become_kwh(write: Write, unit: str, value: str, kwh: float) -> None:
    """Energy of a half-hour: Wh are thousandths, kW count for the length of the interval."""
    path = write("id,timestamp,value", f"a,2013-01-01 00:00,{value}", f"a,2013-01-01 00:30,{value}")
    assert _rows(read_readings(path, unit=unit)) == [("a", "01 00:00", kwh), ("a", "01 00:30", kwh)]


def test_the_unit_is_derived_from_the_name_of_the_column(write: Write) -> None:
    """A column load_kw is read as power, and the inferred unit is recorded."""
    path = write("id,timestamp,load_kw", "a,2013-01-01 00:00,3", "a,2013-01-01 00:15,3")
    readings = read_readings(path)
    assert _rows(readings)[0] == ("a", "01 00:00", 0.75)
    assert "unit: kW" in readings.assumptions
    assert any(assumption.startswith("minutes: 15") for assumption in readings.assumptions)


def test_end_stamps_move_back_by_one_interval(write: Write) -> None:
    """An interval that ends at midnight belongs to the day before."""
    path = write("id,interval_end,kwh", "a,2013-01-02 00:00,1", "a,2013-01-02 01:00,2")
    assert _rows(read_readings(path)) == [("a", "01 23:00", 1.0), ("a", "02 00:00", 2.0)]


@pytest.mark.parametrize(
    ("stamp", "start"),
    [
        ("2013-07-01T00:00:00Z", "01 00:00"),
        ("2013-07-01 00:00:00+01:00", "30 23:00"),
        ("2013-07-01 00:00-0600", "01 06:00"),
        ("2013-07-01 00:00 -06:00", "01 06:00"),
        ("2013-7-1 1:00Z", "01 01:00"),
        ("2013-07-01 00:00 UTC", "01 00:00"),
        ("2013-07-01T00:00:00.000+00", "01 00:00"),
        ("1372636800", "01 00:00"),
        ("1372636800000", "01 00:00"),
        ("01/07/2013 00:00", "01 00:00"),
        ("13.07.2013 00:00", "13 00:00"),
    ],
)
def test_stamps_of_many_kinds(write: Write, stamp: str, start: str) -> None:
    """Offsets, seconds since 1970 and common formats are read; the day before the month is seen."""
    lines = [f"a,{stamp},1"]
    if "/" in stamp:
        lines.append("a,31/07/2013 00:00,1")  # what makes the format clear
    path = write("id,timestamp,kwh", *lines)
    assert _rows(read_readings(path, minutes=60))[0] == ("a", start, 1.0)


def test_a_date_that_may_be_two_is_refused(write: Write) -> None:
    """01/02/2013 alone may be January or February: the caller must give the format."""
    path = write("id,timestamp,kwh", "a,01/02/2013 00:00,1", "a,01/02/2013 01:00,1")
    with pytest.raises(InvalidFileError, match="stamp_format"):
        read_readings(path)
    assert _rows(read_readings(path, stamp_format="%d/%m/%Y %H:%M"))[0][1] == "01 00:00"


def test_one_damaged_stamp_does_not_decide_the_order_of_day_and_month(write: Write) -> None:
    """Of 100 stamps that may be either, one with a 16th month is no evidence."""
    stamps = [f"{1 + n // 10:02}/{1 + n % 10:02}/2013 00:00" for n in range(100)]
    rows = [f"a,{stamp},{n % 7}" for n, stamp in enumerate(stamps)]
    with pytest.raises(InvalidFileError, match="stamp_format"):
        read_readings(write("id,timestamp,kwh", *rows, "a,16/04/2013 00:00,1"), minutes=60)
    clear = [f"a,{day}/04/2013 00:00,1" for day in range(13, 23)]
    path = write("id,timestamp,kwh", *rows, *clear)
    assert read_readings(path, minutes=60, implausible="accept").report.rows_out


def test_date_and_time_in_two_columns(write: Write) -> None:
    """A date and a start time make one stamp."""
    path = write("Meter,Date,Start Time,kWh", "a,2013-01-01,00:00,1", "a,2013-01-01,01:00,1")
    assert [row[1] for row in _rows(read_readings(path))] == ["01 00:00", "01 01:00"]


def test_stamps_of_another_kind_are_counted_and_dropped(write: Write) -> None:
    """Among naive stamps, one with an offset is unreadable, and the other way round."""
    naive = ["a,2013-01-01 00:00:00,1", "a,2013-01-01 01:00:00,1", "a,2013-01-01 02:00:00+01,1"]
    report = read_readings(write("id,timestamp,kwh", *naive)).report
    assert report.dropped == {"unreadable time stamp": 1}
    aware = ["a,2013-01-01 00:00+00,1", "a,2013-01-01 01:00+00,1", "a,2013-01-01 02:00,1"]
    report = read_readings(write("id,timestamp,kwh", *aware)).report
    assert report.dropped == {"unreadable time stamp": 1}


def test_rows_are_dropped_for_a_reason_each(write: Write) -> None:
    """Every kind of bad row is counted under its own reason, and the rest stays."""
    path = write(
        "customer_id,timestamp,kwh,minutes",
        "a,2013-01-01 00:00:00,1,60",
        ",2013-01-01 00:00:00,1,60",
        "a,someday,1,60",
        "a,1970-01-01 00:00:00,1,60",
        "a,2013-01-01 01:00:00,,60",
        "a,2013-01-01 02:00:00,Null,60",
        "a,2013-01-01 03:00:00,much,60",
        "a,2013-01-01 04:00:00,inf,60",
        "a,2013-01-01 05:00:00,1,7",
        "a,2013-01-01 06:07:00,1,60",
    )
    report = read_readings(path).report
    assert report.rows_out == 1
    assert report.dropped == {
        "no customer id": 1,
        "unreadable time stamp": 1,
        "year outside 1990-2099": 1,
        "no value": 2,
        "value is not a number": 1,
        "value is not finite": 1,
        "interval length is not 5, 10, 15, 20, 30 or 60 minutes": 1,
        "time stamp is not on the interval grid": 1,
    }


_TWICE = (
    "id,timestamp,kwh",
    "a,2013-01-01 00:00,1",
    "a,2013-01-01 00:00,3",
    "a,2013-01-01 01:00,5",
    "a,2013-01-01 01:00,5",
)


@pytest.mark.parametrize(
    ("rule", "first"), [("drop", None), ("first", 1.0), ("last", 3.0), ("mean", 2.0)]
)
def test_duplicates(write: Write, rule: str, first: float | None) -> None:
    """Equal values are one; different ones follow the rule; both are counted."""
    readings = read_readings(write(*_TWICE), conflicts=rule)
    kept = [] if first is None else [("a", "01 00:00", first)]
    assert _rows(readings) == [*kept, ("a", "01 01:00", 5.0)]
    assert readings.report.merged["equal duplicate"] == 1
    if first is None:
        assert readings.report.dropped == {"conflicting duplicates": 2}
    else:
        assert readings.report.merged["conflicting duplicate, resolved by the rule"] == 1


def test_a_measured_read_replaces_an_estimated_one(write: Write) -> None:
    """Of an estimate and a measurement of one interval, the measurement stays, without conflict."""
    path = write(
        "id,timestamp,kwh,quality",
        "a,2013-01-01 00:00,1,E",
        "a,2013-01-01 00:00,2,A",
        "a,2013-01-01 01:00,2,A",
    )
    readings = read_readings(path)
    assert _rows(readings)[0] == ("a", "01 00:00", 2.0)
    assert readings.report.merged == {"replaced by a better read of the interval": 1}


@pytest.mark.parametrize(("rule", "kept"), [("keep", 2), ("flag", 2), ("drop", 1)])
def test_estimated_reads(write: Write, rule: str, kept: int) -> None:
    """Estimates are kept and noted, or dropped and counted; missing marks always are dropped."""
    path = write(
        "id,timestamp,kwh,quality",
        "a,2013-01-01 00:00,1,E",
        "a,2013-01-01 01:00,2,A",
        "a,2013-01-01 02:00,2,N",
    )
    report = read_readings(path, estimated=rule).report
    assert report.rows_out == kept
    assert report.dropped["marked as missing"] == 1
    if rule == "drop":
        assert report.dropped["estimated"] == 1
    else:
        assert report.notes == {"estimated, kept": 1}


def test_received_energy_is_negative_load(write: Write) -> None:
    """Delivered less received, whichever sign the sender gives; a lone channel is noted."""
    path = write(
        "id,timestamp,kwh,channel",
        "a,2013-01-01 00:00,1,delivered",
        "a,2013-01-01 00:00,3,received",
        "a,2013-01-01 01:00,0.5,delivered",
        "a,2013-01-01 01:00,-2,received",
        "a,2013-01-01 02:00,4,received",
    )
    readings = read_readings(path)
    assert _rows(readings) == [
        ("a", "01 00:00", -2),
        ("a", "01 01:00", -1.5),
        ("a", "01 02:00", -4),
    ]
    assert readings.report.merged == {"delivered and received, netted": 2}
    assert list(readings.report.notes.values()) == [1]


def test_a_net_channel_is_used_unchanged(write: Write) -> None:
    """Where a net value exists, its parts are not counted again."""
    path = write(
        "id,timestamp,kwh,channel",
        "a,2013-01-01 00:00,1,net",
        "a,2013-01-01 00:00,3,delivered",
        "a,2013-01-01 01:00,2,net",
    )
    readings = read_readings(path)
    assert _rows(readings) == [("a", "01 00:00", 1.0), ("a", "01 01:00", 2.0)]
    assert readings.report.dropped == {"superseded by the net channel": 1}


def test_a_meter_swap_is_one_customer(write: Write) -> None:
    """Meters of the list become their customer; others are counted."""
    meters = write("meter_id,customer_id", "m1,home", "m2,home", name="meters.csv")
    path = write(
        "meter_id,timestamp,kwh",
        "m1,2013-01-01 00:00,1",
        "m1,2013-01-01 01:00,1",
        "m2,2013-01-01 02:00,2",
        "m3,2013-01-01 02:00,2",
    )
    readings = read_readings(path, meters=meters)
    assert [row[0] for row in _rows(readings)] == ["home"] * 3
    assert readings.report.dropped == {"meter is not in the list of meters": 1}


def test_a_meter_of_two_customers_is_refused(write: Write) -> None:
    """A list of meters that contradicts itself is an error."""
    meters = write("meter_id,customer_id", "m1,x", "m1,y", name="meters.csv")
    path = write("meter_id,timestamp,kwh", "m1,2013-01-01 00:00,1")
    with pytest.raises(InvalidFileError, match="m1 with several"):
        read_readings(path, meters=meters, minutes=60)


def test_a_period_is_local_days(write: Write) -> None:
    """Readings outside the period are dropped, by the clock of the stamps' zone."""
    stamps = ("2013-06-30 23:00", "2013-07-01 00:00", "2013-07-01 23:00", "2013-07-02 00:00")
    path = write("id,timestamp,kwh", *(f"a,{stamp},1" for stamp in stamps))
    period = ("2013-07-01", "2013-07-02")
    readings = read_readings(path, minutes=60, timezone="Europe/London", period=period)
    assert [row[1] for row in _rows(readings)] == ["30 23:00", "01 22:00"]
    assert readings.report.dropped == {"outside the period": 2}


def test_decimal_commas(write: Write) -> None:
    """0,25 between semicolons is a quarter, and the inferred mark is recorded."""
    path = write("id;timestamp;kwh", "a;2013-01-01 00:00;0,25", "a;2013-01-01 01:00;1,5")
    readings = read_readings(path)
    assert [row[2] for row in _rows(readings)] == [0.25, 1.5]
    assert "values: decimal comma" in readings.assumptions


def test_blanks_around_a_name_do_not_make_a_second_home(write: Write) -> None:
    """' a' and 'a ' are a: one home under two names would break the unit of privacy."""
    path = write("id,timestamp,kwh", " a,2013-01-01 00:00,1", "a ,2013-01-01 01:00,1")
    assert [row[0] for row in _rows(read_readings(path))] == ["a", "a"]


def test_the_rows_themselves_go_to_a_file(write: Write, tmp_path: Path) -> None:
    """On request, every dropped or contradicting row is written with its reason."""
    path = write(*_TWICE, "a,someday,1", ",2013-01-01 02:00,9")
    problems = tmp_path / "problems.csv"
    readings = read_readings(path, problems_to=problems)
    assert readings.report.rows_in == 6
    lines = problems.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    assert 'unreadable time stamp,line 6,"a, someday, 1"' in lines
    assert sum("conflicting duplicates" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"unit": "BTU"}, "unit"),
        ({"minutes": 7}, "minutes"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../etc/passwd"}, "timezone"),
        ({"conflicts": "guess"}, "conflicts"),
        ({"period": ("2013-01-02", "2013-01-01")}, "period"),
        ({"columns": {"colour": "x"}}, "columns"),
        ({"register_rollover": 100.0}, "register_rollover"),
        ({"cumulative": True, "stamp": "end"}, "stamp"),
        ({"problems_to": "problems.xls"}, "problems_to"),
        ({"memory_mb": 1}, "memory_mb"),
    ],
)
def test_options_are_checked_before_reading(
    write: Write, options: dict[str, object], field: str
) -> None:
    """A public parameter that breaks its rule is named, before any file is read."""
    with pytest.raises(InvalidParameterError) as caught:
        read_readings(write("id,timestamp,kwh"), **options)  # type: ignore[call-overload] # on purpose
    assert caught.value.field == field
