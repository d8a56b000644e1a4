"""The command `wattveil evaluate`: table, JSON, page, rejected input, and readings."""

import dataclasses
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from wattveil.arrays import Floats
from wattveil.bundle.customer_files import FORMATS, METADATA, synthetic_timezone
from wattveil.bundle.drawn_customers import Drawn
from wattveil.cli import app
from wattveil.cli.data import write_readings
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.lab.evaluation.customer_samples import (
    Populations,
    of_hours,
    of_profiles,
    read_populations,
)
from wattveil.profiles import Hours, Profiles, TimeGrid


@pytest.fixture
def files(tmp_path: Path, homes_kw: Floats, named_profiles: Callable[..., Profiles]) -> list[str]:
    """Return the paths of real and of synthetic profiles."""
    paths = [str(tmp_path / name) for name in ("profiles.parquet", "synthetic.parquet")]
    named_profiles(homes_kw[:120]).write_parquet(paths[0])
    named_profiles(1.5 * homes_kw[120:240]).write_parquet(paths[1])
    return paths


def test_table_and_page(files: list[str], tmp_path: Path) -> None:
    """The command prints one table with verdicts and writes a self-contained page."""
    page = tmp_path / "evaluation.html"
    result = CliRunner().invoke(
        app, ["evaluate", *files, "--report", str(page)], env={"COLUMNS": "150"}
    )
    assert result.exit_code == 0, result.output
    for words in (
        "120 real and 120 synthetic customers, 1 day of 24 slots. Private",
        "F1 W1 of a slot, mean",
        "F18 shares of clusters",
        "U3 clusters from synthetic",
        "detected",
        "inconclusive (no power)",
        "needs hourly years",
    ):
        assert words in result.output
    assert re.search(r"needs hourly years: \d+ more metrics\.", result.output)
    assert result.output.count("needs hourly years") == 1
    written = page.read_text()
    assert "INTERNAL: exact figures" in written
    for title in ("Mean profile", "Load duration", "Energy per day", "Principal components"):
        assert title in written
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", written)


