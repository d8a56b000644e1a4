"""One client cannot take the service from others: connections, downloads, the queue, the disk.

No test measures a time. Each attack is one that would go on for as long as its clients like; the
request of another client is answered while it goes on.
"""

import http.client
import io
import json
import logging
import re
import resource
import selectors
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, select

from tests.certificates import self_signed
from tests.live_server import QUICK, Answer, ComputeHere, Running, furnish, refused, serving
from tests.process_guard import guarded
from tests.sample_ledgers import broken
from wattveil.bundle.bundle_archive import write_archive
from wattveil.bundle.cumulative import Cumulative
from wattveil.errors import ChargeRefusedError
from wattveil.server import client, release_service, server_state
from wattveil.server.auth.access import Access
from wattveil.server.http import connections, downloads
from wattveil.server.http.problems import Code
from wattveil.server.jobs.compute_pool import ComputeProcess
from wattveil.server.jobs.fair_queue import FairQueue
from wattveil.server.jobs.worker import MAX_WAITING_PER_PRINCIPAL as MAX_WAITING
from wattveil.server.ledger.accounts import Charge, cumulative_at
from wattveil.server.ledger.admission import MAX_KEYS, Refusal
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import entry
from wattveil.server.log_throttle import LogThrottle
from wattveil.server.observe.request_record import SECURITY_LOGGER, begin_record

FOR_EVER = 3600.0
PATIENCE_SECONDS = 300.0
HEAD = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
SLOW_BODY = b"POST /v1/verify HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n"


@contextmanager
def held(port: int, number: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that never complete a request."""
    with ExitStack() as stack:
        found = []
        for _ in range(number):
            one = socket.create_connection(("127.0.0.1", port), timeout=600)
            found.append(stack.enter_context(one))
            one.sendall(sent)
        yield found


def is_alive(running: Running, times: int = 5) -> None:
    """Check that others are answered."""
    for _ in range(times):
        assert running.send("GET", "/healthz", as_=None).status == HTTPStatus.OK


@pytest.fixture
def few_places(monkeypatch: pytest.MonkeyPatch) -> int:
    """Set a small limit of connections, which no time limit frees."""
    monkeypatch.setattr(connections, "_MAX_CONNECTIONS", 8)
    monkeypatch.setattr(connections, "_MAX_HEAD_SECONDS", FOR_EVER)
    monkeypatch.setattr(connections, "_MAX_HANDSHAKE_SECONDS", FOR_EVER)
    monkeypatch.setattr(connections, "_FIRST_SECONDS", 0.0)
    return 8


@pytest.mark.parametrize("sent", [b"", HEAD, SLOW_BODY], ids=["silent", "head", "body"])
def test_connections_that_wait_for_their_client_give_way(
    tmp_path: Path, few_places: int, sent: bytes
) -> None:
    """Three times as many as there are places: the server accepts others all the same."""
    with serving(tmp_path) as running, held(running.port, 3 * few_places, sent) as idle:
        is_alive(running)
        if sent == HEAD:
            for one in idle[: 2 * few_places]:  # the oldest gave way
                is_closed(one)
        elif not sent:  # Linux hands them over later, in any order
            assert are_closed(idle, 2 * few_places)


def are_closed(found: list[socket.socket], number: int) -> bool:
    """Wait until the server has closed a number of connections, whichever they are."""
    with selectors.DefaultSelector() as waiting:
        for one in found:
            waiting.register(one, selectors.EVENT_READ)
        while len(waiting.get_map()) > len(found) - number:
            if not (ended := waiting.select(600)):
                return False
            for key, _ in ended:
                waiting.unregister(key.fileobj)
    return True


def is_closed(one: socket.socket) -> None:
    """Check that the server has closed a connection; what it had not read resets it."""
    with suppress(ConnectionResetError):
        assert one.recv(65536) == b""


def test_connections_without_a_handshake_give_way(tmp_path: Path, few_places: int) -> None:
    """A client that opens sockets to a TLS port and says nothing occupies no place for long."""
    certificate = self_signed(tmp_path)
    (tmp_path / "data").mkdir()
    trusted = ssl.create_default_context(cafile=certificate[0])
    with (
        serving(tmp_path / "data", tls=certificate) as running,
        held(running.port, 3 * few_places),
    ):
        for _ in range(3):
            one = http.client.HTTPSConnection(
                "127.0.0.1", running.port, context=trusted, timeout=600
            )
            one.request("GET", "/healthz")
            assert one.getresponse().status == HTTPStatus.OK
            one.close()


def test_a_handshake_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a socket to a TLS port and says nothing is not waited for."""
    monkeypatch.setattr(connections, "_MAX_HANDSHAKE_SECONDS", 0.2)
    certificate = self_signed(tmp_path)
    (tmp_path / "data").mkdir()
    with serving(tmp_path / "data", tls=certificate) as running, held(running.port, 1) as idle:
        assert idle[0].recv(4096) == b""


def test_more_idle_connections_than_descriptors_stop_nobody(tmp_path: Path) -> None:
    """1,100 of them, at a limit of 1,024 descriptors: the server answers, and its log is short."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the machine permits too few descriptors to open 1,100 connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    serve = "import resource,sys; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024));"
    serve += "from wattveil.cli import app; app()"
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", serve, "serve", "--data", str(tmp_path / "data"), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
        guarded(process),
    ):
        try:
            assert process.stdout is not None
            process.stdout.readline()  # the token
            found = re.search(r":([0-9]+)$", process.stdout.readline().strip())
            assert found is not None
            with held(int(found[1]), 1100):
                for _ in range(20):
                    one = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=600)
                    one.request("GET", "/healthz")
                    assert one.getresponse().status == HTTPStatus.OK
                    one.close()
        finally:
            process.kill()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert log.stat().st_size < 10_000


def test_a_response_is_not_delayed_for_an_acknowledgement(tmp_path: Path) -> None:
    """Nagle's algorithm is off on every connection: a response is several small writes."""
    with serving(tmp_path) as running, held(running.port, 1, HEAD + b"\r\n") as open_:
        open_[0].recv(4096)
        flags = {
            one.transport.get_extra_info("socket").getsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY
            )
            for one in running.connections
        }
        assert flags == {1}


