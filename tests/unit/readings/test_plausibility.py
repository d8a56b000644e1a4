"""Data that contradict themselves are refused with the evidence; tables of one home are read."""

import datetime as dt
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from wattveil.errors import AssumedTimeZoneWarning, InvalidFileError, InvalidParameterError
from wattveil.profiles import build_profiles
from wattveil.readings import ReadOptions, read_readings
from wattveil.readings.explain import explain
from wattveil.readings.options import DecimalMark, FileLayout, Implausible, MeasuredIn

Write = Callable[..., Path]

_HOURS = [f"2024-01-{day:02} {hour:02}:00" for day in range(1, 4) for hour in range(24)]
_LOADS = [round(1 + math.sin(place), 3) for place in range(len(_HOURS))]


def _lines(header: str, values: list[float], *, before: str = "", after: str = "") -> list[str]:
    rows = zip(_HOURS, values, strict=True)
    return [header, *(f"{before}{stamp},{value}{after}" for stamp, value in rows)]


def test_a_register_is_known_by_its_values(write: Write) -> None:
    """Whatever its column is called: refused, and differenced with the option."""
    states = [5000 + sum(_LOADS[: place + 1]) for place in range(len(_LOADS))]
    path = write(*_lines("id,timestamp,kwh", states, before="a,"))
    with pytest.raises(InvalidFileError, match=r"never fall in 3\.0 days"):
        read_readings(path)
    read = read_readings(path, cumulative=True).to_arrow()
    assert sum(read["kwh"].to_pylist()) == pytest.approx(sum(_LOADS[1:]))
    in_wh = write(*_lines("id,timestamp,wh", [1000 * s for s in states], before="a,"), name="w.csv")
    read = read_readings(in_wh, cumulative=True).to_arrow()
    assert sum(read["kwh"].to_pylist()) == pytest.approx(sum(_LOADS[1:]))
    with pytest.raises(InvalidParameterError, match="unit"):
        read_readings(path, cumulative=True, unit="kW")


def test_a_load_beyond_the_bound_is_refused_unless_accepted(write: Write) -> None:
    """A wrong unit is off a thousandfold."""
    path = write(*_lines("id,timestamp,value", [1000 * kwh for kwh in _LOADS], before="a,"))
    with pytest.raises(InvalidFileError, match=r"the median load is [0-9,]+ kW, above 100 kW"):
        read_readings(path)
    for options in ({"unit": "Wh"}, {"implausible": "accept"}):
        assert read_readings(path, **options).report.rows_out == len(_LOADS)  # type: ignore[call-overload]


def test_intervals_that_overlap_are_refused(write: Write) -> None:
    """A length of 60 minutes on rows 15 minutes apart."""
    stamps = [f"2024-01-01 {q // 4:02}:{q % 4 * 15:02}" for q in range(96)]
    path = write("id,timestamp,kwh,minutes", *(f"a,{s},{q % 7},60" for q, s in enumerate(stamps)))
    with pytest.raises(InvalidFileError, match="60 minutes that begin 15 minutes apart"):
        read_readings(path)
    assert read_readings(path, minutes=15).lengths == (15,)


def test_overlaps_of_some_customers_name_one_and_what_helps(write: Write) -> None:
    """`minutes` cannot help where customers have several lengths; a column of lengths does."""
    quarters = [(f"2024-01-{q // 96 + 1:02} {q // 4 % 24:02}:{q % 4 * 15:02}") for q in range(960)]
    rows = [(f"h{c:02}", stamp, 60) for c in range(30) for stamp in quarters[::4]]
    rows += [(f"q{c}", stamp, 15) for c in range(3) for stamp in quarters]
    plain = write("id,timestamp,kwh", *(f"{name},{stamp},0.4" for name, stamp, _ in rows))
    for options in ({}, {"minutes": 60}):
        with pytest.raises(InvalidFileError, match=r"15 minutes apart.*'q[0-2]'") as refused:
            read_readings(plain, **options)  # type: ignore[call-overload]
        assert "minutes=" not in str(refused.value)
    lines = (f"{name},{stamp},0.4,{minutes}" for name, stamp, minutes in rows)
    assert read_readings(write("id,timestamp,kwh,minutes", *lines, name="m.csv")).lengths == (
        15,
        60,
    )


