"""ASGI middleware and HTTP protocol: limits of size and time, security headers, safe errors."""

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
from uvicorn.protocols.http.h11_impl import H11Protocol

from wattveil.server.http.problems import Code, Problem
from wattveil.server.http.server_pages import problem_response

MAX_BYTES = 256 * 1024
LARGE = "/v1/verify", "/verify"
"""Addresses of bundle uploads."""
MAX_LARGE_BYTES = 16 * 1024 * 1024
_MAX_LARGE = 4
"""Large bodies in memory at the same time: unpacked, they are four times as large."""
_MAX_PER_PRINCIPAL = 2
"""Of these, of one principal, so that others are not blocked."""
_MAX_BODY_SECONDS = 20.0
"""Time limit of a request body."""
_MAX_HEAD_SECONDS = 10.0
"""Time limit of a request head, from the connection or the last response."""
_MAX_UNREAD_SECONDS = 60.0
"""Time limit for the client to read a piece of a response."""
_PIECE = 64 * 1024
"""Size of a piece of a response body. A body handed over whole counts as sent; on a slow line it
would be cut off when the idle connection is closed."""

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
"""Headers of every response, unless it sets its own."""
_HTTPS = "max-age=31536000"

_LOG = logging.getLogger("wattveil.server")

IdentifySender = Callable[[Request], str | None]
"""Returns the name of the sender of a request, by its headers alone; None if unknown."""


class GuardMiddleware:
    """Outermost middleware: limits, headers, and errors that reveal nothing."""

    def __init__(self, app: ASGIApp, sender: IdentifySender) -> None:
        self._app, self._identify_sender = app, sender
        self._large: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or send a problem."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no other protocol is served
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
                body = await _whole_body(scope, receive, MAX_BYTES)
                await self._app(scope, _replay(body, receive), send_guarded)
        except Problem as problem:
            await problem_response(Request(scope), problem)(scope, receive, send_guarded)
        except Exception as error:  # noqa: BLE001 - its text must not be sent
            if not status:
                response = problem_response(Request(scope), unexpected(error))
                await response(scope, receive, send_guarded)

    async def _answer_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a large body of an authenticated sender, within the limits.

        Bodies of unknown senders are not read: they are refused without it.
        """
        _check_length(scope, MAX_LARGE_BYTES)
        principal = await run_in_threadpool(self._identify_sender, Request(scope))
        if principal is None:
            await self._app(scope, _replay(b"", receive), send)
            return
        if self._large.total() >= _MAX_LARGE or self._large[principal] >= _MAX_PER_PRINCIPAL:
            raise Problem(Code.BUSY)
        self._large[principal] += 1
        try:
            body = await _whole_body(scope, receive, MAX_LARGE_BYTES)
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._large[principal] -= 1
            self._large += Counter()  # drop zero counts


def unexpected(error: Exception) -> Problem:
    """Return the problem of an unexpected error; its identifier is in the log."""
    number = uuid.uuid4().hex
    _LOG.error("error %s: %s", number, type(error).__name__)
    return Problem(Code.INTERNAL, id=number)


def _check_length(scope: Scope, max_bytes: int) -> None:
    """Refuse a body whose Content-Length is too large."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if not length.isdigit() or int(length[:20]) > max_bytes:
        raise Problem(Code.TOO_LARGE)


async def _whole_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """Read a body, within limits of size and time."""
    _check_length(scope, max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(_MAX_BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(Code.TOO_SLOW)
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    raise Problem(Code.TOO_LARGE)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Problem(Code.TOO_SLOW) from None
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that yields the body first, then further messages."""
    given = False

    async def receive_again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _pieces(message: Message) -> Iterator[Message]:
    """Split the body of a response."""
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


class TimeoutProtocol(H11Protocol):
    """uvicorn's protocol, with time limits for request heads and for slow readers.

    uvicorn's own limit ends with the first byte of a head.
    """

    _clock: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Start the time limit of the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all time limits."""
        self._stop_waiting()
        self._forget_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the time limit of a slow reader."""
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(_MAX_UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the time limit of a slow reader."""
        self._forget_unread()
        super().resume_writing()

    def _wait(self) -> None:
        self._stop_waiting()
        self._clock = self.loop.call_later(_MAX_HEAD_SECONDS, self._close_if_idle)

    def _stop_waiting(self) -> None:
        if self._clock is not None:
            self._clock.cancel()

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()

    def _close_if_idle(self) -> None:
        """Close, unless a request is being handled: the middleware limits the time of its body."""
        if getattr(self.cycle, "response_complete", True):  # None before the first request
            self.transport.close()
