"""The outermost layer of the server: how answers leave."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from wattveil.errors import LedgerUnavailableError
from wattveil.server.http import middleware
from wattveil.server.http.middleware import GuardMiddleware
from wattveil.server.http.problems import Code, problem_of

BODY = bytes(range(256)) * 1000


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
    start, *pieces = _answered("GET", "/", GuardMiddleware(Response(BODY), lambda _: None))
    assert start["type"] == "http.response.start"
    assert b"".join(piece["body"] for piece in pieces) == BODY
    assert max(len(piece["body"]) for piece in pieces) == middleware._PIECE
    assert [piece.get("more_body", False) for piece in pieces] == [True] * 3 + [False]


def test_who_cannot_be_looked_up_is_no_stranger() -> None:
    """The ledger is away for a moment: that is said, and the bundle is not taken for empty."""

    def sender(_: Request) -> str | None:
        raise problem_of(LedgerUnavailableError("away")) from None

    start, _ = _answered("POST", middleware.LARGE[0], GuardMiddleware(Response(BODY), sender))
    assert start["status"] == Code.UNAVAILABLE.status
