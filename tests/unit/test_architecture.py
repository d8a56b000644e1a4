"""The shape of the source: who imports whom, and how much an auditor must read."""

import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.trusted_base import code_lines

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "wattveil"
LIBRARIES_KEPT_OUT = [
    *("fastapi", "matplotlib", "pandas", "polars", "pyarrow"),
    *("pyspark", "requests", "sklearn", "sqlalchemy"),
]
MAX_FILE_LINES = 500


class Verdict(NamedTuple):
    """What `lint-imports` said: the first word of each broken contract's name, and all it wrote."""

    broken: set[str]
    text: str


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the package in which a breach can be planted."""
    return shutil.copytree(
        SOURCE, tmp_path / "wattveil", ignore=shutil.ignore_patterns("__pycache__")
    )


def test_contracts_hold() -> None:
    """The package as it stands keeps all nine contracts."""
    verdict = lint_imports(SOURCE.parent)
    assert "Contracts: 9 kept, 0 broken." in verdict.text


@pytest.mark.parametrize("higher", ["cli", "baselines"])
def test_layers_breach_is_caught(tree: Path, higher: str) -> None:
    """A lower layer may not import a higher one: what is released knows no rivals."""
    plant(tree, "release", f"import wattveil.{higher}")
    assert lint_imports(tree.parent).broken == {"Layers"}


def test_module_without_a_layer_is_caught(tree: Path) -> None:
    """A new top-level module must be given a place in the layers."""
    (tree / "planted.py").touch()
    verdict = lint_imports(tree.parent)
    assert verdict.broken == {"Layers"}
    assert "- wattveil.planted" in verdict.text


def test_kernel_breach_by_stage_is_caught(tree: Path) -> None:
    """`privacy` imports no other stage."""
    stages = ["ingest", "simulate", "profiles", "clustering", "release", "instance"]
    plant(tree, "privacy", *(f"import wattveil.{stage}" for stage in stages))
    verdict = lint_imports(tree.parent)
    assert verdict.broken == {"Layers", "Kernel"}
    for stage in stages:
        assert f"wattveil.privacy is not allowed to import wattveil.{stage}:" in verdict.text


def test_kernel_breach_by_library_is_caught(tree: Path) -> None:
    """`privacy` imports no library that holds tables, models, plots or servers."""
    plant(tree, "privacy", *(f"import {library}" for library in LIBRARIES_KEPT_OUT))
    verdict = lint_imports(tree.parent)
    assert verdict.broken == {"Kernel"}
    for library in LIBRARIES_KEPT_OUT:
        assert f"wattveil.privacy is not allowed to import {library}:" in verdict.text


def test_blind_breach_is_caught(tree: Path) -> None:
    """Numeric code may not import `privacy`."""
    stages = ["ingest", "profiles", "clustering"]
    for stage in stages:
        plant(tree, stage, "import wattveil.privacy.guarantee")
    verdict = lint_imports(tree.parent)
    assert verdict.broken == {"Blind"}
    for stage in stages:
        assert f"wattveil.{stage} is not allowed to import wattveil.privacy:" in verdict.text


def test_served_breach_is_caught(tree: Path) -> None:
    """`serve` may not import a stage that holds rows or private figures."""
    stages = ["ingest", "profiles", "clustering", "baselines", "evaluation", "grid"]
    plant(tree, "serve", *(f"import wattveil.{stage}" for stage in stages))
    verdict = lint_imports(tree.parent)
    assert verdict.broken == {"Served"}
    for stage in stages:
        assert f"wattveil.serve is not allowed to import wattveil.{stage}:" in verdict.text


PROTECTED = {
    "Noise": ("wattveil.privacy.noise", ["privacy", "release", "instance"]),
    "Opening": (
        "wattveil.privacy.opening",
        ["release", "engines", "publish", "cli", "instance"],
    ),
    "Replay": ("wattveil.privacy.transcript", ["release", "engines", "publish"]),
    "Rows": ("wattveil.release.rows.nearest", ["evaluation", "baselines", "cli"]),
}


def test_breaches_of_protected_modules_are_caught(tree: Path) -> None:
    """Who draws noise, opens a secret, records exact integers or reads rows is on a list.

    Noise is drawn by mechanisms. A secret is opened by mechanisms and two internal tools. Exact
    integers are recorded by the replay audit. Functions of private rows are used by releases.
    """
    for module, importers in PROTECTED.values():
        for importer in importers:
            plant(tree, importer, f"import {module}")
    verdict = lint_imports(tree.parent)
    assert verdict.broken == set(PROTECTED)
    for module, importers in PROTECTED.values():
        for importer in importers:
            stem = f"wattveil.{importer}"
            assert re.search(rf"- {stem}(\.planted)? -> {module} ", verdict.text), (stem, module)


def test_mechanisms_may_draw_noise(tree: Path) -> None:
    """Every module of the `privacy.mechanisms` package may import `privacy.noise`."""
    plant(tree / "privacy", "mechanisms", "import wattveil.privacy.noise")
    assert not lint_imports(tree.parent).broken


def test_post_processing_cannot_import_row_functions(tree: Path) -> None:
    """Post-processing is below the functions of private rows, and cannot reach them."""
    for stage in ("clustering", "synthesis"):
        plant(tree, stage, "import wattveil.release.rows.nearest")
    assert {"Layers", "Rows"} <= lint_imports(tree.parent).broken


def test_row_function_with_a_budget_is_caught(tree: Path) -> None:
    """A function of private rows imports no budget, no noise, no engine and no query."""
    modules = ["privacy.budget", "privacy.noise", "engines", "release.queries"]
    with (tree / "release" / "rows" / "nearest.py").open("a") as file:
        file.writelines(f"import wattveil.{module}\n" for module in modules)
    verdict = lint_imports(tree.parent)
    assert "Functions" in verdict.broken
    for module in modules:
        assert f"wattveil.release.rows is not allowed to import wattveil.{module}:" in verdict.text


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("reveal", ("privacy", "evaluation/attack_filter.py", "reproduce/mechanism.py")),
        ("row_function", ("privacy/private_rows.py", "release/rows")),
        ("RowFunction", ("privacy/private_rows.py",)),
        ("BoundedTotals", ("privacy", "engines/local.py", "engines/spark.py")),
        ("BlockSums", ("privacy", "engines/local.py", "engines/spark.py")),
        ("ReleasedRows", ("privacy", "release/labels.py", "evaluation/replay_audit.py")),
        ("Released", ("privacy",)),
        ("_PERMIT", ("privacy/mechanisms/contributions.py",)),
        ("release_sums", ("privacy",)),
        ("respond", ("privacy", "release/labels.py", "baselines")),
        (
            "BoundRowFunction",
            ("privacy", "engines/local.py", "engines/spark.py", "release/kmeans.py"),
        ),
        ("Secret", ("privacy", "instance")),
    ],
)
def test_names_of_the_kernel_are_used_where_they_may_be(name: str, users: tuple[str, ...]) -> None:
    """Import contracts see modules, not names: a re-export would slip past them."""
    used = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if name in names_in(path)
    }
    assert used
    assert not {path for path in used if not path.startswith(users)}


def test_files_are_short() -> None:
    """No source file is longer than one reader's patience."""
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert not {path: n for path, n in lengths.items() if n > MAX_FILE_LINES}


