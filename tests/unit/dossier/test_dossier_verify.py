"""`wattveil verify` of a signed dossier: whose signature, which files, which release."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.dossier.conftest import Files
from wattveil.bundle.keys import read_key, sign, write_key
from wattveil.cli import app
from wattveil.dossier.dossier_document import make_dossier, write_dossiers
from wattveil.dossier.dossier_verify import RECORD, verify_dossier
from wattveil.errors import InvalidFileError

WIDE = CliRunner(env={"COLUMNS": "250"})
STANDARDS = ("ico", "ofgem")


def written(counted: Files, out: Path, *standards: str, signed: bool = True) -> Path:
    """Write dossiers whose questions are answered, signed with the key of the release."""
    evidence = counted.evidence()
    drafts = [make_dossier(evidence, name, answers={}) for name in standards]
    answers = {question: "As recorded." for one in drafts for question in one.open_questions}
    made = [make_dossier(evidence, name, answers=answers) for name in standards]
    key = read_key(counted.key) if signed else None
    write_dossiers(made, out, answers=answers, key=key)
    return out


@pytest.fixture(scope="session")
def dossiers(counted: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dossiers of two standards. Do not change it."""
    return written(counted, tmp_path_factory.mktemp("signed") / "dossiers", *STANDARDS)


def test_signed_dossiers_are_accepted(counted: Files, dossiers: Path) -> None:
    """All standards of a folder, one of them, or its signed file; with key and bundle if given."""
    trusted = read_key(counted.key).public_key()
    for path, number in ((dossiers, 2), (dossiers / "ico", 1), (dossiers / "ico" / RECORD, 1)):
        verdict = verify_dossier(path, trusted=trusted, bundle=counted.bundle)
        assert verdict.accepted, verdict.findings
        assert len(verdict.findings) == 4 * number
        assert not verdict.not_run
        assert not any("--key" in line for line in verdict.not_proved)
    verdict = verify_dossier(dossiers)
    assert verdict.accepted
    assert len(verdict.findings) == 3 * 2
    assert any("--bundle" in one.remedy for one in verdict.not_run)
    assert any("--key" in line for line in verdict.not_proved)


def change_answer(folder: Path) -> None:
    """Change what a person has stated."""
    path = folder / RECORD
    path.write_text(path.read_text().replace("As recorded.", "As approved.", 1))


def change_page(folder: Path) -> None:
    """Change the page, which is what people read."""
    path = folder / "dossier.html"
    path.write_text(path.read_text().replace("As recorded.", "As approved.", 1))


def lose_text(folder: Path) -> None:
    """Delete the text."""
    (folder / "dossier.md").unlink()


def break_signature(folder: Path) -> None:
    """State a signature that has other fields."""
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps({**record, "signature": {"by": "me"}}))


@pytest.mark.parametrize(
    ("change", "check", "seen"),
    [
        (change_answer, "the signature", "false: dossier.json was changed"),
        (change_page, "the files are those that were signed", "dossier.html was changed"),
        (lose_text, "the files are those that were signed", "dossier.md is missing"),
        (break_signature, "the signature", "false"),
    ],
)
def test_a_changed_dossier_is_rejected(
    dossiers: Path, tmp_path: Path, change: Callable[[Path], None], check: str, seen: str
) -> None:
    """Whatever was changed after the signature, and the file that was changed is named."""
    folder = tmp_path / "ico"
    shutil.copytree(dossiers / "ico", folder)
    change(folder)
    (failed,) = (one for one in verify_dossier(folder).findings if not one.holds)
    assert failed.check == check
    assert failed.seen.startswith(seen)


def test_a_signature_does_not_make_a_draft_complete(counted: Files, tmp_path: Path) -> None:
    """Open questions are found even if the signature is true."""
    draft = make_dossier(counted.evidence(), "ico", answers={})
    write_dossiers([draft], tmp_path / "draft", answers={}, key=read_key(counted.key))
    (failed,) = (one for one in verify_dossier(tmp_path / "draft").findings if not one.holds)
    assert failed.check == "the dossier is complete"
    assert failed.seen == f"open questions: {len(draft.open_questions)}"


def test_another_key_release_or_version_is_rejected(
    counted: Files, dossiers: Path, tmp_path: Path
) -> None:
    """A draft too: it has no signature."""
    write_key(tmp_path / "other.key")
    other = read_key(tmp_path / "other.key")
    (failed,) = verify_dossier(dossiers / "ico", trusted=other.public_key()).findings
    assert failed.seen.endswith("not by the one given")
    drafted = written(counted, tmp_path / "unsigned", "ico", signed=False)
    (failed,) = verify_dossier(drafted).findings
    assert "made without --sign" in failed.seen
    bundle = tmp_path / "bundle"
    shutil.copytree(counted.bundle, bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps({**manifest, "title": "Another"}))
    *_, failed = verify_dossier(dossiers / "ico", bundle=bundle).findings
    assert (failed.check, failed.holds) == ("the dossier is about this release", False)
    record = json.loads((dossiers / "ico" / RECORD).read_text())
    del record["signature"]
    record["dossier_version"] = "2"
    (drafted / RECORD).write_text(json.dumps({**record, "signature": sign(record, other)}))
    with pytest.raises(InvalidFileError, match="make the dossier again"):
        verify_dossier(drafted)
    (drafted / RECORD).write_text("{")
    with pytest.raises(InvalidFileError, match="JSON of `wattveil dossier`"):
        verify_dossier(drafted)
    with pytest.raises(InvalidFileError, match="a folder of `wattveil dossier`"):
        verify_dossier(tmp_path / "nothing")


def test_the_command_recognises_dossiers(counted: Files, dossiers: Path) -> None:
    """Exit codes as for a bundle; --bundle is for dossiers only."""
    public = str(counted.key.with_name("utility.key.pub"))
    words = ["verify", str(dossiers), "--key", public, "--bundle", str(counted.bundle)]
    result = WIDE.invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "Signed dossier" in result.output
    assert "All 8 checks passed" in result.output
    result = WIDE.invoke(app, ["verify", str(counted.bundle), "--bundle", str(counted.bundle)])
    assert (result.exit_code, "with a dossier only" in result.output) == (2, True)
