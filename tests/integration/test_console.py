"""Commands in processes of their own: the modules that each loads, and missing extras."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "cryptography",
    "duckdb",
    "httpx",
    "numba",
    "numpy",
    "opendp",
    "plotly",
    "pyarrow",
    "scipy",
    "sklearn",
}


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["--help"], set()),
        (["--version"], set()),
        (["admin", "--help"], set()),
        (["admin", "key", "--help"], set()),
        (["profiles", "--help"], {"duckdb", "numpy", "plotly", "pyarrow"}),
    ],
    ids=lambda words: " ".join(sorted(words)),
)
def test_a_command_loads_what_it_needs(arguments: list[str], needed: set[str]) -> None:
    """`python -m wattveil` imports only the modules of the requested command."""
    code = f"""
import atexit, json, runpy, sys
atexit.register(lambda: print(json.dumps([name for name in sys.modules if "." not in name])))
sys.argv = ["wattveil", *{arguments}]
runpy.run_module("wattveil", run_name="__main__")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(json.loads(run.stdout.splitlines()[-1])) == needed
    assert "wattveil" in run.stdout.splitlines()[0] + run.stdout.splitlines()[1]


def test_the_package_loads_names_one_by_one() -> None:
    """`import wattveil` loads no library, and a name what that name needs."""
    code = """
import sys
import wattveil
print(*sorted(sys.modules))
wattveil.Guarantee
print(*sorted(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package, guarantee = (set(line.split()) for line in run.stdout.splitlines())
    assert not HEAVY & package
    assert "wattveil.privacy.guarantee" in guarantee - package
    assert not (HEAVY - {"numpy"}) & guarantee


def test_command_exists_in_the_shell() -> None:
    """Run as a program without a command, it prints its help."""
    code = "from wattveil.cli import app; app()"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "demo" in result.stdout + result.stderr


def test_without_the_extra_the_command_names_what_to_install(tmp_path: Path) -> None:
    """The command line starts without SQLAlchemy, and the command names the extra."""
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from wattveil.cli import app\n"
        "app(['admin', 'ledger', 'audit'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert result.returncode == 1
    assert 'pip install "wattveil[serve]"' in result.stderr


def test_completion_works_in_bash(tmp_path: Path) -> None:
    """Commands and their options are completed; there are scripts for zsh and fish as well."""
    program = tmp_path / "wattveil"
    program.write_text(f"#!{sys.executable}\nfrom wattveil.cli import app\napp()\n")
    program.chmod(0o700)
    script = """
    eval "$(_WATTVEIL_COMPLETE=source_bash wattveil)"
    complete_words() {
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _wattveil_completion wattveil
        echo "${COMPREPLY[@]}"
    }
    complete_words wattveil re
    complete_words wattveil admin key --o
    _WATTVEIL_COMPLETE=source_zsh wattveil | grep -c compdef
    _WATTVEIL_COMPLETE=source_fish wattveil | grep -c 'complete --command wattveil'
    """
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-euo", "pipefail", "-c", script],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands, options, zsh, fish = done.stdout.splitlines()
    assert commands.split() == ["release", "reproduce"]
    assert options == "--out"
    assert int(zsh) > 0
    assert int(fish) > 0


@pytest.mark.parametrize(
    "arguments",
    [["--help"], pytest.param(["release", "--help"], marks=pytest.mark.long), ["verify", "bundle"]],
)
def test_a_closed_pipe_ends_the_command_quietly(arguments: list[str], tmp_path: Path) -> None:
    """As other programs do when `head` has read enough: no message, and the code of SIGPIPE."""
    accepted = (
        "from wattveil.bundle.verify.verify_bundle import VerificationReport\n"
        "from wattveil.cli import bundles\n"
        "guarantee = {'epsilon': '1', 'delta': '1e-6', 'unit': 'customer', 'tier': 'global'}\n"
        "bundles.read_manifest = lambda _: {'guarantee': guarantee}\n"
        "bundles.verify_bundle = lambda *_, **__: VerificationReport(findings=(), not_proved=())\n"
    )
    code = (
        f"{accepted if 'verify' in arguments else ''}from wattveil.cli import app\napp({arguments})"
    )
    reading, writing = os.pipe()
    os.close(reading)  # before anything is written
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
            cwd=tmp_path,
        )
    assert (done.returncode, done.stderr) == (141, b"")
