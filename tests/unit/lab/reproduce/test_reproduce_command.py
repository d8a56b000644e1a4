"""The command `wattveil reproduce`: files, output and rejected input."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattveil.cli import app, reproduce
from wattveil.errors import MissingExtraError
from wattveil.lab.reproduce import FIGURES, Outcome, Reproduction, Study
from wattveil.profiles import Profiles, Split, TimeGrid
from wattveil.simulate import simulate_load_kw

QUICK = ["differencing", "mixture-scatter"]
BANNER = "INTERNAL: exact figures"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, without a data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WATTVEIL_DATA", raising=False)


def test_page_and_numbers() -> None:
    """A page that needs nothing else, the numbers beside it, and the findings on the screen."""
    result = CliRunner().invoke(app, ["reproduce", *QUICK, "--fast", "--out", "deep/figures"])
    assert result.exit_code == 0, result.output
    assert "is recovered to within" in " ".join(result.output.split())
    page = Path("deep/figures/index.html").read_text()
    wanted = [
        "Simulated customers only",
        *(f'<section id="{name}">' for name in QUICK),
        *("The paper.", "Our result.", "Differences and their cause.", "ε<sub>l</sub>"),
    ]
    assert [words for words in wanted if words not in page] == []
    assert page.count(BANNER) == 0
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=.http", page)
    saved = json.loads(Path("deep/figures/numbers.json").read_text())
    assert list(saved["figures"]) == QUICK
    assert saved["private"] is False


def test_json_is_what_is_saved() -> None:
    """`--json` prints the numbers and nothing else, and they are JSON to the letter."""
    command_line = ["reproduce", "label-set", "--fast", "--json"]
    result = CliRunner().invoke(app, command_line)

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    printed = json.loads(result.stdout, parse_constant=refuse)
    assert printed == json.loads(Path("figures/numbers.json").read_text())


def test_own_customers_make_a_private_page() -> None:
    """Pages from a file carry the banner and state that customers were sampled."""
    load_kw = simulate_load_kw(customers=120)
    write_profiles(load_kw, TimeGrid())
    command_line = ["reproduce", "filtering", "--data", "own.parquet"]
    result = CliRunner().invoke(app, command_line)
    assert result.exit_code == 0, result.output
    assert "Private:" in result.output
    assert BANNER in Path("figures/index.html").read_text()
    assert json.loads(Path("figures/numbers.json").read_text())["private"] is True


def test_large_files_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, customers are sampled at random, with the same sample every time."""
    monkeypatch.setattr("wattveil.lab.reproduce.study.MAX_CUSTOMERS", 110)
    write_profiles(simulate_load_kw(customers=130), TimeGrid())
    first, second = (Study(data="own.parquet").customers for _ in range(2))
    assert len(first.profiles) == 110
    assert first.profiles.customer_ids == second.profiles.customer_ids
    assert "110 of the customers of own.parquet, sampled at random" in first.description
    assert first.outlier.sum() == 1  # seven of 1,416


def test_london_is_read_from_the_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of each hour of each meter, over the days that have it, closed at midnight."""
    Path("lcl1014").mkdir()
    hours = ",".join(f"h{hour:02}" for hour in range(24))
    lines = [f"meter_id,date,{hours}"]
    for meter in range(100):
        for day in (1, 2):
            values = [f"{meter + hour * day:g}" for hour in range(24)]
            values[3] = values[3] if day == 1 else ""  # a gap
            lines.append(f"M{meter:03},2013-01-0{day},{','.join(values)}")
    Path("lcl1014/lcl1014_hourly_2013_wide.csv.gz").write_bytes(
        gzip.compress("\n".join(lines).encode())
    )
    monkeypatch.setenv("WATTVEIL_DATA", str(Path.cwd()))
    found = Study(data="london").customers
    expected = np.arange(24) * 1.5
    expected[3] = 3.0
    assert found.load_kw.shape == (100, 25)
    assert np.allclose(found.load_kw[7], 7.0 + np.append(expected, 0.0))
    assert found.private


def test_names_are_listed() -> None:
    """`--list` names every figure, as a table and as JSON."""
    result = CliRunner().invoke(app, ["reproduce", "--list"], env={"COLUMNS": "200"})
    assert all(name in result.output for name in FIGURES)
    listed = json.loads(CliRunner().invoke(app, ["reproduce", "--list", "--json"]).stdout)
    assert list(listed) == list(FIGURES)
    assert not Path("figures").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nonsense"], 2, "FIGURES must be all, or one of"),
        (["filtering", "--data", "absent.parquet"], 1, "absent.parquet"),
        (["filtering", "--data", "london"], 2, "WATTVEIL_DATA names the data folder"),
        (["filtering", "--data", "few.parquet"], 1, "at least 100 customers"),
        (["filtering", "--data", "week.parquet"], 2, "profiles of one average day"),
        (["filtering", "--data", "deep.parquet"], 1, "load above -15 kW, the paper's alpha"),
        (["filtering", "--out", "few.parquet/figures"], 1, "few.parquet"),
    ],
)
def test_refusals(arguments: list[str], code: int, words: str) -> None:
    """What cannot be drawn is refused with the field, the rule and the value."""
    write_profiles(np.ones((5, 24)), TimeGrid(), "few.parquet")
    write_profiles(np.full((120, 24), -20.0), TimeGrid(), "deep.parquet")
    write_profiles(np.ones((120, 48)), TimeGrid(split=Split.WEEKDAY_WEEKEND), "week.parquet")
    result = CliRunner().invoke(app, ["reproduce", *arguments], env={"COLUMNS": "300"})
    assert result.exit_code == code
    assert words in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_a_missing_extra_leaves_one_figure_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several figures the others are drawn; requested alone it is an error that names it."""

    def lacks(_: Study) -> Outcome:
        raise MissingExtraError("power flow", "grid")

    broken = Reproduction(name="voltages", title="t", paper="p", run=lacks)
    figures = {"differencing": FIGURES["differencing"], "voltages": broken}
    monkeypatch.setattr(reproduce, "FIGURES", figures)
    both = CliRunner().invoke(app, ["reproduce", "all", "--fast"])
    assert both.exit_code == 0, both.output
    assert "omitted: voltages" in both.output
    alone = CliRunner().invoke(app, ["reproduce", "voltages", "--fast"])
    assert alone.exit_code == 1
    assert 'pip install "wattveil[grid]"' in " ".join(alone.output.split())


def write_profiles(load_kw: np.ndarray, grid: TimeGrid, name: str = "own.parquet") -> None:
    """Write profiles of customers."""
    Profiles(
        customer_ids=tuple(str(row) for row in range(len(load_kw))),
        load_kw=np.array(load_kw),
        grid=grid,
        timezone="Europe/London",
    ).write_parquet(name)
