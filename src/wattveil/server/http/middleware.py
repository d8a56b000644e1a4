"""ASGI middleware: limits of size and time, security headers, safe errors."""

import asyncio
import codecs
import json
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wattveil.server.http.connections import PAUSED
from wattveil.server.http.downloads import HEAD
from wattveil.server.http.problems import Code, Problem, invalid
from wattveil.server.http.server_pages import problem_response

MAX_BYTES = 256 * 1024
MAX_HEADER_BYTES = 32 * 1024
"""Of all header fields of a request; the protocol limits only heads that arrive in parts."""
LARGE = "/v1/verify", "/verify"
"""Addresses of bundle uploads."""
MAX_LARGE_BYTES = 16 * 1024 * 1024
_MAX_LARGE = 4
"""Large bodies in memory at the same time: unpacked, they are four times as large."""
_MAX_PER_PRINCIPAL = 2
"""Of these, of one principal, so that others are not blocked."""
_MAX_BODY_SECONDS = 20.0
"""Time limit of a request body."""
_BUSY_SECONDS = 0.25
"""Pause before a refusal as busy, without a thread: a client that sends the request again at once
costs others little. The connection may be closed meanwhile if others need its place, and is closed
afterwards: whoever keeps all places occupied must connect each time."""
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

_UTF8 = ("body", "JSON in UTF-8, without a byte order mark")

_LOG = logging.getLogger("wattveil.server")


class IdentifySender(Protocol):
    """Finds the sender of a request."""

    def __call__(self, request: Request, /, *, json_bytes: int = 0) -> str | None:
        """Return the name of the sender, by the headers alone; None if unknown.

        If the request has a JSON body, an invalid token is a problem, and is counted; so is a body
        that is larger than the rate of its sender permits.
        """


FindDirect = Callable[[Scope], Awaitable[tuple[Message, Message] | None]]
"""Returns the response of a request that needs no route; None if it does."""


class GuardMiddleware:
    """Outermost middleware: limits, headers, and errors that reveal nothing."""

    def __init__(
        self, app: ASGIApp, sender: IdentifySender, find_direct: FindDirect | None = None
    ) -> None:
        self._app, self._identify_sender, self._find_direct = app, sender, find_direct
        self._large: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or send a problem."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no other protocol is served
        if self._find_direct is not None and (found := await self._find_direct(scope)) is not None:
            start, body = found
            _add_headers(scope, start)
            await send(start)
            await send(body)
            return
        exchange = _Exchange(scope, send)
        scope = exchange.scope
        try:
            await self._answer(exchange, receive)
        except Problem as problem:
            await problem_response(Request(scope), problem)(scope, receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - its text must not be sent
            if not exchange.status:
                response = problem_response(Request(scope), unexpected(error))
                await response(scope, receive, exchange.send)
        exchange.report_route()

    async def _answer(self, exchange: "_Exchange", receive: Receive) -> None:
        """Check a request, and forward it."""
        scope = exchange.scope
        exchange.is_last = True  # unless its head is sound
        _check_head(scope)
        exchange.is_last = False
        if scope["method"] == "POST" and scope["path"] in LARGE:
            await self._answer_large(scope, receive, exchange.send)
            return
        body = await _whole_body(scope, receive, MAX_BYTES)
        if body and scope["path"].startswith("/v1/"):
            # JSON of a stranger is not parsed: the routes refuse the request without it. An
            # invalid token is refused and counted here, since there may be no such route.
            identify = partial(self._identify_sender, json_bytes=len(body))
            known = await run_in_threadpool(identify, Request(scope))
            body = b"" if known is None else body
            _check_json(body)
        await self._app(scope, _replay(body, receive), exchange.send)

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


class _Exchange:
    """A request, and the state of its response."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.status = 0
        self.is_last = False
        """Whether the connection is closed after the response."""
        self._is_head = scope["method"] == "HEAD"
        # The routes know GET alone; a response to HEAD is the same without its body.
        self.scope = {**scope, "method": "GET", HEAD: True} if self._is_head else scope
        self._given = scope
        self._send = send

    def report_route(self) -> None:
        """Leave the route that was found to the middleware outside of this one."""
        if "route" in self.scope:
            self._given["route"] = self.scope["route"]

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status == Code.BUSY.status:
                self.is_last = True
                self._given[PAUSED] = True
                await asyncio.sleep(_BUSY_SECONDS)
            _add_headers(self.scope, message)
            if self.is_last:
                MutableHeaders(scope=message)["Connection"] = "close"
        elif self._is_head:
            message = {**message, "body": b""}
        if len(message.get("body", b"")) <= _PIECE:
            await self._send(message)
            return
        for piece in _pieces(message):
            await self._send(piece)


def unexpected(error: Exception) -> Problem:
    """Return the problem of an unexpected error; its identifier is in the log."""
    number = uuid.uuid4().hex
    _LOG.error("error %s: %s", number, type(error).__name__)
    return Problem(Code.INTERNAL, id=number)


def _check_head(scope: Scope) -> None:
    """Refuse a head that is too large or has two meanings; the connection is closed.

    A server and a proxy that differ in where a body ends would take its rest for a request; if they
    differ in which of two tokens they use, one would admit what the other has not seen.
    """
    names = Counter(name for name, _ in scope["headers"])
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise Problem(Code.HEADERS_TOO_LARGE)
    if {b"content-length", b"transfer-encoding"} <= names.keys():
        raise invalid(("Content-Length", "omitted beside Transfer-Encoding"))
    if names[b"authorization"] > 1:
        raise invalid(("Authorization", "given once"))


def _check_json(body: bytes) -> None:
    """Refuse a JSON object with a key that stands twice: readers differ in which one they use.

    JSON is UTF-8 without a byte order mark (RFC 8259): readers of other encodings differ as well.
    No JSON in UTF-8 has a NUL byte, and every JSON object in UTF-16 or UTF-32 has one.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        raise invalid(_UTF8) from None
    if body.startswith(codecs.BOM_UTF8) or b"\0" in body:
        raise invalid(_UTF8)
    if body.lstrip()[:1] not in (b"{", b"["):
        return
    try:
        json.loads(body, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return  # what it is, is stated where it is read


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise invalid(("body", "JSON in which no key of an object stands twice"))
    return found


def _check_length(scope: Scope, max_bytes: int) -> None:
    """Refuse a body whose Content-Length is too large."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if not length.isdigit() or int(length[:20]) > max_bytes:
        raise Problem(Code.TOO_LARGE)


async def _whole_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """Read a body, within limits of size and time."""
    names = {name for name, _ in scope["headers"]}
    if scope["method"] == "GET" and not names & {b"content-length", b"transfer-encoding"}:
        return b""  # there is none
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
    """Split the body of a response; a client that does not read holds a copy of one piece."""
    body = message["body"]
    last = (len(body) - 1) // _PIECE * _PIECE
    for start in range(0, last, _PIECE):
        yield {**message, "body": body[start : start + _PIECE], "more_body": True}
    yield {**message, "body": body[last:]}


def _add_headers(scope: Scope, message: Message) -> None:
    own = list(message.get("headers", []))
    names = {name.lower() for name, _ in own}
    added = _SECURE_HEADERS if scope["scheme"] == "https" else _RAW_HEADERS
    message["headers"] = own + [one for one in added if one[0] not in names]


_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_SECURE_HEADERS = [*_RAW_HEADERS, (b"strict-transport-security", _HTTPS.encode())]
