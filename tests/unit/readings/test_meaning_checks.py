"""Files that may be several homes or other energy are refused with a remedy that works."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings
from wattveil.readings.formats.known_formats import recognise
from wattveil.readings.formats.meaning_checks import other_energy

_STAMPS = [dt.datetime(2024, 3, 14) + dt.timedelta(minutes=15) * q for q in range(96)]  # noqa: DTZ001
_VALUE = "Verbrauch (kWh)"
_ZONE = "Europe/Vienna"


def _meters(path: Path, meters: Mapping[str, float], above: str = "") -> Path:
    rows = [
        f"{meter};{stamp:%d.%m.%Y};{stamp:%H:%M};{kwh}"
        for meter, kwh in meters.items()
        for stamp in _STAMPS
    ]
    path.write_text("\n".join([f"{above}Zählernummer;Datum;Zeit;{_VALUE}", *rows]), "utf-8")
    return path


def _totals(path: Path, **options: Any) -> dict[str, float]:  # noqa: ANN401 - those of reading
    table = read_readings(path, timezone=_ZONE, **options).to_arrow()
    found = table.group_by("customer_id").aggregate([("kwh", "sum")]).to_pylist()
    return {row["customer_id"]: row["kwh_sum"] for row in found}


def test_several_meters_are_one_home_only_if_the_caller_says_so(tmp_path: Path) -> None:
    """Refused by name; both remedies of the message, a letterhead and one meter are read."""
    path = _meters(tmp_path / "a.csv", {"AT1": 0.25, "AT2": 0.5})
    with pytest.raises(InvalidFileError, match=r"customer=NAME.*columns=\{'customer'.*AT1.*AT2"):
        read_readings(path, timezone=_ZONE)
    each = _totals(path, columns={"customer": "Zählernummer"})
    assert each == pytest.approx({"AT1": 24.0, "AT2": 48.0})
    assert _totals(path, customer="home") == pytest.approx({"home": 72.0})
    above = "Kundennummer;12345\n\n"
    stated = _meters(tmp_path / "b.csv", {"AT1": 0.25, "AT2": 0.5}, above)
    assert _totals(stated) == pytest.approx({"12345": 72.0})
    assert _totals(_meters(tmp_path / "c.csv", {"AT1": 0.25})) == pytest.approx({"c": 24.0})


def _table(path: Path, names: str, above: str = "") -> Path:
    others = ";0,9" * (names.count(";") - 1)
    rows = [f"{stamp:%d.%m.%Y %H:%M};0,25{others}" for stamp in _STAMPS]
    path.write_text("\n".join([f"{above}{names}", *rows]), "utf-8")
    return path


def _refusal(text: str) -> tuple[str, str, str] | None:
    found = recognise(f"{text}\n", one_home=True)
    assert found is not None
    assert found.format.generic
    return other_energy(found)


@pytest.mark.parametrize(
    "other",
    [
        *("Einspeisung", "Erzeugung", "Production", "Injection", "Exported", "Feed-in"),
        *("Erdgas", "Gas", "Rückspeisung", "Surplus", "Stroomproductie"),
    ],
)
def test_words_of_other_energy_in_names_of_columns(other: str) -> None:
    """Such a column has no unit, so that it is in no role."""
    refusal = _refusal(f"Zeitpunkt;{_VALUE};{other}")
    assert refusal is not None
    assert (refusal[0], refusal[2]) == ("header", other)
    assert _refusal(f"Zeitpunkt;{_VALUE};Status") is None


def test_a_column_of_other_energy_without_a_unit_is_not_passed_over(tmp_path: Path) -> None:
    """It is refused, and read if the caller states that one column is the whole load."""
    path = _table(tmp_path / "a.csv", f"Zeitpunkt;{_VALUE};Einspeisung")
    for customer in (None, "home"):
        with pytest.raises(InvalidFileError, match=r"columns=\{'value'.*Einspeisung"):
            read_readings(path, timezone=_ZONE, customer=customer)
    assert _totals(path, columns={"value": _VALUE}) == pytest.approx({"a": 24.0})


def test_an_export_column_of_an_unknown_table_is_not_passed_over(tmp_path: Path) -> None:
    """The same holds where no format is known."""
    path = _table(tmp_path / "a.csv", "ts;kwh_used;export")
    with pytest.raises(InvalidFileError, match="'export'"):
        read_readings(path, timezone=_ZONE)


@pytest.mark.parametrize(
    "above",
    [
        *("Sparte;Erdgas", "Sparte;Gas", "Zählpunktart;Einspeiser", "Erzeugungsanlage;1"),
        *("Energierichtung;Einspeiser", "Kunde;A;Sparte;Erdgas", "Lastgang Erdgas", "Type: Gas"),
        *("Typ;Export", "Service;Natural gas"),
    ],
)
def test_words_of_other_energy_in_letterheads(above: str) -> None:
    """Any cell above the names of columns counts."""
    refusal = _refusal(f"{above}\n\nZeitpunkt;{_VALUE}")
    assert refusal is not None
    assert refusal[0] == "letterhead"


@pytest.mark.parametrize(
    "above",
    [
        *("Sparte;Strom", "Adresse;Hauptgasse 19", "Name;Vargas", "Produkt;Strom Basis"),
        *("Export date;2024-03-20", "Generated;2024-03-20", "Erzeugt am;20.03.2024"),
        *("Company;San Diego Gas & Electric", "Stadtwerke für Strom und Gas", "Haus;B"),
        *("Energierichtung;Netzbezug", "Ort;Bad Gastein"),
    ],
)
def test_words_in_letterheads_that_are_no_other_energy(above: str) -> None:
    """Streets, names, companies and the export of the file itself are no gas and no feed-in."""
    assert _refusal(f"{above}\n\nZeitpunkt;{_VALUE}") is None


def test_a_letterhead_of_other_energy_is_refused(tmp_path: Path) -> None:
    """The caller can skip its lines; another letterhead is read."""
    path = _table(tmp_path / "a.csv", f"Zeitpunkt;{_VALUE}", "Sparte;Erdgas\n\n")
    with pytest.raises(InvalidFileError, match=r"letterhead.*skip_lines.*Erdgas"):
        read_readings(path, timezone=_ZONE)
    stated = _totals(path, columns={"value": _VALUE}, skip_lines=2)
    assert stated == pytest.approx({"a": 24.0})
    path = _table(tmp_path / "b.csv", f"Zeitpunkt;{_VALUE}", "Sparte;Strom\n\n")
    assert _totals(path) == pytest.approx({"b": 24.0})


@pytest.mark.parametrize("name", ["Restverbrauch (kWh)", "Restnetzbezug (kWh)"])
def test_a_remainder_is_not_the_load(tmp_path: Path, name: str) -> None:
    """What a community does not cover is less than the home's load."""
    path = _table(tmp_path / "a.csv", f"Zeitpunkt;{name}")
    with pytest.raises(InvalidFileError, match="remainder"):
        read_readings(path, timezone=_ZONE)
    assert _totals(path, columns={"value": name}) == pytest.approx({"a": 24.0})