def test_repeated_log_lines_are_counted_and_not_written() -> None:
    """A thousand lines of one kind are five; lines of other kinds, and of requests, stay."""
    throttle = LogThrottle()

    def passes(message: str, number: int, level: int = logging.ERROR) -> bool:
        return throttle.filter(logging.LogRecord("server", level, "", 0, message, (number,), None))

    assert sum(passes("refused %d", number) for number in range(1000)) == 5
    assert sum(passes("other %d", number) for number in range(3)) == 3
    assert sum(passes("GET %d", number, logging.INFO) for number in range(100)) == 100
    next(iter(throttle._kinds.values())).since -= 60.0  # later
    record = logging.LogRecord("server", logging.ERROR, "", 0, "refused %d", (7,), None)
    assert throttle.filter(record)
    assert record.getMessage() == "refused 7 (995 such lines were left out)"


# --- downloads ------------------------------------------------------------------------------------


def released(server: Running, key: str, epsilon: float) -> str:
    """Order a release of ann's, wait for it, and return its address."""
    found = server.order(key, {**QUICK, "epsilon": epsilon}).json["id"]
    assert server.finished(found)["state"] == "ok"
    return f"/v1/releases/{found}"


def archive_of(server: Running, address: str) -> Path:
    """Return the archive of the newest release."""
    assert server.send("GET", address, as_="ann").status == HTTPStatus.OK
    archives = sorted(
        server.state.bundles.folder.glob("*.zip"), key=lambda one: one.stat().st_mtime
    )
    return archives[-1]


