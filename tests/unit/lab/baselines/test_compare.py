"""`wattveil compare`: what it measures, how it goes on, what it prints and refuses."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattveil.arrays import Floats
from wattveil.cli import app
from wattveil.errors import (
    InvalidDataError,
    InvalidFileError,
    InvalidParameterError,
    MissingExtraError,
)
from wattveil.lab.baselines import baseline_comparison as comparing
from wattveil.lab.baselines import diffprivlib_baseline
from wattveil.lab.baselines.baseline_comparison import (
    COMPILING,
    LIMITS,
    RUNNING,
    ComparisonSetting,
    MeasuredRun,
    RunFile,
    RunKey,
    compare_mechanisms,
)
from wattveil.lab.baselines.baseline_interface import (
    accuracy_loss,
    claimed_guarantee,
    clustering_loss,
    exact_answer,
)
from wattveil.lab.baselines.baseline_summary import (
    compare_medians,
    guarantee_text,
    is_wild,
    keeps,
    summarise,
)
from wattveil.numerics.measures.verdicts import Verdict
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import simulate_load_kw

FAST = ("blum-2005", "ni-2021")


@pytest.fixture(scope="module")
def homes() -> Floats:
    """Return some simulated homes."""
    return simulate_load_kw(customers=80)


@pytest.fixture
def profiles(homes: Floats, tmp_path: Path) -> str:
    """Return the path of their profiles."""
    path = tmp_path / "profiles.parquet"
    Profiles(
        customer_ids=tuple(f"home {row}" for row in range(len(homes))),
        load_kw=homes.copy(),
        grid=TimeGrid(),
        timezone="Europe/London",
    ).write_parquet(path)
    return str(path)


def test_loss_by_hand() -> None:
    """Four customers, two centroids: by the nearest, and by labels that are wrong."""
    rows = np.array([[0.0], [2.0], [10.0], [12.0]])
    exact = exact_answer(rows, 2)
    assert exact.loss == 1.0
    centroids = np.array([[1.0], [12.0]])
    assert clustering_loss(rows, centroids) == (1 + 1 + 4 + 0) / 4
    assert accuracy_loss(rows, centroids, exact=1.0) == 0.5
    wrong = np.array([0, 1, 1, 1])
    assert accuracy_loss(rows, centroids, wrong, exact=1.0) == (1 + 100 + 4 + 0) / 4 - 1
    with pytest.raises(InvalidDataError, match="more different customers than clusters"):
        accuracy_loss(rows, centroids, exact=0.0)


def test_a_killed_run_goes_on(
    homes: Floats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished is not run again, half a line is dropped, and the numbers are the same."""
    setting = ComparisonSetting(mechanisms=FAST, epsilons=(1.0, 10.0), n_clusters=3, repeats=2)
    whole = compare_mechanisms(homes, setting, path=tmp_path / "whole.jsonl")
    ran: list[RunKey] = []
    measure = comparing.Bench.measure

    def killed_after_five(bench: comparing.Bench, cell: RunKey) -> MeasuredRun:
        ran.append(cell)
        if len(ran) == 6:
            raise KeyboardInterrupt
        return measure(bench, cell)

    monkeypatch.setattr(comparing.Bench, "measure", killed_after_five)
    path = tmp_path / "killed.jsonl"
    with pytest.raises(KeyboardInterrupt):
        compare_mechanisms(homes, setting, path=path)
    with path.open("a") as file:
        file.write('{"mechanism": "blum-20')  # killed while it wrote
    again = compare_mechanisms(homes, setting, path=path)
    assert len(ran) == 6 + 3
    assert set(ran[6:]).isdisjoint(ran[:5])
    assert losses(again.runs) == losses(whole.runs)
    compare_mechanisms(homes, setting, path=path)
    assert len(ran) == 9  # nothing is left to do


