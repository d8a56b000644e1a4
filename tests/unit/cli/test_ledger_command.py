"""The commands of the ledger: exit codes, what they print, and a file that stands by itself."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.sample_ledgers import compute, order, populate
from wattveil.cli import app
from wattveil.server.ledger.fulfilment import BUNDLES_FOLDER, BundleStore, answer
from wattveil.server.ledger.ledger import Ledger


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the data folder of a server with one release."""
    with Ledger.open(tmp_path) as ledger:
        populate(ledger)
        answer(ledger, BundleStore(tmp_path / BUNDLES_FOLDER), order("a"), compute)
    return tmp_path


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run a command of the ledger; return its exit code and what it printed."""
    command = ["admin", "ledger", *map(str, arguments)]
    result = CliRunner().invoke(app, command, terminal_width=200)
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_a_sound_ledger_passes(data: Path) -> None:
    """Every check is listed, for people and as JSON."""
    code, output = run("audit", "--data", data)
    assert code == 0
    assert output.count("holds") == 11
    assert "BROKEN" not in output
    code, output = run("audit", "--data", data, "--json")
    assert code == 0
    said = json.loads(output)
    assert said["sound"] is True
    assert len(said["findings"]) == 11


def test_a_changed_payload_and_lost_entries_are_found(data: Path) -> None:
    """Bundles are compared with their stored hashes, and the high-water mark with the entries."""
    (table,) = data.glob(f"{BUNDLES_FOLDER}/*/table.csv")
    table.write_text("other numbers")
    heads = data / "ledger.heads"
    heads.write_text(heads.read_text().replace("1 5 ", "1 6 "))
    code, output = run("audit", "--data", data)
    assert code == 1
    assert "BROKEN every bundle has its stored hash" in output
    assert "BROKEN no recorded entry is lost: the database does not match this folder's" in output


def test_an_export_is_checked_without_the_database(data: Path) -> None:
    """The file has every entry; a line changed or cut off is found; it is never overwritten."""
    out = data / "ledger.jsonl"
    assert run("export", "--data", data, "--out", out) == (0, f"5 entries in {out}")
    assert run("audit", "--export", out)[0] == 0
    code, output = run("export", "--data", data, "--out", out)
    assert (code, "file exists" in output) == (1, True)
    lines = out.read_text().splitlines()
    forged = json.loads(lines[5])
    forged["rho"] -= 1
    for damaged in ([*lines[:5], json.dumps(forged)], lines[:5]):
        out.write_text("\n".join(damaged) + "\n")
        assert run("audit", "--export", out, "--json")[0] == 1


def test_what_is_no_export_is_explained(tmp_path: Path) -> None:
    """A wrong file is an error with its name, not a traceback."""
    wrong = tmp_path / "wrong.jsonl"
    for content in ("", "nonsense\n", '{"heads": {}}\n{"seq": 1}\n', "[]\n"):
        wrong.write_text(content)
        code, output = run("audit", "--export", wrong)
        assert code == 1
        assert "expected an export of a ledger" in output


def test_a_lost_file_of_heads_is_accepted_with_a_reason(data: Path) -> None:
    """What was left counts as spent, and the act is in the ledger."""
    (data / "ledger.heads").unlink()
    arguments = ("accept", "--data", data, "--by", "owner", "--reason", "moved to another disk")
    assert json.loads(run(*arguments, "--json")[1]) == {"journals": 1}
    assert run(*arguments)[1].startswith("Accepted: 0 journals")
    out = data / "ledger.jsonl"
    run("export", "--data", data, "--out", out)
    assert "moved to another disk" in out.read_text().splitlines()[-1]
    assert run("audit", "--data", data)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("audit", "--data", "nowhere"), 1, "--data: nowhere does not exist"),
        (
            ("audit", "--database", "postgresql://me:hunter2@host/name"),
            2,
            "database must be without a password",
        ),
        (
            ("audit", "--database", "postgresql://me@host/name?sslmode=require&password=hunter2"),
            2,
            "database must be without a password",
        ),
        (
            ("audit", "--database", "postgresql://me@host/name?sslpassword=hunter2"),
            2,
            "database must be without a password",
        ),
        (("audit", "--database", "mysql://host/name"), 2, "begins with postgresql://"),
        (("export",), 2, "--out is required: new file"),
    ],
)
def test_mistakes_are_explained(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """Field, rule and value, without a traceback and without a secret."""
    monkeypatch.chdir(tmp_path)
    found, output = run(*arguments)
    assert found == code
    assert words in output
    assert "hunter2" not in output
