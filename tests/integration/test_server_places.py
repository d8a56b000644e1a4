"""Places of connections: clients that keep the server busy do not keep others out.

No test measures a time. Each attack would go on for as long as its clients like; the request of
another client is answered while it goes on.
"""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.live_server import Running, serving
from wattveil.server import run
from wattveil.server.auth.access import Limits, Rate
from wattveil.server.http import connections, middleware

FOR_EVER = 3600.0
PLACES = 8
REFUSED = b"GET /v1/me HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer no\r\n\r\n"
ANSWERED = b"GET /sign-in HTTP/1.1\r\nHost: here\r\n\r\n"
ALIVE = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
NO_FAILURES = Limits(requests=Rate(1e9, 1e9), priced=Rate(1e9, 1e9), failed_tokens=Rate(0.0, 0.0))


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a small limit of connections, which no time limit frees."""
    monkeypatch.setattr(connections, "_MAX_CONNECTIONS", PLACES)
    monkeypatch.setattr(connections, "_MAX_HEAD_SECONDS", FOR_EVER)
    monkeypatch.setattr(connections, "_FIRST_SECONDS", FOR_EVER)
    monkeypatch.setattr(run, "_GRACE_SECONDS", 1)  # requests in a pause do not end


def connected(port: int, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    """Open a connection from an address of the loopback, and send something."""
    one = socket.create_connection(("127.0.0.1", port), timeout=600, source_address=(source, 0))
    one.sendall(sent)
    return one


def is_alive(running: Running) -> None:
    """Check that others are answered."""
    for _ in range(5):
        assert running.send("GET", "/healthz", as_=None).status == HTTPStatus.OK


def test_connections_in_the_pause_of_a_refusal_give_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as many as there are places, in a pause without end."""
    monkeypatch.setattr(middleware, "_BUSY_SECONDS", FOR_EVER)
    with serving(tmp_path, limits=NO_FAILURES) as running, ExitStack() as stack:
        for _ in range(3 * PLACES):
            stack.enter_context(connected(running.port, REFUSED))
        is_alive(running)


def test_a_refusal_as_busy_is_the_last_response_of_its_connection(tmp_path: Path) -> None:
    """A client that is refused must connect again; the requests that it has sent are dropped."""
    with (
        serving(tmp_path, limits=NO_FAILURES) as running,
        connected(running.port, 3 * REFUSED) as one,
    ):
        got = b"".join(iter(lambda: one.recv(65536), b""))
        assert got.startswith(b"HTTP/1.1 429")
        assert got.count(b"HTTP/1.1 ") == 1
        assert b"connection: close\r\n" in got.lower()


@contextmanager
def busy(port: int, number: int) -> Iterator[None]:
    """Have clients that always wait for several responses, and connect again when closed."""
    begun, stop = threading.Semaphore(0), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            with suppress(OSError), connected(port, 4 * ANSWERED) as one:
                while not stop.is_set() and (got := one.recv(65536)):
                    begun.release()
                    one.sendall(got.count(b"HTTP/1.1 ") * ANSWERED)

    with ThreadPoolExecutor(number) as pool:
        for _ in range(number):
            pool.submit(ask)
        try:
            for _ in range(2 * PLACES):
                begun.acquire()
            yield
        finally:
            stop.set()


def test_connections_that_send_request_after_request_give_way(tmp_path: Path) -> None:
    """The server works for each of them at any time: one that is answered is closed."""
    with serving(tmp_path) as running, busy(running.port, 2 * PLACES):
        is_alive(running)


def is_answered(one: socket.socket) -> bool:
    """Send a request on an open connection, and read its whole response."""
    one.sendall(ALIVE)
    got = b""
    while not got.endswith(b'{"status":"ok"}'):
        more = one.recv(65536)
        if not more:
            return False
        got += more
    return True


@pytest.mark.parametrize("sent", [b"", b"GET"], ids=["idle", "begun"])
def test_a_burst_of_new_connections_closes_none_of_another_address(
    tmp_path: Path, sent: bytes
) -> None:
    """An analyst's connection stays open between requests, though all of the attacker's are new."""
    with serving(tmp_path) as running, ExitStack() as stack:
        own = stack.enter_context(connected(running.port))
        assert is_answered(own)
        for _ in range(3 * PLACES):
            stack.enter_context(connected(running.port, sent, source="127.0.0.2"))
        is_alive(running)
        assert is_answered(own)


@pytest.mark.parametrize("proxy", [(), ("127.0.0.2",)])
def test_one_address_has_half_of_the_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: tuple[str, ...]
) -> None:
    """Further connections of it are closed at once; those of the trusted proxy are not."""
    monkeypatch.setattr(connections, "_is_local", lambda _: False)
    with serving(tmp_path, behind_proxy=proxy) as running, ExitStack() as stack:

        def is_served(source: str) -> bool:
            one = stack.enter_context(connected(running.port, source=source))
            with suppress(ConnectionError):
                one.sendall(ALIVE)
                return one.recv(65536).startswith(b"HTTP/1.1 200")
            return False

        served = [is_served("127.0.0.2") for _ in range(PLACES - 2)]
        assert served == [True] * (PLACES // 2) + [bool(proxy)] * (PLACES // 2 - 2)
        assert is_served("127.0.0.3")


def test_clients_of_this_machine_may_have_all_places() -> None:
    """A proxy that is not named, or a tunnel, carries many clients."""
    addresses = ("127.0.0.1", "::1", "", "192.0.2.1", "2001:db8::1")
    assert [connections._is_local(one) for one in addresses] == [True, True, True, False, False]
