"""The outermost layer of the server: how answers leave."""

import asyncio
import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Scope

from wattveil.errors import LedgerUnavailableError
from wattveil.server.http import middleware, server_pages
from wattveil.server.http.middleware import HEADERS, GuardMiddleware
from wattveil.server.http.problems import Code, problem_of

BODY = bytes(range(256)) * 1000


def _nobody(_: object, *, json_bytes: int = 0) -> None:
    """Know no sender."""


def _answered(method: str, path: str, whole: GuardMiddleware) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"PK", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "scheme": "http"}
    asyncio.run(whole(scope, receive, send))
    return sent


def test_large_answers_leave_in_pieces() -> None:
    """Else one that is still on its way would count as sent, and be cut off."""
    start, *pieces = _answered("GET", "/", GuardMiddleware(Response(BODY), _nobody))
    assert start["type"] == "http.response.start"
    assert b"".join(piece["body"] for piece in pieces) == BODY
    assert max(len(piece["body"]) for piece in pieces) == middleware._PIECE
    assert [piece.get("more_body", False) for piece in pieces] == [True] * 3 + [False]


def test_who_cannot_be_looked_up_is_no_stranger() -> None:
    """The ledger is away for a moment: that is said, and the bundle is not taken for empty."""

    def sender(_: Request, **__: int) -> str | None:
        raise problem_of(LedgerUnavailableError("away")) from None

    start, _ = _answered("POST", middleware.LARGE[0], GuardMiddleware(Response(BODY), sender))
    assert start["status"] == Code.UNAVAILABLE.status


def test_a_refusal_as_busy_comes_after_a_pause() -> None:
    """A client that repeats it at once is slowed down; other refusals are not."""
    for code, paused in ((Code.BUSY, True), (Code.FORBIDDEN, False)):
        began = time.monotonic()
        start, _ = _answered("GET", "/", GuardMiddleware(Response(b"", code.status), _nobody))
        assert start["status"] == code.status
        assert not paused or time.monotonic() - began >= middleware._BUSY_SECONDS


def test_a_direct_answer_needs_no_route() -> None:
    """It has the headers of every response; what is not found goes to the routes."""
    parts: tuple[Message, Message] = (
        {"type": "http.response.start", "status": 200, "headers": []},
        {"type": "http.response.body", "body": b"direct"},
    )

    async def direct(scope: Scope) -> tuple[Message, Message] | None:
        return parts if scope["path"] == "/" else None

    found = GuardMiddleware(Response(b"routed"), _nobody, direct)
    start, body = _answered("GET", "/", found)
    assert body["body"] == b"direct"
    assert {name for name, _ in start["headers"]} >= {one.lower().encode() for one in HEADERS}
    assert _answered("GET", "/other", found)[1]["body"] == b"routed"


def test_a_large_body_is_sent_in_pieces_without_copies_of_the_rest() -> None:
    """Every piece within the size, together the body; the response keeps the bytes it was given."""
    body = bytes(range(256)) * 1031
    for length in (middleware._PIECE, middleware._PIECE + 1, 2 * middleware._PIECE, len(body)):
        _, *pieces = _answered("GET", "/", GuardMiddleware(Response(body[:length]), _nobody))
        assert b"".join(one["body"] for one in pieces) == body[:length]
        assert all(0 < len(one["body"]) <= middleware._PIECE for one in pieces)
        assert [one.get("more_body", False) for one in pieces] == [True] * (len(pieces) - 1) + [
            False
        ]


def test_responses_of_a_static_file_share_its_bytes() -> None:
    """A client that does not read holds no copy of the file."""
    name = "plotly.js"
    assert server_pages._encoded_asset(name) is server_pages._encoded_asset(name)
    response = Response(server_pages._encoded_asset(name))
    assert response.body is server_pages._encoded_asset(name)
