"""Promises the repository keeps about itself: randomness, coverage, changelog, pins."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "wattveil"

BANNED_USES = [
    "import numpy as np\n\nnp.random.normal()\n",
    "from numpy import random\n\nrandom.default_rng()\n",
    "from numpy.random import default_rng\n\ndefault_rng()\n",
    "import random\n\nrandom.random()\n",
    "import secrets\n\nsecrets.randbits(8)\n",
    "import os\n\nos.urandom(8)\n",
    "import opendp.prelude as dp\n\ndp.enable_features()\n",
    "import pickle\n\npickle.dumps(1)\n",
]


@pytest.mark.parametrize("code", BANNED_USES)
def test_randomness_is_banned(code: str) -> None:
    """Ruff stops every second source of randomness, and pickle, wherever it is planted."""
    for module in ("cli.py", "privacy/mechanisms/planted.py", "release/planted.py"):
        assert "TID251" in ruff(module, code)


@pytest.mark.parametrize(
    "module",
    [
        "privacy/noise.py",
        "simulate/population.py",
        "grid/draws.py",
        "reproduce/draws.py",
        "baselines/noise.py",
    ],
)
def test_randomness_has_its_places(module: str) -> None:
    """Noise, made-up customers, lots on a feeder and rivals are drawn in places of their own."""
    assert "TID251" not in ruff(module, BANNED_USES[0])


def test_ban_is_never_waived() -> None:
    """No comment in the source switches the ban on randomness off."""
    waiver = re.compile(r"#\s*(ruff:\s*)?noqa(?!:\s*[A-Z])|TID251", re.IGNORECASE)
    assert not [path for path in SOURCE.rglob("*.py") if waiver.search(path.read_text())]


@pytest.mark.parametrize("package", ["privacy", "release"])
def test_no_line_hides_from_coverage(package: str) -> None:
    """The kernel and the joint are covered without exceptions: no coverage pragma of any kind."""
    assert not [
        path
        for path in (SOURCE / package).rglob("*.py")
        if re.search(r"#\s*pragma", path.read_text(), re.IGNORECASE)
    ]


def test_changelog_opens_with_the_privacy_guarantee() -> None:
    """In every version of the changelog the first heading is "Privacy guarantee"."""
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert versions
    for version in versions:
        headings = re.findall(r"^###+ (.*)$", version, flags=re.MULTILINE)
        assert headings[:1] == ["Privacy guarantee"], version.splitlines()[0]


@pytest.mark.parametrize("name", ["base", "dev"])
def test_pins_hold_names_and_versions_only(name: str) -> None:
    """A requirements file says what was installed, never where it came from."""
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+", line) for line in pins(name))


def test_pins_agree() -> None:
    """The tests run with the very versions a user's runtime has."""
    assert pins("base") <= pins("dev")


@pytest.mark.parametrize(
    ("name", "extras"),
    [("base", []), ("dev", ["grid", "opf", "postgres", "serve", "docs", "dev"])],
)
def test_pins_are_complete(name: str, extras: list[str]) -> None:
    """Every declared dependency is pinned."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"]]
    for extra in extras:
        declared += project["optional-dependencies"][extra]
    names = {canonicalize_name(Requirement(line).name) for line in declared}
    assert names <= {canonicalize_name(Requirement(line).name) for line in pins(name)}


def ruff(module: str, code: str) -> str:
    """Lint `code` as if it stood in a module of the package, with the repository's rules."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise"),
            *("--stdin-filename", SOURCE / module, "-"),
        ],
        cwd=REPOSITORY,
        input=code,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def pins(name: str) -> set[str]:
    """Return the pinned requirements of one file."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}
