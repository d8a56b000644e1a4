"""A database that hangs, and a second server on a copy of the data folder."""

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.integration.conftest import Place
from tests.live_server import QUICK, Running, furnish, refused, serving
from tests.postgres import postgres_server, require_postgres
from tests.sample_ledgers import broken
from wattveil.errors import InvalidParameterError
from wattveil.server.auth import access
from wattveil.server.http.problems import Code
from wattveil.server.ledger import database as limits
from wattveil.server.ledger import server_lease
from wattveil.server.ledger.ledger import CACHED_SECONDS
from wattveil.server.server_state import ServerState

MANY = 60
"""More than the server has threads, and many more than it has connections to the database."""
_PATIENCE_SECONDS = 600.0  # a busy database notices late that a session has ended


_OF_THE_LEDGER = b"\nwattveil_epsilon_left{"


@pytest.mark.usefixtures("computing_here")
@pytest.mark.parametrize("is_hung", [True, False])
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux does")
def test_metrics_are_read_while_the_database_is_down(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_hung: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Hung or ended: a token that was valid reads them, without figures of the ledger."""
    require_postgres()
    with postgres_server() as database, serving(tmp_path, database.address) as running:
        furnish(running)
        for name in ("seen", "new", "revoked", "earlier"):
            made = running.send("POST", "/v1/admin/principals", {"name": name, "kind": "monitor"})
            running.tokens[name] = made.json["token"]
        running.send("GET", "/metrics", as_="revoked")
        running.send("POST", "/v1/admin/principals/revoked/revoke", {})
        with monkeypatch.context() as patch:
            patch.setattr(access, "_READER_REMEMBERED", timedelta(0))
            assert running.send("GET", "/metrics", as_="earlier").status == HTTPStatus.OK
        up = running.send("GET", "/metrics", as_="seen").body
        assert b"\nwattveil_database_up 1.0" in up
        assert _OF_THE_LEDGER in up
        monkeypatch.setattr(limits, "MAX_SECONDS", 0.5)
        with database.hung() if is_hung else database.down():
            time.sleep(CACHED_SECONDS)  # then no token is known any more without a query
            while (
                b"\nwattveil_database_up 0.0"
                not in (down := running.send("GET", "/metrics", as_="seen")).body
            ):
                assert down.status == HTTPStatus.OK  # a report is used again for a moment
            assert b'\nwattveil_ready{component="database"} 0.0' in down.body
            # Compared with the database, so nothing is known of it: it raises no second alert.
            assert b'\nwattveil_ready{component="high_water_mark"} 1.0' in down.body
            assert b"\nwattveil_requests_total{" in down.body
            assert _OF_THE_LEDGER not in down.body
            for name in ("new", "ann", "revoked", "earlier"):
                refused(running.send("GET", "/metrics", as_=name), Code.UNAVAILABLE)
            refused(running.send("GET", "/v1/me", as_="seen"), Code.UNAVAILABLE)
        until_ok(running)
        running.send("POST", "/v1/admin/principals/seen/revoke", {})
        refused(running.send("GET", "/metrics", as_="seen"), Code.UNAUTHORIZED)


@pytest.mark.usefixtures("computing_here")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux does")
def test_a_hung_database_is_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts connections and never answers: 503 to all, and no hang."""
    require_postgres()
    with (
        postgres_server() as database,
        serving(tmp_path, database.address) as running,
        ThreadPoolExecutor(MANY) as pool,
    ):
        furnish(running)
        first = running.order("before", QUICK)
        assert running.finished(first.json["id"])["state"] == "ok"
        with database.hung(), monkeypatch.context() as short:
            short.setattr(limits, "MAX_SECONDS", 0.5)
            waiting = [
                pool.submit(running.send, "GET", "/v1/datasets", as_="ann") for _ in range(MANY)
            ]
            ordered = pool.submit(running.order, "meanwhile", {**QUICK, "epsilon": 0.1})
            assert running.send("GET", "/healthz").status == HTTPStatus.OK
            for one in (*waiting, ordered):  # without a limit, these would wait for ever
                refused(one.result(), Code.UNAVAILABLE)
        until_ok(running)
        again = running.order("meanwhile", {**QUICK, "epsilon": 0.1})
        assert running.finished(again.json["id"])["state"] == "ok"
        assert running.order("before", QUICK).json["id"] == first.json["id"]
        assert broken(running.state.ledger) == []


def until_ok(running: Running) -> None:
    """Wait until the server has its database, and the lease of it, again."""
    while running.send("GET", "/v1/datasets", as_="ann").status != HTTPStatus.OK:
        time.sleep(0.05)
    wait_for(running.state.lease, held=True)


def wait_for(lease: server_lease.Lease, *, held: bool) -> None:
    """Wait until a lease is held, or is not."""
    while lease.is_held is not held:
        time.sleep(0.01)


def test_a_database_has_one_server(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the data folder names the same database: the second server does not start."""
    monkeypatch.setattr(server_lease, "_PATIENCE_SECONDS", _PATIENCE_SECONDS)
    database = place.database or f"sqlite:///{place.folder}/named.sqlite"
    own, copy = place.folder / "own", place.folder / "copy"
    own.mkdir()
    with ServerState.open(own, database) as first:
        first.ledger.write(lambda _: None)
        shutil.copytree(own, copy)
        with monkeypatch.context() as hasty:
            hasty.setattr(server_lease, "_PATIENCE_SECONDS", 0.5)
            with pytest.raises(InvalidParameterError, match="no other server uses"):
                ServerState.open(copy, database)
        assert first.lease.is_held
    ServerState.open(copy, database).close()


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_killed_server_leaves_no_lease(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database notices the end of the process: the next one starts."""
    monkeypatch.setattr(server_lease, "_PATIENCE_SECONDS", _PATIENCE_SECONDS)
    assert place.database is not None
    script = (
        "import os, sys, signal; from pathlib import Path;"
        "from wattveil.server.server_state import ServerState;"
        "ServerState.open(Path(sys.argv[1]), sys.argv[2]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", script, str(place.folder), place.database]
    assert subprocess.run(command, check=False, timeout=600).returncode == -9
    ServerState.open(place.folder, place.database).close()


@pytest.mark.usefixtures("computing_here")
@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_server_without_its_lease_accepts_no_order(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session was ended and another server took the lease: orders are refused, not charged."""
    monkeypatch.setattr(server_lease, "_CHECK_SECONDS", 0.05)
    with serving(place.folder, place.database) as running:
        furnish(running)
        lease = running.state.lease
        with monkeypatch.context() as other:
            other.setattr(lease, "_take", lambda: False)  # another server was faster
            with running.state.ledger.reading() as connection:
                connection.execute(_END_SESSION)
            wait_for(lease, held=False)
            refused(running.order("k", QUICK), Code.UNAVAILABLE)
        wait_for(lease, held=True)
        assert running.order("k", QUICK).status == HTTPStatus.ACCEPTED


_END_SESSION = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
)
