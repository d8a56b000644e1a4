"""The command line: exit codes, what it prints, and what it never prints."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from wattveil import cli
from wattveil.privacy.guarantee import Guarantee

RELEASED = {"mean_kw", "std_kw", "customers", "customers_std", "clip_kw", "clipped_share"} | {
    "clipped_share_std",
    "kinds",
    "kinds_std",
    "kinds_customers",
    "guarantee",
    "sentence",
    "spends",
}


def test_demo_shows_the_release_and_its_guarantee() -> None:
    """The demo walks from simulation to guarantee and draws the curve."""
    result = CliRunner().invoke(cli.app, ["demo", "--customers", "300"])
    assert result.exit_code == 0
    for words in (
        "Simulated",
        "Calibrated",
        "Released",
        "Guarantee",
        "differentially",
        "██",
        "░░",
        "▁",
        "±",
    ):
        assert words in result.output
    assert "number of customers" in result.output
    assert "0.00028 " in result.output  # rho of the count: 1 % of 0.0280144


def test_demo_json_holds_the_release_and_nothing_else() -> None:
    """`--json` is one JSON object with exactly the released fields; its guarantee reads back."""
    result = CliRunner().invoke(
        cli.app, ["demo", "--customers", "200", "--epsilon", "0.5", "--json"]
    )
    assert result.exit_code == 0
    released = json.loads(result.output)
    assert set(released) == RELEASED
    assert len(released["mean_kw"]) == len(released["std_kw"]) == 24
    assert all(std > 0.0 for std in released["std_kw"])
    guarantee = Guarantee.from_json(released["guarantee"])
    assert guarantee.delta == 2e-6
    assert 0.5 < guarantee.epsilon < 1.0  # of both releases: less than the sum
    assert np.shape(released["kinds"]) == np.shape(released["kinds_std"]) == (4, 24)
    assert released["sentence"] == guarantee.sentence
    assert [set(spend) for spend in released["spends"]] == [{"tag", "mechanism", "rho_units"}] * 21
    assert released["customers"] != 200  # the exact number is private


def test_demo_is_never_the_same_twice() -> None:
    """The customers are seeded, the noise is not."""
    command = ["demo", "--customers", "50", "--json"]
    first, second = (json.loads(CliRunner().invoke(cli.app, command).output) for _ in range(2))
    assert first["mean_kw"] != second["mean_kw"]
    assert first["customers"] != second["customers"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "-1"], "epsilon must be at least 1e-12 and at most 1e+06, got epsilon=-1.0"),
        (["--epsilon", "0"], "epsilon must be at least 1e-12 and at most 1e+06, got epsilon=0.0"),
        (["--epsilon", "nan"], "epsilon must be at least 1e-12 and at most 1e+06, got epsilon=nan"),
        (
            ["--customers", "0"],
            "Input should be greater than or equal to 1",
        ),
        (["--epsilon", "much"], "unable to parse string as a number"),
        (["--seed", "1"], "No such option: --seed"),
    ],
)
def test_bad_options_are_explained(arguments: list[str], words: str) -> None:
    """A bad option exits with 2 and says field, rule and value, without a traceback."""
    result = CliRunner().invoke(cli.app, ["demo", *arguments], terminal_width=200)
    assert result.exit_code == 2
    plain = " ".join(result.output.replace("│", " ").split())
    assert words in plain
    assert "Traceback" not in result.output


def test_a_crash_shows_no_local_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unforeseen error leaves as it is: no pretty traceback that would print private rows."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(cli, "load_shapes", broken)
    result = CliRunner().invoke(cli.app, ["demo", "--customers", "5"])
    assert result.exit_code == 1
    assert isinstance(result.exception, RuntimeError)
    assert "locals" not in result.output
    assert not cli.app.pretty_exceptions_enable


def test_command_exists_in_the_shell() -> None:
    """Run as a program without a verb, it prints its help."""
    code = "from wattveil.cli import app; app()"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "demo" in result.stdout + result.stderr


def test_chart_marks_the_curve_once_an_hour_and_its_band() -> None:
    """Each hour has one full cell at its mean and light cells where the band reaches."""
    mean, band = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.5, 0.5, 0.1, 0.0])
    *rows, axis, ticks = cli._chart(mean, band)
    cells = [row.split("│")[1] for row in rows]
    assert len(cells) == 12
    for hour in range(4):
        column = [row[2 * hour : 2 * hour + 2] for row in cells]
        assert column.count("██") == 1
    levels = [float(row.split("│")[0]) for row in rows]
    half_a_row = (levels[0] - levels[1]) / 2 + 0.005
    for hour, (centre, width) in enumerate(zip(mean, band, strict=True)):
        for level, row in zip(levels, cells, strict=True):
            cell = row[2 * hour : 2 * hour + 2]
            if cell == "██":
                assert abs(level - centre) <= half_a_row
            if cell == "░░":
                assert abs(level - centre) <= width + half_a_row
    assert axis.count("─") == 8
    assert ticks.split() == ["hour", "0", "3"]
