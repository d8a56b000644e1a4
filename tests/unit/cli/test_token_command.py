"""The command `admin token`: a new token for an operator with file access."""

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from typer.testing import CliRunner

from tests.sample_ledgers import populate
from wattveil.cli import app
from wattveil.server.auth import principals
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.database import connect, is_empty, writing
from wattveil.server.ledger.database_record import FILE
from wattveil.server.ledger.ledger import Ledger


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the folder of a server that was started once."""
    with Ledger.open(tmp_path) as ledger:
        assert ledger.write(principals.first_admin_token) is not None
    return tmp_path


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    result = CliRunner().invoke(app, ["admin", "token", *map(str, arguments)], terminal_width=200)
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_a_lost_token_is_replaced_while_the_server_runs(data: Path) -> None:
    """Printed once, good at once, written down; the ledger that is open goes on."""
    with Ledger.open(data) as ledger:
        code, said = run("--data", data, "--name", "owner", "--role", "admin")
        assert code == 0
        (found,) = re.findall(r"wattveil_\S+", said)
        with ledger.reading() as connection:
            principal = principals.principal_of_token(connection, found)
            events = principals.latest_events(connection, limit=9)
        assert principal is not None
        assert (principal.name, principal.kind) == ("owner", PrincipalKind.ADMIN)
        assert [one["action"] for one in events] == ["token issued", "token issued", "created"]
        assert {one["by"] for one in events} == {principals.LOCAL_OPERATOR}
        assert found not in str(events)
        for change in ("UPDATE act SET what = ''", "DELETE FROM act"):
            with pytest.raises(DBAPIError), writing(ledger.engine).begin() as connection:
                connection.execute(text(change))


def test_a_ledger_needs_the_folder_of_its_server(tmp_path: Path) -> None:
    """Another folder is no file access: nobody is created; the right one is accepted."""
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    address = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    arguments = ("--database", address, "--name", "eve", "--role", "admin")
    with Ledger.open(own, address) as ledger:
        for fill in (lambda _: None, populate):  # before the first entry, and with entries
            fill(ledger)
            assert run("--data", own, *arguments)[0] == 0
            for folder in (other, tmp_path):
                code, said = run("--data", folder, *arguments[:3], "mallory", *arguments[4:])
                assert (code, "the data folder of the server" in said) == (2, True), said
        with ledger.reading() as connection:
            assert "mallory" not in {one["name"] for one in principals.list_principals(connection)}
        code, said = run("--data", own, *arguments, "--days", "3")
        assert code == 0
        until = (datetime.now(UTC) + timedelta(days=3)).date()
        assert f"valid until {until}" in said or f"valid until {until - timedelta(1)}" in said


def test_a_file_of_another_server_is_refused_under_the_right_name(
    data: Path, tmp_path: Path
) -> None:
    """Its identity differs. An older copy of the right one is accepted, also in a moved folder."""
    arguments = ("--name", "owner", "--role", "admin")
    other = tmp_path / "other"
    other.mkdir()
    Ledger.open(other).close()
    shutil.copy(data / FILE, tmp_path / "kept")
    shutil.copy(other / FILE, data / FILE)
    code, said = run("--data", data, *arguments)
    assert (code, "has the identity of the ledger" in said) == (2, True), said
    shutil.copy(tmp_path / "kept", data / FILE)
    assert run("--data", data, *arguments)[0] == 0
    shutil.copytree(data, tmp_path / "moved", ignore=shutil.ignore_patterns("other"))
    assert run("--data", tmp_path / "moved", *arguments)[0] == 0


def test_the_first_administrator_is_created_before_the_first_start(tmp_path: Path) -> None:
    """In an empty database, which then belongs to the folder; not if the folder has another."""
    new, used, empty = tmp_path / "new", tmp_path / "used", tmp_path / "empty.sqlite"
    for one in (new, used):
        one.mkdir()
    Ledger.open(used, f"sqlite:///{empty}").close()
    for path in tmp_path.glob("empty.sqlite*"):
        path.unlink()
    empty.touch()
    arguments = ("--database", f"sqlite:///{empty}", "--name", "owner", "--role", "admin")
    assert run("--data", used, *arguments)[0] == 2
    assert run("--data", tmp_path / "nowhere", *arguments)[0] == 2
    engine = connect(make_url(f"sqlite:///{empty}"))
    assert is_empty(engine)
    engine.dispose()
    for _ in range(2):
        assert run("--data", new, *arguments)[0] == 0
    with Ledger.open(new, f"sqlite:///{empty}") as ledger:
        assert ledger.write(principals.first_admin_token) is None
        with writing(ledger.engine).begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = 'v2_0001'"))
    code, said = run("--data", new, *arguments)
    assert (code, "start this version of the server once" in said) == (2, True), said


def test_a_new_principal_is_admitted_and_roles_are_not_changed(data: Path) -> None:
    """A role that is not theirs, a disabled principal, no server: refused, and nothing printed."""
    code, said = run("--data", data, "--name", "eve", "--role", "analyst", "--days", "1", "--json")
    assert code == 0
    assert json.loads(said)["role"] == "analyst"
    for arguments, word in (
        (("--name", "eve", "--role", "admin"), "role"),
        (("--name", "eve", "--role", "king"), "role"),
        (("--name", "eve", "--role", "analyst", "--days", "0"), "days"),
        (("--name", "No Name", "--role", "analyst"), "principal"),
    ):
        code, said = run("--data", data, *arguments)
        assert code == 2
        assert word in said
        assert "wattveil_" not in said
    with Ledger.open(data) as ledger:
        principals.disable(ledger, "eve", by="owner")
    assert run("--data", data, "--name", "eve", "--role", "analyst")[0] == 2
    assert run("--data", data / "nowhere", "--name", "eve", "--role", "analyst")[0] == 1
