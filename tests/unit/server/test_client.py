"""Client: one server, one token, no redirects, limits, and errors for any response."""

import io
import json
import re
import socket
import ssl
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.certificates import self_signed
from tests.fake_clock import fake_clock
from wattveil import connect
from wattveil.bundle.verify.verify_bundle import VerificationReport
from wattveil.declaration import unknown_field
from wattveil.errors import InvalidParameterError, ProductNeedsError, ServerRefusalError
from wattveil.server import client, client_transport
from wattveil.server.client import (
    Quote,
    RemoteBudget,
    RemoteDatasets,
    RemoteRelease,
    RemoteReleases,
)
from wattveil.server.client_transport import Transport
from wattveil.web.budget_texts import SHARE_OF_BUDGET

TOKEN = "wattveil_secret"  # noqa: S105 - of no server


class Peer:
    """TCP server that records requests and sends prepared bytes."""

    def __init__(
        self, answer: Callable[[bytes], bytes | None], tls: tuple[Path, Path] | None
    ) -> None:
        self.received: list[bytes] = []
        self._answer = answer
        self._context = None
        if tls is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*tls)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """End the thread: it waits for a connection."""
        self._ended.set()
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            raw, _ = self._listener.accept()
            with raw, suppress(OSError):
                if self._ended.is_set():
                    return
                raw.settimeout(120)
                if self._context is None:
                    self._respond(raw)
                    continue
                with self._context.wrap_socket(raw, server_side=True) as secure:
                    self._respond(secure)

    def _respond(self, connection: socket.socket) -> None:
        request = b""
        while not _whole(request):
            piece = connection.recv(65536)
            if not piece:
                break
            request += piece
        if not request:
            return
        self.received.append(request)
        response = self._answer(request)
        if response is None:  # silent until the client gives up
            connection.recv(1)
        else:
            connection.sendall(response)


def _whole(request: bytes) -> bool:
    """Return whether head and body have arrived: a close before that resets the connection."""
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


@contextmanager
def peer(
    answer: bytes | Callable[[bytes], bytes | None] | None, tls: tuple[Path, Path] | None = None
) -> Iterator[Peer]:
    """Serve prepared bytes until the block ends."""
    found = Peer(answer if callable(answer) else lambda _: answer, tls)
    try:
        yield found
    finally:
        found.close()


OWN_CODES = ("unreachable", "invalid_response", "response_too_large")


