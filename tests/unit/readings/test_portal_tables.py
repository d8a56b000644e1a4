"""Exports of portals in several languages: header lines of public documents, generated values.

Every file is read with the time zone alone, or refused with a sentence that names the remedy. What
it holds is computed from the generated values, not from the file.
"""

import datetime as dt
import random
from pathlib import Path

import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings
from wattveil.readings.options import Stamp

_FIRST = dt.datetime(2024, 3, 14)  # noqa: DTZ001 -- a local time
_DAYS = 3
_EXPORT = 0.125


def _values(minutes: int) -> list[tuple[dt.datetime, dt.datetime, float]]:
    draw = random.Random(minutes)  # noqa: S311 -- values for a test
    step = dt.timedelta(minutes=minutes)
    starts = [_FIRST + step * place for place in range(_DAYS * 1440 // minutes)]
    return [(start, start + step, round(draw.uniform(0.05, 0.9), 3)) for start in starts]


_LETTERHEAD = """Kundennummer;123456
Kundenname;Muster
ZP-Nummer;AT0070000000000000000000001234567
Energierichtung;Netzbezug

"""
_GERMAN = "%d.%m.%Y %H:%M"
_COMMUNITY = "Messzeitpunkt;Verbrauch (kWh);Qualität;Restnetzbezug (kWh);Eigendeckung (kWh)"
_ESB = "MPRN,Meter Serial Number,Read Value,Read Type,Read Date and End Time"
_ESB_ROW = "10306268587,342,{kw},Active {flow} Interval (kW),{end:%d-%m-%Y %H:%M}"
_BC_HYDRO = (
    '"Account Holder","Account Number","Meter Number","Interval Start Date/Time",'
    '"Inflow (kWh)","Outflow (kWh)","Net Consumption (kWh)","Demand (kW)","Estimated Usage"'
)
_BC_HYDRO_ROW = '"A","0001234","5678","{start:%Y-%m-%d %H:%M}","9","9","{kwh}","N/A",""'
_PECO = "Name,A B\nAccount Number,1776123456\nTYPE,DATE,START TIME,END TIME,USAGE (kWh),NOTES"
_PECO_ROW = "Electric usage,{start:%Y-%m-%d},{start:%H:%M},{start:%H}:59,{kwh},"

# Zone, minutes, decimal mark, exported energy per interval, header, row.
_PORTALS: dict[str, tuple[str, int, str, float, str, str]] = {
    "Netz NÖ": (
        *("Europe/Vienna", 15, ",", 0, "Messzeitpunkt;Gemessener Verbrauch (kWh);Ersatzwert;"),
        "{end:%d.%m.%Y %H:%M};{kwh};;",
    ),
    "Netz NÖ with a community": (
        *("Europe/Vienna", 15, ",", 0, _COMMUNITY, "{end:%d.%m.%Y %H:%M};{kwh};L1;{kwh};0"),
    ),
    "Netz OÖ": (
        *("Europe/Vienna", 15, ",", 0, "Datum;kWh;kW;Status"),
        "{start:%d.%m.%Y %H:%M};{kwh};9,9;VALID",
    ),
    "Kärnten Netz": (
        *("Europe/Vienna", 15, ",", 0, _LETTERHEAD + "Datum;Zeit;kWh;Status"),
        "{start:%d.%m.%Y};{start:%H:%M:%S};{kwh};OK",
    ),
    "Wiener Netze": (
        *("Europe/Vienna", 15, ",", 0, "Datum;Zeit von;Zeit bis;Verbrauch [kWh]"),
        "{start:%d.%m.%Y};{start:%H:%M:%S};{end:%H:%M:%S};{kwh}",
    ),
    "Linz": (
        *("Europe/Vienna", 15, ",", 0, "Datum von;Datum bis;Energiemenge in kWh;Ersatzwert"),
        "{start:%d.%m.%Y %H:%M};{end:%d.%m.%Y %H:%M};{kwh};",
    ),
    "ewz": (
        *("Europe/Zurich", 15, ".", _EXPORT, "Zeitpunkt,Bezug [kWh],Einspeisung [kWh]"),
        "{start:%Y-%m-%dT%H:%M:%S}+01:00,{kwh},0.125",
    ),
    "stamps that are ends": (
        *("Europe/Zurich", 15, ".", 0, "Datum und Zeit;Bezug (kWh)", "{end:%d.%m.%Y %H:%M};{kwh}"),
    ),
    "Enexis": (
        *("Europe/Amsterdam", 15, ",", _EXPORT, "Datum;Tijd;Levering (kWh);Teruglevering (kWh)"),
        "{start:%d-%m-%Y};{start:%H:%M};{kwh};0,125",
    ),
    "Ellevio": (
        *("Europe/Stockholm", 60, ",", 0, "Anläggningsid;735999123456\nDatum;Förbrukning (kWh)"),
        "{start:%Y-%m-%d %H:%M};{kwh}",
    ),
    "Enea": (
        *("Europe/Warsaw", 60, ",", 0, '"Data";"Wartość kWh";"Typ odczytu"'),
        '"{end:%Y-%m-%d %H:%M}";"{kwh}";"pobór"',
    ),
    "E-REDES": (
        *("Europe/Lisbon", 60, ".", _EXPORT),
        "Data,Hora,Consumo registado (kW),Injeção na rede (kW)",
        "{end:%Y/%m/%d},{end:%H:%M},{kwh},0.125",
    ),
    "ESB Networks": ("Europe/Dublin", 30, ".", 0, _ESB, _ESB_ROW.replace("{flow}", "Import")),
    "BC Hydro": ("America/Vancouver", 60, ".", 0, _BC_HYDRO, _BC_HYDRO_ROW),
    "Toronto": (
        *(
            "America/Toronto",
            60,
            ".",
            0,
            "Account Number,Meter Number,Date,Hour Ending,Usage (kWh)",
        ),
        "700,88,{start:%m/%d/%Y},{hour},{kwh}",
    ),
    "PECO": ("America/New_York", 60, ".", 0, _PECO, _PECO_ROW),
}


@pytest.mark.parametrize("name", _PORTALS)
def test_exports_are_read_with_the_time_zone_alone(tmp_path: Path, name: str) -> None:
    """Starts, ends, units and directions come from names, and ends from the rows themselves."""
    zone, minutes, sign, export, header, row = _PORTALS[name]
    values = _values(minutes)
    lines = [
        row.format(
            start=start,
            end=end,
            hour=start.hour + 1,
            kwh=f"{kwh:.3f}".replace(".", sign),
            kw=f"{kwh * 60 / minutes:.3f}",
        )
        for start, end, kwh in values
    ]
    (path := tmp_path / "home.csv").write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    readings = read_readings(path, timezone=zone)
    table = readings.to_arrow()
    local = table.to_pandas().start_utc.dt.tz_convert(zone).dt.tz_localize(None)
    assert local.tolist() == [start for start, _, _ in values]
    assert table["kwh"].to_pylist() == pytest.approx([kwh - export for _, _, kwh in values])
    assert set(table["minutes"].to_pylist()) == {minutes}
    assert len(set(table["customer_id"].to_pylist())) == 1
    assert not readings.report.dropped


def _write(path: Path, header: str, cells: str = "{stamp};{kwh}") -> Path:
    rows = [cells.format(stamp=f"{end:{_GERMAN}}", kwh=kwh) for _, end, kwh in _values(15)]
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("header", "cells", "says"),
    [
        ("Tidpunkt;Förbrukning kWh;Produktion kWh", "{stamp};{kwh};1", "several could be it"),
        ("Zeitpunkt;Bezug kWh;Verbrauch kWh", "{stamp};{kwh};1", "several could be it"),
        ("Zeitpunkt;Haus;Bezug (kWh)", "{stamp};a;{kwh}", "customer=… if the file is one home"),
        ("Zeitpunkt;Verbrauch", "{stamp};{kwh}", "unit=…"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_remedy(
    tmp_path: Path, header: str, cells: str, says: str
) -> None:
    """A second column of energy, one that may name customers, or no unit is never passed over."""
    with pytest.raises(InvalidFileError, match=says):
        read_readings(_write(tmp_path / "a.csv", header, cells), timezone="Europe/Vienna")


def test_ends_are_told_by_the_caller_the_name_and_the_rows(tmp_path: Path) -> None:
    """Rows from 0:15 to 0:00 are ends, unless the caller or the column's name says otherwise."""
    header = "{};Bezug (kWh)"
    unsaid = _write(tmp_path / "a.csv", header.format("Zeitpunkt"))
    for path, stamp, first in (
        (unsaid, None, "2024-03-13 23:00"),
        (unsaid, Stamp.START, "2024-03-13 23:15"),
        (_write(tmp_path / "b.csv", header.format("Beginn")), None, "2024-03-13 23:15"),
    ):
        readings = read_readings(path, timezone="Europe/Vienna", stamp=stamp)
        assert str(readings.to_arrow()["start_utc"][0].as_py()).startswith(first)
        said = any("one interval after midnight" in one for one in readings.assumptions)
        assert said is (first.endswith("00"))


_SENSORS = {"sensor.grid_import": 0.5, "sensor.grid_export": 0.25, "sensor.solar_energy": 2.0}


def _sensor_rows(sensors: dict[str, float], form: str) -> list[str]:
    return [
        form.format(sensor=sensor, stamp=_FIRST + dt.timedelta(hours=hour), sum=hour * kwh)
        for sensor, kwh in sensors.items()
        for hour in range(48)
    ]


def test_sensors_of_one_home_are_one_customer(tmp_path: Path) -> None:
    """Home Assistant: import less export, solar left out; statistics are sums at ends of hours."""
    history = "{sensor},{sum},{stamp:%Y-%m-%dT%H:%M:%S}.000Z"
    path = tmp_path / "history.csv"
    path.write_text("\n".join(["entity_id,state,last_changed", *_sensor_rows(_SENSORS, history)]))
    readings = read_readings(path, timezone="UTC")
    table = readings.to_arrow()
    assert set(table["customer_id"].to_pylist()) == {"history"}
    assert table["kwh"].to_pylist() == pytest.approx([0.5 - 0.25] * 47)
    assert sum(readings.report.dropped.values()) >= 48  # solar, behind the meter
    statistics = "{sensor},kWh,{stamp:%d.%m.%Y %H:%M},{sum},{sum}"
    rows = _sensor_rows({"sensor.grid_import": 0.5}, statistics)
    path.write_text("\n".join(["statistic_id,unit,start,sum,state", *rows]))
    table = read_readings(path, timezone="UTC").to_arrow()
    first = table["start_utc"][0].as_py().replace(tzinfo=None)
    assert first == _FIRST + dt.timedelta(hours=1)  # two sums make an hour
    assert table["customer_id"][0].as_py() == "sensor.grid_import"


def test_a_sensor_of_unknown_meaning_is_refused_and_can_be_given(tmp_path: Path) -> None:
    """A sensor that may be a device is neither added nor left out by guess."""
    history = "{sensor},{sum},{stamp:%Y-%m-%dT%H:%M:%S}.000Z"
    rows = _sensor_rows({"sensor.grid_import": 0.5, "sensor.abc": 0.25}, history)
    path = tmp_path / "history.csv"
    path.write_text("\n".join(["entity_id,state,last_changed", *rows]))
    with pytest.raises(InvalidFileError, match=r"words=.*sensor\.abc"):
        read_readings(path, timezone="UTC")
    given = read_readings(path, timezone="UTC", words={"sensor.abc": "received"})
    assert given.to_arrow()["kwh"].to_pylist() == pytest.approx([0.25] * 47)
