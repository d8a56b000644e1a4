"""Skips are listed with their reasons; one that the machine could have run fails the run."""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SKIPS = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason="PostgreSQL is not installed: ['initdb']")
def test_with_a_database():
    pass

@pytest.mark.skipif(True, reason="WATTVEIL_DATA is not set: no folder of public meter data")
def test_with_data():
    pass
"""
IMPORT_SKIP = """
import pytest

pytest.importorskip("no_such_module", reason="the extra 'none' is not installed")
"""

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def configured(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the plugin and the setting of the repository in an empty folder."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    rules = "\n    ".join(pytester_rules())
    pytester.makeini(f"[pytest]\naddopts = -p tests.skip_report\nallowed_skips =\n    {rules}\n")


def pytester_rules() -> list[str]:
    """Return the reasons that the repository allows."""
    import tomllib  # noqa: PLC0415 - here alone

    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    rules: list[str] = settings["tool"]["pytest"]["allowed_skips"]
    return rules


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_skip_that_could_have_run_fails(
    pytester: pytest.Pytester, processes: tuple[str, ...]
) -> None:
    """Every skip is listed; the one without an allowed reason fails the run, if it is strict."""
    pytester.makepyfile(SKIPS)
    run = pytester.runpytest_subprocess("--strict-skips", *processes)
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    run.stdout.fnmatch_lines(
        [
            "1 NOT ALLOWED: PostgreSQL is not installed: [[]'initdb'[]]",
            "    *::test_with_a_database",
            "1 allowed: WATTVEIL_DATA is not set*",
            "    *::test_with_data",
            "The run fails: *",
        ]
    )


def test_without_the_option_skips_are_listed_alone(pytester: pytest.Pytester) -> None:
    """A developer who runs a folder is not stopped."""
    pytester.makepyfile(SKIPS)
    run = pytester.runpytest_subprocess()
    assert run.ret == pytest.ExitCode.OK
    run.stdout.fnmatch_lines(["1 NOT ALLOWED: PostgreSQL*", "1 allowed: WATTVEIL_DATA*"])


def test_a_module_that_skips_itself_fails(pytester: pytest.Pytester) -> None:
    """Skips of whole modules are no tests, and count too."""
    pytester.makepyfile(IMPORT_SKIP)
    run = pytester.runpytest_subprocess("--strict-skips")
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    run.stdout.fnmatch_lines(["1 NOT ALLOWED: the extra 'none' is not installed"])