def response(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """Return an HTTP response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def code_of(call: Callable[[], object]) -> str:
    """Return the code of the error that a call raises."""
    with pytest.raises(ServerRefusalError) as caught:
        call()
    assert TOKEN not in str(caught.value)
    # Only a server can refuse: one that does not respond has refused nothing.
    assert ("refused" in str(caught.value).partition("(")[0]) == (
        caught.value.code not in OWN_CODES
    )
    return caught.value.code


@pytest.mark.parametrize(
    "url",
    [
        "http://data.example",
        "ftp://127.0.0.1",
        "data.example",
        "https://",
        "https://127.0.0.1:port",
        "https://user:pass-word@data.example",
        "https://data.example?x=1",
        "https://data.example#x",
        "http://127.0.0.1.data.example",
        "http://127.0.0.1@data.example",
        "https://data\n.example",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    """The token could be read in transit, or the address means something else."""
    with pytest.raises(InvalidParameterError) as caught:
        connect(url, TOKEN)
    assert caught.value.field == "url"
    if url in {"http://data.example", "ftp://127.0.0.1", "data.example"}:
        assert str(caught.value) == (
            "url must start with https:// (http:// is accepted only for loopback addresses,"
            " because the token could be read in transit)"
        )
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "tök", "line\r\nX: y"])
def test_tokens_that_are_refused(token: str) -> None:
    """A header cannot hold them; the text is not repeated."""
    with pytest.raises(InvalidParameterError) as caught:
        connect("https://data.example", token)
    assert caught.value.field == "token"
    assert not token or token not in str(caught.value)
    assert ("token is empty" in str(caught.value)) == (not token)


def test_the_token_is_in_no_text() -> None:
    """`repr` shows the address alone."""
    assert repr(connect("https://data.example/", TOKEN)) == "Connection('https://data.example')"


def test_texts_of_data_sets_and_releases_are_short() -> None:
    """A line each: no nested description, no token; `print` of a lost release is no error."""
    description = {"title": "Town", "customers": 500, "closed": True, "grid": {"minutes": 30}}
    with peer(response(json.dumps(description).encode())) as one:
        dataset = connect(one.url, TOKEN).dataset("homes")
        text = str(dataset)
        assert all(word in text for word in ("'homes'", one.url, "Town", "500", "closed"))
        assert "{" not in text
        assert TOKEN not in text
    manifest = {
        "products": [{"tables": [{"name": "centroids"}]}],
        "guarantee_text": "epsilon 1 at delta 1e-06.",
    }
    with peer(response(json.dumps(manifest).encode())) as one:
        release = RemoteRelease(Transport(one.url, TOKEN), "1-5")
        assert repr(release) == f"RemoteRelease('1-5' of {one.url})"
        ordered = RemoteRelease(release.transport, "1-5", {"dataset": "homes", "state": "ok"})
        assert repr(ordered) == f"RemoteRelease('1-5' of {one.url}: homes)"
        assert one.received == []
        assert "centroids; epsilon 1" in str(release)
    assert "unreachable" in str(RemoteRelease(Transport(one.url, TOKEN), "1-5"))


def test_a_redirect_is_refused_and_the_other_host_gets_nothing() -> None:
    """The token would be sent there."""
    with peer(response(b"{}")) as other:
        for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
            with peer(response(b"", status, Location=f"{other.url}/v1/datasets")) as first:
                transport = Transport(first.url, TOKEN)
                assert code_of(partial(transport.get, "/v1/datasets")) == status[:3]
                assert code_of(partial(transport.post, "/v1/datasets", {})) == status[:3]
                assert len(first.received) == 2
        assert other.received == []


@pytest.mark.parametrize("path", ["@{host}/v1", ".data.example/v1", "http://{host}/v1", ""])
def test_a_path_cannot_name_another_host(path: str) -> None:
    """A path is appended to the address: it begins with a slash."""
    with peer(response(b"{}")) as other, pytest.raises(InvalidParameterError, match="path"):
        Transport("http://127.0.0.1:1", TOKEN).get(path.format(host=f"127.0.0.1:{other.port}"))
    assert other.received == []


def test_paths_that_look_like_another_host_stay_on_this_one() -> None:
    """`//host` after an address is a path."""
    with peer(response(b"{}")) as first, peer(response(b"{}")) as other:
        Transport(first.url, TOKEN).get(f"//127.0.0.1:{other.port}/v1")
        assert len(first.received) == 1
        assert other.received == []
    with pytest.raises(InvalidParameterError, match="path"):
        Transport("http://127.0.0.1:1", TOKEN).get("/" + 70_000 * "x")


def test_what_is_sent() -> None:
    """Token, no compression, the path below that of the address, and no cookie of a response."""
    with peer(response(b"{}", Set_Cookie="a=b; Path=/")) as first:
        transport = Transport(f"{first.url}/town/", TOKEN)
        transport.get(f"/v1/datasets/{transport.quoted('a/b c')}")
        transport.post("/v1/x", {"a": 1}, {"Idempotency-Key": "k"})
    get, post = (one.decode().lower() for one in first.received)
    assert get.startswith("get /town/v1/datasets/a%2fb%20c http/1.1\r\n")
    assert f"authorization: bearer {TOKEN}\r\n" in get
    assert "accept-encoding: identity\r\n" in get
    assert "idempotency-key: k\r\n" in post
    assert "content-type: application/json\r\n" in post
    assert "cookie" not in get + post


@pytest.mark.parametrize("key", ["", "two words", "ü", "k\r\nX: y"])
def test_idempotency_keys_that_no_header_can_hold(key: str) -> None:
    """Refused before anything is sent."""
    dataset = client.RemoteDataset(Transport("http://127.0.0.1:1", TOKEN), "homes", {})
    with pytest.raises(InvalidParameterError, match="key"):
        dataset.release(key=key, epsilon=1.0)


def test_a_response_has_a_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files, of JSON and of problems; also if the length is not stated."""
    monkeypatch.setattr(client_transport, "_MAX_JSON_BYTES", 100)
    large = json.dumps({"x": 200 * "y"}).encode()
    with peer(response(large)) as one:
        transport = Transport(one.url, TOKEN)
        assert code_of(lambda: transport.get("/x")) == "response_too_large"
        assert code_of(lambda: transport.post("/x", {})) == "response_too_large"
        assert code_of(lambda: transport.fetch("/x", max_bytes=199)) == "response_too_large"
        file = io.BytesIO()
        assert (
            code_of(lambda: transport.download("/x", file, max_bytes=199)) == "response_too_large"
        )
        assert len(file.getvalue()) <= 199
        assert transport.fetch("/x") == large
    with peer(response(large, "500 Error")) as one:
        assert code_of(lambda: Transport(one.url, TOKEN).fetch("/x")) == "response_too_large"
    with peer(b"HTTP/1.1 200 OK\r\n\r\n" + large) as one:
        assert code_of(lambda: Transport(one.url, TOKEN).get("/x")) == "response_too_large"


def test_a_silent_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step has a time limit."""
    assert all(client_transport._TIMEOUT.as_dict().values())
    monkeypatch.setattr(client_transport, "_TIMEOUT", httpx.Timeout(0.3))
    with peer(None) as one, pytest.raises(ServerRefusalError, match=r"unreachable.*ReadTimeout"):
        Transport(one.url, TOKEN).get("/x")


def test_a_restart_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is read again until the time is over; a refusal is no restart."""
    clock = fake_clock(monkeypatch, client)
    states: list[str] = []

    def read(_: RemoteRelease) -> str:
        found = states.pop(0) if len(states) > 1 else states[0]
        if found in {"computing", "ok"}:
            return found
        raise ServerRefusalError(found, "x", {})

    monkeypatch.setattr(RemoteRelease, "state", property(read))
    release = RemoteRelease(Transport("https://data.example", TOKEN), "1-2")
    states[:] = ["computing", "unreachable", "503", "unavailable", "ok"]
    release.wait(60)
    assert states == ["ok"]
    for said, error, code in (
        ("unreachable", ServerRefusalError, "unreachable"),  # until the end
        ("unauthorized", ServerRefusalError, "unauthorized"),  # at once
        ("computing", TimeoutError, "still being computed"),
    ):
        states[:], before = [said], clock.now
        with pytest.raises(error, match=code):
            release.wait(60)
        assert (clock.now - before >= 60) == (said != "unauthorized")


def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown issuer is refused before the token is sent; `SSL_CERT_FILE` adds one."""
    files = self_signed(tmp_path)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with peer(response(b'{"a": 1}'), files) as one:
        with pytest.raises(ServerRefusalError, match=r"unreachable.*CERTIFICATE_VERIFY_FAILED"):
            Transport(one.url, TOKEN).get("/x")
        assert one.received == []
        monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
        assert Transport(one.url, TOKEN).get("/x") == {"a": 1}
        with pytest.raises(ServerRefusalError, match=r"unreachable.*Hostname mismatch"):
            Transport(one.url.replace("127.0.0.1", "localhost"), TOKEN).get("/x")
        assert len(one.received) == 1


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", "unreachable"),
        (b"SSH-2.0-x\r\n", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "unreachable"),
        (response(b"<html>"), "invalid_response"),
        (response(b"[1]"), "invalid_response"),
        (response(b"\xff\xfe\xff"), "invalid_response"),
        (response(100_000 * b"["), "invalid_response"),
        (response(b"", "204 No Content"), "invalid_response"),
        (response(b"{}"), "invalid_response"),
        (response(b"\x1f\x8b", Content_Encoding="gzip"), "invalid_response"),
        (response(b"<html>", "502 Bad Gateway"), "502"),
        (response(b"[]", "404 Not Found"), "404"),
        (response(b'{"title": "x"}', "404 Not Found"), "404"),
        (response(b'{"code": "not_found", "title": "x"}', "404 Not Found"), "not_found"),
    ],
)
def test_any_response_that_is_not_of_a_server_is_an_error(sent: bytes, code: str) -> None:
    """Of the exception tree, never one of a library."""
    with peer(sent) as one:
        connection = connect(one.url, TOKEN)
        assert code_of(connection.datasets) == code
        assert code_of(lambda: connection.release("r")) == code
    assert code_of(connection.datasets) == "unreachable"  # it has ended


def test_details_of_a_problem() -> None:
    """Fields beyond the standard ones become details."""
    problem = {"code": "busy", "title": "slow down", "status": 429, "retry_seconds": 3}
    with peer(response(json.dumps(problem).encode(), "429 Too Many")) as one:
        with pytest.raises(ServerRefusalError, match="slow down; retry_seconds: 3") as caught:
            connect(one.url, TOKEN).datasets()
        assert caught.value.details == {"retry_seconds": 3}


def zipped(**files: bytes) -> bytes:
    """Return an archive; in names, two underscores stand for a slash."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/"), data)
    return target.getvalue()


