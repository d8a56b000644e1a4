"""Verify a bundle without its data: files, signature, every epsilon and delta, every table.

The verdict states what was verified, and what no reader of a bundle can verify.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil.bundle import keys
from wattveil.bundle.bundle_files import FORMATS, MANIFEST, PAGES, read_manifest, table_path
from wattveil.bundle.card import choice_banners, weaknesses
from wattveil.bundle.cumulative import ALONE
from wattveil.bundle.manifest import VERSION, Manifest, check_names, check_schema
from wattveil.bundle.verify.verify_budget import SUM, budget_findings
from wattveil.bundle.verify.verify_content import (
    WRITERS,
    consistency,
    content_findings,
    is_same_software,
)
from wattveil.products.findings import Finding, NotRun, gathered
from wattveil.web.formatting import format_count
from wattveil.web.results import Result, ResultTable, records_table

_VERSION = f"the manifest has version {VERSION}, which this program verifies"
_OTHER_FORMAT = (
    "Every claim: the bundle has another version of the format than this program verifies, or its"
    " manifest was changed."
)
_FORMAT_MAY_DIFFER = (
    "a check may fail because the format has changed since; verify with the versions that wrote it"
)
_ALL = "all other checks"
_UNREADABLE = (ArithmeticError, LookupError, ValueError)
"""Numbers that are missing, too large or too small for arithmetic: never written by Wattveil."""
_OLDER = "Verify it with the version of Wattveil that wrote it, or ask the publisher which one did."
SIGNATURE = "the signature"
"""Check that `NotRun` names if nobody signed."""
_UNSIGNED = "the bundle has none: the publisher's identity is not verified"
_NOT_SIGNED = NotRun(
    SIGNATURE, _UNSIGNED, "Ask the publisher for a signed bundle (`wattveil release --key`)."
)
_NO_SUM = NotRun(
    SUM,
    "not stated: the release was made without a ledger",
    "Add the release to your list of releases about the same customers, and compute the total with"
    " `wattveil total`.",
)
_CONTENT = NotRun(
    "tables, model, texts and report",
    "the manifest is not consistent, so there is nothing to compare them with",
    "Fetch the bundle again from its publisher.",
)


@dataclass(frozen=True, kw_only=True, repr=False)
class VerificationReport(Result):
    """Outcome of all checks of a bundle."""

    findings: tuple[Finding, ...]
    not_proved: tuple[str, ...]
    not_run: tuple[NotRun, ...] = ()
    """Checks that were not run, each with the reason and the remedy: neither passed nor failed."""
    warnings: tuple[str, ...] = ()
    """What weakens the guarantee, although every check may hold."""

    def __repr__(self) -> str:
        """Show the outcome, and how many checks passed."""
        passed = sum(finding.holds for finding in self.findings)
        outcome = "accepted" if self.accepted else "REJECTED"
        left = f", {len(self.not_run)} not run" if self.not_run else ""
        return (
            f"VerificationReport({outcome}: {passed} of {len(self.findings)} checks passed{left})"
        )

    @property
    def accepted(self) -> bool:
        """Whether every check passed."""
        return all(finding.holds for finding in self.findings)

    @property
    def summary(self) -> str:
        """One sentence: how many checks passed, failed or were not run, and how many warnings."""
        total, left = len(self.findings), len(self.not_run)
        failed = sum(not finding.holds for finding in self.findings)
        checks = (
            f"{format_count(total, 'check')} passed" if left else f"All {total:,} checks passed"
        )
        if failed:
            checks = f"{failed:,} of {format_count(total, 'check')} failed"
        elif total == 1 and not left:
            checks = "The only check passed"
        checks += f", {left:,} not run" if left else ""
        warned = f"; {format_count(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"{checks}{warned}."

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {
            "findings": lambda: records_table([vars(one) for one in self.findings], "check"),
            "not_run": lambda: records_table([vars(one) for one in self.not_run], "check"),
            "not_proved": lambda: ResultTable({"text": self.not_proved}),
        }

    def _statement(self) -> str:
        failed = sum(not finding.holds for finding in self.findings)
        text = f"Accepted: all {len(self.findings)} checks passed"
        if failed:
            text = f"Rejected: {failed} of {len(self.findings)} checks failed"
        if self.not_run:
            names = ", ".join(one.check.removeprefix("the ") for one in self.not_run)
            text += f"; {len(self.not_run)} not run ({names})"
        return f"{text}."

    def to_json(self) -> dict[str, object]:
        """Return the verdict as JSON values."""
        return {
            "accepted": self.accepted,
            "summary": self.summary,
            "findings": [vars(finding) for finding in self.findings],
            "not_run": [vars(one) for one in self.not_run],
            "not_proved": list(self.not_proved),
            "warnings": list(self.warnings),
        }


def verify_bundle(
    bundle: str | Path, *, trusted: Ed25519PublicKey | None = None
) -> VerificationReport:
    """Check a bundle; ``trusted`` is the public key that must have signed it."""
    bundle = Path(bundle)
    manifest = read_manifest(bundle)
    if (refused := refused_manifest(manifest)) is not None:
        return refused
    findings, not_run = [_schema_finding([])], [*_other_software(manifest)]
    try:
        findings += [*_file_findings(bundle, manifest), *_signature(manifest, trusted)]
        stated = [consistency(manifest), *budget_findings(manifest)]
        findings += stated
        if all(finding.holds for finding in stated):
            findings += content_findings(bundle, manifest)
        else:
            not_run = [_CONTENT]
    except _UNREADABLE as error:
        findings.append(_unreadable(error))
    if manifest["cumulative"] == ALONE:
        not_run.append(_NO_SUM)
    if "signature" not in manifest and trusted is None:
        not_run.append(_NOT_SIGNED)
    warnings = _warnings(manifest)
    if not is_same_software(manifest) and not all(finding.holds for finding in findings):
        warnings += (f"{_writers(manifest)} wrote the bundle: {_FORMAT_MAY_DIFFER}",)
    return VerificationReport(
        findings=tuple(findings),
        not_proved=_not_proved(manifest, trusted),
        not_run=tuple(not_run),
        warnings=warnings,
    )


def accounting_findings(manifest: Manifest) -> list[Finding]:
    """Check a manifest by itself: its fields against each other, draws, charges and guarantee.

    It must have all fields (`check_fields`); no other file of its bundle is read.
    """
    findings: list[Finding] = []
    try:
        findings.append(consistency(manifest))
        findings += budget_findings(manifest)
    except _UNREADABLE as error:
        findings.append(_unreadable(error))
    return findings


def refused_manifest(manifest: Manifest) -> VerificationReport | None:
    """Return the outcome for what is no manifest of this version; None if it is one."""
    version = manifest.get("manifest_version")
    if isinstance(version, str) and version != VERSION:
        return VerificationReport(
            findings=(Finding(_VERSION, holds=False, seen=f"version {version[:40]}"),),
            not_proved=(_OTHER_FORMAT,),
            not_run=(NotRun(_ALL, f"this program reads version {VERSION} alone", _OLDER),),
        )
    broken = check_schema(manifest)
    if not broken:
        return None
    if version == VERSION and check_names(manifest):  # a development version, or no manifest of it
        reason = "the manifest lacks fields of this version of the format, or has others"
        known, not_run = _OTHER_FORMAT, NotRun(_ALL, reason, _OLDER)
    else:
        known = "Anything: this is no manifest of Wattveil."
        not_run = NotRun(_ALL, "the manifest cannot be read", "Fetch the bundle again.")
    return VerificationReport(  # nothing else of it could be read
        findings=(_schema_finding(broken),), not_proved=(known,), not_run=(not_run,)
    )


def _other_software(manifest: Manifest) -> Iterator[NotRun]:
    """Yield the comparison of texts, which needs the versions that wrote them."""
    if not is_same_software(manifest):
        yield NotRun(
            "texts, card and report",
            f"{_writers(manifest)} wrote them, and other versions are installed",
            "To compare them too, verify with the versions that wrote them.",
        )


def _writers(manifest: Manifest) -> str:
    software = manifest["implementation"]["software"]
    return " and ".join(f"{name} {str(software.get(name))[:40]}" for name in WRITERS)


def _unreadable(error: Exception) -> Finding:
    return Finding("the manifest can be read", holds=False, seen=str(error))


def _schema_finding(broken: Sequence[str]) -> Finding:
    return gathered("the manifest follows its schema", broken, "every field")


def _warnings(manifest: dict[str, Any]) -> tuple[str, ...]:
    """Return what weakens the stated guarantee, and what the tier and real ids mean."""
    return (*weaknesses(manifest), *choice_banners(manifest))


def _file_findings(bundle: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    listed = {entry["path"]: entry for entry in manifest["payload"]}
    yield gathered(
        "every file is the one that was published",
        (path for path, entry in listed.items() if not _is_listed(bundle / path, entry)),
        f"{format_count(len(listed), 'file')}, by SHA-256",
    )
    twice = len(manifest["payload"]) > len(listed)
    yield Finding("no file is listed twice", not twice, format_count(len(listed), "path"))
    due = list(PAGES) + [
        table_path(table["name"], kind)
        for record in manifest["products"]
        for table in record["tables"]
        for kind in FORMATS
    ]
    due += [name for record in manifest["products"] for name in record.get("documents", [])]
    tables = bundle / "tables"  # the only folder; a link in its place is not accepted
    files = [file for file in bundle.rglob("*") if file != tables or file.is_symlink()]
    there = {file.relative_to(bundle).as_posix() for file in files if not file.is_symlink()}
    links = {file.relative_to(bundle).as_posix() for file in files if file.is_symlink()}
    unexpected = sorted(({*there, *listed} - {*due, MANIFEST}) | links)
    yield gathered("no unlisted files", unexpected, "none")
    yield gathered(
        "every page, and every table of every product, is present",
        sorted(set(due) - set(listed)),
        format_count(len(due), "file"),
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
            yield Finding(SIGNATURE, holds=False, seen=_UNSIGNED)
        return
    key = keys.signer(manifest, signature)
    if key is None:
        yield Finding(SIGNATURE, holds=False, seen="not of this manifest")
        return
    name = keys.fingerprint(key)
    if trusted is not None and trusted != key:
        yield Finding(SIGNATURE, holds=False, seen=f"by key {name}, not by the one given")
        return
    yield Finding(SIGNATURE, holds=True, seen=f"by key {name}")


_EVERY_DRAW = (
    "That the manifest lists every draw, and that the curves were computed from the draws that are"
    " not published."
)


def _not_proved(manifest: dict[str, Any], trusted: Ed25519PublicKey | None) -> tuple[str, ...]:
    """Return what a reader of the bundle must take on trust."""
    known = [
        "That the publisher ran this software unchanged, and drew the stated noise only once.",
        _EVERY_DRAW,
        "That each customer was one row, and that public choices were made without the data.",
        "That no other release about the same people exists beyond those that are stated.",
    ]
    if not isinstance(manifest["cumulative"], str):
        known += [
            "The cumulative sum: compare ledger_seq and chain_head with an export of the ledger."
        ]
    if not is_same_software(manifest):
        known += ["Texts, card and report: another version of the software wrote them."]
    if manifest.get("variant") == "instance":
        known += ["The size of the noise: it was computed from the data and is not published."]
        known += ["Differential privacy: the guarantee of the instance tier is weaker."]
    if "signature" not in manifest:
        known += ["Who published it: there is no signature."]
    elif trusted is None:
        known += [
            "Whose key signed it: compare its fingerprint with that of the publisher (--key)."
        ]
    return tuple(known)