@pytest.mark.parametrize(
    ("unit", "per_kwh"), [("Wh", 1000), ("kWh", 1), ("MWh", 0.001), ("W", 1000), ("kW", 1)]
)
def test_units_of_a_column_and_of_names(write: Write, unit: str, per_kwh: float) -> None:
    """Hourly values, so that power and energy have the same number."""
    values = [per_kwh * kwh for kwh in _LOADS]
    column = write(*_lines("id,timestamp,value,unit", values, before="a,", after=f",{unit}"))
    named = write(*_lines(f"id,timestamp,usage ({unit})", values, before="a,"), name="n.csv")
    option = write(*_lines("id,timestamp,value", values, before="a,"), name="o.csv")
    found = [read_readings(column), read_readings(named), read_readings(option, unit=unit)]
    for readings in found:
        total = sum(readings.to_arrow()["kwh"].to_pylist())
        assert total == pytest.approx(sum(_LOADS))


def test_gas_is_named(write: Write) -> None:
    """A unit of volume is no energy."""
    column = write(*_lines("id,timestamp,value,unit", _LOADS, before="a,", after=",m3"))
    with pytest.raises(InvalidFileError, match="one unit, such as kWh"):
        read_readings(column)
    named = write(*_lines("id,timestamp,usage_m3", _LOADS, before="a,"), name="named.csv")
    with pytest.raises(InvalidFileError, match="gas or water"):
        read_readings(named, columns={"value": "usage_m3"})


@pytest.mark.parametrize(
    "header",
    [
        "time,Import T1,Import T2",
        "time,temperature,humidity",
        "time,Phase A (Wh),Phase B (Wh)",
        "time,sensor status,state",
    ],
)
def test_channels_and_sensors_are_no_customers(write: Write, header: str) -> None:
    """A matrix has no unit, direction, state or sensor in its names."""
    lines = [header, *(f"{stamp},{kwh},1" for stamp, kwh in zip(_HOURS, _LOADS, strict=True))]
    with pytest.raises(InvalidFileError, match="'value'"):
        read_readings(write(*lines))


def test_a_home_without_a_column_of_customers(write: Write) -> None:
    """Named by its file; an export column is subtracted, sensors beside it are left."""
    rows = zip(_HOURS, _LOADS, strict=True)
    lines = [f"{stamp},{kwh},0.25,17" for stamp, kwh in rows]
    path = write("time,consumption (kWh),export (kWh),temperature", *lines, name="house 3.csv")
    table = read_readings(path, timezone="Europe/Paris").to_arrow()
    assert set(table["customer_id"].to_pylist()) == {"house 3"}
    assert sum(table["kwh"].to_pylist()) == pytest.approx(sum(_LOADS) - 0.25 * len(_LOADS))


def test_wide_tables_of_ends_and_of_channels(write: Write) -> None:
    """Unknown tables with columns named by times, with or without customers."""
    ends = [f"{hour}:00" for hour in range(1, 24)] + ["0:00"]
    values = ",".join(str(hour) for hour in range(24))
    path = write(",".join(["id", "date", *ends]), f"a,2024-05-01,{values}")
    table = read_readings(path).to_arrow().to_pylist()
    assert [row["kwh"] for row in table] == list(range(24))
    assert table[-1]["start_utc"].hour == 23
    starts = [f"{hour}:00" for hour in range(24)]
    named = write(",".join(["date", *starts]), f"2024-05-01,{values}", name="home.csv")
    assert read_readings(named).to_arrow()["customer_id"][0].as_py() == "home"
    with pytest.raises(InvalidFileError):
        read_readings(named, stamp="end")
    flows = write(
        ",".join(["id", "date", "channel", *starts]),
        f"a,2024-05-01,import,{values}",
        f"a,2024-05-01,export,{values}",
        name="flows.csv",
    )
    assert set(read_readings(flows).to_arrow()["kwh"].to_pylist()) == {0.0}


