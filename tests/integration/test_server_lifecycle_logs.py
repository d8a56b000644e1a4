"""Log lines of a server process about its start and its stop."""

import json
import logging
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.process_guard import guard, unguard
from wattveil.server.observe.lifecycle_logs import logged_stop


def test_start_and_stop_are_logged(tmp_path: Path) -> None:
    """With version, address, data folder and kind of database; the stop after everything else."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wattveil", "serve", "--data", "server", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        guard(process.pid)
        assert process.stdout is not None
        process.stdout.readline()  # the token
        url = process.stdout.readline().split()[-1]
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=600)
    finally:
        process.kill()
        unguard(process.pid)
    assert process.returncode == 0
    started, *_, stopped = (json.loads(line) for line in (first, *rest.splitlines()))
    folder = str(tmp_path / "server")
    assert (started["message"], started["level"]) == ("server started", "info")
    found = {name: started[name] for name in ("version", "url", "data", "database")}
    assert found == {
        "version": version("wattveil"),
        "url": url,
        "data": folder,
        "database": "sqlite",
    }
    assert (stopped["message"], stopped["data"]) == ("server stopped", folder)


def test_a_server_that_failed_has_not_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An error is reported by its own message."""
    caplog.set_level(logging.INFO)
    with pytest.raises(OSError, match="no space"), logged_stop(tmp_path):
        raise OSError("no space")
    assert not caplog.records
    with pytest.raises(SystemExit), logged_stop(tmp_path):
        raise SystemExit(0)
    with logged_stop(tmp_path):
        pass
    assert [one.message for one in caplog.records] == ["server stopped"] * 2
