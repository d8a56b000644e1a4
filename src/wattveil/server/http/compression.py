"""Compression of responses: pages, reports, tables and the descriptions of the API.

Compression reveals secrets of a response to somebody who can put chosen text into it and see its
size (BREACH). Therefore only responses to GET are compressed: tokens are shown in responses to
forms. A page has one secret, the CSRF token, and it is written differently each time
(`sessions.masked`). Bearer tokens are in no response, and another site cannot make a browser
send one, nor the cookie of a session. The size of a released table depends on what was released.
"""

import gzip
import re

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEVEL = 6
_MIN_BYTES = 1000
"""Shorter responses fit into one packet as they are."""
_LARGE_BYTES = 32 * 1024
"""Longer ones are compressed in a thread: others are answered meanwhile."""
_TYPES = re.compile(rb"(text/(html|css|csv|javascript)|application/json)(;|$)")


def accepts_gzip(accepted: str) -> bool:
    """Whether the header Accept-Encoding of a request permits gzip."""
    for one in accepted.lower().split(","):
        coding, *parameters = (part.strip() for part in one.split(";"))
        if coding in ("gzip", "*"):
            return not any(re.fullmatch(r"q=0(\.0*)?", part) for part in parameters)
    return False


class CompressMiddleware:
    """Compresses what the client accepts compressed, if it is worth it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, and compress the response."""
        if scope["type"] == "http" and scope["method"] == "GET":
            send = _Compressing(scope, send).send
        await self._app(scope, receive, send)


class _Compressing:
    def __init__(self, scope: Scope, send: Send) -> None:
        self._is_accepted = accepts_gzip(Headers(scope=scope).get("accept-encoding", ""))
        self._send = send
        self._start: Message | None = None

    async def send(self, message: Message) -> None:
        """Send a part of a response; one that comes whole is compressed."""
        if message["type"] == "http.response.start":
            if message["status"] == 200 and _is_compressible(message):  # noqa: PLR2004 - OK
                MutableHeaders(scope=message).add_vary_header("Accept-Encoding")
                self._start = message if self._is_accepted else None
            if self._start is None:
                await self._send(message)
            return
        if self._start is not None:
            start, self._start = self._start, None
            body = message.get("body", b"")
            if not message.get("more_body", False):
                body = await _compressed(body)
                message = {**message, "body": body}
                headers = MutableHeaders(scope=start)
                headers["Content-Encoding"] = "gzip"
                headers["Content-Length"] = str(len(body))
            await self._send(start)
        await self._send(message)


def _is_compressible(message: Message) -> bool:
    """Whether a response is text that is sent whole; a file that is sent in parts has an ETag."""
    is_text, length = False, _MIN_BYTES
    for name, value in message["headers"]:
        if name in (b"content-encoding", b"etag"):
            return False
        if name == b"content-type":
            is_text = _TYPES.match(value) is not None
        elif name == b"content-length":
            length = int(value)
    return is_text and length >= _MIN_BYTES


async def _compressed(body: bytes) -> bytes:
    if len(body) < _LARGE_BYTES:
        return gzip.compress(body, _LEVEL, mtime=0)
    return await run_in_threadpool(gzip.compress, body, _LEVEL, mtime=0)
