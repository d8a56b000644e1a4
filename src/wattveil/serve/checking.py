"""Bundles that somebody sends to be checked: unpacked with care, and verified without any data."""

import io
import re
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from sqlalchemy import select

from wattveil.publish import keys
from wattveil.publish.bundle import read_manifest
from wattveil.publish.manifest import Manifest
from wattveil.serve.house import SIGNING_KEY, House
from wattveil.serve.ledger.tables import entry
from wattveil.serve.problems import invalid

_MOST_FILES = 64
_MOST_UNPACKED_BYTES = 64 * 1024 * 1024
_NAME = re.compile(r"(?!tables$)(tables/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}")
"""Of a file in a bundle: there is one folder, and no way out of it."""
_BOUNDED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""Ways of packing of which no more is unpacked than is asked for."""

_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


def check_bundle(house: House, content: bytes) -> dict[str, Any]:
    """Return the verdict on a zipped bundle, and whether it is one of this server."""
    files = _unpacked(content)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        verdict = house.planner.verify(Path(folder))
        ours = verdict["accepted"] and _is_ours(house, read_manifest(Path(folder)))
    return {**verdict, "of_this_server": ours}


def _unpacked(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive; one that is too large, or names other places, is refused."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            names = [one.filename for one in members]
            if (
                len(members) > _MOST_FILES
                or sum(one.file_size for one in members) > _MOST_UNPACKED_BYTES
                or not {one.compress_type for one in members} <= _BOUNDED
                or len(set(names)) < len(names)
                or not all(_NAME.fullmatch(name) for name in names)
            ):
                raise invalid(("bundle", "a zipped bundle of usual size"))
            return {one.filename: _content(archive, one) for one in members}
    except _UNREADABLE:
        raise invalid(("bundle", "a zipped bundle")) from None


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a file of an archive: of one that is larger than it says no more is unpacked.

    `ZipFile.read` unpacks up to 1 GiB first, and compares afterwards.
    """
    with archive.open(member) as file:
        return file.read(member.file_size)


def _is_ours(house: House, manifest: Manifest) -> bool:
    """Whether this server signed a statement, and its ledger has the entry that it names."""
    public = keys.read_public_key(house.folder / f"{SIGNING_KEY}.pub")
    signature, cumulative = manifest.get("signature"), manifest["cumulative"]
    if signature is None or keys.signer(manifest, signature) != public:
        return False
    named = select(entry.c.seq).where(
        entry.c.seq == cumulative["ledger_seq"], entry.c.row_sha256 == cumulative["chain_head"]
    )
    with house.ledger.reading() as connection:
        return connection.execute(named).first() is not None
