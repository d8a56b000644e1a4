"""Warnings of `wattveil profiles` about the load, the files and the period."""

import datetime as dt
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

_FIRST = dt.datetime(2013, 1, 7, tzinfo=dt.UTC)


def test_a_median_load_above_that_of_homes_is_warned_of(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    """Unless the caller accepts it: the mean of the hours 0 to 23 is 11.5 kW."""
    given = [str(source), "--out", str(tmp_path / "p.parquet"), "--timezone", "UTC"]
    for options, warns in (
        ([], True),
        (["--implausible", "accept"], False),
        (["--unit", "Wh"], False),
    ):
        result = CliRunner().invoke(app, [*given, *options])
        assert ("above 5 kW: more than homes use" in " ".join(result.output.split())) is warns


@pytest.mark.parametrize(("zone", "stamp"), [("UTC", "start"), ("Europe/London", "end")])
def test_days_of_the_period_without_readings_are_warned_of(
    app: typer.Typer, source: Path, tmp_path: Path, zone: str, stamp: str
) -> None:
    """A day on which all customers lack readings; a period of days with readings has no warning."""
    late = "01:00" if stamp == "end" else "00:00"
    first, last = f"a,2013-01-12 {late}", f"a,2013-01-13 {late}"
    lines = source.read_text().splitlines()
    source.write_text("\n".join(line for line in lines if not first <= line < last))
    given = [str(source), "--out", str(tmp_path / "p.parquet"), "--timezone", zone]
    given += ["--stamp", stamp, "--json", "--period"]
    begin = _FIRST.date() + dt.timedelta(days=1)
    found = {}
    for end in (dt.date(2013, 1, 12), dt.date(2013, 1, 20)):
        result = CliRunner().invoke(app, [*given, str(begin), str(end), "--min-days", "1"])
        told = json.loads(result.stdout)["warnings"]
        found[end.day] = [text for text in told if "of --period" in text]
    days = (dt.date(2013, 1, 20) - begin).days
    assert found[12] == []
    assert found[20] == [f"1 of {days} days of --period have no readings: 2013-01-12"]


def test_a_file_of_another_unit_is_warned_of(app: typer.Typer, tmp_path: Path) -> None:
    """Twenty times apart or more."""
    for name, factor in (("jan", 1), ("feb", 1000), ("mar", 2)):
        hours = [_FIRST + dt.timedelta(hours=hour) for hour in range(480)]
        rows = [f"{name},{hour:%Y-%m-%d %H:%M},{factor * (1 + hour.hour) / 24}" for hour in hours]
        text = "\n".join(["id,timestamp,kwh", *rows])
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    given = [str(tmp_path / "*.csv"), "--out", str(tmp_path / "p.parquet"), "--timezone", "UTC"]
    told = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    (warning,) = [text for text in told["warnings"] if "different unit" in text]
    told = "feb.csv may use a different unit: its median value is 521, the usual one 1.04"
    assert warning.startswith(told)


def _hours(name: str, value: str = "0.{hour}") -> list[str]:
    hours = (_FIRST + dt.timedelta(hours=hour) for hour in range(480))
    return [f"{name},{hour:%Y-%m-%d %H:%M},{value.format(hour=hour.hour)}" for hour in hours]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], None),
        (_hours("a")[:100], None),  # 9 % of 1,060 rows
        (_hours("a")[:120], "120 rows (11 %) are equal duplicates"),
        (_hours("a", "7")[:1], "2 rows dropped as conflicting duplicates"),
        (_hours("c", "none?"), "480 rows (33 %) dropped because the value is not a number"),
        (["a,2013-01-08 12:30,0.5"], "not used: 1 reading that spans two slots"),
    ],
)
def test_faults_of_many_rows_are_warned_of_in_json(
    app: typer.Typer, tmp_path: Path, more: list[str], words: str | None
) -> None:
    """A scheduler sees what the screen shows."""
    rows = [*_hours("a"), *_hours("b"), *more]
    (path := tmp_path / "r.csv").write_text("\n".join(["id,timestamp,kwh", *rows]))
    given = [str(path), "--out", str(tmp_path / "p.parquet"), "--timezone", "UTC"]
    given += ["--minutes", "60", "--implausible", "accept", "--json"]
    found = json.loads(CliRunner().invoke(app, given).stdout)["warnings"]
    assert [words in text for text in found] == [True] if words else not found
