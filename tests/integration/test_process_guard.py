"""Processes that tests start end with the tests, even if these are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.postgres import require_postgres

REPOSITORY = Path(__file__).parents[2]
GROUP = """
import subprocess, sys
from tests.process_guard import guard, unguard
command = ["sh", "-c", "sleep 100000 & echo $!; wait"]
kept, ended = (
    subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) for _ in range(2)
)
guard(kept.pid)
guard(ended.pid)
unguard(ended.pid)
print(kept.pid, int(kept.stdout.readline()), ended.pid, int(ended.stdout.readline()), flush=True)
sys.stdin.read()
"""
DATABASE = """
import sys
from tests.postgres import postgres_server
with postgres_server() as server:
    print(server._process.pid, flush=True)
    sys.stdin.read()
"""


@contextmanager
def script(code: str) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """Run a script; yield it and the numbers of the processes that it started."""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    ) as process:
        assert process.stdout is not None
        yield process, [int(word) for word in process.stdout.readline().split()]
        process.kill()


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for_end_of(pid: int) -> None:
    """Wait until a process has ended; the timeout of the test is the limit."""
    while is_running(pid):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_guarded_groups_end_with_the_process(number: signal.Signals) -> None:
    """Whatever ends it; a group that was released from the guard is left alone."""
    with script(GROUP) as (process, (kept, of_kept, ended, of_ended)):
        process.send_signal(number)
        process.wait()
        wait_for_end_of(kept)
        wait_for_end_of(of_kept)
        assert is_running(of_ended)
        os.killpg(ended, signal.SIGKILL)


def test_a_killed_run_leaves_no_database() -> None:
    """PostgreSQL ends with the tests that started it."""
    require_postgres()
    with script(DATABASE) as (process, (server,)):
        process.kill()
        process.wait()
        wait_for_end_of(server)
