"""Clauses are answered from files, with file and field; what no file says stays a blank."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.dossier.conftest import Files, audit_record
from wattveil.dossier.clauses import fields_in, read_standard, standard_names
from wattveil.dossier.dossier_document import dossier_markdown, dossier_page, make_dossier
from wattveil.dossier.evidence import DERIVED, Field, Gap
from wattveil.errors import InvalidParameterError
from wattveil.lab.audit.audit_power import runs_to_detect
from wattveil.privacy.guarantee import global_guarantee
from wattveil.release.weak_guarantees import REAL_IDS

STANDARDS = ("cpuc", "gdpr", "ico", "iso-27559", "nist-800-226", "ofgem")
MIN_FILLED, MAX_SEMICOLONS = 0.95, 4


def test_every_standard_is_a_file() -> None:
    """The standards, each with a source and with clauses that ask or answer."""
    assert standard_names() == STANDARDS
    for name in STANDARDS:
        standard = read_standard(name)
        assert standard.source.startswith("https://")
        for clause in standard.clauses:
            assert clause.answers or clause.questions, clause
        questions = [question for clause in standard.clauses for question in clause.questions]
        assert len(set(questions)) == len(questions)
    with pytest.raises(InvalidParameterError, match=r"nist-800-226.*hipaa"):
        read_standard("hipaa")


@pytest.mark.parametrize("standard", STANDARDS)
def test_clauses_are_filled_from_files(counted: Files, standard: str) -> None:
    """At least 95 % of the clauses that files can answer are, and each cites an existing field."""
    made = counted.dossier(standard)
    filled, answerable = made.from_files
    assert filled >= MIN_FILLED * answerable
    assert answerable >= 0.5 * len(made.clauses)
    sources = {"manifest.json", "ledger.jsonl", "audit.json", "result of wattveil verify"}
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
    gaps = {gap for one in made.clauses for answer in one.answers for gap in answer.missing}
    assert {gap.question for gap in gaps} <= set(made.open_questions)
    missing = {gap.remedy for gap in gaps}
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
        found = evidence.field("manifest", path)
        assert isinstance(found, Gap)
        assert "is empty in" in found.remedy


@pytest.mark.parametrize(
    ("names", "changes", "says"),
    [
        (["load"], {}, "No labels are published."),
        (["labels"], {}, "one randomised label per customer, under pseudonyms."),
        (
            ["labels"],
            {"real_ids": True},
            "one randomised label per customer, under real identifiers.",
        ),
        (["synthesis"], {}, "sampled from a released model"),
    ],
)
def test_labels_are_stated_where_there_are_any(
    counted: Files, names: list[str], changes: dict[str, object], says: str
) -> None:
    """Only without labels is it stated that aggregates and models alone are published."""
    evidence = counted.evidence()
    evidence.manifest["products"] = [{"name": name} for name in names]
    evidence.manifest["request"].update(changes)
    found = evidence.field("manifest", "published_text")
    assert isinstance(found, Field)
    assert says in found.text
    assert ("Only aggregates" in found.text) == ("labels" not in names)


def test_no_guarantee_continues_after_an_erasure_in_the_instance_tier(counted: Files) -> None:
    """It bounds nothing for the release as a whole, so nothing continues to hold."""
    evidence = counted.evidence()
    whole = evidence.field("manifest", "erasure_text")
    evidence.manifest["guarantee"]["tier"] = "instance"
    instance = evidence.field("manifest", "erasure_text")
    assert isinstance(whole, Field)
    assert isinstance(instance, Field)
    assert "continues to hold" in whole.text
    assert "continues to hold" not in instance.text
    assert "No bound holds" in instance.text


def test_a_release_under_real_ids_is_withdrawn(counted: Files) -> None:
    """Its labels name customers, so the guarantee does not answer an objection."""
    evidence = counted.evidence()
    evidence.manifest["request"]["real_ids"] = True
    found = evidence.field("manifest", "erasure_text")
    assert isinstance(found, Field)
    assert "withdrawn" in found.text
    assert "continues to hold" not in found.text


def test_a_quantity_has_one_row_of_accuracy(counted: Files) -> None:
    """Expected and achieved beside each other."""
    rows = counted.evidence().field("manifest", "quality")
    assert isinstance(rows, Field)
    names = [(row["product"], row["quantity"]) for row in rows.value]
    assert len(names) == len(set(names))


def test_the_instance_tier_is_no_variant_of_differential_privacy(counted: Files) -> None:
    """Its labels may be exact, and nothing is claimed for replaced data."""
    evidence = counted.evidence()
    texts = ("variant_text", "neighbours_text", "published_text")
    before = [evidence.field("manifest", name) for name in texts]
    assert isinstance(before[1], Field)
    assert "epsilon 1 at delta 2.65e-06" in before[1].text  # (1 + e^0.5) 1e-6
    evidence.manifest["variant"] = "instance"
    evidence.manifest["guarantee"]["tier"] = "instance"
    evidence.manifest["products"] = [{"name": "labels"}]
    found = [evidence.field("manifest", name) for name in texts]
    said = ("not differential privacy", "No guarantee is claimed", "without noise")
    for field, words in zip(found, said, strict=True):
        assert isinstance(field, Field)
        assert words in field.text


@pytest.mark.parametrize(
    ("epsilon", "delta", "says"),
    [
        ("1.0", "1e-06", "epsilon 2 at delta 3.72e-06"),  # 3.718..., rounded up
        ("14.0", "1e-06", "no guarantee at this epsilon and delta"),  # 1.2026...
        ("13.0", "1e-06", "epsilon 26 at delta 0.443"),
        ("800.0", "1e-06", "no guarantee at this epsilon and delta"),
    ],
)
def test_replaced_data_have_a_guarantee_only_below_delta_1(
    counted: Files, epsilon: str, delta: str, says: str
) -> None:
    """(2 epsilon, (1 + e^epsilon) delta), rounded up; a delta of 1 or more bounds nothing."""
    evidence = counted.evidence()
    evidence.manifest["guarantee"].update(epsilon=epsilon, delta=delta)
    for name in ("neighbours_text", "inference_text"):
        found = evidence.field("manifest", name)
        assert isinstance(found, Field)
        assert says in found.text


RELEASES = {
    "load": ("approximate", "global", False, "Real ids: no, global tier. No table", "every value"),
    "pseudonyms": (
        "approximate",
        "global",
        False,
        "Real ids: no, global tier.",
        "includes these labels",
    ),
    "ids": ("approximate", "global", True, "Real ids: yes, global tier.", "includes these"),
    "instance": ("instance", "instance", False, "Real ids: no, instance tier.", "No total of the"),
    "both": ("instance", "instance", True, "Real ids: yes, instance tier.", "No total of the"),
}


@pytest.mark.parametrize("standard", STANDARDS)
@pytest.mark.parametrize("case", RELEASES)
def test_every_dossier_states_real_ids_and_what_the_total_covers(
    counted: Files, standard: str, case: str
) -> None:
    """In any standard, from the manifest, and never as a question."""
    variant, tier, real_ids, stated, covered = RELEASES[case]
    evidence = counted.evidence(ledger=None, audit=None)
    manifest = json.loads(json.dumps(evidence.manifest))
    manifest["variant"], manifest["guarantee"]["tier"] = variant, tier
    manifest["request"]["real_ids"] = real_ids
    if case != "load":
        channel = [["88", "12"], ["5", "95"], ["50", "50"]]
        labels = {"name": "labels", "epsilon": "0.1", "channel": channel}
        manifest["products"].append({**manifest["products"][0], **labels})
    made = make_dossier(replace(evidence, manifest=manifest), standard, answers={})
    (clause,) = (one for one in made.clauses if "Real customer ids" in one.clause.name)
    assert clause.is_filled
    assert not clause.all_said
    ids, total = (answer.text for answer in clause.answers)
    assert ids.startswith(stated)
    assert covered.replace("value", "published value") in total
    # e^0.1 = 1.10517..., rounded up
    assert ("at most 1.106" in total) == (case in {"pseudonyms", "ids"})
    record = made.to_json()
    assert (record["real_ids"], record["tier"]) == (real_ids, tier)
    fact = f"real customer ids ({tier} tier)"
    assert fact in dossier_page(made)
    banner = f'<p class="banner">{REAL_IDS}</p>'
    assert (banner in dossier_page(made)) == real_ids
    assert (f"**{REAL_IDS}**" in dossier_markdown(made)) == real_ids
    asked = {name for one in made.standard.real_ids_clauses for name in one.questions}
    assert len(asked) == 4
    assert (asked <= set(made.open_questions)) == real_ids
    accuracy = "correct with a probability of 88.0 % to 95.0 %"
    assert (accuracy in dossier_page(made)) == (case == "ids")


def test_bounds_of_an_audit_are_rounded_towards_less_evidence(counted: Files) -> None:
    """A lower bound, and the largest one that was possible, are never shown above their value."""
    record: dict[str, Any] = audit_record()
    (bound,) = record["audits"]
    bound.update(epsilon_lower_bound=0.49996, max_epsilon=0.99996)
    evidence = replace(counted.evidence(audit=None), audit=record, files={"audit": "audit.json"})
    found = evidence.field("audit", "bounds_text")
    assert isinstance(found, Field)
    (row,) = found.rows
    assert row["epsilon at least"] == "0.499"
    assert row["largest lower bound that this audit could have found"] == "0.999"
    power = evidence.field("audit", "power_text")
    assert isinstance(power, Field)
    (row,) = power.rows
    claim = global_guarantee(epsilon=0.5, delta=1e-6)
    runs = runs_to_detect(claim, excess=1.0, level=0.05)
    assert runs is not None
    shown = int(row["true epsilon 100 % larger"].replace(",", ""))
    assert runs <= shown < 1.1 * runs


def test_a_question_stands_once_in_a_clause(counted: Files) -> None:
    """Four answers of a clause lack the same file."""
    dossier = counted.dossier("ico", audit=None)
    (clause,) = (one for one in dossier.clauses if one.clause.name == "The test and its result")
    assert [len(answer.missing) for answer in clause.answers] == [1, 1, 1, 1]
    assert [len(clause.missing(answer)) for answer in clause.answers] == [1, 0, 0, 0]


def test_an_answer_within_a_sentence_ends_with_one_mark(counted: Files) -> None:
    """Whether or not the person ended it with a full stop."""
    evidence = counted.evidence(ledger=None, audit=None)
    evidence.manifest["region"] = "not stated"
    gap = evidence.field("manifest", "region")
    assert isinstance(gap, Gap)
    texts = []
    for said in ("North.", "North"):
        made = make_dossier(evidence, "ico", answers={gap.question: said})
        (clause,) = (one for one in made.clauses if "period and region" in one.clause.name)
        texts.append(clause.answers[0].text)
    assert texts[0] == texts[1]
    assert texts[0].endswith("Region: North.")


def test_what_is_not_stated_is_a_blank(counted: Files) -> None:
    """The default text of a field answers nothing."""
    evidence = counted.evidence()
    evidence.manifest["curator"] = "not stated"
    found = evidence.field("manifest", "curator")
    assert isinstance(found, Gap)
    assert "curator" in found.question


def test_derived_fields_are_used_and_known() -> None:
    """No derived field without a clause, and no field of a source that is unknown."""
    named = set()
    for name in STANDARDS:
        standard = read_standard(name)
        clauses = (*standard.clauses, *standard.real_ids_clauses)
        answers = (text for one in clauses for text in one.answers)
        named |= {field for text in answers for field in fields_in(text)}
    assert set(DERIVED) <= named
    assert {source for source, _ in named} == {"manifest", "verify", "ledger", "audit"}


def test_what_was_recomputed_follows_from_the_tier(counted: Files) -> None:
    """The instance tier publishes charges alone: neither noise nor inferences are bounded."""
    evidence = counted.evidence()
    other = replace(evidence, manifest={**evidence.manifest, "variant": "instance"})
    replaced = f"epsilon {2.0 * float(evidence.manifest['guarantee']['epsilon']):g}"
    for path, says, says_instead in (
        ("draws", "with sensitivity", "not published"),
        ("recomputed_text", "two independent accountants", "cannot be checked"),
        ("inference_text", replaced, "No bound"),
    ):
        found = [one.field("manifest", path) for one in (evidence, other)]
        assert isinstance(found[0], Field)
        assert isinstance(found[1], Field)
        assert says in found[0].text
        assert says not in found[1].text
        assert says_instead in found[1].text


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
    """By question; those of another standard are no error, a question of none is refused."""
    standard = read_standard("ico")
    question = standard.questions[0]
    evidence = counted.evidence()
    made = make_dossier(evidence, "ico", answers={question: "Because."})
    assert len(made.open_questions) + 1 == len(standard.questions)
    other = read_standard("cpuc").questions[-2]
    assert other not in standard.questions
    assert make_dossier(evidence, "ico", answers={other: "x"}).open_questions == standard.questions
    with pytest.raises(InvalidParameterError, match="Why"):
        make_dossier(evidence, "ico", answers={"Why?": "x"})


def test_one_missing_field_does_not_blank_an_answer(counted: Files) -> None:
    """The rest of the sentence stands, the gap is marked and asked; an answer of a person fills it.

    The question is the same in every standard, so it is answered once.
    """
    evidence = counted.evidence()
    evidence.manifest["contact"] = "not stated"
    questions = set()
    for name in ("ico", "cpuc", "ofgem"):
        for said in (
            {},
            {"The manifest does not state the contact. What is it?": "desk@town.example"},
        ):
            made = make_dossier(evidence, name, answers=said)
            answer = next(
                answer
                for one in made.clauses
                for answer in one.answers
                if any(gap.name == "contact" for gap in answer.gaps)
            )
            questions |= {gap.question for gap in answer.gaps}
            assert bool(answer.missing) is not bool(said)
            if name != "ofgem":  # there the answer has no other field
                assert evidence.manifest["curator"] in answer.text
                assert ("desk@town.example" in answer.text) is bool(said)
                assert ("[missing: contact]" in answer.text) is not bool(said)
            filled = next(one for one in made.clauses if answer in one.answers).is_filled
            assert not filled  # a person is not a file
    assert len(questions) == 1


def test_a_person_may_answer_for_a_file(counted: Files) -> None:
    """Without an audit record, what a person states about tests stands in its place, as such."""
    gap = counted.evidence().absent("audit")
    made = make_dossier(
        counted.evidence(audit=None), "ico", answers={gap.question: "A walk-through in May."}
    )
    texts = [answer.text for one in made.clauses for answer in one.answers if answer.stated]
    assert texts
    assert set(texts) == {"A walk-through in May."}
    assert gap.question not in made.open_questions


def test_answers_from_optional_files_have_no_other_source() -> None:
    """So that a file that was not given takes away no evidence from another one."""
    for name in STANDARDS:
        for clause in read_standard(name).clauses:
            for text in clause.answers:
                sources = {source for source, _ in fields_in(text)}
                assert len(sources) == 1 or not sources & {"ledger", "audit"}, text


def test_long_lists_and_tables_are_set_apart(counted: Files) -> None:
    """Tables have the rows of the file; no paragraph is a list of more than a few lines."""
    made = counted.dossier("nist-800-226")
    blocks = [block for one in made.clauses for answer in one.answers for block in answer.blocks]
    manifest = json.loads((counted.bundle / "manifest.json").read_text())
    bias = next(block for block in blocks if "how it is known" in block.head)
    assert [row["quantity"] for row in bias.rows] == [one["quantity"] for one in manifest["bias"]]
    limits = next(
        block for block in blocks if manifest["known_limits"][0].rstrip(".") in block.items
    )
    assert len(limits.items) == len(manifest["known_limits"])
    assert not any(block.text.count("; ") > MAX_SEMICOLONS for block in blocks)
    assert all(len(row) == len(block.head) for block in blocks for row in block.cells())


def test_a_default_number_of_customers_is_named(counted: Files) -> None:
    """The check of delta says so where the estimate is the default, and only there."""
    manifest = counted.evidence().manifest
    delta_text = DERIVED["manifest", "delta_text"].compute
    default = {**manifest["request"], "customers": 1000}
    assert "default" not in delta_text(manifest)
    assert "default" in delta_text({**manifest, "request": default})
    assert "default" in delta_text({**manifest, "request": {**default, "delta": "0.01"}})


def test_the_released_error_of_a_mean_load_is_achieved(counted: Files) -> None:
    """From the bias section; blank if the release states none."""
    manifest = counted.evidence().manifest
    field = next(one for one in DERIVED.values() if "achieved" in one.cited)
    (noise,) = (one for one in manifest["bias"] if one["source"] == "privacy noise")
    (row,) = field.compute(manifest)
    assert float(row["achieved"].split()[0]) == pytest.approx(float(noise["value"]), rel=0.01)
    assert field.compute({**manifest, "bias": []})[0]["achieved"] == ""


@pytest.mark.parametrize("standard", STANDARDS)
def test_attacks_are_stated_once_with_what_the_guarantee_permits(
    counted: Files, standard: str
) -> None:
    """At epsilon = 0.5 the AUC is at most 1 - 1 / (1 + e^0.5) = 62.25 %, rounded up."""
    text = dossier_markdown(counted.dossier(standard))
    head = "largest value that the guarantee permits"
    assert text.count(f"| {head} |") == (standard != "nist-800-226")
    if standard != "nist-800-226":
        assert "| 51 % | 50 % | 62.3 % |" in text
        assert "is consistent with the guarantee" in text
