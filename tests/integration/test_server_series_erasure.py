"""Plan and erasure of series on a real server: nothing is charged, no id is logged."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.integration.test_server_series import SERIES, WHERE, furnish
from tests.live_server import Browser, Running, refused, serving
from tests.sample_bundles import some_profiles
from tests.series_bundles import quarter
from wattveil.bundle.published_series import LoadSeries
from wattveil.cli import app
from wattveil.engines.series_folder import SeriesFolder
from wattveil.server.http.problems import Code

pytestmark = pytest.mark.usefixtures("computing_here")
CHOICES = {name: value for name, value in SERIES.items() if name != "name"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Serve one data set with an open series."""
    profiles = tmp_path / "data" / "profiles"
    profiles.mkdir(parents=True)
    for number in (1, 2):
        quarter(number, customers=60).write_parquet(profiles / f"q{number}.parquet")
    some_profiles(60).write_parquet(profiles / "homes.parquet")
    with serving(tmp_path / "data", None) as server:
        furnish(server)
        yield server


def add(running: Running, number: int) -> None:
    """Add a quarter, and wait for it."""
    body = {"period": f"2026-Q{number}", "file": f"q{number}.parquet"}
    made = running.send("POST", f"{WHERE}/quarters/periods", body)
    assert running.finished(made.json["release"])["state"] == "ok"


def erased(folder: Path) -> int:
    """Count the customers without contributions in the state, whose odometers are not 0."""
    [home] = (path for path in (folder / "series").iterdir() if path.is_dir())
    with SeriesFolder.open(home / "series", home / "secrets") as opened:
        blocks = list(opened.state("load"))
    return sum(
        int(used > 0 and place not in block.owners)
        for block in blocks
        for place, used in enumerate(block.used.tolist())
    )


def test_erasure(running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Contributions go, the odometer stays, the series continues; the log names no id."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5", "nobody"]}
    assert running.send("POST", where, body).json == {"erased": True}, "no period, no state"
    add(running, 1)
    assert erased(tmp_path / "data") == 0
    refused(running.send("POST", where, body, as_="ann"), Code.FORBIDDEN)
    refused(running.send("POST", where, {"customer_ids": []}), Code.INVALID_REQUEST)
    refused(running.send("POST", f"{WHERE}/other/erase", body), Code.INVALID_REQUEST)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert running.send("POST", where, body).json == {"erased": True}
    events = [record for record in caplog.records if record.getMessage() == "series_erasure"]
    assert len(events) == 1
    assert "household" not in json.dumps([str(vars(record)) for record in caplog.records])
    assert erased(tmp_path / "data") == 1
    (tmp_path / "ids.txt").write_text("household 7\n\n")
    named = ("--dataset", "homes", "--name", "quarters", "--ids", str(tmp_path / "ids.txt"))
    environment = {"WATTVEIL_TOKEN": running.tokens["owner"]}
    told = CliRunner().invoke(
        app, ["admin", "series", "erase", *named, "--url", running.url], env=environment
    )
    assert (told.exit_code, told.output.strip()) == (0, "Erased, where they were customers.")
    own = {"dataset": "homes", "series": "quarters"}
    page = Browser(running, "owner").post("/series/erase", **own, customer_ids="household 8\n")
    assert "Erased, where they were customers." in page.body.decode()
    assert erased(tmp_path / "data") == 3
    add(running, 2)
    mark = next((tmp_path / "data" / "series").glob("*/secrets/series.mark"))
    mark.write_text("{}")
    refused(running.send("POST", where, body), Code.UNAVAILABLE)
    running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"})
    closed = refused(running.send("POST", where, body), Code.INVALID_REQUEST).json["errors"][0]
    assert closed["field"] == "series"


def test_a_plan_charges_nothing(running: Running, tmp_path: Path) -> None:
    """It is that of `wattveil series plan`, and the price is that of opening."""
    before = running.send("GET", "/v1/datasets/homes/series").json["series"]
    asked = {**CHOICES, "group_customers": [1000, 100_000]}
    plan = running.send("POST", f"{WHERE}/plan", asked)
    assert plan.status == 200, plan.body
    assert plan.json["price"] == before[0]["price"]
    choices = {**CHOICES, "levels": ("home", "shop")}
    local = LoadSeries.begin(tmp_path / "local", **choices).plan(1000, 100_000)
    for place, one in enumerate(plan.json["groups"]):
        assert one["customers"] == local.customers[place]
        assert one["level_error"] == pytest.approx(local.level_error[place])
        assert one["visible_kw_per_year"] == pytest.approx(local.visible_kw_per_year[place])
    short = running.send("POST", f"{WHERE}/plan", {**CHOICES, "periods": 4}).json["groups"]
    assert [one["visible_kw_per_year"] for one in short] == [None]
    tiny = running.send("POST", f"{WHERE}/plan", {**CHOICES, "epsilon": 1e-9})
    assert refused(tiny, Code.INVALID_REQUEST).json["errors"][0]["field"] == "epsilon"
    refused(running.send("POST", f"{WHERE}/plan", CHOICES, as_="ann"), Code.FORBIDDEN)
    options = ("--epsilon", "2", "--delta", "1e-6", "--first", "2026-Q1", "--periods", "4")
    told = CliRunner().invoke(
        app,
        ["admin", "series", "plan", "--dataset", "homes", *options, "--url", running.url],
        env={"WATTVEIL_TOKEN": running.tokens["owner"]},
    )
    assert told.exit_code == 0, told.output
    assert "no trend below two years" in " ".join(told.output.split())
    fields = {"dataset": "homes", "name": "x", "first": "2026-Q1", "timezone": "Europe/London"}
    numbers = {"epsilon": "0.5", "delta": "1e-6", "periods": "8", "segments": "0"}
    page = Browser(running, "owner").post("/series/plan", **fields, **numbers)
    assert "Nothing is charged." in page.body.decode()
    assert running.send("GET", "/v1/datasets/homes/series").json["series"] == before
