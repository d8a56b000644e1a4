"""Series of periods on a real server: one charge, periods that follow it, crashes, old copies.

On both databases. Periods are computed in the process of the test; `test_server_processes.py` has
a series whose periods compute processes compute.
"""

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.integration.conftest import NewPlace, Place, mostly_sqlite
from tests.live_server import Answer, Browser, Running, refused, registration, serving
from tests.sample_bundles import some_profiles
from tests.series_bundles import quarter
from wattveil.bundle import registered_series
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.keys import read_public_key
from wattveil.bundle.series_verify import verify_chain
from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Tier
from wattveil.server.backup.restore_backup import AcceptedLoss, restore_backup
from wattveil.server.backup.write_backup import write_backup
from wattveil.server.http.problems import Code
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.ledger_audit import audit_folder, entries, replay

pytestmark = pytest.mark.usefixtures("computing_here")

SERIES: dict[str, Any] = {
    "name": "quarters",
    "epsilon": 2.0,
    "delta": 1e-6,
    "periods": 8,
    "first": "2026-Q1",
    "timezone": "Europe/London",
    "by": "class",
    "levels": ["home", "shop"],
}
WHERE = "/v1/admin/datasets/homes/series"
CUSTOMERS = 60

WORKER = """
import json, os, signal, sys
from wattveil.bundle import registered_series
from wattveil.engines.series_folder import PendingPeriod
from wattveil.server.jobs import compute_child

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

task = json.loads(sys.argv[1])
if sys.argv[2] == "before the commit":
    PendingPeriod.commit = die
else:
    registered_series.copy_files = die
print(compute_child.run_task(task))
"""


@pytest.fixture
def site(place: Place) -> Place:
    """Return a data folder with the profiles of four quarters, on each of the databases."""
    site = Place(place.folder / "data", place.database)
    profiles = site.folder / "profiles"
    profiles.mkdir(parents=True)
    for number in range(4):
        quarter(number, customers=CUSTOMERS).write_parquet(profiles / f"q{number + 1}.parquet")
    some_profiles(CUSTOMERS).write_parquet(profiles / "homes.parquet")
    return site


@pytest.fixture
def running(site: Place) -> Iterator[Running]:
    """Serve one data set with an open series, to one analyst."""
    with serving(*site) as server:
        furnish(server)
        yield server


def furnish(server: Running) -> None:
    """Register a data set, admit an analyst, and open a series."""
    body = registration("homes.parquet", products=["load"], customer_list_file=None)
    made = server.send("POST", "/v1/admin/datasets", body)
    assert made.status == 201, made.body
    server.admit("ann", epsilon=3.0)
    opened = server.send("POST", WHERE, SERIES)
    assert opened.status == 201, opened.body


def add(server: Running, number: int, *, of: str = "quarters") -> Answer:
    """Add a quarter of 2026."""
    body = {"period": f"2026-Q{number}", "file": f"q{number}.parquet"}
    return server.send("POST", f"{WHERE}/{of}/periods", body)


def added(server: Running, number: int) -> str:
    """Add a quarter and wait for it; return its release."""
    answer = add(server, number)
    assert answer.status == 202, answer.body
    assert server.finished(answer.json["release"])["state"] == "ok"
    return str(answer.json["release"])


def left(server: Running) -> Amounts:
    """Return what the data set has left."""
    whole, _ = server.state.ledger.accounts("homes", "ann", Tier.GLOBAL)
    assert whole is not None
    return whole.left


def unpacked(server: Running, release: str, out: Path) -> Path:
    """Download a bundle as an analyst."""
    answer = server.send("GET", f"/v1/releases/{release}/bundle.zip", as_="ann")
    assert answer.status == 200, answer.body
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        archive.extractall(out)
    return out


