"""The script of the scheduled job publishes a quarter once; its status says what happened."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked_commands import PROGRAM
from tests.integration.conftest import talking_to
from wattveil.bundle.published_series import LoadSeries

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "scheduled-job" / "publish_quarter.sh"
PAGE = ROOT / "docs" / "guides" / "scheduled-job.md"
NOTHING_TO_DO, DECIDE, ACTIVE = 0, 4, 75


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a program that has another process fork `wattveil`: a start takes over a second."""
    address = str(tmp_path_factory.mktemp("commands") / "socket")
    with talking_to("forked_commands.py") as tell:
        assert tell({"socket": address}) == {"listening": True}
        yield PROGRAM.format(python=sys.executable, socket=address)


@pytest.fixture
def environment(tmp_path: Path, commands: str) -> dict[str, str]:
    """Return an environment in which `wattveil` is that of the tests."""
    program = tmp_path / "bin" / "wattveil"
    program.parent.mkdir()
    program.write_text(commands)
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


def ran(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder of the test."""
    folder = Path(environment["PATH"].partition(":")[0]).parent
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def job(environment: dict[str, str], today: str) -> tuple[int, str]:
    """Run the script on a day; return its status and what it printed."""
    done = ran(environment, "sh", str(SCRIPT), "job", today)
    return done.returncode, done.stdout + done.stderr


def code_of_page(language: str) -> str:
    """Return the first block of a language."""
    block = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    return block[1]


def test_the_page_publishes_its_quarter(tmp_path: Path, environment: dict[str, str]) -> None:
    """Its commands as they are, for fewer customers; the first quarter needs no decision."""
    typed = code_of_page("console") + code_of_page("sh")
    smaller = typed.replace("--customers 300", "--customers 40").replace(
        "examples/scheduled-job/publish_quarter.sh", str(SCRIPT)
    )
    done = ran(environment, "sh", "-euc", smaller)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(code_of_page("text"))
    assert (tmp_path / "job" / "public" / "2026-Q1" / "manifest.json").is_file()


def test_the_folder_of_the_job_is_required(environment: dict[str, str]) -> None:
    """Without it the script states how it is called."""
    done = ran(environment, "sh", str(SCRIPT))
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "usage")


def test_a_quarter_is_published_once(tmp_path: Path, environment: dict[str, str]) -> None:
    """Not before the readings are complete and a person has decided; then once, whatever fails."""
    typed = code_of_page("console")
    smaller = typed.replace("--customers 300 --days 90", "--customers 40 --days 21")
    assert smaller != typed
    assert ran(environment, "sh", "-euc", smaller).returncode == 0
    folder = tmp_path / "job"
    public, incoming = folder / "public", folder / "incoming"
    complete = incoming / "2026-Q1.complete"
    complete.unlink()

    status, said = job(environment, "2026-04-02")
    assert (status, said) == (NOTHING_TO_DO, "2026-Q1: readings are not complete\n")
    complete.touch()
    status, said = job(environment, "2026-04-02")
    assert status == DECIDE
    assert "warnings in job/work/2026-Q1.json" in said  # days without readings
    series = LoadSeries(folder / "series")
    assert not series.bundles

    (incoming / "2026-Q1.accept-skipped").touch()  # accepts nothing else
    assert job(environment, "2026-04-02")[0] == DECIDE
    (incoming / "2026-Q1.accept-warnings").touch()
    (folder / "work" / "2025-Q4.json").write_text('{\n  "profiles": 81,\n  "columns": 24\n}\n')
    status, said = job(environment, "2026-04-02")
    assert status == DECIDE
    assert "40 profiles, 81 in 2025-Q4" in said
    assert not series.bundles
    (folder / "work" / "2025-Q4.json").write_text('{\n  "profiles": 80,\n  "columns": 24\n}\n')
    status, said = job(environment, "2026-06-30")
    assert status == 0, said
    assert "2026-Q1: released\n2026-Q1: published\n" in said
    bundle, key = str(public / "2026-Q1"), str(tmp_path / "job" / "utility.key.pub")
    assert ran(environment, "wattveil", "verify", bundle, "--key", key).returncode == 0
    assert (public / "2026-Q1" / "manifest.json").stat().st_mode & 0o004
    assert not (tmp_path / "job" / "work" / "2026-Q1.parquet").stat().st_mode & 0o077
    assert job(environment, "2026-05-30") == (0, "2026-Q1: published before\n")

    # A run that was interrupted before its copy: the next one spends nothing and publishes.
    manifest = (public / "2026-Q1" / "manifest.json").read_bytes()
    (public / "2026-Q1").rename(tmp_path / "lost")
    (public / ".2026-Q1").mkdir()
    status, said = job(environment, "2026-05-31")
    assert status == 0, said
    assert "2026-Q1: released before; nothing was spent\n2026-Q1: published\n" in said
    assert "Error" not in said
    assert (public / "2026-Q1" / "manifest.json").read_bytes() == manifest
    assert len(series.bundles) == 1


def test_a_changed_bundle_is_not_published(tmp_path: Path, environment: dict[str, str]) -> None:
    """The status is that of `verify`, and nothing is copied; two runs do not work at once."""
    folder = tmp_path / "job"
    for name in ("incoming", "public", "work"):
        (folder / name).mkdir(parents=True)
    (folder / "incoming" / "2026-Q4.complete").touch()
    status, said = job(environment, "2027-01-15")
    assert status == DECIDE
    assert "2026-Q3 is not published, and would be skipped permanently" in said
    (folder / "incoming" / "2026-Q4.accept-skipped").touch()
    (folder / "incoming" / "2026-Q4.accept-warnings").touch()
    program = tmp_path / "bin" / "wattveil"
    program.write_text('#!/bin/sh\n[ "$2" != verify ] || exit 1\n')
    assert job(environment, "2027-01-15")[0] == 1
    program.write_text("#!/bin/sh\nexit 2\n")
    assert job(environment, "2027-03-31")[0] == 2
    assert not list((folder / "public").iterdir())
    holding = f"exec 9>{folder / 'job.lock'}; flock 9; sh {SCRIPT} job 2027-01-15 9>&-"
    assert ran(environment, "sh", "-c", holding).returncode == ACTIVE


@pytest.mark.parametrize(
    ("today", "period"),
    [
        ("2026-01-01", "2025-Q4"),
        ("2026-03-31", "2025-Q4"),
        ("2026-04-01", "2026-Q1"),
        ("2026-09-30", "2026-Q2"),
        ("2026-10-01", "2026-Q3"),
    ],
)
def test_the_last_whole_quarter(
    tmp_path: Path, environment: dict[str, str], today: str, period: str
) -> None:
    """By the calendar, on the first and the last day of a quarter."""
    (tmp_path / "job").mkdir()
    assert job(environment, today) == (0, f"{period}: readings are not complete\n")
