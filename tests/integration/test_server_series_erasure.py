"""Plan and erasure of series on a real server: nothing is charged, no id is logged."""

import errno
import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.integration.test_server_series import SERIES, WHERE, furnish
from tests.live_server import QUICK, Browser, Running, refused, registration, serving
from tests.sample_bundles import some_profiles
from tests.series_bundles import quarter
from wattveil.bundle import registered_series, series_erasure
from wattveil.bundle.published_series import LoadSeries
from wattveil.bundle.registered_series import publish_period
from wattveil.cli import app
from wattveil.engines.series_folder import SeriesFolder
from wattveil.privacy.pseudonyms import customer_names
from wattveil.server.auth import principals
from wattveil.server.backup.restore_backup import AcceptedLoss, restore_backup
from wattveil.server.backup.write_backup import write_backup
from wattveil.server.http.problems import Code
from wattveil.server.http.requests import SeriesBody
from wattveil.server.jobs.worker import Worker
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.high_water_mark import HighWaterMark
from wattveil.server.observe.request_record import current_record
from wattveil.web.budget_texts import erasure_text

pytestmark = [
    pytest.mark.usefixtures("computing_here"),
    pytest.mark.filterwarnings("ignore::wattveil.errors.ErasedCustomersWarning"),  # as its process
]
ERASED = {"erased": True, "excluded": True}
NO_STATE = {"erased": True, "excluded": False}
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


def held(folder: Path, *ids: str) -> int:
    """Count the customers of a list whose contributions are in the state."""
    [home] = (path for path in (folder / "series").iterdir() if path.is_dir())
    with SeriesFolder.open(home / "series", home / "secrets") as opened:
        names = {*customer_names(ids, key=opened.key.names)}
        return sum(len(names & {*one.names[one.owners]}) for one in opened.state("load"))


def test_erasure(running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Contributions go, the odometer stays, the series continues; the log names no id."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5", "nobody"]}
    assert running.send("POST", where, body).json == NO_STATE
    add(running, 1)
    assert erased(tmp_path / "data") == 0
    refused(running.send("POST", where, body, as_="ann"), Code.FORBIDDEN)
    refused(running.send("POST", where, {"customer_ids": []}), Code.INVALID_REQUEST)
    refused(running.send("POST", f"{WHERE}/other/erase", body), Code.INVALID_REQUEST)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert running.send("POST", where, body).json == ERASED
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
    assert (told.exit_code, told.output.strip()) == (0, erasure_text(excluded=True))
    own = {"dataset": "homes", "series": "quarters"}
    page = Browser(running, "owner").post("/series/erase", **own, customer_ids="household 8\n")
    assert erasure_text(excluded=True) in page.body.decode()
    assert erased(tmp_path / "data") == 3
    check_that_they_stay_erased(running, tmp_path / "data", caplog)
    mark = next((tmp_path / "data" / "series").glob("*/secrets/series.mark"))
    mark.write_text("{}")
    refused(running.send("POST", where, body), Code.NOT_ERASED)
    running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"})
    closed = refused(running.send("POST", where, body), Code.INVALID_REQUEST).json["errors"][0]
    assert closed["field"] == "series"


def check_that_they_stay_erased(
    running: Running, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A period whose file contains them is released without them; nothing states that it did."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        add(running, 2)
    assert erased(folder) == 3
    logged = json.dumps([str(vars(record)) for record in caplog.records])
    assert "household" not in logged
    assert "erased" not in logged


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
    assert running.send("POST", where, body).json == ERASED
    assert not copy.exists()
    assert erased(tmp_path / "data") == 1


def test_an_older_copy_of_the_state_admits_nobody(running: Running, tmp_path: Path) -> None:
    """It has the periods of the ledger and lacks an erasure, which has to be repeated."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    add(running, 1)
    [home] = (path for path in (tmp_path / "data" / "series").iterdir() if path.is_dir())
    shutil.copytree(home, tmp_path / "older")
    assert running.send("POST", where, body).json == ERASED
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "older", home)
    period = {"period": "2026-Q2", "file": "q2.parquet"}
    for return_noted in (False, True):
        if return_noted:  # on the command line: it is no erasure
            older = LoadSeries(home / "series", secrets=home / "secrets")
            series_erasure._add(older.folder, older.secrets, {"returned": []})
        made = running.send("POST", f"{WHERE}/quarters/periods", period).json
        assert running.finished(made["release"])["state"] == "failed"
    assert running.send("POST", where, body).json == ERASED
    add(running, 2)
    assert held(tmp_path / "data", "household 5") == 0


def test_a_restore_does_not_compute_a_period_without_the_erasures(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits in the backup would be computed before an erasure could be repeated."""
    data, new = tmp_path / "data", tmp_path / "new"
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    add(running, 1)
    period = {"period": "2026-Q2", "file": "q2.parquet"}
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "take", lambda *_: None)
        made = running.send("POST", f"{WHERE}/quarters/periods", period).json["release"]
    backup = write_backup(data, None, tmp_path / "backup").out
    assert running.send("POST", where, body).json == ERASED
    mark = Path(shutil.copy(data / "ledger.heads", tmp_path / "heads"))
    restore_backup(backup, new, None, mark=mark)
    shutil.copytree(data / "profiles", new / "profiles")
    token = principals.issue_token_locally(new, None, "owner", role=PrincipalKind.ADMIN, days=1)
    tokens = {"owner": token, "ann": token}
    for _ in range(2):  # also once the mark was shortened
        with serving(new, None, tokens=tokens) as again:
            assert again.finished(made)["state"] == "failed"
            failing = again.send("POST", f"{WHERE}/quarters/periods", period).json["release"]
            assert again.finished(failing)["state"] == "failed"
    with serving(new, None, tokens=tokens) as again:
        assert again.send("POST", where, body).json == ERASED
        add(again, 2)
    assert held(new, "household 5") == 0