@contextmanager
def releasing(
    archive: bytes, *payload: str, table: bytes = b"no table"
) -> Iterator[tuple[RemoteRelease, Peer]]:
    """Serve one release with a manifest that lists these files."""
    tables = [{"name": Path(path).stem} for path in payload if path.endswith(".parquet")]
    listed = [{"path": path} for path in payload]
    manifest = json.dumps({"payload": listed, "products": [{"tables": tables}]}).encode()

    def answer(request: bytes) -> bytes:
        path = request.split(b" ")[1]
        if path.endswith(b"/bundle.zip"):
            return response(archive)
        return response(manifest if path.endswith(b"/manifest") else table)

    with peer(answer) as one:
        yield RemoteRelease(Transport(one.url, TOKEN), "../r"), one


def test_a_bundle_is_downloaded(tmp_path: Path) -> None:
    """Files in their folders; the identifier is one segment of the path."""
    archive = zipped(**{"manifest.json": b"{}", "tables__a.parquet": b"x"})
    with releasing(archive, "tables/a.parquet") as (release, one):
        release.download(tmp_path / "out")
        with pytest.raises(InvalidParameterError):
            release.to_arrow("b")
        with pytest.raises(ServerRefusalError, match="not a Parquet file"):
            release.to_arrow("a")
        assert release.download(tmp_path / "out.zip").is_file()
        assert not release.verify().accepted  # it is no bundle; it was read on this machine
    assert (tmp_path / "out" / "tables" / "a.parquet").read_bytes() == b"x"
    with zipfile.ZipFile(tmp_path / "out.zip") as packed:
        assert packed.read("tables/a.parquet") == b"x"
    assert all(b"/v1/releases/..%2Fr/" in request for request in one.received)


