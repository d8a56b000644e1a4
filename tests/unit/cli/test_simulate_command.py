"""The command `wattveil simulate`."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from wattveil.cli.data import simulate
from wattveil.simulate import READINGS_SCHEMA


@pytest.fixture
def app() -> typer.Typer:
    """Return an application with the one command."""
    application = typer.Typer()
    application.command()(simulate)
    return application


def test_writes_readings_and_attributes(app: typer.Typer, tmp_path: Path) -> None:
    """The command writes both tables, prints the number of readings, and leaves no partial file."""
    out = tmp_path / "readings.parquet"
    arguments = ["--customers", "70", "--days", "2", "--missing", "0", "--json", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["readings"] == 70 * 2 * 48
    table = pq.read_table(out)
    assert table.num_rows == said["readings"]
    assert table.schema.remove_metadata() == READINGS_SCHEMA
    assert json.loads(table.schema.metadata[b"wattveil.simulation"])["timezone"] == "Europe/London"
    assert pq.read_table(said["attributes"]).num_rows == 70
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "readings.attributes.parquet",
        "readings.parquet",
    ]


def test_prints_a_summary(app: typer.Typer, tmp_path: Path) -> None:
    """Without --json the command prints a summary as text."""
    out = tmp_path / "r.parquet"
    result = CliRunner().invoke(app, ["--customers", "3", "--days", "1", "--out", str(out)])
    assert result.exit_code == 0
    assert "3 customers" in result.stdout


def test_bad_input_is_a_usage_error(app: typer.Typer, tmp_path: Path) -> None:
    """A bad argument ends with status 2 and names the rule; nothing is written."""
    out = tmp_path / "r.parquet"
    result = CliRunner().invoke(app, ["--minutes", "7", "--out", str(out)])
    assert result.exit_code == 2
    assert "minutes must be one of" in result.output
    assert not list(tmp_path.iterdir())


def test_homes_alone(app: typer.Typer, tmp_path: Path) -> None:
    """With --homes there is no business and no industry; without it there are some."""
    classes = []
    for name, options in (("homes", ["--homes"]), ("all", [])):
        out = tmp_path / f"{name}.parquet"
        arguments = ["--customers", "400", "--days", "1", "--minutes", "60", "--out", str(out)]
        result = CliRunner().invoke(app, [*arguments, *options])
        assert result.exit_code == 0, result.output
        attributes = pq.read_table(out.with_name(f"{name}.attributes.parquet"))
        classes.append(set(attributes["class"].to_pylist()))
    businesses = {"shop", "office", "restaurant", "industrial"}
    assert not classes[0] & businesses
    assert classes[1] & businesses
