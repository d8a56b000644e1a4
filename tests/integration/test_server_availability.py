"""One client cannot take the service from others: connections, downloads, the queue, the disk.

No test measures a time. Each attack is one that would go on for as long as its clients like; the
request of another client is answered while it goes on.
"""

import http.client
import logging
import re
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.certificates import self_signed
from tests.live_server import Running, serving
from tests.process_guard import guarded
from wattveil.server.http import connections
from wattveil.server.log_throttle import LogThrottle

FOR_EVER = 3600.0
HEAD = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
SLOW_BODY = b"POST /v1/verify HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n"


@contextmanager
def held(port: int, number: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that never complete a request."""
    with ExitStack() as stack:
        found = []
        for _ in range(number):
            one = socket.create_connection(("127.0.0.1", port), timeout=60)
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
    return 8


@pytest.mark.parametrize("sent", [b"", HEAD, SLOW_BODY], ids=["silent", "head", "body"])
def test_connections_that_wait_for_their_client_give_way(
    tmp_path: Path, few_places: int, sent: bytes
) -> None:
    """Three times as many as there are places: the server accepts others all the same."""
    with serving(tmp_path) as running, held(running.port, 3 * few_places, sent) as idle:
        is_alive(running)
        closed = 0
        for one in idle[: 2 * few_places]:  # the oldest gave way
            closed += one.recv(65536) == b"" if sent != SLOW_BODY else 1
        assert closed == 2 * few_places


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
                "127.0.0.1", running.port, context=trusted, timeout=60
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
                    one = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
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