def test_a_numbered_column_contradicts_an_end(write: Write) -> None:
    """h00 is a start: the option is rejected, not ignored."""
    names = [f"h{hour:02}" for hour in range(24)]
    path = write(",".join(["id", "date", *names]), "a,2024-05-01," + ",".join("1" * 24))
    with pytest.raises(InvalidParameterError, match="stamp must be start"):
        read_readings(path, stamp="end")


def test_a_letterhead_and_trailing_delimiters(write: Write) -> None:
    """The header is found below; empty cells have no name but do no harm."""
    rows = [f"a,{stamp},{kwh}," for stamp, kwh in zip(_HOURS, _LOADS, strict=True)]
    path = write("Energy report", "", "Made on,2024-02-01", "id,timestamp,kwh,", *rows)
    assert read_readings(path).report.rows_out == len(_LOADS)


def test_all_missing_roles_are_named_at_once(write: Write) -> None:
    """With the option to paste, and without a list of a hundred columns."""
    path = write(",".join(f"c{place}" for place in range(120)), ",".join("1" * 120))
    with pytest.raises(InvalidFileError) as caught:
        read_readings(path)
    assert "columns={'customer': …, 'stamp': …, 'value': …}" in str(caught.value)
    assert len(caught.value.found) <= 13  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("magic", "name"),
    [(b"PK\x03\x04", "ZIP"), (b"\x89HDF\r\n\x1a\n", "HDF5"), (b"%PDF-1.7", "PDF")],
)
def test_binary_files_are_named(tmp_path: Path, magic: bytes, name: str) -> None:
    """Not taken for a table with odd columns."""
    path = tmp_path / "data.bin"
    path.write_bytes(magic + bytes(200))
    with pytest.raises(InvalidFileError, match=name):
        read_readings(path)


_LOCAL = {
    "long table": "customer_id,timestamp,kwh\n"
    + "".join(f"a,2024-03-04 {hour:02}:00,1\n" for hour in range(24)),
    "one home": "timestamp,kwh\n" + "".join(f"2024-03-04 {hour:02}:00,1\n" for hour in range(24)),
    "hour numbers": "CUPS;Fecha;Hora;Consumo_kWh\n"
    + "".join(f"ES1;04/03/2024;{hour};1,5\n" for hour in range(1, 25))
    + "ES1;13/03/2024;25;1,5\n",
    "slots of long days": "id,date," + ",".join(f"h{hour}" for hour in range(1, 26)) + "\n"
    "a,2024-03-04," + ",".join("1" * 24) + ",\n",
}


@pytest.mark.parametrize("name", _LOCAL)
def test_a_missing_time_zone_is_never_silent(tmp_path: Path, name: str) -> None:
    """Local times of an unknown zone warn, however they are written; with a zone nothing does."""
    (path := tmp_path / "file.csv").write_text(_LOCAL[name])
    with pytest.warns(AssumedTimeZoneWarning, match="timezone=…"):
        readings = read_readings(path)
    assert "--timezone" in readings.report.warnings[0]
    assert explain(path, ReadOptions()).warnings == readings.report.warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_readings(path, timezone="Europe/Madrid", unit="kWh").report.warnings == ()


@pytest.mark.parametrize(
    ("name", "warns"),
    [
        ("greenbutton_ameren_15min.xml", True),  # local time written as UTC
        ("greenbutton_openespi_hourly.xml", False),
        ("nem12_solar_5min.csv", False),
        ("lcl_block_30min.csv", False),
        ("fingrid_datahub_15min.csv", False),
        ("sce_interval_15min.csv", True),
        ("home_assistant_energy_dashboard.csv", False),  # offsets in the names
    ],
)
def test_a_zone_that_is_part_of_the_format_needs_no_word(name: str, *, warns: bool) -> None:
    """Formats in UTC or with offsets are read without a warning."""
    readings = read_readings(Path(__file__).parents[2] / "data" / "exports" / name)
    assert bool(readings.report.warnings) is warns


