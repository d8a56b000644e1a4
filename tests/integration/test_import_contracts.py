"""Import contracts: the package keeps them, and a planted breach of each is found.

Building the graph of imports takes seconds. Breaches are planted together, and checked in one run.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "wattveil"
CONTRACTS = {
    *("Layers", "Lab", "Kernel", "Blind", "Served", "Noise", "Opening", "Replay", "Rows"),
    "Functions",
}
PLANTED = {  # importer -> what it may not import
    "privacy": (
        *("wattveil.readings", "wattveil.simulate", "wattveil.profiles", "wattveil.numerics"),
        *("wattveil.release", "wattveil.products"),
        *("fastapi", "matplotlib", "pandas", "polars", "pyarrow"),
        *("pyspark", "requests", "sklearn", "sqlalchemy"),
    ),
    "readings": ("wattveil.privacy.guarantee",),
    "profiles": ("wattveil.privacy.guarantee",),
    "numerics": ("wattveil.privacy.guarantee",),
    "server": (
        *("wattveil.readings", "wattveil.profiles", "wattveil.numerics"),
        *("wattveil.lab", "wattveil.grid"),
    ),
    "lab.evaluation": ("wattveil.lab.reproduce",),
    "release.rows": (
        *("wattveil.privacy.guarantee", "wattveil.privacy.noise", "wattveil.engines"),
        "wattveil.release.queries",
    ),
}
PROTECTED = {  # module -> importers that are not on its list
    "wattveil.privacy.noise": ("privacy", "release", "products"),
    "wattveil.privacy.opening": ("release", "engines", "bundle", "cli", "products"),
    "wattveil.privacy.transcript": ("release", "engines", "bundle"),
    # Post-processing is below the functions of private rows, and cannot reach them.
    "wattveil.release.rows.load_features": ("lab", "bundle", "cli", "numerics", "profiles"),
}
ABOVE_RELEASE = ("wattveil.cli", "wattveil.lab")


class LintResult(NamedTuple):
    """Result of `lint-imports`: first word of the name of each broken contract, and its output."""

    broken: set[str]
    text: str


@pytest.fixture(scope="module")
def breached(tmp_path_factory: pytest.TempPathFactory) -> LintResult:
    """Return the verdict on a copy of the package in which every breach is planted."""
    tree = copy_of_source(tmp_path_factory.mktemp("breached"))
    for importer, modules in PLANTED.items():
        plant(tree, importer, *modules)
    for module, importers in PROTECTED.items():
        for importer in importers:
            plant(tree, importer, module)
    plant(tree, "release", *ABOVE_RELEASE)
    (tree / "planted.py").touch()
    return lint_imports(tree.parent)


def test_contracts_hold(tmp_path: Path) -> None:
    """The package keeps all contracts; a module of `privacy.mechanisms` may draw noise."""
    tree = copy_of_source(tmp_path)
    plant(tree, "privacy.mechanisms", "wattveil.privacy.noise")
    verdict = lint_imports(tree.parent)
    assert not verdict.broken
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in verdict.text


def test_every_contract_can_be_broken(breached: LintResult) -> None:
    """No contract is kept by a package that breaches each."""
    assert breached.broken == CONTRACTS


def test_module_without_a_layer_is_caught(breached: LintResult) -> None:
    """A new top-level module must be given a place in the layers."""
    assert "- wattveil.planted" in breached.text


@pytest.mark.parametrize("importer", PLANTED)
def test_forbidden_import_is_caught(breached: LintResult, importer: str) -> None:
    """The kernel imports no stage and no library of tables, models or servers; numeric code no
    `privacy`; the server nothing that holds rows; a function of private rows no budget, noise,
    engine or query.
    """
    for module in PLANTED[importer]:
        whole = module.endswith(".guarantee") and importer != "release.rows"
        forbidden = "wattveil.privacy" if whole else module
        words = f"wattveil.{importer} is not allowed to import {forbidden}:"
        assert words in breached.text, words


@pytest.mark.parametrize("module", PROTECTED)
def test_import_of_a_protected_module_is_caught(breached: LintResult, module: str) -> None:
    """Modules that draw noise, open a secret, record exact integers or read rows are on a list.

    Noise is drawn by mechanisms. A secret is opened by mechanisms and two internal tools. Exact
    integers are recorded by the replay audit. Functions of private rows are used by releases.
    """
    for importer in PROTECTED[module]:
        found = re.search(rf"- wattveil\.{importer}(\.planted)? -> {module} ", breached.text)
        assert found, (importer, module)


@pytest.mark.parametrize("module", ABOVE_RELEASE)
def test_import_of_a_higher_layer_is_caught(breached: LintResult, module: str) -> None:
    """A lower layer may not import a higher one: a release knows no baselines."""
    assert f"wattveil.release is not allowed to import {module}:" in breached.text


def copy_of_source(folder: Path) -> Path:
    """Return a copy of the package in which a breach can be planted."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(SOURCE, folder / "wattveil", ignore=ignored)


def plant(tree: Path, importer: str, *modules: str) -> None:
    """Add a module with imports to a package of the copied tree."""
    with tree.joinpath(*importer.split("."), "planted.py").open("a") as file:
        file.writelines(f"import {module}\n" for module in modules)


def lint_imports(source: Path) -> LintResult:
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
    return LintResult(broken, run.stdout)
