"""How requests arrive: by TLS of our own, or from a proxy that is believed, and from no other."""

import http.client
import json
import socket
import ssl
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.certificates import self_signed
from tests.live_server import Running, refused, serving
from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.server.auth.access import Limits, Rate
from wattveil.server.http import connections
from wattveil.server.http.problems import Code
from wattveil.server.observe.json_logs import JsonFormatter
from wattveil.server.observe.request_record import SECURITY_LOGGER
from wattveil.server.run import check_host, transport

FEW = Limits(requests=Rate(1e9, 1e9), failed_tokens=Rate(2, 1e-6))


def test_a_server_speaks_https_and_nothing_else(tmp_path: Path) -> None:
    """The cookie is for https alone, and browsers are instructed to keep to it."""
    certificate = self_signed(tmp_path)
    (tmp_path / "data").mkdir()
    with serving(tmp_path / "data", tls=certificate) as running:
        trusted = ssl.create_default_context(cafile=certificate[0])
        connection = http.client.HTTPSConnection("127.0.0.1", running.port, context=trusted)
        sent = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/sign-in", f"token={running.tokens['owner']}", sent)
        answer = connection.getresponse()
        assert answer.status == 303
        assert "secure" in str(answer.headers["set-cookie"]).lower()
        assert "max-age" in str(answer.headers["strict-transport-security"])
        connection.close()
        with pytest.raises((http.client.HTTPException, OSError)):
            running.send("GET", "/healthz", as_=None)
    with pytest.raises(InvalidParameterError, match="together"):
        transport((certificate[0], None), None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "data.town.example"])  # noqa: S104 - refused
def test_plain_http_stays_on_the_machine(tmp_path: Path, host: str) -> None:
    """Tokens would be read on the way: it does not start, and makes nothing."""
    data = tmp_path / "server"
    plain = ["serve", "--data", str(data), "--host", host, "--port", "0"]
    result = CliRunner().invoke(app, plain, terminal_width=300)
    assert result.exit_code == 2
    said = " ".join(result.output.replace("│", " ").split())
    assert "host must be of the loopback, as 127.0.0.1 is, without --tls-certificate and" in said
    assert not data.exists()


def test_what_may_be_listened_on() -> None:
    """The loopback by any of its names; everything with TLS or behind a proxy."""
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        check_host(host, protected=False)
    for host in ("0.0.0.0", "data.town.example"):  # noqa: S104 - no socket is opened
        check_host(host, protected=True)


def guesses(server: Running, *addresses: str) -> list[int]:
    """Come with false tokens, from forged addresses."""
    return [
        server.send(
            "GET", "/v1/me", as_=None, headers={"X-Forwarded-For": one, "Authorization": "Bearer x"}
        ).status
        for one in addresses
    ]


def addresses_in(log: pytest.LogCaptureFixture) -> list[str]:
    """Return the addresses in the lines of security events, as they are written."""
    lines = [json.loads(line) for line in log.text.splitlines()]
    return [line["address"] for line in lines if line["logger"] == SECURITY_LOGGER]


def test_a_proxy_that_is_named_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its word on address and scheme; each address behind it is slowed and logged by itself."""
    caplog.handler.setFormatter(JsonFormatter())
    with serving(tmp_path, limits=FEW, behind_proxy="127.0.0.1") as running:
        assert guesses(running, *["192.0.2.1"] * 3, "192.0.2.2") == [401, 401, 429, 401]
        assert addresses_in(caplog) == [*["192.0.2.1"] * 3, "192.0.2.2"]
        secure = running.send("GET", "/healthz", headers={"X-Forwarded-Proto": "https"}).headers
        assert "strict-transport-security" in secure
        assert "strict-transport-security" not in running.send("GET", "/healthz").headers


@pytest.mark.parametrize("proxy", [None, "192.0.2.9"])
def test_only_a_trusted_proxy_sets_the_client_address(
    tmp_path: Path, proxy: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that forges a new address per request is rate limited, and logged as what it is."""
    caplog.handler.setFormatter(JsonFormatter())
    with serving(tmp_path, limits=FEW, behind_proxy=proxy) as running:
        different = [f"192.0.2.{number}" for number in range(1, 5)]
        assert guesses(running, *different) == [401, 401, 429, 429]
        assert addresses_in(caplog) == ["127.0.0.1"] * 4
        plain = running.send("GET", "/healthz", headers={"X-Forwarded-Proto": "https"}).headers
        assert "strict-transport-security" not in plain
        refused(running.send("GET", "/v1/me", as_=None), Code.BUSY)


REQUEST_HEAD = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"


def test_who_sends_no_head_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent from the start, in the middle of a head, or after one answer: the place is free."""
    monkeypatch.setattr(connections, "_MAX_HEAD_SECONDS", 1.0)
    with serving(tmp_path) as running:
        for sent in (b"", REQUEST_HEAD):
            with socket.create_connection(("127.0.0.1", running.port), timeout=600) as silent:
                silent.sendall(sent)
                assert silent.recv(4096) == b""  # it is closed
        with socket.create_connection(("127.0.0.1", running.port), timeout=600) as silent:
            silent.sendall(REQUEST_HEAD + b"\r\n")
            answered = http.client.HTTPResponse(silent)
            answered.begin()
            assert (answered.status, answered.read()) == (200, b'{"status":"ok"}')
            silent.sendall(b"G")
            assert silent.recv(4096) == b""


def test_who_does_not_read_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many responses are requested and none is read: the place is free, for others too."""
    monkeypatch.setattr(connections, "_MAX_UNREAD_SECONDS", 0.2)
    requests = REQUEST_HEAD.replace(b"/healthz", b"/v1/openapi.json") + b"\r\n"
    with serving(tmp_path) as running:
        here = "127.0.0.1", running.port
        with socket.create_connection(here, timeout=600) as deaf, suppress(ConnectionError):
            while True:  # until it is closed; else the time is over, which is no such error
                deaf.sendall(100 * requests)
        assert running.send("GET", "/healthz").status == HTTPStatus.OK


def test_who_has_sent_a_head_may_take_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is for heads: a body has its own, and so has an answer."""
    monkeypatch.setattr(connections, "_MAX_HEAD_SECONDS", 1.0)
    with serving(tmp_path) as running:
        slow = http.client.HTTPConnection("127.0.0.1", running.port, timeout=600)
        for _ in range(2):  # the second request on the same connection likewise
            slow.putrequest("POST", "/v1/nowhere")
            slow.putheader("Content-Length", "2")
            slow.endheaders()
            time.sleep(1.5)
            slow.send(b"PK")
            answer = slow.getresponse()
            assert answer.status == Code.NOT_FOUND.status
            answer.read()
        slow.close()
