"""Planted inconsistencies are found: each file spoiled in turn."""

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.dossier.conftest import Files, audit_record, write_signed
from wattveil.bundle.keys import new_key, sign
from wattveil.dossier.clauses import read_standard
from wattveil.dossier.conflicts import find_conflicts
from wattveil.dossier.dossier_document import dossier_markdown, make_dossier
from wattveil.dossier.evidence import Evidence
from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.server.ledger.journal import SEALED, seal

TODAY = datetime.now(UTC).date()
NIST = read_standard("nist-800-226")


def conflicts(evidence: Evidence) -> list[str]:
    """Return the texts of conflicts, without warnings."""
    return [
        one.text for one in find_conflicts(evidence, TODAY, NIST, said={}) if not one.is_warning
    ]


def warnings(evidence: Evidence) -> list[str]:
    """Return the texts of warnings."""
    return [one.text for one in find_conflicts(evidence, TODAY, NIST, said={}) if one.is_warning]


def test_files_that_agree_have_none(counted: Files) -> None:
    """No conflict, and no warning either."""
    assert find_conflicts(counted.evidence(), TODAY, NIST, said={}) == ()


def changed_manifest(
    counted: Files, folder: Path, change: Callable[[dict[str, Any]], None]
) -> Path:
    """Return a copy of the bundle with a changed manifest."""
    copy = shutil.copytree(counted.bundle, folder / "bundle")
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    return copy


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda one: one.pop("signature"), "not signed"),
        (lambda one: one["request"].update(delta="0.01"), "Delta is too large"),
        (lambda one: one.update(title="Other"), "Verification failed: the signature"),
        (lambda one: one.update(variant="instance"), "not differential privacy"),
        (lambda one: one["implementation"].update(test_mode=True), "test source"),
        (lambda one: one["cumulative"].update(releases=1), "cumulative.releases is not the sum"),
        (lambda one: one["cumulative"].update(chain_head="0" * 64), "no charge of this release"),
    ],
)
def test_a_spoiled_manifest(
    counted: Files, tmp_path: Path, change: Callable[[dict[str, Any]], None], found: str
) -> None:
    """Unsigned, delta too large, changed after signing, sums that are not those of the ledger."""
    evidence = counted.evidence(bundle=changed_manifest(counted, tmp_path, change))
    assert any(found in text for text in conflicts(evidence))


