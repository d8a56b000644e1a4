"""A server from Python: look, get a quote, ask, and hold what was released.

>>> import wattveil
>>> homes = wattveil.connect("https://data.example", token).dataset("homes")  # doctest: +SKIP
>>> homes.quote(clusters=6, epsilon=0.5)["plan"]["parts"][0]["expected"]  # doctest: +SKIP
>>> release = homes.release(clusters=6, epsilon=0.5)  # doctest: +SKIP
>>> release.table("centroids").to_pandas()  # doctest: +SKIP
>>> release.download("bundle")  # doctest: +SKIP
"""

import hashlib
import io
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.errors import InvalidParameterError
from wattveil.publish.bundle import MANIFEST, check_out
from wattveil.publish.keys import canonical
from wattveil.publish.manifest import Manifest
from wattveil.serve.transport import Transport

_LONGEST_PAUSE_SECONDS = 5.0


def connect(url: str, token: str) -> "Connection":
    """Return a connection to a server; nothing is asked yet.

    Parameters
    ----------
    url
        Where the server is: https, or http on this very machine.
    token
        As its administrator gave it. It is sent to this server alone.
    """
    return Connection(Transport(url, token))


@dataclass(frozen=True)
class Connection:
    """A server, and who one is there."""

    transport: Transport

    def datasets(self) -> list[dict[str, Any]]:
        """Return the public descriptions of the data sets to which one is admitted."""
        found: list[dict[str, Any]] = self.transport.get("/v1/datasets")["datasets"]
        return found

    def dataset(self, name: str) -> "RemoteDataset":
        """Return a data set by its name."""
        description = self.transport.get(f"/v1/datasets/{self.transport.quoted(name)}")
        return RemoteDataset(self.transport, name, description)

    def release(self, release_id: str) -> "RemoteRelease":
        """Return a release that one has paid for, by its id."""
        said = self.transport.get(f"/v1/releases/{self.transport.quoted(release_id)}")
        return RemoteRelease(self.transport, said["id"])


@dataclass(frozen=True)
class RemoteDataset:
    """A data set on a server."""

    transport: Transport
    name: str
    description: Mapping[str, Any]

    def budget(self, *, tier: str = "global") -> dict[str, Any]:
        """Return what may be spent and what was, by everybody and by oneself."""
        return self.transport.get(f"{self._address}/budget?tier={self.transport.quoted(tier)}")

    def quote(self, **choices: Any) -> dict[str, Any]:  # noqa: ANN401 - the server has the rules
        """Return price and expected error of a release; free. Choices as for `release`."""
        return self.transport.post(f"{self._address}/quotes", choices)

    def release(
        self,
        *,
        key: str | None = None,
        wait_seconds: float = 3600.0,
        **choices: Any,  # noqa: ANN401 - the server has the rules
    ) -> "RemoteRelease":
        """Ask for a release, and wait for it.

        Parameters
        ----------
        key
            The same key and choices give the same release, for ever and for free. None makes one
            from the choices.
        wait_seconds
            How long to wait at most; the release goes on without those who wait.
        choices
            ``epsilon``, and ``delta``, ``clusters``, ``products``, ``by``, ``clusters_by_group``,
            ``normalise``, ``label_epsilon``, ``tier`` as the server knows them.
        """
        digest = hashlib.sha256(canonical({"dataset": self.name, **choices})).hexdigest()
        headers = {"Idempotency-Key": f"choices-{digest}" if key is None else key}
        said = self.transport.post(f"{self._address}/releases", choices, headers)
        found = RemoteRelease(self.transport, said["id"])
        found.wait(wait_seconds)
        return found

    @property
    def _address(self) -> str:
        return f"/v1/datasets/{self.transport.quoted(self.name)}"


@dataclass(frozen=True)
class RemoteRelease:
    """A release on a server; what was released never changes."""

    transport: Transport
    id: str

    @property
    def state(self) -> str:
        """``computing``, ``ok`` or ``failed``."""
        return str(self.transport.get(self._address)["state"])

    def wait(self, seconds: float) -> None:
        """Wait until it is computed; refuse one that failed."""
        until, pause = time.monotonic() + seconds, 0.1
        while (state := self.state) == "computing":
            if time.monotonic() > until:
                raise TimeoutError(f"release {self.id} is still being computed; ask for it later")
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)
        if state != "ok":
            _ = self.manifest  # the server says why there is none

    @cached_property
    def manifest(self) -> Manifest:
        """The release statement."""
        return self.transport.get(f"{self._address}/manifest")

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        paths = (Path(entry["path"]) for entry in self.manifest["payload"])
        return tuple(sorted(path.stem for path in paths if path.suffix == ".parquet"))

    def table(self, name: str) -> pa.Table:
        """Return a table."""
        if name not in self.tables:
            raise InvalidParameterError("name", f"one of {self.tables}", name)
        return pq.read_table(
            io.BytesIO(self.transport.fetch(f"{self._address}/payload/{name}.parquet"))
        )

    def share(self, reader: str) -> None:
        """Let somebody else read it, or ``*``, everybody with a token; free, and for good."""
        self.transport.post(f"{self._address}/shares", {"reader": reader})

    def download(self, out: str | Path) -> Path:
        """Write the bundle to a new folder, for `wattveil verify` and `wattveil synthesize`."""
        folder = Path(out)
        check_out(folder)
        content = self.transport.fetch(f"{self._address}/bundle.zip")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        listed = {MANIFEST, *(entry["path"] for entry in self.manifest["payload"])}
        for name in files:  # an archive must not write elsewhere
            if name not in listed or name.startswith("/") or ".." in Path(name).parts:
                raise InvalidParameterError("bundle", "made of the files of its manifest", name)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    @property
    def _address(self) -> str:
        return f"/v1/releases/{self.id}"
