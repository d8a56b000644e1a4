"""Verification of a signed dossier: signature, key, files, and the release that it describes.

The signature covers `dossier.json`, which states the digests of the page and of the Markdown text,
and that of the manifest. No private data and no ledger are needed.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil.bundle import keys
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.verify.verify_bundle import VerificationReport
from wattveil.dossier.dossier_document import DOSSIER_VERSION, FILES, manifest_digest
from wattveil.errors import InvalidFileError
from wattveil.products.findings import Finding, NotRun, gathered

RECORD = FILES[-1]
_NOT_PROVED = (
    "That the answers of people are true: a signature states who is responsible for them.",
    "That the release satisfies its guarantee: run `wattveil verify` on its bundle.",
    "That the ledger export and the audit record, which are quoted, are complete.",
)
_WHOSE = "Whose key signed it: compare its fingerprint with that of the organisation (--key)."
_NO_BUNDLE = NotRun(
    "the release that the dossier is about",
    "no bundle was given to compare it with",
    "Give the bundle with --bundle.",
)


def dossier_records(path: Path) -> list[Path]:
    """Return the signed files of a dossier: of a folder, or of each standard in it; often none."""
    if path.name == RECORD and path.is_file():
        return [path]
    own = path / RECORD
    return [own] if own.is_file() else sorted(path.glob(f"*/{RECORD}"))


def verify_dossier(
    path: Path, *, trusted: Ed25519PublicKey | None = None, bundle: Path | None = None
) -> VerificationReport:
    """Check a dossier, or the dossiers of several standards, of one release.

    Parameters
    ----------
    path
        Folder of `wattveil dossier`, or its `dossier.json`.
    trusted
        Public key that must have signed it; None accepts any key, which is named.
    bundle
        Bundle of the release; None leaves open which release the dossier is about.
    """
    records = dossier_records(path)
    if not records:
        raise InvalidFileError(path, RECORD, "a folder of `wattveil dossier`", None)
    manifest = None if bundle is None else read_manifest(bundle)
    found = [
        finding
        for one in records
        for finding in _findings(one, trusted, manifest, is_one=len(records) == 1)
    ]
    return VerificationReport(
        findings=tuple(found),
        not_proved=(*_NOT_PROVED, *(() if trusted is not None else (_WHOSE,))),
        not_run=() if bundle is not None else (_NO_BUNDLE,),
    )


def _findings(
    path: Path,
    trusted: Ed25519PublicKey | None,
    manifest: Mapping[str, Any] | None,
    *,
    is_one: bool,
) -> Iterator[Finding]:
    """Yield the outcome of every check of one dossier; after a false signature, nothing else."""
    start = "" if is_one else f"{path.parent.name}: "
    record = _read(path)
    signed = _signature(record, trusted)
    yield Finding(f"{start}{signed.check}", signed.holds, signed.seen)
    if not signed.holds:
        return
    stated = record["files"]
    changed = (f"{name} {text}" for name in stated if (text := _changed(path, name, stated[name])))
    yield gathered(f"{start}the files are those that were signed", changed, ", ".join(stated))
    yield gathered(
        f"{start}the dossier is complete",
        _incomplete(record),
        f"{record['standard']}, no open question, no conflict",
    )
    if manifest is not None:
        agrees = record["manifest_sha256"] == manifest_digest(manifest)
        about = f"release {record['release_id']}"
        seen = about if agrees else f"{about}, with another manifest than that of the bundle"
        yield Finding(f"{start}the dossier is about this release", agrees, seen)


def _read(path: Path) -> dict[str, Any]:
    """Read the record of a dossier of this version; nothing else of it is checked here."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except ValueError as error:  # not UTF-8, or no JSON
        raise InvalidFileError(path, "content", "JSON of `wattveil dossier`", None) from error
    version = record.get("dossier_version") if isinstance(record, dict) else None
    if version != DOSSIER_VERSION:
        rule = f"{DOSSIER_VERSION}: make the dossier again with this version of Wattveil"
        raise InvalidFileError(path, "dossier_version", rule, version)
    return dict(record)


def _signature(record: Mapping[str, Any], trusted: Ed25519PublicKey | None) -> Finding:
    check, signature = "the signature", record.get("signature")
    if signature is None:
        return Finding(check, holds=False, seen="none: a draft, made without --sign")
    try:
        key = keys.signer(record, signature)
    except (AttributeError, LookupError, TypeError):  # fields that no signature has
        key = None
    if key is None:
        return Finding(check, holds=False, seen=f"false: {RECORD} was changed after it was signed")
    name = keys.fingerprint(key)
    if trusted is not None and trusted != key:
        return Finding(check, holds=False, seen=f"by key {name}, not by the one given")
    return Finding(check, holds=True, seen=f"by key {name}, on {record['made_at'][:10]}")


def _changed(record: Path, name: str, digest: str) -> str:
    """Return what is wrong with a file that was signed; an empty text if nothing is."""
    file = record.with_name(name)
    if not file.is_file():
        return "is missing"
    same = hashlib.sha256(file.read_bytes()).hexdigest() == digest
    return "" if same else "was changed after the signature"


def _incomplete(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what `wattveil dossier --sign` would have refused."""
    if record["open_questions"]:
        yield f"open questions: {record['open_questions']}"
    yield from (one["text"] for one in record["conflicts"] if one["kind"] == "conflict")
