"""Verify one period of a series, or a whole chain, without the data.

One bundle: files, both formats of tables, signature, charges, the cost accrued so far and the
guarantee of the whole series. A chain, in addition: that each period names the one before it, that
no period is there twice, that one key signed all or none, and that centres, radii, every table and
the report follow from the raw sums (`series_contents`). Not checked are the first estimate and the
clusters that a period found: the draws from which they were estimated are not published.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil.bundle import keys
from wattveil.bundle.series_bundle import (
    MANIFEST,
    Manifest,
    manifest_sha256,
    read_chain,
    read_manifest,
    spends_of,
    unchecked_periods,
)
from wattveil.bundle.series_charges import charge_problems
from wattveil.bundle.series_contents import (
    content_problems,
    format_problems,
    is_same_software,
    listed_problems,
)
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.verify.verify_bundle import SIGNATURE, VerificationReport
from wattveil.declaration import to_plain
from wattveil.errors import WattveilError
from wattveil.privacy.accounting import RHO_UNITS, Composition, discretisation_eta
from wattveil.privacy.guarantee import Budget, Spend
from wattveil.privacy.mechanisms.contributions import STEP, UNIT
from wattveil.privacy.mechanisms.gaussian import MIN_SCALE
from wattveil.privacy.mechanisms.period_sums import MECHANISM
from wattveil.products.findings import Finding, NotRun, gathered
from wattveil.release.load_series import LENGTHS, LOAD, MEMBERS, SeriesDesign
from wattveil.web.formatting import format_count

_SHOWN_DIGITS = 4
CLOSED = "closed.json"
"""Closing statement, beside the folder of periods."""
NOT_PROVED = (
    "That the publisher ran this software unchanged, and drew the stated noise only once.",
    "The first estimate of period 1: the draws that it was estimated from are not published.",
    "That the private state was kept from period to period, so that no allowance was used twice.",
    "That customers keep their ids, and that public choices were made without the data.",
    "That no other release about the same people exists beyond those that are stated.",
)
_FOUND = (
    "Clusters in the periods that found them: the draws that they were estimated from are not"
    " published."
)
_LOST = (
    "That no later period exists: the publisher has lost records, and states the periods that are"
    " known."
)
_TRUNCATED = "That no later period exists: there is no closing statement to compare with."
_ALONE = "That tables and report follow from the sums: verify all periods (wattveil series verify)."
_OTHER_TEXTS = "Texts and report of some periods: another version of the software wrote them."
_UNCHECKED = "That profiles are of the days of their period; no days were compared in"
_UNSIGNED = "Who published it: there is no signature."
_WHOSE = "Whose key signed it: compare its fingerprint with that of the publisher (--key)."
_CLOSING = "closing statement"
_OPEN = NotRun(
    _CLOSING,
    "there is none",
    f"Nothing is wrong while the series continues; its publisher adds {CLOSED} when it ends.",
)
_NOT_SIGNED = NotRun(
    SIGNATURE,
    "the periods have none: the publisher's identity is not verified",
    "Only a new series can be signed, from its first period on (`wattveil series add --key`).",
)
_UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError, WattveilError)
"""What a manifest of Wattveil never has: missing fields, other types, numbers out of range."""
_MECHANISMS = {MECHANISM, "gaussian_histogram", "gaussian_cell_sums"}


def verify_period(bundle: Path, *, trusted: Ed25519PublicKey | None = None) -> VerificationReport:
    """Check the bundle of one period by itself."""
    found = _guarded([bundle], trusted, chain=False)
    return _report([bundle], found, trusted, more=(_ALONE,))


def verify_chain(
    bundles: Sequence[Path],
    *,
    trusted: Ed25519PublicKey | None = None,
    closing: Path | None = None,
) -> VerificationReport:
    """Check the bundles of all periods of a series, and its closing statement if there is one."""
    found = _guarded(bundles, trusted, chain=True)
    if closing is None or not closing.is_file():
        return _report(bundles, found, trusted, more=(_TRUNCATED,), not_run=(_OPEN,))
    finding, is_complete = _closing_finding(closing, bundles, trusted)
    more = () if is_complete else (_LOST,)
    return _report(bundles, [*found, finding], trusted, more=more)


def _closing_finding(
    closing: Path, bundles: Sequence[Path], trusted: Ed25519PublicKey | None
) -> tuple[Finding, bool]:
    """Check that a closing statement is of this series, of all its periods, and of its signer.

    Return also whether it states that there is no later period.
    """
    is_complete = True
    try:
        record = json.loads(closing.read_text("utf-8"))
        manifests = sorted(map(read_manifest, bundles), key=lambda one: int(one["period"]))
        is_complete = record.get("complete") is not False
        due = closing_statement(
            series=manifests[0]["series"] if manifests else record["series"],
            reason=str(record["reason"]),
            manifests=manifests if is_complete else manifests[: record["periods"]],
            is_complete=is_complete,
        )
        problems = [name for name in due if record.get(name) != due[name]]
        problems += sorted(record.keys() - due.keys() - {"signature"})
        problems += [
            one.seen for one in _signature(CLOSED, record, trusted, due=manifests) if not one.holds
        ]
        seen = f"closed: {record['reason']}"
    except (AttributeError, LookupError, TypeError, ValueError, WattveilError) as error:
        problems, seen = [str(error)[:200]], ""
    return gathered(_CLOSING, problems, seen), is_complete


def closing_statement(
    *, series: str, reason: str, manifests: Sequence[Manifest], is_complete: bool = True
) -> dict[str, object]:
    """Return the closing statement of a series with these manifests, unsigned.

    One that is not complete is about the periods that are known; there may have been later ones.
    """
    last = manifest_sha256(manifests[-1]) if manifests else None
    return {
        "series": series,
        "reason": reason,
        "periods": len(manifests),
        "last_manifest_sha256": last,
        **({} if is_complete else {"complete": False}),
    }


def _report(
    bundles: Sequence[Path],
    findings: Sequence[Finding],
    trusted: Ed25519PublicKey | None,
    *,
    more: tuple[str, ...],
    not_run: tuple[NotRun, ...] = (),
) -> VerificationReport:
    """Return the outcome, with what a reader of these bundles must take on trust."""
    known = [*NOT_PROVED, *more]
    if all(one.holds for one in findings) and bundles:
        manifests = [read_manifest(bundle) for bundle in bundles]
        if manifests[0]["request"]["segments"]:
            known.append(_FOUND)
        if unchecked := unchecked_periods(manifests):
            known.append(f"{_UNCHECKED} {', '.join(sorted(unchecked))}.")
        if not all(map(is_same_software, manifests)):
            known.append(_OTHER_TEXTS)
        if "signature" not in manifests[0]:
            known.append(_UNSIGNED)
            not_run = (*not_run, _NOT_SIGNED)
        elif trusted is None:
            known.append(_WHOSE)
    return VerificationReport(
        findings=tuple(findings), not_proved=tuple(known), not_run=tuple(not_run)
    )


def _guarded(
    bundles: Sequence[Path], trusted: Ed25519PublicKey | None, *, chain: bool
) -> list[Finding]:
    found: list[Finding] = []
    try:
        for bundle in bundles:
            found += _period_findings(bundle, read_manifest(bundle), trusted)
        if chain and all(one.holds for one in found):
            found += _chain_findings(bundles)
    except _UNREADABLE as error:
        found.append(_unreadable(error))
    return found


def _unreadable(error: Exception) -> Finding:
    return Finding("the manifest can be read", holds=False, seen=str(error)[:200])


def _period_findings(
    bundle: Path, manifest: Manifest, trusted: Ed25519PublicKey | None
) -> Iterator[Finding]:
    request = SeriesRequest.parse(manifest["request"])
    label = manifest["label"]
    wrong, seen = changed_files(bundle, manifest), format_count(len(manifest["payload"]), "file")
    yield gathered(f"{label}: files are those that were published", wrong, seen)
    yield gathered(f"{label}: no other file is listed", listed_problems(manifest), "none")
    if not wrong:
        problems = format_problems(bundle, manifest)
        yield gathered(f"{label}: CSV and Parquet agree", problems, "every table")
    yield from _signature(label, manifest, trusted)
    yield from _manifest_findings(request, manifest)


def accounting_findings(manifest: Manifest) -> list[Finding]:
    """Check the manifest of a period by itself: statements, charges and cost accrued so far."""
    try:
        return list(_manifest_findings(SeriesRequest.parse(manifest["request"]), manifest))
    except _UNREADABLE as error:
        return [_unreadable(error)]


def _manifest_findings(request: SeriesRequest, manifest: Manifest) -> Iterator[Finding]:
    """Check what needs no other file than the manifest."""
    design, label, place = request.design, manifest["label"], manifest["period"] - 1
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
    body = file.read_bytes()
    return (len(body), hashlib.sha256(body).hexdigest()) == (entry["bytes"], entry["sha256"])


def signer(signed: Mapping[str, Any]) -> Ed25519PublicKey | None:
    """Return the key that signed a manifest or a closing statement; None for none that is valid."""
    signature = signed.get("signature")
    return None if signature is None else keys.signer(dict(signed), signature)


def _signature(
    label: str,
    signed: Manifest,
    trusted: Ed25519PublicKey | None,
    *,
    due: Sequence[Manifest] = (),
) -> Iterator[Finding]:
    """Check the signature of ``signed``, if it has one, a key is trusted, or ``due`` have one."""
    key = signer(signed)
    if key is None and "signature" not in signed and trusted is None:
        if any("signature" in one for one in due):
            yield Finding(f"{label}: signature", holds=False, seen="not signed, as periods are")
        return
    holds = key is not None and (trusted is None or trusted == key)
    holds = holds and all(signer(one) == key for one in due)
    seen = f"by key {keys.fingerprint(key)}" if key is not None else "none that is valid"
    yield Finding(f"{label}: signature", holds=holds, seen=seen)


def _charge_problems(design: SeriesDesign, manifest: Manifest) -> Iterator[str]:
    """Yield which charges do not follow from the design.

    Sensitivity and grid are those of the kernel, whatever the manifest states: D^2 = 2^50 squared
    steps of 2^-25 for zero-out.
    """
    place, spends = manifest["period"] - 1, spends_of(manifest)
    own = [spend for spend in spends if spend.mechanism == MECHANISM]
    if sorted(spend.tag for spend in own) != sorted((LOAD, *design.counted)):
        yield "other sums than the request has"
        return
    read = [spend.tag for spend in spends if _is_read(spend.tag, design)]
    if len({*read}) < len(read):
        yield "two queries of one name"
    for spend in spends:
        drawn = spend.drawn
        if spend.mechanism not in _MECHANISMS:
            yield f"{spend.tag}: another mechanism"
        if (drawn["squared"], drawn["step"]) != (UNIT**2, STEP):
            yield f"{spend.tag}: another sensitivity or grid"
        units = spend.rho_units
        if spend.mechanism == MECHANISM:
            query = design.query(spend.tag, place, released=())
            units = query.rho_units
            if not 1 <= spend.rho_units <= query.accrued_units():
                yield f"{spend.tag}: more than has accrued"
            width = manifest["slots"] if spend.tag == LOAD else 1
            if drawn["numbers"] != width * len(design.groups):
                yield f"{spend.tag}: other numbers than the groups have"
        yield from _noise_problems(spend, units)


def _noise_problems(spend: Spend, units: int) -> Iterator[str]:
    """Yield whether a draw has less noise, or less eta, than ``units`` of rho and its grid need."""
    scale = spend.drawn["scale"]
    # sigma^2 >= D^2 / (2 rho), in steps; of a series rho is that of all periods
    if scale < MIN_SCALE or 2 * Fraction(scale) ** 2 * units < UNIT**2 * RHO_UNITS:
        yield f"{spend.tag}: less noise than its charge requires"
    elif not spend.eta >= discretisation_eta(  # nor NaN
        numbers=int(spend.drawn["numbers"]), sigma=scale, s=UNIT / scale
    ):
        yield f"{spend.tag}: eta is too small for the grid"


def _is_read(tag: str, design: SeriesDesign) -> bool:
    """Whether the noise of a table is that of the query with this name."""
    return tag in {LOAD, LENGTHS, *design.counted} or tag.startswith("segments, period")


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
    seen = f"epsilon {_rounded_up(accrued['epsilon'])} of {guarantee.epsilon:g}"
    return Finding(f"{manifest['label']}: cost accrued so far", holds=holds, seen=seen)


def _rounded_up(epsilon: object) -> str:
    """Return an epsilon with few digits, never below it."""
    exact = Decimal(str(epsilon))
    step = Decimal(1).scaleb(exact.adjusted() - _SHOWN_DIGITS + 1)
    return f"{exact.quantize(step, ROUND_CEILING).normalize():f}"


def _found_in(request: SeriesRequest, manifest: Manifest) -> tuple[int, ...]:
    """Return the periods in which segments were found, as a manifest states them."""
    return tuple(request.period_of(label) for label in manifest["segments_found_in"])


def _agree(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests have the same signer, or none."""
    return ("signature" in one) == ("signature" in other) and signer(one) == signer(other)


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
    problems += [
        f"{one['label']} has another signer" for one in manifests if not _agree(one, first)
    ]
    yield gathered(
        "each period names the one before it", problems, format_count(len(labels), "period")
    )
    charged = format_count(len(released.spends), "charge")
    yield gathered("charges of all periods", charge_problems(released), charged)
    contents = content_problems(bundles, released)
    yield gathered("centres, tables, texts and reports match", contents, "regenerated")
