"""Client of a server: data sets, quotes, releases and downloads from Python.

>>> import wattveil
>>> homes = wattveil.connect("https://data.example", token).dataset("homes")  # doctest: +SKIP
>>> homes.quote(n_clusters=6, epsilon=0.5)["plan"]["products"][0]["expected"]  # doctest: +SKIP
>>> release = homes.release(n_clusters=6, epsilon=0.5)  # doctest: +SKIP
>>> release.to_pandas("centroids")  # doctest: +SKIP
>>> release.download("bundle")  # doctest: +SKIP

Rules of every request: one server, whose token is sent to no other host; no redirects; no cookies;
certificates of TLS are checked against the trust store of the system, or against `SSL_CERT_FILE`;
time and size of a response are limited; nothing is repeated but the question whether a release is
computed.
"""

import hashlib
import io
import json
import ssl
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import httpx

from wattveil import checks
from wattveil.bundle.keys import canonical
from wattveil.bundle.release_tables import ReleaseTables, plan_lines, plan_tables
from wattveil.errors import InvalidParameterError, ServerRefusalError
from wattveil.web.formatting import format_number, format_share
from wattveil.web.results import Result, ResultTable

if TYPE_CHECKING:  # slow to load, and `wattveil admin` needs none of them
    import pyarrow as pa

    from wattveil.bundle.manifest import Manifest

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TIMEOUT = httpx.Timeout(120.0)  # of each step: to connect, to send, to receive the next bytes
_MAX_JSON_BYTES = 64 * 2**20
_MAX_FILE_BYTES = 2**30  # also of an archive after it is unpacked
_MAX_PAUSE_SECONDS = 5.0
_RESTARTING = ("unreachable", "unavailable", "not_recorded", "502", "503", "504")
_STANDARD_FIELDS = ("type", "title", "status", "code")
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def connect(url: str, token: str) -> "Connection":
    """Return a connection to a server; no request is sent yet.

    Parameters
    ----------
    url
        Address of the server: https, or http on the loopback.
    token
        Token of a principal. It is sent to this server only.
    """
    return Connection(Transport(url, token))


class Transport:
    """Requests to one server, with one token."""

    def __init__(self, url: str, token: str) -> None:
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            raise InvalidParameterError("url", "the address of a server", url) from None
        loopback = address.host in _LOOPBACK
        if address.scheme != "https" and not (address.scheme == "http" and loopback):
            rule = "an https address, or http on the loopback: the token could be read in transit"
            raise InvalidParameterError("url", rule, url)
        if not address.host or address.userinfo or address.query or address.fragment:
            rule = "the address of a server, without user, query and fragment"
            raise InvalidParameterError("url", rule, "another text")  # it may hold a password
        if not _is_header_text(token):
            found = "another text" if token else ""  # the text may be a secret
            raise InvalidParameterError(
                "token", "printable ASCII without spaces, as it was issued", found
            )
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

    def fetch(self, path: str, *, max_bytes: int = _MAX_FILE_BYTES) -> bytes:
        """Return the bytes at an address; a problem of the server is raised as an error."""
        target = io.BytesIO()
        self._send("GET", path, target, max_bytes)
        return target.getvalue()

    def download(self, path: str, target: IO[bytes], *, max_bytes: int = _MAX_FILE_BYTES) -> None:
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


def _is_header_text(text: str) -> bool:
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
    raise InvalidParameterError("https_proxy", "an http or https address", "another text")


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
        raise _invalid_response("not a JSON object")
    return found


