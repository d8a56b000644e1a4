"""The command `dossier`: files for people and machines, and an exit code that warns."""

import html
import json
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import docx
import pytest
from typer.testing import CliRunner

from tests.unit.dossier.conftest import Files, audit_record, write_signed
from wattveil.bundle.keys import new_key, read_key, sign, signer
from wattveil.cli import app
from wattveil.dossier.clauses import read_standard, standard_names
from wattveil.dossier.dossier_document import (
    BLANK,
    FILES,
    VERIFICATION,
    dossier_markdown,
    dossier_page,
    read_answers,
)
from wattveil.errors import InvalidFileError
from wattveil.web.formatting import escape_markdown

WIDE = CliRunner(env={"COLUMNS": "250"})


def run(counted: Files, out: Path, *options: str | Path) -> tuple[int, str]:
    """Run the command with every file; return exit code and output."""
    given = ["--ledger", counted.ledger, "--audit", counted.audit, "--out", out]
    words = ["dossier", str(counted.bundle), *map(str, [*given, *options])]
    result = WIDE.invoke(app, words)
    return result.exit_code, result.output


def test_from_files_to_a_signed_dossier(counted: Files, tmp_path: Path) -> None:
    """First the open questions, then a dossier with a person's answers, signed."""
    first = tmp_path / "first"
    code, output = run(counted, first, "--standard", "ico")
    assert code == 0, output
    assert "Questions left for you: " in output
    assert "open: draft, not signed" in output
    assert "read, print, sign" not in output
    assert {one.name for one in first.iterdir()} == {*FILES, "answers.toml"}
    questions = tomllib.loads((first / "answers.toml").read_text())
    assert set(questions.values()) == {""}
    code, output = run(counted, tmp_path / "no", "--standard", "ico", "--sign", counted.key)
    assert code == 2
    assert f"Cannot sign: {len(questions)} questions are open." in output
    assert "answers.toml" in output
    assert not (tmp_path / "no").exists()
    filled = tmp_path / "filled.toml"
    said = 'Yes: see "file 7" \\ annex'
    lines = [f"{json.dumps(name)} = {json.dumps(said)}" for name in questions]
    filled.write_text("\n".join(lines))
    public = counted.key.with_name("utility.key.pub")
    more: list[str | Path] = ["--answers", filled, "--sign", counted.key, "--key", public, "--json"]
    code, output = run(counted, tmp_path / "second", "--standard", "ico", *more)
    assert code == 0, output
    record = json.loads((tmp_path / "second/dossier.json").read_text())
    assert record["open_questions"] == 0
    assert record["visibility"] == "internal"
    assert signer(record, record["signature"]) == read_key(counted.key).public_key()
    assert json.loads(output)["clauses"] == record["clauses"]
    assert escape_markdown(said) in (tmp_path / "second/dossier.md").read_text()
    assert {one.stat().st_mode & 0o777 for one in (tmp_path / "second").iterdir()} == {0o600}
    assert tomllib.loads((tmp_path / "second/answers.toml").read_text()) == dict.fromkeys(
        questions, said
    )


def test_an_inconclusive_audit_is_signed_with_a_reason_only(counted: Files, tmp_path: Path) -> None:
    """The reason stands in the documents; it is of no use without a signature."""
    weak = tmp_path / "audit.json"
    audits = [{**audit_record()["audits"][0], "verdict": "inconclusive"}]  # type: ignore[index]
    write_signed(weak, audit_record(audits=audits), counted.key)
    files = replace(counted, audit=weak)
    options: list[str | Path] = ["--standard", "ico"]
    assert run(files, tmp_path / "first", *options)[0] == 0
    answers = tmp_path / "filled.toml"
    asked = tomllib.loads((tmp_path / "first/answers.toml").read_text())
    answers.write_text("\n".join(f'{json.dumps(name)} = "as recorded"' for name in asked))
    options += ["--answers", answers, "--sign", counted.key]
    code, output = run(files, tmp_path / "second", *options)
    assert code == 2
    assert "--inconclusive-reason must state the reason" in output
    assert not (tmp_path / "second").exists()
    reason = ["--inconclusive-reason", "Repeated next month."]
    code, output = run(files, tmp_path / "third", *options, *reason)
    assert code == 0, output
    for name in FILES:
        assert "because: Repeated next month." in (tmp_path / "third" / name).read_text()
    code, output = run(files, tmp_path / "fourth", "--standard", "ico", *reason)
    assert code == 2
    assert "a text, given with --sign" in output


