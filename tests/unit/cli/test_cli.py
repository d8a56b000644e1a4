"""The command line: exit codes, what it prints, and what it never prints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

from tests.sample_bundles import without_plan_simulation
from tools.reference.command_line import commands
from wattveil import cli
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.cli import demo
from wattveil.web.formatting import sparkline


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


def test_demo_writes_a_verified_bundle() -> None:
    """The demo prints its five steps and the ground truth, and writes a self-contained bundle."""
    with without_plan_simulation():
        result = CliRunner().invoke(cli.app, ["demo", "--customers", "150"])
    assert result.exit_code == 0, result.output
    for words in ("1. Simulated 150", "2. Planned", "3. Released", "4. Drew", "5. Verified"):
        assert words in result.output
    for words in (
        "checks passed",
        "for 1,000 customers of about",
        "differentially",
        "▁",
        "±",
        "ground truth (simulation only)",
        "hour of the peak",
        "Segment 0 · ",
        "(may be noise)",  # 150 customers are too few for six segments
        "report.html",
    ):
        assert words in result.output
    assert [path.name for path in Path().iterdir()] == ["wattveil-demo"]
    assert verify_bundle(Path("wattveil-demo")).accepted


def test_demo_json_and_a_second_demo() -> None:
    """`--json` is one object; a second demo replaces the first, and differs from it."""
    with without_plan_simulation():
        command = ["demo", "--customers", "60", "--epsilon", "0.5", "--json", "--out", "here"]
        outcomes, releases = [], []
        for _ in range(2):
            outcomes.append(json.loads(CliRunner().invoke(cli.app, command).stdout))
            releases.append(read_manifest(Path("here"))["release_id"])
    first, second = outcomes
    assert set(first) == {"out", "sentence", "accepted", "comparison"}
    assert first["accepted"] is True
    assert "(0.5, 1e-06)-differentially private" in first["sentence"]
    assert releases[0] != releases[1]
    truths = {one["comparison"][0]["truth"] for one in outcomes}
    assert truths == {"60"}  # customers are seeded
    assert first["comparison"] != second["comparison"]  # noise is not


def test_demo_removes_nothing_but_demos() -> None:
    """A folder that is no bundle is refused, and stays."""
    Path("mine").mkdir()
    Path("mine", "thesis.txt").write_text("years of work")
    result = CliRunner().invoke(cli.app, ["demo", "--out", "mine"])
    assert result.exit_code == 2
    assert Path("mine", "thesis.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--epsilon", "-1"],
            "--epsilon must be a number above 0, where 1 or less is considered strong",
        ),
        (["--epsilon", "0"], "(at least 1e-12 and at most 1e+06); got 0."),
        (["--epsilon", "nan"], "(at least 1e-12 and at most 1e+06); got nan."),
        (
            ["--customers", "0"],
            "--customers must be at least 1; got 0",
        ),
        (["--epsilon", "much"], "--epsilon must be a number; got much"),
        (["--seed", "1"], "No such option: --seed"),
    ],
)
def test_bad_options_are_explained(arguments: list[str], words: str) -> None:
    """A bad option exits with 2 and names field, rule and value, without a traceback."""
    result = CliRunner().invoke(cli.app, ["demo", *arguments], terminal_width=200)
    assert result.exit_code == 2
    plain = " ".join(result.output.replace("│", " ").split())
    assert words in plain
    assert "Traceback" not in result.output


def test_a_crash_shows_no_local_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unforeseen error leaves as it is: no pretty traceback that would print private rows."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(demo, "write_readings", broken)
    result = CliRunner().invoke(cli.app, ["demo", "--customers", "5"])
    assert result.exit_code == 1
    assert isinstance(result.exception, RuntimeError)
    assert "locals" not in result.output
    assert not cli.app.pretty_exceptions_enable
    assert not cli.admin_app.pretty_exceptions_enable


def test_an_interrupt_prints_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: the exit code that shells expect, and no traceback."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "write_readings", interrupted)
    result = CliRunner().invoke(cli.app, ["demo", "--customers", "5"])
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "Interrupted."
    assert "Traceback" not in result.output


def test_a_curve_in_one_line() -> None:
    """From its minimum to its maximum, also if they are equal."""
    assert sparkline(np.array([0.0, 1.0, 7.0, 3.0])) == "▁▂█▄"
    assert sparkline(np.ones(3)) == "▁▁▁"


def ungrouped(command: Any) -> list[str]:  # noqa: ANN401 - Typer's own
    """Return the options in the first panel of `--help`."""
    options = [one for one in command.params if one.param_type_name == "option"]
    return [one.opts[0] for one in options if one.rich_help_panel is None and one.name != "help"]


def test_options_are_in_groups_with_the_common_ones_first() -> None:
    """At most eight options have no group; reports have one option in all commands."""
    found = dict(commands(cli.app))
    common = ["--epsilon", "--delta", "--clusters", "--clip-kw", "--out", "--plan"]
    assert ungrouped(found["wattveil release"]) == common
    assert not {name: many for name, one in found.items() if len(many := ungrouped(one)) > 8}
    typed = [
        option for one in found.values() for parameter in one.params for option in parameter.opts
    ]
    assert "--report" in typed
    assert "--page" not in typed
    assert not any("verb" in (one.help or "").lower().split() for one in found.values())


def test_output_in_a_pipe_is_plain() -> None:
    """No colours and no progress where there is no terminal, and lines of errors are whole."""
    for arguments in (["demo", "--epsilon", "0"], ["release", "--help"], ["verify", "nowhere"]):
        result = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "40"})
        assert "\x1b" not in result.output
        assert all(line.endswith((".", "--help")) for line in result.stderr.splitlines())


@pytest.mark.parametrize("group", [cli.app, cli.admin_app])
def test_every_listed_command_exists(group: Typer) -> None:
    """The module of each command has its function, its help and an example."""
    for one in group.registered_commands:
        names = ["admin"] if group is cli.admin_app else []
        result = CliRunner().invoke(cli.app, [*names, str(one.name), "--help"])
        assert result.exit_code == 0, result.output
        words = " ".join(["Example: wattveil", *names, str(one.name)])
        assert words in " ".join(result.output.split())
        assert one.short_help
        assert one.short_help.endswith(".")


@pytest.mark.parametrize("command", [[], ["release"], ["verify"], ["series"], ["series", "add"]])
def test_help_shows_no_value_for_flags(command: list[str]) -> None:
    """`--yes` takes none; options that take one state its type."""
    result = CliRunner().invoke(cli.app, [*command, "--help"], terminal_width=120)
    assert result.exit_code == 0
    assert "<bool>" not in result.output
    assert "--help" in result.output
    assert ("<path>" in result.output) == (command not in ([], ["series"]))
