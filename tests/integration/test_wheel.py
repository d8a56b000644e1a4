"""What a user gets from the wheel, with none of the development tools around."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]

RELEASE_MODULES = ["duckdb", "joblib", "llvmlite", "numba", "opendp", "sklearn"]
"""Of the extra `release`."""

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
sys.modules.update(dict.fromkeys(blocked & {"duckdb", "numba", "opendp", "sklearn"}))
from wattveil.cli import app

if sys.argv[2] == "demo":  # what its plan simulates has tests of its own
    from wattveil.products import clusters, synthesis

    for product in (clusters, synthesis):
        product._POPULATIONS = product._RUNS = 1
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


@pytest.fixture(scope="module")
def site(wheel: ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the wheel contains."""
    folder = tmp_path_factory.mktemp("site")
    wheel.extractall(folder)
    share_machine_code(folder)
    return folder


def share_machine_code(site: Path) -> None:
    """Copy what was compiled for the sources: it is valid for a file of the same age and size."""
    sources = REPOSITORY / "src"
    for stored in [*sources.rglob("*.nb[ci]"), *sources.rglob("*.pyc")]:
        place = site / stored.relative_to(sources)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(stored, place)
    for path in sources.rglob("*.py"):
        shutil.copystat(path, site / path.relative_to(sources))


def run_without(
    modules: list[str], site: Path, work: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line from the wheel, without some modules."""
    return subprocess.run(
        [sys.executable, "-c", RUN_WITHOUT, json.dumps(modules), *arguments],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_command_runs_without_development_tools(site: Path, tmp_path: Path) -> None:
    """The wheel releases with the runtime dependencies alone, and verifies without the extra."""
    run = run_without(development_modules(), site, tmp_path, "demo", "--customers", "12")
    assert run.returncode == 0, run.stdout + run.stderr
    light = [*development_modules(), *RELEASE_MODULES]
    run = run_without(light, site, tmp_path, "verify", "wattveil-demo")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "checks passed" in run.stdout
    refused = run_without(light, site, tmp_path, "profiles", "readings.csv")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert 'pip install "wattveil[release]"' in refused.stderr


def test_the_extra_of_releases_is_what_the_light_test_leaves_out(wheel: ZipFile) -> None:
    """The wheel requires these packages for the extra alone."""
    (name,) = (one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
    required = [
        line.removeprefix("Requires-Dist: ")
        for line in wheel.read(name).decode().splitlines()
        if line.startswith("Requires-Dist: ")
    ]
    base = [one for one in required if "extra ==" not in one]
    assert base
    for module in ("duckdb", "numba", "opendp", "scikit-learn"):
        assert not any(one.startswith(module) for one in base)
        assert any(one.startswith(module) and "'release'" in one for one in required)


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
