"""Long tables: units, stamps, channels, qualities, duplicates, each by hand on a few rows."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.profiles import ProfileRules
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
        "a,2013-01-01 02:00,2,missing",
    )
    report = read_readings(path, estimated=rule).report
    assert report.rows_out == kept
    assert report.dropped["marked as missing"] == 1
    if rule == "drop":
        assert report.dropped["estimated"] == 1
    else:
        assert report.notes == {"estimated, kept": 1}


@pytest.mark.parametrize(
    "text", ["W", "wahr", "True", "1", "P", "Temporary", "G", "V", "N", "no", "oops"]
)
def test_a_quality_of_unknown_meaning_is_refused_until_it_is_stated(
    write: Write, text: str
) -> None:
    """It is neither an estimate nor a measurement; codes that formats define differently too."""
    hours = [f"a,2013-01-01 {hour:02}:00,1" for hour in range(3)]
    path = write("id,timestamp,kwh,status", f"{hours[0]},A", f"{hours[1]},{text}", f"{hours[2]},A")
    refused = rf'column "status": .*words=\{{\'{text.lower()}\': …\}} \(valid, estimated'
    with pytest.raises(InvalidFileError, match=refused):
        read_readings(path)
    stated = read_readings(path, words={text: "valid"}).to_arrow()
    assert stated["quality"].to_pylist() == ["valid"] * 3
    missing = read_readings(path, words={text: "missing"}).report
    assert missing.dropped == {"marked as missing": 1}


def test_texts_of_known_formats_are_known_qualities(write: Write) -> None:
    """In any language of the known formats; a column `estimated` says what yes and no mean."""
    texts = ["A", "REAL", "Målt", "geschätzt", "S14", "raw", "questionable", ""]
    lines = [f"a,2013-01-01 {hour:02}:00,1,{text}" for hour, text in enumerate(texts)]
    read = read_readings(write("id,timestamp,kwh,quality", *lines)).to_arrow()["quality"]
    expected = ["valid", "valid", "valid", "estimated", "estimated", "raw", "questionable", "valid"]
    assert read.to_pylist() == expected
    for no, yes in (("false", "True"), ("0", "1"), ("N", "Y")):
        lines = [f"a,2013-01-01 0{hour}:00,1,{text}" for hour, text in enumerate((no, yes))]
        path = write("id,timestamp,kwh,estimated", *lines, name=f"{yes}.csv")
        flags = read_readings(path).to_arrow()["quality"]
        assert flags.to_pylist() == ["valid", "estimated"]


def test_a_stated_word_is_a_channel_of_a_long_table(write: Write) -> None:
    """Otherwise rows of an unknown channel are dropped and counted."""
    hours = [f"a,2013-01-01 {hour:02}:00,1" for hour in range(2)]
    path = write("id,timestamp,kwh,channel", f"{hours[0]},import", f"{hours[1]},Bezug X")
    assert read_readings(path).report.dropped == {"unknown channel": 1}
    assert read_readings(path, words={"Bezug X": "delivered"}).report.rows_out == 2


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


def _from(first: int, hours: int, *, homes: int = 12) -> list[str]:
    """Rows of homes, from a number of hours after midnight on."""
    begin = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    stamps = [begin + dt.timedelta(hours=first + hour) for hour in range(hours)]
    return [f"h{home},{stamp:%Y-%m-%d %H:%M},1" for home in range(homes) for stamp in stamps]


def test_stamps_from_one_to_midnight_are_ends(write: Write) -> None:
    """Of nearly all customers; a name that says start, or the caller, decides before the rows."""
    ends = write("id,timestamp,kwh", *_from(1, 48))
    read = read_readings(ends, timezone="Europe/Berlin")
    assert _rows(read)[0] == ("h0", "31 23:00", 1.0)  # 0:00 in Berlin
    assert any("end of the interval, as the first" in text for text in read.assumptions)
    assert not read.report.warnings
    reverse = write("id,timestamp,kwh", *reversed(_from(1, 48)), name="reverse.csv")
    assert _rows(read_readings(reverse, timezone="Europe/Berlin")) == _rows(read)
    starts: tuple[tuple[str, dict[str, Any]], ...] = (
        ("start", {}),
        ("timestamp", {"stamp": "start"}),
    )
    for header, options in starts:
        stated = write(f"id,{header},kwh", *_from(1, 48), name="stated.csv")
        assert _rows(read_readings(stated, timezone="UTC", **options))[0][1] == "01 01:00"


def test_stamps_from_midnight_on_are_starts(write: Write) -> None:
    """Also if a few customers begin an hour later, as after a change of supplier."""
    few = [row.replace("h", "late", 1) for row in _from(1, 48, homes=2)]
    path = write("id,timestamp,kwh", *_from(0, 48), *few)
    read = read_readings(path, timezone="UTC")
    assert _rows(read)[0] == ("h0", "01 00:00", 1.0)
    assert not read.report.warnings


def test_stamps_that_only_begin_like_ends_give_a_warning(write: Write) -> None:
    """Starts and ends are both possible then."""
    path = write("id,timestamp,kwh", *_from(1, 40))
    read = read_readings(path, timezone="UTC")
    assert _rows(read)[0] == ("h0", "01 01:00", 1.0)
    (warning,) = read.report.warnings
    assert warning.endswith("one interval after midnight; state --stamp start or --stamp end")


def test_an_unread_direction_gives_a_warning(write: Write) -> None:
    """A second direction is not in the profile; dates of files and other columns are notes only."""
    columns = {"customer": "id", "stamp": "at", "value": "import_kwh"}
    hours = [f"a,2013-01-01 {hour:02}:00,1,2,x" for hour in range(3)]
    path = write("id,at,import_kwh,export_kwh,received_at", *hours)
    read = read_readings(path, columns=columns, timezone="UTC")
    (warning,) = read.report.warnings
    assert "direction of energy: 'export_kwh'; " in warning
    assert "'channel' (delivered, received)" in warning
    assert "not read: 'received_at'" in read.assumptions


def test_columns_without_a_role_are_no_inferred_option(write: Write) -> None:
    """If every option is stated, a release says that none was inferred."""
    path = write("id,at,load,zip", "a,2013-01-01 00:00,1,x", "a,2013-01-01 01:00,1,x")
    stated: dict[str, Any] = {
        "layout": "long",
        "columns": {"customer": "id", "stamp": "at", "value": "load"},
        "unit": "kWh",
        "minutes": 60,
        "stamp": "start",
        "stamp_format": "%Y-%m-%d %H:%M",
        "decimal": "point",
        "timezone": "UTC",
    }
    report = read_readings(path, **stated).report
    assert report.assumptions == ("not read: 'zip'",)
    assert ProfileRules(timezone="UTC").to_json(report)["assumptions"] == []
    del stated["minutes"]
    inferred: dict[str, Any] = ProfileRules(timezone="UTC").to_json(
        read_readings(path, **stated).report
    )
    assert len(inferred["assumptions"]) == 1


@pytest.mark.parametrize("name", ["Zählpunkt", "zaehlpunkt"])
def test_a_metering_point_is_a_customer(write: Write, name: str) -> None:
    """German exports of many customers name it so."""
    rows = [f"AT{home},2013-01-01 {hour:02}:00,1" for home in (1, 2) for hour in range(3)]
    read = read_readings(write(f"{name},timestamp,kwh", *rows), timezone="Europe/Vienna")
    assert read.customer_ids() == ["AT1", "AT2"]


@pytest.mark.parametrize("name", ["MPAN", "Customer number", "ESIID", "Usage Point ID"])
def test_common_names_of_customers_are_known(write: Write, name: str) -> None:
    """Names that utilities give to the customer, the supply point or the meter."""
    path = write(f"{name},timestamp,kwh", "a,2013-01-07 00:00,1", "b,2013-01-07 00:00,2")
    assert [row[0] for row in _rows(read_readings(path, minutes=60))] == ["a", "b"]


def test_many_customers_read_as_one_home_are_explained(write: Write) -> None:
    """Without a column of the customer, their readings contradict each other."""
    rows = [f"2013-01-07 {hour:02}:00,{kwh}" for kwh in (1, 2, 3) for hour in range(24)]
    readings = read_readings(write("timestamp,kwh", *rows), minutes=60)
    assert readings.to_arrow().num_rows == 0
    assert any("--column customer=NAME" in one for one in readings.report.warnings)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """A path, and a pattern that finds nothing, are told apart."""
    with pytest.raises(InvalidFileError, match=r"no\.csv does not exist\. Check the path"):
        read_readings(tmp_path / "no.csv")
    with pytest.raises(InvalidFileError, match="at least one file of readings"):
        read_readings(str(tmp_path / "*.csv"))
