"""Check a bundle without its data: files, signature, every epsilon and delta, every table.

The verdict says in words what was proved, and what no reader of a bundle can prove.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil.profiles import Grid
from wattveil.publish import keys
from wattveil.publish.bundle import FORMATS, MANIFEST, PAGES, read_manifest, table_path
from wattveil.publish.findings import Absent, Finding, gathered
from wattveil.publish.manifest import check_schema
from wattveil.publish.parts import Choice
from wattveil.publish.plan import wanted_parts
from wattveil.publish.verify_budget import budget_findings
from wattveil.publish.verify_numbers import number_findings
from wattveil.publish.verify_pages import is_same_software, page_findings
from wattveil.publish.verify_statement import consistency, request_of
from wattveil.publish.verify_tables import part_findings, table_findings

_SIGNATURE, _UNSIGNED = "the signature", "none: nothing says who published this"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Everything that was checked."""

    findings: tuple[Finding, ...]
    not_proved: tuple[str, ...]
    absent: tuple[Absent, ...] = ()
    """Checks for which there is nothing to check: neither passed nor failed, and not counted."""

    @property
    def accepted(self) -> bool:
        """Whether every check holds."""
        return all(finding.holds for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """Return the verdict as JSON values."""
        return {
            "accepted": self.accepted,
            "findings": [vars(finding) for finding in self.findings],
            "absent": [vars(one) for one in self.absent],
            "not_proved": list(self.not_proved),
        }


def verify_bundle(bundle: Path, *, trusted: Ed25519PublicKey | None = None) -> Verdict:
    """Check a bundle; ``trusted`` is the public key that must have signed it."""
    manifest = read_manifest(bundle)
    schema = gathered("the statement keeps its schema", check_schema(manifest), "every field")
    if not schema.holds:  # nothing below could be read
        return Verdict(findings=(schema,), not_proved=("Anything: no such statement is ours.",))
    findings = [schema]
    try:
        findings += [*_file_findings(bundle, manifest), *_signature(manifest, trusted)]
        statement = [consistency(manifest), *budget_findings(manifest)]
        findings += statement
        if all(finding.holds for finding in statement):  # else nothing to compare tables with
            findings += _content_findings(bundle, manifest)
    # Whatever cannot be computed with, none of ours would write: too large, too small, not there.
    except (ArithmeticError, LookupError, ValueError) as error:
        findings += [Finding("the statement can be read", holds=False, seen=str(error))]
    unsigned = "signature" not in manifest and trusted is None
    return Verdict(
        findings=tuple(findings),
        not_proved=_not_proved(manifest, trusted),
        absent=(Absent(_SIGNATURE, _UNSIGNED),) if unsigned else (),
    )


def _content_findings(bundle: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    """Check tables and pages against the statement."""
    public = manifest["public_inputs"]
    choice = Choice(request=request_of(manifest), grid=Grid.from_json(public["grid"]))
    parts = wanted_parts(choice.request)
    yield from part_findings(manifest, parts, choice)
    layouts = {layout.name: layout for part in parts for layout in part.layouts(choice)}
    findings, tables = table_findings(bundle, manifest, layouts.values())
    yield from findings
    yield from number_findings(bundle, manifest, tables, layouts, choice)
    if layouts.keys() == tables.keys():
        yield from page_findings(bundle, manifest, tables)


def _file_findings(bundle: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    listed = {entry["path"]: entry for entry in manifest["payload"]}
    yield gathered(
        "every file is the one that was published",
        (path for path, entry in listed.items() if not _is_listed(bundle / path, entry)),
        f"{len(listed)} files, by SHA-256",
    )
    twice = len(manifest["payload"]) > len(listed)
    yield Finding("no file is listed twice", not twice, f"{len(listed)} paths")
    due = list(PAGES) + [
        table_path(table["name"], kind)
        for part in manifest["parts"]
        for table in part["tables"]
        for kind in FORMATS
    ]
    due += [name for part in manifest["parts"] for name in part.get("documents", [])]
    tables = bundle / "tables"  # the only folder; a link in its place is none
    files = [file for file in bundle.rglob("*") if file != tables or file.is_symlink()]
    there = {file.relative_to(bundle).as_posix() for file in files if not file.is_symlink()}
    links = {file.relative_to(bundle).as_posix() for file in files if file.is_symlink()}
    strangers = sorted(({*there, *listed} - {*due, MANIFEST}) | links)
    yield gathered("no other file is there", strangers, "none")
    yield gathered(
        "every page, and every table of every part, is there",
        sorted(set(due) - set(listed)),
        f"{len(due)} files",
    )


def _is_listed(file: Path, entry: dict[str, Any]) -> bool:
    if not file.is_file() or file.stat().st_size != entry["bytes"]:
        return False
    return bool(hashlib.sha256(file.read_bytes()).hexdigest() == entry["sha256"])


def _signature(manifest: dict[str, Any], trusted: Ed25519PublicKey | None) -> Iterator[Finding]:
    """Check the signature; one that is missing fails only where a key was given for it."""
    signature = manifest.get("signature")
    if signature is None:
        if trusted is not None:
            yield Finding(_SIGNATURE, holds=False, seen=_UNSIGNED)
        return
    key = keys.signer(manifest, signature)
    if key is None:
        yield Finding(_SIGNATURE, holds=False, seen="does not belong to this statement")
        return
    name = keys.fingerprint(key)
    if trusted is not None and trusted != key:
        yield Finding(_SIGNATURE, holds=False, seen=f"by key {name}, not by the one given")
        return
    yield Finding(_SIGNATURE, holds=True, seen=f"by key {name}")


def _not_proved(manifest: dict[str, Any], trusted: Ed25519PublicKey | None) -> tuple[str, ...]:
    """Say what a reader of the bundle must take on trust."""
    known = [
        "That the publisher ran this software unchanged, and drew the noise that is stated once.",
        "That the statement lists every draw, and that curves follow from draws that are not told.",
        "That each customer was one row, and that public choices were made without the data.",
        "That no other release about the same people exists beyond those that are stated.",
    ]
    if not isinstance(manifest["cumulative"], str):
        known += [
            "That the ledger says so: compare ledger_seq and chain_head with an export of it."
        ]
    if not is_same_software(manifest):
        known += ["That words, card and page are true: another version of the software wrote them."]
    if manifest.get("variant") == "instance":
        known += ["The size of the noise: it was computed from the data and is not published."]
        known += ["Differential privacy: the promise of the instance tier is weaker than that."]
    if "signature" not in manifest:
        known += ["Who published it: there is no signature, so anybody could have made it."]
    elif trusted is None:
        known += ["Whose key signed it: compare its name with one from the publisher (--key)."]
    return tuple(known)
