"""The command `wattveil grid`: table, JSON, page and rejected input."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattveil.arrays import Floats
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.customer_files import FORMATS, group_mismatch, write_customers
from wattveil.bundle.drawn_customers import Drawn
from wattveil.cli import app, evaluate
from wattveil.grid.planning_summary import compared
from wattveil.profiles import Profiles, TimeGrid
from wattveil.terminal import Console

QUICK = ["--feeder", "ieee123", "--houses", "150", "--redraws", "20"]


@pytest.fixture
def files(
    tmp_path: Path,
    homes_kw: Floats,
    home_classes: tuple[str, ...],
    named_profiles: Callable[..., Profiles],
) -> list[str]:
    """Return the paths of real and of synthetic profiles."""
    paths = [str(tmp_path / name) for name in ("profiles.parquet", "synthetic.parquet")]
    named_profiles(homes_kw, "real", home_classes).write_parquet(paths[0])
    named_profiles(1.5 * homes_kw, "made", home_classes).write_parquet(paths[1])
    return paths


def test_table_and_page(files: list[str], tmp_path: Path) -> None:
    """The command prints one table with verdicts and writes a self-contained page."""
    report = tmp_path / "grid.html"
    result = CliRunner().invoke(
        app,
        ["grid", *files, *QUICK, "--by", "class", "--report", str(report)],
        env={"COLUMNS": "80"},
    )
    assert result.exit_code == 0, result.output
    assert "…" not in result.output  # nothing is cut off, on a terminal of the usual width
    rows = [line for line in result.output.splitlines() if "  " in line.strip()]  # no sentences
    assert all(len(line) <= 80 for line in rows)
    assert "classes; total variation of the class mixes: 0.000" in result.output
    for words in ("150 houses on 123 buses", "A1 voltage", "detected", "Private"):
        assert words in result.output
    summary = result.output.partition("All metrics")[0]
    for words in ("Margin ±5 %", "peak load", "different", "Neither covers the noise"):
        assert words in " ".join(summary.split())
    assert "Zero for both real and synthetic customers: A2 readings" in " ".join(
        result.output.split()
    )
    said = " ".join(result.output.split())
    hidden = int(said.partition(" more metric")[0].rpartition(" ")[2])
    page = report.read_text()
    assert page.count("inconclusive (no power)</td>") == hidden > 0  # the page keeps them
    assert "A3 losses" in page
    assert "INTERNAL: exact figures" in page
    for title in ("Voltage magnitude", "Voltage angle", "along the feeder", "After-diversity"):
        assert title in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", page)
    assert "A3 losses" in page


def test_verdicts_are_not_cut_at_80_columns() -> None:
    """Beside wide numbers, which took the room of the verdict; a wide terminal has one line."""
    row = compared(
        "transformer peak loading", "% of rating", (100.0, 207.6), (-2.007, 2.146), margin=0.05
    )
    for width, one_line in ((80, False), (150, True)):
        written = StringIO()
        console = Console(width=width, file=written, force_terminal=True, color_system=None)
        evaluate._show_summary(console, [row], 0.05, "")
        told = written.getvalue()
        assert "inconclusive" in told
        assert ("+107.6 % (-200.7 to +214.6)" in told) is one_line
        assert max(map(len, told.splitlines())) <= width


def test_json(files: list[str]) -> None:
    """`--json` prints the rows and nothing else."""
    result = CliRunner().invoke(app, ["grid", *files, *QUICK, "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["private"], said["feeder"]) == (True, "ieee123")
    assert said["houses"] == 150
    assert said["classes"] == ["all"]
    verdicts = {row["metric"]: row["verdict"] for row in said["metrics"]}
    assert verdicts["A5 peak"] == "difference detected"
    assert "% of the nominal load" in said["warning"]  # 150 houses
    assert "Highest voltage" in said["notes"][-1]
    peak = said["summary"][0]
    assert (peak["quantity"], peak["equivalence"]) == ("peak load", "different")
    assert peak["difference"] == pytest.approx(0.5, abs=0.15)  # every load is 1.5 times as large


def test_a_collapse_is_shown(files: list[str], tmp_path: Path) -> None:
    """Hours without solution are named in the table and on the page, which is still drawn."""
    real = Profiles.read_parquet(files[0])
    Profiles(
        customer_ids=real.customer_ids,
        load_kw=np.where(np.arange(24) == 18, 40_000.0, 1.0) * real.load_kw,
        grid=real.grid,
        timezone=real.timezone,
    ).write_parquet(files[1])
    report = tmp_path / "grid.html"
    arguments = ["grid", *files, *QUICK, "--report", str(report)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "no solution for the synthetic customers at 18:00" in result.output
    assert "∞" in result.output
    assert "<li>18:00: " in report.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--feeder", "nowhere"], 2, "--feeder must be one of: case141, ieee123"),
        (["--redraws", "3"], 2, "redraws must be a whole number of at least 20"),
        (["--report", "no/such/folder/page.html"], 2, "report must be a file in a folder"),
        (["--by", "zip"], 2, "by must be an attribute of the real customers"),
    ],
)
def test_bad_options_are_explained(
    files: list[str], arguments: list[str], status: int, words: str
) -> None:
    """A bad option exits with its status and names field, rule and value."""
    result = CliRunner().invoke(app, ["grid", *files, *arguments], terminal_width=200)
    assert result.exit_code == status
    assert words in " ".join(result.output.replace("│", " ").split())


def test_synthetic_customers_without_the_class_are_explained(
    files: list[str], homes_kw: Floats, named_profiles: Callable[..., Profiles]
) -> None:
    """Those of `synthesize` have no class: the message says how to get one, or to omit it."""
    named_profiles(homes_kw, "made").write_parquet(files[1])
    result = CliRunner().invoke(app, ["grid", *files, "--by", "class"], terminal_width=400)
    assert result.exit_code == 2
    for words in ("--by must be an attribute of the synthetic", "omit it", "release of that class"):
        assert words in " ".join(result.output.split())


def test_swapped_files_are_refused(files: list[str], whole: Path, tmp_path: Path) -> None:
    """Customers of a release in the place of real ones; both files are named."""
    drawn = tmp_path / "drawn.parquet"
    write_customers(whole, drawn, customers=50, seed=1)
    for command in ("grid", "evaluate"):
        result = CliRunner().invoke(app, [command, str(drawn), files[0]], env={"COLUMNS": "300"})
        assert result.exit_code == 2
        for words in ("drawn.parquet", "profiles.parquet", read_manifest(whole)["release_id"]):
            assert words in result.output


def test_synthetic_years_are_refused(files: list[str], tmp_path: Path) -> None:
    """The message says that a feeder has no years, and names the command that compares them."""
    years = tmp_path / "years.parquet"
    drawn = Drawn(
        batches=iter([(["a"], np.zeros(1, np.int64), np.ones((1, 48)))]),
        customers=1,
        grid=TimeGrid(),
        timezone="UTC",
        power_factor=1.0,
        buses=None,
        days=(date(2025, 1, 1), 2),
        origin={"timezone": "UTC", "release_id": "r1"},
    )
    FORMATS["parquet"].write(years, drawn)
    said = CliRunner().invoke(app, ["grid", files[0], str(years)], env={"COLUMNS": "500"})
    assert said.exit_code == 2
    for words in ("years are not supported", "wattveil evaluate READINGS YEARS", "years.parquet"):
        assert words in said.output
    said = CliRunner().invoke(app, ["evaluate", files[0], str(years)], env={"COLUMNS": "500"})
    assert said.exit_code == 2
    assert "pass the raw readings of the real customers as REAL" in said.output


def test_a_group_against_all_customers_is_warned_of(
    files: list[str], whole: Path, tmp_path: Path
) -> None:
    """The origin of the synthetic file names a group; real customers of it alone are accepted."""
    drawn, real = tmp_path / "drawn.parquet", tmp_path / "real.parquet"
    write_customers(whole, drawn, customers=50, seed=1, group="home")
    both = Profiles.read_parquet(files[0])
    page = tmp_path / "grid.html"
    for others, warned in ((("home", "shop"), True), (("home", "home"), False)):
        kinds = tuple(others[number % 2] for number in range(len(both)))
        replace(both, attributes={"class": kinds, "kind": kinds}).write_parquet(real)
        assert bool(group_mismatch(real, drawn)) is warned
        assert not group_mismatch(real, Path(files[1]))  # which states no group
    replace(both, attributes={}).write_parquet(real)
    command = ["grid", str(real), str(drawn), *QUICK]
    told = CliRunner().invoke(app, [*command, "--report", str(page)], env={"COLUMNS": "300"})
    assert told.exit_code == 0, told.output
    for text in (told.output, page.read_text()):
        assert "the synthetic customers are those of the group home" in text
    said = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert "Compare with real customers of the group" in said["group_warning"]


def test_a_file_that_is_none(files: list[str], tmp_path: Path) -> None:
    """A file that is no profiles ends with status 1 and names it."""
    bad = tmp_path / "bad.parquet"
    bad.write_text("nothing")
    result = CliRunner().invoke(app, ["grid", files[0], str(bad)], env={"COLUMNS": "300"})
    assert result.exit_code == 1
    assert "bad.parquet is not a Parquet file" in result.output