def test_a_missing_audit_is_signed_with_a_reason_only(counted: Files, tmp_path: Path) -> None:
    """No audit is not easier to sign than a weak one."""
    words = ["dossier", counted.bundle, "--standard", "cpuc", "--ledger", counted.ledger]
    first = tmp_path / "first"
    assert WIDE.invoke(app, [*map(str, words), "--out", str(first)]).exit_code == 0
    answers = tmp_path / "filled.toml"
    asked = tomllib.loads((first / "answers.toml").read_text())
    answers.write_text("\n".join(f'{json.dumps(name)} = "as recorded"' for name in asked))
    words += ["--answers", answers, "--sign", counted.key, "--out", tmp_path / "second"]
    done = WIDE.invoke(app, [*map(str, words)])
    assert done.exit_code == 2
    assert "--inconclusive-reason must state the reason" in done.output
    assert "There is no record of attacks and audits" in done.output
    done = WIDE.invoke(app, [*map(str, words), "--inconclusive-reason", "Planned for May."])
    assert done.exit_code == 0, done.output
    assert "because: Planned for May." in (tmp_path / "second/dossier.md").read_text()


def test_several_standards_share_one_file_of_answers(counted: Files, tmp_path: Path) -> None:
    """A folder each; a question of two standards is asked once, and answers to others are kept."""
    out, names = tmp_path / "both", ("nist-800-226", "ofgem")
    options = [word for name in names for word in ("--standard", name)]
    code, output = run(counted, out, *options, "--json")
    assert code == 0, output
    assert [one["standard"] for one in json.loads(output)] == list(names)
    assert {one.name for one in out.iterdir()} == {*names, "answers.toml"}
    for name in names:
        assert {one.name for one in (out / name).iterdir()} == set(FILES)
    asked = tomllib.loads((out / "answers.toml").read_text())
    assert set(asked) == {question for name in names for question in read_standard(name).questions}
    filled = tmp_path / "filled.toml"
    filled.write_text("\n".join(f'{json.dumps(name)} = "as recorded"' for name in asked))
    code, output = run(counted, tmp_path / "one", "--standard", "ico", "--answers", filled)
    assert code == 0, output
    kept = tomllib.loads((tmp_path / "one/answers.toml").read_text())
    assert asked.keys() <= kept.keys()
    shared = asked.keys() & set(read_standard("ico").questions)
    assert shared
    record = json.loads((tmp_path / "one/dossier.json").read_text())
    said = {name: text for one in record["clauses"] for name, text in one["questions"].items()}
    assert {said[name] for name in shared} == {"as recorded"}


def test_missing_parts_are_asked(counted: Files, tmp_path: Path) -> None:
    """What the files lack is in answers.toml, and stands in the document once it is filled in."""
    out = tmp_path / "draft"
    words = ["dossier", str(counted.bundle), "--standard", "ico", "--out"]
    assert WIDE.invoke(app, [*words, str(out)]).exit_code == 0
    asked = tomllib.loads((out / "answers.toml").read_text())
    (question,) = (name for name in asked if name.startswith("No audit record"))
    filled = tmp_path / "filled.toml"
    filled.write_text(f"{json.dumps(question)} = 'Tested by hand'\n")
    final = tmp_path / "final"
    assert WIDE.invoke(app, [*words, str(final), "--answers", str(filled)]).exit_code == 0
    assert "Tested by hand" in (final / "dossier.html").read_text()
    assert "stated by a person" in (final / "dossier.md").read_text()
    assert question not in (final / "dossier.html").read_text()


def test_an_aggregation_standard_without_a_rule_is_a_warning(counted: Files) -> None:
    """Of the US rules alone."""
    for name, warns in (("cpuc", True), ("ofgem", False)):
        texts = [one.text for one in counted.dossier(name).conflicts if one.is_warning]
        assert any("--rule" in text for text in texts) is warns


def test_conflicts_are_red_and_end_with_1(counted: Files, tmp_path: Path) -> None:
    """Without the audit's signature: shown in every document, and the exit code is 1."""
    unsigned = tmp_path / "audit.json"
    record = json.loads(counted.audit.read_text())
    del record["signature"]
    unsigned.write_text(json.dumps(record))
    out = tmp_path / "dossier"
    words = ["dossier", str(counted.bundle), "--standard", "ofgem", "--out", str(out)]
    result = WIDE.invoke(app, [*words, "--audit", str(unsigned)])
    assert result.exit_code == 1
    assert "conflict" in result.output
    assert "not to be signed" in result.output
    assert "read, print, sign" not in result.output
    signed = [*words[:-1], str(tmp_path / "signed"), "--audit", str(unsigned)]
    refused = WIDE.invoke(app, [*signed, "--sign", str(counted.key)])
    assert refused.exit_code == 2
    lines = refused.output.splitlines()  # every obstacle at once, one per line
    assert any(line.startswith("- Conflict: The audit record is not signed") for line in lines)
    assert any(line.startswith("- ") and "questions are open" in line for line in lines)
    assert "obstacles, listed above" in refused.output
    assert not (tmp_path / "signed").exists()
    page, text = (out / "dossier.html").read_text(), (out / "dossier.md").read_text()
    assert '<b class="fail">CONFLICT</b>' in page
    assert '<b class="warn">WARNING</b>' in page
    assert "**CONFLICT**: The audit record is not signed" in text
    assert json.loads((out / "dossier.json").read_text())["conflicts"]


