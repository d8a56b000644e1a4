"""Conflicts between the files of a dossier: what a signature must not stand under.

A *conflict* is a contradiction, or a rule that is broken; a *warning* is a gap that a person has to
judge. Both name the files that show it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from wattveil.bundle import keys
from wattveil.bundle.label_texts import has_labels
from wattveil.bundle.manifest import Manifest
from wattveil.dossier.audit_evidence import has_little_power
from wattveil.dossier.clauses import ANSWERS_FILE, Standard
from wattveil.dossier.evidence import Evidence, Field
from wattveil.lab.audit.release_audit import NOT_REFUTED
from wattveil.products.request import NO_RULE
from wattveil.release.weak_guarantees import REAL_IDS, delta_warning, epsilon_warning

MAX_AUDIT_AGE = timedelta(days=365)
"""After which a record of attacks is reported as old."""
MIN_JUSTIFICATION = 15
"""Characters of an answer that justifies real ids: none of n/a, none, tbd has as many."""
MIN_ANSWER = 5
"""Characters of any other answer: n/a, none and tbd have fewer, the name of a region may not."""
_PLACEHOLDERS = {
    *("not applicable", "not applicable yet", "not known", "pending", "see above", "to follow"),
    *("to be completed", "to be confirmed", "to be determined", "unknown"),
}
"""Longer texts that stand for a missing answer."""
_YES_OR_NO = ("Are ", "Does ", "Is ", "Was ", "Were ")
"""Beginnings of questions to which yes and no are answers."""
_NOT_COMPARED = {"customers", "typical_kw", "roughness", "about"}
"""Public estimates and texts of a request: an audit may have others. It must share the rest."""


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Something that is wrong, or that a person has to judge."""

    text: str
    files: str
    is_warning: bool = False
    is_untested: bool = False
    """Whether an audit is missing, or had no power to refute a claim: signed with a reason only."""

    @property
    def kind(self) -> str:
        """Conflict or warning."""
        return "warning" if self.is_warning else "conflict"


def find_conflicts(
    evidence: Evidence,
    today: date,
    standard: Standard,
    *,
    said: Mapping[str, str],
    real_ids_approved_by: str | None = None,
) -> tuple[Conflict, ...]:
    """Compare the files with each other, with the rules that they state, and with the standard.

    ``said`` has a person's answers, by question.
    """
    if evidence.series is not None:
        return (
            *_placeholders(evidence, standard, said),
            *_total(evidence),
            *_rule(evidence, standard),
            *_verification(evidence),
            *_parameters(evidence),
            *_unchecked_days(evidence),
            *_audit(evidence, today),
        )
    return (
        *_rule(evidence, standard),
        *_verification(evidence),
        *_parameters(evidence),
        *_manifest(evidence),
        *_real_ids(evidence, standard, real_ids_approved_by),
        *_placeholders(evidence, standard, said),
        *_period(evidence),
        *_total(evidence),
        *_ledger(evidence),
        *_audit(evidence, today),
    )


def _rule(evidence: Evidence, standard: Standard) -> Iterator[Conflict]:
    rule = evidence.manifest["request"].get("rule", NO_RULE)  # a series has none
    if standard.needs_rule and rule == NO_RULE:
        text = (
            "The release applied no aggregation rule: cells of any size are published. If a"
            " minimum number of customers applies, release with a rule, such as --rule 15/15."
        )
        files = f"{evidence.files['manifest']}, request.rule"
        yield Conflict(text=text, files=files, is_warning=True)


def _verification(evidence: Evidence) -> Iterator[Conflict]:
    for finding in evidence.verification.findings:
        if not finding.holds:
            text = f"Verification failed: {finding.check}: {finding.seen}."
            yield Conflict(text=text, files=evidence.files["verify"])


def _parameters(evidence: Evidence) -> Iterator[Conflict]:
    """Report missing signatures, and parameters of the guarantee that are too large."""
    manifest, name = evidence.manifest, evidence.files["manifest"]
    request = manifest["request"]
    if "signature" not in manifest:
        text = "The manifest is not signed: who published the release cannot be shown."
        yield Conflict(text=text, files=f"{name}, signature")
    elif not evidence.is_key_given:
        text = (
            "The key of the signature was not compared with the publisher's: anyone can make a key"
            " and sign with it."
        )
        yield Conflict(text=text, files=f"{name}, signature; --key", is_warning=True)
    if warning := epsilon_warning(float(request["epsilon"])):
        text = f"{warning[0].upper()}{warning[1:]}"
        yield Conflict(text=text, files=f"{name}, request.epsilon", is_warning=True)
    if warning := delta_warning(float(request["delta"]), request["customers"]):
        text = f"Delta is too large: {warning}"
        yield Conflict(text=text, files=f"{name}, request.delta, request.customers")