@pytest.mark.parametrize("name", ["other.txt", "../outside", "/outside"])
def test_an_archive_writes_listed_files_alone(tmp_path: Path, name: str) -> None:
    """A name that leaves the folder is refused even if the manifest lists it."""
    listed = () if name == "other.txt" else (name,)
    with (
        releasing(zipped(**{name: b"x"}), *listed) as (release, _),
        pytest.raises(InvalidParameterError, match="bundle"),
    ):
        release.download(tmp_path / "out")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_broken_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No archive, a damaged one, one that is too large unpacked, a manifest without payload."""
    whole = zipped(a=1000 * b"x")
    damaged = whole.replace(whole[31:40], b"\xff" * 9, 1)
    for archive in (b"no zip", whole[:-10], damaged):
        with releasing(archive, "a") as (release, _):
            assert code_of(partial(release.download, tmp_path / "out")) == "invalid_response"
    monkeypatch.setattr(client, "MAX_FILE_BYTES", 999)
    with releasing(whole, "a") as (release, _):
        assert code_of(lambda: release.download(tmp_path / "out")) == "response_too_large"
    with peer(response(b'{"payload": [1]}')) as one:
        release = RemoteRelease(Transport(one.url, TOKEN), "r")
        assert code_of(lambda: release.tables) == "invalid_response"


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove proxies of the machine from the environment."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_of_the_environment_sees_no_token(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """It opens a tunnel for TLS; hosts of `no_proxy` are reached without it."""
    with peer(response(b"", "403 Forbidden")) as proxy:
        monkeypatch.setenv("https_proxy", f"{scheme}127.0.0.1:{proxy.port}")
        assert code_of(connect("https://data.invalid", TOKEN).datasets) == "unreachable"
        assert proxy.received[0].startswith(b"CONNECT data.invalid:443 ")
        assert TOKEN.encode() not in proxy.received[0]
        monkeypatch.setenv("no_proxy", "data.invalid")
        assert code_of(connect("https://data.invalid", TOKEN).datasets) == "unreachable"
        assert len(proxy.received) == 1


@pytest.mark.usefixtures("no_proxies")
def test_the_loopback_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request in plain text stays on the machine, whatever the environment names."""
    with peer(response(b'{"a": 1}')) as one, peer(response(b"{}")) as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert Transport(one.url, TOKEN).get("/x") == {"a": 1}
        assert proxy.received == []


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("proxy", ["socks5://user:pass-word@h", "http://h:port"])
def test_proxies_that_are_not_supported(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """The variable is named; its value may hold a password."""
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(InvalidParameterError) as caught:
        connect("https://data.example", TOKEN)
    assert caught.value.field == "https_proxy"
    assert "pass-word" not in str(caught.value)


def test_no_data_sets_and_no_releases_are_empty_tables() -> None:
    """An analyst without an account has a table with columns and no row."""
    for found in (RemoteDatasets([]), RemoteReleases([])):
        frame = found.to_pandas()
        assert (len(frame), len(frame.columns) > 2) == (0, True)
    assert VerificationReport(findings=(), not_proved=()).to_pandas().empty


def test_a_quote_prints_as_text() -> None:
    """Price, number of customers and expected error, with its range; not the fields as sent."""
    expected = [
        {
            "quantity": "error of a curve",
            "value": 0.06,
            "unit": "kW",
            "low": 0.03,
            "high": 0.1,
        },
        {"quantity": "loss", "value": 130.0, "unit": "%", "low": 40.0, "high": 444.0},
        {"quantity": "distinguishable segments", "value": 3, "unit": "of 3", "low": None},
        {"quantity": "error estimate", "value": None, "unit": "not available"},
    ]
    plan = {
        "customers_estimate": 500,
        "products": [{"name": "clusters", "expected": expected}],
        "warnings": ["no cluster is expected to be supported."],
    }
    text = repr(Quote({"epsilon": "0.5", "delta": "1e-06", "rho": "7701089028", "plan": plan}))
    assert "epsilon 0.5" in text
    assert "about 500 customers" in text
    assert "error of a curve 0.06 kW (0.03 to 0.1); loss 130 % (40 to 444); distinguishable" in text
    assert "7701089028" not in text
    assert "{" not in text
    assert text.endswith("Warning: no cluster is expected to be supported.")
    assert repr(Quote()).startswith("Quote: ")


def test_a_budget_prints_as_text() -> None:
    """What is spent of each account, not the fields as sent."""
    own = {"epsilon_cap": "2.0", "epsilon_spent": "0.5", "share_spent": 0.25, "rho": "77010"}
    text = repr(RemoteBudget(own=own, dataset=None))
    assert text == f"Budget:\n  you: epsilon 0.5 of 2 spent (25 %)\n  {SHARE_OF_BUDGET}"
    assert SHARE_OF_BUDGET in RemoteBudget(own=own, dataset=None)._repr_html_()
    labels = {"caps": {"epsilon": "500000001000"}, "spent": {"epsilon": "200000000000"}}
    budget = RemoteBudget(own={**own, **labels}, dataset=None)
    assert "(25 %); labels: epsilon 0.2 of 0.5 spent\n" in repr(budget)
    assert budget.to_pandas().loc["own", "label_epsilon_spent"] == 0.2


def test_a_budget_for_labels_that_is_too_small_is_named() -> None:
    """Not the whole budget, of which nearly all may be left."""
    amounts = {"rho": "5", "epsilon": "500000000000", "delta": "0", "eta": "1"}
    short = Quote(
        {**quoted(more=(9, 0)), "largest_epsilon": None},
        price=amounts,
        left={**amounts, "epsilon": "200000001000"},
    )
    expected = "budget for labels is too small: this release needs a label epsilon of 0.5, and 0.2 "
    for view in (repr(short), short._repr_html_()):
        assert expected in view
    other = Quote({**short, "left": {**amounts, "rho": "1"}})
    assert "The remaining budget is too small." in repr(other)


def test_an_unknown_data_set_is_answered_with_those_that_there_are() -> None:
    """The list is that of the principal: the server says nothing about others."""
    problem = json.dumps({"code": "forbidden", "title": "not found"}).encode()

    def answer(request: bytes) -> bytes:
        if request.split(b" ")[1] == b"/v1/datasets":
            return response(b'{"datasets": [{"name": "homes"}, {"name": "shops"}]}')
        return response(problem, "403 Forbidden")

    with (
        peer(answer) as one,
        pytest.raises(
            ServerRefusalError, match=r"hmoes: .* your data sets: homes, shops"
        ) as caught,
    ):
        connect(one.url, TOKEN).dataset("hmoes")
    assert caught.value.code == "forbidden"


def quoted(*, paid: tuple[bool, bool] = (False, False), more: tuple[int, int] = (9, 3)) -> Quote:
    """Return a quote with one warning; pairs are of the data set and of the principal."""
    scopes = ("dataset", "own")
    return Quote(
        epsilon="2.0",
        delta="1e-06",
        already_paid=dict(zip(scopes, paid, strict=True)),
        more_of_this_kind=dict(zip(scopes, more, strict=True)),
        largest_epsilon="1.39851",
        plan={"products": [], "customers_estimate": 500, "warnings": ["delta is large."]},
    )


@pytest.mark.parametrize(
    ("quote", "says"),
    [
        (quoted(), "About 3 releases of this kind fit into your remaining budget."),
        (quoted(more=(1, 3)), "About 1 release of this kind fits into your remaining budget."),
        (
            quoted(more=(9, 0)),
            "is too small: the largest epsilon you can order is 1.398 (a small reserve is kept for",
        ),
        (
            quoted(paid=(True, True), more=(0, 0)),
            "You have already ordered this release: repeating the request is free and returns",
        ),
        (quoted(paid=(True, False), more=(0, 2)), "This release already exists: only your own"),
    ],
)
def test_both_views_of_a_quote_have_warnings_and_affordability(quote: Quote, says: str) -> None:
    """In the sentence of the page; a notebook shows what `print` does."""
    for view in (repr(quote), quote._repr_html_()):
        assert says in view
        assert "Warning: delta is large." in view


def test_numbers_and_times_can_be_used() -> None:
    """Those that the server sends as text; another text is no response of a server."""
    assert (quoted()["largest_epsilon"], quoted()["epsilon"]) == (1.39851, 2.0)
    sent = {"id": "1-2", "dataset": "homes", "state": "ok", "request": {"epsilon": "0.5"}}
    releases = RemoteReleases([{**sent, "ordered_at": "2026-07-01T09:30:00.5+00:00"}])
    frame = releases.to_pandas()
    assert frame["epsilon"].tolist() == [0.5]
    assert frame["ordered_at"].dt.year.tolist() == [2026]
    assert str(frame["ordered_at"].dt.tz) == "UTC"
    assert repr(releases) == (
        "1 release:\n  1-2: homes, epsilon 0.5, ordered 2026-07-01 09:30 UTC, ok"
    )
    for wrong in ({"ordered_at": "noon"}, {"request": {"epsilon": "much"}}):
        broken = RemoteReleases([{**sent, **wrong}])
        assert code_of(broken.to_pandas) == "invalid_response"


def test_lists_of_data_sets_are_short_texts_and_useful_tables() -> None:
    """Title, products and groups; of a long list the first ten."""
    one = {"name": "homes", "title": "Town", "customers": 500, "products": ["load", "clusters"]}
    one["groups"] = {"class": ["home", "shop"]}
    found = RemoteDatasets([one])
    row = found.to_pandas().loc["homes"]
    assert (row["title"], row["products"]) == ("Town", "load, clusters")
    assert row["groups"] == "class (home, shop)"
    line = "homes: Town; about 500 customers; products: load, clusters; groups: class (home, shop)"
    assert repr(found) == f"1 data set:\n  {line}"
    assert repr(RemoteDatasets([one] * 12)).endswith("  and 2 more; to_pandas() has all")
    assert repr(RemoteReleases([])) == "0 releases"


def test_a_refused_budget_says_why_the_maximum_is_less_than_what_is_left() -> None:
    """As the page does; the maximum is a number that an order accepts."""
    problem = {"code": "budget_refused", "title": "too small", "largest_epsilon": "1.39851"}
    problem["account_scope"] = "own"
    with peer(response(json.dumps(problem).encode(), "403 Forbidden")) as one:
        with pytest.raises(ServerRefusalError) as caught:
            connect(one.url, TOKEN).datasets()
        assert str(caught.value).endswith(
            "account_scope: own; largest_epsilon: 1.39851; a small reserve is kept for rounding"
        )
        assert caught.value.details["largest_epsilon"] == 1.39851


def test_tables_have_the_order_of_the_manifest() -> None:
    """As those of a bundle, so that the first table is the same."""
    with releasing(b"", "tables/load_shapes.parquet", "tables/groups.parquet") as (release, _):
        assert release.tables == ("load_shapes", "groups")


def test_an_unknown_field_is_named() -> None:
    """As the command line names it."""
    wrong = {"field": "nclusters", "rule": unknown_field("nclusters", ["n_clusters"])}
    refusal = ServerRefusalError("invalid_request", "not valid", {"errors": [wrong]})
    assert "unknown field nclusters; did you mean n_clusters?" in str(refusal)
    assert "must be omitted" not in str(refusal)


def test_what_a_product_needs_is_said_without_the_rule_of_the_api() -> None:
    """The field of the API is `products`; a person reads which product lacks what."""
    error = ProductNeedsError("products", "labels", "label_epsilon", ["labels"])
    details = {"errors": [{"field": error.field, "rule": error.rule}]}
    text = str(ServerRefusalError("invalid_request", "the request is invalid", details))
    assert text.endswith("the request is invalid; errors: labels needs label_epsilon")


def test_a_release_that_cannot_be_read_is_named() -> None:
    """The server says as much of one that does not exist as of one that belongs to others."""
    problem = json.dumps({"code": "not_found", "title": "not found"}).encode()
    with peer(response(problem, "404 Not Found")) as one:
        with pytest.raises(ServerRefusalError, match=r"no release 9-9 .*releases\(\)") as caught:
            connect(one.url, TOKEN).release("9-9")
        assert caught.value.code == "not_found"


def test_a_token_that_the_server_does_not_accept_is_explained() -> None:
    """Its title says only that one is required, and one was sent."""
    problem = json.dumps({"code": "unauthorized", "title": "a valid token is required"}).encode()
    with (
        peer(response(problem, "401 Unauthorized")) as one,
        pytest.raises(ServerRefusalError, match="unknown, expired or revoked"),
    ):
        connect(one.url, TOKEN).datasets()


def test_lists_of_releases_say_what_was_ordered() -> None:
    """Products, segments and grouping: an id alone tells an analyst nothing."""
    request = {"epsilon": "0.5", "products": ["clusters", "load"], "n_clusters": 3, "by": "class"}
    sent = {"id": "1-2", "dataset": "homes", "state": "ok", "request": request}
    releases = RemoteReleases([{**sent, "ordered_at": "2026-07-01T09:30:00.5+00:00"}])
    contents = "clusters (3), load; by class"
    assert releases.to_pandas().loc["1-2", "contents"] == contents
    assert f"homes, {contents}, epsilon 0.5" in repr(releases)
    shown = releases._repr_html_()
    assert "<td>2026-07-01 09:30 UTC</td>" in shown
    assert "None" not in shown
