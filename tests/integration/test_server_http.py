"""HTTP: requests that others would read differently, HEAD, methods, and names that stay unknown."""

import gzip
import http.client
import io
import json
import re
import socket
import time
import zipfile
from contextlib import closing
from http import HTTPStatus
from urllib.parse import urlencode

import pytest
from sqlalchemy import event, func, select

from tests.live_server import QUICK, Answer, Browser, Running, refused
from wattveil.server.http.middleware import MAX_HEADER_BYTES
from wattveil.server.http.problems import Code
from wattveil.server.jobs.planner import Planner
from wattveil.server.ledger.admission import SHARED_WITHOUT_EFFECT
from wattveil.server.ledger.ledger_tables import refusal, share
from wattveil.web.pages import asset, static_address

SMUGGLED = (
    b"POST /v1/nowhere HTTP/1.1\r\nHost: here\r\nContent-Length: 6\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
)


def raw(server: Running, sent: bytes) -> bytes:
    """Send bytes, and return all that comes until the connection is closed."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as one:
        one.sendall(sent)
        got = b""
        while piece := one.recv(65536):
            got += piece
    return got


def test_a_request_of_two_lengths_ends_the_connection(server: Running) -> None:
    """What follows it is a body for some and a request for others: it is not answered."""
    got = raw(server, SMUGGLED)
    assert got.startswith(b"HTTP/1.1 422")
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in got.lower()


@pytest.mark.parametrize("size", [MAX_HEADER_BYTES + 100, 2 * MAX_HEADER_BYTES])
def test_large_headers_are_refused(server: Running, size: int) -> None:
    """Whether they arrive in one piece or in many."""
    filler = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 900) for number in range(1 + size // 900))
    got = raw(server, b"GET /healthz HTTP/1.1\r\nHost: here\r\n" + filler + b"\r\n")
    assert got[9:12] in (b"431", b"400")  # by us, or by the protocol once it has read too much
    assert got.count(b"HTTP/1.1 ") == 1
    few = raw(server, b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    assert few.startswith(b"HTTP/1.1 200")


def test_head_is_get_without_a_body(server: Running) -> None:
    """The same status and headers, also of a file and of a refusal."""
    ordered = server.order("head", {**QUICK, "epsilon": 0.041}).json["id"]
    server.finished(ordered)
    paths = ("/healthz", "/v1/me", "/sign-in", "/v1/nowhere", "/v1/releases/9-9")
    for path in (*paths, f"/v1/releases/{ordered}/bundle.zip", f"/v1/releases/{ordered}/manifest"):
        whole, head = (server.send(method, path, as_="ann") for method in ("GET", "HEAD"))
        assert (head.status, head.body) == (whole.status, b""), path
        for name in ("content-length", "content-type"):
            assert head.headers[name] == whole.headers[name], path


def test_direct_answers_are_those_of_the_routes(server: Running) -> None:
    """A request with many headers goes to the routes: status, headers and body are the same."""
    many = {f"X-Filler-{number}": "x" for number in range(40)}
    for path in ("/healthz", "/livez", "/v1/me"):
        direct, routed = (server.send("GET", path, headers=one) for one in ({}, many))
        assert (direct.status, direct.body) == (routed.status, routed.body) == (200, direct.body)
        own = {"date", "x-request-id"}
        kept = [
            {name.lower(): value for name, value in one.headers.items() if name.lower() not in own}
            for one in (direct, routed)
        ]
        assert kept[0] == kept[1], path


def test_methods_that_an_address_has_are_stated(server: Running) -> None:
    """405 has the header Allow, with the methods of all routes of the address."""
    for path, methods in (
        ("/healthz", "GET, HEAD"),
        ("/v1/verify", "POST"),
        ("/verify", "GET, HEAD, POST"),
        ("/v1/admin/principals", "GET, HEAD, POST"),
    ):
        got = refused(server.send("DELETE", path), Code.METHOD_NOT_ALLOWED)
        assert got.headers["allow"] == methods


def test_a_key_that_stands_twice_is_refused(server: Running) -> None:
    """A proxy may read the first, and the server the last; nothing is charged for either."""
    before = server.send("GET", "/v1/datasets/homes/budget", as_="ann").body
    headers = {"Content-Type": "application/json", "Idempotency-Key": "twice"}
    for body in (
        b'{"epsilon": 0.1, "epsilon": 0.2, "products": ["load"]}',
        b'{"epsilon": 0.1, "products": ["load"], "options": {"load": {"a": 1, "a": 2}}}',
    ):
        got = server.send("POST", "/v1/datasets/homes/releases", body, as_="ann", headers=headers)
        assert "twice" in refused(got, Code.INVALID_REQUEST).json["errors"][0]["rule"]
    assert server.send("GET", "/v1/datasets/homes/budget", as_="ann").body == before


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-32-be"])
def test_json_is_utf_8_without_a_mark(server: Running, encoding: str) -> None:
    """A key that stands twice would pass in another encoding; nothing is charged."""
    before = server.send("GET", "/v1/datasets/homes/budget", as_="ann").body
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"coded-{encoding}"}
    path = "/v1/datasets/homes/releases"
    for text in (
        '{"epsilon": 0.1, "epsilon": 0.2, "products": ["load"]}',
        '{"epsilon": 0.1, "products": ["load"]}',
    ):
        got = server.send("POST", path, text.encode(encoding), as_="ann", headers=headers)
        assert "UTF-8" in refused(got, Code.INVALID_REQUEST).json["errors"][0]["rule"]
    got = server.send("POST", path, b'{"epsilon": "\xff"}', as_="ann", headers=headers)
    assert "UTF-8" in refused(got, Code.INVALID_REQUEST).json["errors"][0]["rule"]
    assert server.send("GET", "/v1/datasets/homes/budget", as_="ann").body == before


def test_names_are_not_found_out_by_sharing(server: Running) -> None:
    """A name that nobody has, a new reader and an old one: the same answer, after one write."""
    ordered = server.order("probe", {**QUICK, "epsilon": 0.042}).json["id"]
    server.finished(ordered)
    while server.worker.queue_length:  # what other tests ordered is written by another thread
        time.sleep(0.01)
    writes: list[str] = []

    def count(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith("INSERT"):
            writes.append(statement)

    def shared(reader: str) -> tuple[int, tuple[str, ...], int]:
        writes.clear()
        got = server.send("POST", f"/v1/releases/{ordered}/shares", {"reader": reader}, as_="ann")
        assert got.json["reader"] == reader
        return got.status, tuple(sorted(got.json)), len(writes)

    def without_effect() -> int:
        code = select(func.count()).where(refusal.c.code == SHARED_WITHOUT_EFFECT)
        with server.state.ledger.reading() as connection:
            return int(connection.execute(code).scalar_one())

    before = without_effect()
    event.listen(server.state.ledger.engine, "before_cursor_execute", count)
    try:
        answers = {name: shared(name) for name in ("bob", "nobody-has-it")}
        again = {name: shared(name) for name in ("bob", "nobody-has-it")}
    finally:
        event.remove(server.state.ledger.engine, "before_cursor_execute", count)
    assert {*answers.values(), *again.values()} == {(201, ("id", "reader"), 1)}
    assert server.send("GET", f"/v1/releases/{ordered}", as_="bob").status == HTTPStatus.OK
    page = Browser(server, "ann").get(f"/releases/{ordered}").body
    assert b"bob" not in page
    assert b"bob" in Browser(server, "owner").get(f"/releases/{ordered}").body
    with server.state.ledger.reading() as connection:
        seq = int(ordered.partition("-")[2])
        rows = connection.execute(select(func.count()).where(share.c.seq == seq)).scalar_one()
    assert (rows, without_effect() - before) == (1, 3)


def archive(**files: bytes) -> bytes:
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name.replace("_json", ".json"), content)
    return buffer.getvalue()


def test_bad_manifests_start_no_process(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no manifest of this version is refused at once, whatever it contains."""
    started = []
    monkeypatch.setattr(Planner, "verify", lambda *_: started.append(1))

    def verified(content: bytes) -> Answer:
        headers = {"Content-Type": "application/zip"}
        return server.send("POST", "/v1/verify", content, as_="ann", headers=headers)

    for content in (
        archive(other=b""),
        archive(manifest_json=b"{"),
        archive(manifest_json=b"[" * 100_000),
        archive(manifest_json=b'{"a": 1, "a": 2}'),
        archive(manifest_json=b'{"a": NaN}'),
        archive(manifest_json=b'{"a": "' + b"x" * 2**20 + b'"}'),
        archive(manifest_json=b"\xff"),
    ):
        refused(verified(content), Code.INVALID_REQUEST)
    odd: list[dict[str, object]] = [{}, {"manifest_version": "0.0"}, {"payload": [{}] * 1000}]
    for manifest in odd:
        got = verified(archive(manifest_json=json.dumps(manifest).encode()))
        assert got.json["accepted"] is False
        assert len(got.json["findings"]) == 1
    assert started == []


