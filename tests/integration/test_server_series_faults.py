"""Series on a server whose files, ledger or requests are not as they should be.

Periods are computed in the process of the test.
"""

import errno
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from tests.integration.conftest import Place
from tests.integration.test_server_series import (
    CUSTOMERS,
    SERIES,
    WHERE,
    add,
    added,
    furnish,
    unpacked,
)
from tests.live_server import Browser, Running, refused, registration, serving
from tests.sample_bundles import some_profiles
from tests.series_bundles import quarter
from wattveil import Profiles
from wattveil.bundle import registered_series
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.keys import read_public_key
from wattveil.bundle.registered_profiles import keyed_hash
from wattveil.bundle.series_verify import verify_chain
from wattveil.cli import app
from wattveil.server.auth import principals
from wattveil.server.backup.restore_backup import AcceptedLoss, restore_backup
from wattveil.server.backup.write_backup import write_backup
from wattveil.server.http.problems import Code
from wattveil.server.jobs import compute_child
from wattveil.server.ledger import high_water_mark
from wattveil.server.ledger.accounts import Release, ReleaseState
from wattveil.server.ledger.ledger_audit import audit_folder
from wattveil.server.ledger.ledger_tables import release
from wattveil.server.observe import server_metrics

pytestmark = pytest.mark.usefixtures("computing_here")

LOSS = AcceptedLoss(by="owner", reason="the database was lost")


@pytest.fixture
def site(tmp_path: Path) -> Place:
    """Return a data folder with the profiles of four quarters."""
    folder = tmp_path / "data"
    (folder / "profiles").mkdir(parents=True)
    for number in range(4):
        place = folder / "profiles" / f"q{number + 1}.parquet"
        quarter(number, customers=CUSTOMERS).write_parquet(place)
    some_profiles(CUSTOMERS).write_parquet(folder / "profiles" / "homes.parquet")
    return Place(folder, None)


@pytest.fixture
def running(site: Place) -> Iterator[Running]:
    """Serve one data set with an open series, to one analyst."""
    with serving(*site) as server:
        furnish(server)
        yield server


def home_of(server: Running) -> Path:
    """Return the folder of the only series that has one."""
    (home,) = (one for one in (server.state.folder / "series").iterdir() if one.is_dir())
    return home


def begun(server: Running, number: int) -> tuple[str, dict[str, Any], Callable[[], None]]:
    """Begin a period whose computation waits: its release, its task, and how to let it go on."""
    computing, task = server.worker, {}
    prepared = computing._task

    def waiting(charge: Any, draft: Path) -> dict[str, object]:  # noqa: ANN401 - any charge
        task.update(prepared(charge, draft))
        raise OSError(errno.EIO, "the disk is missing")

    def go_on() -> None:
        computing._task = prepared

    computing._task = waiting
    answer = add(server, number)
    assert answer.status == 202, answer.body
    while not task:
        time.sleep(0.01)
    return str(answer.json["release"]), task, go_on


def failed(server: Running, number: int, *, file: str | None = None) -> None:
    """Add a period that is not computed."""
    body = {"period": f"2026-Q{number}", "file": file or f"q{number}.parquet"}
    answer = server.send("POST", f"{WHERE}/quarters/periods", body)
    assert server.finished(answer.json["release"])["state"] == "failed"


def test_a_period_that_comes_after_the_end_writes_no_rows(running: Running) -> None:
    """Another process had its task before the series was closed: it finds that it is."""
    first, task, _ = begun(running, 1)
    ended = running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"})
    assert ended.status == 200, ended.body
    late = compute_child.run_task(task)
    assert not late["done"]
    assert "the series is closed" in str(late["refused"])
    assert [*(running.state.folder / "series").rglob("*.state")] == []
    assert not Path(task["out"]).exists()
    assert running.finished(first)["state"] == "failed"


