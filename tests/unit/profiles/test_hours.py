"""Hours: readings laid out over local days, by hand."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.profiles import hours_from_readings
from wattveil.readings import read_readings


def _write(path: Path, rows: list[tuple[str, dt.datetime, float]]) -> Path:
    lines = [f"{name},{start:%Y-%m-%d %H:%M:%S}Z,{kwh!r}" for name, start, kwh in rows]
    path.write_text("\n".join(["id,timestamp,kwh", *lines]) + "\n", encoding="utf-8")
    return path


def test_half_hours_become_hours_and_gaps_stay_gaps(tmp_path: Path) -> None:
    """0.5 and 1.5 kWh in two halves are 2 kW; half an hour alone is no hour."""
    first = dt.datetime(2013, 1, 7, tzinfo=dt.UTC)
    half = dt.timedelta(minutes=30)
    rows = [("b", first + place * half, 0.5 + place % 2) for place in range(96)]
    rows += [("a", first + place * half, 1.0) for place in range(96) if place != 5]
    readings = read_readings(_write(tmp_path / "readings.csv", rows))
    hours = hours_from_readings(readings, first_day=dt.date(2013, 1, 8), n_days=2)
    assert hours.customer_ids == ("a", "b")
    assert hours.slots_per_day == 24
    assert hours.load_kw[:, :24].tolist() == [[2.0] * 24, [2.0] * 24]
    assert np.isnan(hours.load_kw[:, 24:]).all()
    earlier = hours_from_readings(readings, first_day=dt.date(2013, 1, 7), n_days=1)
    assert np.flatnonzero(np.isnan(earlier.load_kw[0])).tolist() == [2]


def test_days_are_local(tmp_path: Path) -> None:
    """London's summer days begin at 23:00 UTC; clocks skip one hour and repeat another."""
    days = {"2013-03-31": [1], "2013-07-01": [], "2013-10-27": []}
    for text, skipped in days.items():
        day = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)
        rows = [("a", day + dt.timedelta(hours=hour), 1.0 + (hour == -1)) for hour in range(-3, 30)]
        readings = read_readings(_write(tmp_path / "readings.csv", rows))
        hours = hours_from_readings(
            readings, first_day=day.date(), n_days=1, timezone="Europe/London"
        )
        expected = np.ones(24)
        expected[skipped] = np.nan
        expected[0] = 1.0 if text == "2013-03-31" else 2.0
        assert np.array_equal(hours.load_kw[0], expected, equal_nan=True)


def test_a_reading_in_two_slots_fills_neither(tmp_path: Path) -> None:
    """Hours of UTC begin at half past in India; half hours fit, whatever a neighbour has."""
    first = dt.datetime(2013, 1, 6, 18, 30, tzinfo=dt.UTC)  # midnight
    half = dt.timedelta(minutes=30)
    rows = ["id,start,minutes,kwh"]
    rows += [f"a,{first + half + 2 * hour * half:%Y-%m-%dT%H:%M:%SZ},60,1" for hour in range(24)]
    rows += [f"b,{first + place * half:%Y-%m-%dT%H:%M:%SZ},30,1" for place in range(48)]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    hours = hours_from_readings(
        read_readings(path), first_day=dt.date(2013, 1, 7), n_days=1, timezone="Asia/Kolkata"
    )
    assert np.isnan(hours.load_kw[0]).all()
    assert hours.load_kw[1].tolist() == [2.0] * 24


def test_bad_parameters_are_named(tmp_path: Path) -> None:
    """A slot no shorter than a reading, a date, and days."""
    first = dt.datetime(2013, 1, 7, tzinfo=dt.UTC)
    rows = [("a", first + dt.timedelta(hours=hour), 1.0) for hour in range(48)]
    readings = read_readings(_write(tmp_path / "readings.csv", rows))
    fine: dict[str, Any] = {"first_day": first.date(), "n_days": 1}
    for field, value in (
        ("minutes", 30),
        ("minutes", 7),
        ("first_day", first),
        ("n_days", 0),
        ("timezone", "Nowhere/At_all"),
    ):
        with pytest.raises(InvalidParameterError, match=field):
            hours_from_readings(readings, **fine | {field: value})