def test_more_of_the_same_is_added(homes: Floats, tmp_path: Path) -> None:
    """Further repeats, epsilons and mechanisms go to the same file; finished runs stay."""
    path = tmp_path / "runs.jsonl"
    small = ComparisonSetting(mechanisms=FAST[:1], epsilons=(1.0,), n_clusters=3, repeats=1)
    first = compare_mechanisms(homes, small, path=path)
    large = ComparisonSetting(mechanisms=FAST, epsilons=(0.5, 1.0), n_clusters=3, repeats=2)
    more = compare_mechanisms(homes, large, path=path)
    assert len(more.runs) == 8
    assert losses(first.runs).items() <= losses(more.runs).items()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"n_clusters": 4}, "one of the same n_clusters"),
        ({"delta": 1e-5}, "one of the same delta"),
        ({"seed": 1}, "one of the same seed"),
    ],
)
def test_another_setting_is_refused(
    changed: dict[str, float], words: str, homes: Floats, tmp_path: Path
) -> None:
    """Cells of other data or settings are never mixed."""
    key = {"n_clusters": 3, "delta": 1e-6, "seed": 0}
    RunFile(tmp_path / "runs.jsonl", homes, key)
    with pytest.raises(InvalidParameterError, match=words):
        RunFile(tmp_path / "runs.jsonl", homes, key | changed)


def test_other_data_and_broken_files_are_refused(homes: Floats, tmp_path: Path) -> None:
    """The file knows its customers by their hash; a line that is no cell is named."""
    path, key = tmp_path / "runs.jsonl", {"seed": 0.0}
    RunFile(path, homes, key)
    with pytest.raises(InvalidParameterError, match="one of the same data"):
        RunFile(path, homes + 1e-12, key)
    for line, expected in (('{"mechanism": 1}', "a run"), ("nothing", "JSON")):
        path.unlink()
        RunFile(path, homes, key)
        with path.open("a") as file:
            file.write(line + "\n")
        with pytest.raises(InvalidFileError, match=f"line 2: expected {expected}"):
            RunFile(path, homes, key)
    path.write_text("")
    with pytest.raises(InvalidParameterError, match="one of the same wattveil, data, seed"):
        RunFile(path, homes, key)


def test_a_cell_comes_back_from_the_file(homes: Floats, tmp_path: Path) -> None:
    """Every field is read as it was written, also what is not there."""
    path, key = tmp_path / "runs.jsonl", {"seed": 0.0}
    file = RunFile(path, homes, key)
    for repeat, labels in enumerate((None, 0.1 + 0.2)):
        file.append(
            MeasuredRun(
                key=RunKey("mean", 0.1 + 0.2, repeat),
                nearest=1.0 / 3.0,
                labels=labels,
                cpu_seconds=0.25,
                claimed=claimed_guarantee(0.3, 1e-6),
                true=None if repeat else claimed_guarantee(0.3, 1e-5),
                true_with_labels=None,
                known_violations=("one", "two"),
            )
        )
    assert RunFile(path, homes, key).done == file.done


def test_processes_give_the_same_numbers(homes: Floats, tmp_path: Path) -> None:
    """Two processes measure what one does: a cell draws its own numbers."""
    setting = ComparisonSetting(mechanisms=FAST, epsilons=(1.0,), n_clusters=3, repeats=2)
    one = compare_mechanisms(homes, setting, path=tmp_path / "one.jsonl")
    two = compare_mechanisms(homes, setting, path=tmp_path / "two.jsonl", jobs=2)
    assert losses(one.runs) == losses(two.runs)
    assert len(set(losses(one.runs).values())) == 4  # and no two cells draw the same


def test_compiling_is_reported(homes: Floats, tmp_path: Path) -> None:
    """The instance tier runs first, and the progress line reports the compilation."""
    said: list[tuple[str, int, int]] = []
    setting = ComparisonSetting(
        mechanisms=("blum-2005", "instance-white"), epsilons=(5.0,), n_clusters=2, repeats=2
    )
    found = compare_mechanisms(
        homes,
        setting,
        path=tmp_path / "runs.jsonl",
        advance=lambda what, done, total: said.append((what, done, total)),
    )
    assert said[0] == (COMPILING, 0, 4)
    assert said[1:-1] == [(RUNNING, done, 4) for done in (1, 2, 3, 4)]
    assert said[-1] == (LIMITS, 4, 4)
    rows = {row.mechanism: row for row in summarise(found)}
    assert rows["blum-2005"].labels is None
    assert rows["instance-white"].labels is not None
    assert rows["instance-white"].true_with_labels == "instance (10, 1e-06)"