def test_the_page_knows_every_layer() -> None:
    """docs/architecture.md lists the layers as the contract has them, and every package."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [re.sub(r"[()]", "", layer) for layer in contracts["contracts"][0]["layers"]]
    assert "\n".join(["```text", *layers, "```"]) in page
    table = page.split("## Where each thing lives")[1].split("## What keeps")[0]
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(re.findall(r"`(\w+)`", table)) >= there - {"__init__", "__pycache__", "py"}


def test_code_lines_counts_code_alone() -> None:
    """Blank lines, comments and docstrings are free; every line of a statement counts."""
    source = '''
"""Module docstring,

in three lines."""

# a comment
x = """
text that is code
"""  # four lines so far, with the next
"""What x is for."""


def f() -> int:
    """Say one."""
    return (
        1
    )
'''
    assert len(code_lines(source)) == 3 + 1 + 3


def lint_imports(source: Path) -> Verdict:
    """Run import-linter with the repository's contracts on the `wattveil` below `source`."""
    run = subprocess.run(
        [
            Path(sys.executable).with_name("lint-imports"),
            "--no-cache",
            f"--config={REPOSITORY / 'pyproject.toml'}",
        ],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts: " in run.stdout, run.stdout + run.stderr
    broken = {line.split(":")[0] for line in run.stdout.splitlines() if " BROKEN" in line}
    assert bool(broken) == bool(run.returncode)
    return Verdict(broken, run.stdout)


def plant(parent: Path, stage: str, *imports: str) -> None:
    """Add imports to a stage of the copied tree; a stage still to be written gets a stand-in."""
    module = parent / f"{stage}.py"
    if not module.exists():
        (parent / stage).mkdir(exist_ok=True)
        (parent / stage / "__init__.py").touch()
        module = parent / stage / "planted.py"
    with module.open("a") as file:
        file.writelines(f"{line}\n" for line in imports)


def names_in(path: Path) -> set[str]:
    """Return every name a file uses, defines or imports."""
    with path.open("rb") as file:
        return {
            token.string
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.NAME
        }
