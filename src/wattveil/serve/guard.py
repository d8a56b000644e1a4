"""What every request passes first: size, time, headers, and nothing said by accident."""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wattveil.serve.problems import Code, Problem

MOST_BYTES = 256 * 1024
LARGE = "/v1/verify", "/verify"
"""Addresses to which a bundle is sent."""
MOST_LARGE_BYTES = 16 * 1024 * 1024
_MOST_LARGE = 4
"""Large bodies that are held at once, until they are answered: unpacked they are four times as
large."""
_MOST_OF_ONE = 2
"""Of these, of one person: others must find room."""
_MOST_SECONDS = 20.0
"""For a body to arrive."""
_PIECE = 64 * 1024
"""Of an answer. What is handed over whole counts as sent, and on a slow line it is cut off when the
connection is closed for being idle."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every answer, unless it has its own."""
_HTTPS = "max-age=31536000"

_LOG = logging.getLogger("wattveil.serve")

Sender = Callable[[Request], str | None]
"""Tells who sends a request, by its headers alone; None for a stranger."""


class Guard:
    """The outermost layer of the server."""

    def __init__(self, app: ASGIApp, sender: Sender) -> None:
        self._app, self._sender = app, sender
        self._large: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nothing here speaks anything else
        status = 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(scope, message)
            for piece in _pieces(message):
                await send(piece)

        try:
            if scope["method"] == "POST" and scope["path"] in LARGE:
                await self._answer_large(scope, receive, send_guarded)
            else:
                body = await _whole_body(scope, receive, MOST_BYTES)
                await self._app(scope, _replay(body, receive), send_guarded)
        except Problem as problem:
            await problem.response()(scope, receive, send_guarded)
        except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
            if not status:
                await unexpected(error).response()(scope, receive, send_guarded)
        # Words from a closed list, and the name of the route: never an address as it was sent.
        route = getattr(scope.get("route"), "path", "-")
        _LOG.info("%s %s %s", scope["method"][:7] if status else "-", route, status)

    async def _answer_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make room for a body until it is answered, if somebody sends it who may come in.

        What strangers send is not read and takes no room: they are refused without it.
        """
        _check_length(scope, MOST_LARGE_BYTES)
        whose = await run_in_threadpool(self._sender, Request(scope))
        if whose is None:
            await self._app(scope, _replay(b"", receive), send)
            return
        if self._large.total() >= _MOST_LARGE or self._large[whose] >= _MOST_OF_ONE:
            raise Problem(Code.BUSY)
        self._large[whose] += 1
        try:
            body = await _whole_body(scope, receive, MOST_LARGE_BYTES)
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._large[whose] -= 1
            self._large += Counter()  # those who hold nothing are forgotten


def unexpected(error: Exception) -> Problem:
    """Return what is said about an error that nobody expected: a number, to find it in the log."""
    number = uuid.uuid4().hex
    _LOG.error("error %s: %s", number, type(error).__name__)
    return Problem(Code.INTERNAL, id=number)


def _check_length(scope: Scope, most_bytes: int) -> None:
    """Refuse what says itself that it is too large."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if not length.isdigit() or int(length[:20]) > most_bytes:
        raise Problem(Code.TOO_LARGE)


async def _whole_body(scope: Scope, receive: Receive, most_bytes: int) -> bytes:
    """Read a body to its end, if it is not too large and not too slow."""
    _check_length(scope, most_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(Code.TOO_SLOW)
                body += message.get("body", b"")
                if len(body) > most_bytes:
                    raise Problem(Code.TOO_LARGE)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Problem(Code.TOO_SLOW) from None
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return what hands over the body at once, and afterwards whatever comes."""
    given = False

    async def receive_again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _pieces(message: Message) -> Iterator[Message]:
    """Cut the body of an answer."""
    body = message.get("body", b"")
    while len(body) > _PIECE:
        yield {**message, "body": body[:_PIECE], "more_body": True}
        body = body[_PIECE:]
    yield {**message, "body": body} if "body" in message else message


def _add_headers(scope: Scope, message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    if scope["scheme"] == "https":
        headers.setdefault("Strict-Transport-Security", _HTTPS)
