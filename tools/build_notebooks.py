"""Make the notebook of each example from its script, so that there is one copy of the code.

Run `make notebooks` after a change of a script under examples/. The scripts mark their cells with
``# %%``, as jupytext, VS Code and PyCharm read them. Notebooks are kept without outputs: noise has
no seed, so outputs differ in every run and could not be checked.
"""

from pathlib import Path

import jupytext
from nbformat import NotebookNode

EXAMPLES = Path(__file__).parents[1] / "examples"


def scripts() -> list[Path]:
    """Return the script of each example."""
    return sorted(EXAMPLES.glob("*/*.py"))


def notebook_of(script: Path) -> NotebookNode:
    """Return the notebook of a script: the same for the same script, to the byte."""
    notebook: NotebookNode = jupytext.read(script, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # else drawn at random
    notebook.metadata = {  # jupytext's own would depend on how it read the script
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def notebook_text(script: Path) -> str:
    """Return the file of the notebook."""
    text: str = jupytext.writes(notebook_of(script), fmt="ipynb")
    return text.rstrip("\n") + "\n"


def main() -> None:
    """Write every notebook beside its script."""
    for script in scripts():
        script.with_suffix(".ipynb").write_text(notebook_text(script), encoding="utf-8")


if __name__ == "__main__":
    main()
