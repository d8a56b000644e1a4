"""Clauses are answered from files, with file and field; what no file says stays a blank."""

import json
import re
from dataclasses import replace
from importlib.resources import files

import pytest

from tests.unit.dossier.conftest import Files
from wattveil.dossier.clauses import answer_clauses, fields_in, read_standard, standard_names
from wattveil.dossier.dossier_document import make_dossier
from wattveil.dossier.evidence import DERIVED, Field
from wattveil.errors import InvalidParameterError

STANDARDS = ("cpuc", "ico", "iso-27559", "nist-800-226", "ofgem")
MIN_FILLED = 0.95


def test_every_standard_is_a_file() -> None:
    """The five standards, each with a source and with clauses that ask or answer."""
    assert standard_names() == STANDARDS
    for name in STANDARDS:
        standard = read_standard(name)
        assert standard.source.startswith("https://")
        for clause in standard.clauses:
            assert clause.answers or clause.questions, clause
        questions = [question for clause in standard.clauses for question in clause.questions]
        assert len(set(questions)) == len(questions)
    with pytest.raises(InvalidParameterError, match=r"nist-800-226.*gdpr"):
        read_standard("gdpr")


@pytest.mark.parametrize("standard", STANDARDS)
def test_clauses_are_filled_from_files(counted: Files, standard: str) -> None:
    """At least 95 % of the clauses that files can answer are, and each cites an existing field."""
    made = counted.dossier(standard)
    filled, answerable = made.from_files
    assert filled >= MIN_FILLED * answerable
    assert answerable >= 0.5 * len(made.clauses)
    sources = {"manifest.json", "ledger.jsonl", "audit.json", "result of `wattveil verify`"}
    cited = [field for one in made.clauses for answer in one.answers for field in answer.fields]
    assert {field.file for field in cited} <= sources
    assert all(field.text for field in cited)
    assert not any(
        re.search(r"[{}]", answer.text) for one in made.clauses for answer in one.answers
    )


@pytest.mark.parametrize("standard", STANDARDS)
def test_without_ledger_and_audit_blanks_remain(counted: Files, standard: str) -> None:
    """What a file would say is missing, and the option that gives the file is named."""
    made = counted.dossier(standard, ledger=None, audit=None)
    whole = counted.dossier(standard)
    assert made.from_files[0] < whole.from_files[0]
    missing = {text for one in made.clauses for answer in one.answers for text in answer.missing}
    assert any("--ledger" in text for text in missing)
    assert any("--audit" in text for text in missing)


def test_values_are_those_of_the_files(counted: Files) -> None:
    """Each field read a second time, by hand, from the JSON of its file."""
    evidence = counted.evidence()
    manifest = json.loads((counted.bundle / "manifest.json").read_text())
    record = json.loads(counted.audit.read_text())

    def text(source: str, path: str) -> str:
        found = evidence.field(source, path)
        assert isinstance(found, Field), found
        return found.text

    assert text("manifest", "guarantee.epsilon") == manifest["guarantee"]["epsilon"]
    names = [table["name"] for part in manifest["products"] for table in part["tables"]]
    assert text("manifest", "products[].tables[].name") == "; ".join(names)
    assert text("manifest", "request.real_ids") == "no"
    assert text("audit", "review_by") == record["review_by"]
    spent = float(manifest["cumulative"]["epsilon_spent"])
    assert text("ledger", "epsilon_spent") == f"{spent:.4g}"
    assert text("ledger", "releases") == "2"
    for path in ("no_such", "guarantee.no_such", "title.deeper", "title[].name"):
        assert "states nothing" in str(evidence.field("manifest", path))


def test_what_is_not_stated_is_a_blank(counted: Files) -> None:
    """The default text of a field answers nothing."""
    evidence = counted.evidence()
    evidence.manifest["curator"] = "not stated"
    assert "curator" in str(evidence.field("manifest", "curator"))


def test_derived_fields_are_used_and_known() -> None:
    """No derived field without a clause, and no field of a source that is unknown."""
    named = set()
    for name in STANDARDS:
        text = files("wattveil.dossier").joinpath("standards", f"{name}.toml").read_text("utf-8")
        named |= set(fields_in(text))
    assert set(DERIVED) <= named
    assert {source for source, _ in named} == {"manifest", "verify", "ledger", "audit"}


def test_the_instance_tier_claims_no_protection_of_overlaps(counted: Files) -> None:
    """The clause on overlapping aggregates cites the composition of the global tier alone."""
    evidence = counted.evidence()
    composition = evidence.manifest["composition"]
    other = replace(evidence, manifest={**evidence.manifest, "variant": "instance"})
    for one, claims in ((evidence, True), (other, False)):
        found = one.field("manifest", "overlap_text")
        assert isinstance(found, Field)
        assert (composition in found.text) is claims
        assert ("not differential privacy" in found.text) is not claims
    texts = [
        answer.text
        for one in make_dossier(other, "cpuc", answers={}).clauses
        for answer in one.answers
    ]
    assert not any(composition in text for text in texts)


def test_answers_of_a_person_are_taken(counted: Files) -> None:
    """By question; a question that the standard does not have is refused."""
    standard = read_standard("ico")
    question = next(one.questions[0] for one in standard.clauses if one.questions)
    evidence = counted.evidence()
    made = make_dossier(evidence, "ico", answers={question: "Because."})
    assert len(made.open_questions) + 1 == sum(len(one.questions) for one in standard.clauses)
    with pytest.raises(InvalidParameterError, match="questions of ICO"):
        answer_clauses(standard, evidence, {"Why?": "x"})
