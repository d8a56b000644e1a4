"""The examples run, as notebooks, and a notebook is what its script says."""

from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

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
ONE_SIMULATION = """
from wattveil.products import clusters, synthesis

for product in (clusters, synthesis):
    product._POPULATIONS = product._RUNS = 1
"""
"""Before the first cell: a plan simulates one release of each kind."""


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


@pytest.mark.parametrize("script", scripts(), ids=named)
def test_a_notebook_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel runs all cells, finds what the text says, and leaves a picture."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = jupytext.read(script.with_suffix(".ipynb"))
    for cell in notebook.cells:
        for text, smaller in SMALLER.items():
            cell.source = cell.source.replace(text, smaller)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = ONE_SIMULATION + first.source
    where = {"metadata": {"path": str(tmp_path)}}
    done = NotebookClient(notebook, timeout=600, resources=where).execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    for words in SAID[script.stem]:
        assert words in said
    (picture,) = tmp_path.glob(f"*/{PICTURES[script.stem]}.html")
    assert "Plotly.newPlot" in picture.read_text()
    assert any("data" in output for output in outputs)  # the figure, shown in the notebook
