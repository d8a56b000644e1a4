"""Nobody waits for what is not used. Counted in modules that are loaded, not in seconds."""

import json
import subprocess
import sys

import pytest
from typer import Typer
from typer.testing import CliRunner

from wattveil import cli

HEAVY = {
    "cryptography",
    "duckdb",
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
        (["admin", "key", "--help"], {"cryptography"}),
        (["profiles", "--help"], {"duckdb", "numpy", "plotly", "pyarrow"}),
    ],
    ids=lambda words: " ".join(sorted(words)),
)
def test_a_verb_loads_what_it_needs(arguments: list[str], needed: set[str]) -> None:
    """`python -m wattveil` answers with the modules of the verb that was asked for alone."""
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
    package, promise = (set(line.split()) for line in run.stdout.splitlines())
    assert not HEAVY & package
    assert "wattveil.privacy.guarantee" in promise - package
    assert not (HEAVY - {"numpy"}) & promise


@pytest.mark.parametrize("group", [cli.app, cli.admin])
def test_every_verb_of_the_list_exists(group: Typer) -> None:
    """Each verb's module is there, with the function, its help and an example."""
    for verb in group.registered_commands:
        names = ["admin"] if group is cli.admin else []
        result = CliRunner().invoke(cli.app, [*names, str(verb.name), "--help"])
        assert result.exit_code == 0, result.output
        words = " ".join(["Example: wattveil", *names, str(verb.name)])
        assert words in " ".join(result.output.split())
        assert verb.short_help
        assert verb.short_help.endswith(".")