def _sensors(path: Path, sensors: Mapping[str, float]) -> Path:
    rows = [
        f"sensor.{sensor},{hour * kwh},{_STAMPS[0] + dt.timedelta(hours=hour):%Y-%m-%dT%H:%M:%S}Z"
        for sensor, kwh in sensors.items()
        for hour in range(49)
    ]
    path.write_text("\n".join(["entity_id,state,last_changed", *rows]))
    return path


@pytest.mark.parametrize(
    "sensors",
    [
        {"grid_import": 1.0, "grid_export": 0.5},
        {"energy_consumption_tariff_1": 0.25, "energy_consumption_tariff_2": 0.25},
        {"p1_meter_total_import_t1": 0.25, "p1_meter_total_import_t2": 0.25},
        {"grid_import_l1": 0.25, "grid_import_l2": 0.125, "grid_import_l3": 0.125},
        {"flat1_grid_import": 0.5, "flat2_solar_energy": 3.0},
    ],
)
def test_sensors_that_are_parts_of_one_home_are_added(
    tmp_path: Path, sensors: dict[str, float]
) -> None:
    """Directions, tariffs and phases; what is behind the meter is left out."""
    assert _totals(_sensors(tmp_path / "a.csv", sensors)) == pytest.approx({"a": 24.0})


@pytest.mark.parametrize(
    ("homes", "other"),
    [(("flat1", "flat2"), "import"), (("flat_1", "flat_2"), "export"), (("anna", "bert"), "usage")],
)
def test_sensors_of_several_homes_are_refused(
    tmp_path: Path, homes: tuple[str, str], other: str
) -> None:
    """Names that differ beside known words; the caller can state that they are one home."""
    sensors = {f"{homes[0]}_grid_import": 0.5, f"{homes[1]}_grid_{other}": 0.25}
    path = _sensors(tmp_path / "a.csv", sensors)
    with pytest.raises(InvalidFileError, match="customer=NAME"):
        read_readings(path, timezone=_ZONE)
    total = 48 * (0.5 - 0.25 if other == "export" else 0.5 + 0.25)
    assert _totals(path, customer="h") == pytest.approx({"h": total})


def test_each_file_of_sensors_is_a_home(tmp_path: Path) -> None:
    """Names need not agree between files, only within one."""
    for home in ("flat1", "flat2"):
        sensors = {f"{home}_grid_import": 0.75, f"{home}_grid_export": 0.25}
        _sensors(tmp_path / f"{home}.csv", sensors)
    assert _totals(tmp_path) == pytest.approx({"flat1": 24.0, "flat2": 24.0})


@pytest.mark.parametrize("total", ["grid_import_total", "grid_import", "grid_import_l1"])
def test_a_total_beside_its_tariffs_is_refused(tmp_path: Path, total: str) -> None:
    """It would count twice; without it the tariffs are read, and the caller may add it."""
    parts = {"grid_import_tariff_1": 0.3, "grid_import_tariff_2": 0.2}
    path = _sensors(tmp_path / "a.csv", {total: 0.5, **parts})
    with pytest.raises(InvalidFileError, match=r"total.*words="):
        read_readings(path, timezone=_ZONE)
    words = {f"sensor.{total}": "delivered"}
    assert _totals(path, words=words) == pytest.approx({"a": 48.0})
    assert _totals(_sensors(path, parts)) == pytest.approx({"a": 24.0})
