"""The shape of the source: who uses which name, colours of packages, lengths of files."""

import ast
import re
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tools.source_code import code_lines

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "wattveil"
MAX_FILE_LINES = 500


USERS = {
    "reveal": ("privacy", "lab/attacks/filter_attack.py", "lab/reproduce/paper_mechanism.py"),
    "row_function": ("privacy/private_data.py", "release/rows"),
    "RowFunction": ("privacy/private_data.py",),
    "BoundedTotals": ("privacy", "engines/local.py", "engines/spark/spark_rows.py"),
    "BlockSums": ("privacy", "engines/local.py", "engines/spark/spark_rows.py"),
    "ReleasedRows": ("privacy", "release/randomised_labels.py", "lab/audit/replay_audit.py"),
    "Released": ("privacy",),
    "_PERMIT": ("privacy/mechanisms/contributions.py",),
    "IN_AUDIT": ("privacy/private_data.py", "privacy/transcript.py"),
    "release_sums": ("privacy",),
    "release_period": ("privacy",),
    "PeriodSums": ("privacy", "engines/series_rows.py"),
    "PeriodRows": ("privacy", "engines/series_rows.py"),
    "CustomerState": (
        *("privacy", "engines/series_rows.py", "engines/series_state.py"),
        *("engines/series_folder.py", "lab/audit/memory_state.py"),
    ),
    "respond": ("privacy", "release/randomised_labels.py", "lab/baselines", "products/labels.py"),
    "gaussian_answer": (
        *("privacy", "release/instance.py", "products/instance_tier.py"),
        "bundle/manifest.py",  # the name of the mechanism, as a text
    ),
    "modulo_labels": (
        *("privacy", "release/instance.py", "products/instance_tier.py", "bundle/manifest.py"),
    ),
    "BoundRowFunction": (
        *("privacy", "engines/local.py", "engines/series_rows.py"),
        *("engines/spark/spark_rows.py", "release/kmeans.py"),
    ),
    "Secret": ("privacy", "release/instance.py"),
    "charge_gaussian": ("privacy/mechanisms",),
    **dict.fromkeys(
        (
            *("NoiseSource", "is_simulated", "add_discrete_gaussian", "discrete_gaussian"),
            *("uniform_below", "keyed_below", "fresh_bytes", "bernoulli", "check_scale"),
        ),
        ("privacy/mechanisms", "privacy/noise.py", "privacy/transcript.py"),
    ),
}
"""Names of the kernel, each with the modules that may use it."""
UNRESTRICTED = {
    *(
        "Query",
        "PrivateTable",
        "PeriodQuery",
        "PrivatePeriod",
        "NoisyTotals",
        "NoisyAnswer",
        "Ellipsoid",
        "checked_labels",
    ),
    *("Channel", "response_channel", "fresh_key"),
    *("modulo_delta", "modulo_flip", "loss_distribution"),
    "simulate",  # also a package; of `privacy.noise`, to which a contract limits it
}
"""Names of mechanisms that every module may use: they neither add noise nor read rows, except for
`PrivateTable` and `PrivatePeriod`, which charge first."""


@pytest.mark.parametrize("name", USERS)
def test_names_of_the_kernel_are_used_where_they_may_be(name: str) -> None:
    """Import contracts see modules, not names: a re-export would slip past them."""
    used = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if name in names_in(path)
    }
    assert used
    assert not {path for path in used if not path.startswith(USERS[name])}


def test_every_name_of_a_mechanism_is_restricted_or_harmless() -> None:
    """A new public name, such as one that adds noise to a sum, is decided on here."""
    files = [SOURCE / "privacy" / "noise.py", *(SOURCE / "privacy" / "mechanisms").glob("*.py")]
    public = {
        node.name
        for path in files
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert public - set(USERS) == UNRESTRICTED


def test_files_are_short() -> None:
    """No source file is longer than one reader's patience."""
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert not {path: n for path, n in lengths.items() if n > MAX_FILE_LINES}


def test_the_page_lists_every_layer() -> None:
    """docs/architecture.md lists the layers as the contract has them, and every package."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [re.sub(r"[()]", "", layer) for layer in contracts["contracts"][0]["layers"]]
    assert "\n".join(["```text", *layers, "```"]) in page
    table = page.split("## Packages")[1].split("## What the")[0]
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(re.findall(r"`(\w+)`", table)) >= there - {"__init__", "__pycache__", "py"}


COLOURS = {
    "KERNEL": {"privacy"},
    "PRIVATE": {"readings", "profiles", "engines", "release.rows"},
    "JOINT": {"release"},
    "BLIND": {"numerics"},
    "RELEASED": {"products", "bundle", "server"},
    "INTERNAL": {"dossier", "lab", "grid"},
    "PUBLIC": {"simulate", "web"},
}


def test_every_package_states_its_colour() -> None:
    """The first word of a package's docstring is what the package may hold; parts inherit it."""
    for file in SOURCE.glob("**/__init__.py"):
        name = ".".join(file.parent.relative_to(SOURCE).parts)
        if not name or name == "cli" or name.endswith("migrations"):
            continue
        stated = (ast.get_docstring(ast.parse(file.read_text())) or "").split(".")[0]
        holders = {name, ".".join(name.split(".")[:2]), name.split(".")[0]}
        allowed = [colour for colour, packages in COLOURS.items() if packages & holders]
        assert stated in allowed, (name, stated)


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


@cache
def names_in(path: Path) -> set[str]:
    """Return every name a file uses, defines or imports."""
    with path.open("rb") as file:
        return {
            token.string
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.NAME
        }