def test_the_table_fits_a_terminal(files: list[str]) -> None:
    """In 80 columns no word is cut, and no name takes more than two lines."""
    result = CliRunner().invoke(app, ["evaluate", *files], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    rows = [line for line in result.output.splitlines() if "  " in line]  # sentences have none
    assert max(map(len, rows)) <= 80
    assert "F11 daily energy, worst decile " in result.output


def test_json(files: list[str]) -> None:
    """`--json` prints the rows and nothing else."""
    result = CliRunner().invoke(app, ["evaluate", *files, "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["private"] is True
    rows = {row["metric"]: row for row in said["metrics"]}
    assert rows["F11 daily energy, mean"]["verdict"] == "difference detected"
    energy = rows["F11 daily energy, mean"]
    assert energy["score"] > 0.25
    assert energy["noise"] < energy["low"] < energy["score"] < energy["high"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--repeats", "3"], "repeats must be a whole number of at least 20"),
        (["--clusters", "0"], "clusters must be a whole number of at least 1"),
        (
            ["--report", "no/such/folder/page.html"],
            "--report must be a file in a folder that exists",
        ),
        (["--timezone", "UTC"], "timezone must be omitted for profiles"),
    ],
)
def test_bad_options_are_explained(files: list[str], arguments: list[str], words: str) -> None:
    """A bad option exits with status 2 and names field, rule and value."""
    result = CliRunner().invoke(app, ["evaluate", *files, *arguments], terminal_width=200)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())


def test_files_that_do_not_fit(
    files: list[str], tmp_path: Path, named_profiles: Callable[..., Profiles], homes_kw: Floats
) -> None:
    """Other grids, zones, units and kinds of files are refused, and named."""
    real = named_profiles(homes_kw[:60])
    half_hours = Profiles(
        customer_ids=real.customer_ids,
        load_kw=np.repeat(real.load_kw, 2, axis=1),
        grid=TimeGrid(minutes=30),
        timezone=real.timezone,
    )
    with pytest.raises(InvalidParameterError, match=r"on the grid TimeGrid\(minutes=60"):
        of_profiles(real, half_hours)
    with pytest.raises(InvalidParameterError, match="in Europe/London"):
        of_profiles(real, dataclasses.replace(real, timezone="UTC"))
    other = tmp_path / "other.csv"
    with pytest.raises(InvalidFileError, match="an existing file"):
        read_populations(Path(files[0]), other, timezone=None)
    other.touch()
    mixed = "REAL contains profiles but SYNTHETIC contains readings"
    with pytest.raises(InvalidParameterError, match=mixed):
        read_populations(Path(files[0]), other, timezone=None)
    named_profiles(1000.0 * homes_kw[:60]).write_parquet(files[1])  # W
    result = CliRunner().invoke(app, ["evaluate", *files], terminal_width=200)
    assert result.exit_code == 2
    said = " ".join(result.output.replace("│", " ").split())
    assert "in the unit of the real customers, kW" in said


def test_closing_midnight_counts_once() -> None:
    """The paper's column 24:00 is 0:00 again and is left out."""
    load_kw = np.arange(50.0).reshape(2, 25)
    closed = Profiles(
        customer_ids=("a", "b"),
        load_kw=load_kw,
        grid=TimeGrid(closing_midnight=True),
        timezone="UTC",
    )
    both = of_profiles(closed, closed)
    assert np.array_equal(both.real_kw, load_kw[:, :24])


@pytest.mark.parametrize("days", [(9, 9), (12, 8)])
def test_readings_over_the_days_of_both(tmp_path: Path, days: tuple[int, int]) -> None:
    """Two files of readings become hours of the days that both cover."""
    paths = [tmp_path / f"{name}.parquet" for name in ("real", "synthetic")]
    for path, count, seed in zip(paths, days, (1, 2), strict=True):
        write_readings(
            path,
            customers=50,
            days=count,
            start=date(2025, 3, 26),  # clocks change within
            timezone="Europe/London",
            minutes=30,
            seed=seed,
            missing=0.001,
            quiet=True,
        )
    both = read_populations(*paths, timezone="Europe/London")
    assert both.layout.series
    assert (both.layout.days, both.layout.slots_per_day) == (min(days), 24)
    assert both.layout.first_weekday == 2
    assert both.real_kw.shape[1] == 24 * min(days)
    assert np.isfinite(both.real_kw).all()
    assert len(both.real_kw) + both.left_out[0] == 50
    assert len(both.real_kw) > 40


def test_gaps_are_filled_from_a_week_or_a_day_away() -> None:
    """A missing slot takes the load of a week before, else after; many cost the customer."""
    load_kw = np.arange(2.0 * 336).reshape(2, 336)
    load_kw[0, 200], load_kw[0, 10] = np.nan, np.nan
    load_kw[1, 50:100] = np.nan
    hours = Hours(
        customer_ids=("a", "b"),
        load_kw=load_kw,
        first_day=date(2025, 3, 3),
        slots_per_day=24,
        timezone="UTC",
    )
    both = of_hours(hours, hours)
    assert both.left_out == (1, 1)
    assert both.real_kw[0, 200] == 32.0
    assert both.real_kw[0, 10] == 178.0
    later = dataclasses.replace(hours, first_day=date(2025, 3, 4))
    with pytest.raises(InvalidParameterError, match="of 14 days"):
        of_hours(hours, later)


def test_days_apart_are_refused(tmp_path: Path) -> None:
    """Readings of different days have nothing to compare."""
    paths = [tmp_path / f"{name}.parquet" for name in ("real", "synthetic")]
    for path, month in zip(paths, (3, 5), strict=True):
        write_readings(
            path,
            customers=3,
            days=3,
            start=date(2025, month, 3),
            timezone="UTC",
            minutes=60,
            seed=1,
            missing=0.0,
            quiet=True,
        )
    with pytest.raises(InvalidParameterError, match="of days that the real ones have"):
        read_populations(*paths, timezone=None)


@pytest.mark.parametrize("kind", ["parquet", "csv", "green-button"])
@pytest.mark.parametrize("first", [date(2025, 3, 6), date(2025, 10, 30)])  # clocks change within
def test_synthetic_years_have_the_clock_of_the_readings(
    tmp_path: Path, first: date, kind: str
) -> None:
    """Far from UTC, and on days with 23 and 25 hours, the same local load is the same load."""
    zone, days = ZoneInfo("America/New_York"), 14
    load_kw = np.tile(1.0 + np.arange(24) * np.arange(1, 4)[:, None], days)  # its peak is at 23:00
    real, synthetic = tmp_path / "real.csv", tmp_path / f"years{FORMATS[kind].ending}"
    start = datetime.combine(first, time(), zone).astimezone(UTC)
    end = datetime.combine(first + timedelta(days=days), time(), zone).astimezone(UTC)
    hours = [start + timedelta(hours=hour) for hour in range((end - start) // timedelta(hours=1))]
    assert len(hours) - 24 * days == (-1 if first.month == 3 else 1)
    lines = [
        f"{name},{hour.isoformat()},{load_kw[name, hour.astimezone(zone).hour]}\n"
        for name in range(3)
        for hour in hours
    ]
    real.write_text("customer_id,start_utc,kwh\n" + "".join(lines))
    drawn = Drawn(
        batches=iter([(["a", "b", "c"], np.zeros(3, np.int64), load_kw)]),
        customers=3,
        grid=TimeGrid(),
        timezone=zone.key,
        power_factor=1.0,
        buses=None,
        days=(first, days),
        origin={"timezone": zone.key},
    )
    FORMATS[kind].write(synthetic, drawn)
    assert synthetic_timezone(synthetic) == (zone.key if kind == "parquet" else None)
    both = read_populations(real, synthetic, timezone=zone.key)
    assert both.real_kw.shape == (3, 24 * days)
    assert np.array_equal(both.real_kw, load_kw)
    assert np.array_equal(both.synthetic_kw, load_kw)


def test_the_time_zone_of_synthetic_years_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readings with local time stamps are read in it, unless --timezone is given."""
    seen = []

    def noted(_real: Path, _synthetic: Path, *, timezone: str | None) -> Populations:
        seen.append(timezone)
        raise InvalidParameterError("timezone", "noted", timezone)

    monkeypatch.setattr("wattveil.cli.evaluate.read_populations", noted)
    origin = {METADATA: json.dumps({"timezone": "America/New_York"})}
    pq.write_table(pa.table({"kwh": [1.0]}, metadata=origin), tmp_path / "years.parquet")
    command = ["evaluate", str(tmp_path / "real.csv"), str(tmp_path / "years.parquet")]
    for more in ([], ["--timezone", "UTC"]):
        CliRunner().invoke(app, [*command, *more])
    assert seen == ["America/New_York", "UTC"]
