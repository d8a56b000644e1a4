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
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from wattveil import checks
from wattveil.bundle.keys import canonical
from wattveil.bundle.release_tables import ReleaseTables, plan_lines, plan_tables
from wattveil.errors import InvalidParameterError, ServerRefusalError
from wattveil.server.client_texts import (
    dataset_line,
    group_names,
    listed_lines,
    release_words,
    sent_number,
    sent_time,
)
from wattveil.server.client_transport import (
    MAX_FILE_BYTES,
    Transport,
    invalid_response,
    is_header_text,
    member,
)
from wattveil.web.budget_texts import (
    SHARE_OF_BUDGET,
    affordability,
    label_budget,
    label_epsilon,
)
from wattveil.web.formatting import format_number, format_share
from wattveil.web.request_texts import contents_text
from wattveil.web.results import Result, ResultTable

if TYPE_CHECKING:  # slow to load, and `wattveil admin` needs none of them
    import pyarrow as pa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from wattveil.bundle.manifest import Manifest
    from wattveil.bundle.verify.verify_bundle import VerificationReport

_MAX_PAUSE_SECONDS = 5.0
_PAGE = 100
"""Most releases that a server lists in one response."""
_RESTARTING = ("unreachable", "unavailable", "not_recorded", "502", "503", "504")
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


@dataclass(frozen=True, repr=False)
class Connection:
    """Connection to a server, for one principal."""

    transport: Transport

    def __repr__(self) -> str:
        """Return the address, never the token."""
        return f"Connection({self.transport.url!r})"

    def datasets(self) -> "RemoteDatasets":
        """Return the public parameters of the data sets for which the principal has an account."""
        return RemoteDatasets(member(self.transport.get("/v1/datasets"), "datasets"))

    def dataset(self, name: str) -> "RemoteDataset":
        """Return a data set by its name."""
        try:
            description = self.transport.get(f"/v1/datasets/{self.transport.quoted(name)}")
        except ServerRefusalError as error:
            if error.code != "forbidden":
                raise
            names = [str(one.get("name")) for one in self.datasets()]
            known = f"your data sets: {', '.join(names) or 'none'}"
            raise ServerRefusalError(error.code, f"{name}: {error.title}", {}, more=known) from None
        return RemoteDataset(self.transport, name, description)

    def releases(self, *, limit: int = 50) -> "RemoteReleases":
        """Return the latest releases of the principal and those shared with it, newest first.

        Parameters
        ----------
        limit
            Maximum number.
        """
        missing, found, last = checks.integer("limit", limit, minimum=1), RemoteReleases(), ""
        while missing > 0:
            path = f"/v1/releases?limit={min(missing, _PAGE)}{last}"
            page = member(self.transport.get(path), "releases")
            found.extend(page)
            if len(page) < min(missing, _PAGE):
                break
            missing, last = missing - len(page), f"&before={page[-1]['id']}"
        return found

    def release(self, release_id: str) -> "RemoteRelease":
        """Return a release by its identifier."""
        try:
            result = self.transport.get(f"/v1/releases/{self.transport.quoted(release_id)}")
        except ServerRefusalError as error:
            if error.code != "not_found":
                raise
            title = f"no release {release_id} that you can read"
            more = "releases() lists yours, and those shared with you"
            raise ServerRefusalError(error.code, title, {}, more=more) from None
        return RemoteRelease(self.transport, str(member(result, "id")), result)


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
        if key is not None and not is_header_text(key):
            raise InvalidParameterError("key", "printable ASCII without spaces", key)
        headers = {"Idempotency-Key": f"choices-{digest}" if key is None else key}
        result = self.transport.post(f"{self._address}/releases", choices, headers)
        found = RemoteRelease(self.transport, str(member(result, "id")), result)
        found.wait(wait_seconds)
        return found

    @property
    def _address(self) -> str:
        return f"/v1/datasets/{self.transport.quoted(self.name)}"