def test_a_connection_serves_many_requests(server: Running) -> None:
    """Heads that are sound keep the connection open."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)) as one:
        for method in ("GET", "HEAD", "GET"):
            one.request(method, "/healthz")
            got = one.getresponse()
            got.read()
            assert (got.status, got.getheader("connection")) == (200, None)


# --- compression and static files -----------------------------------------------------------------


def packed(server: Running, path: str, accepted: str | None, **more: str) -> Answer:
    """Fetch an address with an Accept-Encoding."""
    headers = dict(more) if accepted is None else {"Accept-Encoding": accepted, **more}
    as_ = None if more else "ann"
    return server.send("GET", path, as_=as_, headers=headers)


def test_what_a_client_accepts_is_compressed(server: Running) -> None:
    """Reports, manifests, descriptions and pages; the content is the same; archives are packed."""
    ordered = server.order("small", {**QUICK, "epsilon": 0.043}).json["id"]
    server.finished(ordered)
    address = f"/v1/releases/{ordered}"
    for path in (f"{address}/report", f"{address}/manifest", "/v1/openapi.json"):
        plain, small = packed(server, path, None), packed(server, path, "br, gzip;q=0.5")
        assert small.headers["content-encoding"] == "gzip"
        assert gzip.decompress(small.body) == plain.body, path
        assert len(small.body) < len(plain.body) / 1.5
        assert "content-encoding" not in plain.headers
        assert plain.headers["vary"] == small.headers["vary"] == "Accept-Encoding"
        for refused_ in ("gzip;q=0", "gzip; q=0.0", "br", "identity"):
            assert "content-encoding" not in packed(server, path, refused_).headers
    for path in (f"{address}/bundle.zip", f"{address}/payload/load_shapes.csv", "/v1/me"):
        assert "content-encoding" not in packed(server, path, "gzip").headers


def test_a_page_has_no_secret_that_its_size_reveals(server: Running) -> None:
    """Its CSRF token is written differently each time, and each of them is accepted."""
    ann = Browser(server, "ann")
    words = set()
    for _ in range(3):
        page = packed(server, "/", "gzip", Cookie=ann.cookie, Accept="text/html")
        text = gzip.decompress(page.body).decode()
        words |= set(re.findall(r'name="csrf_token" value="([^"]+)"', text))
    assert len(words) == 3
    pads = {word[: len(word) // 2] for word in words}
    assert len(pads) == 3
    for odd in ("", "x", "00", words.copy().pop()[:-2], "0" * 172):
        ann.word = odd
        assert ann.post("/sign-out").status == HTTPStatus.FORBIDDEN
    ann.word = words.pop()
    assert ann.post("/sign-out").status == HTTPStatus.SEE_OTHER


def test_a_response_to_a_form_is_not_compressed(server: Running) -> None:
    """It may show a token."""
    owner = Browser(server, "owner")
    headers = {
        "Cookie": owner.cookie,
        "Accept-Encoding": "gzip",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = urlencode({"csrf_token": owner.word, "name": "shown", "kind": "analyst"}).encode()
    got = server.send("POST", "/admin/people", body, as_=None, headers=headers)
    assert b"wattveil_" in got.body
    assert "content-encoding" not in got.headers


def test_static_files_are_kept_for_good(server: Running) -> None:
    """Their addresses have a hash of the content; another address is not found."""
    address = static_address("wattveil.css")
    got = packed(server, address, "gzip")
    assert (
        gzip.decompress(got.body)
        == packed(server, address, None).body
        == asset("wattveil.css").encode()
    )
    assert "immutable" in got.headers["cache-control"]
    for odd in ("/static/wattveil.css", "/static/wattveil.000000000000.css", "/static/x"):
        refused(packed(server, odd, None), Code.NOT_FOUND)
    page = packed(server, "/sign-in", None).body.decode()
    assert address in page
