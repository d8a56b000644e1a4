"""Requests of the Python client to one server: TLS, limits, and problems as errors."""

import io
import json
import ssl
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import httpx

from wattveil.errors import InvalidParameterError, ServerRefusalError
from wattveil.web.budget_texts import RESERVED

MAX_FILE_BYTES = 2**30
"""Maximum size of a file, also of an archive after it is unpacked."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TIMEOUT = httpx.Timeout(120.0)  # of each step: to connect, to send, to receive the next bytes
_MAX_JSON_BYTES = 64 * 2**20
_REMEDIES = {"unauthorized": "the one that was sent is unknown, expired or revoked"}
"""What a title of the server leaves open, by its code."""
_STANDARD_FIELDS = ("type", "title", "status", "code")


class Transport:
    """Requests to one server, with one token."""

    def __init__(self, url: str, token: str) -> None:
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            raise InvalidParameterError("url", "the address of a server", url) from None
        loopback = address.host in _LOOPBACK
        if address.scheme != "https" and not (address.scheme == "http" and loopback):
            text = (
                "url must start with https:// (http:// is accepted only for loopback addresses,"
                " because the token could be read in transit)"
            )
            raise InvalidParameterError("url", "an https address", url, text=text)
        if not address.host or address.userinfo or address.query or address.fragment:
            rule = "the address of a server, without user, query and fragment"
            # The address is not shown: it may hold a password.
            raise InvalidParameterError("url", rule, "another text", text=f"url must be {rule}")
        if not is_header_text(token):
            rule = "printable ASCII without spaces, as it was issued"
            text = f"token must be {rule}" if token else "token is empty"
            raise InvalidParameterError("token", rule, "", text=text)  # the text may be a secret
        self._url = str(address).rstrip("/")
        self._token = token
        self._tls = ssl.create_default_context()  # of the system: httpx would use certifi's
        self._proxy = None if loopback else _proxy(address, self._tls)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._url

    def __repr__(self) -> str:
        """Return the address, never the token."""
        return f"Transport({self._url!r})"

    @staticmethod
    def quoted(name: str) -> str:
        """Return a name as a segment of an address."""
        return quote(name, safe="")

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at an address."""
        return _json_object(self.fetch(path, max_bytes=_MAX_JSON_BYTES))

    def post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send JSON, and return the JSON object of the response."""
        data = json.dumps(body, allow_nan=False).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        target = io.BytesIO()
        self._send("POST", path, target, _MAX_JSON_BYTES, headers=sent, content=data)
        return _json_object(target.getvalue())

    def fetch(self, path: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Return the bytes at an address; a problem of the server is raised as an error."""
        target = io.BytesIO()
        self._send("GET", path, target, max_bytes)
        return target.getvalue()

    def download(self, path: str, target: IO[bytes], *, max_bytes: int = MAX_FILE_BYTES) -> None:
        """Write the bytes at an address to a file, piece by piece as they arrive."""
        self._send("GET", path, target, max_bytes)

    def _send(
        self,
        method: str,
        path: str,
        target: IO[bytes],
        max_bytes: int,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> None:
        """Send a request, and write the body of the response to `target`."""
        if not path.startswith("/"):  # appended to a host, it could name another one
            raise InvalidParameterError("path", "a path that begins with /", path)
        sent = {
            "Authorization": f"Bearer {self._token}",
            "Accept-Encoding": "identity",  # the limit of size is of what arrives
            **(headers or {}),
        }
        try:
            # One client per request: no connection, cookie or other state stays behind.
            with httpx.stream(
                method,
                self._url + path,
                headers=sent,
                content=content,
                follow_redirects=False,
                timeout=_TIMEOUT,
                verify=self._tls,
                proxy=self._proxy,
                trust_env=False,
            ) as response:
                if response.is_success:
                    _receive(response, target, max_bytes)
                    return
                problem = io.BytesIO()
                _receive(response, problem, _MAX_JSON_BYTES)
        except httpx.InvalidURL:
            raise InvalidParameterError("path", "a path of the server", path) from None
        except httpx.HTTPError as error:
            reason = f": {error}" if isinstance(error, httpx.ConnectError) else ""
            title = f"no response from {self._url}; check the address and the server"
            title += f" ({type(error).__name__}{reason})"
            raise ServerRefusalError("unreachable", title, {}) from None
        raise _refusal(response.status_code, problem.getvalue())


def is_header_text(text: str) -> bool:
    """Whether a header can hold a text."""
    return text.isascii() and text.isprintable() and " " not in text and text != ""


def _proxy(address: httpx.URL, tls: ssl.SSLContext) -> httpx.Proxy | None:
    """Return the proxy that environment or system name for a host; it sees no token, only TLS."""
    found = getproxies().get("https")
    if not found or proxy_bypass(address.netloc.decode()):
        return None
    try:
        url = httpx.URL(found if "://" in found else f"http://{found}")
        if url.scheme in ("http", "https"):
            return httpx.Proxy(url, ssl_context=tls if url.scheme == "https" else None)
    except httpx.InvalidURL:
        pass
    # The value is not shown: it may hold a password.
    rule = "an http or https address"
    raise InvalidParameterError("https_proxy", rule, "", text=f"https_proxy must be {rule}")


def _receive(response: httpx.Response, target: IO[bytes], max_bytes: int) -> None:
    """Write the body of a response, as sent, up to a maximum."""
    size = 0
    for piece in response.iter_raw():
        size += len(piece)
        if size > max_bytes:
            title = f"the response has more than {max_bytes} bytes"
            raise ServerRefusalError("response_too_large", title, {})
        target.write(piece)


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise invalid_response("not a JSON object")
    return found


def member(found: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - any JSON
    """Return a field of a response, which must have it."""
    if name not in found:
        raise invalid_response(f"{name} is missing")
    return found[name]


def invalid_response(reason: str) -> ServerRefusalError:
    """Return the error about a response that no Wattveil server sends."""
    title = f"not a response of a Wattveil server: {reason}"
    return ServerRefusalError("invalid_response", title, {})


def _refusal(status: int, content: bytes) -> ServerRefusalError:
    """Return the problem (RFC 9457) of a response as an error."""
    try:
        problem = json.loads(content)
        details = {name: value for name, value in problem.items() if name not in _STANDARD_FIELDS}
        code, title = str(problem["code"]), str(problem["title"])
        if "largest_epsilon" not in details:
            return ServerRefusalError(code, title, details, more=_REMEDIES.get(code, ""))
        details["largest_epsilon"] = float(details.pop("largest_epsilon"))  # last in the text
        return ServerRefusalError(code, title, details, more=RESERVED)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return ServerRefusalError(str(status), "not a problem of a Wattveil server", {})
