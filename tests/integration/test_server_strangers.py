"""Clients without a valid token or cookie: what they cost, and what their requests mean."""

import http.client
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.live_server import Answer, Browser, Running, serving
from wattveil.server import log_throttle
from wattveil.server.auth.access import Limits, Rate
from wattveil.server.auth.sessions import COOKIE
from wattveil.server.log_throttle import LogThrottle

FEW = 3
LIMITS = Limits(requests=Rate(1e9, 1e9), priced=Rate(1e9, 1e9), failed_tokens=Rate(FEW, 0.0))


@contextmanager
def session_queries(server: Running) -> Iterator[list[str]]:
    """Collect the queries for sessions."""
    found: list[str] = []

    def collect(_: object, __: object, statement: str, *___: object) -> None:
        if "FROM session" in statement:
            found.append(statement)

    engine = server.state.ledger.engine
    event.listen(engine, "before_cursor_execute", collect)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", collect)


def statuses(server: Running, path: str, number: int) -> list[int]:
    """Request a page as a browser does, each time with another unknown cookie."""
    return [
        server.send(
            "GET", path, as_=None, headers={"Cookie": f"{COOKIE}=x{one}", "Accept": "text/html"}
        ).status
        for one in range(number)
    ]


def test_unknown_cookies_are_counted_as_invalid_tokens_are(tmp_path: Path) -> None:
    """A page that needs a session; valid sessions and tokens of the same address stay valid."""
    with serving(tmp_path, limits=LIMITS) as server:
        owner = Browser(server, "owner")
        got = statuses(server, "/", FEW + 2)
        assert got == [HTTPStatus.SEE_OTHER] * FEW + [HTTPStatus.TOO_MANY_REQUESTS] * 2
        bad = server.send("GET", "/v1/me", as_=None, headers={"Authorization": "Bearer no"})
        assert bad.status == HTTPStatus.TOO_MANY_REQUESTS
        assert owner.get("/").status == HTTPStatus.OK
        assert server.send("GET", "/v1/me").status == HTTPStatus.OK


def test_error_pages_of_unknown_cookies_cost_few_queries(tmp_path: Path) -> None:
    """The query is for the menu of the page alone: it is left out once too many were unknown."""
    with serving(tmp_path, limits=LIMITS) as server, session_queries(server) as queries:
        assert statuses(server, "/nowhere", 4 * FEW) == [HTTPStatus.NOT_FOUND] * 4 * FEW
        assert len(queries) == FEW
        cookie = {"Cookie": f"{COOKIE}=x"}
        assert server.send("GET", "/nowhere", as_=None, headers=cookie).status == 404
        assert len(queries) == FEW


@pytest.mark.parametrize("token", [None, "Bearer wattveil_no"])
@pytest.mark.parametrize(
    "body",
    [b"{not JSON", b'{"name": "a", "name": "b"}', b'{"name": 7}', b"[" * 100_000],
    ids=["no JSON", "a key twice", "a wrong type", "nested"],
)
def test_a_body_of_a_stranger_is_not_parsed(empty: Running, token: str | None, body: bytes) -> None:
    """Whatever it is, the answer is 401; with a token it is 422."""
    json_type = {"Content-Type": "application/json"}
    sent = json_type if token is None else {**json_type, "Authorization": token}
    for path in ("/v1/admin/principals", "/v1/datasets/homes/releases"):
        assert empty.send("POST", path, body, as_=None, headers=sent).status == 401
    known = empty.send("POST", "/v1/admin/principals", body, headers=json_type)
    assert known.status == 422


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a server without a data set."""
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_two_tokens_in_one_request_are_refused(tmp_path: Path) -> None:
    """On the direct way of a token that is known, and by the routes; whichever is the valid one."""
    with serving(tmp_path) as server:
        valid = server.tokens["owner"]
        assert server.send("GET", "/v1/me").status == HTTPStatus.OK  # it is known now
        for path in ("/v1/me", "/v1/datasets", "/healthz"):
            for pair in ((valid, "no"), ("no", valid), (valid, valid), ("", valid)):
                got = sent_twice(server, path, pair)
                assert (got.status, got.json["errors"][0]["field"]) == (422, "Authorization")


def sent_twice(server: Running, path: str, tokens: tuple[str, str]) -> Answer:
    """Send a request with two tokens."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    with closing(connection):
        connection.putrequest("GET", path)
        for token in tokens:
            connection.putheader("Authorization", f"Bearer {token}" if token else "")
        connection.endheaders()
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())


class Lines(logging.Handler):
    """Keeps the lines that the server's log would have."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(LogThrottle())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())


def test_requests_that_anybody_can_send_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five lines of a route and a status; the requests of principals are all in the log."""
    monkeypatch.setattr(log_throttle, "_WINDOW_SECONDS", 1e9)  # however long the loop takes
    logger, kept = logging.getLogger("wattveil.server"), Lines()
    caplog.set_level(logging.INFO, "wattveil.server")
    logger.addHandler(kept)
    try:
        with serving(tmp_path) as server:  # a line may follow its response
            for number in range(12):
                server.send("GET", "/livez", as_=None)
                server.send("GET", "/sign-in", as_=None)
                server.send("GET", "/v1/datasets", as_=None)
                server.send(f"M{number}", f"/{number}", as_=None)
                server.send("GET", "/v1/datasets")
    finally:
        logger.removeHandler(kept)
    counts = [
        sum(line.endswith(kind) for line in kept.lines)
        for kind in (
            "/livez 200",
            "/sign-in 200",
            "/v1/datasets 401",
            " - 404",
            "/v1/datasets 200",
        )
    ]
    assert counts == [5, 5, 5, 5, 12]
