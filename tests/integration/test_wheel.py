"""What a user gets from the wheel, with none of the development tools around."""

import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]

# Runs the command line as if the modules named in the first argument were not installed.
RUN_WITHOUT = """
import json, sys

blocked = set(json.loads(sys.argv[1]))

class Blocker:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker)
from wattveil.cli import app

if "demo" in sys.argv:  # loops that are not compiled take long: fewer synthetic customers
    from wattveil.cli import demo
    from wattveil.products import synthesis

    sys.modules["wattveil.cli.demo"]._SYNTHETIC = synthesis._SAMPLED = 100
app(sys.argv[2:])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target=wheel", f"--directory={folder}"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    (path,) = folder.glob("*.whl")
    return ZipFile(path)


def test_wheel_is_whole(wheel: ZipFile) -> None:
    """A type checker sees our annotations; `verify` has its schema, the ledger its migrations."""
    assert "wattveil/py.typed" in wheel.namelist()
    assert "wattveil/bundle/manifest.schema.json" in wheel.namelist()
    migrations = "wattveil/server/ledger/migrations"
    assert {f"{migrations}/env.py", f"{migrations}/versions/0001_ledger.py"} <= {*wheel.namelist()}


@pytest.mark.parametrize(
    ("arguments", "compiling"),
    [
        (["--help"], {}),
        (["release", "--help"], {}),  # numba looks for a place for its machine code
        (["demo", "--customers", "12"], {"NUMBA_DISABLE_JIT": "1"}),  # compiling takes longer
    ],
)
def test_command_runs_without_development_tools(
    wheel: ZipFile, tmp_path: Path, arguments: list[str], compiling: dict[str, str]
) -> None:
    """The command line runs from the wheel with the runtime dependencies alone."""
    wheel.extractall(tmp_path / "site")
    (tmp_path / "work").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", RUN_WITHOUT, json.dumps(development_modules()), *arguments],
        cwd=tmp_path / "work",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")} | compiling,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def development_modules() -> list[str]:
    """Return the top-level modules that only development distributions provide."""
    development = pinned("dev") - pinned("base")
    return [
        module
        for module, distributions in packages_distributions().items()
        if set(map(canonicalize_name, distributions)) <= development
    ]


def pinned(name: str) -> set[str]:
    """Return the names of the distributions one requirements file pins."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
