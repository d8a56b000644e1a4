"""Plan and erasure of series on a real server: nothing is charged, no id is logged."""

import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.integration.test_server_series import SERIES, WHERE, furnish
from tests.live_server import Browser, Running, refused, registration, serving
from tests.sample_bundles import some_profiles
from tests.series_bundles import quarter
from wattveil.bundle import registered_series
from wattveil.bundle.published_series import LoadSeries
from wattveil.bundle.registered_series import publish_period
from wattveil.cli import app
from wattveil.engines.series_folder import SeriesFolder
from wattveil.server.backup.restore_backup import AcceptedLoss, restore_backup
from wattveil.server.backup.write_backup import write_backup
from wattveil.server.http.problems import Code
from wattveil.server.jobs.worker import Worker
from wattveil.server.observe.request_record import current_record

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
    refused(running.send("POST", where, body), Code.NOT_ERASED)
    running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"})
    closed = refused(running.send("POST", where, body), Code.INVALID_REQUEST).json["errors"][0]
    assert closed["field"] == "series"


def test_an_erasure_that_finds_no_state_is_not_confirmed(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk of the series is not mounted: nothing is erased, and nothing is said to be."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    add(running, 1)
    [home] = (path for path in (tmp_path / "data" / "series").iterdir() if path.is_dir())
    away = home.rename(tmp_path / "away")
    with caplog.at_level(logging.INFO):
        refused(running.send("POST", where, body), Code.NOT_ERASED)
    logged = [record.getMessage() for record in caplog.records]
    assert "series_erasure" not in logged
    assert any("its folder is missing" in one for one in logged)
    away.rename(home)
    assert erased(tmp_path / "data") == 0
    # An unfinished copy, of a restore, holds the same rows.
    copy = home.with_name(f"{home.name}.restoring")
    shutil.copytree(home, copy)
    assert running.send("POST", where, body).json == {"erased": True}
    assert not copy.exists()
    assert erased(tmp_path / "data") == 1


def failed(running: Running, file: str = "bad.parquet") -> None:
    """Add a first quarter that fails; by its file, before there is a private state."""
    (running.state.folder / "profiles" / "bad.parquet").write_text("no profiles")
    body = {"period": "2026-Q1", "file": file}
    made = running.send("POST", f"{WHERE}/quarters/periods", body)
    assert running.finished(made.json["release"])["state"] == "failed"


def unused(folder: Path) -> list[str]:
    """Return the series of a data folder that never had a private state."""
    return [path.name for path in (folder / "series.unused").iterdir()]


def test_erasure_after_the_first_period_failed(
    running: Running,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no state, wherever the disk of series is: confirmed, and the series continues."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    place = tmp_path / "data" / "series"
    [number] = unused(tmp_path / "data")
    failed(running)
    assert not place.exists()
    with caplog.at_level(logging.INFO):
        assert running.send("POST", where, body).json == {"erased": True}
    assert "series_erasure" in [record.getMessage() for record in caplog.records]
    assert not place.exists(), "no lock, from which closing could conclude that a disk is mounted"
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "take", lambda *_: None)
        first = {"period": "2026-Q1", "file": "q1.parquet"}
        assert running.send("POST", f"{WHERE}/quarters/periods", first).status == 202
        told = refused(running.send("POST", where, body), Code.NOT_ERASED).json
    assert "its first period is being computed; erase again when it" in told["reason"]
    add(running, 1)
    assert unused(tmp_path / "data") == []
    assert running.send("POST", f"{WHERE}", SERIES).status == 201, "the same one again"
    assert unused(tmp_path / "data") == []
    assert running.send("POST", where, body).json == {"erased": True}
    assert erased(tmp_path / "data") == 1
    away = (place / number).rename(tmp_path / "away")
    (place / f"{number}.lock").unlink()  # as where the disk is not mounted
    told = refused(running.send("POST", where, body), Code.NOT_ERASED).json
    assert "its folder is missing; restore the folder of series, or close" in told["reason"]
    close, reason = f"{WHERE}/quarters/close", {"reason": "over"}
    refused(running.send("POST", close, reason), Code.NOT_CLOSED)
    assert not [*place.iterdir()], "an erasure that was refused leaves no lock"
    away.rename(place / number)
    assert running.send("POST", close, reason).status == 200


def test_a_series_whose_first_period_failed_can_be_closed(running: Running, tmp_path: Path) -> None:
    """Nothing is left, although no computation has reached its folder."""
    failed(running)
    assert running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"}).status == 200
    assert not [*(tmp_path / "data" / "series").rglob("*.state")]


def test_erasure_after_the_first_period_failed_halfway(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was made, and perhaps the state: it is opened, and missed if it is not there."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    with monkeypatch.context() as patch:
        patch.setattr(LoadSeries, "add", None)
        failed(running, "q1.parquet")
    assert unused(tmp_path / "data") == []
    assert running.send("POST", where, body).json == {"erased": True}
    place = tmp_path / "data" / "series"
    away = place.rename(tmp_path / "away")
    refused(running.send("POST", where, body), Code.NOT_ERASED)
    away.rename(place)
    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "publish_period", failing_after(publish_period))
        failed(running, "q1.parquet")
    assert running.send("POST", where, body).json == {"erased": True}
    assert erased(tmp_path / "data") == 1


def test_a_series_that_is_refused_leaves_no_note(running: Running, tmp_path: Path) -> None:
    """Nor does one that is open already."""
    before = unused(tmp_path / "data")
    dear = {**SERIES, "name": "dear", "epsilon": 50.0}
    refused(running.send("POST", WHERE, dear), Code.BUDGET_REFUSED)
    assert running.send("POST", WHERE, SERIES).status == 201
    assert unused(tmp_path / "data") == before


def test_a_backup_of_a_series_without_state_is_whole(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore that loses nothing knows it too; one that may have lost a period does not."""
    data, new = tmp_path / "data", tmp_path / "new"
    new.mkdir()

    def restored(name: str, loss: AcceptedLoss | None = None) -> tuple[bool, bool]:
        """Back up and restore; return whether both are known to need no state."""
        copied = Path(shutil.copy(data / "ledger.heads", tmp_path / "heads"))
        made = write_backup(data, None, tmp_path / name)
        assert made.without_state == ()
        mark = None if loss is not None else copied
        restore_backup(made.out, new / name, None, mark=mark, loss=loss)
        again = write_backup(new / name, None, tmp_path / f"{name} again")
        return (new / name / "series.unused").exists(), again.without_state == ()

    failed(running)
    assert restored("moved") == (True, True)
    assert unused(new / "moved") == unused(data)
    assert restored("lost", AcceptedLoss(by="owner", reason="x")) == (False, False)
    monkeypatch.setattr(Worker, "take", lambda *_: None)
    body = {"period": "2026-Q1", "file": "q1.parquet"}
    assert running.send("POST", f"{WHERE}/quarters/periods", body).status == 202
    assert restored("computing") == (False, False), "it may be computed after the backup"


def test_closing_does_not_confirm_what_is_on_another_disk(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A period was drawn and not stored, and the disk of the series is not mounted."""
    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "publish_period", failing_after(publish_period))
        body = {"period": "2026-Q1", "file": "q1.parquet"}
        made = running.send("POST", f"{WHERE}/quarters/periods", body)
        assert running.finished(made.json["release"])["state"] == "failed"
    place = tmp_path / "data" / "series"
    away = place.rename(tmp_path / "away")
    close, reason = f"{WHERE}/quarters/close", {"reason": "over"}
    kept = refused(running.send("POST", close, reason), Code.NOT_CLOSED).json
    assert "could not be deleted" in kept["reason"]
    assert not place.exists(), "a second attempt finds no more than the first"
    away.rename(place)
    assert running.send("POST", close, reason).status == 200
    assert not [*place.rglob("*.state"), *place.rglob("series.key")]


def failing_after(publish: Callable[..., Any]) -> Callable[..., Any]:
    """Return the publication of a period, with an error once all is on disk."""

    def published(*given: Any, **choices: Any) -> None:  # noqa: ANN401 - as it takes them
        publish(*given, **choices)
        raise RuntimeError("planted")

    return published


@pytest.mark.parametrize("folder", ["kept", "lost"])
def test_closing_deletes_unfinished_copies(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Those of a restore and of a first period; one that cannot be deleted is named."""
    add(running, 1)
    place = tmp_path / "data" / "series"
    [home] = (path for path in place.iterdir() if path.is_dir())
    for name in ("restoring", "new"):
        shutil.copytree(home, home.with_name(f"{home.name}.{name}"))
    home.with_name(f"{home.name}.closed.new").touch()
    if folder == "lost":
        shutil.rmtree(home)
    close, reason = f"{WHERE}/quarters/close", {"reason": "over"}
    with monkeypatch.context() as patch:
        rmtree = shutil.rmtree
        patch.setattr(
            shutil,
            "rmtree",
            lambda path, **how: None if path.suffix == ".restoring" else rmtree(path, **how),
        )
        kept = refused(running.send("POST", close, reason), Code.NOT_CLOSED).json
        assert "could not be deleted" in kept["reason"]
    ended = running.send("POST", close, reason)
    assert ended.status == (200 if folder == "kept" else Code.NOT_CLOSED.status), ended.body
    assert not [*place.rglob("*.state"), *place.rglob("series.key")]
    left = {path.name.removeprefix(home.name) for path in place.iterdir()}
    assert left == {".lock", ".closed", *([""] if folder == "kept" else [])}


def test_requests_that_wait_for_rows_are_not_timed(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the route: neither in metrics nor in the log. Others of the same route are."""
    tasks: list[str] = []
    run_task = Worker.run_task

    def noted(worker: Worker, task: dict[str, Any]) -> dict[str, Any]:
        record = current_record()
        assert record is not None
        assert not record.is_timed, task["do"]
        tasks.append(task["do"])
        return run_task(worker, task)

    monkeypatch.setattr(Worker, "run_task", noted)
    owner, own = Browser(running, "owner"), {"dataset": "homes", "series": "quarters"}
    erase, ids = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    other = registration("q1.parquet", "other", customer_list_file=None, products=["load"])
    caplog.clear()
    with caplog.at_level(logging.INFO):
        refused(running.send("POST", erase, {"customer_ids": []}), Code.INVALID_REQUEST)
        assert running.send("POST", erase, ids).status == 200
        assert owner.post("/series/erase", **own, customer_ids="household 6").status == 200
        assert owner.post("/series/close", **own, reason="over").status == 200
        assert running.send("POST", f"{WHERE}/quarters/close", {"reason": "x"}).status == 200
        assert running.send("POST", "/v1/admin/datasets", other).status == 201
        lines: list[dict[str, Any]] = []
        while len(lines) < 6:  # a line follows the response
            time.sleep(0.01)
            found = [getattr(one, "fields", {}) for one in caplog.records]
            lines = [one for one in found if one.get("method") == "POST"]
    assert tasks == [*["erase_customers"] * 2, *["close_series"] * 2, "describe"]
    assert [one["status"] for one in lines if "seconds" in one] == [422]
    metrics = running.send("GET", "/metrics").body.decode()
    timed = re.findall(r'\nwattveil_request_seconds_count\{route="(.+)"\} (.+)', metrics)
    series = "/v1/admin/datasets/{dataset}/series/{series}"
    assert dict(timed)[f"{series}/erase"] == "1.0"
    assert not {f"{series}/close", "/series/{action}", "/v1/admin/datasets"} & {*dict(timed)}


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