class Quote(dict[str, Any], Result):
    """Privacy cost and expected error of a release, as sent by the server; nothing is charged.

    Epsilon, delta and ``largest_epsilon`` are numbers, as `RemoteDataset.release` accepts them.
    """

    def __init__(self, *fields: Any, **named: Any) -> None:  # noqa: ANN401 - those of a dict
        super().__init__(*fields, **named)
        for name in ("epsilon", "delta", "largest_epsilon"):
            if self.get(name) is not None:
                self[name] = sent_number(self[name])

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        plan = member(self, "plan")
        return plan_tables(member(plan, "products"), member(plan, "customers_estimate"))

    def __repr__(self) -> str:
        """Return price, whether the budget covers it, and expected quality in lines.

        `dict(quote)` has all fields.
        """
        lines = [f"Quote: {self._statement()}", *(f"  {text}" for text in self._affordable())]
        return "\n".join([*lines, *plan_lines(self.get("plan") or {})])

    def _statement(self) -> str:
        return f"epsilon {self.get('epsilon')}, delta {self.get('delta')}; nothing is charged yet."

    def _notes(self) -> Sequence[str]:
        warnings = (self.get("plan") or {}).get("warnings", ())
        return [*self._affordable(), *(f"Warning: {text}" for text in warnings)]

    def _affordable(self) -> Sequence[str]:
        """Return whether the budget covers the release, in the sentence of the server's page."""
        if "already_paid" not in self or "more_of_this_kind" not in self:
            return []
        paid, more = self["already_paid"], self["more_of_this_kind"]
        found = affordability(
            paid_dataset=paid["dataset"],
            paid_own=paid["own"],
            more_dataset=more["dataset"],
            more_own=more["own"],
            largest_epsilon=self.get("largest_epsilon"),
            price=self.get("price") or {},
            left=self.get("left"),
        )
        return [found.text]


class RemoteBudget(dict[str, Any], Result):
    """Caps and amounts spent, of the data set and of the principal, as sent by the server."""

    def __repr__(self) -> str:
        """Return what is spent of each account in lines; `dict(budget)` has all fields."""
        lines = [
            f"  {whose}: epsilon {format_number(float(self[scope]['epsilon_spent']))} of"
            f" {format_number(float(self[scope]['epsilon_cap']))} spent"
            f" ({format_share(float(self[scope]['share_spent']), 0)})"
            + (f"; {labels}" if (labels := label_budget(self[scope])) else "")
            for scope, whose in (("dataset", "all analysts together"), ("own", "you"))
            if self.get(scope)
        ]
        return "\n".join(["Budget:", *lines, *(f"  {text}" for text in self._notes())])

    def _notes(self) -> Sequence[str]:
        return [SHARE_OF_BUDGET]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"budget": self._accounts}

    def _accounts(self) -> ResultTable:
        accounts = {scope: self[scope] for scope in ("dataset", "own") if self.get(scope)}
        columns: dict[str, list[Any]] = {"account": list(accounts)}
        for name in ("epsilon_cap", "epsilon_spent", "share_spent"):
            columns[name] = [float(account[name]) for account in accounts.values()]
        for name, amounts in (("label_epsilon_cap", "caps"), ("label_epsilon_spent", "spent")):
            columns[name] = [label_epsilon(one.get(amounts) or {}) for one in accounts.values()]
        return ResultTable(columns, ("account",))


class RemoteDatasets(list[dict[str, Any]], Result):
    """Public parameters of data sets, as sent by the server."""

    def __repr__(self) -> str:
        """Return a line for each data set; `list(datasets)` has all fields."""
        return listed_lines("data set", [dataset_line(one) for one in self])

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        names = ("name", "title", "closed", "customers", "clip_kw")
        columns = {name: [one.get(name) for one in self] for name in names}
        columns["groups"] = [group_names(one) for one in self]
        columns["products"] = [", ".join(one.get("products") or ()) for one in self]
        return {"datasets": lambda: ResultTable(columns, ("name",))}


class RemoteReleases(list[dict[str, Any]], Result):
    """Releases of the principal and those shared with it, as sent by the server."""

    def __repr__(self) -> str:
        """Return a line for each release; `list(releases)` has all fields."""
        return listed_lines("release", [f"{one.get('id')}: {release_words(one)}" for one in self])

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        names = ("id", "dataset", "ordered_by", "ordered_at", "state")
        columns: dict[str, list[Any]] = {name: [one.get(name) for one in self] for name in names}
        columns["ordered_at"] = [sent_time(one) for one in columns["ordered_at"]]
        requests = [one.get("request") or {} for one in self]
        columns["contents"] = [contents_text(one) for one in requests]
        columns["tier"] = [one.get("tier") for one in requests]
        columns["epsilon"] = [sent_number(one.get("epsilon")) for one in requests]
        columns["same_as"] = [one.get("same_as") for one in self]
        return {"releases": lambda: ResultTable(columns, ("id",))}