def test_a_bundle_is_packed_once(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is computed; for a release of an earlier version, at the first of its downloads."""
    packed = []

    def counted(bundle: Path, archive: Path) -> None:
        packed.append(archive)
        write_archive(bundle, archive)

    monkeypatch.setattr(release_service, "write_archive", counted)
    monkeypatch.setattr(downloads, "MAX_PER_PRINCIPAL", 60)
    address = released(server, "packed", 0.031)
    stored = archive_of(server, address)
    with ThreadPoolExecutor(20) as pool:
        bodies = {
            one.body
            for one in pool.map(
                lambda _: server.send("GET", f"{address}/bundle.zip", as_="ann"), range(60)
            )
        }
        assert bodies == {stored.read_bytes()}
        assert packed == []
        stored.unlink()
        again = pool.map(
            lambda _: server.send("GET", f"{address}/bundle.zip", as_="ann").body, range(20)
        )
        assert {*again} == bodies
    assert packed == [stored]
    with zipfile.ZipFile(io.BytesIO(bodies.pop())) as archive:
        assert "manifest.json" in archive.namelist()


def test_a_part_of_a_bundle_can_be_downloaded(server: Running) -> None:
    """An interrupted download goes on; one that the client has is not sent again."""
    address = released(server, "parts", 0.032) + "/bundle.zip"
    whole = server.send("GET", address, as_="ann")
    size = len(whole.body)

    def part(wanted: str, **more: str) -> tuple[int, bytes]:
        got = server.send("GET", address, as_="ann", headers={"Range": wanted, **more})
        return got.status, got.body

    assert part("bytes=5-9") == (206, whole.body[5:10])
    assert part(f"bytes={size - 7}-") == (206, whole.body[-7:])
    assert part("bytes=-7", **{"If-Range": whole.headers["etag"]}) == (206, whole.body[-7:])
    for odd in (
        "bytes=9-5",
        f"bytes={size}-",
        "bytes=a-b",
        "bytes=-",
        "lines=1-2",
        "bytes=1-2,5-6",
    ):
        assert part(odd) == (200, whole.body)
    assert part("bytes=0-0", **{"If-Range": '"another"'}) == (200, whole.body)
    for known in (whole.headers["etag"], f'"x", W/{whole.headers["etag"]}', "*"):
        got = server.send("GET", address, as_="ann", headers={"If-None-Match": known})
        assert (got.status, got.body, got.headers["etag"]) == (304, b"", whole.headers["etag"])
    other = server.send("GET", address, as_="ann", headers={"If-None-Match": '"x"'})
    assert other.body == whole.body


def test_no_time_of_a_computation_leaves_the_server(server: Running) -> None:
    """How long it takes depends on the rows: a manifest states the order, a file has no time."""
    address = released(server, "time", 0.03391)
    found = server.send("GET", address, as_="ann").json
    manifest = server.send("GET", f"{address}/manifest", as_="ann").json
    ordered = datetime.fromisoformat(found["ordered_at"])
    assert manifest["published_at"] == ordered.isoformat(timespec="seconds")
    for file in ("manifest", "report", "bundle.zip", f"payload/{found['tables'][0]}.csv"):
        said = server.send("GET", f"{address}/{file}", as_="ann")
        assert said.status == HTTPStatus.OK
        assert "last-modified" not in said.headers


def test_a_table_that_the_client_has_is_not_sent_again(server: Running) -> None:
    """Its tag is that of its release, its name and its format: it is no other file's."""
    places = [released(server, f"tag-{epsilon}", epsilon) for epsilon in (0.0381, 0.0382)]
    tags = {}
    for address in places:
        manifest = server.send("GET", f"{address}/manifest", as_="ann").json
        names = [Path(one["path"]).name for one in manifest["payload"]]
        for name in (one for one in names if one.endswith((".csv", ".parquet"))):
            table = f"{address}/payload/{name}"
            whole = server.send("GET", table, as_="ann")
            assert whole.status == 200, whole.body
            tags[table] = known = whole.headers["etag"]
            same = server.send("GET", table, as_="ann", headers={"If-None-Match": known})
            assert (same.status, same.body, same.headers["etag"]) == (304, b"", known)
    assert len(tags) > 2
    assert len({*tags.values()}) == len(tags)
    first, *_, last = tags
    crossed = server.send("GET", first, as_="ann", headers={"If-None-Match": tags[last]})
    assert crossed.status == 200


def test_one_principal_has_few_downloads_at_a_time(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fifth is refused until one of the four ends; another principal is served meanwhile."""
    address = released(server, "many", 0.033)
    shared = server.send("POST", f"{address}/shares", {"reader": "bob"}, as_="ann")
    assert shared.status == 201
    with archive_of(server, address).open("ab") as file:
        file.truncate(50 * 2**20)  # more than the buffers of a connection hold
    head = f"GET {address}/bundle.zip HTTP/1.1\r\nHost: here\r\n"
    head += f"Authorization: Bearer {server.tokens['ann']}\r\n\r\n"
    with held(server.port, downloads.MAX_PER_PRINCIPAL, head.encode()) as unread:
        for one in unread:
            assert one.recv(12) == b"HTTP/1.1 200"
        busy = refused(server.send("GET", f"{address}/bundle.zip", as_="ann"), Code.BUSY)
        assert int(busy.headers["retry-after"]) > 0
        others = server.send("GET", f"{address}/payload/load_shapes.csv", as_="bob")
        assert others.status == HTTPStatus.OK
    monkeypatch.setattr(downloads, "MAX_PER_PRINCIPAL", 5)  # those that were held end by and by
    while server.send("GET", f"{address}/manifest", as_="ann").status != HTTPStatus.OK:
        pass


def test_health_waits_for_no_thread(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread of the server is occupied: the liveness route is answered all the same."""
    going_on = threading.Event()
    monkeypatch.setattr(Access, "datasets", lambda *_: going_on.wait() and [])
    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(server.send, "GET", "/v1/datasets", as_="ann") for _ in range(60)]
        try:
            is_alive(server)
            assert not any(one.done() for one in waiting)
        finally:
            going_on.set()


def test_a_lost_bundle_is_stated(server: Running) -> None:
    """Files that are gone from the disk are no fault of the request, and cost nothing more."""
    address = released(server, "lost", 0.034)
    folder = archive_of(server, address).with_suffix("")
    before = server.send("GET", "/v1/datasets/homes/budget", as_="ann").body
    folder.rename(folder.with_name("elsewhere"))
    folder.with_name(f"{folder.name}.zip").rename(folder.with_name("elsewhere.zip"))
    paths = ("", "/manifest", "/report", "/bundle.zip", "/payload/load_shapes.json")
    for path in (*paths, "/payload/load_shapes.csv"):
        refused(server.send("GET", address + path, as_="ann"), Code.BUNDLE_MISSING)
    again = server.order("lost-again", {**QUICK, "epsilon": 0.034})
    assert again.status == HTTPStatus.OK
    assert server.send("GET", "/v1/datasets/homes/budget", as_="ann").body == before
    folder.with_name("elsewhere").rename(folder)
    (folder / "manifest.json").rename(folder / "away")
    (folder / "manifest.json").write_text("{")  # damaged
    refused(server.send("GET", address, as_="ann"), Code.BUNDLE_MISSING)
    (folder / "away").rename(folder / "manifest.json")
    for path in paths:  # the archive is written again
        assert server.send("GET", address + path, as_="ann").status == HTTPStatus.OK


# --- the queue ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("computing_here")
def test_one_principal_fills_its_own_share_of_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further orders of ann are refused and not charged; those of bob are accepted, and have turns.

    What computes is held, so that nothing leaves the queue.
    """
    started: list[float] = []
    run_task = ComputeHere.run_task

    def noted(process: ComputeHere, task: dict[str, Any], **given: float) -> dict[str, Any]:
        if task["do"] == "release":
            started.append(float(task["request"]["epsilon"]))
        return run_task(process, task, **given)

    monkeypatch.setattr(ComputeHere, "run_task", noted)
    with serving(tmp_path) as running:
        furnish(running)
        held_up = running.worker._processes[0]._turn
        held_up.acquire()
        try:
            answers = [order_cheap(running, "ann", number) for number in range(MAX_WAITING + 3)]
            assert [one.status for one in answers[:MAX_WAITING]] == [202] * MAX_WAITING
            for one in answers[MAX_WAITING:]:
                refused(one, Code.BUSY)
            spent = budget_of(running, "ann")
            refused(order_cheap(running, "ann", 999), Code.BUSY)
            assert budget_of(running, "ann") == spent
            assert order_cheap(running, "ann", 0).json == answers[0].json  # a repeat is none
            others = [order_cheap(running, "bob", 100 + number) for number in range(3)]
            assert [one.status for one in others] == [202] * 3
        finally:
            held_up.release()
        for one in others:
            assert running.finished(one.json["id"], as_="bob")["state"] == "ok"
        turns = [epsilon > 0.01009 for epsilon in started[:7]]
        assert turns.count(True) == 3  # every second one, once ann's first was under way
        assert broken(running.state.ledger) == []


def test_orders_of_one_moment_do_not_exceed_the_limit(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order takes its place before it is charged, and leaves it if the charge is refused."""
    charging, go_on = threading.Semaphore(0), threading.Event()

    def refuse(*_: object) -> Charge:
        charging.release()
        assert go_on.wait(PATIENCE_SECONDS)
        raise ChargeRefusedError(Refusal.OWN_BUDGET)

    monkeypatch.setattr(Ledger, "charge", refuse)
    with ThreadPoolExecutor(MAX_WAITING + 3) as pool:
        sent = [pool.submit(order_cheap, server, "ann", 2000 + n) for n in range(MAX_WAITING + 3)]
        for _ in range(MAX_WAITING):
            assert charging.acquire(timeout=PATIENCE_SECONDS)
        rest = next(as_completed(sent, timeout=PATIENCE_SECONDS))  # a further one is not charged
        refused(rest.result(), Code.BUSY)
        go_on.set()
    codes = Counter(one.result().json["code"] for one in sent)
    assert codes == {"budget_refused": MAX_WAITING, "busy": 3}
    refused(order_cheap(server, "ann", 2999), Code.BUDGET_REFUSED)


def order_cheap(running: Running, who: str, number: int) -> Answer:
    """Order one of many different releases."""
    body = {**QUICK, "epsilon": 0.01 + number * 1e-6}
    return running.order(f"cheap-{number}", body, as_=who)


def budget_of(running: Running, who: str) -> bytes:
    """Return what a principal has spent."""
    return running.send("GET", "/v1/datasets/homes/budget", as_=who).body


def test_principals_take_turns() -> None:
    """Whatever the lengths of their lines; the order of each stays."""
    queue: FairQueue[str] = FairQueue()
    for number in range(4):
        queue.put(1, f"a{number}")
    queue.put(2, "b0")
    queue.put(3, "c0")
    queue.put(2, "b1")
    found = [queue.get() for _ in range(7)]
    assert found == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]
    queue.close()
    assert queue.get() is None