def test_gaps_that_a_person_judges(counted: Files, tmp_path: Path) -> None:
    """Real ids, no ledger, no audit: warnings, not conflicts."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["request"]["real_ids"] = True
        manifest["cumulative"] = "not known, because this release was made without a ledger"

    bundle = changed_manifest(counted, tmp_path, change)
    found = warnings(counted.evidence(bundle=bundle, ledger=None, audit=None))
    for words in ("real customer ids", "not recorded in a ledger", "no record of attacks"):
        assert any(words in text for text in found)
    assert any("no export" in text for text in warnings(counted.evidence(ledger=None)))
    assert any(
        "no charge of this release" in one for one in conflicts(counted.evidence(bundle=bundle))
    )


APPROVED = "The data protection officer approved it on 2 March."


@pytest.mark.parametrize(("standard", "warns"), [("gdpr", True), ("ico", True), ("ofgem", False)])
def test_pseudonyms_are_to_be_judged_under_a_standard_about_anonymity(
    counted: Files, standard: str, *, warns: bool
) -> None:
    """A row per customer may be personal data; a release of groups alone is not warned of."""
    evidence = counted.evidence()
    before = make_dossier(evidence, standard, answers={}).conflicts
    evidence.manifest["products"] = [
        *evidence.manifest["products"],
        {
            "name": "labels",
            "epsilon": "1.0",
            "expected": [],
            "postprocessing": [],
            "runs": [],
            "tables": [],
            "channel": [["3", "1"], ["1", "3"], ["2", "2"]],
        },
    ]
    after = make_dossier(evidence, standard, answers={}).conflicts
    assert not any("pseudonymised" in one.text for one in before)
    assert [one.is_warning for one in after if "pseudonymised" in one.text] == [True] * warns


@pytest.mark.parametrize("standard", ["ico", "ofgem"])
def test_real_ids_need_an_approval_under_a_standard_about_anonymity(
    counted: Files, tmp_path: Path, standard: str
) -> None:
    """A conflict without a name, a warning with one; other standards warn."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["request"]["real_ids"] = True

    evidence = counted.evidence(bundle=changed_manifest(counted, tmp_path, change))
    for name, is_warning in ((None, standard != "ico"), ("J. Doe", True)):
        made = make_dossier(evidence, standard, answers={}, real_ids_approved_by=name)
        (found,) = (one for one in made.conflicts if "real customer ids" in one.text)
        assert found.is_warning == is_warning
        assert ("Approved by: J. Doe." in found.text) == (name is not None)
    with pytest.raises(InvalidParameterError, match="the release has no real ids"):
        make_dossier(counted.evidence(), standard, answers={}, real_ids_approved_by="J. Doe")


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("n/a", {"real ids", "other"}),
        ("-", {"real ids", "other"}),
        ("TBD.", {"real ids", "other"}),
        ("none", {"real ids", "other"}),
        ("To be  determined.", {"real ids", "other"}),
        ("North", {"real ids"}),
        ("x" * 14, {"real ids"}),
        (APPROVED, set()),
        ("", set()),  # an open question, which is reported as such
    ],
)
def test_placeholders_are_no_answers(
    counted: Files, tmp_path: Path, answer: str, refused: set[str]
) -> None:
    """They are conflicts, so that the dossier cannot be signed; real ids need longer answers."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["request"]["real_ids"] = True

    evidence = counted.evidence(bundle=changed_manifest(counted, tmp_path, change))
    ((question, *_),) = (one.questions for one in NIST.real_ids_clauses)
    for kind, asked in (("real ids", question), ("other", NIST.questions[0])):
        found = find_conflicts(evidence, TODAY, NIST, said={asked: answer})
        texts = [one.text for one in found if not one.is_warning]
        assert any("is no answer to" in text for text in texts) == (kind in refused)


def test_yes_answers_only_what_can_be_answered_so(counted: Files) -> None:
    """Questions with which and how need more words."""
    ofgem = read_standard("ofgem")
    asked = ("Is the DPIA attached?", "Which network benefits are expected, and how will they be")
    for beginning, is_refused in zip(asked, (False, True), strict=True):
        (question,) = (one for one in ofgem.questions if one.startswith(beginning))
        found = find_conflicts(counted.evidence(), TODAY, ofgem, said={question: "Yes."})
        assert any("is no answer to" in one.text for one in found) == is_refused


@pytest.mark.parametrize(("largest", "is_weak"), [(0.99, True), (1.0, False)])
def test_a_weak_audit_is_a_warning(
    counted: Files, tmp_path: Path, largest: float, *, is_weak: bool
) -> None:
    """At a claim of 0.5: also in the table, and in records that do not state it."""
    path = tmp_path / "audit.json"
    audits = [{**audit_record()["audits"][0], "max_epsilon": largest}]  # type: ignore[index]
    write_signed(path, audit_record(audits=audits), counted.key)
    evidence = counted.evidence(audit=path)
    assert any("is weak" in text for text in warnings(evidence)) == is_weak
    text = dossier_markdown(make_dossier(evidence, "ico", answers={}))
    assert ("not refuted (weak)" in text) == is_weak


def resealed(lines: list[str]) -> str:
    """Return an export whose chain is whole again: as a forger would write it."""
    entries = [json.loads(line) for line in lines[1:]]
    previous = "0" * 64
    for entry in entries:
        entry["prev_sha256"] = previous
        previous = entry["row_sha256"] = seal(tuple(entry[name] for name in SEALED))
    heads = {"heads": {"1": [entries[-1]["seq"], previous]}}
    return "\n".join(json.dumps(one) for one in [heads, *entries]) + "\n"


def test_a_ledger_above_its_cap(counted: Files, tmp_path: Path) -> None:
    """The cap lowered below what is spent, with a chain that is whole; and with a broken one."""
    lines = counted.ledger.read_text().splitlines()
    lowered = [lines[0]]
    for line in lines[1:]:
        entry = json.loads(line)
        if entry["kind"] == "cap":
            entry["rho"] //= 1000
        lowered.append(json.dumps(entry))
    broken = tmp_path / "broken.jsonl"
    broken.write_text("\n".join(lowered) + "\n")
    found = conflicts(counted.evidence(ledger=broken))
    assert any("the chain of every journal is whole" in text for text in found)
    assert any("no account was ever above its cap" in text for text in found)
    assert any("above the cap" in text for text in found)
    forged = tmp_path / "forged.jsonl"
    forged.write_text(resealed(lowered))
    found = conflicts(counted.evidence(ledger=forged))
    assert not any("chain" in text for text in found)
    assert any("no account was ever above its cap" in text for text in found)
    assert any("no charge of this release" in text for text in found)


def test_audits_that_do_not_hold(counted: Files, record_file: Callable[..., Path]) -> None:
    """Older than the release, about another one, refuted."""
    day = datetime.now(UTC) - timedelta(days=1)
    refuted = [{**audit_record()["audits"][0], "verdict": "refuted"}]  # type: ignore[index]
    for changes, words in (
        ({"made_at": day.isoformat()}, "older than the release"),
        ({"request": {**audit_record()["request"], "epsilon": "1.0"}}, "epsilon differ"),  # type: ignore[dict-item]
        ({"audits": refuted}, "refutes the claim"),
    ):
        found = conflicts(counted.evidence(audit=record_file(**changes)))
        assert any(words in text for text in found), words


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", {"load": 0.5, "synthesis": 1.0}),
        ("options", {"synthesis": {"n_customers": 5}}),
        ("rule", "15/15"),
        ("normalise", True),
        ("clusters_by_group", True),
        ("real_ids", True),
        ("n_clusters", 7),
        ("added_later", 1),
    ],
)
def test_an_audit_of_another_release_is_a_conflict(
    counted: Files, record_file: Callable[..., Path], name: str, value: object
) -> None:
    """Every choice counts, also one that only one of the two files states."""
    request: dict[str, Any] = dict(audit_record()["request"])  # type: ignore[call-overload]
    assert request.get(name) != value
    other = record_file(request={**request, name: value})
    assert conflicts(counted.evidence(audit=other)) == [
        f"The audit is about another release: {name} differ."
    ]
    request.pop(name, None)
    if name != "added_later":
        lacking = conflicts(counted.evidence(audit=record_file(request=request)))
        assert lacking == [f"The audit is about another release: {name} differ."]


def test_a_record_of_another_release_id_is_a_conflict(
    counted: Files, record_file: Callable[..., Path]
) -> None:
    """A record that was made with the bundle names it."""
    own = counted.evidence().manifest["release_id"]
    assert conflicts(counted.evidence(audit=record_file(release_id=own))) == []
    (found,) = conflicts(counted.evidence(audit=record_file(release_id="0" * 32)))
    assert "another release" in found


def test_public_estimates_of_an_audit_may_differ(
    counted: Files, record_file: Callable[..., Path]
) -> None:
    """They shape the plan, not what is released: the audit has no option for them."""
    request: dict[str, Any] = dict(audit_record()["request"])  # type: ignore[call-overload]
    other = record_file(request={**request, "customers": 1000, "typical_kw": "2.0"})
    assert find_conflicts(counted.evidence(audit=other), TODAY, NIST, said={}) == ()


def test_an_audit_that_could_not_fail_is_a_warning(
    counted: Files, record_file: Callable[..., Path]
) -> None:
    """Without power, or without any bound."""
    audits = [{**audit_record()["audits"][0], "verdict": "inconclusive (no power)"}]  # type: ignore[index]
    found = warnings(counted.evidence(audit=record_file(audits=audits)))
    (text,) = found
    assert text.startswith("The audit of load (paired) had too little power to test the claim")
    assert warnings(counted.evidence(audit=record_file(audits=[]))) == [
        "The audit record has no lower bound on epsilon."
    ]


def test_a_period_that_is_not_stated_is_a_warning(counted: Files, tmp_path: Path) -> None:
    """Epsilon covers all readings: how many they are must be known."""

    def unstated(one: dict[str, Any]) -> None:
        one["profiles"]["reading_rules"]["period"] = None

    evidence = counted.evidence(bundle=changed_manifest(counted, tmp_path, unstated))
    assert any("period of the readings is not stated" in text for text in warnings(evidence))


def test_a_signature_without_a_known_key_is_a_warning(counted: Files) -> None:
    """Whoever changes a release can sign it with a key of their own."""
    found = find_conflicts(counted.evidence(trusted=None), TODAY, NIST, said={})
    assert [one.is_warning for one in found] == [True]
    assert "--key" in found[0].files


def test_an_old_audit_is_a_warning(counted: Files, record_file: Callable[..., Path]) -> None:
    """After a year, and after its review date; on simulated homes."""
    long_ago = (datetime.now(UTC) - timedelta(days=366)).isoformat()
    assert any(
        "older than a year" in one
        for one in warnings(counted.evidence(audit=record_file(made_at=long_ago)))
    )
    due = warnings(counted.evidence(audit=record_file(review_by="2020-01-01")))
    assert due == ["The audit was to be reviewed by 2020-01-01."]
    simulated = warnings(counted.evidence(audit=record_file(customers="simulated")))
    assert any("simulated homes" in one for one in simulated)


def test_an_audit_of_another_key(counted: Files, tmp_path: Path) -> None:
    """Unsigned, signed by somebody else, or changed after signing."""
    record = audit_record()
    other = {**record, "signature": sign(record, new_key())}
    true = json.loads(counted.audit.read_text())
    for spoiled in (record, other, {**true, "tester": "Somebody"}):
        path = tmp_path / "audit.json"
        path.write_text(json.dumps(spoiled))
        found = conflicts(counted.evidence(audit=path))
        assert found == ["The audit record is not signed by the key that signed the manifest."]


@pytest.mark.parametrize("text", ["{", "[]", '{"record_version": "1"}'])
def test_files_that_are_no_record(counted: Files, tmp_path: Path, text: str) -> None:
    """Refused with the name of the file."""
    path = tmp_path / "audit.json"
    path.write_text(text)
    with pytest.raises(InvalidFileError, match=r"audit\.json"):
        counted.evidence(audit=path)


def test_the_extra_of_the_ledger_is_named(counted: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, a dossier with a ledger states what to install.

    The module itself is made impossible to import: blocking SQLAlchemy alone shows nothing where
    another test of this process has loaded the modules between the two. The package is the one that
    an import finds: after a test that loaded modules anew, its parent may hold another.
    """
    package = importlib.import_module("wattveil.server.ledger")
    monkeypatch.delattr(package, "ledger_audit", raising=False)
    monkeypatch.setitem(sys.modules, "wattveil.server.ledger.ledger_audit", None)
    with pytest.raises(MissingExtraError, match="serve"):
        counted.evidence()
