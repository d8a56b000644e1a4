"""Check a bundle without its data: files, signature, every epsilon and delta, every table.

The verdict says in words what was proved, and what no reader of a bundle can prove.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.profiles import Grid
from wattveil.publish import keys
from wattveil.publish.bundle import FORMATS, MANIFEST, PAGES, read_manifest, table_path
from wattveil.publish.findings import Finding, gathered
from wattveil.publish.manifest import check_schema
from wattveil.publish.parts import Choice
from wattveil.publish.plan import wanted_parts
from wattveil.publish.request import About, ReleaseRequest
from wattveil.publish.verify_budget import budget_findings
from wattveil.publish.verify_numbers import number_findings
from wattveil.publish.verify_pages import is_same_software, page_findings
from wattveil.publish.verify_tables import part_findings, table_findings


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Everything that was checked."""

    findings: tuple[Finding, ...]
    not_proved: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether every check holds."""
        return all(finding.holds for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """Return the verdict as JSON values."""
        return {
            "accepted": self.accepted,
            "findings": [vars(finding) for finding in self.findings],
            "not_proved": list(self.not_proved),
        }


_ASKS = {
    "clusters": {
        f"{stage} step 1: {what}"
        for stage in ("coarse", "refining")
        for what in ("counts", "offsets")
    }
    | {"number of customers"},
    "synthesis": {"customers by cluster and export", "lengths", "moments", "margins"},
    "load": {"number of customers", "sizes", "customers by group", "sums of load"},
    "shares": {"clusters by group"},
}
"""What no part of a global release can be made without: a draw left unstated is missed."""


def verify_bundle(bundle: Path, *, trusted: Ed25519PublicKey | None = None) -> Verdict:
    """Check a bundle; ``trusted`` is the public key that must have signed it."""
    manifest = read_manifest(bundle)
    schema = gathered("the statement keeps its schema", check_schema(manifest), "every field")
    findings = [schema]
    if schema.holds:  # otherwise nothing below could be read
        try:
            findings += [*_file_findings(bundle, manifest), _signature(manifest, trusted)]
            statement = [_consistency(manifest), *budget_findings(manifest)]
            findings += statement
            if all(finding.holds for finding in statement):  # else nothing to compare tables with
                findings += _content_findings(bundle, manifest)
        except InvalidParameterError as error:  # a number that none of ours would write
            findings += [Finding("the statement can be read", holds=False, seen=str(error))]
    return Verdict(findings=tuple(findings), not_proved=_not_proved(manifest, trusted))


def _content_findings(bundle: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    """Check tables and pages against the statement."""
    public = manifest["public_inputs"]
    choice = Choice(request=_request(manifest), grid=Grid.from_json(public["grid"]))
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
    files = [file for file in bundle.rglob("*") if file.is_symlink() or not file.is_dir()]
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


def _signature(manifest: dict[str, Any], trusted: Ed25519PublicKey | None) -> Finding:
    check, signature = "the signature", manifest.get("signature")
    if signature is None:
        return Finding(check, trusted is None, "none: nothing says who published this")
    key = keys.signer(manifest, signature)
    if key is None:
        return Finding(check, holds=False, seen="does not belong to this statement")
    name = keys.fingerprint(key)
    if trusted is not None and trusted != key:
        return Finding(check, holds=False, seen=f"by key {name}, not by the one given")
    return Finding(check, holds=True, seen=f"by key {name}")


def _consistency(manifest: dict[str, Any]) -> Finding:
    """Compare what the statement says twice."""
    return gathered(
        "the statement agrees with itself",
        _contradictions(manifest),
        "promise, words, request and parts",
    )


def _contradictions(manifest: dict[str, Any]) -> Iterator[str]:
    promise, public = Guarantee.from_json(manifest["guarantee"]), manifest["public_inputs"]
    is_global = promise.tier is Tier.GLOBAL
    if manifest["guarantee_text"] != promise.sentence:
        yield "guarantee_text does not say what guarantee says"
    for field in ("epsilon", "delta", "tier"):
        if public[field] != manifest["guarantee"][field]:
            yield f"{field} was asked for as {public[field]}"
    if manifest["request_sha256"] != hashlib.sha256(keys.canonical(public)).hexdigest():
        yield "request_sha256 is not that of public_inputs"
    words = ("approximate", "every data set") if is_global else ("instance", "this data set only")
    if (manifest["variant"], manifest["guarantee_scope"]) != words:
        yield "variant and guarantee_scope are those of another tier"
    names = [part["name"] for part in manifest["parts"]]
    due = [part.name for part in wanted_parts(_request(manifest))]
    if names != due:
        yield f"the parts are {names}, asked for were {due}"
    proper = ("gaussian_histogram", "gaussian_cell_sums", "channel_response")
    if is_global and any(
        mechanism["mechanism"] not in proper
        for part in manifest["parts"]
        for run in part["runs"]
        for mechanism in run["mechanisms"]
    ):
        yield "a mechanism of the instance tier in a global release"
    for part in manifest["parts"]:
        yield from _part_contradictions(part, public, is_global=is_global)


def _part_contradictions(
    part: dict[str, Any], public: dict[str, Any], *, is_global: bool
) -> Iterator[str]:
    """Compare the runs and mechanisms of a part with what was asked for."""
    apart = public["clusters_by_group"] and part["name"] == "clusters"
    groups = [run["group"] for run in part["runs"]]
    if groups != (public["levels"] if apart else [None]):
        yield f"{part['name']}: runs of {groups}; only disjoint groups count once"
    if not is_global:
        return
    for run in part["runs"]:
        told = {one["tag"] for one in run["mechanisms"]}
        sizes = {"sizes"} if part["name"] == "clusters" and not public["normalise"] else set()
        if missing := sorted((_ASKS.get(part["name"], set()) | sizes) - told):
            yield f"{part['name']}: no draw is stated for {missing}"
    used = [one["mechanism"] for run in part["runs"] for one in run["mechanisms"]]
    if part["name"] != "labels":
        if "channel_response" in used:
            yield f"{part['name']}: labels leave in the part of that name only"
    elif used != ["channel_response"] or part["epsilon"] != public["label_epsilon"]:
        yield "labels: not one channel at the epsilon that was asked for"
    elif len(part.get("channel", [])) != public["n_clusters"] + 1:
        yield "labels: the channel is of another number of clusters"


def _request(manifest: dict[str, Any]) -> ReleaseRequest:
    """Return what was asked for."""
    public = manifest["public_inputs"]
    label = public["label_epsilon"]
    return ReleaseRequest(
        epsilon=checks.decimal("epsilon", public["epsilon"]),
        delta=checks.decimal("delta", public["delta"]),
        tier=checks.enum_value("tier", public["tier"], Tier),
        n_clusters=public["n_clusters"],
        clip_kw=public["clip_kw"],
        normalise=public["normalise"],
        by=public["by"],
        levels=tuple(public["levels"]),
        clusters_by_group=public["clusters_by_group"],
        label_epsilon=None if label is None else checks.decimal("label_epsilon", label),
        real_ids=public["real_ids"],
        weights=public["weights"],
        customers=public["customers_guessed"],
        typical_kw=public["typical_kw_guessed"],
        about=About(**{field.name: manifest[field.name] for field in fields(About)}),
    )


def _not_proved(manifest: dict[str, Any], trusted: Ed25519PublicKey | None) -> tuple[str, ...]:
    """Say what a reader of the bundle must take on trust."""
    known = [
        "That the publisher ran this software unchanged, and drew the noise that is stated once.",
        "That the statement lists every draw, and that curves follow from draws that are not told.",
        "That each customer was one row, and that public choices were made without the data.",
        "That no other release about the same people exists beyond those that are stated.",
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
