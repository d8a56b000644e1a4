"""Exports of utilities, portals and loggers: every sample gives the totals of its provenance."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.readings import Readings, read_readings
from wattveil.readings.formats.column_names import unit_in_name
from wattveil.readings.formats.known_formats import (
    KnownFormat,
    day_slots,
    direction_of,
    known_formats,
    quality_of,
    recognise,
)
from wattveil.readings.formats.table_columns import plain_name
from wattveil.readings.options import MeasuredIn, Stamp

Write = Callable[..., Path]

_SAMPLES = Path(__file__).parents[2] / "data" / "exports"
_EXPECTED: dict[str, dict[str, Any]] = json.loads((_SAMPLES / "expected.json").read_text())
_READ = [name for name, expected in _EXPECTED.items() if expected["action"] == "read"]
_REFUSED = sorted(set(_EXPECTED) - set(_READ))


def _totals(readings: Readings) -> dict[str, float]:
    table = readings.to_arrow()
    totals: dict[str, float] = defaultdict(float)
    for row in table.to_pylist():
        totals[row["customer_id"]] += row["kwh"]
    return dict(totals)


def _read(path: Path, name: str) -> Readings:
    return read_readings(path, timezone=_EXPECTED[name]["timezone"])


@cache
def _totals_of_sample(name: str) -> dict[str, float]:
    return _totals(_read(_SAMPLES / name, name))


@pytest.mark.long  # `test_export_samples` compares every reading of every sample
@pytest.mark.parametrize("name", _READ)
def test_a_sample_is_read_with_the_time_zone_alone(name: str) -> None:
    """Customers, energy and interval lengths are those computed independently of this code."""
    expected = _EXPECTED[name]
    readings = _read(_SAMPLES / name, name)
    totals = _totals(readings)
    named = {key: kwh for key, kwh in expected["total_kwh"].items() if not key.startswith("(")}
    wanted = named or dict(zip(totals, expected["total_kwh"].values(), strict=True))
    if "pge" in name:  # the letterhead names what the expectation calls unnamed
        assert list(totals) == ["0123456005"]
    assert totals == pytest.approx(wanted, abs=1e-3)
    lengths = expected["interval_minutes"]
    if lengths is not None:
        lengths = {lengths} if isinstance(lengths, int) else set(lengths)
        assert set(readings.to_arrow()["minutes"].to_pylist()) == lengths
    report = readings.report
    counts = {report.rows_out, report.rows_out + sum(report.merged.values()), report.rows_in}
    filled = report.notes.get(
        "energy between two register reads, spread over the intervals without a read", 0
    )
    sampled = expected["interval_minutes"] is None  # power samples become intervals
    assert sampled or expected["readings"] in counts | {count - filled for count in counts}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_has_no_load_shape_is_refused_with_reason_and_remedy(name: str) -> None:
    """Gas, bills, daily totals and accumulated registers are named in the error."""
    with pytest.raises(InvalidFileError) as caught:
        _read(_SAMPLES / name, name)
    if not name.endswith(".zip"):  # archives are opened elsewhere
        said = str(caught.value).partition(name)[2].lower()
        named = ("gas", "daily", "bills", "nem13", "registers", "register reading", "kind")
        assert any(word in said for word in named)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("greenbutton_ameren_15min.xml", "2023-12-04 06:00"),  # 0:00 in Chicago
        ("greenbutton_sdge_hourly.xml", "2019-10-01 07:00"),
        ("greenbutton_utilityapi_hourly.xml", "2023-03-02 06:00"),
        ("ausgrid_solar_home_wide_30min.csv", "2012-06-30 14:00"),
        ("datadis_hour_1_to_25.csv", "2024-10-20 22:00"),
        ("cer_30min_daycode.txt", "2009-07-13 23:00"),
        ("uci_ld2011_15min_kw.txt", "2011-01-03 00:00"),
        ("lcl_block_30min.csv", "2013-03-27 00:00"),
        ("jemena_wide_30min.csv", "2023-09-27 14:00"),
        ("enedis_r63_w.csv", "2024-01-07 23:00"),
    ],
)
def test_the_first_reading_starts_when_its_interval_does(name: str, first: str) -> None:
    """Ends, hour numbers, day codes and local clocks written as UTC are understood."""
    start = _read(_SAMPLES / name, name).to_arrow()["start_utc"][0].as_py()
    assert start.isoformat(sep=" ", timespec="minutes").startswith(first)


def test_the_last_column_of_a_day_of_ends_is_its_last_interval() -> None:
    """0:00 after 23:30 ends the day that is named; it does not begin it."""
    name = "ausgrid_solar_home_wide_30min.csv"
    table = _read(_SAMPLES / name, name).to_arrow().to_pylist()
    rows = list(csv.reader((_SAMPLES / name).read_text().splitlines()[2:]))
    sign = {"GC": 1, "CL": 1, "GG": -1}
    first_day = [row for row in rows if row[0] == "1" and row[4] == rows[0][4]]
    for column, place in ((5, 0), (52, 47)):
        assert sum(sign[row[3]] * float(row[column]) for row in first_day) == pytest.approx(
            table[place]["kwh"]
        )


def _rewritten(name: str, form: str) -> bytes | None:
    """Return a sample as another program would write it; None if the form does not apply."""
    text = (_SAMPLES / name).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    found = recognise(text)
    assert found is not None
    line, delimiter = found.header.line, found.header.delimiter
    rows = [
        next(csv.reader([row], delimiter=delimiter), []) for row in text.rstrip("\n").split("\n")
    ]
    width = len(rows[line])
    if form == "columns":
        if found.format.layout != "rows":
            return None
        rows = [r[::-1] if n >= line and len(r) == width else r for n, r in enumerate(rows)]
    if form == "more columns":
        if found.format.exact:
            return None
        rows = [
            [*row, "Remark" if number == line else "x"] if number >= line and row else row
            for number, row in enumerate(rows)
        ]
    if form == "delimiter":
        delimiter = "\t" if delimiter == ";" else ";"
    sink = io.StringIO()
    end = "\r\n" if form == "line ends" else "\n"
    csv.writer(sink, delimiter=delimiter, lineterminator=end).writerows(rows)
    return sink.getvalue().encode("utf-8-sig" if form == "line ends" else "utf-8")


@pytest.mark.parametrize("form", ["columns", "more columns", "delimiter", "line ends"])
@pytest.mark.parametrize(
    "name",
    [
        "fluvius_electricity_nl_15min.csv",
        "eloverblik_hourly.csv",
        "pge_letterhead_electric_hourly.csv",
        "smart_meter_texas.csv",
        "ameren_letterhead_15min.csv",
        "ausgrid_solar_home_wide_30min.csv",
        "homewizard_p1_register_15min.csv",
        "octopus_30min.csv",
    ],
)
def test_a_format_is_not_one_file(tmp_path: Path, name: str, form: str) -> None:
    """Order of columns, further columns, delimiter, line ends and byte order mark do not matter."""
    content = _rewritten(name, form)
    if content is not None:
        path = tmp_path / name
        path.write_bytes(content)
        assert _totals(_read(path, name)) == pytest.approx(_totals_of_sample(name))


def test_words_of_unknown_meaning_are_listed_and_can_be_given(tmp_path: Path) -> None:
    """Neither dropped nor taken for the usual ones."""
    name = "smart_meter_texas.csv"
    text = (_SAMPLES / name).read_text()
    path = tmp_path / name
    path.write_text(text.replace(",A,Consumption", ",Q7,Consumption"))
    with pytest.raises(InvalidFileError, match="words of a known meaning") as caught:
        _read(path, name)
    assert caught.value.found == ["Q7"]
    given = read_readings(path, timezone="America/Chicago", words={"Q7": "estimated"})
    assert set(given.to_arrow()["quality"].to_pylist()) == {"estimated"}
    path.write_text(text.replace("A,Consumption", "A,Surplus Generation"))
    assert sum(_totals(_read(path, name)).values()) == pytest.approx(-43.087)
    with pytest.raises(InvalidParameterError, match="words"):
        read_readings(path, words={"Q7": "perhaps"})


def test_two_homes_in_one_folder_never_merge(tmp_path: Path) -> None:
    """A file that names no customer is one home, named by its file."""
    source = (_SAMPLES / "octopus_30min.csv").read_bytes()
    for home, end in (("north", b""), ("south", b"\n")):  # copies would be refused
        (tmp_path / f"{home}.csv").write_bytes(source + end)
    readings = read_readings(tmp_path, timezone="Europe/London")
    assert list(_totals(readings)) == ["north", "south"]
    named = read_readings(tmp_path / "north.csv", timezone="Europe/London", customer="home 7")
    assert list(_totals(named)) == ["home 7"]


def test_a_column_that_may_name_customers_is_never_overlooked(write: Write) -> None:
    """Many homes under one unknown column are no home of their own."""
    rows = [
        f"{home},01/{day:02}/2024 {hour:02}:00,1"
        for home in "ab"
        for day in (1, 2, 13)
        for hour in range(24)
    ]
    path = write("house,Date/Time,Usage (kWh)", *rows)
    with pytest.raises(InvalidFileError, match="recognised as customer"):
        read_readings(path)
    named = read_readings(path, columns={"customer": "house"})
    assert set(_totals(named)) == {"a", "b"}
    text = (_SAMPLES / "pge_letterhead_electric_hourly.csv").read_text(encoding="utf-8-sig")
    for service, customer in (("Service 1", "0123456789"), ("0123456005", "0123456005")):
        file = write(text.replace("0123456005", service), name="pge.csv")
        assert list(_totals(read_readings(file))) == [customer]


def test_an_end_that_contradicts_the_format_is_refused() -> None:
    """An option is honoured or rejected, never ignored."""
    with pytest.raises(InvalidParameterError, match="stamp must be start"):
        read_readings(_SAMPLES / "octopus_30min.csv", stamp="end")
    with pytest.raises(InvalidFileError, match="unit"):
        read_readings(_SAMPLES / "octopus_30min.csv", unit="W")


def test_the_table_of_formats_is_checked() -> None:
    """A faulty entry is an error with its name, not a format that never fits."""
    assert len({known.name for known in known_formats()}) == len(known_formats())
    with pytest.raises(ValueError, match=r"'odd'.*layout"):
        KnownFormat(name="odd", columns={"stamp": "x"}, layout="diagonal")
    with pytest.raises(ValueError, match=r"'odd'.*roles"):
        KnownFormat(name="odd", columns={"colour": "x"})


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Injectie Nacht", "received"),
        ("Teruglevering", "received"),
        ("Levering", "delivered"),
        ("Einspeisung", "received"),
        ("Surplus Generation", "received"),
        ("Controlled Load Consumption", "delivered"),
        ("Offtake Day", "delivered"),
        ("Natural gas usage", "gas"),
        ("Something else", None),
    ],
)
def test_directions_by_meaning(text: str, meaning: str | None) -> None:
    """In several languages, with and without the name of a tariff."""
    assert direction_of(text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Målt", "valid"),
        ("No", "valid"),
        ("E52", "estimated"),
        ("Geschat", "estimated"),
        ("Geen verbruik", "missing"),
        ("N", "missing"),
        ("whatever", None),
    ],
)
def test_qualities_by_meaning(text: str, meaning: str | None) -> None:
    """NEM12 flags with a method, and words of portals."""
    assert quality_of(text) == meaning


def test_columns_named_by_times() -> None:
    """Starts, ends, ranges; neither if one is left out."""
    starts = [f"{half // 2}:{half % 2 * 30:02}" for half in range(48)]
    ends = [*starts[1:], "0:00"]
    ranges = [f"{start} - {end}" for start, end in zip(starts, ends, strict=True)]
    for names in (starts, ends, ranges, [*starts[1:], "24:00"]):
        found = day_slots(["id", "date", *names])
        assert found is not None
        assert [slot.start for slot in found[0]] == [30 * place for place in range(48)]
        assert found[1] == 30
    assert day_slots(starts, Stamp.END) is None
    assert day_slots(starts[:-1]) is None


def test_names_and_units() -> None:
    """Accents and signs do not matter; a unit is a word of the name."""
    assert plain_name("Måleenhed") == "maleenhed"
    assert plain_name("Mængde (kWh)") == "maengde_kwh"
    assert unit_in_name("active_energy_wh_a") is MeasuredIn.WH
    assert unit_in_name("power_w") is MeasuredIn.W
    assert unit_in_name("energy_kw_h") is MeasuredIn.KWH
    assert unit_in_name("who_knows") is None