@pytest.mark.parametrize(
    ("unit", "kwh"),
    [("W", 0.125), ("kW", 125), ("Wh", 0.25), ("kWh", 250), ("MJ", 250 / 3.6)],
)
def test_the_unit_of_the_file_is_explained(write: Write, unit: str, kwh: float) -> None:
    """The explanation states the unit of the file and what it becomes, staged or not."""
    stamps = [f"2024-03-04 {hour:02}:{half}" for hour in range(24) for half in ("00", "30")]
    accept = ReadOptions(timezone="UTC", implausible=Implausible.ACCEPT)
    for header, first in ((f"timestamp,load ({unit})", ""), (f"id,timestamp,load_{unit}", "a,")):
        path = write(header, *(f"{first}{stamp},250" for stamp in stamps))
        found = explain(path, accept)
        assert (found.unit, found.readings[0]["kwh"]) == (unit, pytest.approx(kwh))
        assert found.becomes.startswith("kWh")


_SECTION = "Energy Received time period,Usage(Real energy in kilowatt-hours),Reading quality\n"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ('"2024-03-04 00:00 to 2024-03-04 00:15"\r,1,', "line 2.*cells of CSV"),
        ("2024-03-04 00:00 to 2021-03-04 00:15,1,", "line 2.*an interval of at most a day"),
    ],
)
def test_damaged_rows_of_sections_are_refused(tmp_path: Path, row: str, expected: str) -> None:
    """With the line and the rule, whatever the damage does to the parser."""
    (path := tmp_path / "sections.csv").write_text(f"{_SECTION}{row}\n", newline="")
    with pytest.raises(InvalidFileError, match=expected):
        read_readings(path, timezone="America/Los_Angeles")


def test_two_sections_with_values_of_both_signs_are_refused(tmp_path: Path) -> None:
    """One damaged value made an export a second net load, and the two were merged."""
    title = "Interval block data for period\n"
    hours = [f"2024-03-04 {hour:02}:00 to 2024-03-04 {hour + 1:02}:00" for hour in range(23)]
    exports = [f"{hour},{-0.5 if hour != hours[3] else 0.03},\n" for hour in hours]
    net = [f"{hour},{0.7 if number % 2 else -0.2},\n" for number, hour in enumerate(hours)]
    heading = "Energy time period,Usage(Real energy in kilowatt-hours)\n"
    text = title + heading + "".join(exports) + heading + "".join(net)
    (path := tmp_path / "sections.csv").write_text(text)
    with pytest.raises(InvalidFileError, match=r"sections.*net, net"):
        read_readings(path, timezone="America/Denver")


def test_an_arrow_file_with_offsets_outside_its_buffers_is_refused(tmp_path: Path) -> None:
    """Reading it unchecked would end the process."""
    names = pa.array([f"home {number}" for number in range(40)])
    values = {"customer_id": names, "kwh": [1.0] * 40, "timestamp": ["2024-03-04 00:00"] * 40}
    feather.write_feather(pa.table(values), path := tmp_path / "homes.arrow", "uncompressed")
    offsets = names.buffers()[1].to_pybytes()[:164]
    content = path.read_bytes()
    at = content.index(offsets)
    path.write_bytes(content[: at + 80] + b"\xff\xff\xff\x7f" + content[at + 84 :])
    with pytest.raises(InvalidFileError, match="Arrow"):
        read_readings(path)