def test_summary_is_the_interquartile_range(homes: Floats, tmp_path: Path) -> None:
    """Quartiles are those of the cells, computed independently."""
    setting = ComparisonSetting(mechanisms=("mean",), epsilons=(0.1, 1.0), n_clusters=3, repeats=5)
    found = compare_mechanisms(homes, setting, path=tmp_path / "runs.jsonl")
    for row in summarise(found):
        mine = sorted(one.nearest for one in found.runs if one.key.epsilon == row.epsilon)
        assert list(row.nearest) == pytest.approx([mine[1], mine[2], mine[3]])
        assert row.repeats == 5
        assert row.nearest_interval == (-math.inf, math.inf)  # five runs are too few


@pytest.mark.parametrize(
    ("shift", "runs", "expected"),
    [
        (3.0, 10, Verdict.DIFFERENT),
        (0.0, 200, Verdict.NO_DIFFERENCE),  # the margin is 0.1 of 10, the limit about 0.25
        (0.0, 4, Verdict.INCONCLUSIVE),
    ],
)
def test_medians_of_losses_are_compared(shift: float, runs: int, expected: Verdict) -> None:
    """A planted difference, none with many runs, and none with few."""
    verdicts = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        losses, reference = draw.normal(10.0 + shift, size=runs), draw.normal(10.0, size=runs)
        found = compare_medians(losses, reference)
        assert found.effect == pytest.approx(abs(np.median(losses) - np.median(reference)))
        verdicts.append(found.verdict)
    assert verdicts.count(expected) >= 9