def test_several_releases_are_computed_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes compute for two principals; each waits for the other, so both are at work."""
    started: set[str] = set()
    changed = threading.Condition()
    run_task = ComputeProcess.run_task

    def together(process: ComputeProcess, task: dict[str, Any], **given: float) -> dict[str, Any]:
        if task["do"] == "release":
            with changed:  # a computation that is repeated does not wait again
                started.add(json.dumps(task["request"]))
                changed.notify_all()
                assert changed.wait_for(lambda: len(started) == 2, timeout=600), started
        return run_task(process, task, **given)

    monkeypatch.setattr(ComputeProcess, "run_task", together)
    with serving(tmp_path, compute_processes=2) as running:
        furnish(running)
        ordered = {who: order_cheap(running, who, ord(who[0])).json["id"] for who in ("ann", "bob")}
        for who, release in ordered.items():
            assert running.finished(release, as_=who)["state"] == "ok"
        assert broken(running.state.ledger) == []


def test_a_release_that_cannot_be_prepared_stays_pending(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails once before anything is computed: the charge is not lost."""
    failures = iter([sqlite3.OperationalError("disk I/O error")])

    def failing(connection: Connection, charge: Charge) -> Cumulative:
        for error in failures:
            raise error
        return cumulative_at(connection, charge)

    monkeypatch.setattr(server_state, "cumulative_at", failing)
    ordered = server.order("unprepared", {**QUICK, "epsilon": 0.036}).json["id"]
    assert server.finished(ordered)["state"] == "ok"
    assert next(failures, None) is None


