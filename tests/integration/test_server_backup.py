"""Backup and restore of a real server, on both databases: no charge is ever forgotten."""

import errno
import json
import shutil
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, select
from sqlalchemy.engine import make_url
from typer.testing import CliRunner

from tests.integration.conftest import NewPlace, Place, _new_schema, mostly_sqlite
from tests.live_server import QUICK, Running, furnish, put_profiles, refused, registration, serving
from tests.neighbouring_servers import InProcessCompute
from tests.sample_bundles import some_profiles, without_plan_simulation
from wattveil import Profiles
from wattveil.cli import app
from wattveil.errors import InvalidParameterError, LedgerBehindError, LedgerUnavailableError
from wattveil.privacy.guarantee import Tier
from wattveil.server.backup import write_backup as write_backup_module
from wattveil.server.backup.restore_backup import AcceptedLoss, _check_new, restore_backup
from wattveil.server.backup.write_backup import write_backup
from wattveil.server.http.problems import Code
from wattveil.server.jobs import planner, worker
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_audit import audit_folder
from wattveil.server.ledger.ledger_tables import entry

LOSS = AcceptedLoss(by="owner", reason="the disk was lost")


@pytest.fixture(autouse=True)
def _computing_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute in this process: what is computed is no subject of these tests."""
    monkeypatch.setattr(worker, "ComputeProcess", InProcessCompute)
    monkeypatch.setattr(planner, "ComputeProcess", InProcessCompute)
    with without_plan_simulation():
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the data folder, apart from backups."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def released(server: Running, key: str, *, dataset: str = "homes", epsilon: float = 0.1) -> str:
    """Order a release, and wait for it."""
    ordered = server.order(key, {**QUICK, "epsilon": epsilon}, dataset=dataset)
    assert ordered.status in (200, 202), ordered.body
    assert server.finished(ordered.json["id"])["state"] == "ok"
    return str(ordered.json["id"])


def put_back(old: Path, new: Path) -> None:
    """Put back what the data owner has: the profiles."""
    shutil.copytree(old / "profiles", new / "profiles", dirs_exist_ok=True)


def left(place: Place, dataset: str, *, principal: str = "ann") -> list[Amounts]:
    """Return what the data set, and a principal on it, have left."""
    with place.open() as ledger:
        accounts = ledger.accounts(dataset, principal, Tier.GLOBAL)
    return [one.left for one in accounts if one is not None]


def register_late(server: Running) -> None:
    """Register another data set about other people, with one analyst."""
    folder = server.state.folder
    if not (folder / "profiles" / "late.parquet").exists():
        put_profiles(folder, "late.parquet", some_profiles(customers=80))
    made = server.send(
        "POST",
        "/v1/admin/datasets",
        registration("late.parquet", "late", products=["load"], customer_list_file=None),
    )
    assert made.status == 201, made.body
    allowance = {"epsilon": 3.0, "delta": 1e-6}
    budget = {"allowance": allowance, "reason": "x", "principal": "ann"}
    assert server.send("POST", "/v1/admin/datasets/late/budgets", budget).status == 200


def test_disaster_drill(place: Place, elsewhere: NewPlace, data: Path, tmp_path: Path) -> None:
    """A server is backed up while it runs, goes on, and is lost. What the mark knows and the backup
    lacks is refused; accepted, it counts as spent, that of a data set registered later too, also
    after the same backup is restored a second time.
    """
    backup = tmp_path / "backup"
    with serving(data, place.database) as server:
        furnish(server)
        first = released(server, "first")
        bundle = server.send("GET", f"/v1/releases/{first}/bundle.zip", as_="ann").body
        stop = threading.Event()
        refusals: list[int] = []

        def go_on() -> None:
            while not stop.is_set():
                answer = server.send("POST", "/v1/datasets/homes/quotes", QUICK, as_="ann")
                if answer.status != 200:
                    refusals.append(answer.status)

        thread = threading.Thread(target=go_on)
        thread.start()
        done = write_backup(data, place.database, backup)
        stop.set()
        thread.join()
        assert (refusals, done.damaged, done.bundles) == ([], (), 1)
        released(server, "second")
        register_late(server)
        released(server, "third", dataset="late")
        tokens = dict(server.tokens)
    mark = data / "ledger.heads"

    new = elsewhere()
    put_back(data, new.folder)
    with pytest.raises(InvalidParameterError, match="high_water_mark"):
        restore_backup(backup, new.folder, new.database)
    with pytest.raises(LedgerBehindError, match=r"journal 1 had .* --by … and --reason …"):
        restore_backup(backup, new.folder, new.database, mark=mark)
    if place.database is not None:  # one in use, by its address
        with pytest.raises(InvalidParameterError, match=r"got .*host .*, database postgres"):
            restore_backup(backup, new.folder, place.database, mark=mark)
    not_hers = AcceptedLoss(by="ann", reason="x")
    with pytest.raises(InvalidParameterError, match="administrator"):
        restore_backup(backup, new.folder, new.database, mark=mark, loss=not_hers)
    assert not (new.folder / "ledger.heads").exists(), "nothing was written"

    done_again = restore_backup(backup, new.folder, new.database, mark=mark, loss=LOSS)
    assert done_again.journals_lost == 2
    assert done_again.missing_profiles == ()
    assert all(finding.holds for finding in audit_folder(new.folder, new.database))
    assert left(new, "homes") == [Amounts(), Amounts()]
    check_lost_dataset_is_spent(new, tokens, first, bundle)

    # The same backup once more, beside the mark of the restored server.
    again = elsewhere()
    put_back(new.folder, again.folder)
    shutil.copy(new.folder / "ledger.heads", again.folder)
    with pytest.raises(LedgerBehindError):
        restore_backup(backup, again.folder, again.database)
    restore_backup(backup, again.folder, again.database, loss=LOSS)
    check_lost_dataset_is_spent(again, tokens, first, bundle)


def check_lost_dataset_is_spent(
    place: Place, tokens: dict[str, str], first: str, bundle: bytes
) -> None:
    """Old tokens are refused, old releases are there, and the lost data set has no budget left."""
    with serving(place.folder, place.database, tokens=tokens) as server:
        refused(server.send("GET", "/v1/me", as_="ann"), Code.UNAUTHORIZED)
        renew(place, server, "owner", "admin")
        renew(place, server, "ann", "analyst")
        answer = server.send("GET", f"/v1/releases/{first}/bundle.zip", as_="ann")
        assert answer.body == bundle
        order = {**QUICK, "epsilon": 0.1}
        refused(server.order("new", {**order, "epsilon": 0.2}), Code.BUDGET_REFUSED)
        register_late(server)
        refused(server.order("late", order, dataset="late"), Code.BUDGET_REFUSED)
        allowance = {"epsilon": 8.0, "delta": 1e-6, "label_epsilon": 1.0}
        raised = {"allowance": allowance, "reason": "released 0.1 before the loss"}
        address = "/v1/admin/datasets/late/budgets"
        answer = refused(server.send("POST", address, raised), Code.INVALID_REQUEST)
        assert answer.json["errors"][0]["field"] == "lost_epsilon"
        declared = {**raised, "lost_epsilon": 0.2}
        assert server.send("POST", address, declared).status == 200
        released(server, "late-again", dataset="late")


def renew(place: Place, server: Running, name: str, role: str) -> None:
    """Issue a token as an operator with file access does."""
    arguments = ["admin", "token", "--data", str(place.folder), "--name", name, "--role", role]
    if place.database is not None:
        arguments += ["--database", place.database]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    server.tokens[name] = json.loads(result.output)["token"]


@mostly_sqlite
def test_without_a_mark_nothing_is_left_and_registrations_need_a_declaration(
    place: Place, elsewhere: NewPlace, data: Path, tmp_path: Path
) -> None:
    """The machine is lost with its mark: what was charged or registered is unknown."""
    backup, new = tmp_path / "backup", elsewhere()
    with serving(data, place.database) as server:
        furnish(server)
        write_backup(data, place.database, backup)
        register_late(server)
    put_back(data, new.folder)
    restore_backup(backup, new.folder, new.database, loss=LOSS)
    assert left(new, "homes") == [Amounts(), Amounts()]
    late = registration("late.parquet", "other-name", products=["load"], customer_list_file=None)
    for _ in range(2):  # the second time, the same backup is restored beside the new mark
        with serving(new.folder, new.database) as server:
            renew(new, server, "owner", "admin")
            answer = server.send("POST", "/v1/admin/datasets", late)
            refused(answer, Code.INVALID_REQUEST)
            assert answer.json["errors"][0]["field"] == "never_charged"
        again = elsewhere()
        put_back(new.folder, again.folder)
        shutil.copy(new.folder / "ledger.heads", again.folder)
        restore_backup(backup, again.folder, again.database, loss=LOSS)
        new = again
    with serving(new.folder, new.database) as server:
        renew(new, server, "owner", "admin")
        declared = {**late, "never_charged": "collected last week"}
        assert server.send("POST", "/v1/admin/datasets", declared).status == 201
        found = server.send("GET", "/v1/admin/ledger?journal=2").json["entries"][0]
        assert json.loads(found["detail"])["never_charged"] == "collected last week"


@mostly_sqlite
def test_a_linked_data_set_that_was_lost_has_no_budget_of_its_own(
    place: Place, elsewhere: NewPlace, data: Path, tmp_path: Path
) -> None:
    """Registered again without the link, it would have a whole new budget."""
    backup, new = tmp_path / "backup", elsewhere()
    with serving(data, place.database) as server:
        furnish(server)
        write_backup(data, place.database, backup)
        put_profiles(data, "more.parquet", some_profiles(customers=70))
        linked = registration("more.parquet", "more", products=["load"], customer_list_file=None)
        joined = {**linked, "linked_to": "homes", "allowance": None}
        assert server.send("POST", "/v1/admin/datasets", joined).status == 201
    put_back(data, new.folder)
    mark = data / "ledger.heads"
    restore_backup(backup, new.folder, new.database, mark=mark, loss=LOSS)
    with serving(new.folder, new.database) as server:
        renew(new, server, "owner", "admin")
        assert server.send("POST", "/v1/admin/datasets", linked).status == 201
    assert left(new, "more", principal="owner") == [Amounts()]


@mostly_sqlite
def test_nothing_is_lost_if_the_backup_is_the_newest(
    place: Place, elsewhere: NewPlace, data: Path, tmp_path: Path
) -> None:
    """A server moves: budgets, releases and entries are the same, and further ones follow."""
    backup, new = tmp_path / "backup", elsewhere()
    with serving(data, place.database) as server:
        furnish(server)
        released(server, "first")
    write_backup(data, place.database, backup)
    before = left(Place(data, place.database), "homes")
    done = restore_backup(backup, new.folder, new.database, mark=data / "ledger.heads")
    assert (done.journals_lost, set(done.missing_profiles)) == (
        0,
        {"homes.parquet", "customers.txt"},
    )
    assert left(new, "homes") == before
    put_back(data, new.folder)
    with serving(new.folder, new.database) as server:
        renew(new, server, "owner", "admin")
        renew(new, server, "ann", "analyst")
        released(server, "second")
        register_late(server)
    assert all(finding.holds for finding in audit_folder(new.folder, new.database))


def test_a_backup_moves_a_ledger_to_the_other_database(
    data: Path, tmp_path: Path, database: str
) -> None:
    """The file of a backup has the tables of both."""
    import psycopg  # noqa: PLC0415 - the fixture of the server skips where it is missing

    schema = f"ledger_{uuid.uuid4().hex}"
    with psycopg.connect(database) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    address = f"{database}&options=-csearch_path%3D{schema}"
    with serving(data) as server:
        furnish(server)
        released(server, "first")
    write_backup(data, None, tmp_path / "backup")
    target = tmp_path / "target"
    restore_backup(tmp_path / "backup", target, address, mark=data / "ledger.heads")
    assert left(Place(target, address), "homes") == left(Place(data, None), "homes")
    with Ledger.open(target, address) as ledger, ledger.reading() as connection:
        entries = connection.execute(select(func.count()).select_from(entry)).scalar_one()
    with Ledger.open(data) as ledger, ledger.reading() as connection:
        assert connection.execute(select(func.count()).select_from(entry)).scalar_one() == entries


def test_a_backup_that_was_changed_is_refused(tmp_path: Path, data: Path) -> None:
    """Files that differ, are missing or were added; and nothing is overwritten."""
    with serving(data) as server:
        furnish(server)
        released(server, "first")
    backup = tmp_path / "backup"
    write_backup(data, None, backup)
    with pytest.raises(InvalidParameterError, match="new folder"):
        write_backup(data, None, backup)
    mark = data / "ledger.heads"

    def refuses(rule: str, folder: Path = tmp_path / "new") -> None:
        with pytest.raises(InvalidParameterError, match=rule):
            restore_backup(backup, folder, None, mark=None if folder == data else mark)

    refuses("without ledger.sqlite", data)
    key = backup / "keys" / "release.key"
    kept = key.read_bytes()
    key.write_bytes(b"other")
    refuses("unchanged")
    key.unlink()
    refuses("complete")
    key.write_bytes(kept)
    (backup / "extra").touch()
    refuses("without other files")
    (backup / "extra").unlink()
    other = tmp_path / "other"
    other.mkdir()
    (other / "fingerprint.key").write_bytes(b"another key")
    refuses("fingerprint.key", other)
    with serving(data):
        refuses("no other server", data)
    (backup / "backup.json").unlink()
    refuses("completed")


def test_a_missing_bundle_is_reported_and_the_rest_is_saved(tmp_path: Path, data: Path) -> None:
    """The command exits with 1, so that a timer notices."""
    with serving(data) as server:
        furnish(server)
        released(server, "first")
    (bundle,) = (one for one in (data / "releases").iterdir() if one.is_dir())
    write_backup(data, None, tmp_path / "whole")
    bundle.rename(tmp_path / "away")
    arguments = ["admin", "backup", "--data", str(data), "--out", str(tmp_path / "backup")]
    result = CliRunner().invoke(app, [*arguments, "--keep", "1", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["damaged"] == [bundle.name]
    assert json.loads(result.stdout)["removed"] == [], "the older backup has the bundle"
    restored = CliRunner().invoke(
        app,
        [
            *("admin", "restore", str(tmp_path / "backup"), "--data", str(tmp_path / "new")),
            *("--high-water-mark", str(data / "ledger.heads"), "--json"),
        ],
    )
    assert restored.exit_code == 0, restored.output
    assert json.loads(restored.stdout)["missing_bundles"] == [bundle.name]


def test_a_backup_that_fails_leaves_nothing(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full would be filled further each night, with keys among it."""
    with serving(data) as server:
        furnish(server)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "planted")

    monkeypatch.setattr(write_backup_module, "_copy_private", full)
    with pytest.raises(OSError, match="planted"):
        write_backup(data, None, tmp_path / "backup")
    assert not [*tmp_path.glob("backup*")]


