"""For schedulers: errors as JSON, exit codes, and the documented keys of results."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.sample_bundles import some_profiles
from wattveil.cli import app

REFERENCE = Path(__file__).parents[3] / "docs/reference/command-line.md"
RELEASE = ("release", "profiles.parquet", "--epsilon", "1", "--share", "clusters=0", "--yes")


def invoked(*arguments: str, code: int) -> Any:  # noqa: ANN401 - JSON
    """Return what a command prints on standard output."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def documented(command: str) -> set[str]:
    """Return the keys that the reference lists for a command."""
    (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", REFERENCE.read_text(), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row.partition(". ")[0]))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with profiles."""
    monkeypatch.chdir(tmp_path)
    some_profiles().write_parquet("profiles.parquet")


def test_a_bundle_that_exists_has_an_exit_code_of_its_own() -> None:
    """A job that ran before is not a mistake; nothing else is printed on standard output."""
    made = invoked(*RELEASE, code=0)
    assert made.keys() == documented("release")
    again = invoked(*RELEASE, code=3)
    assert again["error"] == "AlreadyExistsError"
    assert again["field"] == "--out"
    assert again["value"] == "bundle"
    verified = invoked("verify", "bundle", code=0)
    assert verified.keys() == documented("verify")
    planned = invoked(*RELEASE, "--plan", code=0)
    assert planned.keys() == documented("release --plan")
    assert any("--clip-kw is not given" in warning for warning in planned["warnings"])


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        (("release", "profiles.parquet", "--epsilon", "-1"), 2, "--epsilon"),
        (("release", "profiles.parquet", "--epsilon", "one"), 2, "--epsilon"),
        (("release", "profiles.parquet", "--no-such-option"), 2, None),
        (("release",), 2, "PROFILES"),
        (("verify", "nothing"), 1, "nothing, "),
    ],
    ids=["rule", "type", "unknown", "missing", "file"],
)
def test_every_error_is_a_json_object(
    arguments: tuple[str, ...], code: int, field: str | None
) -> None:
    """With the same keys, whoever finds the error; the message is also on standard error."""
    found = invoked(*arguments, code=code)
    assert found.keys() == {"error", "message", "field", "rule", "value"}
    assert found["message"]
    assert (found["field"] or "").startswith(field or "")
    assert CliRunner().invoke(app, arguments).stdout == ""


def test_keys_of_profiles_are_documented(tmp_path: Path) -> None:
    """The account of readings is nested."""
    simulated = ("simulate", "--customers", "5", "--days", "15", "--out", "r.parquet")
    assert invoked(*simulated, code=0).keys() == documented("simulate")
    command = ("profiles", "r.parquet", "--timezone", "Europe/London", "--out", str(tmp_path / "p"))
    assert invoked(*command, code=0).keys() == documented("profiles")
