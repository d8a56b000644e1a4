"""A release on disk, written whole or not at all."""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil import checks
from wattveil.bundle.keys import canonical, sign
from wattveil.bundle.manifest import Manifest, check_fields, check_schema
from wattveil.errors import AlreadyExistsError, InvalidFileError, InvalidParameterError
from wattveil.products.tables import Table

MANIFEST = "manifest.json"
FORMATS = ("parquet", "csv")
PAGES = ("report.html", "CARD.md")


def table_path(name: str, kind: str) -> str:
    """Return where a table stands in a bundle."""
    return f"tables/{name}.{kind}"


def outside_bundle(name: str, path: Path) -> None:
    """Refuse a place inside a bundle: its files are published, and no other may be added.

    For a place that a person names, before anything is spent. A server has charged when it writes
    to its data folder, where a file in a folder above must not make releases fail.
    """
    for folder in path.absolute().parents:
        manifest = folder / MANIFEST
        if manifest.is_file() and b"wattveil" in manifest.read_bytes():
            rule = f"outside of the bundle {folder}, whose files are published"
            raise InvalidParameterError(name, rule, str(path))


def check_out(out: Path) -> None:
    """Refuse, before the work, a place where no bundle can be written."""
    checks.local_path("out", out)
    if out.exists():
        kind = AlreadyExistsError if (out / MANIFEST).is_file() else InvalidParameterError
        text = f"{out} already exists; bundles are never overwritten"
        raise kind("out", "a new folder: bundles are never overwritten", str(out), text=text)
    if not out.absolute().parent.is_dir():
        raise InvalidParameterError("out", "a new folder in one that exists", str(out))
    try:
        _hidden_folder(out).rmdir()
    except OSError as error:  # no permission, no room, a name that is too long
        rule = "where a folder can be made"
        raise InvalidParameterError("out", rule, str(out)) from error


def write_bundle(
    out: Path,
    fields: Mapping[str, object],
    tables: Iterable[Table],
    pages: Mapping[str, bytes],
    *,
    key: Ed25519PrivateKey | None,
) -> Manifest:
    """Write a bundle and return its manifest.

    Everything is written and forced to disk in a hidden folder beside ``out``, which then takes
    its name in one step: a crash leaves no half bundle.
    """
    check_out(out)
    content = dict(pages)
    for table in tables:
        content[table_path(table.name, "parquet")] = _parquet(table.data)
        content[table_path(table.name, "csv")] = _csv(table.data)
    payload = [
        {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in sorted(content.items())
    ]
    manifest: Manifest = {**fields, "payload": payload}
    if key is not None:
        manifest["signature"] = sign(manifest, key)
    if broken := check_schema(manifest):
        raise ValueError(f"the manifest breaks its own schema: {broken}")
    content[MANIFEST] = (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()
    _write_whole(out, content)
    return manifest


def read_manifest(bundle: Path) -> Manifest:
    """Read the manifest of a bundle; what it says is not checked."""
    path = bundle / MANIFEST
    try:
        manifest = json.loads(
            path.read_text("utf-8"), parse_constant=_no_number, object_pairs_hook=_each_once
        )
    except OSError as error:
        expected = f"a bundle: a folder of `wattveil release` with a readable {MANIFEST}"
        found = "a file" if bundle.is_file() else f"no readable {MANIFEST}"
        problem = ""
        if bundle.is_dir() and not path.exists():
            known = "a bundle is a folder of `wattveil release`"
            problem = f": the folder has no {MANIFEST}; {known}"
        raise InvalidFileError(bundle, "folder", expected, found, problem=problem) from error
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(path, "content", "JSON", str(error)) from error
    if not isinstance(manifest, dict):
        raise InvalidFileError(path, "content", "a JSON object", type(manifest).__name__)
    try:
        canonical(manifest)
    except UnicodeEncodeError as error:  # half of a pair, which JSON can write and UTF-8 cannot
        raise InvalidFileError(path, "content", "text in UTF-8", error.reason) from error
    return manifest


def read_complete_manifest(bundle: Path) -> Manifest:
    """Read the manifest of a bundle with all its fields; `verify_bundle` checks what they say."""
    manifest = read_manifest(bundle)
    if broken := check_fields(manifest):
        expected = "a manifest that follows its schema (see `wattveil verify`)"
        raise InvalidFileError(bundle / MANIFEST, "content", expected, broken[0])
    return manifest


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a key that stands twice: readers would differ in which one they believe."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_number(word: str) -> float:
    """Refuse NaN and infinity, which Python's reader would take."""
    raise ValueError(f"{word} is no JSON")


def read_table(bundle: Path, name: str, *, csv_types: pa.Schema | None = None) -> pa.Table:
    """Read a table of a bundle from Parquet, or from CSV if its types are given."""
    kind = "parquet" if csv_types is None else "csv"
    path = bundle / table_path(name, kind)
    try:
        if csv_types is None:
            return pq.read_table(path)
        options = pc.ConvertOptions(column_types=csv_types, strings_can_be_null=False)
        return pc.read_csv(path, convert_options=options)
    except (OSError, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", f"a {kind} table", str(error)) from error


def read_footer(bundle: Path, name: str) -> pq.FileMetaData:
    """Read what the Parquet file of a table says of itself; none of its values."""
    path = bundle / table_path(name, "parquet")
    try:
        return pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", "a parquet table", str(error)) from error


def _write_whole(out: Path, content: Mapping[str, bytes]) -> None:
    hidden = _hidden_folder(out)
    try:
        for path, data in content.items():
            file = hidden / path
            file.parent.mkdir(exist_ok=True)
            with file.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
        for folder in (hidden / "tables", hidden):
            if folder.is_dir():
                _force_to_disk(folder)
        hidden.chmod(0o755)  # mkdtemp made it for its owner alone
        hidden.rename(out)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    _force_to_disk(hidden.parent)


def _hidden_folder(out: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))


def _force_to_disk(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parquet(data: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(data, buffer, compression="zstd")
    return buffer.getvalue()


def _csv(data: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pc.write_csv(data, buffer)
    return buffer.getvalue()