def test_life_of_a_series(running: Running, site: Place, tmp_path: Path) -> None:
    """One charge for all periods; admitted analysts read each; the chain verifies to its end."""
    before = left(running)
    price = Amounts(*map(int, running.send("POST", WHERE, SERIES).json["price"].values()))
    assert left(running) == before, "the same series again costs nothing"
    other = running.send("POST", WHERE, {**SERIES, "periods": 9})
    assert refused(other, Code.INVALID_REQUEST).json["errors"][0]["field"] == "name"
    large = running.send("POST", WHERE, {**SERIES, "name": "more", "epsilon": 3.9})
    assert refused(large, Code.BUDGET_REFUSED).json["account_scope"] == "dataset"
    refused(running.send("POST", WHERE, SERIES, as_="ann"), Code.FORBIDDEN)
    releases = [added(running, 1), added(running, 2)]
    assert left(running) == before, "periods cost nothing further"
    assert running.state.ledger.accounts("homes", "ann", Tier.GLOBAL)[0].spent == price  # type: ignore[union-attr]
    early = refused(add(running, 1), Code.INVALID_REQUEST).json["errors"][0]
    assert early["rule"] == "after 2026-Q2, the last one that was released"
    (seen,) = running.send("GET", "/v1/datasets/homes/series", as_="ann").json["series"]
    assert [(one["period"], one["state"]) for one in seen["periods"]] == [
        ("2026-Q1", "ok"),
        ("2026-Q2", "ok"),
    ]
    listed = running.send("GET", "/v1/releases", as_="ann").json["releases"]
    assert {one["id"] for one in listed} == {*releases}
    assert "q1.parquet" not in json.dumps(listed), "names of files are not public"
    stranger = running.send("POST", "/v1/admin/principals", {"name": "eve"}).json
    running.tokens["eve"] = stranger["token"]
    refused(running.send("GET", f"/v1/releases/{releases[0]}", as_="eve"), Code.NOT_FOUND)
    refused(running.send("GET", "/v1/datasets/homes/series", as_="eve"), Code.FORBIDDEN)
    assert running.send("GET", "/v1/releases", as_="eve").json["releases"] == []

    out = tmp_path / "periods"
    bundles = [unpacked(running, one, out / one) for one in releases]
    ordered = {one["id"]: one["ordered_at"][:19] for one in listed}
    stated = [read_manifest(one)["published_at"][:19] for one in bundles]
    assert stated == [ordered[one] for one in releases]
    key = read_public_key(site.folder / "release.key.pub")
    assert verify_chain(bundles, trusted=key).accepted
    zipped = running.send("GET", f"/v1/releases/{releases[0]}/bundle.zip", as_="ann").body
    verdict = running.send(
        "POST", "/v1/verify", zipped, as_="ann", headers={"Content-Type": "application/zip"}
    ).json
    assert (verdict["accepted"], verdict["of_this_server"]) == (True, True)

    ended = running.send("POST", f"{WHERE}/quarters/close", {"reason": "end of the test"})
    assert ended.json["closed"] == "end of the test"
    refused(add(running, 3), Code.INVALID_REQUEST)
    statement = running.send("GET", "/v1/datasets/homes/series/quarters/closed.json", as_="ann")
    (tmp_path / "closed.json").write_bytes(statement.body)
    assert verify_chain(bundles, trusted=key, closing=tmp_path / "closed.json").accepted
    assert not verify_chain(bundles[:1], trusted=key, closing=tmp_path / "closed.json").accepted
    (home,) = (one for one in (site.folder / "series").iterdir() if one.is_dir())
    assert not (home / "secrets").exists()
    assert not (home / "series" / "private").exists()
    assert all(finding.holds for finding in audit_folder(*site))


