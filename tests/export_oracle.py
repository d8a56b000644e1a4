"""Independent reading of every sample export, with pandas and nothing of Wattveil.

Each loader was written from the description of its format in `tests/data/exports/PROVENANCE.md`
and from the file itself, so that Wattveil's reading can be compared with a second computation:
net energy in kWh by customer and by interval, with the start of each interval in UTC. A start
that the clock skipped in spring is `NaT`: its energy counts in the total, its place in time is
undefined. The customer of a file that names none is the empty text.
"""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pandas as pd

SAMPLES = Path(__file__).parent / "data" / "exports"
NO_NAME = ""


@dataclass(frozen=True)
class OracleReading:
    """What a file holds: one row per customer and interval, energies netted.

    Attributes
    ----------
    intervals
        Columns customer, start (UTC), minutes and kwh.
    counted
        Readings in the file, each channel counted by itself.
    """

    intervals: pd.DataFrame
    counted: int

    @property
    def totals(self) -> dict[str, float]:
        """Net energy in kWh by customer."""
        return {str(k): float(v) for k, v in self.intervals.groupby("customer").kwh.sum().items()}

    @property
    def minutes(self) -> list[int]:
        """Lengths of intervals that occur, longest first."""
        return sorted({round(m) for m in self.intervals.minutes}, reverse=True)


def expected() -> dict[str, dict[str, Any]]:
    """Return what the collector of the samples states for each of them."""
    stated: dict[str, dict[str, Any]] = json.loads(
        (SAMPLES / "expected.json").read_text(encoding="utf-8")
    )
    return stated


def oracle_reading(name: str) -> OracleReading:
    """Read one sample with pandas.

    Raises
    ------
    KeyError
        When the sample holds nothing that can be read: gas, bills, or register reads.
    """
    path = SAMPLES / name
    text = _text(path)
    rows = LOADERS[name](text, str(expected()[name]["timezone"]))
    rows = rows.dropna(subset="kwh")
    if "minutes" not in rows:
        rows["minutes"] = expected()[name]["interval_minutes"]
    netted = rows.groupby(["customer", "start"], dropna=False, sort=True)
    intervals = netted.agg(minutes=("minutes", "first"), kwh=("kwh", "sum")).reset_index()
    counted = int(rows["channels"].sum()) if "channels" in rows else len(rows)
    return OracleReading(intervals, counted)


