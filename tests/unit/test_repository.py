"""Rules of the repository: randomness, coverage, changelog, pins."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.processor_time import slow_tests

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "wattveil"


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


def test_unit_tests_start_no_process() -> None:
    """What starts a process, Spark, a server or a database is an integration test."""
    starts = re.compile(
        r"^\s*(import|from) (subprocess|multiprocessing|playwright|psycopg|pyspark"
        r"|tests\.(live_server|postgres|process_guard|spark_cluster))\b",
        re.MULTILINE,
    )
    tests = list((REPOSITORY / "tests" / "unit").rglob("*.py"))
    assert tests
    assert not [path for path in tests if starts.search(path.read_text())]


def test_no_test_replaces_the_clock_of_the_process() -> None:
    """The event loop of a server that tests share would read it: see `tests.fake_clock`."""
    replaced = re.compile(r"setattr\(\s*(time,|f?[\"'][\w.]*\btime\.)")
    assert replaced.search('patch.setattr(time, "monotonic", f)')
    assert replaced.search('patch.setattr("wattveil.server.access.time.sleep", f)')
    tests = [path for path in (REPOSITORY / "tests").rglob("*.py") if path != Path(__file__)]
    assert tests
    assert not [path for path in tests if replaced.search(path.read_text())]


def test_slow_tests_exist() -> None:
    """A test that was renamed or removed does not stay in the list of slow tests."""
    assert slow_tests()
    for name in slow_tests():
        file, _, function = name.partition("::")
        words = (REPOSITORY / file).read_text()
        last = function.split("::")[-1]
        assert last == "runTest" or f"def {last}(" in words, name


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
    [
        ("base", ["release"]),
        ("dev", ["excel", "grid", "opf", "postgres", "serve", "docs", "dev"]),
    ],
)
def test_pins_are_complete(name: str, extras: list[str]) -> None:
    """Every declared dependency is pinned."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"]]
    for extra in extras:
        declared += project["optional-dependencies"][extra]
    names = {canonicalize_name(Requirement(line).name) for line in declared} - {"wattveil"}
    assert names <= {canonicalize_name(Requirement(line).name) for line in pins(name)}


def pins(name: str) -> set[str]:
    """Return the pinned requirements of one file."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


def test_module_names_are_unique() -> None:
    """A module is found by its name, whatever its folder."""
    names = Counter(
        path.name
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py" and "migrations" not in path.parts
    )
    assert [name for name, count in names.items() if count > 1] == []
