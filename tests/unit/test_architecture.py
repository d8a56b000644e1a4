"""The shape of the source: who imports whom, and how much an auditor must read."""

import ast
import io
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "wattveil"
LIBRARIES_KEPT_OUT = [
    *("fastapi", "matplotlib", "pandas", "polars", "pyarrow"),
    *("pyspark", "requests", "sklearn", "sqlalchemy"),
]
MAX_FILE_LINES = 400
AUDITED = ("privacy", "release", "instance")
MAX_PACKAGE_CODE_LINES = 899


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
    """The package as it stands keeps all six contracts."""
    verdict = lint_imports(SOURCE.parent)
    assert "Contracts: 6 kept, 0 broken." in verdict.text


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


@pytest.mark.parametrize(
    "stage", ["ingest", "simulate", "profiles", "clustering", "release", "instance"]
)
def test_kernel_breach_by_stage_is_caught(tree: Path, stage: str) -> None:
    """`privacy` imports no other stage."""
    plant(tree, stage)
    plant(tree, "privacy", f"import wattveil.{stage}")
    assert lint_imports(tree.parent).broken == {"Layers", "Kernel"}


def test_kernel_breach_by_library_is_caught(tree: Path) -> None:
    """`privacy` imports no library that holds tables, models, plots or servers."""
    plant(tree, "privacy", *(f"import {library}" for library in LIBRARIES_KEPT_OUT))
    verdict = lint_imports(tree.parent)
    assert verdict.broken == {"Kernel"}
    for library in LIBRARIES_KEPT_OUT:
        assert f"wattveil.privacy is not allowed to import {library}:" in verdict.text


@pytest.mark.parametrize("stage", ["ingest", "profiles", "clustering"])
def test_blind_breach_is_caught(tree: Path, stage: str) -> None:
    """Numeric code may not import `privacy`."""
    plant(tree, stage, "import wattveil.privacy.guarantee")
    assert lint_imports(tree.parent).broken == {"Blind"}


@pytest.mark.parametrize(
    "stage", ["ingest", "profiles", "clustering", "baselines", "evaluation", "grid"]
)
def test_served_breach_is_caught(tree: Path, stage: str) -> None:
    """`serve` may not import a stage that holds rows or private figures."""
    plant(tree, stage)
    plant(tree, "serve", f"import wattveil.{stage}")
    assert lint_imports(tree.parent).broken == {"Served"}


@pytest.mark.parametrize("importer", ["privacy", "release", "instance"])
def test_noise_breach_is_caught(tree: Path, importer: str) -> None:
    """Nothing but `privacy.mechanisms` imports `privacy.noise`."""
    plant(tree, importer, "import wattveil.privacy.noise")
    assert lint_imports(tree.parent).broken == {"Noise"}


def test_mechanisms_may_draw_noise(tree: Path) -> None:
    """Every module of the `privacy.mechanisms` package may import `privacy.noise`."""
    plant(tree / "privacy", "mechanisms", "import wattveil.privacy.noise")
    assert not lint_imports(tree.parent).broken


@pytest.mark.parametrize("importer", ["publish", "engines", "cli"])
def test_secret_breach_is_caught(tree: Path, importer: str) -> None:
    """Nothing but `privacy`, `release` and `instance` imports `privacy.secret`."""
    plant(tree, importer, "import wattveil.privacy.secret")
    assert lint_imports(tree.parent).broken == {"Secret"}


def test_secret_is_not_handed_on() -> None:
    """The name `Secret` appears nowhere outside `privacy`, `release` and `instance`.

    Import contracts see modules, not names: a re-export would slip past them.
    """
    outside = [path for path in SOURCE.rglob("*.py") if part_of(path) not in AUDITED]
    assert not [path for path in outside if "Secret" in names_in(path)]


@pytest.mark.parametrize("package", AUDITED)
def test_audited_package_is_one_sitting(package: str) -> None:
    """The kernel and the joint each stay short enough to audit in one sitting."""
    files = list((SOURCE / package).rglob("*.py"))
    assert files
    assert sum(code_lines(path.read_text()) for path in files) <= MAX_PACKAGE_CODE_LINES


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
    assert code_lines(source) == 3 + 1 + 3


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


def part_of(path: Path) -> str:
    """Return the top-level module or package of the source that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def names_in(path: Path) -> set[str]:
    """Return every name a file uses, defines or imports."""
    with path.open("rb") as file:
        return {
            token.string
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.NAME
        }


def code_lines(source: str) -> int:
    """Count the lines of a source text that hold code: no blanks, comments or docstrings."""
    layout = {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # A string that stands alone documents what is above it: module, class, function, constant.
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            assert node.end_lineno is not None
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)
