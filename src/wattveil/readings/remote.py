"""Remote sources: files at an address, copied to the scratch folder before they are read.

``https://`` is read by httpx; ``s3://``, ``abfs://``, ``gs://`` and the other addresses of fsspec
need the extra ``remote``. Nothing else is fetched, and a copy is bounded by the free disk space.
"""

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.readings.sources import CHUNK_BYTES
from wattveil.terminal import copying_bar

_MIN_FREE_BYTES = 256 << 20
if TYPE_CHECKING:
    import httpx

_SECONDS = 60  # without a byte
_MAX_FILES = 10_000
_REFUSED = frozenset({"ftp", "zip", "tar", "filecache", "simplecache", "blockcache", "cached"})
"""Schemes of fsspec that send clear text, or open what another address names."""
_PATTERN_SIGNS = set("*?[")

Source = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class _Folder:
    """Folder of the copies, and the addresses of those in it."""

    path: Path
    addresses: dict[Path, str]


def local_copies(source: Source, folder: Path, addresses: dict[Path, str]) -> Source:
    """Replace each remote address by the copies of its files; local paths stay as they are.

    ``addresses`` receives that of each copy, without its query.
    """
    target = _Folder(folder, addresses)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [copy for part in source for copy in _copies(part, target)]
    copies = _copies(source, target)
    return copies[0] if len(copies) == 1 else copies


def _copies(source: str | Path, folder: _Folder) -> list[str | Path]:
    scheme, found, _ = str(source).partition("://")
    if isinstance(source, Path) or not found:
        return [source]
    if scheme == "https":
        return [_over_https(source, folder)]
    if scheme == "http":
        rule = "an https:// address: http would send meter data in clear text"
        raise InvalidParameterError("source", rule, _shown(source))
    if "::" in str(source) or scheme in _REFUSED:
        rule = "an address of one store, such as s3://, abfs:// or https://"
        raise InvalidParameterError("source", rule, f"{scheme}://…")
    if scheme in {"duckdb", "sqlite", "postgresql", "postgres"}:
        rule = "given with sql=…, the query whose rows are the readings"
        raise InvalidParameterError("source", rule, f"{scheme}://…")
    return list(_over_fsspec(source, scheme, folder))


def _over_https(address: str, folder: _Folder) -> Path:
    import httpx  # noqa: PLC0415 - slow to load

    try:
        with (
            _without_addresses_in_logs(),
            httpx.Client(
                follow_redirects=True,
                timeout=_SECONDS,
                event_hooks={"request": [_refuse_clear_text]},
            ) as client,
            client.stream("GET", address) as response,
        ):
            if response.status_code != httpx.codes.OK:
                found = f"status {response.status_code}"
                raise InvalidFileError(_shown(address), "response", "a file", found)
            stated = response.headers.get("content-length", "")
            size = int(stated) if stated.isdecimal() else None
            return _write(address, response.iter_bytes(CHUNK_BYTES), size, folder)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        where = _shown(address)
        raise InvalidFileError(where, "connection", "a server that responds", str(error)) from error


@contextmanager
def _without_addresses_in_logs() -> Iterator[None]:
    """Keep httpx from logging addresses: a query may be a signature that grants access."""
    loggers = [logging.getLogger(name) for name in ("httpx", "httpcore")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(max(logger.getEffectiveLevel(), logging.WARNING))
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _refuse_clear_text(request: "httpx.Request") -> None:
    """Refuse a redirection to http."""
    if request.url.scheme != "https":
        rule = "an https:// address that redirects to https:// only"
        raise InvalidParameterError("source", rule, _shown(str(request.url)))


def _over_fsspec(address: str, scheme: str, folder: _Folder) -> Iterator[Path]:
    try:
        import fsspec  # noqa: PLC0415 -- an extra, needed only here
    except ImportError as error:
        raise MissingExtraError(f"reading {scheme}:// addresses", "remote") from error
    if scheme not in fsspec.available_protocols():
        rule = "a path, https://, or an address that fsspec knows, such as s3:// or abfs://"
        raise InvalidParameterError("source", rule, f"{scheme}://…")
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise MissingExtraError(f"reading {scheme}:// addresses", "remote") from error
    except Exception as error:  # of the many systems behind fsspec
        raise _unreachable(address, error) from error
    try:
        found = sorted(system.glob(path) if _PATTERN_SIGNS & set(path) else system.find(path))
        for name in _some(found, address):
            with system.open(name, "rb") as stream:
                content = iter(partial(stream.read, CHUNK_BYTES), b"")
                yield _write(name, content, system.size(name), folder)
    except InvalidFileError:
        raise
    except Exception as error:
        raise _unreachable(address, error) from error


def _some(found: list[str], address: str) -> list[str]:
    """Refuse an address with no files, or with too many."""
    if not 0 < len(found) <= _MAX_FILES:
        expected = f"1 to {_MAX_FILES:,} files"
        raise InvalidFileError(_shown(address), "address", expected, len(found))
    return found


def _write(address: str, content: Iterable[bytes], size: int | None, folder: _Folder) -> Path:
    """Write a copy, with a progress bar on a terminal; its name is that of the address."""
    path = urlsplit(address).path if address.startswith("https://") else address
    own = PurePosixPath(path).name or "readings"  # names in a store may contain ? and #
    within = folder.path / "remote" / str(len(folder.addresses))
    within.mkdir(parents=True)
    free = shutil.disk_usage(within).free - _MIN_FREE_BYTES
    if size is not None and size > free:
        expected = f"at most {max(free, 0):,} bytes, the free space of {folder.path}"
        raise InvalidFileError(_shown(address), "size", expected, f"{size:,}")
    target = within / own
    done = 0
    with target.open("wb") as file, copying_bar(own, size) as show:
        for chunk in content:
            done += len(chunk)
            if done > free:
                expected = f"at most {max(free, 0):,} bytes, the free space of {folder.path}"
                raise InvalidFileError(_shown(address), "size", expected, "more")
            file.write(chunk)
            show(done)
    if size is not None and done != size:
        raise InvalidFileError(_shown(address), "size", f"{size:,} bytes", f"{done:,}")
    origin = _shown(address) if address.startswith("https://") else address
    if origin in folder.addresses.values():  # queries that differ may name different homes
        origin = f"{origin} ({len(folder.addresses) + 1})"
    folder.addresses[target] = origin
    return target


def _unreachable(address: str, error: Exception) -> InvalidFileError:
    said = f"{type(error).__name__}: {error}"[:300]
    return InvalidFileError(_shown(address), "address", "files that can be read", said)


def _shown(address: str) -> str:
    """Show an address without user, password and query: they may hold a secret."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rsplit('@', maxsplit=1)[-1]}{parts.path}"
