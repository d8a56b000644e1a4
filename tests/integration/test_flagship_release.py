"""The flagship release of the examples has the manifest that is kept beside it."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.sample_bundles import simulate_plans_once, walk_few_steps
from wattveil.cli import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "flagship-release"
SMALLER = {"${CUSTOMERS:-5300}": "60", "${DAYS:-56}": "21"}


def commands(folder: Path) -> list[list[str]]:
    """Return the commands of the script, for a smaller release in a folder."""
    text = (EXAMPLE / "make_release.sh").read_text().replace("\\\n", " ")
    for variable, value in {**SMALLER, "$folder": str(folder)}.items():
        assert variable in text
        text = text.replace(variable, value)
    return [shlex.split(line)[1:] for line in re.findall(r"^wattveil .*$", text, re.MULTILINE)]


def test_the_manifest_is_the_expected_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that depends neither on the noise, the day nor the key is equal."""
    walk_few_steps(monkeypatch)
    simulate_plans_once(monkeypatch)
    for command in commands(tmp_path):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    expected = json.loads((EXAMPLE / "expected_manifest.json").read_text())
    found = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    products = zip(found["products"], expected["products"], strict=True)
    found["products"] = [{name: one[name] for name in wanted} for one, wanted in products]
    found["implementation"] = {
        key: found["implementation"][key] for key in expected["implementation"]
    }
    assert {key: found[key] for key in expected} == expected
    assert found["guarantee"]["epsilon"] == "2.0"
    assert (tmp_path / "metadata" / "registry.yaml").exists()