def test_documents_escape_what_files_say(counted: Files) -> None:
    """A title of a release is text, not markup; a public dossier has no banner."""
    made = counted.dossier(ledger=None, audit=None)
    made.evidence.manifest["title"] = "<script>alert(1)</script> [a](b)"
    page = dossier_page(made)
    assert "<script>" not in page
    assert "# Dossier: &lt;script&gt;alert(1)&lt;/script&gt; \\[a\\](b)\n" in dossier_markdown(made)
    assert "INTERNAL" not in page
    assert "INTERNAL" in dossier_markdown(counted.dossier())
    assert "The files agree" in dossier_page(counted.dossier())
    assert "None." in dossier_markdown(counted.dossier())


@pytest.mark.parametrize("standard", standard_names())
def test_no_document_shows_backticks(counted: Files, standard: str) -> None:
    """Texts of the command line mark commands by them; a page or a printed document does not."""
    for made in (counted.dossier(standard), counted.dossier(standard, ledger=None, audit=None)):
        assert "`" not in dossier_page(made)
        assert "`" not in dossier_markdown(made)


def test_what_is_not_surely_public_is_internal(
    counted: Files, record_file: Callable[..., Path], tmp_path: Path
) -> None:
    """Public is a signed public record of simulated homes, without a ledger; nothing else."""
    public = {"visibility": "public", "customers": "simulated"}
    unsigned, forged = tmp_path / "unsigned.json", tmp_path / "forged.json"
    unsigned.write_text(json.dumps(audit_record(**public)))
    record = audit_record(**public)
    forged.write_text(json.dumps({**record, "signature": sign(record, new_key())}))
    for reason, audit in (
        ("real customers", {"visibility": "Internal"}),
        ("real customers", {"visibility": "public"}),
        ("not marked public", {**public, "visibility": "Internal"}),
        ("did not sign", unsigned),
        ("did not sign", forged),
    ):
        path = audit if isinstance(audit, Path) else record_file(**audit)
        made = counted.dossier(ledger=None, audit=path)
        assert made.to_json()["visibility"] == "internal"
        (banner,) = made.banners
        assert reason in banner
        assert banner in dossier_page(made)
        assert banner in dossier_markdown(made)
    assert counted.dossier(audit=None).internal_because == ("states caps and entries of a ledger",)
    made = counted.dossier(ledger=None, audit=record_file(**public))
    assert made.to_json()["visibility"] == "public"
    assert "INTERNAL" not in dossier_page(made)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--standard", "hipaa"], "--standard must be"),
        (["--standard", "ico", "--out", "."], "--out must be a new folder"),
        (["--standard", "ico", "--answers", "answers.toml"], "answers.toml"),
        (["--standard", "ico", "--audit", "none.json"], "none.json"),
    ],
)
def test_bad_input_is_named(counted: Files, options: list[str], says: str) -> None:
    """Option, rule and value."""
    result = WIDE.invoke(app, ["dossier", str(counted.bundle), *options])
    assert result.exit_code in {1, 2}
    assert says in result.output


@pytest.mark.parametrize("text", ["no toml", '"a question" = 3'])
def test_answers_are_texts(tmp_path: Path, text: str) -> None:
    """A file that is no TOML, and an answer that is no text."""
    path = tmp_path / "answers.toml"
    path.write_text(text)
    with pytest.raises(InvalidFileError, match=r"answers\.toml"):
        read_answers(path)


def test_a_word_document_says_the_same(counted: Files, tmp_path: Path) -> None:
    """Every clause, answer, source and blank of the Markdown text is in it, and the red banner."""
    out = tmp_path / "dossier"
    code, output = run(counted, out, "--standard", "nist-800-226", "--docx")
    assert code == 0, output
    document = docx.Document(str(out / "dossier.docx"))
    marks = re.compile(r"^(#+ |\* )|\*+")
    text = html.unescape(re.sub(r"\\([\\`*\[\]|])", r"\1", (out / "dossier.md").read_text()))
    lines = [marks.sub("", line) for line in text.splitlines() if not line.startswith("|")]
    paragraphs = {marks.sub("", one.text) for one in document.paragraphs}
    *tables, sign_off = document.tables
    written = paragraphs | {f"{row.cells[0].text}: {BLANK}" for row in sign_off.rows}
    assert {line for line in lines if line} - {VERIFICATION} <= written
    assert any("not this document" in one for one in paragraphs), "it may be edited"
    rows = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    cells = [" | ".join(cell.text for cell in row.cells) for one in tables for row in one.rows]
    assert rows
    assert rows == [f"| {row} |" for row in cells]
    banner = next(one for one in document.paragraphs if one.text.startswith("INTERNAL"))
    assert str(banner.runs[0].font.color.rgb) == "B00020"


def test_word_is_an_extra(counted: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package the command names the extra, and writes nothing."""
    monkeypatch.setitem(sys.modules, "docx", None)
    code, output = run(counted, tmp_path / "dossier", "--standard", "ico", "--docx")
    assert code == 1
    assert "wattveil[word]" in output
    assert not (tmp_path / "dossier").exists()
