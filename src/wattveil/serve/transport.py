"""How the client speaks to a server: one address, one token, no detours."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any

from wattveil.errors import InvalidParameterError, ServerRefusalError

_HERE = ("127.0.0.1", "::1", "localhost")
_SECONDS = 120.0
_SAID = ("type", "title", "status", "code")


class _NoDetours(urllib.request.HTTPRedirectHandler):
    """A server that sends elsewhere would have the token follow."""

    def redirect_request(  # noqa: PLR0917 - as the base class calls it
        self,
        req: urllib.request.Request,  # noqa: ARG002
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: HTTPMessage,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Go nowhere."""
        return


class Transport:
    """Requests to one server."""

    def __init__(self, url: str, token: str) -> None:
        parts = urllib.parse.urlsplit(url)
        here = parts.hostname in _HERE
        if parts.scheme != "https" and not (parts.scheme == "http" and here):
            rule = "an https address, or http on this very machine: others would read the token"
            raise InvalidParameterError("url", rule, url)
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            found = "another text" if token else ""  # which is no secret
            raise InvalidParameterError("token", "as the administrator gave it", found)
        self._url = url.rstrip("/")
        self._token = token
        proxies = [urllib.request.ProxyHandler({})] if here else []
        self._opener = urllib.request.build_opener(_NoDetours(), *proxies)

    def __repr__(self) -> str:
        """Name the server, never the token."""
        return f"Transport({self._url!r})"

    @staticmethod
    def quoted(name: str) -> str:
        """Return a name as a part of an address."""
        return urllib.parse.quote(name, safe="")

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON at an address."""
        found: dict[str, Any] = json.loads(self.fetch(path))
        return found

    def post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send JSON, and return what is answered."""
        data = json.dumps(body, allow_nan=False).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        found: dict[str, Any] = json.loads(self.fetch(path, data, sent))
        return found

    def fetch(
        self, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the bytes at an address; what the server refuses becomes an error."""
        request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
            self._url + path,
            data=data,
            headers={"Authorization": f"Bearer {self._token}", **(headers or {})},
        )
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from None
        except (OSError, HTTPException) as error:
            raise ServerRefusalError("unreachable", type(error).__name__, {}) from None


def _refusal(error: urllib.error.HTTPError) -> ServerRefusalError:
    """Return the problem that a server sent."""
    try:
        problem = json.loads(error.read())
        details = {name: value for name, value in problem.items() if name not in _SAID}
        return ServerRefusalError(str(problem["code"]), str(problem["title"]), details)
    except (ValueError, KeyError, AttributeError, TypeError):
        return ServerRefusalError(str(error.code), "no problem that a Wattveil server knows", {})