def test_a_period_is_sent_when_the_mark_has_it(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every release: until then it is not complete, and no file of it is sent."""
    full, append = threading.Event(), high_water_mark._append

    def appending(path: Path, lines: str) -> None:
        if full.is_set() and " stored " in lines:
            raise OSError(errno.EIO, "input/output error")
        append(path, lines)

    def listed() -> list[str]:
        (series,) = running.send("GET", "/v1/datasets/homes/series", as_="ann").json["series"]
        return [period["state"] for period in series["periods"]]

    monkeypatch.setattr(high_water_mark, "_append", appending)
    added(running, 1)
    full.set()
    number = add(running, 2).json["release"]
    while running.state.ledger.pending():
        time.sleep(0.01)
    address = f"/v1/releases/{number}/bundle.zip"
    refused(running.send("GET", address, as_="ann"), Code.NOT_RECORDED)
    assert listed() == ["ok", "computing"]
    full.clear()
    while running.send("GET", address, as_="ann").status != 200:
        time.sleep(0.01)
    assert listed() == ["ok", "ok"]


def test_a_statement_after_a_loss_does_not_deny_what_was_published(
    site: Place, tmp_path: Path
) -> None:
    """The restored ledger lacks a period that an analyst has: the statement says that it may."""
    with serving(*site) as server:
        furnish(server)
        releases = [added(server, 1)]
        write_backup(*site, tmp_path / "backup")
        releases.append(added(server, 2))
        bundles = [unpacked(server, one, tmp_path / "copies" / one) for one in releases]
    for path in site.folder.glob("ledger.sqlite*"):
        path.unlink()
    restore_backup(tmp_path / "backup", *site, loss=LOSS)
    with serving(*site, tokens=server.tokens) as later:
        for name in ("owner", "ann"):
            token = principals.issue_token(later.state.ledger, name, by="(test)", days=1)
            later.tokens[name] = token
        ended = later.send("POST", f"{WHERE}/quarters/close", {"reason": "the ledger was lost"})
        assert ended.status == 200, ended.body
        home = home_of(later)
        stated = later.send("GET", "/v1/datasets/homes/series/quarters/closed.json", as_="ann")
    assert (stated.json["periods"], stated.json["complete"]) == (1, False)
    closing = tmp_path / "closed.json"
    closing.write_bytes(stated.body)
    key = read_public_key(site.folder / "release.key.pub")
    for held in (bundles, bundles[:1]):
        report = verify_chain(held, trusted=key, closing=closing)
        assert report.accepted
        assert any("no later period" in one for one in report.not_proved)
    assert not verify_chain(bundles[1:], trusted=key, closing=closing).accepted
    assert not verify_chain([], trusted=key, closing=closing).accepted
    assert len([*(home / "series" / "periods").iterdir()]) == len(bundles), "none is deleted"
    assert not (home / "series" / "private").exists()


def test_a_draw_whose_file_is_unknown_is_neither_used_nor_repeated(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version committed it, and did not state from which file."""

    def broken(*_: object) -> None:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "copy_files", broken)
        failed(running, 1)
    home = home_of(running)
    drawn = (home / "series" / "periods" / "001" / "manifest.json").read_bytes()
    for note in ("", "2025-Q4 hmac-sha256:0"):
        (home / "drawn-from").write_text(note) if note else (home / "drawn-from").unlink()
        for file in ("q1.parquet", "q2.parquet"):
            caplog.clear()
            failed(running, 1, file=file)
            assert "drawn by an earlier version" in caplog.text
            assert "close the series" in caplog.text
    assert (home / "series" / "periods" / "001" / "manifest.json").read_bytes() == drawn
    ended = running.send("POST", f"{WHERE}/quarters/close", {"reason": "unknown file"})
    assert ended.status == 200, ended.body