def test_an_erasure_that_cannot_be_recorded_is_not_confirmed(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A restore would forget it. Fewer than were recorded are an older copy: the log says so."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    add(running, 1)
    with monkeypatch.context() as patch:
        patch.setattr(HighWaterMark, "record_erasures", failing_touch)
        told = refused(running.send("POST", where, body), Code.NOT_ERASED).json
        assert "high-water mark" in told["reason"]
    [number] = (one.name for one in (running.state.folder / "series").iterdir() if one.is_dir())
    running.state.ledger.record_erasures(number, 3)
    assert running.send("POST", where, body).json == ERASED
    assert "has 2 of 3 erasures" in caplog.text
    caplog.clear()
    assert running.send("POST", where, body).json == ERASED
    assert "erasures" not in caplog.text


def test_a_period_that_failed_during_an_erasure_may_have_read_the_customers(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was added after the erasure had found no state: only a second attempt is confirmed."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    run_task = Worker.run_task

    def fail_meanwhile(worker: Worker, task: dict[str, Any]) -> dict[str, Any]:
        result = run_task(worker, task)
        with monkeypatch.context() as patch:
            patch.setattr(registered_series, "publish_period", failing_after(publish_period))
            failed(running, "q1.parquet")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "run_task", fail_meanwhile)
        refused(running.send("POST", where, body), Code.NOT_ERASED)
    assert running.send("POST", where, body).json == ERASED
    assert held(running.state.folder, "household 5") == 0


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
) -> None:
    """There is no state, wherever the disk of series is: confirmed, and the series continues."""
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    place = tmp_path / "data" / "series"
    [number] = unused(tmp_path / "data")
    failed(running)
    assert [path.name for path in place.iterdir()] == [f"{number}.lock"]
    shutil.rmtree(place)  # as where the disk is not mounted
    with caplog.at_level(logging.INFO):
        assert running.send("POST", where, body).json == NO_STATE
    assert "series_erasure" in [record.getMessage() for record in caplog.records]
    assert not place.exists()
    add(running, 1)
    assert unused(tmp_path / "data") == []
    assert running.send("POST", f"{WHERE}", SERIES).status == 201, "the same one again"
    assert unused(tmp_path / "data") == []
    assert running.send("POST", where, body).json == ERASED
    assert erased(tmp_path / "data") == 1
    away = (place / number).rename(tmp_path / "away")
    (place / f"{number}.lock").unlink()  # as where the disk is not mounted
    told = refused(running.send("POST", where, body), Code.NOT_ERASED).json
    assert "its folder is missing; restore the folder of series, or close" in told["reason"]
    close, reason = f"{WHERE}/quarters/close", {"reason": "over"}
    refused(running.send("POST", close, reason), Code.NOT_CLOSED)
    assert not [*place.iterdir()], "an erasure that was refused leaves no lock"
    (place / f"{number}.lock").touch()  # of a period that was refused
    note = tmp_path / "data" / "series.unused" / number
    note.touch()  # of an old copy of the data folder
    refused(running.send("POST", close, reason), Code.NOT_CLOSED)
    note.unlink()
    away.rename(place / number)
    assert running.send("POST", close, reason).status == 200


