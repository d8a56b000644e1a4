"""Answers to the most frequent requests, without the routes: probes, and who a token belongs to.

Content, headers, log line and metrics are those of the routes, which answer whatever is not found
here: requests with a body, a large head or two tokens, invalid tokens, requests above the rate.
"""

from functools import lru_cache
from typing import NamedTuple

from starlette.types import Message, Scope

from wattveil.server.auth.access import Access
from wattveil.server.auth.principals import Principal
from wattveil.server.http.responses import Health, Me
from wattveil.server.server_state import ServerState

_MAX_HEADERS = 32
_MAX_VALUE_BYTES = 1000
_BODY_HEADERS = (b"content-length", b"transfer-encoding")

HEALTHY = Health(status="ok").model_dump_json().encode()


class DirectRoute(NamedTuple):
    """Route of a direct answer, for logs and metrics."""

    path: str


_ROUTES = {path: DirectRoute(path) for path in ("/healthz", "/livez", "/v1/me")}


@lru_cache(maxsize=1000)
def description_of(principal: Principal) -> bytes:
    """Return the JSON that describes a principal."""
    return Me(name=principal.name, kind=principal.kind).model_dump_json().encode()


class DirectAnswers:
    """Finds the response of a request that needs no thread of its own."""

    def __init__(self, state: ServerState, access: Access) -> None:
        self._state, self._access = state, access

    async def find(self, scope: Scope) -> tuple[Message, Message] | None:
        """Return both parts of a response; None for any request that the routes answer."""
        path = scope["path"]
        if path not in _ROUTES or scope["method"] != "GET" or len(scope["headers"]) > _MAX_HEADERS:
            return None
        authorization: bytes | None = None
        for name, value in scope["headers"]:
            if name in _BODY_HEADERS or len(name) + len(value) > _MAX_VALUE_BYTES:
                return None
            if name == b"authorization":
                if authorization is not None:
                    return None
                authorization = value
        content = await self._content(path, (authorization or b"").decode("latin-1"))
        if content is None:
            return None
        scope["route"] = _ROUTES[path]
        headers = [
            (b"content-length", str(len(content)).encode()),
            (b"content-type", b"application/json"),
        ]
        start: Message = {"type": "http.response.start", "status": 200, "headers": headers}
        return start, {"type": "http.response.body", "body": content}

    async def _content(self, path: str, authorization: str) -> bytes | None:
        if path == "/livez":
            return HEALTHY
        if path == "/healthz":
            return HEALTHY if self._state.worker.is_healthy else None
        await self._access.wait_for_reading(authorization)
        principal = self._access.recent(authorization)
        return None if principal is None else description_of(principal)
