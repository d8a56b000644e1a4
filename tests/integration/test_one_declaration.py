"""One declaration: a new field of `ReadOptions` or `ProfileRules` appears everywhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "wattveil"

FIELDS = {
    "readings/options.py": (
        "    skip_lines: Annotated[int, Field(strict=True, ge=0)] = 0\n",
        (
            "    voltage_level: Annotated[int, Field(strict=True, ge=1, le=3)] = 2\n"
            '    """Voltage level of the connection."""\n'
        ),
    ),
    "profiles/profiles.py": (
        "    min_days: Annotated[int, Field(strict=True, ge=1)] = 14\n",
        (
            "    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5\n"
            '    """Maximum share of estimated reads."""\n'
        ),
    ),
}
"""By file: the line before which a field is declared, and its declaration."""

USE = """
import inspect
import pickle
from datetime import datetime, timedelta
from pathlib import Path

from typer.testing import CliRunner

from wattveil import cli, profiles_from_readings, read_readings
from wattveil.engines.spark.executor import ReadingPlan
from wattveil.errors import InvalidParameterError
from wattveil.profiles.profiles import ProfileRules
from wattveil.readings import ReadOptions

starts = [datetime(2025, 1, 1) + timedelta(hours=hour) for hour in range(24 * 14)]
lines = ["customer_id,start_utc,kwh", *(f"a,{start.isoformat()}Z,0.5" for start in starts)]
Path("readings.csv").write_text("\\n".join(lines))

# Python: signature, documentation, values, errors
for function, name, text in (
    (read_readings, "voltage_level", "Voltage level of the connection."),
    (profiles_from_readings, "max_share", "Maximum share of estimated reads."),
):
    assert name in inspect.signature(function).parameters, name
    assert text in inspect.getdoc(function), text
readings = read_readings("readings.csv", voltage_level=3)
try:
    read_readings("readings.csv", voltage_level=4)
except InvalidParameterError as error:
    assert (error.field, error.value) == ("voltage_level", 4), error
else:
    raise AssertionError("4 was accepted")

# report and profiles
assert readings.report.to_json()["options"]["voltage_level"] == 3
profiles = profiles_from_readings(readings, max_share=0.25)
assert profiles.rules["readings"]["voltage_level"] == 3
assert profiles.rules["max_share"] == 0.25

# message to executors
rules = ProfileRules(max_share=0.25)
plan = ReadingPlan(
    rows=None, unit=None, lengths=(60,), options=readings.options, rules=rules, memory_mb=600
)
sent = pickle.loads(pickle.dumps(plan))
assert (sent.options.voltage_level, sent.rules.max_share) == (3, 0.25)

# command line: help, value, error
run = lambda *options: CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["profiles", *options])
shown = run("--help").output
assert "--voltage-level" in shown and "Maximum share of estimated reads." in shown, shown
given = ["readings.csv", "--out", "out.parquet", "--json", "--voltage-level"]
accepted = run(*given, "1")
assert accepted.exit_code == 0 and '"voltage_level": 1' in accepted.output, accepted.output
rejected = run(*given, "4")
assert rejected.exit_code == 2 and "at most 3" in rejected.output, rejected.output
"""


def test_a_field_that_is_declared_once_appears_everywhere(tmp_path: Path) -> None:
    """One line in a copy of the source: found in Python, report, Spark message and command line."""
    package = tmp_path / "src" / "wattveil"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (line, field) in FIELDS.items():
        text = (package / file).read_text(encoding="utf-8")
        assert line in text
        (package / file).write_text(text.replace(line, field + line), encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
