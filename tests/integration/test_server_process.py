"""The server as a process: its first start, its end, and what a kill leaves behind."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import wattveil
from tests.servers import QUICK, put_profiles, registration
from wattveil.errors import ServerRefusalError
from wattveil.publish.verify import verify_bundle
from wattveil.serve.transport import Transport


@dataclass
class Process:
    """A server that somebody started at a terminal."""

    process: subprocess.Popen[str]
    url: str
    token: str | None


@contextmanager
def started(folder: Path) -> Iterator[Process]:
    """Start `wattveil serve`, and kill it at the end unless it has ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wattveil", "serve", "--data", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        token, line = None, process.stdout.readline()
        if found := re.search(r"wattveil_\S+", line):
            token, line = found[0], process.stdout.readline()
        url = re.search(r"http://\S+", line)
        assert url is not None
        yield Process(process, url[0], token)
    finally:
        process.kill()
        process.communicate()


def test_a_server_that_was_killed_finishes_what_was_paid(tmp_path: Path) -> None:
    """First start, token, order, kill -9, second start, the release, a clean end."""
    folder = tmp_path / "server"
    folder.mkdir()
    put_profiles(folder)
    with started(folder) as first:
        assert first.token is not None
        owner = Transport(first.url, first.token)
        owner.post("/v1/admin/datasets", registration("homes.parquet"))
        token = owner.post("/v1/admin/principals", {"name": "ann"})["token"]
        budget = {"allowance": {"epsilon": 1.0, "delta": 1e-6}, "reason": "r", "whose": "ann"}
        owner.post("/v1/admin/datasets/homes/budgets", budget)
        key = {"Idempotency-Key": "k"}
        ordered = Transport(first.url, token).post("/v1/datasets/homes/releases", QUICK, key)
        assert ordered["state"] == "computing"
        first.process.kill()
    with started(folder) as second:
        assert second.token is None  # printed once
        homes = wattveil.connect(second.url, token).dataset("homes")
        before = homes.budget()
        release = homes.release(key="k", **QUICK)
        assert release.id == ordered["id"]
        assert homes.budget() == before
        assert release.table("load_shapes").num_rows == 24
        bundle = release.download(tmp_path / "bundle")
        assert all(finding.holds for finding in verify_bundle(bundle).findings)
        with pytest.raises(ServerRefusalError, match="budget_refused"):
            homes.release(**{**QUICK, "epsilon": 0.99})
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(timeout=20) == 0