@pytest.mark.parametrize("quarter", [1, 2])
def test_an_erasure_waits_for_a_period_that_has_read_the_customers(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quarter: int
) -> None:
    """They are deleted from what it stores, also if it is the first one and made the state."""
    if quarter > 1:
        add(running, 1)
    has_read, go_on, publish = threading.Event(), threading.Event(), registered_series._publish

    def wait(*arguments: object, **choices: object) -> None:
        has_read.set()
        assert go_on.wait(600)
        publish(*arguments, **choices)  # type: ignore[arg-type]

    monkeypatch.setattr(registered_series, "_publish", wait)
    monkeypatch.setattr(registered_series, "_MAX_REQUEST_SECONDS", 600.0)
    period = {"period": f"2026-Q{quarter}", "file": f"q{quarter}.parquet"}
    made = running.send("POST", f"{WHERE}/quarters/periods", period).json
    assert has_read.wait(600)
    with ThreadPoolExecutor(1) as pool:
        body = {"customer_ids": ["household 5"]}
        sent = pool.submit(running.send, "POST", f"{WHERE}/quarters/erase", body)
        try:
            with pytest.raises(TimeoutError):
                sent.result(timeout=1)
        finally:
            go_on.set()
        assert sent.result().json == ERASED
    assert running.finished(made["release"])["state"] == "ok"
    assert erased(tmp_path / "data") == 1


@pytest.mark.parametrize("quarter", [1, 2])
def test_an_erasure_before_a_period_reads_its_file(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quarter: int
) -> None:
    """A later period excludes them, new customers too; a first one has no receipts to do so by."""
    if quarter > 1:
        add(running, 1)
    is_mounted, read = threading.Event(), registered_series._adding

    def read_if_mounted(path: Path, key: bytes) -> object:
        if not is_mounted.is_set():
            raise FileNotFoundError(errno.ENOENT, "the disk of profiles is missing", str(path))
        return read(path, key)

    monkeypatch.setattr(registered_series, "_adding", read_if_mounted)
    period = {"period": f"2026-Q{quarter}", "file": f"q{quarter}.parquet"}
    made = running.send("POST", f"{WHERE}/quarters/periods", period).json
    where = f"{WHERE}/quarters/erase"
    body = {"customer_ids": ["household 5", "household 9"]}  # the second is not in the first file
    sent = running.send("POST", where, body)
    if quarter == 1:
        assert "the file of 2026-Q1" in refused(sent, Code.NOT_ERASED).json["reason"]
    else:
        assert sent.json == ERASED
    is_mounted.set()
    assert running.finished(made["release"])["state"] == "ok"
    if quarter == 1:
        assert running.send("POST", where, body).json == ERASED
        add(running, 2)
    assert erased(tmp_path / "data") == 1
    assert not held(tmp_path / "data", *body["customer_ids"])


