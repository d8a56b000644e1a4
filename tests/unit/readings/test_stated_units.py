"""Units that contradict the file: refused where a format states it, a warning where a name does."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from wattveil.errors import InvalidFileError
from wattveil.profiles import profiles_from_readings
from wattveil.readings import ReadOptions, read_readings
from wattveil.readings.explain import explain
from wattveil.readings.options import Implausible, MeasuredIn

Write = Callable[..., Path]
EXPORTS = Path(__file__).parents[2] / "data" / "exports"
_HOURS = [f"2024-01-{day:02} {hour:02}:00" for day in range(1, 4) for hour in range(24)]


def _rows(before: str, after: str = "") -> list[str]:
    return [f"{before}{hour},{1 + math.sin(n):.3f}{after}" for n, hour in enumerate(_HOURS)]


@pytest.mark.parametrize(
    ("header", "before", "after"),
    [
        ("id,timestamp,kwh", "a,", ""),
        ("id,timestamp,value,unit", "a,", ",kWh"),
        ("timestamp,load (kWh)", "", ""),  # one home
        ("customer_id,start_utc,minutes,kwh,channel,quality", "", ""),  # as Wattveil writes it
    ],
)
def test_a_unit_that_a_column_contradicts_is_warned_of(
    write: Write, header: str, before: str, after: str
) -> None:
    """The stated unit is used; the unit of the column has no warning."""
    rows = _rows(before, after)
    if header.startswith("customer_id"):
        rows = [f"a,{hour},60,1.{n},net,valid" for n, hour in enumerate(_HOURS)]
    path = write(header, *rows)
    given = {"customer": "home"} if header.startswith("timestamp") else {}
    read = {
        unit: read_readings(path, ReadOptions(unit=unit, timezone="UTC", **given))  # type: ignore[arg-type]
        for unit in (MeasuredIn.KWH, MeasuredIn.WH)
    }
    assert not read[MeasuredIn.KWH].report.warnings
    (warning,) = read[MeasuredIn.WH].report.warnings
    assert "unit: Wh as stated, although the file says kWh" in warning
    first, thousandth = (found.to_arrow()["kwh"][0].as_py() for found in read.values())
    assert first == pytest.approx(1000 * thousandth)


@pytest.mark.parametrize(
    ("name", "unit", "zone"),
    [
        ("greenbutton_ameren_15min.xml", "Wh", "America/Chicago"),
        ("nem12_solar_5min.csv", "kWh", "Australia/Sydney"),
        ("lcl_raw_null_30min.csv", "kWh", "Europe/London"),
    ],
)
def test_a_format_that_states_its_unit_accepts_no_other(name: str, unit: str, zone: str) -> None:
    """Stating the right one changes nothing: values are converted once."""
    without, stated = (
        explain(EXPORTS / name, ReadOptions(unit=given, timezone=zone))
        for given in (None, MeasuredIn(unit))
    )
    assert without.unit == stated.unit == unit
    assert without.readings == stated.readings
    with pytest.raises(InvalidFileError, match=f"the file states {unit}"):
        read_readings(EXPORTS / name, unit="MWh", timezone=zone)


def test_the_power_of_ten_of_green_button_is_explained(tmp_path: Path) -> None:
    """With the unit, in the explanation and in a normal run; kWh may be stated for 10^3 Wh."""
    text = (EXPORTS / "greenbutton_ameren_15min.xml").read_text(encoding="utf-8")
    tag = "<espi:powerOfTenMultiplier>0<"
    assert tag in text
    path = tmp_path / "thousands.xml"
    path.write_text(text.replace(tag, tag.replace(">0<", ">3<")), encoding="utf-8")
    zone = "America/Chicago"
    for unit in (None, MeasuredIn.KWH):
        options = ReadOptions(unit=unit, timezone=zone, implausible=Implausible.ACCEPT)
        found = explain(path, options)
        assert (found.unit, found.becomes) == ("Wh × 10^3", "kWh, value * 10^3 / 1000")
    assert "unit: Wh × 10^3" in read_readings(path, timezone=zone, implausible="accept").assumptions


def test_a_median_load_beyond_the_bound_in_later_files_is_refused(write: Write) -> None:
    """The sample of rows is of the first file; the finished profiles show the others."""
    for name, factor in (("a", 1), ("b", 1000), ("c", 1000)):
        rows = [f"{name}{n},{hour},{factor}.{n}" for n in range(800) for hour in _HOURS]
        write("id,timestamp,kwh", *rows, name=f"{name}.csv")
    given = {"minutes": 60, "timezone": "UTC"}
    folder = write("notes", name="notes.md").parent
    read = read_readings(folder, **given)  # type: ignore[call-overload]
    with pytest.raises(InvalidFileError, match=r"3 files: the median load is 1,000 kW"):
        profiles_from_readings(read, min_days=1)
    accepted = read_readings(folder, implausible="accept", **given)  # type: ignore[call-overload]
    assert len(profiles_from_readings(accepted, min_days=1)) == 2400
