"""The server as a process: its first start, its end, and what a kill leaves behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import wattveil
from tests.live_server import QUICK, owner_token, put_profiles, registration, serving
from tests.process_guard import guard, unguard
from tests.sample_ledgers import broken
from wattveil.errors import InvalidParameterError, ServerRefusalError
from wattveil.server.client_transport import Transport
from wattveil.server.run import run
from wattveil.server.server_state import ServerState


@dataclass
class Process:
    """A server started at a terminal."""

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
        start_new_session=True,
    )
    try:
        guard(process.pid)
        assert process.stdout is not None
        token, line = None, process.stdout.readline()
        if "wattveil admin token" in line:  # the first start, which prints no token to a pipe
            assert "wattveil_" not in line
            token, line = owner_token(folder), process.stdout.readline()
        url = re.search(r"http://\S+", line)
        assert url is not None
        yield Process(process, url[0], token)
    finally:
        process.kill()
        process.communicate()
        unguard(process.pid)


def helper_of(process: subprocess.Popen[str]) -> int:
    """Return the process that computes for a server; there is one once data are registered."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if f"PPid:\t{process.pid}\n" in status.read_text():
                return int(status.parent.name)
        except OSError:
            continue  # it has ended meanwhile
    raise AssertionError("no helper")


def seconds_of(pid: int) -> float:
    """Return how long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux does")
@pytest.mark.parametrize(
    "told",
    [
        pytest.param(signal.SIGKILL, marks=pytest.mark.long),  # killed too: test_server_crashes
        signal.SIGTERM,
    ],
)
def test_a_server_that_ends_in_a_computation_finishes_it_later(tmp_path: Path, told: int) -> None:
    """First start, token, order, the end while it is computed, second start, the release."""
    folder = tmp_path / "server"
    folder.mkdir(mode=0o755)
    put_profiles(folder)
    with started(folder) as first:
        assert first.token is not None
        owner = Transport(first.url, first.token)
        owner.post("/v1/admin/datasets", registration("homes.parquet"))
        token = owner.post("/v1/admin/principals", {"name": "ann"})["token"]
        budget = {"allowance": {"epsilon": 1.0, "delta": 1e-6}, "reason": "r", "principal": "ann"}
        owner.post("/v1/admin/datasets/homes/budgets", budget)
        helper, ann = helper_of(first.process), Transport(first.url, token)
        number = 0
        while True:  # on a busy machine it may be done before it is stopped
            key, request = f"key-{number}", {**QUICK, "epsilon": 0.05 + number * 1e-6}
            computed = seconds_of(helper)
            given = {"Idempotency-Key": key}
            ordered = ann.post("/v1/datasets/homes/releases", request, given)
            assert ordered["state"] == "computing"
            while seconds_of(helper) < computed + 0.05:
                time.sleep(0.005)
            os.kill(helper, signal.SIGSTOP)  # in the middle of it
            stored = [one for one in (folder / "releases").iterdir() if one.name[0] != "."]
            if len(stored) == number:
                break
            os.kill(helper, signal.SIGCONT)
            number += 1
        for _ in range(3):  # repeated interrupts
            first.process.send_signal(told)
            time.sleep(0.05)
        assert first.process.wait(600) == (0 if told == signal.SIGTERM else -signal.SIGKILL)
        if told == signal.SIGKILL:
            os.kill(helper, signal.SIGCONT)  # it sees that its input has ended
        assert (folder / "ledger.sqlite").stat().st_mode & 0o077 == 0
    with serving(folder, tokens={"owner": first.token, "ann": token}) as second:
        assert second.state.first_admin_token is None  # printed once
        homes = wattveil.connect(second.url, token).dataset("homes")
        before = homes.budget()
        release = homes.release(key=key, **request)
        assert release.id == ordered["id"]
        assert homes.budget() == before
        assert release.to_arrow("load_shapes").num_rows == 24
        assert broken(second.state.ledger) == []
        with pytest.raises(ServerRefusalError, match="budget_refused"):
            homes.release(**{**QUICK, "epsilon": 0.9999})


def is_alive(url: str) -> bool:
    """Whether a server responds."""
    try:
        with urllib.request.urlopen(f"{url}/livez") as answer:  # noqa: S310 - http, of the test
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_terminated_server_releases_all_resources(tmp_path: Path) -> None:
    """SIGTERM: the code of success, no thread of ours left, and the ledger can be opened again."""
    said: list[str] = []
    before = set(threading.enumerate())

    def end_it() -> None:
        while not any("Serving" in line for line in said):
            time.sleep(0.01)
        [url] = re.findall(r"http://[\d.:]+", " ".join(said))
        while not is_alive(url):  # before that, the signal may end any line of other libraries
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    mask = os.umask(0o022)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    told = threading.Thread(target=end_it)
    told.start()
    try:
        with pytest.raises(SystemExit) as ended:
            run(
                tmp_path / "server",
                None,
                host="127.0.0.1",
                port=0,
                tls=(None, None),
                behind_proxy=(),
                echo=said.append,
            )
    finally:
        told.join()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.umask(mask)
    assert ended.value.code == 0
    assert said[0].startswith("Token of owner")
    while not set(threading.enumerate()) <= before:  # the time limit of the test ends it
        time.sleep(0.01)
    with ServerState.open(tmp_path / "server") as state:
        assert state.first_admin_token is None


def test_a_folder_has_one_server(tmp_path: Path) -> None:
    """A second one would clear away what the first one computes; afterwards it may start."""
    with ServerState.open(tmp_path) as state:
        draft = state.bundles.folder / "1-5-draft"
        draft.mkdir()
        with pytest.raises(InvalidParameterError, match="no other server uses"):
            ServerState.open(tmp_path)
        assert draft.is_dir()
    ServerState.open(tmp_path).close()
    assert not draft.exists()


def test_a_helper_ends_with_its_server_whatever_it_is_doing() -> None:
    """Its input ends while a task is under way: it goes at once, and says nothing."""
    helper = subprocess.Popen(
        [sys.executable, "-m", "wattveil.server.jobs.compute_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    said, _ = helper.communicate('{"do": "plan", "request": {}, "grid": {}}\n' * 50, timeout=600)
    assert (helper.returncode, said.count("done") < 50) == (0, True)


def test_warnings_about_rows_are_no_errors_in_a_compute_process() -> None:
    """They depend on rows, so an environment that makes them errors must fail no release."""
    code = "import warnings; from wattveil.server.jobs import compute_child"
    code += "; compute_child._tasks = lambda: [{}]"
    code += "; compute_child.run_task = lambda _: {'shown': warnings.warn('rows')}"
    helper = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}; compute_child.main()"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (helper.returncode, helper.stdout) == (0, '{"shown": null}\n')