def _manifest(evidence: Evidence) -> Iterator[Conflict]:
    manifest, name = evidence.manifest, evidence.files["manifest"]
    if manifest["variant"] != "approximate":
        text = "The guarantee is that of the instance tier, which is not differential privacy."
        yield Conflict(text=text, files=f"{name}, variant")
    if manifest["implementation"]["test_mode"]:
        text = "The noise is from a test source."
        yield Conflict(text=text, files=f"{name}, implementation.test_mode")
    if manifest["other_releases_on_same_people"] == "unknown":
        text = "The curator does not state whether there are other releases about these customers."
        files = f"{name}, other_releases_on_same_people"
        yield Conflict(text=text, files=files, is_warning=True)
    if isinstance(manifest["cumulative"], str):
        text = (
            "The release is not recorded in a ledger: the total relies on the curator's statement."
        )
        yield Conflict(text=text, files=f"{name}, cumulative", is_warning=True)


def _real_ids(
    evidence: Evidence, standard: Standard, approved_by: str | None
) -> Iterator[Conflict]:
    """Report real ids, unless they were approved or the standard permits them; and pseudonyms."""
    if not evidence.has_real_ids:
        yield from _pseudonyms(evidence, standard)
        return
    files, text = f"{evidence.files['manifest']}, request.real_ids", REAL_IDS
    is_accepted = approved_by is not None or not standard.is_about_anonymity
    if approved_by is not None:
        text += f" Approved by: {approved_by}."
    elif not is_accepted:
        text += (
            " Such labels are not anonymous information. If they are to be published, name who"
            " approved it with --real-ids-approved-by."
        )
    yield Conflict(text=text, files=files, is_warning=is_accepted)


def _pseudonyms(evidence: Evidence, standard: Standard) -> Iterator[Conflict]:
    """Report rows of single customers under a standard about anonymity."""
    if standard.is_about_anonymity and has_labels(evidence.manifest):
        text = (
            "The table labels has one row per customer, under pseudonyms: decide whether it is"
            " anonymous information or pseudonymised personal data."
        )
        files = f"{evidence.files['manifest']}, products[].name"
        yield Conflict(text=text, files=files, is_warning=True)


def _placeholders(
    evidence: Evidence, standard: Standard, said: Mapping[str, str]
) -> Iterator[Conflict]:
    """Report answers that stand for a missing one; what justifies real ids must be longer."""
    clauses = standard.real_ids_clauses if evidence.has_real_ids else ()
    justified = {question for clause in clauses for question in clause.questions}
    for question, answer in said.items():
        minimum = MIN_JUSTIFICATION if question in justified else MIN_ANSWER
        is_short = answer.strip(" .").casefold() in {"yes", "no"}
        if not answer or (is_short and question.startswith(_YES_OR_NO)):
            continue
        if is_placeholder(answer, minimum):
            text = (
                f'"{answer}" is no answer to: {question} At least {minimum} characters are'
                " required, which are not a placeholder."
            )
            yield Conflict(text=text, files=ANSWERS_FILE)


def is_placeholder(answer: str, minimum: int) -> bool:
    """Whether an answer is too short, or stands for a missing one."""
    words = " ".join(answer.split()).strip(" .-–—?!").casefold()
    return len(words) < minimum or words in _PLACEHOLDERS


def _period(evidence: Evidence) -> Iterator[Conflict]:
    if evidence.manifest["profiles"]["reading_rules"]["period"] is None:
        text = (
            "The period of the readings is not stated: epsilon covers all of them, a week or years."
            " State it with wattveil profiles --period."
        )
        files = f"{evidence.files['manifest']}, profiles.reading_rules.period"
        yield Conflict(text=text, files=files, is_warning=True)


def _total(evidence: Evidence) -> Iterator[Conflict]:
    """Report what weakens the total with other releases, if others were named."""
    if evidence.total is not None:
        for text in evidence.total.warnings:
            yield Conflict(text=text, files=evidence.files["total"], is_warning=True)


def _unchecked_days(evidence: Evidence) -> Iterator[Conflict]:
    found = evidence.field("manifest", "series_unchecked")
    if isinstance(found, Field) and found.items != ("none",):
        text = (
            f"It is not shown that the profiles are of the days of their period: {found.text}."
            " State the days with wattveil profiles --period FIRST END."
        )
        yield Conflict(text=text, files=f"{found.file}, {found.cited}", is_warning=True)