@dataclass(frozen=True, repr=False)
class RemoteRelease(ReleaseTables):
    """Release on a server; it never changes."""

    transport: Transport
    id: str
    description: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Data set, request and time of the order, as sent by the server."""

    def __repr__(self) -> str:
        """Return identifier, server and what was ordered; no request is sent."""
        words = release_words({**self.description, "state": None}) if self.description else ""
        where = f"{self.id!r} of {self.transport.url}"
        return f"RemoteRelease({where}{f': {words}' if words else ''})"

    def __str__(self) -> str:
        """Return also the tables and the guarantee, which are requested from the server."""
        try:
            return f"{self!r}: {', '.join(self.tables)}; {self._statement()}"
        except ServerRefusalError as error:
            return f"{self!r}: {error.code}"

    @property
    def state(self) -> str:
        """``computing``, ``ok`` or ``failed``."""
        return str(member(self.transport.get(self._address), "state"))

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

    def _notes(self) -> Sequence[str]:
        ordered = release_words({**self.description, "state": None})
        name = f"Release {self.id}{f': {ordered}' if ordered else ''}."
        return [name, *super()._notes()]

    @property
    def _short_name(self) -> str:
        return self.id

    @cached_property
    def manifest(self) -> "Manifest":
        """The manifest."""
        return self.transport.get(f"{self._address}/manifest")

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        try:
            return super()._result_tables()
        except (KeyError, TypeError):
            raise invalid_response("a manifest without products") from None

    def _read(self, name: str) -> "pa.Table":
        import pyarrow as pa  # noqa: PLC0415 - slow to load
        import pyarrow.parquet as pq  # noqa: PLC0415

        content = self.transport.fetch(f"{self._address}/payload/{name}.parquet")
        try:
            return pq.read_table(io.BytesIO(content))
        except (pa.ArrowException, OSError):
            raise invalid_response("not a Parquet file") from None

    def share(self, reader: str) -> None:
        """Permit a principal, or ``*`` for all, to read it, permanently; nothing is charged.

        A name that the server does not know is accepted too: an error would tell who has an
        account. Check its spelling.
        """
        self.transport.post(f"{self._address}/shares", {"reader": reader})

    def download(self, out: str | Path) -> Path:
        """Write the bundle to a new folder, for `wattveil verify` and `wattveil synthesize`.

        A name that ends in .zip is that of an archive of the bundle.
        """
        from wattveil.bundle.bundle_files import (  # noqa: PLC0415 - slow to load
            MANIFEST,
            check_out,
            outside_bundle,
        )

        folder = Path(out)
        check_out(folder)
        outside_bundle("out", folder)
        listed = {MANIFEST, *self._payload}
        with tempfile.TemporaryFile() as file:
            self.transport.download(f"{self._address}/bundle.zip", file)
            try:
                files = _unpacked(file, listed)
            except _BROKEN_ARCHIVE:
                raise invalid_response("not a zip archive") from None
            if folder.suffix.lower() == ".zip":
                file.seek(0)
                folder.write_bytes(file.read())
                return folder
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    def verify(self, trusted: "Ed25519PublicKey | None" = None) -> "VerificationReport":
        """Download the bundle and verify it on this machine, as `Bundle.verify` does.

        Parameters
        ----------
        trusted
            The public key that must have signed it: ``wattveil.bundle.read_public_key(path)``.
        """
        from wattveil.bundle.verify.verify_bundle import verify_bundle  # noqa: PLC0415 - slow

        with tempfile.TemporaryDirectory() as scratch:
            return verify_bundle(self.download(Path(scratch) / "bundle"), trusted=trusted)

    @property
    def _payload(self) -> tuple[str, ...]:
        """The paths of the files that the manifest lists."""
        try:
            return tuple(str(entry["path"]) for entry in self.manifest["payload"])
        except (KeyError, TypeError):
            raise invalid_response("a manifest without payload") from None

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
        if sum(member.file_size for member in members) > MAX_FILE_BYTES:
            title = f"the bundle has more than {MAX_FILE_BYTES} bytes"
            raise ServerRefusalError("response_too_large", title, {})
        return {member.filename: archive.read(member) for member in members}