def test_a_charge_is_recorded_before_it_is_computed(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker confirms each charge with the high-water mark, then computes."""
    while server.state.worker.queue_length:  # orders of other tests
        time.sleep(0.05)
    steps: list[str] = []
    confirm, run_task = Ledger.confirm, ComputeProcess.run_task

    def confirming(ledger: Ledger, charge: Charge) -> None:
        confirm(ledger, charge)
        steps.append("confirmed")

    def computing(process: ComputeProcess, task: dict[str, Any], **given: float) -> dict[str, Any]:
        steps.append(task["do"])
        return run_task(process, task, **given)

    monkeypatch.setattr(Ledger, "confirm", confirming)
    monkeypatch.setattr(ComputeProcess, "run_task", computing)
    ordered = server.order("recorded", {**QUICK, "epsilon": 0.037}).json["id"]
    assert server.finished(ordered)["state"] == "ok"
    assert [one for one in steps if one in ("confirmed", "release")] == ["confirmed", "release"]


def test_a_release_has_a_minimum_price(server: Running) -> None:
    """A tiny delta makes noise nearly free: the price at the delta of the data set decides."""
    cheap = {**QUICK, "epsilon": 0.002, "delta": 1e-300}
    spent = budget_of(server, "ann")
    for path in ("quotes", "releases"):
        got = server.send(
            "POST",
            f"/v1/datasets/homes/{path}",
            cheap,
            as_="ann",
            headers={"Idempotency-Key": "cheap"},
        )
        assert "at least 0.001" in refused(got, Code.INVALID_REQUEST).json["errors"][0]["rule"]
    assert budget_of(server, "ann") == spent
    assert server.order("not-cheap", {**QUICK, "epsilon": 0.002}).status == 202
    assert server.send("GET", "/v1/datasets/homes", as_="ann").json["minimum_epsilon"] == 0.001


# --- the ledger -----------------------------------------------------------------------------------


def entries_of(running: Running) -> int:
    """Return how many entries the ledger has."""
    with running.state.ledger.reading() as connection:
        return len(connection.execute(select(entry.c.seq)).all())


def test_keys_of_a_paid_request_do_not_fill_the_ledger(server: Running) -> None:
    """A hundred keys of one request: a few entries, one release, one payment."""
    body = {**QUICK, "epsilon": 0.035}
    first = server.order("keys-0", body).json["id"]
    assert server.finished(first)["state"] == "ok"
    spent, before = budget_of(server, "ann"), entries_of(server)
    answers = [server.order(f"keys-{number}", body) for number in range(1, 101)]
    assert {one.status for one in answers} == {200}
    assert entries_of(server) == before + MAX_KEYS - 1
    again = [server.order(f"keys-{number}", body) for number in range(101)]
    assert [one.json["id"] for one in again[1:]] == [one.json["id"] for one in answers]
    assert entries_of(server) == before + MAX_KEYS - 1
    assert budget_of(server, "ann") == spent
    bundles = {
        server.send("GET", f"{one.headers['location']}/bundle.zip", as_="ann").body for one in again
    }
    assert len(bundles) == 1
    refused(server.order("keys-3", {**body, "epsilon": 0.036}), Code.KEY_CONFLICT)


@pytest.mark.usefixtures("computing_here")
def test_many_keys_of_a_request_that_is_computed_are_refused(tmp_path: Path) -> None:
    """It may fail still, and then a key that is not recorded would be charged."""
    with serving(tmp_path) as running:
        furnish(running)
        held_up = running.worker._processes[0]._turn
        held_up.acquire()
        try:
            answers = [running.order(f"k{number}", QUICK) for number in range(MAX_KEYS + 2)]
        finally:
            held_up.release()
        assert [one.status for one in answers] == [202] * MAX_KEYS + [429] * 2
        assert running.finished(answers[0].json["id"])["state"] == "ok"
        late = running.order(f"k{MAX_KEYS}", QUICK)
        assert (late.status, late.json["id"]) == (200, answers[0].json["id"])
        assert broken(running.state.ledger) == []


def test_releases_are_listed_in_pages_and_one_query(server: Running) -> None:
    """As many statements for one release as for many; pages follow each other without a gap."""
    ordered = {order_cheap(server, "ann", 500 + number).json["id"] for number in range(5)}
    found = server.send("GET", "/v1/releases?limit=100", as_="ann").json["releases"]
    listed = [one["id"] for one in found]
    assert ordered <= {*listed}
    statements: list[str] = []

    def count(_: object, __: object, statement: str, *___: object) -> None:
        # The lease, the worker and the ledger have threads, and statements, of their own.
        of_request = threading.current_thread().name.startswith("AnyIO")
        if of_request and "FROM token" not in statement:  # tokens are read once in a second
            statements.append(statement)

    event.listen(server.state.ledger.engine, "before_cursor_execute", count)
    try:
        counts = []
        for limit in (1, 100):
            statements.clear()
            server.send("GET", f"/v1/releases?limit={limit}", as_="ann")
            counts.append(len(statements))
        assert counts[0] == counts[1] > 0
    finally:
        event.remove(server.state.ledger.engine, "before_cursor_execute", count)
    pages, last = [], ""
    while True:
        page = server.send("GET", f"/v1/releases?limit=2{last}", as_="ann").json["releases"]
        if not page:
            break
        pages += [one["id"] for one in page]
        last = f"&before={page[-1]['id']}"
    assert pages == listed
    connected = client.connect(server.url, server.tokens["ann"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "_PAGE", 2)
        assert [one["id"] for one in connected.releases(limit=500)] == listed
        for limit in (1, 2, 3):
            assert [one["id"] for one in connected.releases(limit=limit)] == listed[:limit]
    for odd in ("limit=0", "limit=101", "limit=x", f"before={'1' * 41}"):
        refused(server.send("GET", f"/v1/releases?{odd}", as_="ann"), Code.INVALID_REQUEST)
    refused(server.send("GET", "/v1/releases?before=1-999999", as_="ann"), Code.NOT_FOUND)


def test_the_noise_of_one_address_hides_no_event_of_another() -> None:
    """Security events are throttled by address."""
    throttle = LogThrottle()

    def written(address: str, number: int) -> int:
        begin_record("", address)
        record = partial(logging.LogRecord, SECURITY_LOGGER, logging.WARNING, "", 0, "x", (), None)
        return sum(throttle.filter(record()) for _ in range(number))

    # Each in a context of its own: the record of a request must not outlive it.
    assert copy_context().run(written, "10.0.0.1", 100) == 5
    assert copy_context().run(written, "10.0.0.2", 1) == 1