def test_stated_columns_that_switch_off_a_known_format_give_a_warning(write: Write) -> None:
    """The format omits the total; with stated columns it is kept, and a warning says so."""
    ends = [*_HOURS[1:], "2024-01-04 00:00"]
    rows = [
        ";".join(["0017", begin, end, f"{load:.3f}".replace(".", ",")]) + ";KWH;Målt;Tidsserier;"
        for begin, end, load in zip(_HOURS, ends, _LOADS, strict=True)
    ]
    rows = [row.replace(":", ".") for row in rows]
    total = "0017;2024-01-01 00.00;2024-01-31 00.00;4000,5;KWH;Målt;Tidsserier;"
    header = "Målepunkt id;Fra dato;Til dato;Mængde;Måleenhed;Kvalitet;Type;"
    path = write(header, *rows, total)
    known = read_readings(path, timezone="Europe/Copenhagen")
    assert known.report.rows_out == len(rows)
    assert not known.report.warnings
    stated = ReadOptions(
        layout=FileLayout.LONG,
        columns={"customer": "Målepunkt id", "stamp": "Fra dato", "value": "Mængde"},
        stamp_format="%Y-%m-%d %H.%M",
        decimal=DecimalMark.COMMA,
        minutes=60,
        unit=MeasuredIn.KWH,
        timezone="Europe/Copenhagen",
    )
    report = read_readings(path, stated).report
    assert report.rows_in == len(rows) + 1
    warning, conflict = report.warnings
    assert "Eloverblik" in warning
    assert "layout, columns, stamp_format" in warning
    assert "conflicting duplicates" in conflict  # the total and the first hour
    assert explain(path, stated).warnings == (warning, conflict)
    own = write("id,at,kwh", *(f"a,{hour},1.5" for hour in _HOURS), name="own.csv")
    columns = {"customer": "id", "stamp": "at", "value": "kwh"}
    assert not read_readings(own, columns=columns, timezone="UTC").report.warnings


def test_a_stamp_format_that_fits_no_stamp_is_refused_with_the_first_stamp(write: Write) -> None:
    """Whether or not the interval length is stated; one fitting stamp is enough to read on."""
    rows = [f"a,{hour.replace(' ', 'T')}:00+00:00,1.5" for hour in _HOURS]
    path = write("id,at,kwh", *rows)
    columns = {"customer": "id", "stamp": "at", "value": "kwh"}
    for minutes in (None, 60):
        with pytest.raises(
            InvalidFileError, match=r"fits '%d\.%m\.%Y'.*2024-01-01T00:00:00\+00:00"
        ):
            read_readings(path, columns=columns, minutes=minutes, stamp_format="%d.%m.%Y")
    late = write("id,at,kwh", *rows, "a,05.01.2024,1.5", name="late.csv")
    read = read_readings(late, columns=columns, minutes=60, stamp_format="%d.%m.%Y", timezone="UTC")
    assert read.report.rows_out == 1


def test_many_stamps_of_another_format_give_a_warning(write: Write) -> None:
    """Above 1 % of the rows, and only then."""
    rows = [f"{name},{hour},1.5" for name in "ac" for hour in _HOURS]
    other = [f"b,{hour.replace('-', '/')}h,1.5" for hour in _HOURS]
    mixed = read_readings(write("id,timestamp,kwh", *rows, *other), timezone="UTC").report
    (warning,) = mixed.warnings
    assert f"{len(other)} rows (33 %)" in warning
    few = write("id,timestamp,kwh", *rows, other[0], name="few.csv")
    assert not read_readings(few, timezone="UTC").report.warnings


def test_green_button_starts_have_one_note_on_their_clock() -> None:
    """Starts that are local time are not noted as UTC as well."""
    path = Path(__file__).parents[2] / "data" / "exports" / "greenbutton_ameren_15min.xml"
    notes = read_readings(path, timezone="America/Chicago").report.notes
    assert [note for note in notes if "local time" in note] == [
        note for note in notes if note.startswith("start read as local time")
    ]
    assert any(note.startswith("start read as local time") for note in notes)


def _spaced(name: str, minutes: int, *, days: int = 4) -> list[str]:
    """Rows of a home of 0.6 kW whose energy is that of so many minutes."""
    first = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    stamps = (first + dt.timedelta(minutes=at) for at in range(0, days * 1440, minutes))
    return [
        f"{name},{stamp:%Y-%m-%d %H:%M},{0.01 * minutes + 0.001 * stamp.hour:.3f}"
        for stamp in stamps
    ]