def _member(found: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - any JSON
    if name not in found:
        raise _invalid_response(f"{name} is missing")
    return found[name]


def _invalid_response(reason: str) -> ServerRefusalError:
    title = f"not a response of a Wattveil server: {reason}"
    return ServerRefusalError("invalid_response", title, {})


def _refusal(status: int, content: bytes) -> ServerRefusalError:
    """Return the problem (RFC 9457) of a response as an error."""
    try:
        problem = json.loads(content)
        details = {name: value for name, value in problem.items() if name not in _STANDARD_FIELDS}
        return ServerRefusalError(str(problem["code"]), str(problem["title"]), details)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return ServerRefusalError(str(status), "not a problem of a Wattveil server", {})


@dataclass(frozen=True)
class Connection:
    """Connection to a server, for one principal."""

    transport: Transport

    def datasets(self) -> "RemoteDatasets":
        """Return the public parameters of the data sets for which the principal has an account."""
        return RemoteDatasets(_member(self.transport.get("/v1/datasets"), "datasets"))

    def dataset(self, name: str) -> "RemoteDataset":
        """Return a data set by its name."""
        description = self.transport.get(f"/v1/datasets/{self.transport.quoted(name)}")
        return RemoteDataset(self.transport, name, description)

    def releases(self, *, limit: int = 50) -> "RemoteReleases":
        """Return the latest releases of the principal and those shared with it, newest first.

        Parameters
        ----------
        limit
            Maximum number.
        """
        path = f"/v1/releases?limit={checks.integer('limit', limit, minimum=1)}"
        return RemoteReleases(_member(self.transport.get(path), "releases"))

    def release(self, release_id: str) -> "RemoteRelease":
        """Return a release by its identifier."""
        result = self.transport.get(f"/v1/releases/{self.transport.quoted(release_id)}")
        return RemoteRelease(self.transport, str(_member(result, "id")))


@dataclass(frozen=True, repr=False)
class RemoteDataset:
    """Data set on a server."""

    transport: Transport
    name: str
    description: Mapping[str, Any]

    def __repr__(self) -> str:
        """Return name, server, title, public number of customers, and whether it is closed."""
        title, customers = (self.description.get(name) for name in ("title", "customers"))
        closed = "; closed" if self.description.get("closed") else ""
        where = f"{self.name!r} of {self.transport.url}"
        return f"RemoteDataset({where}: {title}; about {customers} customers{closed})"

    def budget(self, *, tier: str = "global") -> "RemoteBudget":
        """Return caps and amounts spent, of the data set and of the principal."""
        path = f"{self._address}/budget?tier={self.transport.quoted(tier)}"
        return RemoteBudget(self.transport.get(path))

    def quote(self, **choices: Any) -> "Quote":  # noqa: ANN401 - the server has the rules
        """Return privacy cost and expected error of choices as for `release`; charges nothing."""
        return Quote(self.transport.post(f"{self._address}/quotes", choices))

    def release(
        self,
        *,
        key: str | None = None,
        wait_seconds: float = 3600.0,
        **choices: Any,  # noqa: ANN401 - the server has the rules
    ) -> "RemoteRelease":
        """Order a release, and wait for it.

        Parameters
        ----------
        key
            Idempotency key: the same key and choices return the same release at no cost. None
            derives one from the choices.
        wait_seconds
            Maximum time to wait; the computation continues after it.
        choices
            Fields of the body of a request, such as ``epsilon``, ``n_clusters``, ``products``,
            ``options`` and ``by``: see the reference of the HTTP API.
        """
        digest = hashlib.sha256(canonical({"dataset": self.name, **choices})).hexdigest()
        if key is not None and not _is_header_text(key):
            raise InvalidParameterError("key", "printable ASCII without spaces", key)
        headers = {"Idempotency-Key": f"choices-{digest}" if key is None else key}
        result = self.transport.post(f"{self._address}/releases", choices, headers)
        found = RemoteRelease(self.transport, str(_member(result, "id")))
        found.wait(wait_seconds)
        return found

    @property
    def _address(self) -> str:
        return f"/v1/datasets/{self.transport.quoted(self.name)}"


class Quote(dict[str, Any], Result):
    """Privacy cost and expected error of a release, as sent by the server; nothing is charged."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        plan = _member(self, "plan")
        return plan_tables(_member(plan, "products"), _member(plan, "customers_estimate"))

    def __repr__(self) -> str:
        """Return price, customers and expected quality in lines; `dict(quote)` has all fields."""
        return "\n".join([f"Quote: {self._statement()}", *plan_lines(self.get("plan") or {})])

    def _statement(self) -> str:
        return f"epsilon {self.get('epsilon')}, delta {self.get('delta')}; nothing is charged yet."


class RemoteBudget(dict[str, Any], Result):
    """Caps and amounts spent, of the data set and of the principal, as sent by the server."""

    def __repr__(self) -> str:
        """Return what is spent of each account in lines; `dict(budget)` has all fields."""
        lines = [
            f"  {whose}: epsilon {format_number(float(self[scope]['epsilon_spent']))} of"
            f" {format_number(float(self[scope]['epsilon_cap']))} spent"
            f" ({format_share(float(self[scope]['share_spent']), 0)})"
            for scope, whose in (("dataset", "all analysts together"), ("own", "you"))
            if self.get(scope)
        ]
        return "\n".join(["Budget:", *lines])

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"budget": self._accounts}

    def _accounts(self) -> ResultTable:
        accounts = {scope: self[scope] for scope in ("dataset", "own") if self.get(scope)}
        columns: dict[str, list[Any]] = {"account": list(accounts)}
        for name in ("epsilon_cap", "epsilon_spent", "share_spent"):
            columns[name] = [float(account[name]) for account in accounts.values()]
        return ResultTable(columns, ("account",))


class RemoteDatasets(list[dict[str, Any]], Result):
    """Public parameters of data sets, as sent by the server."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        names = ("name", "closed", "customers", "clip_kw")
        columns = {name: [one.get(name) for one in self] for name in names}
        return {"datasets": lambda: ResultTable(columns, ("name",))}


class RemoteReleases(list[dict[str, Any]], Result):
    """Releases of the principal and those shared with it, as sent by the server."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        names = ("id", "dataset", "ordered_by", "ordered_at", "state")
        columns: dict[str, list[Any]] = {name: [one.get(name) for one in self] for name in names}
        for name in ("tier", "epsilon"):
            columns[name] = [(one.get("request") or {}).get(name) for one in self]
        columns["same_as"] = [one.get("same_as") for one in self]
        return {"releases": lambda: ResultTable(columns, ("id",))}


@dataclass(frozen=True, repr=False)
class RemoteRelease(ReleaseTables):
    """Release on a server; it never changes."""

    transport: Transport
    id: str

    def __repr__(self) -> str:
        """Return identifier and server; no request is sent."""
        return f"RemoteRelease({self.id!r} of {self.transport.url})"

    def __str__(self) -> str:
        """Return also the tables and the guarantee, which are requested from the server."""
        try:
            return f"{self!r}: {', '.join(self.tables)}; {self._statement()}"
        except ServerRefusalError as error:
            return f"{self!r}: {error.code}"

    @property
    def state(self) -> str:
        """``computing``, ``ok`` or ``failed``."""
        return str(_member(self.transport.get(self._address), "state"))

    def wait(self, seconds: float) -> None:
        """Wait until it is computed, also if the server restarts; raise its problem if it fails."""
        until, pause, state = time.monotonic() + seconds, 0.1, ""
        while True:
            try:
                if (state := self.state) != "computing":
                    break
            except ServerRefusalError as error:
                if error.code not in _RESTARTING or time.monotonic() > until:
                    raise
            if time.monotonic() > until:
                raise TimeoutError(f"release {self.id} is still being computed; read it later")
            time.sleep(pause)
            pause = min(1.5 * pause, _MAX_PAUSE_SECONDS)
        if state != "ok":
            _ = self.manifest  # raises the problem that the server sends

    @cached_property
    def manifest(self) -> "Manifest":
        """The manifest."""
        return self.transport.get(f"{self._address}/manifest")

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        paths = map(Path, self._payload)
        names = sorted(path.stem for path in paths if path.suffix == ".parquet")
        return {name: partial(self._indexed, name) for name in names}

    def _read(self, name: str) -> "pa.Table":
        import pyarrow as pa  # noqa: PLC0415 - slow to load
        import pyarrow.parquet as pq  # noqa: PLC0415

        content = self.transport.fetch(f"{self._address}/payload/{name}.parquet")
        try:
            return pq.read_table(io.BytesIO(content))
        except (pa.ArrowException, OSError):
            raise _invalid_response("not a Parquet file") from None

    def share(self, reader: str) -> None:
        """Permit a principal, or ``*`` for all, to read it, permanently; nothing is charged.

        A name that the server does not know is accepted too: an error would tell who has an
        account. Check its spelling.
        """
        self.transport.post(f"{self._address}/shares", {"reader": reader})

    def download(self, out: str | Path) -> Path:
        """Write the bundle to a new folder, for `wattveil verify` and `wattveil synthesize`."""
        from wattveil.bundle.bundle_files import MANIFEST, check_out  # noqa: PLC0415 - slow to load

        folder = Path(out)
        check_out(folder)
        listed = {MANIFEST, *self._payload}
        with tempfile.TemporaryFile() as file:
            self.transport.download(f"{self._address}/bundle.zip", file)
            try:
                files = _unpacked(file, listed)
            except _BROKEN_ARCHIVE:
                raise _invalid_response("not a zip archive") from None
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    @property
    def _payload(self) -> tuple[str, ...]:
        """The paths of the files that the manifest lists."""
        try:
            return tuple(str(entry["path"]) for entry in self.manifest["payload"])
        except (KeyError, TypeError):
            raise _invalid_response("a manifest without payload") from None

    @property
    def _address(self) -> str:
        return f"/v1/releases/{self.transport.quoted(self.id)}"


def _unpacked(file: IO[bytes], listed: set[str]) -> dict[str, bytes]:
    """Return the files of an archive; it must not write outside its folder, nor fill the disk."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        for name in (member.filename for member in members):
            if name not in listed or name.startswith("/") or ".." in Path(name).parts:
                raise InvalidParameterError("bundle", "made of the files of its manifest", name)
        if sum(member.file_size for member in members) > _MAX_FILE_BYTES:
            title = f"the bundle has more than {_MAX_FILE_BYTES} bytes"
            raise ServerRefusalError("response_too_large", title, {})
        return {member.filename: archive.read(member) for member in members}
