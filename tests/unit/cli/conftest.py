"""Fixtures of the tests of `wattveil profiles`."""

import datetime as dt
from pathlib import Path

import pytest
import typer

from wattveil.cli.data import profiles

_FIRST = dt.datetime(2013, 1, 7, tzinfo=dt.UTC)


@pytest.fixture
def app() -> typer.Typer:
    """The command, alone."""
    made = typer.Typer(add_completion=False)
    made.command()(profiles)
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Twenty days of a good customer, and one row of another."""
    hours = [_FIRST + dt.timedelta(hours=hour) for hour in range(480)]
    lines = [f"a,{hour:%Y-%m-%d %H:%M},{hour.hour}" for hour in hours]
    path = tmp_path / "readings.csv"
    text = "\n".join(["id,timestamp,kwh", *lines, "b,2013-01-08 00:00,1", "b,someday,1"])
    path.write_text(text, encoding="utf-8")
    return path