def test_customers_of_several_lengths_are_refused_with_the_evidence(write: Write) -> None:
    """Energy of an hour, read as that of half an hour, would be twice the load."""
    rows = [row for name in range(10) for row in _spaced(f"c{name}", 30 + 30 * (name % 2))]
    path = write("id,timestamp,kwh", *rows)
    expected = r"30 minutes is the most common.*5 of 10 customers.*60 minutes for 'c1'"
    with pytest.raises(InvalidFileError, match=expected):
        read_readings(path, timezone="UTC")
    with pytest.raises(InvalidFileError, match=expected):
        explain(path, ReadOptions(timezone="UTC"))
    with pytest.raises(InvalidFileError, match="minutes=30 contradicts the file"):
        read_readings(path, timezone="UTC", minutes=30)
    for options in ({"minutes": 30, "implausible": "accept"}, {"implausible": "accept"}):
        assert read_readings(path, timezone="UTC", **options).lengths == (30,)


def test_stated_minutes_that_double_the_load_are_refused(write: Write) -> None:
    """Of many customers: of one among 20, they are the caller's decision."""
    hourly = write("id,timestamp,kwh", *_spaced("a", 60), *_spaced("b", 60))
    message = (
        r"minutes=30 contradicts the file: 100 % of the readings of a customer are 60 minutes"
        r" apart\. Omit `minutes`, or pass implausible='accept' if half of the readings are missing"
    )
    with pytest.raises(InvalidFileError, match=message):
        read_readings(hourly, timezone="UTC", minutes=30)
    with pytest.raises(InvalidFileError, match="3 of 4 readings are missing"):
        read_readings(hourly, timezone="UTC", minutes=15)
    accepted = read_readings(hourly, timezone="UTC", minutes=30, implausible="accept")
    assert accepted.lengths == (30,)
    assert read_readings(hourly, timezone="UTC", minutes=60).lengths == (60,)
    rows = [row for name in range(19) for row in _spaced(f"c{name:02}", 30)]
    crowd = write("id,timestamp,kwh", *rows, *_spaced("alien", 60), name="crowd.csv")
    assert read_readings(crowd, timezone="UTC", minutes=30).lengths == (30,)


def test_start_and_end_of_a_file_contradict_stated_minutes(write: Write) -> None:
    """Even of a single reading, which has no distance; a wrong end can be overruled."""
    path = Path(__file__).parents[2] / "data" / "exports" / "octopus_30min.csv"
    header, first = path.read_text().splitlines()[:2]
    single = write(header, first)
    for source in (path, single):
        with pytest.raises(InvalidFileError, match="it states intervals of 30 minutes"):
            read_readings(source, timezone="Europe/London", minutes=15)
        read = read_readings(source, timezone="Europe/London", minutes=15, implausible="accept")
        assert read.lengths == (15,)
        assert read_readings(source, timezone="Europe/London", minutes=30).lengths == (30,)


@pytest.mark.parametrize(
    ("usual", "other", "aware"), [(30, 60, False), (30, 60, True), (15, 30, True), (60, 30, False)]
)
def test_a_single_customer_of_another_length_has_no_profile(
    write: Write, usual: int, other: int, *, aware: bool
) -> None:
    """It is counted under its reason, and the profiles of the others are those without it."""
    rows = [row for name in range(20) for row in _spaced(f"c{name:02}", usual)]
    alien = _spaced("c10x", other)
    zone = "Z" if aware else ""
    paths = [
        write("id,timestamp,kwh", *(row.replace(",0.", f"{zone},0.") for row in lines), name=name)
        for lines, name in ((rows, "alone.csv"), ([*rows, *alien], "crowd.csv"))
    ]
    alone, crowd = (
        build_profiles(
            read_readings(path, timezone=None if aware else "UTC"), timezone="UTC", min_days=2
        )
        for path in paths
    )
    assert crowd.profiles.customer_ids == alone.profiles.customer_ids
    assert crowd.profiles.load_kw.tobytes() == alone.profiles.load_kw.tobytes()
    reason = f"readings not spaced {usual} minutes apart"
    assert crowd.account.customers_dropped == {reason: 1}
    assert alone.account.customers_dropped == {}


