"""How requests arrive: by TLS of our own, or from a proxy that is believed, and from no other."""

import http.client
import json
import re
import socket
import ssl
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from typer.testing import CliRunner

from tests.certificates import self_signed
from tests.live_server import Running, refused, serving
from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.server.auth.access import Limits, Rate
from wattveil.server.http import connections
from wattveil.server.http.problems import Code
from wattveil.server.observe.json_logs import JsonFormatter
from wattveil.server.observe.lifecycle_logs import log_keys
from wattveil.server.observe.request_record import SECURITY_LOGGER
from wattveil.server.run import check_host, transport
from wattveil.server.server_state import ServerState
from wattveil.server.tls_files import check_pair, expiry, log_expiry

FEW = Limits(requests=Rate(1e9, 1e9), priced=Rate(1e9, 1e9), failed_tokens=Rate(2, 1e-6))


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
        connection.request(
            "GET", "/metrics", headers={"Authorization": f"Bearer {running.tokens['owner']}"}
        )
        metrics = connection.getresponse().read().decode()
        connection.close()
        (stated,) = re.findall(r"\nwattveil_tls_certificate_expiry_seconds (\S+)\n", metrics)
        assert float(stated) == expiry(certificate[0]).timestamp() > time.time()
        with pytest.raises((http.client.HTTPException, OSError)):
            running.send("GET", "/healthz", as_=None)
    with pytest.raises(InvalidParameterError, match="together"):
        transport((certificate[0], None), ())


def test_a_pair_that_does_not_fit_is_refused_at_once(tmp_path: Path) -> None:
    """By its option, before anything is created: no token is printed."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for one in folders:
        one.mkdir()
    (certificate, key), (_, other) = map(self_signed, folders)
    words, secret = tmp_path / "words.pem", tmp_path / "secret.key"
    words.write_text("no certificate")
    loaded = load_pem_private_key(key.read_bytes(), None)
    form = Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase")
    secret.write_bytes(loaded.private_bytes(*form))
    for pair, named in (
        ((certificate, other), "--tls-key must be the private key of --tls-certificate"),
        ((certificate, words), "--tls-key must be a key in PEM format"),
        ((certificate, secret), "without a passphrase"),
        ((words, key), "--tls-certificate must be a certificate in PEM format"),
        ((certificate, tmp_path / "none"), "--tls-key must be a file that exists"),
    ):
        data = tmp_path / "server"
        given = ["--tls-certificate", str(pair[0]), "--tls-key", str(pair[1]), "--port", "0"]
        result = CliRunner().invoke(app, ["serve", "--data", str(data), *given])
        assert (result.exit_code, result.stdout) == (2, "")
        assert named in result.stderr
        assert not data.exists()


@pytest.mark.parametrize(
    ("days", "words"), [(-1, ["has expired"]), (5, ["expires soon"]), (60, [])]
)
def test_an_expired_certificate_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: float, words: list[str]
) -> None:
    """With its end; one that is valid for weeks is not."""
    certificate, key = self_signed(tmp_path, days=days)
    check_pair(certificate, key)
    log_expiry(certificate)
    logged = [one.message.removeprefix("the TLS certificate ") for one in caplog.records]
    assert logged == words


def test_a_key_that_cannot_be_read_is_logged_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By its file; `/readyz` would name it later."""
    ServerState.open(tmp_path).close()
    log_keys(tmp_path)
    assert not caplog.records
    (tmp_path / "release.key").write_text("damaged")
    (tmp_path / "fingerprint.key").unlink()
    log_keys(tmp_path)
    files = [Path(vars(one)["fields"]["file"]).name for one in caplog.records]
    assert files == ["release.key", "fingerprint.key"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "data.town.example"])  # noqa: S104 - refused