def _text(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            content = archive.read(archive.namelist()[0])
    return content.decode("utf-8-sig")


def _table(text: str, **options: object) -> pd.DataFrame:
    # Rows of some exports end with one delimiter more than the header.
    return pd.read_csv(
        io.StringIO(text), dtype=str, keep_default_na=False, index_col=False, **options
    )


def _from_line(text: str, start: str) -> str:
    """Cut everything above the last line that begins with `start`."""
    lines = text.splitlines()
    first = max(i for i, line in enumerate(lines) if line.startswith(start))
    return "\n".join(lines[first:])


def _numbers(values: pd.Series, decimal: str = ".") -> pd.Series:
    text = values.str.strip()
    if decimal == ",":
        text = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return pd.to_numeric(text, errors="coerce")


def _utc(wall: pd.Series, zone: str, *, within: pd.Series | None = None) -> pd.Series:
    """Place clock times in UTC; one seen twice in a channel is first summer, then winter time."""
    channel = within if within is not None else pd.Series("", index=wall.index)
    summer = ~pd.DataFrame({"c": channel, "w": wall}).duplicated()
    placed = wall.dt.tz_localize(zone, ambiguous=summer.to_numpy(), nonexistent="NaT")
    return placed.dt.tz_convert("UTC")


def _instants(text: pd.Series) -> pd.Series:
    return pd.to_datetime(text.str.strip(), utc=True)


def _frame(
    customer: str | pd.Series, start: pd.Series, kwh: pd.Series, **more: pd.Series
) -> pd.DataFrame:
    frame = pd.DataFrame({"start": start, "kwh": kwh, **more})
    return frame.assign(customer=customer)


def _differences(stamps: pd.Series, register: pd.Series) -> pd.DataFrame:
    """Energy between one register reading and the next, placed at the earlier one."""
    frame = pd.DataFrame({"start": stamps, "register": register}).dropna().sort_values("start")
    frame["kwh"] = -frame.register.diff(-1)
    frame["minutes"] = -frame.start.diff(-1).dt.total_seconds() / 60
    return frame.iloc[:-1].assign(customer=NO_NAME)


def _ameren(text: str, zone: str) -> pd.DataFrame:
    t = _table(_from_line(text, "Start Interval"))
    wall = pd.to_datetime(t["Start Interval Date/Time"], format="%m/%d/%Y %H:%M")
    return _frame(t["Meter Id"], _utc(wall, zone), _numbers(t["Usage.1"]))


def _au_retailer(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    wall = pd.to_datetime(t["StartDate"], format="%d/%m/%y %H:%M")
    return _frame(t["NMI"], _utc(wall, zone), _numbers(t["ProfileReadValue"]))


def _melted(
    t: pd.DataFrame,
    keys: list[str],
    *,
    date: str,
    form: str,
    zone: str,
    label_is_end: bool = False,
) -> pd.DataFrame:
    """Turn one row per day with one column per interval into one row per interval."""
    times = [c for c in t.columns if re.match(r"\d{1,2}:\d\d", c)]
    step = pd.Timedelta(days=1) / len(times)
    long = t.melt(id_vars=[*keys, date], value_vars=times, var_name="label", value_name="v")
    # The k-th column is the k-th interval of the day, whatever its label says about its end.
    place = long["label"].map({c: i * step for i, c in enumerate(times)})
    first = pd.Timedelta(times[0].split("-")[0].strip() + ":00")
    assert first == (step if label_is_end else pd.Timedelta(0))
    wall = pd.to_datetime(long[date], format=form) + place
    channel = long[keys].agg("|".join, axis=1) if keys else None
    return long.assign(start=_utc(wall, zone, within=channel))


def _ausgrid(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, skiprows=1)
    keys = ["Customer", "Consumption Category"]
    long = _melted(t, keys, date="date", form="%d/%m/%Y", zone=zone, label_is_end=True)
    sign = long["Consumption Category"].map({"GC": 1, "CL": 1, "GG": -1})
    return _frame(long["Customer"], long["start"], _numbers(long["v"]) * sign)


def _cer(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, sep=" ", names=["meter", "code", "kwh"])
    day = t["code"].str[:3].astype(int)
    half_hour = t["code"].str[3:].astype(int)
    wall = pd.Timestamp("2009-01-01") + pd.to_timedelta(day - 1, unit="D")
    wall = wall + pd.to_timedelta(30 * (half_hour - 1), unit="min")
    return _frame(t["meter"], _utc(wall, zone, within=t["meter"]), _numbers(t["kwh"]))


def _datadis_numbers(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, sep=";")
    midnight = pd.to_datetime(t["Fecha"], format="%d/%m/%Y").dt.tz_localize(zone)
    # Hour k is the k-th hour that passes on that day, so it is counted in real time.
    start = midnight.dt.tz_convert("UTC") + pd.to_timedelta(t["Hora"].astype(int) - 1, unit="h")
    return _frame(t["CUPS"], start, _numbers(t["Consumo_kWh"], ","))


def _datadis_hours(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, sep=";")
    hour = t["hora"].str[:2].astype(int)
    wall = pd.to_datetime(t["fecha"], format="%Y/%m/%d") + pd.to_timedelta(hour - 1, unit="h")
    return _frame(t["cups"], _utc(wall, zone), _numbers(t["consumo_kWh"], ","))


def _dsmr(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    values = t.drop(columns=["Hour Start", "Gas"]).apply(_numbers)
    returned = values.columns.str.contains("Returned")
    net = values.loc[:, ~returned].sum(axis=1) - values.loc[:, returned].sum(axis=1)
    return _frame(NO_NAME, _instants(t["Hour Start"]), net)


def _e_distribuzione(text: str, zone: str) -> pd.DataFrame:
    long = _melted(_table(text, sep=";"), [], date="Giorno", form="%d/%m/%Y", zone=zone)
    return _frame(NO_NAME, long["start"], _numbers(long["v"], ","))


def _eemeter(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _frame(NO_NAME, _instants(t["start"]), _numbers(t["value"]))


def _eloverblik(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, sep=";")
    t = t[t["Type"] == "Tidsserier"].reset_index(drop=True)
    wall = pd.to_datetime(t["Fra dato"], format="%Y-%m-%d %H.%M")
    return _frame(t["Målepunkt id"], _utc(wall, zone), _numbers(t["Mængde"], ","))


def _enedis_client(text: str, zone: str) -> pd.DataFrame:
    meter = text.splitlines()[1].split(";")[0]
    t = _table(text, sep=";", skiprows=2)
    start = _instants(t["Horodate"]) - pd.Timedelta(minutes=30)
    return _frame(meter, start, _numbers(t["Valeur"]) / 2000)


def _enedis_r63(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, sep=";")
    wall = pd.to_datetime(t["Horodate"]) - pd.Timedelta(minutes=30)
    start = _utc(wall, zone, within=t["Identifiant PRM"])
    return _frame(t["Identifiant PRM"], start, _numbers(t["Valeur"]) / 2000)


def _engie(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    t = t[t["Type"] == "Elektriciteit"]
    return _frame(t["EAN"], _instants(t["Datum"]), _numbers(t["Verbruik"]))


def _enphase(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    wall = pd.to_datetime(t["Date/Time"], format="%m/%d/%Y %H:%M")
    net = _numbers(t["Imported from Grid (Wh)"]) - _numbers(t["Exported to Grid (Wh)"])
    return _frame(NO_NAME, _utc(wall, zone), net / 1000)


def _fingrid(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, sep=";")
    return _frame(t["Mittauspisteen tunnus"], _instants(t["Alkuaika"]), _numbers(t["Määrä"], ","))


def _fluvius(text: str, zone: str, *, day: str, time: str, ean: str, form: str) -> pd.DataFrame:
    t = _table(text, sep=";")
    wall = pd.to_datetime(t[day] + " " + t[time], format=form + " %H:%M:%S")
    sign = (
        t["Register"]
        .str.split()
        .str[0]
        .map({"Offtake": 1, "Afname": 1, "Injection": -1, "Injectie": -1})
    )
    start = _utc(wall, zone, within=t["Register"])
    return _frame(t[ean].str.strip('="'), start, _numbers(t["Volume"], ",") * sign)


def _fluvius_en(text: str, zone: str) -> pd.DataFrame:
    return _fluvius(
        text, zone, day="From (date)", time="From (time)", ean="EAN code", form="%d/%m/%Y"
    )


def _fluvius_nl(text: str, zone: str) -> pd.DataFrame:
    return _fluvius(text, zone, day="Van datum", time="Van tijdstip", ean="EAN", form="%d-%m-%Y")


def _goiener(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _frame(NO_NAME, _utc(pd.to_datetime(t["timestamp"]), zone), _numbers(t["kWh"]))


def _grafana(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _differences(_utc(pd.to_datetime(t["Time"]), zone), _numbers(t["kWh.first"]))


def _green_button(text: str, zone: str, flows: dict[str, int] | None = None) -> pd.DataFrame:
    """Read energy blocks of electricity; `flows` gives the sign of each flow direction to count."""
    counted = flows or {"": 1, "1": 1, "19": -1}
    entries = []
    for entry in ET.fromstring(text).iter(  # noqa: S314 -- files of this repository
        "{http://www.w3.org/2005/Atom}entry"
    ):
        hrefs: dict[str, list[str]] = {}
        for link in entry.iter("{http://www.w3.org/2005/Atom}link"):
            hrefs.setdefault(str(link.get("rel")), []).append(str(link.get("href")))
        entries.append((entry, hrefs))
    types = {h["self"][0]: e for e, h in entries if _child(e, "ReadingType") is not None}
    readings = {h["self"][0]: h for e, h in entries if _child(e, "MeterReading") is not None}
    parts: list[dict[str, float]] = []
    for entry, hrefs in entries:
        blocks = [b for b in entry.iter() if b.tag.endswith("IntervalBlock")]
        meter = hrefs.get("self", [""])[0].split("/IntervalBlock")[0] if blocks else ""
        kind = _type_of(meter, readings, types) if blocks else None
        if kind is None or _value(kind, "uom") != "72":
            continue
        sign = counted.get(_value(kind, "flowDirection"))
        scale = 10.0 ** int(_value(kind, "powerOfTenMultiplier") or 0) / 1000
        for block in blocks:
            parts.extend(
                {
                    "start": int(_value(reading, "start")),
                    "minutes": int(_value(reading, "duration")) / 60,
                    "kwh": int(_value(reading, "value")) * scale * sign,
                }
                for reading in block.iter()
                if sign is not None and reading.tag.endswith("IntervalReading")
            )
    t = pd.DataFrame(parts)
    return t.assign(start=pd.to_datetime(t["start"], unit="s", utc=True), customer=NO_NAME)


def _child(entry: ET.Element, name: str) -> ET.Element | None:
    return next((e for e in entry.iter() if e.tag.endswith("}" + name)), None)


def _value(entry: ET.Element, name: str) -> str:
    found = _child(entry, name)
    return (found.text or "").strip() if found is not None else ""


def _type_of(
    meter: str, readings: dict[str, dict[str, list[str]]], types: dict[str, ET.Element]
) -> ET.Element | None:
    """Find the reading type to which the meter reading of a block links."""
    for link in readings.get(meter, {}).get("related", []):
        if link in types:
            return _child(types[link], "ReadingType")
    return None


def _green_button_net(text: str, zone: str) -> pd.DataFrame:
    # Flow 4 is the sum of the two others, whose received side is negative already.
    return _green_button(text, zone, {"1": 1, "19": 1})


def _green_button_local(text: str, zone: str) -> pd.DataFrame:
    """Read a file that wrote local clock time as if it were UTC."""
    t = _green_button(text, zone)
    return t.assign(start=_utc(t["start"].dt.tz_localize(None), zone))


def _helen(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _frame(NO_NAME, _instants(t["timestamp"]), _numbers(t["electricity (kWh)"]))


def _home_assistant_dashboard(text: str, zone: str) -> pd.DataFrame:
    t = _table(text).melt(id_vars=["entity_id", "type", "unit"])
    sign = t["type"].map({"grid_consumption": 1, "grid_return": -1, "solar_production": 0})
    return _frame(NO_NAME, _instants(t["variable"]), _numbers(t["value"]) * sign)


def _home_assistant_history(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    found = _differences(_instants(t["last_changed"]), _numbers(t["state"]))
    return found.assign(customer=t["entity_id"][0])


def _homewizard(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    v = t.drop(columns="time").apply(_numbers)
    register = v["Import T1 kWh"] + v["Import T2 kWh"] - v["Export T1 kWh"] - v["Export T2 kWh"]
    return _differences(_utc(pd.to_datetime(t["time"]), zone), register)


def _influxdb(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _differences(_instants(t["time"]), _numbers(t["kWh.first_value"]))


def _jemena(text: str, zone: str, form: str = "%Y-%m-%d") -> pd.DataFrame:
    # The hour that clocks skip holds values: the columns are market time, UTC+10 all year.
    market = "Etc/GMT-10"
    long = _melted(_table(text), ["NMI", "CON/GEN"], date="DATE", form=form, zone=market)
    assert set(long["CON/GEN"]) <= {"Consumption", "Controlled Load Consumption"}
    return _frame(long["NMI"], long["start"], _numbers(long["v"]))


def _jemena_short(text: str, zone: str) -> pd.DataFrame:
    return _jemena(text, zone, "%d/%m/%y")


def _lcl_block(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _frame(t["LCLid"], _instants(t["tstp"]), _numbers(t["energy(kWh/hh)"]))


def _lcl_raw(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    kwh = _numbers(t["KWH/hh (per half hour) "])
    return _frame(t["LCLid"], _instants(t["DateTime"].str[:19]), kwh)


def _liander(text: str, zone: str) -> pd.DataFrame:
    t = _table("\n".join(line.rstrip() for line in text.splitlines()))
    t = t[t["meternummer"].str.startswith("E")]
    used = t[["usage1", "usage2", "usage3", "usage4"]].apply(_numbers)
    net = used.usage1 + used.usage2 - used.usage3 - used.usage4
    # The register is read in the evening of the named day: its use is of the day that ends there.
    wall = pd.to_datetime(t["meterreadingdate"], format="%d-%m-%Y") - pd.Timedelta(days=1)
    return _frame(t["eancodeasn"], _utc(wall, zone), net)


def _nem12(text: str, zone: str) -> pd.DataFrame:
    """Read 200 and 300 records; market time is UTC+10 all year round."""
    parts = []
    nmi = suffix = unit = ""
    minutes = 30
    for line in text.splitlines():
        cells = line.split(",")
        if cells[0] == "200":
            nmi, suffix, unit, minutes = cells[1], cells[4], cells[7].lower(), int(cells[8])
        if cells[0] == "300" and unit == "kwh":
            count = 1440 // minutes
            start = pd.Timestamp(cells[1], tz="Etc/GMT-10").tz_convert("UTC")
            sign = {"E": 1.0, "B": -1.0}[suffix[0]]
            for i, value in enumerate(cells[2 : 2 + count]):
                parts.append((nmi, start + pd.Timedelta(minutes=i * minutes), sign * float(value)))
    return pd.DataFrame(parts, columns=["customer", "start", "kwh"])


def _octopus(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _frame(NO_NAME, _instants(t[" Start"]), _numbers(t["Consumption (kWh)"]))


def _pecan_street(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _frame(t["dataid"], _instants(t["local_15min"] + ":00"), _numbers(t["grid"]) / 4)


def _pge(text: str, zone: str) -> pd.DataFrame:
    t = _table(_from_line(text, "TYPE"))
    wall = pd.to_datetime(t["DATE"] + " " + t["START TIME"])
    return _frame(NO_NAME, _utc(wall, zone), _numbers(t["USAGE"]))


def _powerpal(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    return _frame(NO_NAME, _instants(t["datetime_utc"]), _numbers(t["watt_hours"]) / 1000)


def _refit(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    seconds = pd.to_numeric(t["Unix"])
    held = -seconds.diff(-1)
    start = pd.to_datetime(seconds, unit="s", utc=True)
    kwh = _numbers(t["Aggregate"]) * held / 3.6e6
    return _frame(NO_NAME, start, kwh, minutes=held / 60)


def _sce(text: str, zone: str) -> pd.DataFrame:
    """Read the lines `A to B,value` of every section; a heading with Received turns the sign."""
    sign, parts = 1.0, []
    for line in text.splitlines():
        if "time period" in line:
            sign = -1.0 if "Received" in line else 1.0
        found = re.match(r'"?(\d{4}-\S+)\s(\S+)\sto\s[^,]*,"?([\d.]+)', line)
        if found:
            parts.append((found[1] + " " + found[2], sign, sign * float(found[3])))
    t = pd.DataFrame(parts, columns=["wall", "section", "kwh"])
    return _frame(NO_NAME, _utc(pd.to_datetime(t["wall"]), zone, within=t["section"]), t["kwh"])


def _sdge(text: str, zone: str) -> pd.DataFrame:
    t = _table(_from_line(text, "Meter Number"))
    wall = pd.to_datetime(t["Date"] + " " + t["Start Time"], format="%m/%d/%Y %I:%M %p")
    start = _utc(wall, zone)
    net = _numbers(t["Consumption"]) - _numbers(t["Generation"]).fillna(0)
    gap = -start.diff(-1).dt.total_seconds() / 60
    return _frame(t["Meter Number"], start, net, minutes=gap.ffill())


def _sgsc(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    wall = pd.to_datetime(t[" READING_DATETIME"]) - pd.Timedelta(minutes=30)
    use = _numbers(t[" GENERAL_SUPPLY_KWH"]) + _numbers(t[" CONTROLLED_LOAD_KWH"])
    made = _numbers(t[" GROSS_GENERATION_KWH"]) + _numbers(t[" NET_GENERATION_KWH"])
    return _frame(t["CUSTOMER_ID"], _utc(wall, zone), use - made)


def _shelly(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    net = _numbers(t["Active energy Wh (A)"]) - _numbers(t["Returned energy Wh (A)"])
    return _frame(NO_NAME, _instants(t["Date/time UTC"]), net / 1000)


def _smart_meter_texas(text: str, zone: str) -> pd.DataFrame:
    t = _table(text)
    assert set(t["CONSUMPTION_SURPLUSGENERATION"]) == {"Consumption"}
    # The second 01:00 of the autumn day is written "02:00" to "01:15": the end is the one to trust.
    end = pd.to_timedelta(t["USAGE_END_TIME"] + ":00") - pd.Timedelta(minutes=15)
    wall = pd.to_datetime(t["USAGE_DATE"], format="%m/%d/%Y") + end % pd.Timedelta(days=1)
    return _frame(t["ESIID"].str.lstrip("'"), _utc(wall, zone), _numbers(t["USAGE_KWH"]))


def _uci(text: str, zone: str) -> pd.DataFrame:
    t = _table(text, sep=";").melt(id_vars="Unnamed: 0")
    wall = pd.to_datetime(t["Unnamed: 0"]) - pd.Timedelta(minutes=15)
    start = _utc(wall, zone, within=t["variable"])
    return _frame(t["variable"], start, _numbers(t["value"], ",") / 4)


def _united_power(text: str, zone: str) -> pd.DataFrame:
    """Read the third of three sections: the net, which is the sum of the other two."""
    customer = re.findall(r"For: (\S+)", text)[0]
    section, parts = 0, []
    for line in text.splitlines():
        section += "Interval Blockdata" in line
        found = re.match(r" (\d{4}-\S+ \S+) to [^,]*,(-?[\d.]+)", line)
        if found and section == 3:
            parts.append((found[1], float(found[2])))
    t = pd.DataFrame(parts, columns=["wall", "kwh"])
    return _frame(customer, _utc(pd.to_datetime(t["wall"]), zone), t["kwh"])


LOADERS: dict[str, Callable[[str, str], pd.DataFrame]] = {
    "ameren_letterhead_15min.csv": _ameren,
    "au_retailer_30min.csv": _au_retailer,
    "ausgrid_solar_home_wide_30min.csv": _ausgrid,
    "cer_30min_daycode.txt": _cer,
    "datadis_hour_1_to_25.csv": _datadis_numbers,
    "datadis_hour_24.csv": _datadis_hours,
    "dsmr_reader_hourly.csv": _dsmr,
    "e_distribuzione_wide_15min.csv": _e_distribuzione,
    "eemeter_hourly.csv.gz": _eemeter,
    "eloverblik_hourly.csv": _eloverblik,
    "enedis_client_load_curve_w.csv": _enedis_client,
    "enedis_r63_w.csv": _enedis_r63,
    "engie_nl_hourly.csv": _engie,
    "enphase_hourly_wh.csv": _enphase,
    "fingrid_datahub_15min.csv": _fingrid,
    "fluvius_electricity_en_15min.csv": _fluvius_en,
    "fluvius_electricity_nl_15min.csv": _fluvius_nl,
    "goiener_hourly.csv": _goiener,
    "grafana_register_hourly.csv": _grafana,
    "greenbutton_ameren_15min.xml": _green_button_local,
    "greenbutton_hydroone_daily.xml": _green_button,
    "greenbutton_hydroone_tou_hourly.xml": _green_button,
    "greenbutton_nisc_net_metering_daily.xml": _green_button_net,
    "greenbutton_nisc_net_metering_daily.zip": _green_button_net,
    "greenbutton_openespi_hourly.xml": _green_button,
    "greenbutton_sce_15min.xml": _green_button,
    "greenbutton_sdge_hourly.xml": _green_button_local,
    "greenbutton_utilityapi_hourly.xml": _green_button,
    "helen_hourly.csv": _helen,
    "home_assistant_energy_dashboard.csv": _home_assistant_dashboard,
    "home_assistant_history_register.csv": _home_assistant_history,
    "homewizard_p1_register_15min.csv": _homewizard,
    "influxdb_chronograf_register_hourly.csv": _influxdb,
    "jemena_wide_30min.csv": _jemena,
    "jemena_wide_30min_short_dates.csv": _jemena_short,
    "lcl_block_30min.csv": _lcl_block,
    "lcl_raw_null_30min.csv": _lcl_raw,
    "liander_daily_register.csv": _liander,
    "nem12_e1b1q1k1_30min.csv": _nem12,
    "nem12_no_100_blank_first_line_30min.csv": _nem12,
    "nem12_no_100_excel_mangled_30min.csv": _nem12,
    "nem12_no_100_redacted_nmi_5min.csv": _nem12,
    "nem12_solar_5min.csv": _nem12,
    "octopus_30min.csv": _octopus,
    "pecan_street_15min_kw.csv": _pecan_street,
    "pge_letterhead_electric_hourly.csv": _pge,
    "powerpal_30min.csv": _powerpal,
    "refit_8s_w.csv": _refit,
    "sce_interval_15min.csv": _sce,
    "sce_interval_quoted_15min.csv": _sce,
    "sdge_letterhead_15min.csv": _sdge,
    "sdge_plain_mixed_resolution.csv": _sdge,
    "sgsc_30min.csv": _sgsc,
    "shelly_em3_phase_a_10min_wh.csv": _shelly,
    "smart_meter_texas.csv": _smart_meter_texas,
    "uci_ld2011_15min_kw.txt": _uci,
    "united_power_net_metering_hourly.csv": _united_power,
}
