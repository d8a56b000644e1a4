"""Linters refuse a second source of randomness, and a private value in place of a released one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

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

SNIPPET = """
from wattveil.privacy.opening import reveal
from wattveil.privacy.private_data import Released, Secret

def publish(value: Released[float]) -> float:
    return value.publish()

def compute(value: Secret[float]) -> float:
    return reveal(value)

secret = Secret(1.0)
released = Released(value=1.0, spends=(), simulated=False)

publish(released)
compute(secret)
publish(secret)  # refused
compute(released)  # refused
publish(1.0)  # refused
compute(1.0)  # refused
number: float = secret  # refused
text: Secret[str] = secret  # refused
released.value = 2.0  # refused

class Loud(Secret[float]):  # refused
    pass
"""


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
        "grid/placement.py",
        "lab/seeded_draws.py",
        "lab/baselines/baseline_interface.py",
    ],
)
def test_randomness_has_its_places(module: str) -> None:
    """Noise, simulated customers, random assignment and baselines have modules of their own."""
    assert "TID251" not in ruff(module, BANNED_USES[0])


def test_type_checker_refuses_one_for_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the repository's strict rules mypy flags each line marked so, and no other."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    monkeypatch.chdir(REPOSITORY)
    output, _, status = api.run(
        [
            *("--config-file", "pyproject.toml"),  # its cache too: what `make check` left
            *("--no-error-summary", "--hide-error-context", str(snippet)),
        ]
    )
    assert status == 1, output
    flagged = {int(line) for line in re.findall(r"snippet\.py:(\d+): error", output)}
    marked = {n for n, line in enumerate(SNIPPET.splitlines(), 1) if line.endswith("# refused")}
    assert flagged == marked, output


def ruff(module: str, code: str) -> str:
    """Lint `code` as if it stood in a module of the package, with the repository's rules."""
    return subprocess.run(
        [
            *(Path(sys.executable).with_name("ruff"), "check", "--no-cache"),
            "--output-format=concise",
            *("--stdin-filename", SOURCE / module, "-"),
        ],
        cwd=REPOSITORY,
        input=code,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