def test_rows_in_no_order_and_with_holes_are_of_one_length(write: Write) -> None:
    """A sample of them has other gaps, and a first day may begin at its last half hour."""
    rows = [row for name in range(4) for row in _spaced(f"c{name}", 30, days=40)]
    chosen = np.random.default_rng(5).permutation(len(rows))[: len(rows) // 3]
    rows = [*(rows[place] for place in chosen), "c0,2023-12-31 23:30,0.3"]
    path = write("id,timestamp,kwh", *rows)
    build = build_profiles(read_readings(path, timezone="UTC"), min_days=2)
    assert build.profiles.customer_ids == ("c0", "c1", "c2", "c3")


def test_a_unit_that_is_nowhere_stated_is_assumed_with_a_warning(write: Write) -> None:
    """Not for a unit in the name, in a column of units, or in the option."""
    bare = write(*_lines("id,timestamp,value", _LOADS, before="a,"))
    (warning,) = read_readings(bare, timezone="UTC").report.warnings
    assert "kWh assumed" in warning
    assert "--unit" in warning
    assert not read_readings(bare, timezone="UTC", unit="kWh").report.warnings
    named = write(*_lines("id,timestamp,kwh", _LOADS, before="a,"), name="n.csv")
    column = write(
        *_lines("id,timestamp,value,unit", _LOADS, before="a,", after=",kWh"), name="c.csv"
    )
    for path in (named, column):
        assert not read_readings(path, timezone="UTC").report.warnings


def test_names_of_other_libraries_and_cases_are_understood(write: Write) -> None:
    """An unknown argument has a suggestion; a unit is the same in any case; read_at is a stamp."""
    path = write(*_lines("id,read_at,value", _LOADS, before="a,"))
    with pytest.raises(InvalidParameterError) as refusal:
        read_readings(path, tz="UTC")
    assert str(refusal.value) == "unknown argument tz; did you mean timezone?"
    read = read_readings(path, timezone="UTC", unit="kwh")
    assert read.options.unit is MeasuredIn.KWH
    assert read.report.rows_out == len(_LOADS)
    assert "time stamps: start of the interval" in read.assumptions


def test_the_remedy_follows_the_finding(write: Write, tmp_path: Path) -> None:
    """Gas, bills, two conventions, texts that are no table: each with what to do, at the end."""
    exports = Path(__file__).parents[2] / "data" / "exports"
    gas, bills = exports / "pge_letterhead_gas_daily.csv", exports / "xcel_monthly_bills.csv"
    with pytest.raises(InvalidFileError) as refusal:
        read_readings(gas)
    assert str(refusal.value) == (
        f"{gas} contains gas or water (unit: therms), not electricity. Export the electricity"
        " meter instead"
    )
    with pytest.raises(InvalidFileError, match=r"bills, which have no load shape.*\. Export"):
        read_readings(bills)
    starts, ends = exports / "octopus_30min.csv", exports / "datadis_hour_24.csv"
    conventions = r"stamped with their end; .*stamped with their start\. Read the files of each"
    with pytest.raises(InvalidFileError, match=conventions):
        read_readings([starts, ends], timezone="UTC")
    (junk := tmp_path / "junk.csv").write_text("{ this is, no\ntable 1")
    with pytest.raises(InvalidFileError, match="neither a text table nor valid JSON"):
        read_readings(junk)
    lines = ["id,timestamp,kwh,quality", "a,2024-01-01 00:00,1,A", "a,2024", "a,x"]
    with pytest.raises(InvalidFileError, match=r"line 3: expected 4 columns; found 2: 'a,2024'$"):
        read_readings(write(*lines))


def test_files_of_another_kind_are_named(tmp_path: Path) -> None:
    """A web page is no damaged XML, and profiles are not averaged again."""
    (page := tmp_path / "q.html").write_text("<!DOCTYPE html>\n<html><body>login</body></html>")
    with pytest.raises(InvalidFileError, match="HTML page"):
        read_readings(page)
    table = pa.table({"customer_id": ["a"], "load_kw": [[1.0] * 24]})
    pq.write_table(table, path := tmp_path / "p.parquet")
    with pytest.raises(InvalidFileError, match="has profiles"):
        read_readings(path)