def _ledger(evidence: Evidence) -> Iterator[Conflict]:
    ledger, stated = evidence.ledger, evidence.manifest["cumulative"]
    if ledger is None:
        if not isinstance(stated, str):
            text = "The manifest states a sum of a ledger, and no export of it was given."
            yield Conflict(text=text, files="--ledger", is_warning=True)
        return
    name = evidence.files["ledger"]
    for finding in ledger.findings:
        if not finding.holds:
            text = f"Ledger check failed: {finding.check} ({finding.seen})."
            yield Conflict(text=text, files=name)
    if not ledger.counted:
        text = "The ledger has no charge of this release at the place that the manifest states."
        yield Conflict(text=text, files=f"{name}; {evidence.files['manifest']}, cumulative")
    for text in ledger.disagreements:
        yield Conflict(text=f"{text}.", files=f"{name}; {evidence.files['manifest']}")
    if ledger.counted and ledger.values["epsilon_spent"] > ledger.values["epsilon_cap"]:
        text = (
            f"The releases in the ledger add up to epsilon {ledger.values['epsilon_spent']:.4g},"
            f" above the cap of {ledger.values['epsilon_cap']:.4g}."
        )
        yield Conflict(text=text, files=name)


def _audit(evidence: Evidence, today: date) -> Iterator[Conflict]:
    record = evidence.audit
    if record is None:
        text = "There is no record of attacks and audits."
        files = "--audit" if evidence.series is None else "not available for a series"
        yield Conflict(text=text, files=files, is_warning=True, is_untested=True)
        return
    name = evidence.files["audit"]
    if not keys_agree(evidence.manifest, record):
        text = "The audit record is not signed by the key that signed the manifest."
        yield Conflict(text=text, files=f"{name}, signature")
    made, published = (
        datetime.fromisoformat(one).astimezone(UTC)
        for one in (record["made_at"], evidence.manifest["published_at"])
    )
    if made < published:
        text = (
            f"The audit of {made.date()} is older than the release of {published.date()}: run"
            " wattveil audit --record after wattveil release, before the bundle is published."
        )
        yield Conflict(text=text, files=f"{name}, made_at; manifest.json, published_at")
    if today - made.date() > MAX_AUDIT_AGE:
        text = f"The audit of {made.date()} is older than a year: repeat it."
        yield Conflict(text=text, files=f"{name}, made_at", is_warning=True)
    elif date.fromisoformat(record["review_by"]) < today:
        text = f"The audit was to be reviewed by {record['review_by']}."
        yield Conflict(text=text, files=f"{name}, review_by", is_warning=True)
    differ = _differences(evidence.manifest["request"], record["request"])
    if differ:
        text = f"The audit is about another release: {', '.join(differ)} differ."
        yield Conflict(text=text, files=f"{name}, request; manifest.json, request")
    if record.get("release_id", released := evidence.manifest["release_id"]) != released:
        text = f"The audit is about another release: {record['release_id']}, not {released}."
        yield Conflict(text=text, files=f"{name}, release_id; manifest.json, release_id")
    yield from _verdicts(record, name)
    if record["customers"] == "simulated":
        text = "The audit used simulated homes, not the customers of the release."
        yield Conflict(text=text, files=f"{name}, customers", is_warning=True)


def _verdicts(record: Mapping[str, Any], name: str) -> Iterator[Conflict]:
    """Report claims that were refuted, and audits that had no power to refute one."""
    for one in record["audits"]:
        if one["verdict"] == "refuted":
            text = f"The audit refutes the claim of {one['release']} ({one['method']})."
            yield Conflict(text=text, files=f"{name}, audits")
        elif has_little_power(one):
            text = (
                f"The audit of {one['release']} ({one['method']}) is weak: even a perfect attack"
                " would have shown less than twice the claimed epsilon."
            )
            yield Conflict(text=text, files=f"{name}, audits", is_warning=True)
        elif one["verdict"] != NOT_REFUTED:
            audited = f"{one['release']} ({one['method']})"
            text = (
                f"The audit of {audited} had too little power to test the claim: {one['verdict']}."
            )
            files = f"{name}, audits"
            yield Conflict(text=text, files=files, is_warning=True, is_untested=True)
    if not record["audits"]:
        text = "The audit record has no lower bound on epsilon."
        files = f"{name}, audits"
        yield Conflict(text=text, files=files, is_warning=True, is_untested=True)


def keys_agree(manifest: Manifest, record: Mapping[str, Any]) -> bool:
    """Whether both are signed, validly and by the same key."""
    signers = [
        keys.signer(one, one["signature"]) if "signature" in one else None
        for one in (manifest, record)
    ]
    return signers[0] is not None and signers[0] == signers[1]


def _differences(request: Mapping[str, Any], audited: Mapping[str, Any]) -> list[str]:
    names = sorted((request.keys() | audited.keys()) - _NOT_COMPARED)
    return [
        name
        for name in names
        if name not in request or name not in audited or request[name] != audited[name]
    ]
