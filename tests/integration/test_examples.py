"""The examples run, one of them as a notebook, and a notebook is what its script says."""

from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

from tests.sample_bundles import simulate_plans_once
from tools.build_notebooks import notebook_text, scripts

PICTURES = {"analyst_day": "areas", "planner_feeder": "feeder", "utility_quarter": "quarters"}
SAID = {
    "analyst_day": ("checks passed", "budget_refused"),
    "planner_feeder": ("worst of 5 releases at ε = 10", "worst-case assumption"),
    "utility_quarter": ("unreadable time stamp", "does not cover the price"),
}
"""What each must have found, whatever the noise."""
SMALLER = {"HOMES = 200 ": "HOMES = 60 ", "HOMES, ZONE, SEED = 500": "HOMES, ZONE, SEED = 100"}
"""Fewer homes, with which the examples say the same."""
IN_A_KERNEL = "planner_feeder"
"""`make soak` runs all notebooks."""


def named(script: Path) -> str:
    """Return the name of an example."""
    return script.stem


def test_there_are_three() -> None:
    """Each example has a folder with a script, its notebook and a page."""
    assert {script.stem for script in scripts()} == set(PICTURES)
    for script in scripts():
        assert script.with_suffix(".ipynb").exists()
        assert (script.parent / "README.md").exists()


@pytest.mark.parametrize("script", scripts(), ids=named)
def test_a_notebook_is_its_script(script: Path) -> None:
    """`make notebooks` was run after the last change."""
    assert script.with_suffix(".ipynb").read_text() == notebook_text(script)


@pytest.mark.parametrize("script", [one for one in scripts() if one.stem != IN_A_KERNEL], ids=named)
def test_a_script_runs(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It finds what the text says, and leaves a picture."""
    monkeypatch.chdir(tmp_path)
    simulate_plans_once(monkeypatch)
    text = script.read_text()
    for usual, smaller in SMALLER.items():
        text = text.replace(usual, smaller)
    exec(compile(text, str(script), "exec"), {"__name__": "__main__"})  # noqa: S102 - an example
    check(script, tmp_path, capsys.readouterr().out)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=[pytest.mark.long] * (script.stem != IN_A_KERNEL))
        for script in scripts()
    ],
    ids=named,
)
def test_a_notebook_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel runs all cells, and shows the picture."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    where = {"metadata": {"path": str(tmp_path)}}
    notebook = jupytext.read(script.with_suffix(".ipynb"))
    done = NotebookClient(notebook, timeout=600, resources=where).execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    printed = [output.text for output in outputs if output.output_type == "stream"]
    check(script, tmp_path, "".join(printed))
    assert any("data" in output for output in outputs)  # the figure, shown in the notebook


def check(script: Path, folder: Path, said: str) -> None:
    """Check what an example printed and left."""
    for words in SAID[script.stem]:
        assert words in said
    (picture,) = folder.glob(f"*/{PICTURES[script.stem]}.html")
    assert "Plotly.newPlot" in picture.read_text()