def test_what_is_claimed_and_what_is_kept() -> None:
    """A claim holds if the actual guarantee of its tier is as strong; only global is called DP."""
    claimed = claimed_guarantee(1.0, 1e-6)
    instance = Guarantee(
        epsilon=1.0,
        delta=1e-9,
        tier=Tier.INSTANCE,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
    assert keeps(claimed, claimed_guarantee(1.0 + 1e-15, 1e-6))
    for true in (None, claimed_guarantee(1.62, 0.0), claimed_guarantee(1.0, 1e-5), instance):
        assert not keeps(claimed, true)
    assert guarantee_text(claimed) == "DP (1, 1e-06)"
    assert guarantee_text(instance) == "instance (1, 1e-09)"
    assert (
        guarantee_text(claimed_guarantee(2.0, neighbours=Neighbours.REPLACE_ONE))
        == "local DP (2, 0)"
    )
    assert guarantee_text(None) == "none"


def test_table_page_and_files(
    profiles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command prints two tables, and writes a CSV file and a self-contained page."""

    def absent() -> None:
        raise MissingExtraError("diffprivlib", "bench")

    monkeypatch.setattr(diffprivlib_baseline, "check_installed", absent)
    out = tmp_path / "out"
    arguments = ["compare", profiles, "--epsilon", "1,20", "--clusters", "2", "--repeats", "1"]
    result = CliRunner().invoke(
        app, [*arguments, "--jobs", "1", "--out", str(out)], env={"COLUMNS": "250"}
    )
    assert result.exit_code == 0, result.output
    for words in (
        "Private",
        "Omitted: mechanism must be one for 24 slots (this one supports at most 3)",
        'diffprivlib needs packages that are not installed: pip install "wattveil[bench]"',
        "nearest centroid",
        "released labels",
        "actual at ε = 20",
        "instance (20, 1e-06)",
        "DP (20, 1e-06)",
        "limit A",
        "limit B",
    ):
        assert words in result.output
    with (out / "comparison.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 20 * 2
    by_name = {(row["mechanism"], row["epsilon"]): row for row in table}
    assert by_name["yu-2016", "1.0"]["true"] == "none"
    assert by_name["yu-2016", "1.0"]["labels_median"] == ""
    assert by_name["paper", "20.0"]["keeps_its_claim"] == "False"
    assert by_name["global", "20.0"]["keeps_its_claim"] == "True"
    limits = {row["epsilon"]: row for row in table if row["mechanism"] == "mean"}
    assert float(limits["1.0"]["one_draw"]) > float(limits["20.0"]["one_draw"]) > 0.0
    for row in table:
        against = (1.0 + float(row["nearest_median"])) / (
            1.0 + float(row["no_small_clusters"])
        ) - 1.0
        assert float(row["against_b"]) == pytest.approx(against)
    page = (out / "comparison.html").read_text()
    assert "INTERNAL: exact figures" in page
    assert "Balcan et al. 2017" in page
    assert "Limits of accuracy" in page
    assert "A: one draw, clusters known" in page
    assert "Each customer at its released label" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", page)


def test_json_and_going_on(profiles: str, tmp_path: Path) -> None:
    """`--json` prints one object; a second call of the same command gives it again."""
    command = ["compare", profiles, "--epsilon", "1", "--mechanism", "mean, su-2016"]
    command += ["--repeats", "3", "--jobs", "1", "--out", str(tmp_path / "out"), "--json"]
    first, second = (CliRunner().invoke(app, command) for _ in range(2))
    assert first.exit_code == 0, first.output
    said = json.loads(first.stdout)
    assert said == json.loads(second.stdout)
    assert said["private"] is True
    assert [row["mechanism"] for row in said["rows"]] == ["mean", "su-2016"]
    assert set(said["rows"][0]["nearest"]) == {"low", "median", "high"}
    assert said["setting"]["repeats"] == 3
    (limit,) = said["limits"]
    assert limit["bound"] < limit["first_order"]


def test_wild_runs_are_those_far_above_the_median() -> None:
    """Above 3 medians + 0.02; near zero the 0.02 alone decides."""
    losses = np.array([0.1, 0.1, 0.1, 0.1, 0.31, 0.33])
    assert is_wild(losses).tolist() == [False] * 5 + [True]
    assert is_wild(np.array([0.0, 0.0, 0.019, 0.021, 0.0])).tolist() == [False] * 3 + [True, False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "1,x"], "--epsilon must be numbers separated by commas; got 1,x"),
        (["--epsilon", "1,1"], "epsilon must be one or more different numbers"),
        (["--epsilon", "0"], "epsilon must be at least 1e-12"),
        (["--delta", "1"], "delta must be above 0 and below 1"),
        (["--mechanism", "best"], "mechanism must be one of global, instance-coloured"),
        (
            ["--mechanism", "uniform-grid"],
            "mechanism must be one for 24 slots (this one supports at most 3",
        ),
        (["--mechanism", "mean,mean"], "names of which no two are the same"),
        (["--repeats", "0"], "repeats must be a whole number of at least 1"),
        (["--clusters", "1"], "--clusters must be a whole number of at least 2"),
        (["--clusters", "81"], "--clusters must be at most the customers"),
        (["--jobs", "0"], "jobs must be a whole number of at least 1"),
        (["--out", "no/such/folder"], "out must be a file in a folder that exists"),
    ],
)
def test_bad_options_are_explained(
    profiles: str, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad option exits with 2 and names field, rule and value."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(diffprivlib_baseline, "check_installed", lambda: None)
    result = CliRunner().invoke(app, ["compare", profiles, *arguments], terminal_width=200)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.replace("│", " ").split())


def test_errors_and_stops_end_cleanly(
    profiles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is none ends with 1, Ctrl-C with 130; what was finished is kept."""
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.parquet"
    bad.write_text("nothing")
    result = CliRunner().invoke(app, ["compare", str(bad)], env={"COLUMNS": "300"})
    assert result.exit_code == 1
    assert "bad.parquet is not a Parquet file" in result.output

    def stopped(*_: object) -> MeasuredRun:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing.Bench, "measure", stopped)
    command = ["compare", profiles, "--mechanism", "mean", "--jobs", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 130
    assert Path("comparison", "runs.jsonl").exists()


def losses(cells: tuple[MeasuredRun, ...]) -> dict[RunKey, float]:
    """Return what the cells measured, without the time they took."""
    return {one.key: one.nearest for one in cells}