@mostly_sqlite
def test_pages_and_commands(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner opens, adds and closes by forms and from a terminal; an analyst reads."""
    monkeypatch.setenv("WATTVEIL_TOKEN", running.tokens["owner"])
    monkeypatch.setenv("WATTVEIL_URL", running.url)

    def run(*arguments: str) -> tuple[int, str]:
        told = CliRunner().invoke(app, ["admin", "series", *arguments])
        return told.exit_code, " ".join(told.output.split())

    named = ("--dataset", "homes", "--name", "typed")
    choices = ("--epsilon", "0.5", "--delta", "1e-6", "--first", "2026-Q1")
    zone = ("--timezone", "Europe/London")
    code, told = run("open", *named, *choices, *zone, "--periods", "4")
    assert (code, told) == (0, "typed is open: the budget of 4 periods is charged to homes.")
    code, told = run("add", *named, "--period", "2026-Q1", "--file", "../q1.parquet")
    assert (code, "the name of a file in the folder of profiles" in told) == (1, True)
    code, told = run("add", *named, "--period", "2026-Q1", "--file", "q1.parquet", "--json")
    assert code == 0, told
    release = json.loads(told)["release"]
    assert running.finished(release)["state"] == "ok"
    owner, ann = Browser(running, "owner"), Browser(running, "ann")
    page = ann.get("/series").body.decode()
    assert f'<a href="/releases/{release}">' in page
    assert "Open a series" not in page
    shown = ann.get(f"/releases/{release}").body.decode()
    assert "2026-Q1 of the series typed" in shown
    assert "Load over time" in shown
    about = {"dataset": "homes", "name": "drawn", "first": "2026-Q1", "timezone": "Europe/London"}
    groups = {"by": "class", "levels": "home, shop", "counts": "car=yes"}
    numbers = {"epsilon": "0.5", "delta": "1e-6", "periods": "4", "segments": "0"}
    drawn = owner.post("/series/open", **about, **groups, **numbers)
    assert (drawn.status, "drawn is open" in drawn.body.decode()) == (200, True)
    own = {"dataset": "homes", "series": "drawn"}
    begun = owner.post("/series/add", **own, period="2026-Q2", file="q2.parquet")
    assert "2026-Q2 is being computed" in begun.body.decode()
    late = owner.post("/series/add", **own, period="2027-Q4", file="q2.parquet")
    assert (late.status, "a period of the series" in late.body.decode()) == (422, True)
    code, told = run("list", "--dataset", "homes", "--json")
    (series,) = (one for one in json.loads(told)["series"] if one["name"] == "drawn")
    assert (series["request"]["levels"], series["request"]["by"]) == (["home", "shop"], "class")
    assert running.finished(series["periods"][0]["release"])["state"] == "ok"
    ended = owner.post("/series/close", **own, reason="over")
    assert "drawn is closed" in ended.body.decode()
    assert ann.get("/series/homes/drawn/closed.json").json["reason"] == "over"
    assert ann.post("/series/close", **own, reason="x").status == Code.FORBIDDEN.status
    assert run("close", *named, "--reason", "over") == (0, "typed is closed.")
    code, told = run("list", "--dataset", "homes")
    assert "typed, 4 periods, closed: over" in told


@pytest.mark.parametrize(
    ("place", "step"),
    [
        ("sqlite", "before the commit"),
        pytest.param("sqlite", "between state and bundle", marks=pytest.mark.long),
        pytest.param("postgresql", "before the commit", marks=pytest.mark.long),
        ("postgresql", "between state and bundle"),
    ],
    indirect=["place"],
)
def test_a_killed_period_is_stored_once(site: Place, step: str) -> None:
    """After SIGKILL the next start finds what was committed, or draws what was not."""
    with serving(*site) as server:
        furnish(server)
        first = added(server, 1)
        task: dict[str, Any] = {}
        computing = server.worker

        def noted(charge: Any, draft: Path) -> dict[str, object]:  # noqa: ANN401 - any charge
            task.update(prepared(charge, draft))
            raise OSError  # nothing is computed: the period stays pending

        prepared, computing._task = computing._task, noted
        answer = add(server, 2)
        while not task:
            time.sleep(0.01)
        release = answer.json["release"]
    died = subprocess.run(
        [sys.executable, "-c", WORKER, json.dumps(task), step],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert died.returncode == -signal.SIGKILL, (died.stdout, died.stderr)
    home = Path(task["home"])
    committed = [path.read_bytes() for path in home.glob("series/periods/002/manifest.json")]
    pending = home / "series" / "private" / "pending"
    assert bool(committed) == (step == "between state and bundle")
    assert pending.exists() == (not committed)
    with serving(*site, tokens=server.tokens) as later:
        assert later.finished(release)["state"] == "ok"
        sent = later.send("GET", f"/v1/releases/{release}/manifest", as_="ann").body
        if committed:
            assert [sent] == committed, "what was committed is not drawn again"
        out = site.folder.parent
        bundles = [unpacked(later, one, out / one) for one in (first, release)]
        assert verify_chain(bundles).accepted
        added(later, 3)
    assert all(finding.holds for finding in audit_folder(*site))


@mostly_sqlite
def test_an_older_state_is_refused(running: Running, site: Place) -> None:
    """A state from before a stored period is not used; the newest one is accepted again."""
    added(running, 1)
    (home,) = (one for one in (site.folder / "series").iterdir() if one.is_dir())
    old, new = (site.folder.parent / name for name in ("old", "new"))
    shutil.copytree(home, old)
    added(running, 2)
    home.rename(new)
    for copy in (old, None):  # an older one, and none
        if copy is not None:
            shutil.copytree(copy, home)
        failed = add(running, 3).json["release"]
        assert running.finished(failed)["state"] == "failed"
        refused(running.send("GET", f"/v1/releases/{failed}/manifest"), Code.FAILED)
        shutil.rmtree(home, ignore_errors=True)
    new.rename(home)
    added(running, 3)


def test_a_period_is_begun_once(running: Running) -> None:
    """The same request again finds the period that waits; closing the series ends it as failed."""
    computing, tasks = running.worker, []

    def waiting(charge: Any, draft: Path) -> dict[str, object]:  # noqa: ANN401 - any charge
        tasks.append((charge, draft))
        raise OSError  # the disk is missing: the period stays pending

    prepared, computing._task = computing._task, waiting
    first = running.state.ledger.begin_period(  # recorded; the answer was lost, nobody queued it
        "homes", "quarters", "2026-Q1", file="q1.parquet", recluster=False, by="owner"
    )
    again = add(running, 1)
    assert (again.status, again.json["release"]) == (202, f"1-{first.seq}")
    other = {"period": "2026-Q1", "file": "q2.parquet"}
    refused(running.send("POST", f"{WHERE}/quarters/periods", other), Code.INVALID_REQUEST)
    refused(add(running, 2), Code.INVALID_REQUEST)
    while not tasks:
        time.sleep(0.01)
    ended = running.send("POST", f"{WHERE}/quarters/close", {"reason": "the disk is gone"})
    assert [one["state"] for one in ended.json["periods"]] == ["failed"]
    computing._task = prepared
    while computing.queue_length:
        time.sleep(0.01)
    refused(running.send("GET", f"/v1/releases/1-{first.seq}/manifest"), Code.FAILED)
    assert not list((running.state.folder / "releases").iterdir())


@mostly_sqlite
def test_a_full_disk_keeps_a_period_pending(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draw is committed before its bundle is copied: it is stored once there is room."""
    copyfile, full = shutil.copyfile, threading.Event()

    def copy(source: Path, target: Path) -> Path:
        if "releases" in target.parts and not full.is_set():
            full.set()
            raise OSError(errno.ENOSPC, "no space left")
        return Path(copyfile(source, target))

    monkeypatch.setattr(shutil, "copyfile", copy)
    release = added(running, 1)
    assert full.is_set()
    (home,) = (one for one in (running.state.folder / "series").iterdir() if one.is_dir())
    drawn = (home / "series" / "periods" / "001" / "manifest.json").read_bytes()
    assert running.send("GET", f"/v1/releases/{release}/manifest", as_="ann").body == drawn


@mostly_sqlite
def test_a_file_of_other_people_is_not_released(running: Running, site: Place) -> None:
    """Their budget is not charged, whatever the name of the file."""
    other = registration("q2.parquet", "other", products=["load"], customer_list_file=None)
    assert running.send("POST", "/v1/admin/datasets", other).status == 201
    profiles = site.folder / "profiles"
    shutil.copy(profiles / "q2.parquet", profiles / "copy.parquet")
    body = {"period": "2026-Q1", "file": "copy.parquet"}
    begun = running.send("POST", f"{WHERE}/quarters/periods", body)
    assert running.finished(begun.json["release"])["state"] == "failed"
    added(running, 1)


@mostly_sqlite
def test_a_committed_draw_is_used_for_its_own_file_only(
    running: Running, site: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bundle could not be copied, and the period failed; another file must not get its draw."""

    def broken(*_: object) -> None:
        raise ValueError

    def fail(number: int, file: str) -> None:
        body = {"period": f"2026-Q{number}", "file": file}
        begun = running.send("POST", f"{WHERE}/quarters/periods", body)
        assert running.finished(begun.json["release"])["state"] == "failed"

    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "copy_files", broken)
        fail(1, "q1.parquet")
    fail(1, "q2.parquet")
    first = added(running, 1)
    with monkeypatch.context() as patch:
        patch.setattr(registered_series, "copy_files", broken)
        fail(2, "q2.parquet")
    (home,) = (one for one in (site.folder / "series").iterdir() if one.is_dir())
    if site.database is None:
        (home / "series" / "periods" / "001" / "manifest.json").write_text("{")
    else:
        shutil.rmtree(home / "series" / "periods")
    ended = running.send("POST", f"{WHERE}/quarters/close", {"reason": "the disk is gone"})
    assert ended.status == 200, ended.body
    assert {one.name for one in home.iterdir()} == {"series"}
    assert not (home / "series" / "private").exists()
    # The statement is about what was published.
    bundle = unpacked(running, first, site.folder.parent / "first")
    assert verify_chain([bundle], closing=home / "series" / "closed.json").accepted


def test_backup_and_restore(site: Place, elsewhere: NewPlace, tmp_path: Path) -> None:
    """A restored series continues if nothing was lost; otherwise it can only be closed."""
    with serving(*site) as server:
        furnish(server)
        added(server, 1)
        write_backup(*site, tmp_path / "backup")
    # The disk of the series is not mounted: the older backup alone has its state.
    away = (site.folder / "series").rename(tmp_path / "away")
    poor = write_backup(*site, tmp_path / "poor", keep=1)
    assert (poor.without_state, poor.removed) == (("homes/quarters",), ())
    away.rename(site.folder / "series")
    whole, lossy = elsewhere(), elsewhere()
    restore_backup(tmp_path / "backup", *whole, mark=site.folder / "ledger.heads")
    loss = AcceptedLoss(by="owner", reason="the disk was lost")
    restore_backup(tmp_path / "backup", *lossy, loss=loss)
    for new in (whole, lossy):
        shutil.copytree(site.folder / "profiles", new.folder / "profiles", dirs_exist_ok=True)
    with whole.open() as ledger:
        task = ledger.begin_period(
            "homes", "quarters", "2026-Q2", file="q2.parquet", recluster=False, by="owner"
        )
    with serving(*whole) as later:
        while (stored := later.state.ledger.release_of(task)) is None:
            time.sleep(0.05)
        assert stored.state == "ok"
    with lossy.open() as ledger:
        with pytest.raises(InvalidParameterError, match="lost entries of the ledger"):
            ledger.begin_period(
                "homes", "quarters", "2026-Q2", file="q2.parquet", recluster=False, by="owner"
            )
        ledger.end_series("homes", "quarters", reason="lost", by="owner")
    assert all(finding.holds for finding in audit_folder(*lossy))


@mostly_sqlite
def test_the_audit_finds_a_period_that_was_not_charged(running: Running) -> None:
    """Without the entry that charged the series, each of its periods is found."""
    added(running, 1)
    with running.state.ledger.reading() as connection:
        rows = list(entries(connection))
    assert replay(rows).uncharged == []
    kinds = [row[3] for row in rows]
    without = [row for row, kind in zip(rows, kinds, strict=True) if kind != "series"]
    assert replay(without).uncharged == [f"journal 1, entry {kinds.index('period') + 1}"]
