"""Plugin of pytest: list every skip with its reason, and fail on one that should have run.

The setting ``allowed_skips`` holds regular expressions of reasons for which a test may be skipped
anywhere. With ``--strict-skips``, which `make test` gives, any other reason fails the run: the
machine lacks something that `make test` installs.
"""

import re
from collections import defaultdict

import pytest

_PREFIX = "Skipped: "


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the setting."""
    parser.addoption(
        "--strict-skips",
        action="store_true",
        help="fail if a test is skipped for a reason that is not in allowed_skips",
    )
    parser.addini(
        "allowed_skips", type="linelist", help="regular expressions of reasons to skip a test"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that would pass, if a skip is not allowed."""
    config = session.config
    passed = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if passed and config.getoption("--strict-skips") and any(_refused(config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print each reason with its tests."""
    reasons = _skips(config)
    if not reasons:
        return
    refused = _refused(config)
    terminalreporter.section("skipped tests")
    for reason, tests in sorted(reasons.items()):
        mark = "NOT ALLOWED" if reason in refused else "allowed"
        terminalreporter.write_line(f"{len(tests)} {mark}: {reason}")
        for test in sorted(tests):
            terminalreporter.write_line(f"    {test}")
    if refused and config.getoption("--strict-skips"):
        terminalreporter.write_line(
            "The run fails: these tests run where `make test` may install what they need."
            " `make test SKIPS=` tolerates them.",
            red=True,
        )


def _skips(config: pytest.Config) -> dict[str, list[str]]:
    """Return the skipped tests by reason; processes of pytest-xdist report to the first."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    found: dict[str, list[str]] = defaultdict(list)
    for report in reporter.stats.get("skipped", []) if reporter is not None else []:
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        found[reason.removeprefix(_PREFIX)].append(report.nodeid)
    return found


def _refused(config: pytest.Config) -> list[str]:
    """Return the reasons that no regular expression allows."""
    allowed = [re.compile(pattern) for pattern in config.getini("allowed_skips")]
    return [one for one in _skips(config) if not any(rule.search(one) for rule in allowed)]
