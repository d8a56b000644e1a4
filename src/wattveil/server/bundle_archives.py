"""Bundles as archives: downloads of releases, and uploads that are unpacked safely and verified."""

import io
import json
import math
import re
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from sqlalchemy import select

from wattveil.archives import BROKEN_ZIP, UnsafeArchiveError, checked_members, member_chunks
from wattveil.bundle import keys
from wattveil.bundle.bundle_archive import listed_files
from wattveil.bundle.bundle_files import MANIFEST, read_manifest, read_table, table_path
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.series_bundle import VERSION as SERIES_VERSION
from wattveil.bundle.verify.verify_bundle import refused_manifest
from wattveil.errors import InvalidFileError
from wattveil.server.auth.principals import Principal
from wattveil.server.http import responses
from wattveil.server.http.problems import Code, Problem, invalid
from wattveil.server.ledger.fulfilment import folder_sha256
from wattveil.server.ledger.ledger_tables import release
from wattveil.server.server_state import SIGNING_KEY, ServerState

_TABLE = re.compile(r"([a-z_]{1,60})\.(csv|json|parquet)")
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}


_LONG_COLUMN = 200
_PAUSE_SECONDS = 0.001
"""After a column with this many values, in which the interpreter runs other threads."""


def payload_file(bundle: Path, name: str) -> tuple[Path, str, str]:
    """Return the table of a file name: its Parquet or CSV file, its name and the kind asked for."""
    found = _TABLE.fullmatch(name)
    if found is None or table_path(found[1], "parquet") not in listed_files(bundle):
        raise Problem(Code.NOT_FOUND)
    stored = "parquet" if found[2] == "json" else found[2]
    return bundle / table_path(found[1], stored), found[1], found[2]


def table_json(bundle: Path, table: str) -> bytes:
    """Return a table of a release as JSON, one list per column.

    No other thread runs while Python encodes: after each long column, the others have their turn.
    """
    read = read_table(bundle, table)
    encoded = []
    for name in read.column_names:
        values = [_plain(one) for one in read.column(name).to_pylist()]
        encoded.append(f"{json.dumps(name)}: {json.dumps(values, allow_nan=False)}")
        if len(values) >= _LONG_COLUMN:
            time.sleep(_PAUSE_SECONDS)
    return f"{{{', '.join(encoded)}}}".encode()


def tables(bundle: Path) -> list[str]:
    """Return the names of the tables of a release."""
    return sorted(Path(path).stem for path in listed_files(bundle) if path.endswith(".parquet"))


def table_texts(bundle: Path) -> list[tuple[str, str]]:
    """Return each table of a release with its description, in the order of the manifest.

    Tables that the manifest does not describe, such as those of series, come last.
    """
    products = read_manifest(bundle).get("products", ())
    texts = {one["name"]: str(one["text"]) for product in products for one in product["tables"]}
    return [*texts.items(), *((name, "") for name in tables(bundle) if name not in texts)]


def _plain(value: object) -> object:
    """Replace NaN and infinity by null: JSON does not have them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


_MAX_FILES = 64
_MAX_UNPACKED_BYTES = 64 * 1024 * 1024
_MAX_MANIFEST_BYTES = 2**20
_NAME = re.compile(r"(?!tables$)(tables/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}")
"""Name of a file in a bundle: no path outside its folder."""


def check_bundle(
    state: ServerState, content: bytes, principal: Principal
) -> responses.BundleVerification:
    """Verify a zipped bundle, and find out whether this server released it."""
    files = _unpacked(content)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        verdict = _refused_at_once(Path(folder))
        if verdict is None:
            verdict = state.planner.verify(Path(folder), principal.name)
        ours = verdict["accepted"] and _is_ours(state, Path(folder))
    return responses.BundleVerification(**verdict, of_this_server=ours)


def _refused_at_once(bundle: Path) -> dict[str, Any] | None:
    """Return the verdict on a bundle without a valid manifest: no process is started for it."""
    manifest = bundle / MANIFEST
    if manifest.is_file() and manifest.stat().st_size > _MAX_MANIFEST_BYTES:
        raise invalid(("bundle", f"one whose manifest has at most {_MAX_MANIFEST_BYTES} bytes"))
    try:
        read = read_manifest(bundle)
        refused = None if _is_period(read) else refused_manifest(read)
    except (InvalidFileError, ValueError):
        raise invalid(("bundle", f"one with a {MANIFEST} in JSON, as Wattveil writes it")) from None
    return None if refused is None else refused.to_json()


def _is_period(manifest: Manifest) -> bool:
    """Whether a manifest is that of a period of a series."""
    return bool(manifest.get("manifest_version") == SERIES_VERSION)


def _unpacked(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive; refuse one that is too large or has unsafe names."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = checked_members(archive, max_files=_MAX_FILES, max_bytes=_MAX_UNPACKED_BYTES)
            if not all(_NAME.fullmatch(one.filename) for one in members):
                raise invalid(("bundle", "a zipped bundle of usual size"))
            return {one.filename: b"".join(member_chunks(archive, one)) for one in members}
    except UnsafeArchiveError:
        raise invalid(("bundle", "a zipped bundle of usual size")) from None
    except BROKEN_ZIP:
        raise invalid(("bundle", "a zipped bundle")) from None


def _is_ours(state: ServerState, bundle: Path) -> bool:
    """Whether this server signed a bundle and its ledger has stored these very files."""
    manifest = read_manifest(bundle)
    public = keys.read_public_key(state.folder / f"{SIGNING_KEY}.pub")
    signature = manifest.get("signature")
    if signature is None or keys.signer(manifest, signature) != public:
        return False
    stored = select(release.c.seq).where(release.c.payload_sha256 == folder_sha256(bundle))
    with state.ledger.reading() as connection:
        return connection.execute(stored).first() is not None