def test_only_older_backups_are_removed(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the new one, if an earlier clock was ahead; a link is no backup of its own."""
    with serving(data) as server:
        furnish(server)
    times = iter([f"2026-11-{day:02}T02:00:00Z" for day in (9, 1, 2, 3, 4)])
    monkeypatch.setattr(write_backup_module, "now", lambda: next(times))
    out = tmp_path / "backups"
    out.mkdir()
    write_backup(data, None, out / "ahead", keep=1)
    assert write_backup(data, None, out / "first", keep=1).removed == ()
    assert write_backup(data, None, out / "second", keep=2).removed == ()
    (out / "latest").symlink_to(out / "second")
    assert write_backup(data, None, out / "third", keep=2).removed == ("first",)
    assert write_backup(data, None, out / "fourth", keep=1).removed == ("second", "third")
    assert {path.name for path in out.iterdir()} == {"ahead", "fourth", "latest"}


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_files_of_an_earlier_database_are_refused(tmp_path: Path, ending: str) -> None:
    """SQLite would apply the log of another database to the restored one."""
    (tmp_path / f"ledger.sqlite{ending}").write_bytes(b"earlier")
    with pytest.raises(InvalidParameterError, match=f"without ledger.sqlite{ending}:"):
        _check_new(tmp_path, None)


@mostly_sqlite
def test_the_folder_and_the_mark_of_a_running_server_are_refused(
    place: Place, elsewhere: NewPlace, data: Path, tmp_path: Path
) -> None:
    """Its mark is not final: it may charge after the comparison."""
    backup, target = tmp_path / "backup", elsewhere()
    mark = data / "ledger.heads"
    link = tmp_path / "linked.heads"
    link.symlink_to(mark)
    with serving(data, place.database) as server:
        furnish(server)
        write_backup(data, place.database, backup)
        with pytest.raises(InvalidParameterError, match="stop the server"):
            restore_backup(backup, data, target.database)
        for one in (mark, link):
            with pytest.raises(InvalidParameterError, match="a server that was stopped"):
                restore_backup(backup, target.folder, target.database, mark=one)
        assert released(server, "later")
    assert [one.name for one in target.folder.iterdir()] in ([], ["server.lock"])
    with pytest.raises(LedgerBehindError):
        restore_backup(backup, target.folder, target.database, mark=mark)
    last = tmp_path / "last"
    write_backup(data, place.database, last)
    assert restore_backup(last, target.folder, target.database, mark=mark).journals_lost == 0
    with target.open() as ledger:
        assert ledger.pending() == []


def test_a_restore_by_a_role_without_rights_is_refused_in_a_line(
    tmp_path: Path, data: Path, request: pytest.FixtureRequest
) -> None:
    """As in a database that was created for another role; it can be repeated."""
    address = _new_schema(request.getfixturevalue("database"))
    with serving(data) as server:
        furnish(server)
    backup, new = write_backup(data, None, tmp_path / "backup").out, tmp_path / "new"
    role = f"poor_{uuid.uuid4().hex}"
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        schema = connection.execute("SELECT current_schema()").fetchone()
        assert schema is not None
        connection.execute(f"GRANT USAGE ON SCHEMA {schema[0]} TO {role}")
    poor = make_url(address).set(username=role).render_as_string(hide_password=False)
    mark = data / "ledger.heads"
    with pytest.raises(LedgerUnavailableError, match="the role lacks a privilege"):
        restore_backup(backup, new, poor, mark=mark)
    restore_backup(backup, new, address, mark=None)  # the folder has it by now


def test_profiles_that_the_server_may_not_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An administrator reads the cause; it is no error of the software."""

    def denied(path: Path, **_: object) -> Profiles:
        raise PermissionError(errno.EACCES, "permission denied", str(path))

    with serving(tmp_path) as server:
        file = put_profiles(tmp_path, "homes.parquet", some_profiles(60))
        monkeypatch.setattr(Profiles, "read_parquet", denied)
        body = registration(file, "homes")
        told = refused(server.send("POST", "/v1/admin/datasets", body), Code.INVALID_REQUEST)
    [error] = told.json["errors"]
    assert error["field"] == "file"
    assert "can read (profiles: EACCES)" in error["rule"]
    assert any("homes.parquet cannot be read" in one.getMessage() for one in caplog.records)