def test_a_draw_is_not_used_for_a_file_with_other_groups(
    running: Running, site: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Customers and load are the same, and their classes were corrected: other figures are due."""
    profiles = site.folder / "profiles"
    first = Profiles.read_parquet(profiles / "q1.parquet")
    moved = {"home": "shop", "shop": "home"}
    classes = tuple(moved[str(one)] for one in first.attributes["class"])
    corrected = replace(first, attributes={**first.attributes, "class": classes})
    corrected.write_parquet(profiles / "corrected.parquet")

    def broken(*_: object) -> None:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "copy_files", broken)
        failed(running, 1)
    failed(running, 1, file="corrected.parquet")
    assert "drawn from another file" in caplog.text
    added(running, 1)
    key = (site.folder / "fingerprint.key").read_bytes()
    assert keyed_hash(first, key) == keyed_hash(corrected, key)  # still the same people


def test_the_end_of_a_series_whose_folder_is_lost_is_not_stated(running: Running) -> None:
    """A published period has no closing statement: the administrator is told."""
    added(running, 1)
    kept = home_of(running)
    lost = kept.rename(running.state.folder / "elsewhere")
    body = {"reason": "over"}
    problem = refused(running.send("POST", f"{WHERE}/quarters/close", body), Code.NOT_CLOSED)
    assert problem.json["reason"] == "files of its private state could not be deleted"
    lost.rename(kept)
    assert running.send("POST", f"{WHERE}/quarters/close", body).status == 200


def test_the_hash_of_a_period_is_that_of_its_rows(
    running: Running, site: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes while the period is computed: it is read once."""
    profiles, real, reads = site.folder / "profiles", Profiles.read_parquet, []

    def replaced(path: Path) -> Profiles:
        found = real(path)
        if path.name == "q1.parquet":
            reads.append(path)
            quarter(0, customers=CUSTOMERS // 2).write_parquet(path)
        return found

    first = real(profiles / "q1.parquet")
    monkeypatch.setattr(Profiles, "read_parquet", replaced)
    added(running, 1)
    assert len(reads) == 1
    with running.state.ledger.reading() as connection:
        stored = connection.execute(select(release.c.fingerprint)).scalar_one()
    assert stored == keyed_hash(first, (site.folder / "fingerprint.key").read_bytes())


def test_a_period_that_waits_for_its_file_is_shown(
    running: Running, site: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To administrators, with the name of the file; it goes on when the file is there."""
    monkeypatch.setattr(server_metrics, "_KEPT_SECONDS", -1.0)
    file = site.folder / "profiles" / "q1.parquet"

    def waiting() -> float:
        text = running.send("GET", "/metrics").body.decode()
        (line,) = (
            one for one in text.splitlines() if one.startswith("wattveil_periods_without_file{")
        )
        return float(line.rpartition(" ")[2])

    def shown(as_: str) -> dict[str, Any]:
        (series,) = running.send("GET", "/v1/datasets/homes/series", as_=as_).json["series"]
        (period,) = series["periods"]
        return dict(period)

    number, _, go_on = begun(running, 1)
    assert waiting() == 0
    assert "missing_file" not in shown("owner")
    hidden = file.rename(site.folder / "hidden")
    go_on()
    assert waiting() == 1
    assert shown("owner")["missing_file"] == "q1.parquet"
    assert "missing_file" not in shown("ann"), "names of files are not public"
    assert "waits for q1.parquet" in Browser(running, "owner").get("/series").body.decode()
    assert "q1.parquet" not in Browser(running, "ann").get("/series").body.decode()
    monkeypatch.setenv("WATTVEIL_TOKEN", running.tokens["owner"])
    monkeypatch.setenv("WATTVEIL_URL", running.url)
    told = CliRunner().invoke(app, ["admin", "series", "list", "--dataset", "homes"]).output
    assert "waits for the missing file q1.parquet" in " ".join(told.split())
    hidden.rename(file)
    assert running.finished(number)["state"] == "ok"
    assert waiting() == 0


def test_a_state_that_lacks_files_fails_the_period(running: Running) -> None:
    """It does not wait for files that nobody can supply while the server runs."""
    added(running, 1)
    periods = home_of(running) / "series" / "periods"
    periods.rename(periods.with_name("hidden"))
    failed(running, 2)
    periods.with_name("hidden").rename(periods)
    added(running, 2)


def test_closing_with_damaged_files_deletes_the_rows_and_says_what_is_damaged(
    running: Running, site: Place, tmp_path: Path
) -> None:
    """A damaged table does not matter; without any manifest of a period, the end is not stated."""
    first = added(running, 1)
    home = home_of(running)
    bundle = unpacked(running, first, tmp_path / "first")
    table = next((home / "series" / "periods" / "001").rglob("*.parquet"))
    table.write_bytes(table.read_bytes()[:100])
    (stored,) = (one for one in (site.folder / "releases").iterdir() if one.is_dir())
    copies = [one / "manifest.json" for one in (stored, home / "series" / "periods" / "001")]
    whole = copies[0].read_bytes()
    for copy in copies:
        copy.write_text("{")
    body = {"reason": "over"}
    problem = refused(running.send("POST", f"{WHERE}/quarters/close", body), Code.NOT_CLOSED)
    assert problem.json["reason"] == "files of its periods are missing or damaged"
    assert [*home.rglob("*.state")] == []
    assert not (home / "secrets").exists()
    page = Browser(running, "owner").post(
        "/series/close", dataset="homes", series="quarters", reason="over"
    )
    assert (page.status, "closing it is not complete" in page.body.decode()) == (422, True)
    copies[0].write_bytes(whole)
    assert running.send("POST", f"{WHERE}/quarters/close", body).status == 200
    assert verify_chain([bundle], closing=home / "series" / "closed.json").accepted
    assert read_manifest(bundle)["label"] == "2026-Q1"


def test_closing_names_files_that_cannot_be_deleted(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The administrator is told, and closing again deletes them."""
    added(running, 1)
    home = home_of(running)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        answer = running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"})
        problem = refused(answer, Code.NOT_CLOSED)
    assert problem.json["reason"] == "files of its private state could not be deleted"
    assert [*home.rglob("*.state")] != []
    failed_period = running.send("POST", f"{WHERE}/quarters/periods", {"period": "2026-Q2"})
    refused(failed_period, Code.INVALID_REQUEST)
    assert running.send("POST", f"{WHERE}/quarters/close", {"reason": "over"}).status == 200
    assert [*home.rglob("*.state")] == []


def test_profiles_of_a_period_have_one_budget(place: Place) -> None:
    """They are no new data set, and no period of a series about other people; linked, they may."""
    folder = place.folder / "data"
    (folder / "profiles").mkdir(parents=True)
    for number in range(2):
        name = f"q{number + 1}.parquet"
        quarter(number, customers=CUSTOMERS).write_parquet(folder / "profiles" / name)
    some_profiles(CUSTOMERS).write_parquet(folder / "profiles" / "homes.parquet")
    some_profiles(CUSTOMERS + 1).write_parquet(folder / "profiles" / "other.parquet")

    def register(server: Running, file: str, name: str, **choices: object) -> Any:  # noqa: ANN401
        body = registration(file, name, products=["load"], customer_list_file=None, **choices)
        if "linked_to" in choices:
            del body["allowance"]
        return server.send("POST", "/v1/admin/datasets", body)

    with serving(folder, place.database) as server:
        furnish(server)
        assert register(server, "other.parquet", "other").status == 201
        added(server, 1)
        again = refused(register(server, "q1.parquet", "again"), Code.INVALID_REQUEST)
        assert "period of a series" in again.json["errors"][0]["rule"]
        refused(register(server, "q1.parquet", "again", linked_to="other"), Code.INVALID_REQUEST)
        elsewhere = "/v1/admin/datasets/other/series"
        assert server.send("POST", elsewhere, SERIES).status == 201
        body = {"period": "2026-Q1", "file": "q1.parquet"}
        begun_there = server.send("POST", f"{elsewhere}/quarters/periods", body).json["release"]
        assert server.finished(begun_there, as_="owner")["state"] == "failed"
        assert register(server, "q1.parquet", "again", linked_to="homes").status == 201
        # Registered while a period of the same rows is computed.
        assert register(server, "q2.parquet", "second").status == 201
        ledger = server.state.ledger
        charge = ledger.begin_period(
            "homes", "quarters", "2026-Q2", file="q2.parquet", recluster=False, by="owner"
        )
        key = (folder / "fingerprint.key").read_bytes()
        hashed = keyed_hash(Profiles.read_parquet(folder / "profiles" / "q2.parquet"), key)
        outcome = Release(state=ReleaseState.OK, payload_ref="x", fingerprint=hashed)
        assert ledger.store(charge, outcome).state is ReleaseState.FAILED
    assert all(finding.holds for finding in audit_folder(folder, place.database))


def test_a_series_has_the_minimum_price_of_its_data_set(site: Place) -> None:
    """As every release of it."""
    with serving(*site) as server:
        body = registration(
            "homes.parquet", products=["load"], customer_list_file=None, minimum_epsilon=0.5
        )
        assert server.send("POST", "/v1/admin/datasets", body).status == 201
        cheap = refused(
            server.send("POST", WHERE, {**SERIES, "epsilon": 0.4}), Code.INVALID_REQUEST
        )
        (broken,) = cheap.json["errors"]
        assert (broken["field"], "at least 0.5" in broken["rule"]) == ("epsilon", True)
        assert server.send("POST", WHERE, {**SERIES, "epsilon": 0.6}).status == 201


def test_rows_of_a_series_that_the_ledger_lost_are_deleted(
    site: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was opened after the backup, and nobody can close it; without a loss it is named only."""
    folder, unknown = site.folder, site.folder / "series" / ("0" * 32)
    with serving(*site) as server:
        furnish(server)
        write_backup(folder, None, tmp_path / "backup")
        added(server, 1)
    shutil.copytree(home_of(server), unknown)
    with serving(*site, tokens=server.tokens):
        assert f"no series {unknown.name}: its private state is still there" in caplog.text
    assert [*unknown.rglob("*.state")] != []
    for path in folder.glob("ledger.sqlite*"):
        path.unlink()
    restore_backup(tmp_path / "backup", folder, None, loss=LOSS)
    with serving(*site, tokens=server.tokens):
        assert f"no series {unknown.name}: its private state was deleted" in caplog.text
    assert [*unknown.rglob("*.state")] == []
    assert [*(unknown / "series").rglob("manifest.json")] != []
    with serving(*site, tokens=server.tokens):
        assert caplog.text.count("was deleted") == 1


def test_a_restore_that_was_interrupted_is_completed(
    site: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while a series was copied, and repeated: the series is whole, and continues."""
    with serving(*site) as server:
        furnish(server)
        added(server, 1)
        backup = tmp_path / "backup"
        write_backup(*site, backup)
    new, mark = tmp_path / "new", site.folder / "ledger.heads"
    copy_all = shutil.copytree

    def interrupted(source: Path, target: Path, *choices: Any) -> Path:  # noqa: ANN401
        if Path(source).parent == backup / "series":
            Path(target).mkdir()
            copy_all(Path(source) / "secrets", Path(target) / "secrets")
            raise KeyboardInterrupt
        return Path(copy_all(source, target, *choices))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(backup, new, None, mark=mark)
    restore_backup(backup, new, None)
    assert files_of(new / "series") == files_of(backup / "series")
    copy_all(site.folder / "profiles", new / "profiles", dirs_exist_ok=True)
    with serving(new, tokens=server.tokens) as later:
        for name in ("owner", "ann"):
            token = principals.issue_token(later.state.ledger, name, by="(test)", days=1)
            later.tokens[name] = token
        added(later, 2)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