def test_plain_http_stays_on_the_machine(tmp_path: Path, host: str) -> None:
    """Tokens would be read on the way: it does not start, and makes nothing."""
    data = tmp_path / "server"
    plain = ["serve", "--data", str(data), "--host", host, "--port", "0"]
    result = CliRunner().invoke(app, plain, terminal_width=300)
    assert result.exit_code == 2
    said = " ".join(result.output.replace("│", " ").split())
    assert (
        "host must be a loopback address such as 127.0.0.1, without --tls-certificate and" in said
    )
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
    with serving(tmp_path, limits=FEW, behind_proxy=("127.0.0.1",)) as running:
        assert guesses(running, *["192.0.2.1"] * 3, "192.0.2.2") == [401, 401, 429, 401]
        assert addresses_in(caplog) == [*["192.0.2.1"] * 3, "192.0.2.2"]
        secure = running.send("GET", "/healthz", headers={"X-Forwarded-Proto": "https"}).headers
        assert "strict-transport-security" in secure
        assert "strict-transport-security" not in running.send("GET", "/healthz").headers


@pytest.mark.parametrize("proxy", ["127.0.0.0/30", "127.0.0.0/8"])
def test_a_network_of_proxies_is_believed(tmp_path: Path, proxy: str) -> None:
    """Whatever address of it the request comes from."""
    with serving(tmp_path, limits=FEW, behind_proxy=(proxy, "10.0.0.1")) as running:
        assert guesses(running, *["192.0.2.1"] * 3, "192.0.2.2") == [401, 401, 429, 401]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("proxy.town.example", "an IP address or a network"),
        ("localhost", "an IP address or a network"),
        ("*", "an IP address or a network"),
        ("", "an IP address or a network"),
        ("10.0.0", "an IP address or a network"),
        ("10.0.0.1,10.0.0.2", "an IP address or a network"),
        ("10.0.0.1/33", "an IP address or a network"),
        ("10.0.0.1/24", "the network of this address is 10.0.0.0/24"),
        ("0.0.0.0/0", "/8 at least"),
        ("128.0.0.0/1", "/8 at least"),
        ("10.0.0.0/7", "/8 at least"),
        ("::/0", "/104 at least"),
        ("8000::/1", "/16 at least"),
        ("2000::/15", "/16 at least"),
        ("::/16", "/104 at least"),  # contains every IPv4 address
        ("::ffff:0:0/96", "/104 at least"),
    ],
)
def test_a_proxy_is_an_address_or_a_network(given: str, rule: str) -> None:
    """Anything else would match no client, or every one; the error names value and rule."""
    with pytest.raises(InvalidParameterError) as refusal:
        transport((None, None), ("10.0.0.1", given))
    assert (refusal.value.field, refusal.value.value) == ("behind_proxy", given)
    assert rule in refusal.value.rule


def test_proxies_are_given_in_their_usual_form() -> None:
    """Uvicorn compares networks as text that it parses itself."""
    found = transport((None, None), ("10.0.0.0/8", "2001:DB8:0::/48", "::1"))["forwarded_allow_ips"]
    assert found == ["10.0.0.0/8", "2001:db8::/48", "::1"]


@pytest.mark.parametrize("proxy", [(), ("192.0.2.9",), ("192.0.2.0/24",)])
def test_only_a_trusted_proxy_sets_the_client_address(
    tmp_path: Path, proxy: tuple[str, ...], caplog: pytest.LogCaptureFixture
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


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/me", "/v1/admin/principals"])
def test_tokens_are_not_guessed_unthrottled_where_there_is_no_route(
    tmp_path: Path, path: str
) -> None:
    """A body that only a known sender is told about must not tell whether a token is valid."""
    body = b'{"a": 1, "a": 2}'
    wrong = {"Authorization": "Bearer wattveil_guess", "Content-Type": "application/json"}
    with serving(tmp_path, limits=FEW) as running:
        got = [running.send("POST", path, body, as_=None, headers=wrong).status for _ in range(4)]
        assert got == [401, 401, 429, 429]


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
