"""Every file of the shared data, as a user reads it, and by an independent computation."""

import csv
import gzip
from collections import defaultdict
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.shared_data import SHARED_DATA, needs_shared_data
from wattveil.errors import InvalidFileError
from wattveil.profiles import Split, TimeGrid, build_profiles, profiles_from_readings
from wattveil.readings import read_readings

pytestmark = needs_shared_data

_HALF_HOURLY = SHARED_DATA / "lcl1014" / "lcl300_halfhourly_2013-02-04_28d_long.csv.gz"
_HOURLY = SHARED_DATA / "lcl1014" / "lcl1014_hourly_2013_wide.csv.gz"
_FEBRUARY = ("2013-02-04", "2013-03-04")


def test_london_half_hourly_against_plain_python() -> None:
    """300 homes, 402,164 readings: the averages of a loop over the file, home by home."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 48)
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 48)
    with gzip.open(_HALF_HOURLY, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            slot = 2 * int(row["timestamp"][11:13]) + int(row["timestamp"][14:16]) // 30
            sums[row["meter_id"]][slot] += float(row["kwh"])
            counts[row["meter_id"]][slot] += 1
    readings = read_readings(_HALF_HOURLY)
    build = build_profiles(readings, grid=TimeGrid(minutes=30))
    assert build.account.readings.rows_in == build.account.readings.rows_out == 402_164
    assert build.profiles.customer_ids == tuple(sorted(sums))
    expected = [
        [2 * total / count for total, count in zip(sums[name], counts[name], strict=True)]
        for name in build.profiles.customer_ids
    ]
    assert np.allclose(build.profiles.load_kw, expected, rtol=1e-12, atol=0)


@pytest.mark.long
def test_london_hourly_agrees_with_half_hourly() -> None:
    """Two files of the same homes, wide by hour and long by half-hour, give the same profiles.

    An hour that lacks one half is empty in the hourly file, so homes with gaps may differ a little.
    """
    half = profiles_from_readings(read_readings(_HALF_HOURLY), timezone="Europe/London")
    readings = read_readings(_HOURLY, period=_FEBRUARY)
    hour = profiles_from_readings(readings, timezone="Europe/London")
    row_of = {name: row for row, name in enumerate(hour.customer_ids)}
    rows = [row_of[name] for name in half.customer_ids]
    apart = np.abs(hour.load_kw[rows] - half.load_kw).max(axis=1)
    assert np.mean(apart < 0.0011) > 0.85  # hours are rounded to 0.001 kWh
    assert apart.max() < 0.15
    assert np.allclose(hour.load_kw[rows].mean(axis=0), half.load_kw.mean(axis=0), rtol=2e-3)


@pytest.mark.long  # the layout of the half-hours, which are compared with plain Python
def test_london_hourly_is_read_whole() -> None:
    """352,177 days of 24 hours: 1,014 homes, empty slots counted, nothing else lost."""
    build = build_profiles(
        read_readings(_HOURLY),
        timezone="Europe/London",
        grid=TimeGrid(split=Split.WEEKDAY_WEEKEND),
        attributes=SHARED_DATA / "lcl1014" / "lcl1014_meters.csv",
    )
    report = build.account.readings
    assert report.rows_in == 352_177 * 24
    assert list(report.dropped) == ["no value"]
    assert build.account.customers_in == 1_014
    assert build.account.customers_dropped == {"readings on fewer than 14 days": 1}
    tariffs = build.profiles.attributes["stdorToU"]
    assert set(tariffs) == {"Std", "ToU"}
    evening = build.profiles.load_kw.mean(axis=0)[18:21].mean()
    assert evening > 1.5 * build.profiles.load_kw.mean(axis=0)[2:5].mean()


def test_net_load_keeps_its_sign() -> None:
    """Semi-synthetic PV homes: 13.2 % of hours negative, noon negative on average for 90 homes."""
    path = SHARED_DATA / "lcl300_pv_semisynthetic" / "lcl300_net_hourly_2013MarMay_wide.csv.gz"
    readings = read_readings(path)
    profiles = profiles_from_readings(
        readings, timezone="Europe/London", attributes=path.with_name("lcl300_pv_meters.csv")
    )
    kwh = readings.to_arrow()["kwh"].to_numpy()
    assert np.mean(kwh < 0) == pytest.approx(0.132, abs=0.001)
    has_pv = np.array(profiles.attributes["has_pv"]) == "1"
    assert has_pv.sum() == 90
    noon = profiles.load_kw[:, 13]
    assert np.mean(noon[has_pv] < 0) > 0.9
    assert not np.any(noon[~has_pv] < 0)


def test_seventeen_homes_with_several_value_columns() -> None:
    """load, pv and net: the caller has to choose; by the clock, the skipped hour is counted."""
    path = SHARED_DATA / "citylearn17_pv" / "citylearn17_hourly_long.csv.gz"
    with pytest.raises(InvalidFileError, match="several could be it"):
        read_readings(path)
    readings = read_readings(path, columns={"value": "net_kwh"}, timezone="America/Los_Angeles")
    build = build_profiles(readings)
    assert build.account.readings.dropped == {"local time that does not exist (clocks forward)": 17}
    assert len(build.profiles) == 17


def test_a_column_a_client() -> None:
    """203 clients as columns, 1,000 hours; half of them above 129 kW, which must be confirmed."""
    source = SHARED_DATA / "uci203" / "uci203_hourly_wide.csv.gz"
    with pytest.raises(InvalidFileError, match="median load"):
        read_readings(source)
    build = build_profiles(read_readings(source, implausible="accept"))
    assert build.account.readings.rows_in == build.account.readings.rows_out == 203_000
    assert len(build.profiles) == 203
    assert build.profiles.load_kw.mean(axis=1).max() > 10_000  # one very large customer


@pytest.mark.parametrize(
    ("name", "rows_in", "rows_out", "minutes"),
    [
        ("jendobson_hourly_1yr_with_gaps.xml", 8_727, 8_727, 60),
        ("gba_15min_quality_flags.xml", 1_340, 1_340, 15),
        ("openespi_three_usagepoints_reverse_flow.xml", 384, 288, 15),
    ],
)
def test_green_button(name: str, rows_in: int, rows_out: int, minutes: int) -> None:
    """Green Button files are read alike; received energy is netted with delivered."""
    readings = read_readings(SHARED_DATA / "greenbutton" / name)
    assert (readings.report.rows_in, readings.report.rows_out) == (rows_in, rows_out)
    assert readings.lengths == (minutes,)


def test_green_button_malformed_is_refused() -> None:
    """The file with impossible multipliers is refused with its line and what was expected."""
    with pytest.raises(InvalidFileError, match="a power of ten") as caught:
        read_readings(SHARED_DATA / "greenbutton" / "openespi_odd_units_malformed.xml")
    assert caught.value.where.startswith("line ")


def test_a_year_of_green_button_hours_by_hand() -> None:
    """The average of an hour of the day, from the table and from the profile."""
    readings = read_readings(SHARED_DATA / "greenbutton" / "jendobson_hourly_1yr_with_gaps.xml")
    zone = ZoneInfo("America/Los_Angeles")
    by_hour: dict[int, list[float]] = defaultdict(list)
    for row in readings.to_arrow().to_pylist():
        by_hour[row["start_utc"].astimezone(zone).hour].append(row["kwh"])
    load_kw = profiles_from_readings(readings, timezone="America/Los_Angeles").load_kw[0]
    assert np.allclose(load_kw, [np.mean(by_hour[hour]) for hour in range(24)], rtol=1e-12)