def test_a_first_period_is_not_drawn_again_where_the_disk_is_missing(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draw that was not stored is on the disk: a second state beside it would be erased alone."""
    place, (number,) = tmp_path / "data" / "series", unused(tmp_path / "data")
    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "publish_period", failing_after(publish_period))
        failed(running, "q1.parquet")
    away = (place / number).rename(tmp_path / "away")
    body = {"period": "2026-Q1", "file": "q1.parquet"}
    made = running.send("POST", f"{WHERE}/quarters/periods", body).json
    with pytest.raises(FileNotFoundError):
        registered_series._opened(place / number, SeriesBody(**SERIES).request(), is_new=True)
    assert not (place / number).exists()
    assert running.send("GET", f"/v1/releases/{made['release']}").json["state"] == "computing"
    erase = {"customer_ids": ["household 5"]}
    refused(running.send("POST", f"{WHERE}/quarters/erase", erase), Code.NOT_ERASED)
    away.rename(place / number)
    assert running.finished(made["release"])["state"] == "ok"


def test_a_folder_in_use_stops_nothing_else(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that hangs: erasure and end are refused, the period waits, a release is computed."""
    for name in ("_MAX_WAITING_SECONDS", "_MAX_REQUEST_SECONDS"):
        monkeypatch.setattr(registered_series, name, 0.2)
    place, (number,) = tmp_path / "data" / "series", unused(tmp_path / "data")
    with registered_series._held(place / number):
        body = {"period": "2026-Q1", "file": "q1.parquet"}
        made = running.send("POST", f"{WHERE}/quarters/periods", body).json
        erase = {"customer_ids": ["household 5"]}
        told = refused(running.send("POST", f"{WHERE}/quarters/erase", erase), Code.NOT_ERASED)
        assert "a backup is being made; try again later" in told.json["reason"]
        other = running.order("free", QUICK, as_="ann")
        assert running.finished(other.json["id"], as_="ann")["state"] == "ok"
        assert running.send("GET", f"/v1/releases/{made['release']}").json["state"] == "computing"
    assert running.finished(made["release"])["state"] == "ok"


@pytest.mark.usefixtures("running")
def test_a_series_that_may_have_lost_periods_is_not_noted_as_unused(tmp_path: Path) -> None:
    """After an accepted loss: adding is refused, and the end is not confirmed without the disk."""
    data, new = tmp_path / "data", tmp_path / "new"
    made = write_backup(data, None, tmp_path / "backup")
    loss = AcceptedLoss(by="owner", reason="x")
    restore_backup(made.out, new, None, mark=None, loss=loss)
    shutil.copytree(data / "profiles", new / "profiles", dirs_exist_ok=True)
    token = principals.issue_token_locally(new, None, "owner", role=PrincipalKind.ADMIN, days=1)
    with serving(new, None) as again:
        again.tokens["owner"] = token
        body = {"period": "2026-Q1", "file": "q1.parquet"}
        assert again.send("POST", f"{WHERE}/quarters/periods", body).status == 422
        assert not (new / "series.unused").exists() or unused(new) == []
        refused(again.send("POST", f"{WHERE}/quarters/close", {"reason": "x"}), Code.NOT_CLOSED)


def test_a_note_that_cannot_be_written_begins_no_period(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, no state could be made, and the period would wait for ever."""
    [number] = unused(tmp_path / "data")
    (tmp_path / "data" / "series.unused" / number).unlink()
    body = {"period": "2026-Q1", "file": "q1.parquet"}
    with monkeypatch.context() as patch:
        patch.setattr(Path, "touch", failing_touch)
        refused(running.send("POST", f"{WHERE}/quarters/periods", body), Code.UNAVAILABLE)
    add(running, 1)


def failing_touch(*_: object, **__: object) -> None:
    """Fail as on a full disk."""
    raise OSError(errno.ENOSPC, "no space left on device")


def test_erasures_that_wait_leave_threads_to_others(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four wait; a fifth is refused at once."""
    entered, go_on = threading.Semaphore(0), threading.Event()

    def wait(*_: object) -> dict[str, object]:
        entered.release()
        assert go_on.wait(600)
        return {"done": True, "erasures": 1}

    monkeypatch.setattr(Worker, "run_task", wait)
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(running.send, "POST", where, body) for _ in range(4)]
        for _ in waiting:
            assert entered.acquire(timeout=600)
        try:
            refused(running.send("POST", where, body), Code.BUSY)
        finally:
            go_on.set()
        assert [one.result().json for one in waiting] == [ERASED] * 4


@pytest.mark.parametrize("at", ["mkdir", "begin", "rename"])
def test_a_first_state_that_is_interrupted_can_be_closed(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """At each step something shows where the state is: the note, or an unfinished folder."""
    place, (number,) = tmp_path / "data" / "series", unused(tmp_path / "data")

    def stop(*_: object, **__: object) -> None:
        raise ValueError

    with monkeypatch.context() as patch:
        if at == "begin":
            patch.setattr(LoadSeries, "begin", stop)
        elif at == "mkdir":
            patch.setattr(registered_series, "forget_unused", stop)
        else:
            patch.setattr(Path, "rename", stop)
        failed(running, "q1.parquet")
    assert unused(tmp_path / "data") == ([number] if at == "mkdir" else [])
    assert (place / f"{number}.new").is_dir()
    where, body = f"{WHERE}/quarters/erase", {"customer_ids": ["household 5"]}
    close, reason = f"{WHERE}/quarters/close", {"reason": "over"}
    if at == "begin":  # what it deletes is no longer evidence: the note is made again
        for _ in range(2):
            assert running.send("POST", where, body).json == NO_STATE
    elif at != "mkdir":
        away = place.rename(tmp_path / "away")
        refused(running.send("POST", where, body), Code.NOT_ERASED)
        refused(
            running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"}), Code.NOT_CLOSED
        )
        away.rename(place)
    for _ in range(2):
        assert running.send("POST", close, reason).status == 200
        assert not (place / f"{number}.new").exists()


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
    assert running.send("POST", where, body).json == ERASED
    place = tmp_path / "data" / "series"
    away = place.rename(tmp_path / "away")
    refused(running.send("POST", where, body), Code.NOT_ERASED)
    away.rename(place)
    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "publish_period", failing_after(publish_period))
        failed(running, "q1.parquet")
    assert running.send("POST", where, body).json == ERASED
    assert held(tmp_path / "data", "household 5") == 0


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
