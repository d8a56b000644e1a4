"""Verify one period of a series, or a whole chain, without the data.

One bundle: files, signature, charges, the cost accrued so far and the guarantee of the whole
series. A chain, in addition: that each period names the one before it, that no period is there
twice, and that centres, radii and every table follow from the raw sums.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil.arrays import Floats
from wattveil.bundle import keys
from wattveil.bundle.series_bundle import (
    MANIFEST,
    Manifest,
    manifest_sha256,
    read_chain,
    read_manifest,
    read_table,
    spends_of,
)
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_result import SeriesResult
from wattveil.bundle.verify.verify_bundle import VerificationReport
from wattveil.declaration import to_plain
from wattveil.errors import WattveilError
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms.period_sums import MECHANISM
from wattveil.products.findings import Finding, gathered, same_numbers
from wattveil.release.load_series import LOAD, MEMBERS, ReleasedSeries, SeriesDesign
from wattveil.release.segment_series import found_in

CLOSED = "closed.json"
"""Closing statement, beside the folder of periods."""
NOT_PROVED = (
    "That the publisher ran this software unchanged, and drew the noise that is stated once.",
    "That the private state was kept from period to period, so that no allowance was used twice.",
    "That customers keep their ids, and that public choices were made without the data.",
    "That no other release about the same people exists beyond those that are stated.",
)


def verify_period(bundle: Path, *, trusted: Ed25519PublicKey | None = None) -> VerificationReport:
    """Check the bundle of one period by itself."""
    return _report(_guarded([bundle], trusted, chain=False))


def verify_chain(
    bundles: Sequence[Path],
    *,
    trusted: Ed25519PublicKey | None = None,
    closing: Path | None = None,
) -> VerificationReport:
    """Check the bundles of all periods of a series, and its closing statement if there is one."""
    found = _guarded(bundles, trusted, chain=True)
    if closing is not None and closing.is_file():
        found.append(_closing_finding(closing, bundles, trusted))
    return _report(found)


def _closing_finding(
    closing: Path, bundles: Sequence[Path], trusted: Ed25519PublicKey | None
) -> Finding:
    """Check that a closing statement is of this series and of all its periods, and who signed."""
    try:
        record = json.loads(closing.read_text("utf-8"))
        of_series = all(read_manifest(one)["series"] == record["series"] for one in bundles)
        holds = of_series and record["periods"] == len(bundles)
        seen = f"closed: {record['reason']}"
        for finding in _signature(CLOSED, record, trusted):
            holds, seen = holds and finding.holds, f"{seen}; {finding.seen}"
    except (LookupError, TypeError, ValueError, WattveilError) as error:
        holds, seen = False, str(error)[:200]
    return Finding("closing statement", holds=holds, seen=seen)


def _report(findings: Sequence[Finding]) -> VerificationReport:
    return VerificationReport(findings=tuple(findings), not_proved=NOT_PROVED)


def _guarded(
    bundles: Sequence[Path], trusted: Ed25519PublicKey | None, *, chain: bool
) -> list[Finding]:
    found: list[Finding] = []
    try:
        for bundle in bundles:
            found += _period_findings(bundle, read_manifest(bundle), trusted)
        if chain and all(one.holds for one in found):
            found += _chain_findings(bundles)
    # What a manifest of Wattveil never has: missing fields, other types, numbers out of range.
    except (ArithmeticError, LookupError, TypeError, ValueError, WattveilError) as error:
        found += [Finding("the manifest can be read", holds=False, seen=str(error)[:200])]
    return found


def _period_findings(
    bundle: Path, manifest: Manifest, trusted: Ed25519PublicKey | None
) -> Iterator[Finding]:
    request = SeriesRequest.parse(manifest["request"])
    design, label = request.design, manifest["label"]
    wrong, seen = changed_files(bundle, manifest), f"{len(manifest['payload'])} files"
    yield gathered(f"{label}: files are those that were published", wrong, seen)
    yield from _signature(label, manifest, trusted)
    place = manifest["period"] - 1
    stated = {
        "period": (request.label(place), label),
        "request": (to_plain(request), manifest["request"]),
        "request_sha256": (request.sha256, manifest["request_sha256"]),
        "guarantee": (design.guarantee.to_json(), manifest["guarantee"]),
        "guarantee_text": (design.guarantee.sentence, manifest["guarantee_text"]),
        "periods": (design.horizon, manifest["periods"]),
        "strategies": (
            {name: design.strategy(name).sha256 for name in (LOAD, MEMBERS)},
            manifest["strategies"],
        ),
    }
    differ = [name for name, (due, found) in stated.items() if due != found]
    yield gathered(f"{label}: statements follow from the request", differ, "all of them")
    yield gathered(f"{label}: charges", _charge_problems(design, manifest), "recomputed")
    yield _accrued(request, manifest)


def changed_files(bundle: Path, manifest: Manifest) -> list[str]:
    """Return the files of a bundle that are not as its manifest states, missing or too many."""
    listed = {entry["path"]: entry for entry in manifest["payload"]}
    there = {
        file.relative_to(bundle).as_posix()
        for file in bundle.rglob("*")
        if file.is_symlink() or not file.is_dir()
    }
    wrong = [path for path, entry in listed.items() if not _is_listed(bundle / path, entry)]
    return wrong + sorted(there ^ {*listed, MANIFEST})


def _is_listed(file: Path, entry: Manifest) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    return bool(hashlib.sha256(file.read_bytes()).hexdigest() == entry["sha256"])


def _signature(label: str, signed: Manifest, trusted: Ed25519PublicKey | None) -> Iterator[Finding]:
    """Check the signature of ``signed``, if it has one or a key is trusted."""
    signature = signed.get("signature")
    if signature is None and trusted is None:
        return
    key = None if signature is None else keys.signer(signed, signature)
    holds = key is not None and (trusted is None or trusted == key)
    seen = f"by key {keys.fingerprint(key)}" if key is not None else "none that is valid"
    yield Finding(f"{label}: signature", holds=holds, seen=seen)


def _charge_problems(design: SeriesDesign, manifest: Manifest) -> Iterator[str]:
    """Yield which charges do not follow from the design."""
    place = manifest["period"] - 1
    own = {spend.tag: spend for spend in spends_of(manifest) if spend.mechanism == MECHANISM}
    if {*own} != {LOAD, *design.counted}:
        yield "other sums than the request has"
        return
    for spend in spends_of(manifest):
        # sigma^2 >= D^2 / (2 rho), in steps
        least = Fraction(spend.drawn["squared"]) * RHO_UNITS
        if (
            spend.tag not in own
            and 2 * Fraction(spend.drawn["scale"]) ** 2 * spend.rho_units < least
        ):
            yield f"{spend.tag}: less noise than its charge requires"
    for name, spend in own.items():
        query = design.query(name, place, released=())
        scale = Fraction(spend.drawn["scale"])
        # sigma^2 >= A_T / (2 rho), in steps
        if 2 * scale**2 * query.rho_units < Fraction(spend.drawn["squared"]) * RHO_UNITS:
            yield f"{name}: less noise than the budget requires"
        if spend.rho_units > query.accrued_units():
            yield f"{name}: more than has accrued"


def _accrued(request: SeriesRequest, manifest: Manifest) -> Finding:
    """Check the cost so far against the allowances, and the total against the guarantee."""
    design = request.design
    accrued, place = manifest["accrued"], manifest["period"] - 1
    units, whole = int(accrued["rho_units"]), int(accrued["of_rho_units"])
    guarantee = design.guarantee
    due = design.accrued_units(place, _found_in(request, manifest))
    grant = Budget(guarantee).rho_units
    so_far = Composition(rho_units=units).epsilon(guarantee.delta)
    holds = (
        units == due
        and whole == sum(design.rho_units.values()) <= grant
        and so_far <= float(accrued["epsilon"]) <= guarantee.epsilon
    )
    seen = f"epsilon {accrued['epsilon']} of {guarantee.epsilon}"
    return Finding(f"{manifest['label']}: cost accrued so far", holds=holds, seen=seen)


def _found_in(request: SeriesRequest, manifest: Manifest) -> tuple[int, ...]:
    """Return the periods in which segments were found, as a manifest states them."""
    return tuple(request.period_of(label) for label in manifest["segments_found_in"])


def _chain_findings(bundles: Sequence[Path]) -> Iterator[Finding]:
    manifests, released = read_chain(bundles)
    if released is None:
        yield Finding("the chain has a period", holds=False, seen="none")
        return
    first = manifests[0]
    problems = []
    before = first["request_sha256"]
    for manifest in manifests:
        if manifest["previous_sha256"] != before:
            problems.append(f"{manifest['label']} does not name the period before it")
        if (manifest["series"], manifest["request"]) != (first["series"], first["request"]):
            problems.append(f"{manifest['label']} is of another series")
        before = manifest_sha256(manifest)
    labels = [manifest["label"] for manifest in manifests]
    for manifest in manifests:
        begun = [one for one in manifests[-1]["segments_found_in"] if one <= manifest["label"]]
        if manifest["segments_found_in"] != begun:
            problems.append(
                f"{manifest['label']} states other periods in which segments were found"
            )
    problems += [f"{label} is there twice" for label in {*labels} if labels.count(label) > 1]
    yield gathered("each period names the one before it", problems, f"{len(labels)} periods")
    spent = sum(spend.rho_units for spend in released.spends)
    due = released.design.accrued_units(released.released[-1], found_in(released.segments))
    yield Finding("charges of all periods", holds=spent == due, seen=f"{spent} units of rho")
    yield gathered("centres and tables follow", _table_problems(bundles, released), "recomputed")


def _table_problems(bundles: Sequence[Path], released: ReleasedSeries) -> Iterator[str]:
    """Yield the centres that are no prediction, and tables that the raw sums do not give."""
    by_period = {read_manifest(bundle)["period"] - 1: bundle for bundle in bundles}
    for place, one in enumerate(released.periods):
        past = ReleasedSeries(
            design=released.design, first=released.first, periods=released.periods[:place]
        )
        due = past.next_centres(one.period) if place else released.begun().estimate.mean
        if not same_numbers(one.centres, due):
            yield f"centres of period {one.period + 1}"
        until = ReleasedSeries(
            design=released.design, first=released.first, periods=released.periods[: place + 1]
        )
        bundle = by_period[one.period]
        request = SeriesRequest.parse(read_manifest(bundle)["request"])
        result = SeriesResult(request=request, released=until)
        for name in result.tables:
            found, expected = read_table(bundle, name), result.to_arrow(name)
            if found.column_names != expected.column_names or not all(
                _same(found[column].to_numpy(), expected[column].to_numpy())
                for column in found.column_names
            ):
                yield f"table {name} of period {one.period + 1}"


def _same(found: Floats, due: Floats) -> bool:
    """Whether two columns agree: numbers to six digits, texts exactly."""
    if np.asarray(due).dtype.kind == "f":
        return same_numbers(found, due)
    return bool(np.array_equal(found, due))
