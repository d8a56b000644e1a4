"""Lint rules: a second source of randomness is refused wherever it is planted."""

import subprocess
import sys
from pathlib import Path

import pytest

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
        "grid/placement.py",
        "lab/seeded_draws.py",
        "lab/baselines/baseline_interface.py",
    ],
)
def test_randomness_has_its_places(module: str) -> None:
    """Noise, simulated customers, random assignment and baselines have modules of their own."""
    assert "TID251" not in ruff(module, BANNED_USES[0])


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
