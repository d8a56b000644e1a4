"""A server of several processes on PostgreSQL: sessions, tokens, kills of its parts, its end.

One server for most of it: its start takes most of the time. An API process is addressed by stopping
(SIGSTOP) the other one.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Place
from tests.live_server import Answer, Browser, Running, owner_token, put_profiles, registration
from tests.process_guard import guard, unguard
from tests.sample_ledgers import broken, order, populate
from wattveil.errors import InvalidParameterError, LedgerBehindError
from wattveil.server.jobs.release_queue import watch_charges
from wattveil.server.ledger.accounts import Release, ReleaseState
from wattveil.server.ledger.journal import Head
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.run import check_processes

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks at processes as Linux does"
)

API = ("api-1", "api-2")


@dataclass
class Processes(Running):
    """A server of several processes; ``state`` and ``connections`` are those of no process here."""

    supervisor: int = 0
    log: Path = field(default_factory=Path)

    def pids(self) -> dict[str, int]:
        """Return the number of each process that answers or computes, as the log states it."""
        found: dict[str, int] = {}
        for line in self.log.read_text().splitlines(keepends=True):
            said = json.loads(line) if line.endswith("\n") else {}
            if "started" in said:
                found[said["started"]] = said["pid"]
        return found

    @contextmanager
    def only(self, name: str) -> Iterator[None]:
        """Have one API process accept connections, and not the others."""
        others = [pid for one, pid in self.pids().items() if one in API and one != name]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)

    def repeat(self, send: Callable[[], Answer]) -> Answer:
        """Send a request until it is answered: the process that has it may be killed."""
        while True:
            try:
                answer = send()
            except (OSError, HTTPException):
                continue
            if answer.status < 500:
                return answer

    def kill(self, name: str) -> None:
        """Kill a process, and wait for the one that takes its place."""
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.pids()[name] != pid)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    while not holds():
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended may still have a number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def started(site: Place) -> Iterator[Processes]:
    """Start `wattveil serve` with two API processes; end it with the block."""
    log = site.folder / "log"
    assert site.database is not None
    command = ["serve", "--data", str(site.folder), "--port", "0", "--database", site.database]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "wattveil", *command, "--processes", "2"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    guard(process.pid)
    known: dict[str, str] = {}
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "wattveil admin token" in line:  # the first start
            known["owner"] = owner_token(site.folder, site.database)
            line = process.stdout.readline()
        port = re.search(r"http://127.0.0.1:(\d+)", line)
        assert port is not None, log.read_text()
        no_state: Any = None
        yield Processes(no_state, int(port[1]), known, set(), process.pid, log)
    finally:
        process.terminate()
        process.communicate()
        unguard(process.pid)


def test_several_processes_need_postgresql(tmp_path: Path) -> None:
    """SQLite has one writer; one process needs nothing."""
    check_processes(1, tmp_path, None)
    check_processes(2, tmp_path, "postgresql://somebody@/ledger")
    for database in (None, f"sqlite:///{tmp_path}/x.sqlite"):
        with pytest.raises(InvalidParameterError, match="PostgreSQL"):
            check_processes(2, tmp_path, database)


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_server_of_two_api_processes(place: Place) -> None:
    """Sessions, tokens and metrics are those of the server; kills of its parts lose nothing."""
    put_profiles(place.folder)
    with started(place) as server:
        made = server.send("POST", "/v1/admin/datasets", registration("homes.parquet"))
        assert made.status == 201, made.body
        server.admit("ann", epsilon=3.0)
        server.admit("bob", epsilon=0.6)
        check_that_a_session_of_one_process_is_one_of_all(server)
        check_that_a_revoked_token_is_refused_by_all(server)
        check_that_a_series_is_one_of_all(server)
        check_that_metrics_are_sums_over_all_processes(server)
        check_that_kills_lose_nothing(server)
        check_that_children_end_with_a_supervisor_that_is_killed(server, place)


def check_that_a_session_of_one_process_is_one_of_all(server: Processes) -> None:
    """Signed in at one, an order reviewed there is confirmed at the other, and ended there."""
    with server.only(API[0]):
        ann = Browser(server, "ann")
        fields = {"epsilon": "0.25", "products": "load", "tier": "global"}
        reviewed = ann.post("/datasets/homes", **fields)
        assert reviewed.status == 303
    with server.only(API[1]):
        place = reviewed.headers["location"]
        assert b"0.25" in ann.get(place).body
        ordered = ann.post(place)
        assert ordered.headers["location"].startswith("/releases/")
    with server.only(API[0]):
        assert ann.post(place).headers["location"] == ordered.headers["location"]
        assert ann.post("/sign-out").status == 303
    with server.only(API[1]):
        assert ann.get("/").status == 303
    assert server.finished(ordered.headers["location"].rpartition("/")[2])["state"] == "ok"


def check_that_a_revoked_token_is_refused_by_all(server: Processes) -> None:
    """From the answer to the revocation on, although each has just accepted it."""
    server.admit("eve", epsilon=0.1)
    for name in API:
        with server.only(name):
            assert server.send("GET", "/v1/me", as_="eve").status == 200
    with server.only(API[0]):
        revoked = server.send("POST", "/v1/admin/principals/eve/revoke")
        assert revoked.status == 200, revoked.body
    for name in API:
        with server.only(name):
            assert server.send("GET", "/v1/me", as_="eve").status == 401


def check_that_a_series_is_one_of_all(server: Processes) -> None:
    """Opened at one process, continued at the other, computed by the worker, and closed."""
    where = "/v1/admin/datasets/homes/series"
    choices = {"name": "quarters", "epsilon": 0.5, "delta": 1e-6, "periods": 4}
    calendar = {"first": "2026-Q1", "timezone": "Europe/London"}
    with server.only(API[0]):
        opened = server.send("POST", where, {**choices, **calendar})
        assert opened.status == 201, opened.body
    with server.only(API[1]):
        body = {"period": "2026-Q1", "file": "homes.parquet"}
        added = server.send("POST", f"{where}/quarters/periods", body)
        assert added.status == 202, added.body
    assert server.finished(added.json["release"])["state"] == "ok"
    with server.only(API[0]):
        closed = server.send("POST", f"{where}/quarters/close", {"reason": "over"})
        assert closed.status == 200, closed.body
    with server.only(API[1]):
        path = "/v1/datasets/homes/series/quarters/closed.json"
        assert server.send("GET", path, as_="ann").json["reason"] == "over"


_LIVE = re.compile(r'requests_total\{method="GET",route="/livez",status="200"\} (\d+)')


def metrics_after(server: Processes, requests: int) -> str:
    """Return the metrics once so many requests are counted: that follows their response."""
    until = time.monotonic() + 60.0
    while True:
        text = server.send("GET", "/metrics").body.decode()
        found = _LIVE.search(text)
        if (found is not None and int(found[1]) >= requests) or time.monotonic() > until:
            return text
        time.sleep(0.05)


def check_that_metrics_are_sums_over_all_processes(server: Processes) -> None:
    """Whichever process is asked; each process has its own memory and descriptors."""
    for name in API:
        with server.only(name):
            server.send("GET", "/livez", as_=None)
    metrics_after(server, 2)  # a process may else be suspended between response and count
    counts = []
    for name in API:
        with server.only(name):
            text = metrics_after(server, 2)
        found = _LIVE.search(text)
        assert found is not None
        counts.append(int(found[1]))
        for process in (*API, "worker"):
            assert f'process_open_fds{{process="{process}"}}' in text
        assert 'wattveil_ready{component="queue"} 1.0' in text
    assert counts == [2, 2]


def check_that_kills_lose_nothing(server: Processes) -> None:
    """Orders of two analysts while each part is killed: each is charged once and computed.

    The analyst with one order does not wait for all of the one with many.
    """
    server.admit("mia", epsilon=1.0)
    many = [("mia", f"m{number}", 0.05 + number * 1e-9) for number in range(4)]
    one = ("bob", "b", 0.06)

    def place(who: str, key: str, epsilon: float) -> str:
        body = {"epsilon": epsilon, "products": ["load"]}
        answer = server.repeat(lambda: server.order(key, body, as_=who))
        assert answer.status in {200, 202}, answer.body  # a repeat may find it computed
        release: str = answer.json["id"]
        return release

    with ThreadPoolExecutor(3) as pool:
        orders = [pool.submit(place, *each) for each in many]
        for name in API:
            server.kill(name)
        first = [each.result() for each in orders]
        last = place(*one)
        server.kill("worker")
    assert [place(*each) for each in many] == first  # the same keys
    assert place(*one) == last
    assert len({*first, last}) == len(first) + 1
    assert server.finished(last, as_="bob")["state"] == "ok"
    states = [server.send("GET", f"/v1/releases/{each}", as_="mia").json for each in first]
    assert "computing" in {each["state"] for each in states}
    assert {server.finished(each, as_="mia")["state"] for each in first} == {"ok"}
    spent = server.send("GET", "/v1/datasets/homes/budget?tier=global", as_="mia").json["own"]
    prices = [int(each["price"]["rho"]) for each in states]
    assert int(spent["spent"]["rho"]) == sum(prices)


def check_that_children_end_with_a_supervisor_that_is_killed(
    server: Processes, place: Place
) -> None:
    """Nothing of them is left; the ledger is sound, and opens."""
    children = server.pids()
    assert sorted(children) == [*API, "worker"]
    os.kill(server.supervisor, signal.SIGKILL)
    wait_until(lambda: not any(is_running(pid) for pid in children.values()))
    with place.open() as ledger:
        assert broken(ledger) == []
        assert ledger.pending() == []
    heads = (place.folder / "ledger.heads").read_text()
    assert heads.count("\n1 ") == 2  # the head, and how many releases are stored


def session_of(leader: int) -> dict[int, str]:
    """Return the processes of a session that run, with their command lines."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode()
    return found


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_supervisor_that_cannot_observe_its_children_ends_all_of_them(place: Place) -> None:
    """The forkserver is killed: its children seem to have ended. None is started a second time."""
    with started(place) as server:
        before = server.pids()
        forkserver = [
            pid
            for pid, command in session_of(server.supervisor).items()
            if "forkserver" in command and pid not in before.values()
        ]
        os.kill(min(forkserver), signal.SIGKILL)  # the others are its children
        ended = os.waitid(os.P_PID, server.supervisor, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert (ended.si_code, ended.si_status) == (os.CLD_EXITED, 1)
        assert server.pids() == before
        wait_until(lambda: not session_of(server.supervisor))


def test_each_process_notices_that_the_database_was_replaced(place: Place) -> None:
    """By what another process has made durable; none of them shortens the file of the others."""
    with place.open() as first:
        populate(first)
        second = Ledger.open(place.folder, place.database, is_shared=True)
        first.charge(order("a"))
        second.charge(order("b"))  # on what the first has written
        first._high_water_mark.record({1: Head(99, "f" * 64)}, {}, {})
        with pytest.raises(LedgerBehindError, match="had 99 entries"):
            second.charge(order("c"))
        second.close()
        assert "\n1 99 " in (place.folder / "ledger.heads").read_text()
    with pytest.raises(LedgerBehindError):
        Ledger.open(place.folder, place.database, is_shared=True)
    with pytest.raises(LedgerBehindError):
        place.open()


class Recorder:
    """Takes the place of a worker: it keeps what it is given."""

    def __init__(self, turns: int) -> None:
        self.taken: list[int] = []
        self._turns = turns

    @property
    def is_healthy(self) -> bool:
        """Whether turns are left."""
        self._turns -= 1
        return self._turns >= 0

    def take(self, charge: Any) -> None:  # noqa: ANN401 - a charge
        """Keep its number."""
        self.taken.append(charge.seq)


def test_a_worker_finds_each_pending_charge_once(ledger: Ledger) -> None:
    """Those of before, and those made since; not the ones that are stored, nor further keys."""
    stored, pending = ledger.charge(order("a")), ledger.charge(order("b", request="y"))
    ledger.store(stored, Release(state=ReleaseState.FAILED))
    new: list[int] = []

    def report() -> None:
        if len(new) < 2:
            new.append(ledger.charge(order(f"c{len(new)}", request=f"z{len(new)}")).seq)

    worker: Any = Recorder(4)
    watch_charges(ledger, worker, report)
    assert worker.taken == [pending.seq, *new]
    assert ledger.count_pending() == 3
